// SPDX-License-Identifier: Apache-2.0
/*
 * The gated RMSNorm of Gated DeltaNet layers, one weight for all heads (not zero-centred):
 *
 *   n = x / sqrt(mean(x^2) + eps);  y = weight store(n) silu(z)
 *
 * In bfloat16 rounded as transformers' Qwen3_5RMSNormGated rounds: n, then weight n, then the product
 * with silu(z) in float32. flash-linear-attention's fused kernel rounds the result alone.
 */
#ifndef ASSAY_TRAIN_NORM_GATED_H
#define ASSAY_TRAIN_NORM_GATED_H

#include <stddef.h>

#include "train/real.h"

struct norm_gated {
    size_t rows, width;
    double eps;
    enum precision precision;
    unsigned threads; /* 0: all cores */
};

/* x, z, y [rows, width], weight [width]. */
void T(norm_gated_forward)(const struct norm_gated *n, const real *x, const real *z,
                           const real *weight, real *y);

/* Sets dx, dz and dweight. */
void T(norm_gated_backward)(const struct norm_gated *n, const real *x, const real *z,
                            const real *weight, const real *dy, real *dx, real *dz, real *dweight);

#endif
