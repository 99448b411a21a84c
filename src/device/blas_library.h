// SPDX-License-Identifier: Apache-2.0
/* What opening (blas.c) and calling (blas_call.c) share. Not for other modules. */
#ifndef ASSAY_DEVICE_BLAS_LIBRARY_H
#define ASSAY_DEVICE_BLAS_LIBRARY_H

#include "device/blas.h"

enum {
    BLAS_ENTRIES_MAX = 48,
    BLAS_SYMBOL_MAX = 64
};

/* A pointer from dlsym, and its type for each calling convention. */
union blas_function {
    void *address;
    void (*cblas_s)(int order, int ta, int tb, int64_t m, int64_t n, int64_t k, float alpha,
                    const void *a, int64_t lda, const void *b, int64_t ldb, float beta, void *c,
                    int64_t ldc);
    void (*cblas_d)(int order, int ta, int tb, int64_t m, int64_t n, int64_t k, double alpha,
                    const void *a, int64_t lda, const void *b, int64_t ldb, double beta, void *c,
                    int64_t ldc);
    void (*batch_s)(int order, int ta, int tb, int64_t m, int64_t n, int64_t k, float alpha,
                    const void *a, int64_t lda, int64_t stride_a, const void *b, int64_t ldb,
                    int64_t stride_b, float beta, void *c, int64_t ldc, int64_t stride_c,
                    int64_t count);
    void (*batch_d)(int order, int ta, int tb, int64_t m, int64_t n, int64_t k, double alpha,
                    const void *a, int64_t lda, int64_t stride_a, const void *b, int64_t ldb,
                    int64_t stride_b, double beta, void *c, int64_t ldc, int64_t stride_c,
                    int64_t count);
    void (*fortran)(const char *ta, const char *tb, const int64_t *m, const int64_t *n,
                    const int64_t *k, const void *alpha, const void *a, const int64_t *lda,
                    const void *b, const int64_t *ldb, const void *beta, void *c,
                    const int64_t *ldc, size_t ta_length, size_t tb_length);
    int (*dnnl)(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const void *a,
                int64_t lda, const void *b, int64_t ldb, float beta, void *c, int64_t ldc);
    void (*bli)(int ta, int tb, int64_t m, int64_t n, int64_t k, const void *alpha, const void *a,
                int64_t row_a, int64_t column_a, const void *b, int64_t row_b, int64_t column_b,
                const void *beta, void *c, int64_t row_c, int64_t column_c);
};

struct blas_entry {
    enum dtype dtype_ab;
    enum dtype dtype_c;
    enum blas_abi abi;
    bool wide; /* takes 64-bit integers */
    char symbol[BLAS_SYMBOL_MAX];
    union blas_function function;
};

struct gemm_library {
    void *handle;
    struct blas_identity identity;
    char summary[240]; /* "0.3.21 (Zen)" */
    struct blas_entry entries[BLAS_ENTRIES_MAX];
    size_t entry_count;
    bool asks_needed; /* while it is recognised: libraries that it needs may answer for it */
};

/* One call, or one for each entry of the batch. ST_UNSUPPORTED when the library declines. */
enum status blas_call(const struct blas_entry *entry, const struct gemm_shape *shape,
                      const struct gemm_operands *operands, struct err *err) MUST_USE;

/* Fills family, version and kernel from what the library exports, else from its bytes. */
void blas_recognise(struct arena *a, struct gemm_library *library);

/* dlsym with the prefixes and suffixes that builds put around `base`; NULL when there is none. */
void *blas_symbol(void *handle, const char *base);

/* Whether an address belongs to the opened object itself and not to a library it needs. */
bool blas_is_own(void *handle, void *address);

#endif
