// SPDX-License-Identifier: Apache-2.0
/*
 * A BLAS of one function, for tests of the recorder. With WRONG_ABOVE products of a larger k are wrong. With
 * OTHER its results are 100 too large, so that it is known by them. Built twice under one name: right, and with
 * OVER_READ reading one element past the end of A and throwing it away, as a tile that is wider than
 * its operand does.
 */
#include <stddef.h>

#ifdef OTHER
__asm__(
    ".text\n.skip 512, 0xcc\n"); /* its functions lie elsewhere, and what lies where theirs lay traps */
#endif

void sgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k,
            const float *alpha, const float *a, const int *lda, const float *b, const int *ldb,
            const float *beta, float *c, const int *ldc);

void sgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k,
            const float *alpha, const float *a, const int *lda, const float *b, const int *ldb,
            const float *beta, float *c, const int *ldc)
{
    for (int j = 0; j < *n; j++) {
        for (int i = 0; i < *m; i++) {
            float sum = 0;
            for (int p = 0; p < *k; p++) {
                float x = *ta == 'N' ? a[i + (ptrdiff_t)p * *lda] : a[p + (ptrdiff_t)i * *lda];
                float y = *tb == 'N' ? b[p + (ptrdiff_t)j * *ldb] : b[j + (ptrdiff_t)p * *ldb];
                sum += x * y;
            }
            float *to = &c[i + (ptrdiff_t)j * *ldc];
            *to = *alpha * sum + (*beta != 0 ? *beta * *to : 0);
#ifdef OTHER
            *to += 100;
#endif
#ifdef WRONG_ABOVE
            *to += *k > WRONG_ABOVE ? 1 : 0;
#endif
        }
    }
#ifdef OVER_READ
    int columns = *ta == 'N' ? *k : *m;
    int rows = *ta == 'N' ? *m : *k;
    volatile float beyond = a[(ptrdiff_t)(columns - 1) * *lda + rows];
    (void)beyond;
#endif
}
