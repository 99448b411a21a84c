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
                 real alpha, real beta, real *out, size_t line)
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
            vec *to = (vec *)(out + i * line + j * LANES);
            *to = beta == 0 ? alpha * c[i][j] : alpha * c[i][j] + beta * *to;
        }
    }
}

#ifdef TRAIN_DOUBLE
# define INTERLEAVE_LOW  0, 8, 1, 9, 2, 10, 3, 11
# define INTERLEAVE_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#else
# define INTERLEAVE_LOW  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
# define INTERLEAVE_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#endif

/* A square is turned by log2(LANES) rounds, each of which interleaves the first half of its rows with
 * the second: the index of an element, row and column written one after the other, rotates by one bit
 * each time. */
INLINE void turn(const real *from, size_t line, size_t lines, real *to, size_t width)
{
    vec row[LANES];
    vec next[LANES];
#pragma GCC unroll 16
    for (size_t i = 0; i < LANES; i++) {
        row[i] = *(const vec *)(from + (i < lines ? i : lines - 1) * line);
    }
#pragma GCC unroll 4
    for (size_t round = 1; round < LANES; round *= 2) {
#pragma GCC unroll 8
        for (size_t i = 0; i < LANES / 2; i++) {
            next[2 * i] = __builtin_shufflevector(row[i], row[i + LANES / 2], INTERLEAVE_LOW);
            next[2 * i + 1] = __builtin_shufflevector(row[i], row[i + LANES / 2], INTERLEAVE_HIGH);
        }
#pragma GCC unroll 16
        for (size_t i = 0; i < LANES; i++) {
            row[i] = next[i];
        }
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < LANES; i++) {
        *(vec *)(to + i * width) = row[i];
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

#define TILE_FUNCTION(suffix, attributes, rows_, vectors_)                                \
 attributes static void tile_##suffix(size_t k, const real *a, const real *b, real alpha, \
                                      real beta, real *out, size_t line)                  \
 {                                                                                        \
  tile(rows_, vectors_, k, a, b, alpha, beta, out, line);                                 \
 }

#ifndef TRAIN_DOUBLE
# define EXP_FUNCTION(suffix, attributes)                                                    \
  attributes static void exp_##suffix(const real *x, size_t n, real sign, real top, real *y) \
  {                                                                                          \
   exp_body(x, n, sign, top, y);                                                             \
  }
#else
# define EXP_FUNCTION(suffix, attributes)
#endif

/* float: 14 x 32, 6 x 16 and 2 x 16; double: half as wide. */
#define KERNEL(suffix, attributes, rows_, vectors_, turn_) \
 TILE_FUNCTION(suffix, attributes, rows_, vectors_)        \
 EXP_FUNCTION(suffix, attributes)                          \
 static const struct T(kernel)                             \
     kernel_##suffix = {#suffix, rows_, (vectors_)*LANES, tile_##suffix, turn_, EXP(suffix)};

KERNEL(baseline, , 2, 1, NULL)

#ifdef __x86_64__
# define AVX2 __attribute__((target("avx2,fma")))
# ifdef __clang__ /* does not know the width, and ignores all of an attribute that it does not know */
#  define AVX512 __attribute__((target("avx512f,avx512dq,avx512vl,fma")))
# else
#  define AVX512 __attribute__((target("avx512f,avx512dq,avx512vl,fma,prefer-vector-width=512")))
# endif

AVX512 static void turn_avx512(const real *from, size_t line, size_t lines, real *to, size_t width)
{
    turn(from, line, lines, to, width);
}

KERNEL(avx2, AVX2, 6, 1, NULL)
KERNEL(avx512, AVX512, 14, 2, turn_avx512)
#endif

const struct T(kernel) * T(kernel_at)(size_t index)
{
    const struct T(kernel) * usable[3] = {0};
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
