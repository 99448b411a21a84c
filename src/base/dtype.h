// SPDX-License-Identifier: Apache-2.0
/*
 * Number formats of tensors, one row each: size, names in the formats we read, and conversion to and
 * from double with round-to-nearest-even. Used by model files, operators and devices alike.
 *
 * Sources: IEEE 754-2019 (binary64/32/16); bfloat16 as the upper half of binary32; OCP 8-bit
 * floating point specification 1.0 (E4M3 "fn": no infinity, one NaN pattern 0x7f; E5M2: IEEE-like);
 * the "fnuz" forms of AMD CDNA3 (bias one higher, no negative zero, 0x80 is the only NaN).
 */
#ifndef ASSAY_BASE_DTYPE_H
#define ASSAY_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum dtype {
    DTYPE_F64 = 0,
    DTYPE_F32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_F8_E4M3FN,
    DTYPE_F8_E5M2,
    DTYPE_F8_E4M3FNUZ,
    DTYPE_F8_E5M2FNUZ,
    DTYPE_I64,
    DTYPE_I32,
    DTYPE_I16,
    DTYPE_I8,
    DTYPE_U64,
    DTYPE_U32,
    DTYPE_U16,
    DTYPE_U8,
    DTYPE_BOOL,
    DTYPE_COUNT
};

struct dtype_info {
    const char *name;        /* ours, and torch's: "bfloat16", "float8_e4m3fn" */
    const char *safetensors; /* "BF16", "F8_E4M3"; NULL when that format has none */
    unsigned size;           /* bytes of one element */
    bool is_float;
    unsigned mantissa_bits; /* explicit ones; unit roundoff is 2^-(mantissa_bits+1) */
    int min_exponent;       /* exponent of the smallest normal number */
    double largest;         /* largest finite number */
};

/* Never NULL for a value below DTYPE_COUNT. */
const struct dtype_info *dtype_info(enum dtype t);

/* By our name, a short one ("bf16", "fp32", "half"), or the safetensors name. False when unknown. */
bool dtype_find(struct str name, enum dtype *ret_dtype);

/* One element at `p` (any alignment) as double. 64-bit integers beyond 2^53 are rounded. */
double dtype_get(enum dtype t, const void *p);

/* Rounds to nearest even and writes one element. Out of range: infinity where the format has one,
 * else NaN (E4M3FN and the fnuz forms); integers saturate. */
void dtype_set(enum dtype t, void *p, double value);

/* `count` elements, densely packed. */
void dtype_to_double(enum dtype t, const void *from, size_t count, double *to);
void dtype_from_double(enum dtype t, const double *from, size_t count, void *to);

/* The value after one rounding to the format. */
double dtype_round(enum dtype t, double value);

/* 2^-(mantissa_bits+1): the largest relative error of one rounding; 0 for integers. */
double dtype_unit_roundoff(enum dtype t);

#endif
