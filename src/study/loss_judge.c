// SPDX-License-Identifier: Apache-2.0
/* See loss_judge.h. Runs of A are 0 .. na - 1 of the aligned curves, those of B follow. */
#include "study/loss_judge.h"

#include <math.h>

#include "study/loss_align.h"
#include "study/stats.h"

enum {
    POINTS_MIN = 5,    /* fewer common steps are no trajectory */
    DRIFT_WINDOWS = 5, /* fewer windows have no drift */
    NEIGHBOURS = 2     /* windows on each side that the spread is pooled over */
};

struct judging {
    struct arena *arena;
    struct aligned loss;
    struct aligned_window *windows;
    size_t window_count;
    size_t na, nb;
    struct loss_judgement *j;
};

static double relative(double a, double b)
{
    return (b - a) / (fabs(a) > 0 ? fabs(a) : 1);
}

/* Within the first limit, beyond the second, or between. NaN is beyond. */
static enum loss_grade grade_of(double size, double pass, double fail)
{
    if (size <= pass) {
        return LOSS_SAME;
    }
    return size <= fail ? LOSS_OPEN : LOSS_DIFFERENT;
}

static void gather(struct arena *a, const struct run_log *const *run_a, size_t na,
                   const struct run_log *const *run_b, size_t nb,
                   const struct curve *(*curve)(const struct run_log *), struct aligned *ret)
{
    const struct curve **all = arena_array(a, na + nb, sizeof *all);
    for (size_t i = 0; i < na; i++) {
        all[i] = curve(run_a[i]);
    }
    for (size_t i = 0; i < nb; i++) {
        all[na + i] = curve(run_b[i]);
    }
    loss_align(a, all, na + nb, ret);
}

static const struct curve *loss_curve(const struct run_log *l)
{
    return &l->loss;
}

static const struct curve *grad_curve(const struct run_log *l)
{
    return &l->grad_norm;
}

static const struct curve *eval_curve(const struct run_log *l)
{
    return &l->eval_loss;
}

/* ---- level B and single steps ---- */

static bool starts_at(const struct run_log *const *runs, size_t n, int64_t step)
{
    for (size_t i = 0; i < n; i++) {
        if (runs[i]->loss.count == 0 || runs[i]->loss.items[0].step != step) {
            return false;
        }
    }
    return true;
}

/* Spread of A's own values at an index; 0 without enough runs. */
static double spread_at(const struct judging *g, size_t i)
{
    double v[64];
    size_t n = g->na < ARRAY_LEN(v) ? g->na : ARRAY_LEN(v);
    for (size_t r = 0; r < n; r++) {
        v[r] = g->loss.values[r * g->loss.count + i];
    }
    return g->na >= LOSS_NULL_RUNS ? stats_sd(v, n) : 0;
}

static void judge_first(struct judging *g, const struct run_log *const *run_a,
                        const struct run_log *const *run_b)
{
    struct loss_judgement *j = g->j;
    j->first_a = aligned_mean(&g->loss, 0, g->na, 0);
    j->first_b = aligned_mean(&g->loss, g->na, g->na + g->nb, 0);
    j->first_relative = relative(j->first_a, j->first_b);
    if (!starts_at(run_a, g->na, j->first_step) || !starts_at(run_b, g->nb, j->first_step)) {
        return; /* not the first step of every run: the weights are no longer equal */
    }
    double size = fabs(j->first_relative);
    double noise = 3 * spread_at(g, 0) / fabs(j->first_a);
    j->first_grade = grade_of(size, fmax(LOSS_FIRST_PASS, noise), fmax(LOSS_FIRST_FAIL, noise));
    struct aligned grad;
    gather(g->arena, run_a, g->na, run_b, g->nb, grad_curve, &grad);
    if (grad.count > 0 && grad.steps[0] == j->first_step) {
        j->grad_a = aligned_mean(&grad, 0, g->na, 0);
        j->grad_b = aligned_mean(&grad, g->na, g->na + g->nb, 0);
        j->grad_relative = relative(j->grad_a, j->grad_b);
        j->grad_grade = grade_of(fabs(j->grad_relative), LOSS_GRAD_PASS, LOSS_GRAD_FAIL);
    }
    j->level_b = j->grad_grade > j->first_grade ? j->grad_grade : j->first_grade;
}

