// SPDX-License-Identifier: Apache-2.0
/*
 * Gradients looked at once, and the factor that clipping gives them.
 *
 * fixed: min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_; the norm is the 2-norm of
 * all trainable gradients after the whole accumulation.
 *
 * ZClip: mean and variance of the norm, plain over the first 25 updates, then exponential with factor
 * 0.97; a norm more than 2.5 deviations above the mean is cut to mean + 2.5 sigma / (z / 2.5), and that is
 * what enters the statistics. The fixed limit holds besides. Source: arXiv 2504.02507 and its repository.
 */
#ifndef ASSAY_TRAIN_CLIP_H
#define ASSAY_TRAIN_CLIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

#include "train/param.h"

enum {
    ZCLIP_WARMUP = 25
};

enum clip_kind {
    CLIP_NONE = 0,
    CLIP_FIXED,
    CLIP_ZCLIP,
    CLIP_KIND_COUNT
};

struct clip {
    enum clip_kind kind;
    double max_norm; /* of CLIP_FIXED, and the upper limit beside ZClip */
    /* State of ZClip, to be kept with a checkpoint. */
    uint32_t seen; /* norms in warm-up, at most ZCLIP_WARMUP */
    double warmup[ZCLIP_WARMUP];
    double mean;
    double variance;
};

/* The factor for gradients of that norm, at most 1; `norm` must be finite. */
double clip_factor(struct clip *c, double norm);

/* One parameter's gradient. */
struct grad_stats {
    double sum_sq;      /* of its elements */
    double dot;         /* with the gradient of the update before; 0 when there was none */
    double before_sq;   /* sum of squares of that one */
    uint64_t zeros;     /* elements that are exactly 0 */
    uint64_t nonfinite; /* NaN and infinite elements */
};

/* Fills one row a parameter (zeros for those that are not trained). `before` holds a copy of each
 * gradient as floats, which is replaced by this one; NULL, or NULL rows: not wanted. `have_before` says
 * whether it holds anything yet. Sums do not depend on the number of threads. */
void grad_look(struct arena *scratch, const struct param_list *params, float *const *before,
               bool have_before, unsigned threads, struct grad_stats *ret_stats);

/* 2-norm over all parameters. */
double grad_norm(const struct grad_stats *stats, size_t count);

#endif
