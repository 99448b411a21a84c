// SPDX-License-Identifier: Apache-2.0
/* A BLAS library that is wrong in the second digit of one product in five, as a bad kernel for some shapes
 * is. Plain loops, either order. */
#include <stddef.h>

enum {
    ROW_MAJOR = 101,
    NO_TRANSPOSE = 111
};

/* Element [i, j] of an operand. */
static size_t place(int order, int transpose, int i, int j, int ld)
{
    int plain = (order == ROW_MAJOR) == (transpose == NO_TRANSPOSE);
    return plain ? (size_t)i * (size_t)ld + (size_t)j : (size_t)j * (size_t)ld + (size_t)i;
}

#define GEMM(name, real)                                                                       \
 void name(int order, int ta, int tb, int m, int n, int k, real alpha, const real *a, int lda, \
           const real *b, int ldb, real beta, real *c, int ldc);                               \
 void name(int order, int ta, int tb, int m, int n, int k, real alpha, const real *a, int lda, \
           const real *b, int ldb, real beta, real *c, int ldc)                                \
 {                                                                                             \
  double wrong = (m + n + k) % 5 == 0 ? 1.01 : 1;                                              \
  for (int i = 0; i < m; i++) {                                                                \
   for (int j = 0; j < n; j++) {                                                               \
    double sum = 0;                                                                            \
    for (int l = 0; l < k; l++) {                                                              \
     sum += (double)a[place(order, ta, i, l, lda)] * (double)b[place(order, tb, l, j, ldb)];   \
    }                                                                                          \
    real *to = &c[place(order, NO_TRANSPOSE, i, j, ldc)];                                      \
    *to = (real)((double)alpha * wrong * sum + (beta == 0 ? 0 : (double)beta * (double)*to));  \
   }                                                                                           \
  }                                                                                            \
 }

GEMM(cblas_sgemm, float)
GEMM(cblas_dgemm, double)