static void find_parting(struct judging *g)
{
    struct loss_judgement *j = g->j;
    j->equal = true;
    j->a_repeats = g->na >= 2;
    for (size_t i = 0; i < g->loss.count; i++) {
        double first = g->loss.values[i];
        bool equal = true;
        for (size_t r = 1; r < g->na + g->nb; r++) {
            equal = equal && g->loss.values[r * g->loss.count + i] == first;
            j->a_repeats = j->a_repeats && (equal || r >= g->na);
        }
        if (!equal && j->first_difference < 0) {
            j->first_difference = g->loss.steps[i];
        }
        j->equal = j->equal && equal;
        double middle = aligned_mean(&g->loss, 0, g->na, i);
        for (size_t r = 0; r < g->na; r++) {
            double own = relative(middle, g->loss.values[r * g->loss.count + i]);
            j->a_parts = j->a_parts || fabs(own) > LOSS_FIRST_FAIL / 2;
        }
        double size = fabs(relative(middle, aligned_mean(&g->loss, g->na, g->na + g->nb, i)));
        if (size > LOSS_FIRST_FAIL && j->parted < 0) {
            j->parted = g->loss.steps[i];
        } else if (j->parted < 0 && size > j->before_parting) {
            j->before_parting = size;
        }
    }
}

/* ---- level C ---- */

static double mean_over(const struct judging *g, size_t from, size_t to, struct aligned_window w)
{
    double sum = 0;
    for (size_t r = from; r < to; r++) {
        sum += aligned_window_mean(&g->loss, r, w);
    }
    return sum / (double)(to - from);
}

/* Variance between the runs of A of one window's mean. */
static double variance_of(const struct judging *g, struct aligned_window w)
{
    double mean = mean_over(g, 0, g->na, w);
    double sum = 0;
    for (size_t r = 0; r < g->na; r++) {
        double d = aligned_window_mean(&g->loss, r, w) - mean;
        sum += d * d;
    }
    return sum / (double)(g->na - 1);
}

/* Sigma of window i, pooled over its neighbours: the spread grows along the run, so not over all. */
static double sigma_of(const struct judging *g, size_t i, double *ret_dof)
{
    size_t from = i > NEIGHBOURS ? i - NEIGHBOURS : 0;
    size_t to = i + NEIGHBOURS + 1 < g->window_count ? i + NEIGHBOURS + 1 : g->window_count;
    double sum = 0;
    for (size_t w = from; w < to; w++) {
        sum += variance_of(g, g->windows[w]);
    }
    /* Neighbours of one run are alike: a second window tells about half as much as the first. */
    *ret_dof = (double)(g->na - 1) * (1 + 0.5 * (double)(to - from - 1));
    return sqrt(sum / (double)(to - from));
}

static void judge_window(struct judging *g, size_t i)
{
    struct loss_judgement *j = g->j;
    struct loss_window *w = &j->windows[i];
    struct aligned_window at = g->windows[i];
    *w = (struct loss_window){.from = g->loss.steps[at.begin],
                              .to = g->loss.steps[at.end - 1],
                              .mean_a = mean_over(g, 0, g->na, at),
                              .mean_b = mean_over(g, g->na, g->na + g->nb, at)};
    double size = fabs(w->mean_b - w->mean_a);
    double floor = LOSS_WINDOW_PASS * fabs(w->mean_a);
    double sigma = NAN;
    double multiple = NAN;
    w->limit = floor;
    if (j->by_null) {
        double dof;
        sigma = sigma_of(g, i, &dof) * sqrt(1 / (double)g->na + 1 / (double)g->nb);
        multiple = stats_t_quantile(1 - 0.5 * LOSS_FALSE_ALARM / (double)g->window_count, dof);
        multiple = multiple > 3 ? multiple : 3;
        w->limit = fmax(floor, multiple * sigma);
    }
    const struct loss_window *worst = &j->windows[j->worst];
    if (i == 0 || size / w->limit > fabs(worst->mean_b - worst->mean_a) / worst->limit) {
        j->worst = i;
        j->sigma = sigma;
        j->multiple = multiple;
    }
    bool beyond = !(size <= w->limit);
    double fail = j->by_null ? w->limit : LOSS_WINDOW_FAIL * fabs(w->mean_a);
    enum loss_grade grade = grade_of(size, w->limit, fail);
    j->windows_beyond += beyond;
    j->level_c = grade > j->level_c ? grade : j->level_c;
}

