// SPDX-License-Identifier: Apache-2.0
/* The pass of a vision tower (vision.h). Part of train_math. */
#ifndef ASSAY_TRAIN_LAYER_VISION_H
#define ASSAY_TRAIN_LAYER_VISION_H

#include "train/layer.h"
#include "train/vision.h"

/* Of the pictures of run->batch, whose grids picture_check() has passed, with `frames` of its result:
 * features [patches / merge^2, out], and of each level the same into deep[levels, patches / merge^2,
 * out]. Returns what backward needs; with `recompute` blocks keep their input alone and are run again. */
void *T(vision_forward)(const struct run *run, const struct vision *v, size_t frames,
                        bool recompute, real *features, real *deep);

/* Adds to the gradients of the tower from those of features and deep, which it may overwrite. */
void T(vision_backward)(const struct run *run, const struct vision *v, const void *kept,
                        real *dfeatures, real *ddeep);

#endif
