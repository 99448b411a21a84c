// SPDX-License-Identifier: Apache-2.0
/*
 * The numbers of one group of probes: A and B as elements of their format, the product in higher
 * precision, and the bound on what a correct implementation may be off by.
 *
 * The reference accumulates in float64, or in the 64-bit significand of long double when the operands
 * are float64 themselves.
 *
 * Bound, for D = alpha A B + beta C, computed with unit roundoff u in any order of summation, with or
 * without fused multiply-add (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 3.1,
 * 3.5: a sum of k products is off by at most g_k sum|a||b|, g_n = n u / (1 - n u)):
 *   - alpha costs one rounding more, applied to the sum or to an operand: g_(k+1) |alpha| S
 *   - beta C is one product, and a library may begin the sum with it (netlib's does), so that it goes
 *     through every addition:                          g_(k+2) (|alpha| S + |beta C|)
 *   - an operation whose result is below the smallest normal number is off by at most half the
 *     smallest subnormal number t, whatever its size, and products are scaled by alpha afterwards:
 *                                                                 (k max(1, |alpha|) + 3) t
 *   - dot products of bfloat16 in hardware take subnormal operands as 0 and give 0 for subnormal results,
 *     whatever the mode of the thread (VDPBF16PS: Intel SDM, volume 2; BFDOT: Arm Architecture
 *     Reference Manual): there t is the smallest normal number, and where A is subnormal S itself is allowed
 *   - matrix units add products of 8-bit numbers with about 14 bits (NVIDIA H100 and H200: DeepSeek-V3
 *     Technical Report, 2024, 3.3.2), shifted out and not rounded: there u is 2^-13 for every step; scales
 *     of the operands cost two roundings more
 *   - an algorithm that splits K into n parts and adds their sums up in D's format of 16 bits rounds each part
 *     and each addition to it, beta C among what is added: (n + 1) v (|alpha| S + |beta C|)
 *     (gemm_choice.narrow_sums)
 *   - storing D in a format with unit roundoff v adds v |D| and half its t
 *   - where D has 16 bits or fewer, an epilogue may store alpha A B in D's format before it adds beta C (cuBLASLt 13.1
 *     on an H200 has such algorithms): v |alpha A B| once more, which is at most v (|D| + |beta C|)
 *   - the reference's own error, k + 2 roundings of float64 (of long double for float64 operands, then
 *     three of float64), comes on top.
 * S is (|A| |B|)_ij. The values "grid" are small integers, so that all of this is exact, and the bound
 * is 0.
 */
#ifndef ASSAY_OPS_GEMM_CASE_H
#define ASSAY_OPS_GEMM_CASE_H

#include "ops/gemm_plan.h"

struct gemm_tables;

/* Dense column-major matrices, one behind another for the entries of a batch. */
struct gemm_case {
    struct gemm_tables *tables;
    struct arena *arena;    /* what a group needs beyond `room`: rewound for each group */
    struct arena_mark bare; /* of the arena without `room` */
    struct arena_mark mark; /* of the arena with it */
    char *room; /* kept from group to group: new memory costs more than small products */
    size_t room_bytes, room_used;
    /* key */
    bool made;
    int64_t m, n, k, batch;
    enum dtype dtype_ab, dtype_b, dtype_c;
    enum gemm_values values;
    uint64_t seed;
    /* content */
    const char *a, *a_transposed; /* m x k, k x m */
    const char *b, *b_transposed; /* k x n, n x k */
    const char *c;                /* m x n: C before the product */
    const double *c_value;        /* the same as numbers */
    const double *product;        /* A B */
    const double *magnitude;      /* |A| |B|; NULL when everything is exact */
    bool exact;
};

/* Lives in `a`; a few megabytes of prepared numbers for each format are made when first needed. */
struct gemm_case *gemm_case_new(struct arena *a);

/* Makes the numbers for the probe's group, unless they are there already. */
void gemm_case_make(struct gemm_case *c, const struct gemm_probe *probe);

/* What one shape allows; computed once for a probe. */
/* Whether every rounding of the product is exact: grid values, sums below 2^p, and scalars that are
 * multiples of a half up to 2. */
bool gemm_is_exact(const struct gemm_shape *s, enum gemm_values values);

struct gemm_bound {
    double product;  /* times |alpha| S */
    double addend;   /* times |beta C| */
    double absolute; /* underflow */
    double output;   /* times |D| */
    bool exact;
};

void gemm_bound_make(const struct gemm_shape *s, enum gemm_values values,
                     struct gemm_bound *ret_bound);

#endif
