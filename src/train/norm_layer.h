// SPDX-License-Identifier: Apache-2.0
/* LayerNorm with weight and bias, as the vision towers have it:
 *   y = (x - mean) / sqrt(variance + eps) * weight + bias, the variance over width (not width - 1).
 * In bfloat16 only the result is rounded. */
#ifndef ASSAY_TRAIN_NORM_LAYER_H
#define ASSAY_TRAIN_NORM_LAYER_H

#include <stddef.h>

#include "train/real.h"

struct norm_layer {
    size_t rows, width;
    double eps;
    enum precision precision;
};

/* x, y [rows, width], weight, bias [width]. y may not be x. */
void T(norm_layer_forward)(const struct norm_layer *n, const real *x, const real *weight,
                           const real *bias, real *y);

/* Sets dx (which may be dy), dweight and dbias. */
void T(norm_layer_backward)(const struct norm_layer *n, const real *x, const real *weight,
                            const real *dy, real *dx, real *dweight, real *dbias);

#endif
