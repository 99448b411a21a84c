// SPDX-License-Identifier: Apache-2.0
/*
 * Matrix multiplications of CPU libraries: C interface, Fortran interface, oneDNN. Each is recorded as
 * one column-major product (see recorder/record_format.h).
 */
#include <stdint.h>
#include <stdlib.h>

#include "preload/preload.h"

enum {
    CBLAS_ROW_MAJOR = 101,
    CBLAS_NO_TRANS = 111
};

struct product {
    uint16_t type; /* enum record_dtype */
    bool transpose_a, transpose_b;
    int64_t m, n, k, lda, ldb, ldc;
    double alpha, beta;
    const void *a, *b;
    void *c;
};

static struct record_entry *begin(enum hook hook, uint64_t caller, const struct product *p,
                                  bool row_major)
{
    struct record_entry *e = record_begin(hook, RECORD_GEMM, caller);
    if (e == NULL) {
        return NULL;
    }
    uint64_t a = (uint64_t)(uintptr_t)p->a;
    uint64_t b = (uint64_t)(uintptr_t)p->b;
    uint64_t c = (uint64_t)(uintptr_t)p->c;
    e->u.gemm = (struct record_gemm){
        .m = row_major ? p->n : p->m,
        .n = row_major ? p->m : p->n,
        .k = p->k,
        .lda = row_major ? p->ldb : p->lda,
        .ldb = row_major ? p->lda : p->ldb,
        .ldc = p->ldc,
        .a = row_major ? b : a,
        .b = row_major ? a : b,
        .c = c,
        .d = c,
        .alpha = p->alpha,
        .beta = p->beta,
        .algorithm = UINT64_MAX,
        .batch = 1,
        .transpose_a = row_major ? p->transpose_b : p->transpose_a,
        .transpose_b = row_major ? p->transpose_a : p->transpose_b,
        .types = RECORD_TYPES_OURS,
        .type_a = p->type,
        .type_b = p->type,
        .type_c = p->type,
    };
    record_open(e);
    return e;
}

/* Code that was linked against a symbol nobody provides would not have started without us. */
static void *needed(enum hook hook, uint64_t caller)
{
    void *f = real_symbol(hook, caller);
    if (f == NULL) {
        abort();
    }
    return f;
}

#define CBLAS_GEMM(name, id, integer, real, dtype)                                                \
 EXPORT void name(int order, int ta, int tb, integer m, integer n, integer k, real alpha,         \
                  const real *a, integer lda, const real *b, integer ldb, real beta, real *c,     \
                  integer ldc);                                                                   \
 EXPORT void name(int order, int ta, int tb, integer m, integer n, integer k, real alpha,         \
                  const real *a, integer lda, const real *b, integer ldb, real beta, real *c,     \
                  integer ldc)                                                                    \
 {                                                                                                \
  typedef void (*function)(int, int, int, integer, integer, integer, real, const real *, integer, \
                           const real *, integer, real, real *, integer);                         \
  const struct product p = {dtype, ta != CBLAS_NO_TRANS, tb != CBLAS_NO_TRANS, m, n, k, lda, ldb, \
                            ldc,   (double)alpha,        (double)beta,         a, b, c};          \
  function f = (function)needed(id, CALLER());                                                    \
  struct record_entry *e = begin(id, CALLER(), &p, order == CBLAS_ROW_MAJOR);                     \
  f(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);                                 \
  record_close(e, 0);                                                                             \
 }

CBLAS_GEMM(cblas_sgemm, HOOK_CBLAS_SGEMM, int, float, RECORD_F32)
CBLAS_GEMM(cblas_dgemm, HOOK_CBLAS_DGEMM, int, double, RECORD_F64)
CBLAS_GEMM(cblas_sgemm64_, HOOK_CBLAS_SGEMM64, int64_t, float, RECORD_F32)
CBLAS_GEMM(cblas_dgemm64_, HOOK_CBLAS_DGEMM64, int64_t, double, RECORD_F64)
CBLAS_GEMM(scipy_cblas_sgemm, HOOK_SCIPY_CBLAS_SGEMM, int, float, RECORD_F32)
CBLAS_GEMM(scipy_cblas_dgemm, HOOK_SCIPY_CBLAS_DGEMM, int, double, RECORD_F64)
CBLAS_GEMM(scipy_cblas_sgemm64_, HOOK_SCIPY_CBLAS_SGEMM64, int64_t, float, RECORD_F32)
CBLAS_GEMM(scipy_cblas_dgemm64_, HOOK_SCIPY_CBLAS_DGEMM64, int64_t, double, RECORD_F64)

