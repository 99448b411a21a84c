// SPDX-License-Identifier: Apache-2.0
/*
 * One matrix multiplication as every vendor library sees it, and the table a library fills in.
 *
 *   D = activation(alpha * op(A) * op(B) + beta * C + bias)      op(X) = X or its transpose
 *
 * op(A) is m x k, op(B) is k x n, C and D are m x n. Storage is column-major as in BLAS (element
 * (i, j) at i + j * ld); a row-major call is the same call with A and B exchanged, and is written
 * that way here so that there is one convention. Leading dimensions and strides count elements.
 * D is C for the classic BLAS calls.
 *
 * Operands of 8 bits carry a scale each, a number in device memory that the library multiplies with:
 * alpha scale_a scale_b op(A) op(B).
 */
#ifndef ASSAY_DEVICE_GEMM_H
#define ASSAY_DEVICE_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/err.h"

enum gemm_epilogue {
    GEMM_EPILOGUE_NONE = 0,
    GEMM_EPILOGUE_BIAS, /* bias has m elements, added to every column */
    GEMM_EPILOGUE_RELU,
    GEMM_EPILOGUE_GELU, /* tanh form, as cuBLASLt and hipBLASLt define it */
    GEMM_EPILOGUE_BIAS_RELU,
    GEMM_EPILOGUE_BIAS_GELU,
    GEMM_EPILOGUE_COUNT
};

enum gemm_compute {
    GEMM_COMPUTE_DEFAULT = 0, /* float32 accumulation for 16-bit and smaller, else the dtype */
    GEMM_COMPUTE_TF32,
    GEMM_COMPUTE_COUNT
};

struct gemm_shape {
    int64_t m, n, k;
    int64_t lda, ldb, ldc;
    int64_t batch;                        /* 1 when there is none */
    int64_t stride_a, stride_b, stride_c; /* between batch entries; 0 only when batch is 1 */
    bool transpose_a, transpose_b;
    enum dtype dtype_ab; /* of A and B */
    bool other_fp8_b;    /* B has the other 8-bit format of the same family: e4m3 with e5m2 */
    enum dtype dtype_c;  /* of C, D and bias */
    enum gemm_compute compute;
    enum gemm_epilogue epilogue;
    double alpha, beta;
    /* What the caller promises of every operand's address; 0: a multiple of the element's size and
     * no more. Libraries that choose wide loads by it must be told the truth. */
    size_t alignment_bytes;
    double scale_a, scale_b; /* of 8-bit operands; both 0: none */
};

/* The format of B. */
static inline enum dtype gemm_dtype_b(const struct gemm_shape *s)
{
    if (!s->other_fp8_b) {
        return s->dtype_ab;
    }
    switch (s->dtype_ab) {
    case DTYPE_F8_E4M3FN: return DTYPE_F8_E5M2;
    case DTYPE_F8_E5M2: return DTYPE_F8_E4M3FN;
    case DTYPE_F8_E4M3FNUZ: return DTYPE_F8_E5M2FNUZ;
    case DTYPE_F8_E5M2FNUZ: return DTYPE_F8_E4M3FNUZ;
    default: return s->dtype_ab;
    }
}

static inline bool gemm_is_scaled(const struct gemm_shape *s)
{
    return s->scale_a != 0 || s->scale_b != 0;
}

/* What op(A) op(B) is multiplied with in the end. */
static inline double gemm_whole_alpha(const struct gemm_shape *s)
{
    return gemm_is_scaled(s) ? s->alpha * s->scale_a * s->scale_b : s->alpha;
}

/* Member by member: the record has padding. */
static inline bool gemm_shape_equal(const struct gemm_shape *a, const struct gemm_shape *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->lda == b->lda && a->ldb == b->ldb &&
           a->ldc == b->ldc && a->batch == b->batch && a->stride_a == b->stride_a &&
           a->stride_b == b->stride_b && a->stride_c == b->stride_c &&
           a->transpose_a == b->transpose_a && a->transpose_b == b->transpose_b &&
           a->dtype_ab == b->dtype_ab && a->dtype_c == b->dtype_c && a->compute == b->compute &&
           a->epilogue == b->epilogue && a->alpha == b->alpha && a->beta == b->beta &&
           a->alignment_bytes == b->alignment_bytes && a->other_fp8_b == b->other_fp8_b &&
           a->scale_a == b->scale_a && a->scale_b == b->scale_b;
}

/* Device addresses; for CPU libraries plain pointers. */
struct gemm_operands {
    const void *a, *b, *bias;
    void *c; /* read when beta is not 0, written always */
    void *workspace;
    size_t workspace_bytes;
    const void *scale_a, *scale_b; /* float32 on the device, of a shape that has scales */
};

/* An algorithm or solution that the library offers for one shape. */
struct gemm_choice {
    int64_t id;     /* the library's own number; -1: the library decides */
    char name[160]; /* kernel or solution name where the library tells, else "" */
    size_t workspace_bytes;
    /* K is split into so many parts, whose sums are rounded to C's format before they are added up, as
     * libraries and frameworks allow by default; 0: they are not. */
    unsigned narrow_sums;
    unsigned char opaque[64]; /* the library's own record of the algorithm; zero when it has none */
};

struct device;       /* see device.h */
struct gemm_library; /* one opened library on one device */

/* What a vendor file provides. All pointers are set; a library that offers no choice returns one
 * entry with id -1. `status` of run: ST_UNSUPPORTED when the library declines the shape. */
struct gemm_vendor {
    const char *name; /* "openblas", "cublaslt", "hipblaslt", "rocblas", "clblast" */
    enum status (*open)(struct arena *a, struct device *device, const char *path,
                        struct gemm_library **ret_library, struct err *err);
    void (*close)(struct gemm_library *library);
    const char *(*version)(const struct gemm_library *library); /* "0.3.21 (Zen)" */
    bool (*supports)(const struct gemm_library *library, const struct gemm_shape *shape);
    enum status (*choices)(struct gemm_library *library, const struct gemm_shape *shape,
                           struct gemm_choice *ret_choices, size_t capacity, size_t *ret_count,
                           struct err *err);
    enum status (*run)(struct gemm_library *library, const struct gemm_shape *shape,
                       const struct gemm_operands *operands, const struct gemm_choice *choice,
                       struct err *err);
};

extern const struct gemm_vendor gemm_vendor_cublaslt;  /* DEVICE_CUDA */
extern const struct gemm_vendor gemm_vendor_cublas;    /* DEVICE_CUDA */
extern const struct gemm_vendor gemm_vendor_hipblaslt; /* DEVICE_HIP */
extern const struct gemm_vendor gemm_vendor_rocblas;   /* DEVICE_HIP */
extern const struct gemm_vendor gemm_vendor_clblast;   /* DEVICE_OPENCL */

#endif
