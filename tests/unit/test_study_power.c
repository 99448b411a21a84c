// SPDX-License-Identifier: Apache-2.0
/*
 * What the judgements of src/study are worth: false alarms over runs that differ by noise alone, and
 * power over runs with a planted difference, both counted over seeded runs. Prints the rates that
 * docs/compare.md quotes and holds them to bounds.
 */
#include <stdio.h>

#include "study/bisect.h"
#include "study/contrast.h"
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

/* ---- contrasts and searches ---- */

/* Share of experiments of n trials a route whose outcome is `outcome`. */
static double outcomes(double base, double route, int n, enum contrast_outcome outcome)
{
    struct stats_random r;
    stats_random_seed(&r, 11);
    double share = 0;
    for (int t = 0; t < 10 * TRIALS; t++) {
        uint64_t failed[2] = {0};
        for (int i = 0; i < n; i++) {
            failed[0] += stats_random_unit(&r) < base;
            failed[1] += stats_random_unit(&r) < route;
        }
        struct contrast c;
        contrast_of(failed[0], (uint64_t)n, failed[1], (uint64_t)n, &c);
        share += c.outcome == outcome ? 0.1 / TRIALS : 0;
    }
    return share;
}

static void test_contrasts(void **state)
{
    (void)state;

    static const struct {
        double base, route;
        int n;
        double least, most;
    } rows[] = {
        {1, 0, 4, 0.99, 1},      {1, 0, 3, 0, 0.01},      {0.8, 0, 8, 0.9, 1},
        {0.5, 0, 12, 0.8, 1},    {0.2, 0, 30, 0.5, 1},    {0.8, 0.8, 8, 0, 0.05},
        {0.5, 0.5, 12, 0, 0.05}, {0.2, 0.2, 30, 0, 0.05},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        double share = outcomes(rows[i].base, rows[i].route, rows[i].n, CONTRAST_PASSES);
        printf(
            "contrast, %d trials each, failure rates %.1f and %.1f: \"fails less often\" in %.3f\n",
            rows[i].n, rows[i].base, rows[i].route, share);
        assert_true(share >= rows[i].least && share <= rows[i].most);
    }
}

/* 20 positions, the fault begins at `begins` and fails at `rate`. */
static void search(double rate, uint64_t repeats, double *ret_right, double *ret_trials,
                   double *ret_risk)
{
    struct arena *arena = arena_new(0);
    struct stats_random r;
    stats_random_seed(&r, 17);
    *ret_right = *ret_trials = *ret_risk = 0;
    for (int t = 0; t < TRIALS; t++) {
        struct arena_mark mark = arena_mark(arena);
        size_t begins = 1 + stats_random_below(&r, 19);
        struct bisect b;
        size_t at;
        enum bisect_state state;
        bisect_begin(arena, 20, repeats, &b);
        while ((state = bisect_next(&b, &at)) == BISECT_GOING) {
            bisect_take(&b, at, at >= begins && stats_random_unit(&r) < rate);
            *ret_trials += 1.0 / TRIALS;
        }
        *ret_right += state == BISECT_FOUND && b.high == begins ? 1.0 / TRIALS : 0;
        *ret_risk += state == BISECT_FOUND ? bisect_risk(&b) / TRIALS : 0;
        arena_rewind(arena, mark);
    }
    arena_free(arena);
    printf("search over 20 positions, failure rate %.1f, %d repeats: right in %.3f, %.0f trials\n",
           rate, (int)repeats, *ret_right, *ret_trials);
}

static void test_searches(void **state)
{
    (void)state;
    double right;
    double trials;
    double risk;
    search(1, 1, &right, &trials, &risk);
    assert_true(right >= 0.999);
    search(0.5, 6, &right, &trials, &risk);
    assert_true(right >= 0.9);
    assert_true(1 - right <= risk); /* the bound is one */
    search(0.5, 2, &right, &trials, &risk);
    assert_true(right <= 0.9); /* and is needed */
    assert_true(1 - right <= risk + 0.3);
    search(0.3, 12, &right, &trials, &risk);
    assert_true(right >= 0.9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_false_alarms), cmocka_unit_test(test_power),
        cmocka_unit_test(test_coverage),     cmocka_unit_test(test_contrasts),
        cmocka_unit_test(test_searches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