/* Spread of A's means over the whole run, relative to the loss. */
static double run_mean_spread(const struct judging *g)
{
    double v[64];
    size_t n = g->na < ARRAY_LEN(v) ? g->na : ARRAY_LEN(v);
    for (size_t r = 0; r < n; r++) {
        v[r] = stats_mean(g->loss.values + r * g->loss.count, g->loss.count);
    }
    return stats_sd(v, n) / fabs(stats_mean(v, n));
}

/*
 * Signed drift. Windows after the parting are alike one to the next, so their number is brought down
 * by the autocorrelation: n (1 - rho) / (1 + rho).
 */
static void judge_drift(struct judging *g)
{
    struct loss_judgement *j = g->j;
    size_t n = j->window_count;
    if (n < DRIFT_WINDOWS) {
        return;
    }
    double *d = arena_array(g->arena, n, sizeof *d);
    for (size_t i = 0; i < n; i++) {
        d[i] = relative(j->windows[i].mean_a, j->windows[i].mean_b);
    }
    double mean = stats_mean(d, n);
    double sd = stats_sd(d, n);
    double product = 0;
    for (size_t i = 1; i < n; i++) {
        product += (d[i] - mean) * (d[i - 1] - mean);
    }
    double rho = sd > 0 ? product / ((double)(n - 1) * sd * sd) : 0;
    rho = rho > 0 ? rho : 0;
    double independent = fmax(3, (double)n * (1 - rho) / (1 + rho));
    double limit = stats_t_quantile(0.99865, independent - 1) * sd / sqrt(independent);
    if (j->by_null) {
        limit = fmax(limit, 3 * run_mean_spread(g) * sqrt(1 / (double)g->na + 1 / (double)g->nb));
    }
    j->drift = mean;
    j->drift_limit = fmax(limit, LOSS_DRIFT_FLOOR);
    j->drift_grade = grade_of(fabs(j->drift), j->drift_limit,
                              j->by_null ? j->drift_limit : fmax(j->drift_limit, LOSS_WINDOW_PASS));
}

/* ---- evaluation ---- */

static void judge_eval(struct judging *g, const struct run_log *const *run_a,
                       const struct run_log *const *run_b)
{
    struct loss_judgement *j = g->j;
    struct aligned eval;
    gather(g->arena, run_a, g->na, run_b, g->nb, eval_curve, &eval);
    j->eval_common = eval.count;
    double variance = 0;
    for (size_t i = 0; i < eval.count; i++) {
        double mean = aligned_mean(&eval, 0, g->na, i);
        for (size_t r = 0; r < g->na && j->by_null; r++) {
            double d = relative(mean, eval.values[r * eval.count + i]);
            variance += d * d / (double)((g->na - 1) * eval.count);
        }
    }
    double pass = fmax(LOSS_EVAL_PASS,
                       3 * sqrt(variance * (1 / (double)g->na + 1 / (double)g->nb)));
    double fail = j->by_null ? pass : LOSS_EVAL_FAIL;
    for (size_t i = 0; i < eval.count; i++) {
        double size = relative(aligned_mean(&eval, 0, g->na, i),
                               aligned_mean(&eval, g->na, g->na + g->nb, i));
        enum loss_grade grade = grade_of(fabs(size), pass, fail);
        j->eval_grade = grade > j->eval_grade ? grade : j->eval_grade;
        if (fabs(size) >= fabs(j->eval_worst)) {
            j->eval_worst = size;
            j->eval_step = eval.steps[i];
        }
    }
}

/* ---- the whole ---- */

static void judge_trajectory(struct judging *g)
{
    struct loss_judgement *j = g->j;
    if (g->loss.count < POINTS_MIN) {
        return;
    }
    g->window_count = aligned_windows(g->arena, &g->loss, LOSS_WINDOW_STEPS, &g->windows);
    j->windows = arena_array(g->arena, g->window_count, sizeof *j->windows);
    j->window_count = g->window_count;
    for (size_t i = 0; i < g->window_count; i++) {
        judge_window(g, i);
    }
    judge_drift(g);
}

