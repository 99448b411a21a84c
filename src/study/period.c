// SPDX-License-Identifier: Apache-2.0
/* See period.h. Direct sums: at most 4,096 values, asked for every few hundred of them. */
#include "study/period.h"

#include <math.h>

#include "study/anomaly_window.h"

enum {
    TIMES_MAX = 8,
    OF_MAX = 4,
    CLIP_SIGMA = 8,
    TREND_MIN = 31,
    PERIODS_MIN = 4 /* with fewer repetitions the length is a guess */
};

#define RHO_MAX 0.999

/* Values without trend, outliers cut, mean zero; their variance. */
static double flatten(struct arena *scratch, const double *values, size_t n, double *out)
{
    size_t width = n / 3 > TREND_MIN ? n / 3 : TREND_MIN;
    struct anomaly_window w;
    anomaly_window_init(&w, scratch, width);
    size_t half = width / 2;
    for (size_t i = 0; i < n + half; i++) { /* a centred window: it runs ahead by half its width */
        if (i < n) {
            anomaly_window_add(&w, values[i]);
        }
        if (i >= half) {
            out[i - half] = values[i - half] - anomaly_window_quantile(&w, 0.5);
        }
    }
    struct anomaly_window all;
    anomaly_window_init(&all, scratch, n);
    for (size_t i = 0; i < n; i++) {
        anomaly_window_add(&all, out[i]);
    }
    double centre = anomaly_window_quantile(&all, 0.5);
    double cut = CLIP_SIGMA * ANOMALY_MAD_SIGMA * anomaly_window_mad(&all, centre);
    double mean = 0;
    for (size_t i = 0; i < n; i++) {
        double d = out[i] - centre;
        out[i] = cut > 0 && d > cut ? cut : cut > 0 && d < -cut ? -cut : d;
        mean += out[i] / (double)n;
    }
    double variance = 0;
    for (size_t i = 0; i < n; i++) {
        out[i] -= mean;
        variance += out[i] * out[i];
    }
    return variance;
}

/* Autocorrelation for lags 0..lags, each over its own number of products. */
static void correlate(const double *x, size_t n, double variance, size_t lags, double *ret_rho)
{
    for (size_t k = 0; k <= lags; k++) {
        double sum = 0;
        for (size_t i = 0; i + k < n; i++) {
            sum += x[i] * x[i + k];
        }
        ret_rho[k] = sum / variance * ((double)n / (double)(n - k));
    }
}

/*
 * Four standard errors of an autocorrelation where the noise no longer remembers itself:
 * var = (1 + 2 sum rho_k^2) / n (Bartlett 1946), for first-order noise rho_k = rho_1^k. The sums of the
 * series itself would count the period as noise. *ret_memory: lags up to the first zero.
 */
static double noise_limit(const double *rho, size_t lags, size_t n, size_t *ret_memory)
{
    size_t k = 1;
    while (k <= lags && rho[k] > 0) {
        k++;
    }
    *ret_memory = k;
    double first = rho[1] > 0 ? rho[1] : 0;
    first = first < RHO_MAX ? first : RHO_MAX;
    double sum = first * first / (1 - first * first);
    return 4 * sqrt((1 + 2 * sum) / (double)n);
}

/*
 * The same for noise whose size changes along the series: a few large values in front make every lag that fits
 * among them uncertain. var(rho_k) = sum x_i^2 x_(i+k)^2 / (sum x_i^2)^2, which is 1/n for noise of one size. Of
 * the lags around k the middle one: at k itself the peaks of a true period meet.
 */
static double uneven_limit(const double *x, size_t n, double variance, size_t k)
{
    enum {
        PROBES = 15
    };

    double found[PROBES];
    size_t count = 0;
    for (size_t m = 0; m < PROBES; m++) {
        size_t lag = k / 2 + m * (k + k / 2) / (PROBES - 1);
        if (lag == 0 || lag == k || lag >= n) {
            continue;
        }
        double sum = 0;
        for (size_t i = 0; i + lag < n; i++) {
            sum += x[i] * x[i] * x[i + lag] * x[i + lag];
        }
        double v = sum / (variance * variance) * ((double)n / (double)(n - lag));
        size_t at = count++;
        for (; at > 0 && found[at - 1] > v; at--) {
            found[at] = found[at - 1];
        }
        found[at] = v;
    }
    return count != 0 ? 4 * sqrt(found[count / 2]) : 0;
}

/* The highest of its neighbourhood: noise makes many small peaks on a broad one. `rho` reaches to twice
 * the largest k. */
