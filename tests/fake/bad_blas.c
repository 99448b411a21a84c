// SPDX-License-Identifier: Apache-2.0
/*
 * A BLAS with one planted fault, chosen when it is built; without one it is right.
 *
 *   PLANT_READ       a tile four columns wide over B: reads the columns that are not there and drops
 *                    them (N not a multiple of 4, B not transposed)
 *   PLANT_WIDE       reads 300 bytes behind the end of B, and nothing nearer
 *   PLANT_FAR        reads 6,000 bytes behind the end of B, and nothing nearer
 *   PLANT_WRITE      writes one element past the end of C (M odd)
 *   PLANT_WRONG      one term too few in the last row (M > 4, K > 2)
 *   PLANT_GAP        writes into the padding behind the first column of C
 *   PLANT_UNWRITTEN  leaves the last cell of C (M and N odd) as it was
 *   PLANT_CHATTY     prints a line to stdout in every call, which is no fault
 *   PLANT_ABORT      gives up (M > 8)
 *   PLANT_FLOAT      leaves flush-to-zero switched on
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef PLANT_FLOAT
# include <xmmintrin.h>
# define FLOAT_MODE _mm_setcsr(_mm_getcsr() | 0x8000)
#else
# define FLOAT_MODE (void)0
#endif

/* A volatile pointer keeps the compiler from dropping reads that are not used. */
#define GEMM(real, fortran, cblas)                                                                 \
 void fortran(const char *ta, const char *tb, const int *pm, const int *pn, const int *pk,         \
              const real *alpha, const real *a, const int *lda, const real *b, const int *ldb,     \
              const real *beta, real *c, const int *ldc);                                          \
 void cblas(int order, int ta, int tb, int m, int n, int k, real alpha, const real *a, int lda,    \
            const real *b, int ldb, real beta, real *c, int ldc);                                  \
 static void work_##fortran(int ta, int tb, int m, int n, int k, real alpha, const real *a,        \
                            ptrdiff_t lda, const real *b, ptrdiff_t ldb, real beta, real *c,       \
                            ptrdiff_t ldc)                                                         \
 {                                                                                                 \
  if (ABORT(m)) {                                                                                  \
   abort();                                                                                        \
  }                                                                                                \
  for (int j = 0; j < n; j++) {                                                                    \
   for (int i = 0; i < m; i++) {                                                                   \
    real sum = 0;                                                                                  \
    for (int p = 0; p < k - SHORT(i, m, k); p++) {                                                 \
     sum += (ta ? a[p + i * lda] : a[i + p * lda]) * (tb ? b[j + p * ldb] : b[p + j * ldb]);       \
    }                                                                                              \
    if (!(UNWRITTEN(m, n) && i == m - 1 && j == n - 1)) {                                          \
     c[i + j * ldc] = alpha * sum + (beta != 0 ? beta * c[i + j * ldc] : 0);                       \
    }                                                                                              \
   }                                                                                               \
  }                                                                                                \
  CHATTY;                                                                                          \
  FLOAT_MODE;                                                                                      \
  for (int j = n; TILE && !tb && k > 0 && j % 4 != 0; j++) {                                       \
   volatile real dropped = b[j * ldb];                                                             \
   (void)dropped;                                                                                  \
  }                                                                                                \
  if (REACH && k > 0 && n > 0) {                                                                   \
   const char *end = (const char *)(tb ? b + n + (k - 1) * ldb : b + k + (n - 1) * ldb);           \
   volatile char dropped = end[REACH];                                                             \
   (void)dropped;                                                                                  \
  }                                                                                                \
  if (WRITE(m) && n > 0) {                                                                         \
   c[m + (n - 1) * ldc] = 0;                                                                       \
  }                                                                                                \
  if (GAP && ldc > m && n > 1) {                                                                   \
   c[m] = 0;                                                                                       \
  }                                                                                                \
 }                                                                                                 \
 void fortran(const char *ta, const char *tb, const int *pm, const int *pn, const int *pk,         \
              const real *alpha, const real *a, const int *lda, const real *b, const int *ldb,     \
              const real *beta, real *c, const int *ldc)                                           \
 {                                                                                                 \
  work_##fortran(*ta != 'N', *tb != 'N', *pm, *pn, *pk, *alpha, a, *lda, b, *ldb, *beta, c, *ldc); \
 }                                                                                                 \
 void cblas(int order, int ta, int tb, int m, int n, int k, real alpha, const real *a, int lda,    \
            const real *b, int ldb, real beta, real *c, int ldc)                                   \
 {                                                                                                 \
  if (order == 102) {                                                                              \
   work_##fortran(ta == 112, tb == 112, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);             \
  } else {                                                                                         \
   work_##fortran(tb == 112, ta == 112, n, m, k, alpha, b, ldb, a, lda, beta, c, ldc);             \
  }                                                                                                \
 }

#ifdef PLANT_READ
# define TILE 1
#else
# define TILE 0
#endif
#if defined(PLANT_WIDE)
# define REACH 300
#elif defined(PLANT_FAR)
# define REACH 6000
#else
# define REACH 0
#endif
#ifdef PLANT_CHATTY
# define CHATTY (void)puts("** parameter number 8 had an illegal value")
#else
# define CHATTY (void)0
#endif
#ifdef PLANT_WRITE
# define WRITE(m) ((m) % 2 == 1)
#else
# define WRITE(m) 0
#endif
#ifdef PLANT_WRONG
# define SHORT(i, m, k) ((m) > 4 && (k) > 2 && (i) == (m)-1 ? 1 : 0)
#else
# define SHORT(i, m, k) 0
#endif
#ifdef PLANT_GAP
# define GAP 1
#else
# define GAP 0
#endif
#ifdef PLANT_UNWRITTEN
# define UNWRITTEN(m, n) ((m) % 2 == 1 && (n) % 2 == 1)
#else
# define UNWRITTEN(m, n) 0
#endif
#ifdef PLANT_ABORT
# define ABORT(m) ((m) > 8)
#else
# define ABORT(m) 0
#endif

GEMM(float, sgemm_, cblas_sgemm)
GEMM(double, dgemm_, cblas_dgemm)
