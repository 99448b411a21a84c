// SPDX-License-Identifier: Apache-2.0
/* Runs that become slower on their way, and evaluations that are noise. */
#include <math.h>

#include "study/loss_judge.h"
#include "study/stats.h"
#include "study/step_time.h"
#include "study_support.h"
#include "unit.h"

static struct arena *arena;

static int begin(void **state)
{
    (void)state;
    arena = arena_new(0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

/* Long steps that follow each other are no pauses: the run has become slower, and its time per step says so. */
static void test_a_run_that_became_slower_is_not_paused(void **state)
{
    (void)state;
    struct run_log log;
    struct made_run m = MADE_RUN;
    make_run(arena, &m, 1, &log);
    double t = 7;
    for (size_t i = 0; i < log.loss.count; i++) {
        log.loss.items[i].time = t;
        t += i < 60 ? 0.5 : 0.8;
    }
    struct step_time s;
    step_time_of(arena, &log, &s);
    assert_int_equal(s.pauses, 0);
    near_to(s.slow_seconds, 0.8, 1e-6);
    assert_true(s.seconds > 0.6);
}

/* The lowest of many noisy evaluations is no turning point, and a loss that rises as well is no over-fitting. */
static void test_noise_of_evaluations_is_no_over_fitting(void **state)
{
    (void)state;
    struct run_log log = {0};
    struct over_fitting o;
    struct stats_random random;
    stats_random_seed(&random, 7);
    for (int i = 0; i < 200; i++) {
        double noise = 0;
        for (int k = 0; k < 12; k++) {
            noise += (double)stats_random_below(&random, 1000) / 1000 - 0.5;
        }
        double loss = 2 - 0.002 * i;
        *VEC_PUSH(arena, &log.loss) = (struct curve_point){.step = i, .value = loss, .time = NAN};
        *VEC_PUSH(arena, &log.eval_loss) = (struct curve_point){
            .step = i, .value = 1.8 + (i < 150 ? -0.001 * i : -0.15) + 0.03 * noise, .time = NAN};
    }
    loss_over_fitting(arena, &log, &o);
    assert_false(o.present);
    for (size_t i = 100; i < 200; i++) {
        log.loss.items[i].value += 0.5;
        log.eval_loss.items[i].value += 0.5;
    }
    loss_over_fitting(arena, &log, &o);
    assert_false(o.present);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_run_that_became_slower_is_not_paused, begin, end),
        cmocka_unit_test_setup_teardown(test_noise_of_evaluations_is_no_over_fitting, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
