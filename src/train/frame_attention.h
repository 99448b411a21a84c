// SPDX-License-Identifier: Apache-2.0
/*
 * Attention without a mask inside segments of a packed sequence: the frames of the vision towers, in
 * which every patch reads every patch of its own frame.
 *
 *   y[i] = sum over j of softmax_j(q[i] . k[j] / sqrt(dim)) v[j]
 *
 * In bfloat16 rounded as the eager form of transformers: products, scaled products, probabilities
 * (computed in float32) and results.
 */
#ifndef ASSAY_TRAIN_FRAME_ATTENTION_H
#define ASSAY_TRAIN_FRAME_ATTENTION_H

#include <stddef.h>

#include "train/compute.h"
#include "train/real.h"

struct frame_attention {
    size_t heads, dim;
    const size_t *start; /* [segments + 1] */
    size_t segments;
    enum precision precision;
    const struct compute *compute;
};

/* qkv [tokens, 3, heads, dim], y [tokens, heads, dim]. */
void T(frame_attention_forward)(const struct frame_attention *f, const real *qkv, real *y);

/* Probabilities are computed again. Sets dqkv. */
void T(frame_attention_backward)(const struct frame_attention *f, const real *qkv, const real *dy,
                                 real *dqkv);

#endif
