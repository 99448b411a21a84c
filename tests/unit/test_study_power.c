// SPDX-License-Identifier: Apache-2.0
/*
 * What the judgements of src/study are worth: false alarms over runs that differ by noise alone, and
 * power over runs with a planted difference, both counted over seeded runs. Prints the rates that
 * docs/compare.md quotes and holds them to bounds.
 */
#include <stdio.h>

#include "study/loss_judge.h"
#include "study/ratio.h"
#include "study_support.h"
#include "unit.h"

enum {
    TRIALS = 400
};

struct rates {
    double same, open, different;
};

/* na runs of `a` against nb of `b`, TRIALS times. */
static struct rates rates_of(const struct made_run *a, size_t na, const struct made_run *b,
                             size_t nb)
{
    struct arena *arena = arena_new(0);
    struct rates r = {0};
    for (uint64_t t = 0; t < TRIALS; t++) {
        struct arena_mark mark = arena_mark(arena);
        struct run_log logs[8];
        const struct run_log *pa[4];
        const struct run_log *pb[4];
        for (size_t i = 0; i < na; i++) {
            make_run(arena, a, t * 16 + i, &logs[i]);
            pa[i] = &logs[i];
        }
        for (size_t i = 0; i < nb; i++) {
            make_run(arena, b, t * 16 + 8 + i, &logs[na + i]);
            pb[i] = &logs[na + i];
        }
        struct loss_judgement j;
        loss_judge(arena, pa, na, pb, nb, &j);
        r.same += j.grade == LOSS_SAME ? 1.0 / TRIALS : 0;
        r.open += j.grade == LOSS_OPEN ? 1.0 / TRIALS : 0;
        r.different += j.grade == LOSS_DIFFERENT ? 1.0 / TRIALS : 0;
        arena_rewind(arena, mark);
    }
    arena_free(arena);
    return r;
}

static struct rates show(const char *what, const struct made_run *a, size_t na,
                         const struct made_run *b, size_t nb)
{
    struct rates r = rates_of(a, na, b, nb);
    printf("%-52s %zu against %zu, %4d steps: same %.3f, could not tell %.3f, different %.3f\n",
           what, na, nb, b->steps, r.same, r.open, r.different);
    return r;
}

static void test_false_alarms(void **state)
{
    (void)state;
    struct made_run m = MADE_RUN;
    assert_true(show("noise alone", &m, 3, &m, 1).different <= 0.03);
    assert_true(show("noise alone", &m, 3, &m, 3).different <= 0.03);
    assert_true(show("noise alone", &m, 1, &m, 1).different <= 0.01);
    m.steps = 500;
    assert_true(show("noise alone", &m, 3, &m, 1).different <= 0.03);
    m.every = 10;
    assert_true(show("noise alone, logged every 10 steps", &m, 3, &m, 1).different <= 0.03);
    m.every = 1;
    m.memory = 0.98;
    assert_true(show("noise that lasts (50 steps)", &m, 3, &m, 1).different <= 0.06);
    assert_true(show("noise that lasts (50 steps)", &m, 1, &m, 1).different <= 0.10);
    m = MADE_RUN;
    m.path = 0;
    m.parts_at = 1000;
    assert_true(show("rounding alone", &m, 3, &m, 1).different == 0);
}

static void test_power(void **state)
{
    (void)state;
    struct made_run a = MADE_RUN;
    struct made_run b = a;
    b.scale = 1.01;
    assert_true(show("loss 1 % higher once parted", &a, 3, &b, 3).different >= 0.9);
    b.scale = 1.02;
    assert_true(show("loss 2 % higher once parted", &a, 3, &b, 1).different >= 0.9);
    assert_true(show("loss 2 % higher once parted", &a, 1, &b, 1).same <= 0.02);
    b.scale = 0.98;
    assert_true(show("loss 2 % lower once parted", &a, 3, &b, 1).different >= 0.9);
    b.scale = 1;
    b.slope = 0.05;
    assert_true(show("slowly worse, 5 % at the end", &a, 3, &b, 1).different >= 0.95);
    b.slope = 0;
    b.first = 1.01;
    assert_true(show("first step 1 % off", &a, 1, &b, 1).different >= 0.999);
}

/* ---- intervals of ratios ---- */

static void make_steps(struct stats_random *r, double mean, double memory, size_t n, double *v)
{
    double noise = stats_random_normal(r);
    for (size_t i = 0; i < n; i++) {
        noise = memory * noise + sqrt(1 - memory * memory) * stats_random_normal(r);
        v[i] = mean * (1 + 0.03 * noise);
    }
}

static double coverage(size_t n, double memory, bool runs, double truth)
{
    struct arena *arena = arena_new(0);
    struct stats_random r;
    stats_random_seed(&r, 5);
    double covered = 0;
    for (int t = 0; t < TRIALS; t++) {
        struct arena_mark mark = arena_mark(arena);
        double *va = arena_array(arena, n, sizeof *va);
        double *vb = arena_array(arena, n, sizeof *vb);
        struct ratio ratio;
        make_steps(&r, 2.0, memory, n, va);
        make_steps(&r, 2.0 * truth, memory, n, vb);
        if (runs) {
            ratio_of_runs(arena, va, n, vb, n, &ratio);
        } else {
            ratio_of_steps(arena, va, n, vb, n, &ratio);
        }
        covered += ratio.low <= truth && truth <= ratio.high ? 1.0 / TRIALS : 0;
        arena_rewind(arena, mark);
    }
    arena_free(arena);
    printf("ratio over %zu %s%s: the 95 %% interval holds the truth in %.3f\n", n,
           runs ? "runs" : "steps", memory > 0 ? " whose noise lasts" : "", covered);
    return covered;
}

static void test_coverage(void **state)
{
    (void)state;
    assert_true(coverage(3, 0, true, 1.25) >= 0.92);
    assert_true(coverage(5, 0, true, 0.8) >= 0.92);
    assert_true(coverage(100, 0, false, 1.1) >= 0.90);
    assert_true(coverage(400, 0.5, false, 1.1) >= 0.85);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_false_alarms),
        cmocka_unit_test(test_power),
        cmocka_unit_test(test_coverage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
