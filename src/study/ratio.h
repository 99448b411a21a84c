// SPDX-License-Identifier: Apache-2.0
/*
 * The ratio of two mean costs with a 95 % interval: over repeated runs when both sides have at least
 * two, else over the steps of one run each. The interval over steps speaks of the noise inside these
 * two runs only, not of what another start would give; that is why reports name the method.
 */
#ifndef ASSAY_STUDY_RATIO_H
#define ASSAY_STUDY_RATIO_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

enum ratio_method {
    RATIO_NONE = 0, /* a value without an interval, or none */
    RATIO_RUNS,     /* bootstrap over runs, widened by Student's t for their number */
    RATIO_STEPS,    /* moving-block bootstrap over steps */
};

enum {
    RATIO_RESAMPLES = 2000,
    RATIO_STEPS_MIN = 10 /* fewer intervals of a run give no interval of the ratio */
};

struct ratio {
    enum ratio_method method;
    double value; /* mean of b over mean of a; NaN without values */
    double low, high;
    size_t count_a, count_b;
    size_t block; /* RATIO_STEPS: neighbouring steps that were drawn together */
};

/* One number a run. Positive numbers. */
void ratio_of_runs(struct arena *a, const double *va, size_t na, const double *vb, size_t nb,
                   struct ratio *ret_ratio);

/* Seconds per step of one run each, in order: neighbours are alike, so blocks of about n^(1/3) are
 * drawn (Kuensch 1989; the length is the order of Hall, Horowitz and Jing 1995). */
void ratio_of_steps(struct arena *a, const double *va, size_t na, const double *vb, size_t nb,
                    struct ratio *ret_ratio);

/* True when the interval lies on one side of 1. */
bool ratio_is_clear(const struct ratio *r);

#endif
