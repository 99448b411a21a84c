// SPDX-License-Identifier: Apache-2.0
/* What the files of train_math share among themselves: small inline arithmetic, and the passes that
 * the table in layer.c lists. */
#ifndef ASSAY_TRAIN_LAYER_PARTS_H
#define ASSAY_TRAIN_LAYER_PARTS_H

#include <math.h>
#include <string.h>

#include "train/layer.h"
#include "train/rows.h"

enum {
    PART_ELEMENTS = 16384 /* of a loop over elements; rows are grouped to about this many */
};

/* Rows of `width` to one part. */
static inline size_t part_rows(size_t width)
{
    return width == 0 || width >= PART_ELEMENTS ? 1 : (PART_ELEMENTS + width - 1) / width;
}

/* One value as a framework would store it. */
static inline real T(store)(const struct run *run, real x)
{
    return rows_stored(x, run->precision == PRECISION_BF16);
}

/* Sums of products in double, in eight interleaved runs: one fixed order that vector units like. */
static inline double T(dot)(size_t n, const real *x, const real *y)
{
    double s[8] = {0};
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (size_t j = 0; j < 8; j++) {
            s[j] += (double)x[i + j] * (double)y[i + j];
        }
    }
    for (size_t j = 0; i < n; i++, j++) {
        s[j] += (double)x[i] * (double)y[i];
    }
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/* The sum in double, in the same order. */
static inline double T(sum)(size_t n, const real *x)
{
    double s[8] = {0};
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (size_t j = 0; j < 8; j++) {
            s[j] += (double)x[i + j];
        }
    }
    for (size_t j = 0; i < n; i++, j++) {
        s[j] += (double)x[i];
    }
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/* The largest, -infinity of none. A NaN is passed over: whoever sums exponentials meets it there. */
static inline real T(largest)(size_t n, const real *x)
{
    real m[16];
    size_t i = 0;
    for (size_t j = 0; j < 16; j++) {
        m[j] = -INFINITY;
    }
    for (; i + 16 <= n; i += 16) {
        for (size_t j = 0; j < 16; j++) {
            m[j] = x[i + j] > m[j] ? x[i + j] : m[j];
        }
    }
    for (size_t j = 0; i < n; i++, j++) {
        m[j] = x[i] > m[j] ? x[i] : m[j];
    }
    for (size_t j = 1; j < 16; j++) {
        m[0] = m[j] > m[0] ? m[j] : m[0];
    }
    return m[0];
}

/* x[i] = exp(x[i] - top); returns the sum, in double. */
double T(exp_row)(const struct compute *c, real *x, size_t n, real top);
/* y[i] = exp(-x[i]) */
void T(exp_negative)(const struct compute *c, const real *x, size_t n, real *y);

void *T(attention_layer_forward)(const struct run *run, const void *layer, const real *x, real *y);
void T(attention_layer_backward)(const struct run *run, const void *layer, const void *kept,
                                 const real *x, const real *dy, real *dx);

/* The mixers of linear_attention.h. */
void *T(linear_attention_forward)(const struct run *run, const void *layer, const real *x, real *y);
void T(linear_attention_backward)(const struct run *run, const void *layer, const void *kept,
                                  const real *x, const real *dy, real *dx);
void *T(gated_attention_forward)(const struct run *run, const void *layer, const real *x, real *y);
void T(gated_attention_backward)(const struct run *run, const void *layer, const void *kept,
                                 const real *x, const real *dy, real *dx);

/* down(silu(gate(x)) * up(x)) */
struct mlp {
    const char *module; /* "model.layers.0.mlp" */
    struct linear gate, up, down;
};

void *T(mlp_forward)(const struct run *run, const struct mlp *l, const real *x, real *y);
void T(mlp_backward)(const struct run *run, const struct mlp *l, const void *kept, const real *x,
                     const real *dy, real *dx);

/* x[tokens, hidden] = rows ids[t] of the table; backward adds dx's rows to the table's gradient. */
void T(embed_forward)(const struct run *run, const struct param *table, real *x);
void T(embed_backward)(const struct run *run, struct param *table, const real *dx);

#endif
