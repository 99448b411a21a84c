// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "study/period.h"
#include "study/stats.h"
#include "unit.h"

/* Slowly varying noise now and then looks like a wave of few periods: seen in 5 of 2,000 series. */
static void noise_seldom_has_a_period(void **state)
{
    (void)state;
    struct arena *scratch = arena_new(0);
    struct stats_random random;
    stats_random_seed(&random, 12345);
    double values[1000];
    struct period p;
    int found = 0;
    for (int round = 0; round < 400; round++) {
        double memory = 0;
        for (size_t i = 0; i < ARRAY_LEN(values); i++) {
            memory = 0.9 * memory + stats_random_normal(&random);
            values[i] = memory;
        }
        found += period_find(scratch, values, ARRAY_LEN(values), 0.3, &p);
    }
    assert_in_range(found, 0, 4);
    assert_false(period_find(scratch, values, PERIOD_VALUES_MIN - 1, 0.3, &p));
    memset(values, 0, sizeof values);
    assert_false(period_find(scratch, values, ARRAY_LEN(values), 0.3, &p));
    arena_free(scratch);
}

static void period_sources_by_exactness(void **state)
{
    (void)state;
    static const struct period_source sources[] = {{"a", 100}, {"b", 50}, {"c", 8}};
    unsigned times;
    unsigned of;
    assert_string_equal(period_explain(sources, 3, 50, 1, &times, &of)->name, "b");
    assert_int_equal(times * 10 + of, 11);
    assert_string_equal(period_explain(sources, 3, 300, 1, &times, &of)->name, "a");
    assert_int_equal(times, 3);
    assert_string_equal(period_explain(sources, 3, 4, 1, &times, &of)->name, "c");
    assert_int_equal(of, 2);
    assert_null(period_explain(sources, 3, 37, 1, &times, &of));
    assert_null(period_explain(sources, 0, 37, 1, &times, &of));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_seldom_has_a_period),
        cmocka_unit_test(period_sources_by_exactness),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
