// SPDX-License-Identifier: Apache-2.0
/* libcublas on CPU memory, for float32 and float64: what device/cublas.c calls, and no more. */
#include <stdlib.h>

enum {
    NOT_SUPPORTED = 15,
    R_32F = 0,
    R_64F = 1,
    COMPUTE_32F = 68,
    COMPUTE_64F = 70
};

int cublasCreate_v2(void **handle);
int cublasDestroy_v2(void *handle);
int cublasGetVersion_v2(void *handle, int *version);
const char *cublasGetStatusName(int status);
int cublasGemmEx(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha,
                 const void *a, int a_type, int lda, const void *b, int b_type, int ldb,
                 const void *beta, void *c, int c_type, int ldc, int compute, int algorithm);
int cublasGemmStridedBatchedEx(void *handle, int op_a, int op_b, int m, int n, int k,
                               const void *alpha, const void *a, int a_type, int lda,
                               long long stride_a, const void *b, int b_type, int ldb,
                               long long stride_b, const void *beta, void *c, int c_type, int ldc,
                               long long stride_c, int batch, int compute, int algorithm);

int cublasCreate_v2(void **handle)
{
    *handle = malloc(1);
    return *handle != NULL ? 0 : 3;
}

int cublasDestroy_v2(void *handle)
{
    free(handle);
    return 0;
}

int cublasGetVersion_v2(void *handle, int *version)
{
    (void)handle;
    *version = 130100;
    return 0;
}

const char *cublasGetStatusName(int status)
{
    return status == NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_OTHER";
}

static double get(int type, const void *p, long long at)
{
    return type == R_64F ? ((const double *)p)[at] : (double)((const float *)p)[at];
}

int cublasGemmStridedBatchedEx(void *handle, int op_a, int op_b, int m, int n, int k,
                               const void *alpha, const void *a, int a_type, int lda,
                               long long stride_a, const void *b, int b_type, int ldb,
                               long long stride_b, const void *beta, void *c, int c_type, int ldc,
                               long long stride_c, int batch, int compute, int algorithm)
{
    (void)handle;
    if (a_type > R_64F || a_type != b_type || a_type != c_type || algorithm != -1 ||
        compute != (a_type == R_64F ? COMPUTE_64F : COMPUTE_32F)) {
        return NOT_SUPPORTED;
    }
    for (int g = 0; g < batch; g++) {
        for (int j = 0; j < n; j++) {
            for (int i = 0; i < m; i++) {
                double sum = 0;
                for (int p = 0; p < k; p++) {
                    long long at_a = g * stride_a +
                                     (op_a ? p + (long long)i * lda : i + (long long)p * lda);
                    long long at_b = g * stride_b +
                                     (op_b ? j + (long long)p * ldb : p + (long long)j * ldb);
                    sum += get(a_type, a, at_a) * get(b_type, b, at_b);
                }
                long long at = g * stride_c + i + (long long)j * ldc;
                double scale = get(a_type, beta, 0);
                sum = get(a_type, alpha, 0) * sum + (scale != 0 ? scale * get(c_type, c, at) : 0);
                if (c_type == R_64F) {
                    ((double *)c)[at] = sum;
                } else {
                    ((float *)c)[at] = (float)sum;
                }
            }
        }
    }
    return 0;
}

int cublasGemmEx(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha,
                 const void *a, int a_type, int lda, const void *b, int b_type, int ldb,
                 const void *beta, void *c, int c_type, int ldc, int compute, int algorithm)
{
    return cublasGemmStridedBatchedEx(handle, op_a, op_b, m, n, k, alpha, a, a_type, lda, 0, b,
                                      b_type, ldb, 0, beta, c, c_type, ldc, 0, 1, compute,
                                      algorithm);
}
