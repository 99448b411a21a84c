// SPDX-License-Identifier: Apache-2.0
/*
 * A LoRA-like job over hipBLASLt: products of 16-bit floats by the solution that the fake library of
 * tests/fake plants its faults in. usage: lt_job STEPS [N]
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

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

enum {
    BF16 = 14,
    F32 = 0,
    COMPUTE_F32 = 2,
    TRANSPOSED = 112,
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

int main(int argc, char **argv)
{
    int steps = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 3;
    int n = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 16;
    void *handle;
    void *layout[3];
    void *desc;
    void *preference;
    unsigned char results[SOLUTIONS * RESULT_BYTES];
    int count = 0;
    int32_t transposed = TRANSPOSED;
    float one = 1;
    float zero = 0;
    check(hipInit(0), "hipInit");
    check(hipblasLtCreate(&handle), "hipblasLtCreate");
    check(hipblasLtMatmulDescCreate(&desc, COMPUTE_F32, F32), "hipblasLtMatmulDescCreate");
    check(hipblasLtMatmulDescSetAttribute(desc, 1, &transposed, sizeof transposed), "transpose");
    check(hipblasLtMatrixLayoutCreate(&layout[0], BF16, M, K, M), "layout of A");
    check(hipblasLtMatrixLayoutCreate(&layout[1], BF16, (uint64_t)n, K, n), "layout of B");
    check(hipblasLtMatrixLayoutCreate(&layout[2], BF16, M, (uint64_t)n, M), "layout of C");
    check(hipblasLtMatmulPreferenceCreate(&preference), "hipblasLtMatmulPreferenceCreate");
    check(hipblasLtMatmulAlgoGetHeuristic(handle, desc, layout[0], layout[1], layout[2], layout[2],
                                          preference, SOLUTIONS, results, &count),
          "hipblasLtMatmulAlgoGetHeuristic");
    for (int step = 0; step < steps; step++) {
        void *a = tensor((size_t)M * K);
        void *b = tensor((size_t)n * K);
        void *c = tensor((size_t)M * (size_t)n);
        check(hipblasLtMatmul(handle, desc, &one, a, layout[0], b, layout[1], &zero, c, layout[2],
                              c, layout[2], results + (size_t)GUILTY * RESULT_BYTES, NULL, 0, NULL),
              "hipblasLtMatmul");
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
