// SPDX-License-Identifier: Apache-2.0
/*
 * Rows of reals for the files of `train_math`: the few loops that everything else is made of. Sums run
 * in a fixed order (eight partial sums, then pairwise), so that a result never depends on the machine.
 */
#ifndef ASSAY_TRAIN_ROWS_H
#define ASSAY_TRAIN_ROWS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "train/real.h"

/* a . b */
static inline real rows_dot(const real *a, const real *b, size_t n)
{
    real part[8] = {0};
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (size_t j = 0; j < 8; j++) {
            part[j] += a[i + j] * b[i + j];
        }
    }
    for (size_t j = 0; i < n; i++, j++) {
        part[j] += a[i] * b[i];
    }
    return ((part[0] + part[4]) + (part[2] + part[6])) +
           ((part[1] + part[5]) + (part[3] + part[7]));
}

/* y += scale x */
static inline void rows_add(real *restrict y, const real *restrict x, real scale, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] += scale * x[i];
    }
}

/* y = scale x */
static inline void rows_set(real *restrict y, const real *restrict x, real scale, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = scale * x[i];
    }
}

/* What is left of a value that is stored, in bfloat16 when that is asked for: the nearest, ties to even; NaN stays
 * NaN. Doubles are never rounded. */
static inline real rows_stored(real x, bool bf16)
{
#ifdef TRAIN_DOUBLE
    (void)bf16;
    return x;
#else
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (!bf16 || (bits & 0x7fffffffu) > 0x7f800000u) {
        return x;
    }
    bits = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
#endif
}

/* The math functions of the arithmetic's own width. */
#ifdef TRAIN_DOUBLE
# define real_exp   exp
# define real_log   log
# define real_log1p log1p
# define real_sqrt  sqrt
# define real_tanh  tanh
# define real_erf   erf
# define real_pow   pow
# define real_cos   cos
# define real_sin   sin
#else
# define real_exp   expf
# define real_log   logf
# define real_log1p log1pf
# define real_sqrt  sqrtf
# define real_tanh  tanhf
# define real_erf   erff
# define real_pow   powf
# define real_cos   cosf
# define real_sin   sinf
#endif

static inline real rows_sigmoid(real x)
{
    /* exp of a negative number only: no overflow on either side */
    real e = real_exp(x < 0 ? x : -x);
    return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

static inline real rows_silu(real x)
{
    return x * rows_sigmoid(x);
}

/* d silu(x) / dx */
static inline real rows_silu_slope(real x)
{
    real s = rows_sigmoid(x);
    return s * (1 + x * (1 - s));
}

/* log(1 + exp(x)), and x itself above 20, as torch has it (its `threshold`). */
static inline real rows_softplus(real x)
{
    return x > 20 ? x : real_log1p(real_exp(x));
}

static inline real rows_softplus_slope(real x)
{
    return x > 20 ? 1 : rows_sigmoid(x);
}

#endif