static bool is_peak(const double *rho, size_t k)
{
    size_t reach = k / 4 > 1 ? k / 4 : 1;
    for (size_t j = k - reach; j <= k + reach; j++) {
        if (rho[j] > rho[k]) {
            return false;
        }
    }
    return true;
}

/* Highest value at lag 2k, give or take what rounding the period to whole values moves it. */
static double doubled(const double *rho, size_t k)
{
    double best = rho[2 * k];
    for (size_t j = 2 * k - 1; j <= 2 * k + 1; j++) {
        best = rho[j] > best ? rho[j] : best;
    }
    return best;
}

/* The middle of the peak around lag k: of a broad one the highest value alone is a matter of noise. */
static double peak_centre(const double *rho, size_t k, size_t lag)
{
    size_t reach = lag / 4 > 1 ? lag / 4 : 1;
    double sum = 0;
    double weights = 0;
    for (size_t j = k - reach; j <= k + reach; j++) {
        double weight = rho[j] - 0.5 * rho[k];
        sum += weight > 0 ? weight * (double)j : 0;
        weights += weight > 0 ? weight : 0;
    }
    return weights > 0 ? sum / weights : (double)k;
}

/* Repetition m of a period stands at m times its length: the farthest one within `lags`, sought near
 * where the one before it leads to, measures the length best. `rho` reaches to twice `lags`. */
static double refine(const double *rho, size_t lag, size_t lags)
{
    double length = peak_centre(rho, lag, lag);
    for (size_t m = 2; (double)m * length < (double)lags; m++) {
        size_t middle = (size_t)((double)m * length + 0.5);
        size_t reach = lag / 8 > 1 ? lag / 8 : 1;
        size_t best = middle;
        for (size_t k = middle - reach; k <= middle + reach; k++) {
            best = rho[k] > rho[best] ? k : best;
        }
        if (!(rho[best] >= 0.5 * rho[lag])) {
            break;
        }
        length = peak_centre(rho, best, lag) / (double)m;
    }
    return length;
}

bool period_find(struct arena *scratch, const double *values, size_t n, double strength,
                 struct period *ret_period)
{
    if (n < PERIOD_VALUES_MIN || n > PERIOD_VALUES_MAX) {
        return false;
    }
    struct arena_mark mark = arena_mark(scratch);
    size_t lags = n / PERIODS_MIN;
    double *x = arena_array(scratch, n, sizeof *x);
    double *rho = arena_array(scratch, 2 * lags + 2, sizeof *rho);
    double variance = flatten(scratch, values, n, x);
    struct period best = {0};
    if (variance > 0 && isfinite(variance)) {
        correlate(x, n, variance, 2 * lags + 1, rho);
        size_t memory;
        double needed = noise_limit(rho, lags, n, &memory);
        needed = needed > strength ? needed : strength;
        for (size_t k = 2; k <= lags; k++) {
            double twice = doubled(rho, k);
            /* The smallest lag that is nearly as strong as the strongest is the fundamental. */
            if (k >= memory && is_peak(rho, k) && rho[k] >= needed && twice >= 0.5 * rho[k] &&
                rho[k] > best.strength * 1.15 && rho[k] >= uneven_limit(x, n, variance, k)) {
                best = (struct period){
                    .lag = k, .strength = rho[k], .harmonic = twice, .needed = needed};
            }
        }
        best.length = best.lag != 0 ? refine(rho, best.lag, lags) : 0;
    }
    arena_rewind(scratch, mark);
    if (best.lag == 0) {
        return false;
    }
    best.strength = best.strength < 1 ? best.strength : 1;
    *ret_period = best;
    return true;
}

static bool fits(double steps, double resolution, double length)
{
    double slack = steps * 0.03 > resolution / 2 ? steps * 0.03 : resolution / 2;
    return fabs(steps - length) <= slack && length >= 2;
}

const struct period_source *period_explain(const struct period_source *sources, size_t count,
                                           double steps, double resolution, unsigned *ret_times,
                                           unsigned *ret_of)
{
    for (unsigned effort = 1; effort <= TIMES_MAX; effort++) {
        for (size_t i = 0; i < count; i++) {
            double length = sources[i].steps;
            if (!(length > 0)) {
                continue;
            }
            bool divides = effort <= OF_MAX && fits(steps, resolution, length / effort);
            if (divides || fits(steps, resolution, length * effort)) {
                *ret_times = divides ? 1 : effort;
                *ret_of = divides ? effort : 1;
                return &sources[i];
            }
        }
    }
    return NULL;
}