/* Fortran passes addresses, and the lengths of the two letters behind everything else. */
static bool is_transposed(const char *letter)
{
    return *letter != 'N' && *letter != 'n';
}

#define FORTRAN_GEMM(name, id, integer, real, dtype)                                             \
 EXPORT void name(const char *ta, const char *tb, const integer *m, const integer *n,            \
                  const integer *k, const real *alpha, const real *a, const integer *lda,        \
                  const real *b, const integer *ldb, const real *beta, real *c,                  \
                  const integer *ldc, size_t ta_length, size_t tb_length);                       \
 EXPORT void name(const char *ta, const char *tb, const integer *m, const integer *n,            \
                  const integer *k, const real *alpha, const real *a, const integer *lda,        \
                  const real *b, const integer *ldb, const real *beta, real *c,                  \
                  const integer *ldc, size_t ta_length, size_t tb_length)                        \
 {                                                                                               \
  typedef void (*function)(const char *, const char *, const integer *, const integer *,         \
                           const integer *, const real *, const real *, const integer *,         \
                           const real *, const integer *, const real *, real *, const integer *, \
                           size_t, size_t);                                                      \
  const struct product p = {dtype, is_transposed(ta), is_transposed(tb), *m, *n, *k, *lda, *ldb, \
                            *ldc,  (double)*alpha,    (double)*beta,     a,  b,  c};             \
  function f = (function)needed(id, CALLER());                                                   \
  struct record_entry *e = begin(id, CALLER(), &p, false);                                       \
  f(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, ta_length, tb_length);                 \
  record_close(e, 0);                                                                            \
 }

FORTRAN_GEMM(sgemm_, HOOK_SGEMM, int, float, RECORD_F32)
FORTRAN_GEMM(dgemm_, HOOK_DGEMM, int, double, RECORD_F64)
FORTRAN_GEMM(sgemm_64_, HOOK_SGEMM_64, int64_t, float, RECORD_F32)
FORTRAN_GEMM(dgemm_64_, HOOK_DGEMM_64, int64_t, double, RECORD_F64)
FORTRAN_GEMM(scipy_sgemm_64_, HOOK_SCIPY_SGEMM_64, int64_t, float, RECORD_F32)
FORTRAN_GEMM(scipy_dgemm_64_, HOOK_SCIPY_DGEMM_64, int64_t, double, RECORD_F64)

/* oneDNN's is row-major. */
EXPORT int dnnl_sgemm(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha,
                      const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                      float *c, int64_t ldc);

EXPORT int dnnl_sgemm(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha,
                      const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                      float *c, int64_t ldc)
{
    typedef int (*function)(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t,
                            const float *, int64_t, float, float *, int64_t);
    const struct product p = {RECORD_F32, is_transposed(&ta), is_transposed(&tb), m, n, k, lda, ldb,
                              ldc,        (double)alpha,      (double)beta,       a, b, c};
    function f = (function)needed(HOOK_DNNL_SGEMM, CALLER());
    struct record_entry *e = begin(HOOK_DNNL_SGEMM, CALLER(), &p, true);
    int rc = f(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    record_close(e, rc);
    return rc;
}

EXPORT int dnnl_primitive_execute(const void *primitive, void *stream, int count, const void *args);

EXPORT int dnnl_primitive_execute(const void *primitive, void *stream, int count, const void *args)
{
    typedef int (*function)(const void *, void *, int, const void *);
    function f = (function)needed(HOOK_DNNL_PRIMITIVE_EXECUTE, CALLER());
    struct record_entry *e = record_begin(HOOK_DNNL_PRIMITIVE_EXECUTE, RECORD_CALL, CALLER());
    if (e != NULL) {
        e->u.call = (struct record_call){{(uint64_t)(uintptr_t)primitive,
                                          (uint64_t)(uintptr_t)stream, (uint64_t)(unsigned)count,
                                          (uint64_t)(uintptr_t)args}};
        record_open(e);
    }
    int rc = f(primitive, stream, count, args);
    record_close(e, rc);
    return rc;
}
