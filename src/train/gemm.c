// SPDX-License-Identifier: Apache-2.0
/* The matrix product by plain loops: each element is a sum in double in order of the inner index,
 * rounded once. */
#include <string.h>

#include "train/compute.h"

struct product {
    bool ta, tb;
    size_t n, k;
    real alpha, beta;
    const real *a, *b;
    size_t lda, ldb;
    real *out;
    size_t ldo;
};

static void rows(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct product *p = ctx;
    size_t a_step = p->ta ? p->lda : 1;
    size_t b_step = p->tb ? 1 : p->ldb;
    (void)lane;
    for (size_t i = from; i < to; i++) {
        const real *a = p->ta ? p->a + i : p->a + i * p->lda;
        for (size_t j = 0; j < p->n; j++) {
            const real *b = p->tb ? p->b + j * p->ldb : p->b + j;
            double sum = 0;
            for (size_t l = 0; l < p->k; l++) {
                sum += (double)a[l * a_step] * (double)b[l * b_step];
            }
            real *to_c = p->out + i * p->ldo + j;
            *to_c = (real)((double)p->alpha * sum +
                           (p->beta == 0 ? 0 : (double)p->beta * (double)*to_c));
        }
    }
}

void T(gemm)(const struct compute *c, bool ta, bool tb, size_t m, size_t n, size_t k, real alpha,
             const real *a, size_t lda, const real *b, size_t ldb, real beta, real *out, size_t ldo)
{
    struct product p = {ta, tb, n, k, alpha, beta, a, b, lda, ldb, out, ldo};
    size_t work = n * k < 1 ? 1 : n * k;
    compute_parts(c, m, work >= 65536 ? 1 : 65536 / work, rows, &p);
}

void T(gemm_part)(const struct compute *c, bool ta, bool tb, size_t m, size_t n, size_t k,
                  real alpha, const real *a, size_t lda, const real *b, size_t ldb, real beta,
                  real *out, size_t ldo)
{
    struct product p = {ta, tb, n, k, alpha, beta, a, b, lda, ldb, out, ldo};
    (void)c;
    rows(&p, 0, 0, m);
}
