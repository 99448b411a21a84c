// SPDX-License-Identifier: Apache-2.0
/* See ratio.h. Resampling is seeded: the same runs give the same interval. */
#include "study/ratio.h"

#include <math.h>

#include "study/stats.h"

enum {
    SEED = 20
};

static double resampled_mean(struct stats_random *r, const double *v, size_t n, size_t block)
{
    double sum = 0;
    size_t taken = 0;
    while (taken < n) {
        size_t from = stats_random_below(r, n - block + 1);
        for (size_t i = 0; i < block && taken < n; i++, taken++) {
            sum += v[from + i];
        }
    }
    return sum / (double)n;
}

static double *resampled_logs(struct arena *a, const double *va, size_t na, size_t block_a,
                              const double *vb, size_t nb, size_t block_b)
{
    struct stats_random random;
    stats_random_seed(&random, SEED);
    double *logs = arena_array(a, RATIO_RESAMPLES, sizeof *logs);
    for (size_t i = 0; i < RATIO_RESAMPLES; i++) {
        double mean_b = resampled_mean(&random, vb, nb, block_b);
        logs[i] = log(mean_b / resampled_mean(&random, va, na, block_a));
    }
    return logs;
}

static void begin(const double *va, size_t na, const double *vb, size_t nb, struct ratio *r)
{
    *r = (struct ratio){.low = NAN, .high = NAN, .count_a = na, .count_b = nb};
    r->value = stats_mean(vb, nb) / stats_mean(va, na);
}

/* Degrees of freedom by Welch and Satterthwaite. */
static double welch(const double *va, size_t na, const double *vb, size_t nb)
{
    double ma = stats_mean(va, na);
    double mb = stats_mean(vb, nb);
    double a = pow(stats_sd(va, na) / ma, 2) / (double)na;
    double b = pow(stats_sd(vb, nb) / mb, 2) / (double)nb;
    double bottom = a * a / (double)(na - 1) + b * b / (double)(nb - 1);
    return bottom > 0 ? (a + b) * (a + b) / bottom : (double)(na + nb - 2);
}

void ratio_of_runs(struct arena *a, const double *va, size_t na, const double *vb, size_t nb,
                   struct ratio *ret_ratio)
{
    struct ratio r;
    begin(va, na, vb, nb, &r);
    if (na >= 2 && nb >= 2 && isfinite(r.value) && r.value > 0) {
        double *logs = resampled_logs(a, va, na, 1, vb, nb, 1);
        /* The bootstrap of n values has the variance of n, not of n - 1: put that right on the
         * smaller side, which dominates. */
        double smaller = (double)(na < nb ? na : nb);
        double se = stats_sd(logs, RATIO_RESAMPLES) * sqrt(smaller / (smaller - 1));
        double half = se * stats_t_quantile(0.975, welch(va, na, vb, nb));
        r.method = RATIO_RUNS;
        r.low = r.value * exp(-half);
        r.high = r.value * exp(half);
    }
    *ret_ratio = r;
}

void ratio_of_steps(struct arena *a, const double *va, size_t na, const double *vb, size_t nb,
                    struct ratio *ret_ratio)
{
    struct ratio r;
    begin(va, na, vb, nb, &r);
    if (na >= RATIO_STEPS_MIN && nb >= RATIO_STEPS_MIN && isfinite(r.value) && r.value > 0) {
        size_t block_a = (size_t)ceil(cbrt((double)na));
        size_t block_b = (size_t)ceil(cbrt((double)nb));
        double *logs = resampled_logs(a, va, na, block_a, vb, nb, block_b);
        r.method = RATIO_STEPS;
        r.block = block_a > block_b ? block_a : block_b;
        r.low = exp(stats_quantile(a, logs, RATIO_RESAMPLES, 0.025));
        r.high = exp(stats_quantile(a, logs, RATIO_RESAMPLES, 0.975));
    }
    *ret_ratio = r;
}

bool ratio_is_clear(const struct ratio *r)
{
    return r->method != RATIO_NONE && (r->low > 1 || r->high < 1);
}
