// SPDX-License-Identifier: Apache-2.0
/*
 * librocblas on CPU memory: the extended matrix product and the list of its solutions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

enum {
    OK = 0,
    NOT_IMPLEMENTED = 2,
    INVALID_SIZE = 4,
    INTERNAL_ERROR = 6,
    INVALID_VALUE = 11
};

FAKE_EXPORT int rocblas_create_handle(void **handle)
{
    *handle = calloc(1, 16);
    return OK;
}

FAKE_EXPORT int rocblas_destroy_handle(void *handle)
{
    free(handle);
    return OK;
}

FAKE_EXPORT int rocblas_get_version_string(char *to, size_t size)
{
    snprintf(to, size, "%s",
             fake_asked("ASSAY_FAKE_BLAS", "old-version") ? "2.47.0" : "5.2.0.fake");
    return OK;
}

FAKE_EXPORT const char *rocblas_status_to_string(int status)
{
    return status == NOT_IMPLEMENTED ? "rocblas_status_not_implemented"
           : status == INVALID_VALUE ? "rocblas_status_invalid_value"
                                     : "rocblas_status_internal_error";
}

static bool dtype_of(int type, enum dtype *ret_type)
{
    switch (type) {
    case 150: *ret_type = DTYPE_F16; return true;
    case 151: *ret_type = DTYPE_F32; return true;
    case 152: *ret_type = DTYPE_F64; return true;
    case 168: *ret_type = DTYPE_BF16; return true;
    default: return false;
    }
}

FAKE_EXPORT int rocblas_gemm_strided_batched_ex(
    void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a,
    int a_type, int lda, int64_t stride_a, const void *b, int b_type, int ldb, int64_t stride_b,
    const void *beta, const void *c, int c_type, int ldc, int64_t stride_c, void *d, int d_type,
    int ldd, int64_t stride_d, int batch, int compute, int algo, int32_t solution, uint32_t flags)
{
    (void)handle;
    (void)flags;
    struct fake_gemm g = {
        .m = m,
        .n = n,
        .k = k,
        .lda = lda,
        .ldb = ldb,
        .ldc = ldd,
        .batch = batch,
        .stride_a = stride_a,
        .stride_b = stride_b,
        .stride_c = stride_d,
        .transpose_a = op_a == 112,
        .transpose_b = op_b == 112,
        .a = a,
        .b = b,
        .c = d,
        .solution = algo == 1 && solution != 0 ? solution : FAKE_FIRST_SOLUTION,
    };
    if (c != d || ldc != ldd || stride_c != stride_d || c_type != d_type || a_type != b_type) {
        return INVALID_VALUE;
    }
    if (!dtype_of(a_type, &g.type_ab) || !dtype_of(d_type, &g.type_c)) {
        return NOT_IMPLEMENTED;
    }
    g.type_b = g.type_ab;
    enum dtype scale;
    if (!dtype_of(compute, &scale)) {
        return NOT_IMPLEMENTED;
    }
    g.alpha = dtype_get(scale, alpha);
    g.beta = dtype_get(scale, beta);
    fake_log_rocblas(&g, algo);
    return fake_gemm_run(&g) == 0 ? OK : INTERNAL_ERROR;
}

FAKE_EXPORT int rocblas_gemm_strided_batched_ex_get_solutions(
    void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a,
    int a_type, int lda, int64_t stride_a, const void *b, int b_type, int ldb, int64_t stride_b,
    const void *beta, const void *c, int c_type, int ldc, int64_t stride_c, void *d, int d_type,
    int ldd, int64_t stride_d, int batch, int compute, int algo, uint32_t flags, int32_t *list,
    int32_t *count)
{
    (void)handle, (void)op_a, (void)op_b, (void)m, (void)n, (void)k, (void)alpha, (void)a;
    (void)a_type, (void)lda, (void)stride_a, (void)b, (void)b_type, (void)ldb, (void)stride_b;
    (void)beta, (void)c, (void)c_type, (void)ldc, (void)stride_c, (void)d, (void)d_type;
    (void)ldd, (void)stride_d, (void)batch, (void)compute, (void)algo, (void)flags;
    if (list == NULL) {
        *count = FAKE_SOLUTIONS;
        return OK;
    }
    for (int32_t i = 0; i < *count && i < FAKE_SOLUTIONS; i++) {
        list[i] = FAKE_FIRST_SOLUTION + i;
    }
    return OK;
}
