// SPDX-License-Identifier: Apache-2.0
/*
 * Statistics of few and of many numbers: location and scale, quantiles, intervals of shares, exact
 * tests, a seeded generator. All functions give NaN where the question has no answer (no values, one
 * value for a spread); NaN among the values gives NaN.
 */
#ifndef ASSAY_STUDY_STATS_H
#define ASSAY_STUDY_STATS_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

double stats_mean(const double *v, size_t n);

/* Sample standard deviation, n - 1 in the denominator. */
double stats_sd(const double *v, size_t n);

/* Copies to `a` and sorts; the quantile is interpolated between order statistics (Hyndman and Fan's
 * type 7, as R and NumPy do by default). 0 <= q <= 1. */
double stats_quantile(struct arena *a, const double *v, size_t n, double q);
double stats_median(struct arena *a, const double *v, size_t n);

/* 1.4826 times the median of distances from the median: a standard deviation that outliers do not move. */
double stats_robust_sd(struct arena *a, const double *v, size_t n);

/* Sorted in place, NaN last. */
void stats_sort(double *v, size_t n);

/* Quantiles of the standard normal and of Student's t with `dof` > 0 degrees of freedom, 0 < p < 1. */
double stats_normal_quantile(double p);
double stats_t_quantile(double p, double dof);

/* Wilson's score interval of a share at `confidence` (0.95): E. B. Wilson 1927, without continuity
 * correction. n > 0. */
void stats_wilson(uint64_t successes, uint64_t n, double confidence, double *ret_low,
                  double *ret_high);

/* After n trials without one event: the largest rate that leaves a chance of 1 - confidence for that,
 * 1 - (1 - confidence)^(1/n), about 3/n at 95 %. 1 for n = 0. */
double stats_zero_bound(uint64_t n, double confidence);

/* Trials without an event that bound its rate below `rate`. 0 < rate < 1. */
uint64_t stats_trials_for(double rate, double confidence);

/* Fisher's exact test, two-sided, of the table {a of a + b} against {c of c + d}: the probability of a
 * table at least as unlikely when the row does not matter. 1 when a row is empty. */
double stats_fisher(uint64_t a, uint64_t b, uint64_t c, uint64_t d);

/* xorshift64*, seeded: the same numbers on every machine. */
struct stats_random {
    uint64_t state;
};

void stats_random_seed(struct stats_random *r, uint64_t seed);
uint64_t stats_random_next(struct stats_random *r);
double stats_random_unit(struct stats_random *r);            /* [0, 1) */
size_t stats_random_below(struct stats_random *r, size_t n); /* n > 0 */
double stats_random_normal(struct stats_random *r);          /* mean 0, deviation 1 */

#endif
