// SPDX-License-Identifier: Apache-2.0
/*
 * One matrix product through each calling convention. gemm.h is column-major; a row-major call
 * computes the transpose of the same product, with A and B exchanged.
 */
#include "device/blas_library.h"

/* netlib's numbers, which every CBLAS shares. */
enum {
    CBLAS_ROW_MAJOR = 101,
    CBLAS_COLUMN_MAJOR = 102,
    CBLAS_NO_TRANSPOSE = 111,
    CBLAS_TRANSPOSE = 112
};

/* The operands of one call, in the order in which the convention takes them. */
struct call {
    int64_t m, n, k;
    const void *a, *b;
    void *c;
    int64_t lda, ldb, ldc;
    bool ta, tb;
    double alpha, beta;
    bool is_double;
};

static struct call straight(const struct gemm_shape *s, const void *a, const void *b, void *c)
{
    return (struct call){
        .m = s->m,
        .n = s->n,
        .k = s->k,
        .a = a,
        .b = b,
        .c = c,
        .lda = s->lda,
        .ldb = s->ldb,
        .ldc = s->ldc,
        .ta = s->transpose_a,
        .tb = s->transpose_b,
        .alpha = s->alpha,
        .beta = s->beta,
        .is_double = s->dtype_c == DTYPE_F64,
    };
}

/* C as a row-major matrix is its transpose: C' = op(B)' op(A)'. */
static struct call exchanged(const struct gemm_shape *s, const void *a, const void *b, void *c)
{
    struct call call = straight(s, b, a, c);
    call.m = s->n;
    call.n = s->m;
    call.lda = s->ldb;
    call.ldb = s->lda;
    call.ta = s->transpose_b;
    call.tb = s->transpose_a;
    return call;
}

static int cblas_transpose(bool transpose)
{
    return transpose ? CBLAS_TRANSPOSE : CBLAS_NO_TRANSPOSE;
}

static void call_cblas(const union blas_function *f, int order, const struct call *c)
{
    int ta = cblas_transpose(c->ta);
    int tb = cblas_transpose(c->tb);
    if (c->is_double) {
        f->cblas_d(order, ta, tb, c->m, c->n, c->k, c->alpha, c->a, c->lda, c->b, c->ldb, c->beta,
                   c->c, c->ldc);
    } else {
        f->cblas_s(order, ta, tb, c->m, c->n, c->k, (float)c->alpha, c->a, c->lda, c->b, c->ldb,
                   (float)c->beta, c->c, c->ldc);
    }
}

/* Scalars by reference, in the type of C. */
struct scalar {
    float f;
    double d;
};

static const void *by_reference(struct scalar *s, double value, bool is_double)
{
    s->d = value;
    s->f = (float)value;
    return is_double ? (const void *)&s->d : (const void *)&s->f;
}

static void call_fortran(const union blas_function *f, const struct call *c)
{
    struct scalar alpha;
    struct scalar beta;
    f->fortran(c->ta ? "T" : "N", c->tb ? "T" : "N", &c->m, &c->n, &c->k,
               by_reference(&alpha, c->alpha, c->is_double), c->a, &c->lda, c->b, &c->ldb,
               by_reference(&beta, c->beta, c->is_double), c->c, &c->ldc, 1, 1);
}

/* A transpose is an exchange of the two strides. */
static void call_bli(const union blas_function *f, const struct call *c)
{
    struct scalar alpha;
    struct scalar beta;
    f->bli(0, 0, c->m, c->n, c->k, by_reference(&alpha, c->alpha, c->is_double), c->a,
           c->ta ? c->lda : 1, c->ta ? 1 : c->lda, c->b, c->tb ? c->ldb : 1, c->tb ? 1 : c->ldb,
           by_reference(&beta, c->beta, c->is_double), c->c, 1, c->ldc);
}

static enum status call_dnnl(const union blas_function *f, const struct call *c, struct err *err)
{
    int status = f->dnnl(c->ta ? 'T' : 'N', c->tb ? 'T' : 'N', c->m, c->n, c->k, (float)c->alpha,
                         c->a, c->lda, c->b, c->ldb, (float)c->beta, c->c, c->ldc);
    if (status != 0) {
        return err_set(err, ST_UNSUPPORTED, "oneDNN declines the product with status %d", status);
    }
    return ST_OK;
}

static void call_batch(const union blas_function *f, const struct gemm_shape *s,
                       const struct gemm_operands *o)
{
    int ta = cblas_transpose(s->transpose_a);
    int tb = cblas_transpose(s->transpose_b);
    if (s->dtype_c == DTYPE_F64) {
        f->batch_d(CBLAS_COLUMN_MAJOR, ta, tb, s->m, s->n, s->k, s->alpha, o->a, s->lda,
                   s->stride_a, o->b, s->ldb, s->stride_b, s->beta, o->c, s->ldc, s->stride_c,
                   s->batch);
    } else {
        f->batch_s(CBLAS_COLUMN_MAJOR, ta, tb, s->m, s->n, s->k, (float)s->alpha, o->a, s->lda,
                   s->stride_a, o->b, s->ldb, s->stride_b, (float)s->beta, o->c, s->ldc,
                   s->stride_c, s->batch);
    }
}

static enum status call_one(const struct blas_entry *entry, const struct gemm_shape *s,
                            const void *a, const void *b, void *c, struct err *err)
{
    const union blas_function *f = &entry->function;
    struct call call = straight(s, a, b, c);
    struct call row = exchanged(s, a, b, c);
    switch (entry->abi) {
    case BLAS_CBLAS_COLUMN: call_cblas(f, CBLAS_COLUMN_MAJOR, &call); break;
    case BLAS_CBLAS_ROW: call_cblas(f, CBLAS_ROW_MAJOR, &row); break;
    case BLAS_FORTRAN:
    case BLAS_XSMM: call_fortran(f, &call); break;
    case BLAS_BLI: call_bli(f, &call); break;
    case BLAS_DNNL: return call_dnnl(f, &row, err);
    default: return err_set(err, ST_UNSUPPORTED, "no such calling convention");
    }
    return ST_OK;
}

enum status blas_call(const struct blas_entry *entry, const struct gemm_shape *shape,
                      const struct gemm_operands *operands, struct err *err)
{
    if (entry->abi == BLAS_CBLAS_BATCH) {
        call_batch(&entry->function, shape, operands);
        return ST_OK;
    }
    size_t size_ab = dtype_info(shape->dtype_ab)->size;
    size_t size_c = dtype_info(shape->dtype_c)->size;
    for (int64_t i = 0; i < shape->batch; i++) {
        const char *a = (const char *)operands->a + (size_t)(i * shape->stride_a) * size_ab;
        const char *b = (const char *)operands->b + (size_t)(i * shape->stride_b) * size_ab;
        char *c = (char *)operands->c + (size_t)(i * shape->stride_c) * size_c;
        TRY(call_one(entry, shape, a, b, c, err));
    }
    return ST_OK;
}
