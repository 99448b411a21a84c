// SPDX-License-Identifier: Apache-2.0
/* One body in GCC's vector types of 64 bytes, compiled for three instruction sets; the compiler splits
 * the vectors where registers are narrower. Built with contraction to FMA, unlike the rest. */
#include "train/kernel.h"

#include <math.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))

typedef real vec __attribute__((vector_size(64), aligned(sizeof(real)), may_alias));

enum {
    LANES = 64 / sizeof(real),
    VECTORS_MAX = 2
};

INLINE void tile(const size_t rows, const size_t vectors, size_t k, const real *a, const real *b,
                 real *out)
{
    vec c[KERNEL_ROWS_MAX][VECTORS_MAX] = {0};
    for (size_t l = 0; l < k; l++) {
        vec right[VECTORS_MAX];
#pragma GCC unroll 2
        for (size_t j = 0; j < vectors; j++) {
            right[j] = *(const vec *)(b + j * LANES);
        }
#pragma GCC unroll 14
        for (size_t i = 0; i < rows; i++) {
#pragma GCC unroll 2
            for (size_t j = 0; j < vectors; j++) {
                c[i][j] += a[i] * right[j];
            }
        }
        a += rows;
        b += vectors * LANES;
    }
#pragma GCC unroll 14
    for (size_t i = 0; i < rows; i++) {
#pragma GCC unroll 2
        for (size_t j = 0; j < vectors; j++) {
            *(vec *)(out + (i * vectors + j) * LANES) = c[i][j];
        }
    }
}

#ifndef TRAIN_DOUBLE
/*
 * exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln 2 / 2, ln 2 in two parts; exp(r) by its Taylor
 * polynomial of degree 7, whose remainder is below 5e-9. The loop has no branch, so it vectorises.
 */
INLINE void exp_body(const float *x, size_t n, float sign, float top, float *y)
{
    const float log2e = 1.44269504088896341f;
    const float ln2_high = 0x1.62e4p-1f; /* 15 bits: n * ln2_high is exact */
    const float ln2_low = 0x1.7f7d1cp-20f;
    const float shift = 0x1.8p23f; /* adding it rounds to a whole number in the low bits */
    for (size_t i = 0; i < n; i++) {
        float v = sign * x[i] - top;
        float z = v < -87.0f ? -87.0f : v > 88.0f ? 88.0f : v;
        float whole = z * log2e + shift;

        union {
            float f;
            uint32_t i;
        } bits = {.f = whole};

        float m = whole - shift;
        float r = z - m * ln2_high - m * ln2_low;
        float p = 1.0f / 5040;
        p = p * r + 1.0f / 720;
        p = p * r + 1.0f / 120;
        p = p * r + 1.0f / 24;
        p = p * r + 1.0f / 6;
        p = p * r + 0.5f;
        p = p * r + 1.0f;
        p = p * r + 1.0f;
        bits.i = (bits.i + 127) << 23; /* the shift's own bits leave at the top */
        float e = p * bits.f;
        e = v < -87.0f ? 0.0f : e;
        e = v > 88.0f ? INFINITY : e;
        y[i] = v != v ? v : e;
    }
}

# define EXP(suffix) exp_##suffix
#else
# define EXP(suffix) NULL
#endif

/* float: 14 x 32, 6 x 16 and 2 x 16; double: half as wide. */
#define KERNEL(suffix, attributes, rows_, vectors_)                                      \
 attributes static void tile_##suffix(size_t k, const real *a, const real *b, real *out) \
 {                                                                                       \
  tile(rows_, vectors_, k, a, b, out);                                                   \
 }                                                                                       \
 EXP_FUNCTION(suffix, attributes)                                                        \
 static const struct T(kernel)                                                           \
     kernel_##suffix = {#suffix, rows_, (vectors_)*LANES, tile_##suffix, EXP(suffix)};

#ifndef TRAIN_DOUBLE
# define EXP_FUNCTION(suffix, attributes)                                                    \
  attributes static void exp_##suffix(const real *x, size_t n, real sign, real top, real *y) \
  {                                                                                          \
   exp_body(x, n, sign, top, y);                                                             \
  }
#else
# define EXP_FUNCTION(suffix, attributes)
#endif

KERNEL(baseline, , 2, 1)

#ifdef __x86_64__
KERNEL(avx2, __attribute__((target("avx2,fma"))), 6, 1)
KERNEL(avx512, __attribute__((target("avx512f,avx512dq,avx512vl,fma,prefer-vector-width=512"))), 14,
       2)
#endif

const struct T(kernel) * T(kernel_at)(size_t index)
{
    const struct T(kernel) *usable[3] = {0};
    size_t n = 0;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
        usable[n++] = &kernel_avx512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        usable[n++] = &kernel_avx2;
    }
#endif
    usable[n++] = &kernel_baseline;
    return index < n ? usable[index] : NULL;
}
