// SPDX-License-Identifier: Apache-2.0
/* See stats.h. Quantile functions are inverted by bisection: called a few times a report, exact to the
 * last digits, and nothing to get wrong in a table of constants. */
#include "study/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BISECTIONS = 200,
    BETA_TERMS = 500
};

double stats_mean(const double *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += v[i];
    }
    return n > 0 ? sum / (double)n : NAN;
}

double stats_sd(const double *v, size_t n)
{
    double mean = stats_mean(v, n);
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (v[i] - mean) * (v[i] - mean);
    }
    return n > 1 ? sqrt(sum / (double)(n - 1)) : NAN;
}

static int by_value(const void *pa, const void *pb)
{
    double a = *(const double *)pa;
    double b = *(const double *)pb;
    if (isnan(a) || isnan(b)) {
        return isnan(a) - isnan(b);
    }
    return (a > b) - (a < b);
}

void stats_sort(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
}

double stats_quantile(struct arena *a, const double *v, size_t n, double q)
{
    if (n == 0) {
        return NAN;
    }
    double *sorted = arena_array(a, n, sizeof *sorted);
    memcpy(sorted, v, n * sizeof *sorted);
    stats_sort(sorted, n);
    if (isnan(sorted[n - 1])) {
        return NAN;
    }
    double at = q * (double)(n - 1);
    size_t i = (size_t)at;
    size_t next = i + 1 < n ? i + 1 : i;
    return sorted[i] + (at - (double)i) * (sorted[next] - sorted[i]);
}

double stats_median(struct arena *a, const double *v, size_t n)
{
    return stats_quantile(a, v, n, 0.5);
}

double stats_robust_sd(struct arena *a, const double *v, size_t n)
{
    double median = stats_median(a, v, n);
    double *distances = arena_array(a, n + 1, sizeof *distances);
    for (size_t i = 0; i < n; i++) {
        distances[i] = fabs(v[i] - median);
    }
    return 1.4826 * stats_median(a, distances, n);
}

static double normal_cdf(double x)
{
    return 0.5 * erfc(-x / sqrt(2.0));
}

double stats_normal_quantile(double p)
{
    double low = -40;
    double high = 40;
    if (!(p > 0) || !(p < 1)) {
        return NAN;
    }
    for (int i = 0; i < BISECTIONS; i++) {
        double middle = 0.5 * (low + high);
        if (normal_cdf(middle) < p) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return 0.5 * (low + high);
}

static double log_gamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

/* Regularised incomplete beta function by Lentz's continued fraction (DLMF 8.17.22). */
static double incomplete_beta(double a, double b, double x)
{
    if (x <= 0 || x >= 1) {
        return x <= 0 ? 0 : 1;
    }
    if (x > (a + 1) / (a + b + 2)) {
        return 1 - incomplete_beta(b, a, 1 - x);
    }
    double front =
        exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log1p(-x)) / a;
    double tiny = 1e-300;
    double f = 1;
    double c = 1;
    double d = 0;
    for (int i = 0; i <= BETA_TERMS; i++) {
        double m = floor(0.5 * i);
        double term = 1;
        if (i > 0 && i % 2 == 0) {
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        } else if (i > 0) {
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        }
        d = 1 + term * d;
        d = 1 / (fabs(d) < tiny ? tiny : d);
        c = 1 + term / c;
        c = fabs(c) < tiny ? tiny : c;
        f *= c * d;
        if (fabs(1 - c * d) < 1e-15) {
            break;
        }
    }
    return front * (f - 1);
}

static double t_cdf(double t, double dof)
{
    double tail = 0.5 * incomplete_beta(0.5 * dof, 0.5, dof / (dof + t * t));
    return t > 0 ? 1 - tail : tail;
}

double stats_t_quantile(double p, double dof)
{
    if (!(p > 0) || !(p < 1) || !(dof > 0)) {
        return NAN;
    }
    if (dof > 1e6) {
        return stats_normal_quantile(p);
    }
    /* Lower tail and its mirror image: a tail is exact where 1 - tail is not. */
    double tail = p < 0.5 ? p : 1 - p;
    double low = -1e9;
    double high = 0;
    for (int i = 0; i < BISECTIONS; i++) {
        double middle = 0.5 * (low + high);
        if (t_cdf(middle, dof) < tail) {
            low = middle;
        } else {
            high = middle;
        }
    }
    double t = 0.5 * (low + high);
    return p < 0.5 ? t : -t;
}

void stats_wilson(uint64_t successes, uint64_t n, double confidence, double *ret_low,
                  double *ret_high)
{
    double z = stats_normal_quantile(0.5 + 0.5 * confidence);
    double count = (double)n;
    double p = (double)successes / count;
    double scale = 1 / (1 + z * z / count);
    double centre = (p + z * z / (2 * count)) * scale;
    double half = z * scale * sqrt(p * (1 - p) / count + z * z / (4 * count * count));
    /* At the ends the interval ends exactly there; rounding would leave 1e-17. */
    *ret_low = successes == 0 ? 0 : centre - half;
    *ret_high = successes == n ? 1 : centre + half;
}

double stats_zero_bound(uint64_t n, double confidence)
{
    return n > 0 ? -expm1(log1p(-confidence) / (double)n) : 1;
}

uint64_t stats_trials_for(double rate, double confidence)
{
    return (uint64_t)ceil(log1p(-confidence) / log1p(-rate) - 1e-9);
}

static double log_choose(double n, double k)
{
    return log_gamma(n + 1) - log_gamma(k + 1) - log_gamma(n - k + 1);
}

double stats_fisher(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    uint64_t first = a + b;
    uint64_t column = a + c;
    uint64_t total = first + c + d;
    if (first == 0 || c + d == 0) {
        return 1;
    }
    uint64_t low = column > c + d ? column - (c + d) : 0;
    uint64_t high = column < first ? column : first;
    double all = log_choose((double)total, (double)column);
    double seen = 0;
    double sum = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint64_t k = low; k <= high; k++) {
            double p = exp(log_choose((double)first, (double)k) +
                           log_choose((double)(total - first), (double)(column - k)) - all);
            if (pass == 0) {
                seen = k == a ? p : seen;
            } else if (p <= seen * (1 + 1e-7)) {
                sum += p;
            }
        }
    }
    return sum < 1 ? sum : 1;
}

void stats_random_seed(struct stats_random *r, uint64_t seed)
{
    /* One round of splitmix64: neighbouring seeds must not give neighbouring sequences. */
    uint64_t z = seed + 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    r->state = (z ^ (z >> 31)) | 1;
}

uint64_t stats_random_next(struct stats_random *r)
{
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return r->state * 0x2545f4914f6cdd1du;
}

double stats_random_unit(struct stats_random *r)
{
    return (double)(stats_random_next(r) >> 11) * 0x1p-53;
}

size_t stats_random_below(struct stats_random *r, size_t n)
{
    return (size_t)(stats_random_unit(r) * (double)n);
}

double stats_random_normal(struct stats_random *r)
{
    double u = 1 - stats_random_unit(r);
    double angle = 2 * M_PI * stats_random_unit(r);
    return sqrt(-2 * log(u)) * cos(angle);
}
