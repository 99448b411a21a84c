// SPDX-License-Identifier: Apache-2.0
/*
 * A LoRA-like job over hipBLASLt or rocBLAS: products of 16-bit floats by the solution that the fake
 * libraries of tests/fake plant their faults in. usage: lt_job STEPS [N [rocblas]]
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int hipInit(unsigned flags);
int hipMalloc(void **p, size_t size);
int hipFree(void *p);
int hipMemsetD32(uint64_t to, int value, size_t count);
int hipDeviceSynchronize(void);
int hipblasLtCreate(void **handle);
int hipblasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns,
                                int64_t ld);
int hipblasLtMatmulDescCreate(void **desc, int compute, int scale);
int hipblasLtMatmulDescSetAttribute(void *desc, int attribute, const void *value, size_t bytes);
int hipblasLtMatmulPreferenceCreate(void **preference);
int hipblasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d,
                                    void *preference, int wanted, void *results, int *count);
int hipblasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *a_layout,
                    const void *b, void *b_layout, const void *beta, const void *c, void *c_layout,
                    void *d, void *d_layout, const void *algorithm, void *workspace,
                    size_t workspace_bytes, void *stream);
int rocblas_create_handle(void **handle);
int rocblas_gemm_strided_batched_ex(void *handle, int op_a, int op_b, int m, int n, int k,
                                    const void *alpha, const void *a, int a_type, int lda,
                                    int64_t stride_a, const void *b, int b_type, int ldb,
                                    int64_t stride_b, const void *beta, const void *c, int c_type,
                                    int ldc, int64_t stride_c, void *d, int d_type, int ldd,
                                    int64_t stride_d, int batch, int compute, int algo,
                                    int32_t solution, uint32_t flags);

enum {
    BF16 = 14,
    F32 = 0,
    COMPUTE_F32 = 2,
    PLAIN = 111,
    TRANSPOSED = 112,
    ROCBLAS_BF16 = 168,
    ROCBLAS_F32 = 151,
    ROCBLAS_SOLUTION = 103,
    SOLUTIONS = 8,
    RESULT_BYTES = 56,
    GUILTY = 3, /* of those that the heuristic lists */
    M = 64,
    K = 94,
    ONES = 0x3f803f80 /* two 16-bit ones */
};

static void check(int status, const char *what)
{
    if (status != 0) {
        printf("%s: error %d\n", what, status);
        fflush(stdout);
        exit(1);
    }
}

static void *tensor(size_t elements)
{
    void *p = NULL;
    check(hipMalloc(&p, elements * 2), "hipMalloc");
    check(hipMemsetD32((uint64_t)(uintptr_t)p, ONES, elements / 2), "hipMemsetD32");
    return p;
}

/* What a job keeps between steps. */
struct job {
    int n;
    void *handle, *layout[3], *desc;
    unsigned char results[SOLUTIONS * RESULT_BYTES];
};

static void start_lt(struct job *j)
{
    void *preference;
    int count = 0;
    int32_t transposed = TRANSPOSED;
    check(hipblasLtCreate(&j->handle), "hipblasLtCreate");
    check(hipblasLtMatmulDescCreate(&j->desc, COMPUTE_F32, F32), "hipblasLtMatmulDescCreate");
    check(hipblasLtMatmulDescSetAttribute(j->desc, 1, &transposed, sizeof transposed), "transpose");
    check(hipblasLtMatrixLayoutCreate(&j->layout[0], BF16, M, K, M), "layout of A");
    check(hipblasLtMatrixLayoutCreate(&j->layout[1], BF16, (uint64_t)j->n, K, j->n), "layout of B");
    check(hipblasLtMatrixLayoutCreate(&j->layout[2], BF16, M, (uint64_t)j->n, M), "layout of C");
    check(hipblasLtMatmulPreferenceCreate(&preference), "hipblasLtMatmulPreferenceCreate");
    check(hipblasLtMatmulAlgoGetHeuristic(j->handle, j->desc, j->layout[0], j->layout[1],
                                          j->layout[2], j->layout[2], preference, SOLUTIONS,
                                          j->results, &count),
          "hipblasLtMatmulAlgoGetHeuristic");
}

static void product_lt(struct job *j, const void *a, const void *b, void *c)
{
    float one = 1;
    float zero = 0;
    check(hipblasLtMatmul(j->handle, j->desc, &one, a, j->layout[0], b, j->layout[1], &zero, c,
                          j->layout[2], c, j->layout[2], j->results + (size_t)GUILTY * RESULT_BYTES,
                          NULL, 0, NULL),
          "hipblasLtMatmul");
}

static void product_rocblas(struct job *j, const void *a, const void *b, void *c)
{
    float one = 1;
    float zero = 0;
    check(rocblas_gemm_strided_batched_ex(j->handle, PLAIN, TRANSPOSED, M, j->n, K, &one, a,
                                          ROCBLAS_BF16, M, 0, b, ROCBLAS_BF16, j->n, 0, &zero, c,
                                          ROCBLAS_BF16, M, 0, c, ROCBLAS_BF16, M, 0, 1, ROCBLAS_F32,
                                          1, ROCBLAS_SOLUTION, 0),
          "rocblas_gemm_strided_batched_ex");
}

int main(int argc, char **argv)
{
    static struct job j;
    int steps = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 3;
    int rocblas = argc > 3 && strcmp(argv[3], "rocblas") == 0;
    j.n = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 16;
    check(hipInit(0), "hipInit");
    if (rocblas) {
        check(rocblas_create_handle(&j.handle), "rocblas_create_handle");
    } else {
        start_lt(&j);
    }
    for (int step = 0; step < steps; step++) {
        void *a = tensor((size_t)M * K);
        void *b = tensor((size_t)j.n * K);
        void *c = tensor((size_t)M * (size_t)j.n);
        if (rocblas) {
            product_rocblas(&j, a, b, c);
        } else {
            product_lt(&j, a, b, c);
        }
        check(hipDeviceSynchronize(), "hipDeviceSynchronize");
        printf("step %d loss %.3f\n", step, 1.0 / (step + 1));
        fflush(stdout);
        hipFree(a);
        hipFree(b);
        hipFree(c);
    }
    puts("done");
    return 0;
}
