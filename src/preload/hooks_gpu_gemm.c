// SPDX-License-Identifier: Apache-2.0
/*
 * Matrix products on GPUs: cuBLAS, hipBLAS, rocBLAS. alpha and beta may live on the device, so they are
 * not read: they are recorded as NaN, "not told". Enumerations from cublas_api.h and rocblas-types.h.
 */
#include <math.h>

#include "preload/gpu.h"

enum {
    CUBLAS_OP_N = 0,
    ROCBLAS_OP_N = 111, /* hipBLAS repeats it */
    CUDA_R_32F = 0,
    CUDA_R_64F = 1,
    ROCBLAS_F16 = 150, /* the lowest of its numbers */
    ROCBLAS_F32 = 151,
    ROCBLAS_F64 = 152,
};

static uint64_t number(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

static struct record_entry *begin_gemm(enum hook hook, uint64_t caller, struct record_gemm gemm)
{
    struct record_entry *e = record_begin(hook, RECORD_GEMM, caller);
    if (e != NULL) {
        gemm.alpha = (double)NAN;
        gemm.beta = (double)NAN;
        e->u.gemm = gemm;
        record_open(e);
    }
    return e;
}

/* hipBLAS up to 2 has rocBLAS' numbers of types, its functions called _v2 and hipBLAS 3 those of CUDA. */
static uint8_t types_of(int type)
{
    return type >= ROCBLAS_F16 ? RECORD_TYPES_ROCBLAS : RECORD_TYPES_CUDA;
}

/* cublasGemmEx and hipblasGemmEx have one list of arguments. */
#define GEMM_EX(name, id, no_op)                                                                   \
 EXPORT int name(void *handle, int ta, int tb, int m, int n, int k, const void *alpha,             \
                 const void *a, int type_a, int lda, const void *b, int type_b, int ldb,           \
                 const void *beta, void *c, int type_c, int ldc, int compute, int algorithm);      \
 EXPORT int name(void *handle, int ta, int tb, int m, int n, int k, const void *alpha,             \
                 const void *a, int type_a, int lda, const void *b, int type_b, int ldb,           \
                 const void *beta, void *c, int type_c, int ldc, int compute, int algorithm)       \
 {                                                                                                 \
  typedef int (*real)(void *, int, int, int, int, int, const void *, const void *, int, int,       \
                      const void *, int, int, const void *, void *, int, int, int, int);           \
  real f = (real)real_symbol(id, CALLER());                                                        \
  if (f == NULL) {                                                                                 \
   return 15; /* CUBLAS_STATUS_NOT_SUPPORTED */                                                    \
  }                                                                                                \
  struct record_entry *e = begin_gemm(                                                             \
      id, CALLER(),                                                                                \
      (struct record_gemm){.m = m,                                                                 \
                           .n = n,                                                                 \
                           .k = k,                                                                 \
                           .lda = lda,                                                             \
                           .ldb = ldb,                                                             \
                           .ldc = ldc,                                                             \
                           .a = number(a),                                                         \
                           .b = number(b),                                                         \
                           .c = number(c),                                                         \
                           .d = number(c),                                                         \
                           .algorithm = (uint64_t)(int64_t)algorithm,                              \
                           .batch = 1,                                                             \
                           .transpose_a = ta != (no_op),                                           \
                           .transpose_b = tb != (no_op),                                           \
                           .types = types_of(type_a),                                              \
                           .type_a = (uint16_t)type_a,                                             \
                           .type_b = (uint16_t)type_b,                                             \
                           .type_c = (uint16_t)type_c,                                             \
                           .compute = (uint16_t)compute});                                         \
  int rc = f(handle, ta, tb, m, n, k, alpha, a, type_a, lda, b, type_b, ldb, beta, c, type_c, ldc, \
             compute, algorithm);                                                                  \
  record_close(e, rc);                                                                             \
  return rc;                                                                                       \
 }

GEMM_EX(cublasGemmEx, HOOK_CUBLAS_GEMM_EX, CUBLAS_OP_N)
GEMM_EX(hipblasGemmEx, HOOK_HIPBLAS_GEMM_EX, ROCBLAS_OP_N)
GEMM_EX(hipblasGemmEx_v2, HOOK_HIPBLAS_GEMM_EX_V2, ROCBLAS_OP_N)

#define STRIDED_EX(name, id, no_op)                                                              \
 EXPORT int name(void *handle, int ta, int tb, int m, int n, int k, const void *alpha,           \
                 const void *a, int type_a, int lda, long long stride_a, const void *b,          \
                 int type_b, int ldb, long long stride_b, const void *beta, void *c, int type_c, \
                 int ldc, long long stride_c, int batch, int compute, int algorithm);            \
 EXPORT int name(void *handle, int ta, int tb, int m, int n, int k, const void *alpha,           \
                 const void *a, int type_a, int lda, long long stride_a, const void *b,          \
                 int type_b, int ldb, long long stride_b, const void *beta, void *c, int type_c, \
                 int ldc, long long stride_c, int batch, int compute, int algorithm)             \
 {                                                                                               \
  typedef int (*real)(void *, int, int, int, int, int, const void *, const void *, int, int,     \
                      long long, const void *, int, int, long long, const void *, void *, int,   \
                      int, long long, int, int, int);                                            \
  real f = (real)real_symbol(id, CALLER());                                                      \
  if (f == NULL) {                                                                               \
   return 15; /* CUBLAS_STATUS_NOT_SUPPORTED */                                                  \
  }                                                                                              \
  struct record_entry *e = begin_gemm(                                                           \
      id, CALLER(),                                                                              \
      (struct record_gemm){.m = m,                                                               \
                           .n = n,                                                               \
                           .k = k,                                                               \
                           .lda = lda,                                                           \
                           .ldb = ldb,                                                           \
                           .ldc = ldc,                                                           \
                           .stride_a = stride_a,                                                 \
                           .stride_b = stride_b,                                                 \
                           .stride_c = stride_c,                                                 \
                           .a = number(a),                                                       \
                           .b = number(b),                                                       \
                           .c = number(c),                                                       \
                           .d = number(c),                                                       \
                           .algorithm = (uint64_t)(int64_t)algorithm,                            \
                           .batch = (uint32_t)batch,                                             \
                           .transpose_a = ta != (no_op),                                         \
                           .transpose_b = tb != (no_op),                                         \
                           .types = types_of(type_a),                                            \
                           .type_a = (uint16_t)type_a,                                           \
                           .type_b = (uint16_t)type_b,                                           \
                           .type_c = (uint16_t)type_c,                                           \
                           .compute = (uint16_t)compute});                                       \
  int rc = f(handle, ta, tb, m, n, k, alpha, a, type_a, lda, stride_a, b, type_b, ldb, stride_b, \
             beta, c, type_c, ldc, stride_c, batch, compute, algorithm);                         \
  record_close(e, rc);                                                                           \
  return rc;                                                                                     \
 }

STRIDED_EX(cublasGemmStridedBatchedEx, HOOK_CUBLAS_GEMM_STRIDED_EX, CUBLAS_OP_N)
STRIDED_EX(hipblasGemmStridedBatchedEx, HOOK_HIPBLAS_GEMM_STRIDED_EX, ROCBLAS_OP_N)
STRIDED_EX(hipblasGemmStridedBatchedEx_v2, HOOK_HIPBLAS_GEMM_STRIDED_EX_V2, ROCBLAS_OP_N)

#define PLAIN_GEMM(name, id, no_op, types_are, dtype)                                       \
 EXPORT int name(void *handle, int ta, int tb, int m, int n, int k, const void *alpha,      \
                 const void *a, int lda, const void *b, int ldb, const void *beta, void *c, \
                 int ldc);                                                                  \
 EXPORT int name(void *handle, int ta, int tb, int m, int n, int k, const void *alpha,      \
                 const void *a, int lda, const void *b, int ldb, const void *beta, void *c, \
                 int ldc)                                                                   \
 {                                                                                          \
  typedef int (*real)(void *, int, int, int, int, int, const void *, const void *, int,     \
                      const void *, int, const void *, void *, int);                        \
  real f = (real)real_symbol(id, CALLER());                                                 \
  if (f == NULL) {                                                                          \
   return 15; /* CUBLAS_STATUS_NOT_SUPPORTED */                                             \
  }                                                                                         \
  struct record_entry *e = begin_gemm(id, CALLER(),                                         \
                                      (struct record_gemm){.m = m,                          \
                                                           .n = n,                          \
                                                           .k = k,                          \
                                                           .lda = lda,                      \
                                                           .ldb = ldb,                      \
                                                           .ldc = ldc,                      \
                                                           .a = number(a),                  \
                                                           .b = number(b),                  \
                                                           .c = number(c),                  \
                                                           .d = number(c),                  \
                                                           .algorithm = UINT64_MAX,         \
                                                           .batch = 1,                      \
                                                           .transpose_a = ta != (no_op),    \
                                                           .transpose_b = tb != (no_op),    \
                                                           .types = (types_are),            \
                                                           .type_a = (dtype),               \
                                                           .type_b = (dtype),               \
                                                           .type_c = (dtype)});             \
  int rc = f(handle, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);                 \
  record_close(e, rc);                                                                      \
  return rc;                                                                                \
 }

PLAIN_GEMM(cublasSgemm_v2, HOOK_CUBLAS_SGEMM, CUBLAS_OP_N, RECORD_TYPES_CUDA, CUDA_R_32F)
PLAIN_GEMM(cublasDgemm_v2, HOOK_CUBLAS_DGEMM, CUBLAS_OP_N, RECORD_TYPES_CUDA, CUDA_R_64F)
PLAIN_GEMM(hipblasSgemm, HOOK_HIPBLAS_SGEMM, ROCBLAS_OP_N, RECORD_TYPES_ROCBLAS, ROCBLAS_F32)
PLAIN_GEMM(hipblasDgemm, HOOK_HIPBLAS_DGEMM, ROCBLAS_OP_N, RECORD_TYPES_ROCBLAS, ROCBLAS_F64)
PLAIN_GEMM(rocblas_sgemm, HOOK_ROCBLAS_SGEMM, ROCBLAS_OP_N, RECORD_TYPES_ROCBLAS, ROCBLAS_F32)
PLAIN_GEMM(rocblas_dgemm, HOOK_ROCBLAS_DGEMM, ROCBLAS_OP_N, RECORD_TYPES_ROCBLAS, ROCBLAS_F64)

#define PLAIN_STRIDED(name, id, no_op, types_are, dtype)                                           \
 EXPORT int name(void *handle, int ta, int tb, int m, int n, int k, const void *alpha,             \
                 const void *a, int lda, long long stride_a, const void *b, int ldb,               \
                 long long stride_b, const void *beta, void *c, int ldc, long long stride_c,       \
                 int batch);                                                                       \
 EXPORT int name(void *handle, int ta, int tb, int m, int n, int k, const void *alpha,             \
                 const void *a, int lda, long long stride_a, const void *b, int ldb,               \
                 long long stride_b, const void *beta, void *c, int ldc, long long stride_c,       \
                 int batch)                                                                        \
 {                                                                                                 \
  typedef int (*real)(void *, int, int, int, int, int, const void *, const void *, int, long long, \
                      const void *, int, long long, const void *, void *, int, long long, int);    \
  real f = (real)real_symbol(id, CALLER());                                                        \
  if (f == NULL) {                                                                                 \
   return 15; /* CUBLAS_STATUS_NOT_SUPPORTED */                                                    \
  }                                                                                                \
  struct record_entry *e = begin_gemm(id, CALLER(),                                                \
                                      (struct record_gemm){.m = m,                                 \
                                                           .n = n,                                 \
                                                           .k = k,                                 \
                                                           .lda = lda,                             \
                                                           .ldb = ldb,                             \
                                                           .ldc = ldc,                             \
                                                           .stride_a = stride_a,                   \
                                                           .stride_b = stride_b,                   \
                                                           .stride_c = stride_c,                   \
                                                           .a = number(a),                         \
                                                           .b = number(b),                         \
                                                           .c = number(c),                         \
                                                           .d = number(c),                         \
                                                           .algorithm = UINT64_MAX,                \
                                                           .batch = (uint32_t)batch,               \
                                                           .transpose_a = ta != (no_op),           \
                                                           .transpose_b = tb != (no_op),           \
                                                           .types = (types_are),                   \
                                                           .type_a = (dtype),                      \
                                                           .type_b = (dtype),                      \
                                                           .type_c = (dtype)});                    \
  int rc = f(handle, ta, tb, m, n, k, alpha, a, lda, stride_a, b, ldb, stride_b, beta, c, ldc,     \
             stride_c, batch);                                                                     \
  record_close(e, rc);                                                                             \
  return rc;                                                                                       \
 }

PLAIN_STRIDED(cublasSgemmStridedBatched, HOOK_CUBLAS_SGEMM_STRIDED, CUBLAS_OP_N, RECORD_TYPES_CUDA,
              CUDA_R_32F)
PLAIN_STRIDED(cublasDgemmStridedBatched, HOOK_CUBLAS_DGEMM_STRIDED, CUBLAS_OP_N, RECORD_TYPES_CUDA,
              CUDA_R_64F)
PLAIN_STRIDED(hipblasSgemmStridedBatched, HOOK_HIPBLAS_SGEMM_STRIDED, ROCBLAS_OP_N,
              RECORD_TYPES_ROCBLAS, ROCBLAS_F32)
PLAIN_STRIDED(hipblasDgemmStridedBatched, HOOK_HIPBLAS_DGEMM_STRIDED, ROCBLAS_OP_N,
              RECORD_TYPES_ROCBLAS, ROCBLAS_F64)
PLAIN_STRIDED(rocblas_sgemm_strided_batched, HOOK_ROCBLAS_SGEMM_STRIDED, ROCBLAS_OP_N,
              RECORD_TYPES_ROCBLAS, ROCBLAS_F32)
PLAIN_STRIDED(rocblas_dgemm_strided_batched, HOOK_ROCBLAS_DGEMM_STRIDED, ROCBLAS_OP_N,
              RECORD_TYPES_ROCBLAS, ROCBLAS_F64)

EXPORT int rocblas_gemm_ex(void *handle, int ta, int tb, int m, int n, int k, const void *alpha,
                           const void *a, int type_a, int lda, const void *b, int type_b, int ldb,
                           const void *beta, const void *c, int type_c, int ldc, void *d,
                           int type_d, int ldd, int compute, int algorithm, int32_t solution,
                           uint32_t flags);

EXPORT int rocblas_gemm_ex(void *handle, int ta, int tb, int m, int n, int k, const void *alpha,
                           const void *a, int type_a, int lda, const void *b, int type_b, int ldb,
                           const void *beta, const void *c, int type_c, int ldc, void *d,
                           int type_d, int ldd, int compute, int algorithm, int32_t solution,
                           uint32_t flags)
{
    typedef int (*real)(void *, int, int, int, int, int, const void *, const void *, int, int,
                        const void *, int, int, const void *, const void *, int, int, void *, int,
                        int, int, int, int32_t, uint32_t);
    real f = (real)real_symbol(HOOK_ROCBLAS_GEMM_EX, CALLER());
    if (f == NULL) {
        return 2; /* rocblas_status_not_implemented */
    }
    struct record_entry *e = begin_gemm(
        HOOK_ROCBLAS_GEMM_EX, CALLER(),
        (struct record_gemm){.m = m,
                             .n = n,
                             .k = k,
                             .lda = lda,
                             .ldb = ldb,
                             .ldc = ldc,
                             .a = number(a),
                             .b = number(b),
                             .c = number(c),
                             .d = number(d),
                             .algorithm = (uint64_t)(int64_t)solution,
                             .batch = 1,
                             .transpose_a = ta != ROCBLAS_OP_N,
                             .transpose_b = tb != ROCBLAS_OP_N,
                             .types = RECORD_TYPES_ROCBLAS,
                             .type_a = (uint16_t)type_a,
                             .type_b = (uint16_t)type_b,
                             .type_c = (uint16_t)type_c,
                             .compute = (uint16_t)compute});
    int rc = f(handle, ta, tb, m, n, k, alpha, a, type_a, lda, b, type_b, ldb, beta, c, type_c, ldc,
               d, type_d, ldd, compute, algorithm, solution, flags);
    record_close(e, rc);
    return rc;
}

EXPORT int rocblas_gemm_strided_batched_ex(void *handle, int ta, int tb, int m, int n, int k,
                                           const void *alpha, const void *a, int type_a, int lda,
                                           int64_t stride_a, const void *b, int type_b, int ldb,
                                           int64_t stride_b, const void *beta, const void *c,
                                           int type_c, int ldc, int64_t stride_c, void *d,
                                           int type_d, int ldd, int64_t stride_d, int batch,
                                           int compute, int algorithm, int32_t solution,
                                           uint32_t flags);

EXPORT int rocblas_gemm_strided_batched_ex(void *handle, int ta, int tb, int m, int n, int k,
                                           const void *alpha, const void *a, int type_a, int lda,
                                           int64_t stride_a, const void *b, int type_b, int ldb,
                                           int64_t stride_b, const void *beta, const void *c,
                                           int type_c, int ldc, int64_t stride_c, void *d,
                                           int type_d, int ldd, int64_t stride_d, int batch,
                                           int compute, int algorithm, int32_t solution,
                                           uint32_t flags)
{
    typedef int (*real)(void *, int, int, int, int, int, const void *, const void *, int, int,
                        int64_t, const void *, int, int, int64_t, const void *, const void *, int,
                        int, int64_t, void *, int, int, int64_t, int, int, int, int32_t, uint32_t);
    real f = (real)real_symbol(HOOK_ROCBLAS_GEMM_STRIDED_EX, CALLER());
    if (f == NULL) {
        return 2; /* rocblas_status_not_implemented */
    }
    struct record_entry *e = begin_gemm(
        HOOK_ROCBLAS_GEMM_STRIDED_EX, CALLER(),
        (struct record_gemm){.m = m,
                             .n = n,
                             .k = k,
                             .lda = lda,
                             .ldb = ldb,
                             .ldc = ldc,
                             .stride_a = stride_a,
                             .stride_b = stride_b,
                             .stride_c = stride_c,
                             .a = number(a),
                             .b = number(b),
                             .c = number(c),
                             .d = number(d),
                             .algorithm = (uint64_t)(int64_t)solution,
                             .batch = (uint32_t)batch,
                             .transpose_a = ta != ROCBLAS_OP_N,
                             .transpose_b = tb != ROCBLAS_OP_N,
                             .types = RECORD_TYPES_ROCBLAS,
                             .type_a = (uint16_t)type_a,
                             .type_b = (uint16_t)type_b,
                             .type_c = (uint16_t)type_c,
                             .compute = (uint16_t)compute});
    int rc = f(handle, ta, tb, m, n, k, alpha, a, type_a, lda, stride_a, b, type_b, ldb, stride_b,
               beta, c, type_c, ldc, stride_c, d, type_d, ldd, stride_d, batch, compute, algorithm,
               solution, flags);
    record_close(e, rc);
    return rc;
}
