// SPDX-License-Identifier: Apache-2.0
/*
 * Where the arithmetic runs: threads over fixed parts of a loop, and the matrix product, by a BLAS
 * library, by own vector code, or by plain loops (reference).
 */
#ifndef ASSAY_TRAIN_COMPUTE_H
#define ASSAY_TRAIN_COMPUTE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"

#include "device/gemm.h"
#include "train/real.h"

struct compute {
    unsigned threads;
    bool reference;            /* plain loops, sums in double and in order of the index */
    struct gemm_library *blas; /* NULL: own code */
    struct gemm_choice blas_f32, blas_f64; /* its entry points */
    const char *blas_summary;              /* "openblas 0.3.21", "avx512", "plain loops" */
};

/* Part [from, to) of a loop. `lane` is below `threads` and no other part has it at the same time: for
 * scratch memory. What is computed must not depend on it. */
typedef void compute_part_fn(void *ctx, unsigned lane, size_t from, size_t to);

/* Cuts 0 .. count - 1 into parts of `grain` (at least 1) and runs them on the threads. The cut does not
 * depend on the number of threads. */
void compute_parts(const struct compute *c, size_t count, size_t grain, compute_part_fn *fn,
                   void *ctx);

/*
 * C[m, n] = alpha * op(A)[m, k] op(B)[k, n] + beta * C, row-major with leading dimensions. op is the
 * transpose where ta or tb is set. With beta 0 C is not read. On all threads.
 */
void T(gemm)(const struct compute *c, bool ta, bool tb, size_t m, size_t n, size_t k, real alpha,
             const real *a, size_t lda, const real *b, size_t ldb, real beta, real *out,
             size_t ldo);

/* The same on the calling thread alone, for use inside a part. */
void T(gemm_part)(const struct compute *c, bool ta, bool tb, size_t m, size_t n, size_t k,
                  real alpha, const real *a, size_t lda, const real *b, size_t ldb, real beta,
                  real *out, size_t ldo);

#endif
