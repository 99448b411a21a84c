// SPDX-License-Identifier: Apache-2.0
/*
 * Periods in a series of evenly spaced values, by autocorrelation with harmonics, and what they may
 * come from. Losses that repeat with the length of a data shard are ordering; those that repeat with
 * the save interval are the checkpoint's doing: the period names the suspect.
 */
#ifndef ASSAY_STUDY_PERIOD_H
#define ASSAY_STUDY_PERIOD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

enum {
    PERIOD_VALUES_MIN = 48, /* fewer values tell nothing */
    PERIOD_VALUES_MAX = 4096
};

struct period {
    size_t lag;      /* values in one period, 2 or more */
    double length;   /* the same, finer: from the farthest repetition that still shows it */
    double strength; /* autocorrelation at that lag, 0..1 */
    double harmonic; /* at twice the lag */
    double needed;   /* the strength that noise of this colour could not reach */
};

/*
 * The fundamental period of values[0..n). The trend is taken off by a running median, outliers are
 * cut at 8 sigma. A period is reported when its autocorrelation is a local maximum of at least
 * `strength`, and of four standard errors by Bartlett's formula for first-order noise (which is wide
 * for slowly varying values), its double shows it again, and at least four periods were seen. False
 * when there is none.
 */
bool period_find(struct arena *scratch, const double *values, size_t n, double strength,
                 struct period *ret_period);

/* Something that happens every so many steps. */
struct period_source {
    const char *name;
    double steps;
};

/*
 * The source whose length fits `steps` within 3 % or half of `resolution` (steps between values), or a
 * small multiple (up to 8) or divisor (up to 4) of it does; exact ones first. *ret_times and *ret_of:
 * period = times / of x length. NULL when none fits.
 */
const struct period_source *period_explain(const struct period_source *sources, size_t count,
                                           double steps, double resolution, unsigned *ret_times,
                                           unsigned *ret_of);

#endif
