// SPDX-License-Identifier: Apache-2.0
/*
 * Pictures as the vision towers of Qwen3-VL and Qwen3.5 see them: a grid of t x h x w patches, in the
 * order of merge blocks: frame by frame, then blocks of merge x merge patches row by row, then the
 * patches of a block row by row. The merger makes one token of each block. A patch is one row of
 * channels x temporal x patch x patch numbers, in this order.
 *
 * Source: Qwen2VLImageProcessor and vision_utils.py of huggingface/transformers.
 */
#ifndef ASSAY_TRAIN_PICTURE_H
#define ASSAY_TRAIN_PICTURE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Of one picture, in patches; h and w are multiples of the merge size. */
struct picture_grid {
    size_t t, h, w;
};

struct picture_place {
    size_t frame, row, column;
};

/* Where the patch at `index` of a picture's own list lies. */
struct picture_place picture_place(const struct picture_grid *g, size_t merge, size_t index);

/* Checks grids [pictures, 3] as a batch has them: t, h, w at least 1, h and w multiples of `merge`, all
 * together `patches` patches. ret_frames: of all pictures. */
enum status picture_check(const int32_t *grid, size_t pictures, size_t merge, size_t patches,
                          size_t *ret_frames, struct err *err) MUST_USE;

/* The same grids as records [pictures], and their frames as segments of the list of patches:
 * ret_start[frames + 1]. */
void picture_frames(const int32_t *grid, size_t pictures, struct picture_grid *ret_grids,
                    size_t *ret_start);

/* Cuts a picture [channels, height, width] into patches: into ret_patches[h w, channels temporal patch
 * patch]. A still picture is repeated `temporal` times. height and width are multiples of patch merge. */
void picture_cut(const double *image, size_t channels, size_t height, size_t width, size_t temporal,
                 size_t patch, size_t merge, double *ret_patches);

#endif
