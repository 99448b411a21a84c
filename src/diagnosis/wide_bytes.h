// SPDX-License-Identifier: Apache-2.0
/* Texts of up to WIDE_MAX bytes in four vectors, without a branch that depends on their length; SIMD_AVX512 alone. */
#ifndef ASSAY_DIAGNOSIS_WIDE_BYTES_H
#define ASSAY_DIAGNOSIS_WIDE_BYTES_H

#include <stdbool.h>

#include "base/simd.h"

#if defined(__x86_64__)
# include <immintrin.h>
# include <stdalign.h>
# include <stddef.h>

enum {
    WIDE_MAX = 255 /* the length is a byte */
};

alignas(64) static const unsigned char wide_numbers[64] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
    22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
    44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};

/* 64 bytes of a text from `at` on: those before its end, `n`, and zeros. No more are read. */
TARGET_AVX512 static inline __m512i wide_first(const char *p, unsigned char at, __m512i n)
{
    __m512i number = _mm512_add_epi8(_mm512_load_si512(wide_numbers), _mm512_set1_epi8((char)at));
    return _mm512_maskz_loadu_epi8(_mm512_cmplt_epu8_mask(number, n), p + at);
}
#endif

#endif
