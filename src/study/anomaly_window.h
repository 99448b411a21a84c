// SPDX-License-Identifier: Apache-2.0
/*
 * The last `capacity` values of a stream, also in order of size: median, quantiles and the median
 * absolute deviation (MAD) of what a detector remembers, at a few hundred operations a value.
 */
#ifndef ASSAY_STUDY_ANOMALY_WINDOW_H
#define ASSAY_STUDY_ANOMALY_WINDOW_H

#include "base/arena.h"

struct anomaly_window {
    double *ring;   /* in order of arrival, `at` is the next place */
    double *sorted; /* the same values, ascending */
    size_t capacity;
    size_t limit; /* values kept, at most `capacity`; may grow */
    size_t count;
    size_t at;
};

/* Sigma of a normal distribution over its median absolute deviation: 1 / Phi^-1(3/4). */
#define ANOMALY_MAD_SIGMA 1.4826

void anomaly_window_init(struct anomaly_window *w, struct arena *a, size_t capacity);

/* Takes a finite value, and drops the oldest when there are `limit` of them. */
void anomaly_window_add(struct anomaly_window *w, double v);

void anomaly_window_clear(struct anomaly_window *w);

/* The value with the share `q` of the others below it, 0..1, between neighbours by a straight line;
 * NaN of an empty window. The median is that of 0.5. */
double anomaly_window_quantile(const struct anomaly_window *w, double q);

/* Median of |value - centre|, where `centre` is the median of the window; NaN of an empty one. */
double anomaly_window_mad(const struct anomaly_window *w, double centre);

#endif
