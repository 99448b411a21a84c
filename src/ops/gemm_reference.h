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
    const double *b_transposed; /* n x k; needed where gemm_reference_wants_transpose() */
};

/* Whether the product of an m x k and a k x n matrix is formed from B's transpose. */
bool gemm_reference_wants_transpose(int64_t m, int64_t n);

/* `product` and `scratch` have m * n elements; scratch may hold the transpose meanwhile. Sums in
 * float64, in unspecified order. */
void gemm_reference(const struct gemm_factors *f, double *product, double *scratch);

/* The same with sums in long double, each rounded once to float64. */
void gemm_reference_extended(const struct gemm_factors *f, double *product);

#endif
