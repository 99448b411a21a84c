// SPDX-License-Identifier: Apache-2.0
/*
 * Inner loops in the widest vectors that this CPU has, chosen when the program runs: AVX-512, AVX2 with
 * FMA, or the baseline. All give the same result within rounding; on one CPU it is always the same.
 */
#ifndef ASSAY_TRAIN_KERNEL_H
#define ASSAY_TRAIN_KERNEL_H

#include <stddef.h>

#include "train/real.h"

enum {
    KERNEL_ROWS_MAX = 14, /* of any kernel's tile */
    KERNEL_COLUMNS_MAX = 128 / sizeof(float),
    KERNEL_SQUARE = 64 / sizeof(real)
};

struct T(kernel) {
    const char *name;     /* "avx512" */
    size_t rows, columns; /* of a tile of C */
    /* out[rows, columns] = alpha * sum over l of a[l, rows] x b[l, columns] + beta * out: packed panels, rows
     * of out `line` apart. With beta 0 out is not read. */
    void (*tile)(size_t k, const real *a, const real *b, real alpha, real beta, real *out,
                 size_t line);
    /* to[l * width + i] = from[i * line + l] for i below `lines` and l below KERNEL_SQUARE, lines at most
     * that. Rows of `to` are written whole, in order of l: up to KERNEL_SQUARE values from l * width on
     * are overwritten. NULL: no better than a loop. */
    void (*turn)(const real *from, size_t line, size_t lines, real *to, size_t width);
    /* y[i] = exp(sign * x[i] - top), x and y may be one; relative error below 2e-7 in float; 0 below
     * the smallest normal number. NaN stays NaN. Only of the float kernel; NULL in double. */
    void (*exp)(const real *x, size_t n, real sign, real top, real *y);
};

/* The kernels that this CPU can run, fastest first; NULL behind the last. */
const struct T(kernel) * T(kernel_at)(size_t index);

#endif
