// SPDX-License-Identifier: Apache-2.0
/* Periods where the size of the noise changes: a loss that falls by orders of magnitude has most of it in front. */
#include <math.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_that_shrinks_has_no_period),
        cmocka_unit_test(a_wave_is_found_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
