// SPDX-License-Identifier: Apache-2.0
/* A first look at results, in vectors: nearly every column is right, and then no more is needed. */
#ifndef ASSAY_OPS_GEMM_SCAN_H
#define ASSAY_OPS_GEMM_SCAN_H

#include "ops/gemm_case.h"

struct gemm_column {
    enum dtype dtype; /* of the results: of 16, 32 or 64 bits */
    const char *got;  /* one behind another; at any address */
    int64_t rows;
    double alpha, beta;
    const double *product;   /* A B, finite */
    const double *magnitude; /* |A| |B|; not read when bound->exact */
    const double *c_value;   /* C before the product, finite */
    const struct gemm_bound *bound;
    double worst; /* 0 to 1: largest error so far in units of its bound */
};

/* True when every result is what it must be, and none is farther off than `worst` of its bound: the
 * same sums as a cell's own judgement (gemm_judge.c), which has the last word on a false. Other formats
 * are always false. */
bool gemm_column_is_fine(const struct gemm_column *column);

#endif
