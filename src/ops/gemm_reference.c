// SPDX-License-Identifier: Apache-2.0
/*
 * A column of C is updated by four columns of A at once: enough to feed the vector units without a
 * tuned kernel, and simple enough to be believed. Whichever of m and n is longer runs along the
 * vectors, so that thin matrices are not slow.
 */
#include "ops/gemm_reference.h"

#include <string.h>

/* Four doubles; two registers where the processor's are shorter. */
typedef double lanes __attribute__((vector_size(32), aligned(8), may_alias));

enum {
    LANES = 4
};

/* c[i] += a0[i] s[0] + ... + a3[i] s[3] */
static inline __attribute__((always_inline)) void update4(double *c, const double *a, int64_t rows,
                                                          const double *s)
{
    const double *a1 = a + rows;
    const double *a2 = a1 + rows;
    const double *a3 = a2 + rows;
    int64_t i = 0;
    for (; i + LANES <= rows; i += LANES) {
        *(lanes *)(c + i) += *(const lanes *)(a + i) * s[0] + *(const lanes *)(a1 + i) * s[1] +
                             *(const lanes *)(a2 + i) * s[2] + *(const lanes *)(a3 + i) * s[3];
    }
    for (; i < rows; i++) {
        c[i] += a[i] * s[0] + a1[i] * s[1] + a2[i] * s[2] + a3[i] * s[3];
    }
}

static inline __attribute__((always_inline)) void update1(double *c, const double *a, int64_t rows,
                                                          double s)
{
    int64_t i = 0;
    for (; i + LANES <= rows; i += LANES) {
        *(lanes *)(c + i) += *(const lanes *)(a + i) * s;
    }
    for (; i < rows; i++) {
        c[i] += a[i] * s;
    }
}

/* C (rows x columns) = A (rows x k) times the matrix whose element (p, j) is b[p * step_p + j *
 * step_j]. */
static inline __attribute__((always_inline)) void columns(double *c, const double *a,
                                                          const double *b, const int64_t *sizes)
{
    int64_t rows = sizes[0];
    int64_t k = sizes[2];
    memset(c, 0, (size_t)(rows * sizes[1]) * sizeof *c);
    for (int64_t j = 0; j < sizes[1]; j++) {
        double *cj = c + j * rows;
        const double *bj = b + j * sizes[4];
        int64_t p = 0;
        for (; p + 4 <= k; p += 4) {
            const double s[4] = {bj[p * sizes[3]], bj[(p + 1) * sizes[3]], bj[(p + 2) * sizes[3]],
                                 bj[(p + 3) * sizes[3]]};
            update4(cj, a + p * rows, rows, s);
        }
        for (; p < k; p++) {
            update1(cj, a + p * rows, rows, bj[p * sizes[3]]);
        }
    }
}

static void columns_plain(double *c, const double *a, const double *b, const int64_t *sizes)
{
    columns(c, a, b, sizes);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void columns_avx2(double *c, const double *a,
                                                             const double *b, const int64_t *sizes)
{
    columns(c, a, b, sizes);
}

static void run(double *c, const double *a, const double *b, const int64_t *sizes)
{
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        columns_avx2(c, a, b, sizes);
    } else {
        columns_plain(c, a, b, sizes);
    }
}
#else
static void run(double *c, const double *a, const double *b, const int64_t *sizes)
{
    columns_plain(c, a, b, sizes);
}
#endif

bool gemm_reference_wants_transpose(int64_t m, int64_t n)
{
    return m < n;
}

void gemm_reference(const struct gemm_factors *f, double *product, double *scratch)
{
    if (!gemm_reference_wants_transpose(f->m, f->n)) {
        const int64_t sizes[] = {f->m, f->n, f->k, 1, f->k};
        run(product, f->a, f->b, sizes);
        return;
    }
    const int64_t sizes[] = {f->n, f->m, f->k, f->m, 1};
    run(scratch, f->b_transposed, f->a, sizes);
    for (int64_t j = 0; j < f->n; j++) {
        for (int64_t i = 0; i < f->m; i++) {
            product[i + j * f->m] = scratch[j + i * f->n];
        }
    }
}

/* Four sums at once: one addition waits for the one before it, not for its neighbours'. Padded with the
 * last row where there are fewer. */
static void extended4(const struct gemm_factors *f, int64_t i, const double *b, double *product)
{
    const int64_t last = f->m - 1 - i;
    const double *a0 = f->a + i;
    const double *a1 = a0 + (last < 1 ? last : 1);
    const double *a2 = a0 + (last < 2 ? last : 2);
    const double *a3 = a0 + (last < 3 ? last : 3);
    long double s0 = 0;
    long double s1 = 0;
    long double s2 = 0;
    long double s3 = 0;
    for (int64_t p = 0; p < f->k; p++) {
        const long double scale = (long double)b[p];
        const int64_t at = p * f->m;
        s0 += (long double)a0[at] * scale;
        s1 += (long double)a1[at] * scale;
        s2 += (long double)a2[at] * scale;
        s3 += (long double)a3[at] * scale;
    }
    const double sums[] = {(double)s0, (double)s1, (double)s2, (double)s3};
    memcpy(product + i, sums, (size_t)(last < 3 ? last + 1 : 4) * sizeof *product);
}

void gemm_reference_extended(const struct gemm_factors *f, double *product)
{
    for (int64_t j = 0; j < f->n; j++) {
        for (int64_t i = 0; i < f->m; i += 4) {
            extended4(f, i, f->b + j * f->k, product + j * f->m);
        }
    }
}