static enum loss_grade whole(const struct loss_judgement *j)
{
    if ((j->not_finite_b > 0) != (j->not_finite_a > 0) || j->level_b == LOSS_DIFFERENT ||
        j->level_c == LOSS_DIFFERENT || j->drift_grade == LOSS_DIFFERENT ||
        j->eval_grade == LOSS_DIFFERENT) {
        return LOSS_DIFFERENT;
    }
    if (j->common == 0) {
        return j->eval_grade == LOSS_SAME ? LOSS_OPEN : LOSS_NOT_JUDGED;
    }
    if (j->unsettled || j->not_finite_a > 0 || j->level_c == LOSS_OPEN ||
        j->drift_grade == LOSS_OPEN || j->eval_grade == LOSS_OPEN) {
        return LOSS_OPEN;
    }
    return j->level_c == LOSS_SAME || j->equal ? LOSS_SAME : LOSS_OPEN;
}

void loss_judge(struct arena *a, const struct run_log *const *run_a, size_t na,
                const struct run_log *const *run_b, size_t nb, struct loss_judgement *ret_judgement)
{
    struct loss_judgement j = {.first_step = -1,
                               .first_difference = -1,
                               .parted = -1,
                               .first_relative = NAN,
                               .grad_a = NAN,
                               .grad_b = NAN,
                               .grad_relative = NAN,
                               .sigma = NAN,
                               .multiple = NAN,
                               .drift = NAN,
                               .drift_limit = NAN,
                               .eval_step = -1,
                               .by_null = na >= LOSS_NULL_RUNS};
    struct judging g = {.arena = a, .na = na, .nb = nb, .j = &j};
    gather(a, run_a, na, run_b, nb, loss_curve, &g.loss);
    for (size_t i = 0; i < na; i++) {
        j.not_finite_a += run_a[i]->not_finite;
    }
    for (size_t i = 0; i < nb; i++) {
        j.not_finite_b += run_b[i]->not_finite;
    }
    j.common = g.loss.count;
    if (g.loss.count > 0) {
        j.first_step = g.loss.steps[0];
        judge_first(&g, run_a, run_b);
        find_parting(&g);
        j.unsettled = j.level_b == LOSS_OPEN && j.parted >= 0 && !j.a_parts;
        judge_trajectory(&g);
    }
    judge_eval(&g, run_a, run_b);
    j.grade = whole(&j);
    *ret_judgement = j;
}

/* Spread of a curve's noise, from what it jumps between neighbours; 0 where too few tell it. */
static double noise_of(struct arena *a, const struct curve *c)
{
    enum {
        JUMPS_MIN = 7
    };

    double *jumps = arena_array(a, c->count + 1, sizeof *jumps);
    size_t n = 0;
    for (size_t i = 1; i < c->count; i++) {
        double jump = c->items[i].value - c->items[i - 1].value;
        if (isfinite(jump)) {
            jumps[n++] = jump;
        }
    }
    return n >= JUMPS_MIN ? stats_robust_sd(a, jumps, n) / M_SQRT2 : 0;
}

/* The training loss is lower at the end than around `step`; true where nothing of it is known. */
static bool falls_after(const struct curve *l, int64_t step)
{
    size_t at = 0;
    while (at < l->count && l->items[at].step <= step) {
        at++;
    }
    size_t window = (l->count - at + 1) / 2;
    window = window < at ? window : at;
    if (window == 0) {
        return l->count == 0;
    }
    double before = 0;
    double after = 0;
    for (size_t i = 0; i < window; i++) {
        before += l->items[at - 1 - i].value;
        after += l->items[l->count - 1 - i].value;
    }
    return after <= before;
}

void loss_over_fitting(struct arena *a, const struct run_log *log, struct over_fitting *ret_over)
{
    const struct curve *e = &log->eval_loss;
    struct over_fitting o = {0};
    size_t best = 0;
    for (size_t i = 1; i < e->count; i++) {
        best = e->items[i].value < e->items[best].value ? i : best;
    }
    if (e->count >= 3 && best + 1 < e->count) {
        o.best_step = e->items[best].step;
        o.best = e->items[best].value;
        o.last = e->items[e->count - 1].value;
        o.last_step = e->items[e->count - 1].step;
        /* One value above the lowest may be noise; two in a row, or five times the limit, are not. The lowest of
         * many lies several deviations of their noise below the rest. */
        bool again = e->count - best >= 3 && e->items[e->count - 2].value > o.best;
        double noise = 5 * noise_of(a, e);
        double high = again && !(o.last < e->items[e->count - 2].value)
                          ? e->items[e->count - 2].value
                          : o.last;
        bool rises = o.last > o.best * 1.01 && (again || o.last > o.best * 1.05) &&
                     high - o.best > noise;
        o.present = rises && falls_after(&log->loss, o.best_step);
    }
    *ret_over = o;
}
