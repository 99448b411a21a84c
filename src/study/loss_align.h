// SPDX-License-Identifier: Apache-2.0
/* Curves of several runs laid over each other: the steps that all have, and means over windows. */
#ifndef ASSAY_STUDY_LOSS_ALIGN_H
#define ASSAY_STUDY_LOSS_ALIGN_H

#include "base/arena.h"

#include "study/run_log.h"

/* values[run * count + i] is that of run `run` at steps[i]. All finite: laid out up to the first step
 * at which one is not. */
struct aligned {
    size_t runs;
    size_t count;
    int64_t *steps;
    double *values;
};

void loss_align(struct arena *a, const struct curve *const *curves, size_t runs,
                struct aligned *ret_aligned);

/* Means of all values of runs [from, to) at index i. */
double aligned_mean(const struct aligned *l, size_t from, size_t to, size_t i);

/* A window is [begin, end) of the indexes; runs of at least `steps` steps. A rest of less than half a
 * window joins the one before. */
struct aligned_window {
    size_t begin, end;
};

size_t aligned_windows(struct arena *a, const struct aligned *l, int64_t steps,
                       struct aligned_window **ret_windows);

/* Mean of one run over a window. */
double aligned_window_mean(const struct aligned *l, size_t run, struct aligned_window w);

#endif
