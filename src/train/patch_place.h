// SPDX-License-Identifier: Apache-2.0
/*
 * What tells the patches of a vision tower where they lie.
 *
 * The learned table [side, side, hidden] is resampled to each picture's h x w: patch (row, column)
 * reads it at row (side - 1) / (h - 1), column (side - 1) / (w - 1) (the corners coincide, a side of
 * one patch reads place 0), linearly between its four neighbours. The frames of a video read the same.
 *
 * The rotation of queries and keys has two coordinates: of the head_dim / 2 pairs (i, i + head_dim / 2)
 * the first half turns by row theta^(-2i / (head_dim / 2)), the second by column alike.
 *
 * Source: vision_utils.py and Qwen3VLVisionRotaryEmbedding of huggingface/transformers.
 */
#ifndef ASSAY_TRAIN_PATCH_PLACE_H
#define ASSAY_TRAIN_PATCH_PLACE_H

#include <stddef.h>

#include "train/picture.h"
#include "train/real.h"

struct patch_places {
    const struct picture_grid *grids; /* [pictures] */
    size_t pictures;
    size_t merge;
    enum precision precision;
};

/* x[patches, hidden] += the resampled table[side * side, hidden]. */
void T(patch_table_forward)(const struct patch_places *p, size_t side, size_t hidden,
                            const real *table, real *x);
/* Sets dtable from dx. */
void T(patch_table_backward)(const struct patch_places *p, size_t side, size_t hidden,
                             const real *dx, real *dtable);

/* cos and sin [patches, head_dim / 2]; head_dim is a multiple of 4. */
void T(patch_angles)(const struct patch_places *p, size_t head_dim, double theta, real *ret_cos,
                     real *ret_sin);

/* Turns queries and keys of qkv[patches, 3, heads, head_dim] in place; `direction` -1 for gradients. */
void T(patch_rotate)(const struct patch_places *p, size_t patches, size_t heads, size_t head_dim,
                     const real *cos, const real *sin, real direction, real *qkv);

#endif
