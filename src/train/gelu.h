// SPDX-License-Identifier: Apache-2.0
/*
 * GELU in the two forms that the vision towers use, and their slopes (Hendrycks & Gimpel,
 * arXiv 1606.08415): exact, x Phi(x), in the mergers; with tanh ("gelu_pytorch_tanh") in the blocks.
 */
#ifndef ASSAY_TRAIN_GELU_H
#define ASSAY_TRAIN_GELU_H

#include "train/rows.h"

enum gelu {
    GELU_EXACT = 0,
    GELU_TANH,
    GELU_COUNT
};

#define GELU_ROOT_HALF    ((real)0.70710678118654752440) /* sqrt(1/2) */
#define GELU_ROOT_2_BY_PI ((real)0.79788456080286535588) /* sqrt(2/pi) */
#define GELU_DENSITY_AT_0 ((real)0.39894228040143267794) /* 1/sqrt(2 pi) */
#define GELU_CUBE         ((real)0.044715)

static inline real gelu(enum gelu kind, real x)
{
    if (kind == GELU_EXACT) {
        return (real)0.5 * x * (1 + real_erf(x * GELU_ROOT_HALF));
    }
    return (real)0.5 * x * (1 + real_tanh(GELU_ROOT_2_BY_PI * (x + GELU_CUBE * x * x * x)));
}

static inline real gelu_slope(enum gelu kind, real x)
{
    if (kind == GELU_EXACT) {
        real phi = GELU_DENSITY_AT_0 * real_exp((real)-0.5 * x * x);
        return (real)0.5 * (1 + real_erf(x * GELU_ROOT_HALF)) + x * phi;
    }
    real t = real_tanh(GELU_ROOT_2_BY_PI * (x + GELU_CUBE * x * x * x));
    real inner = GELU_ROOT_2_BY_PI * (1 + 3 * GELU_CUBE * x * x);
    return (real)0.5 * (1 + t) + (real)0.5 * x * (1 - t * t) * inner;
}

#endif
