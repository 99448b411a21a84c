// SPDX-License-Identifier: Apache-2.0
/* Products of dense column-major matrices in higher precision than the operands'. */
#ifndef ASSAY_OPS_GEMM_REFERENCE_H
#define ASSAY_OPS_GEMM_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

struct gemm_factors {
    int64_t m, n, k;
    const double *a;            /* m x k */
    const double *b;            /* k x n */
    const double *b_transposed; /* n x k */
};

/* `product` and `scratch` have m * n elements; scratch may hold the transpose meanwhile. Sums in
 * float64, in unspecified order. */
void gemm_reference(const struct gemm_factors *f, double *product, double *scratch);

/* The same with sums in long double, each rounded once to float64. */
void gemm_reference_extended(const struct gemm_factors *f, double *product);

#endif
