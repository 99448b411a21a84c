// SPDX-License-Identifier: Apache-2.0
/* Periods where the size of the noise changes: a loss that falls by orders of magnitude has most of it in front. */
#include <math.h>
#include <string.h>

#include "study/period.h"
#include "study/stats.h"
#include "unit.h"

enum {
    VALUES = 300,
    SEEDS = 200
};

static double normal(struct stats_random *r)
{
    double sum = 0;
    for (int i = 0; i < 12; i++) {
        sum += (double)stats_random_below(r, 1 << 20) / (1 << 20);
    }
    return sum - 6;
}

/* Of SEEDS series, those with a period. `decay`: steps in which level and noise fall by e; `wave`: of the noise. */
static int found(double decay, double wave)
{
    struct arena *scratch = arena_new(0);
    int count = 0;
    for (int seed = 1; seed <= SEEDS; seed++) {
        struct stats_random r;
        double values[VALUES];
        struct period p;
        stats_random_seed(&r, (uint64_t)seed);
        for (int i = 0; i < VALUES; i++) {
            double scale = exp(-i / decay);
            values[i] = 4 * scale + scale * (normal(&r) + wave * sin(i * 2 * M_PI / 12));
        }
        count += period_find(scratch, values, VALUES, 0.3, &p);
    }
    arena_free(scratch);
    return count;
}

static void noise_that_shrinks_has_no_period(void **state)
{
    (void)state;
    assert_true(found(1e9, 0) <= 2);
    assert_true(found(60, 0) <= 2);
    assert_true(found(30, 0) <= 2);
}

static void a_wave_is_found_all_the_same(void **state)
{
    (void)state;
    assert_true(found(1e9, 2) >= SEEDS - 2);
    assert_true(found(300, 2) >= SEEDS - 10);
}

/* Slowly varying noise now and then looks like a wave of few periods: seen in 5 of 2,000 series. */
static void noise_seldom_has_a_period(void **state)
{
    (void)state;
    struct arena *scratch = arena_new(0);
    struct stats_random random;
    stats_random_seed(&random, 12345);
    double values[1000];
    struct period p;
    int count = 0;
    for (int round = 0; round < 400; round++) {
        double memory = 0;
        for (size_t i = 0; i < ARRAY_LEN(values); i++) {
            memory = 0.9 * memory + stats_random_normal(&random);
            values[i] = memory;
        }
        count += period_find(scratch, values, ARRAY_LEN(values), 0.3, &p);
    }
    assert_in_range(count, 0, 4);
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
        cmocka_unit_test(noise_that_shrinks_has_no_period),
        cmocka_unit_test(a_wave_is_found_all_the_same),
        cmocka_unit_test(noise_seldom_has_a_period),
        cmocka_unit_test(period_sources_by_exactness),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
