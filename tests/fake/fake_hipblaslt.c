// SPDX-License-Identifier: Apache-2.0
/*
 * libhipblaslt on CPU memory: the C functions that a user of it calls, five solutions. With FAKE_CUDA
 * libcublasLt, which has the same shape, other numbers, and functions that enumerate algorithms.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

#ifdef FAKE_CUDA
# define NAME(rest) cublasLt##rest

enum {
    OK = 0,
    INVALID_VALUE = 7,
    EXECUTION_FAILED = 13,
    NOT_SUPPORTED = 15,
    LAYOUT_BATCH = 5,
    LAYOUT_STRIDE = 6,
    DESC_TRANSPOSE_A = 3,
    DESC_TRANSPOSE_B = 4,
    DESC_EPILOGUE = 7,
    DESC_BIAS = 8,
    DESC_SCALE_A = 17,
    DESC_SCALE_B = 18,
    DESC_BIAS_TYPE = 26,
    PREFERENCE_ALIGNMENT = 5, /* of A; B, C, D follow */
    OPERATION_NONE = 0,
    OPERATION_TRANSPOSE = 1,
    ALGORITHM_BYTES = 64
};
#else
# define NAME(rest) hipblasLt##rest

enum {
    OK = 0,
    INVALID_VALUE = 3,
    EXECUTION_FAILED = 5,
    NOT_SUPPORTED = 7,
    LAYOUT_BATCH = 0,
    LAYOUT_STRIDE = 1,
    DESC_TRANSPOSE_A = 0,
    DESC_TRANSPOSE_B = 1,
    DESC_EPILOGUE = 2,
    DESC_BIAS = 3,
    DESC_BIAS_TYPE = 4,
    DESC_SCALE_A = 5,
    DESC_SCALE_B = 6,
    PREFERENCE_ALIGNMENT = -100,
    OPERATION_NONE = 111,
    OPERATION_TRANSPOSE = 112,
    ALGORITHM_BYTES = 24
};
#endif

struct layout {
    int type;
    uint64_t rows, columns;
    int64_t ld, stride;
    int32_t batch;
};

struct desc {
    int compute, scale;
    int32_t transpose_a, transpose_b, epilogue, bias_type;
    const void *bias;
    const float *scale_a, *scale_b;
};

/* Of libcublasLt: numbers by their place, id, tile, splits, ..., stages. */
struct algorithm {
    int32_t index;
    char rest[ALGORITHM_BYTES - sizeof(int32_t)];
} __attribute__((aligned(8)));

enum {
#ifdef FAKE_CUDA
    FIRST_INDEX = 0
#else
    FIRST_INDEX = FAKE_FIRST_SOLUTION
#endif
};

struct result {
    struct algorithm algorithm;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

FAKE_EXPORT int NAME(Create)(void **handle)
{
    *handle = calloc(1, 16);
    return OK;
}

FAKE_EXPORT int NAME(Destroy)(void *handle)
{
    free(handle);
    return OK;
}

#ifdef FAKE_CUDA
FAKE_EXPORT size_t cublasLtGetVersion(void)
{
    return 130100;
}

FAKE_EXPORT const char *cublasLtGetStatusName(int status)
{
    return status == NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_OTHER";
}
#else
FAKE_EXPORT int NAME(GetVersion)(void *handle, int *version)
{
    (void)handle;
    *version = fake_asked("ASSAY_FAKE_BLAS", "old-version") ? 1000 : 100202;
    return OK;
}
#endif

FAKE_EXPORT int NAME(MatrixLayoutCreate)(void **layout, int type, uint64_t rows, uint64_t columns,
                                         int64_t ld)
{
    struct layout *l = calloc(1, sizeof *l);
    *l = (struct layout){type, rows, columns, ld, 0, 1};
    *layout = l;
    return OK;
}

FAKE_EXPORT int NAME(MatrixLayoutDestroy)(void *layout)
{
    free(layout);
    return OK;
}

/* Copies a value of exactly `want` bytes. */
static int set(void *to, size_t want, const void *value, size_t bytes)
{
    if (bytes != want) {
        return INVALID_VALUE;
    }
    memcpy(to, value, bytes);
    return OK;
}

FAKE_EXPORT int NAME(MatrixLayoutSetAttribute)(void *layout, int attribute, const void *value,
                                               size_t bytes)
{
    struct layout *l = layout;
    return attribute == LAYOUT_BATCH    ? set(&l->batch, sizeof l->batch, value, bytes)
           : attribute == LAYOUT_STRIDE ? set(&l->stride, sizeof l->stride, value, bytes)
                                        : INVALID_VALUE;
}

static int get(void *to, size_t room, const void *from, size_t bytes, size_t *written)
{
    if (room < bytes) {
        return INVALID_VALUE;
    }
    memcpy(to, from, bytes);
    *written = bytes;
    return OK;
}

FAKE_EXPORT int NAME(MatrixLayoutGetAttribute)(const void *layout, int attribute, void *value,
                                               size_t bytes, size_t *written)
{
    const struct layout *l = layout;
    switch (attribute) {
    case 0: return get(value, bytes, &l->batch, sizeof l->batch, written);
    case 1: return get(value, bytes, &l->stride, sizeof l->stride, written);
    case 2: return get(value, bytes, &l->type, sizeof l->type, written);
    case 4: return get(value, bytes, &l->rows, sizeof l->rows, written);
    case 5: return get(value, bytes, &l->columns, sizeof l->columns, written);
    case 6: return get(value, bytes, &l->ld, sizeof l->ld, written);
    default: return INVALID_VALUE;
    }
}

FAKE_EXPORT int NAME(MatmulDescCreate)(void **desc, int compute, int scale)
{
    struct desc *d = calloc(1, sizeof *d);
    *d = (struct desc){compute, scale, OPERATION_NONE, OPERATION_NONE, 1, -1, NULL, NULL, NULL};
    *desc = d;
    return OK;
}

FAKE_EXPORT int NAME(MatmulDescDestroy)(void *desc)
{
    free(desc);
    return OK;
}

FAKE_EXPORT int NAME(MatmulDescSetAttribute)(void *desc, int attribute, const void *value,
                                             size_t bytes)
{
    struct desc *d = desc;
    switch (attribute) {
    case DESC_TRANSPOSE_A: return set(&d->transpose_a, sizeof d->transpose_a, value, bytes);
    case DESC_TRANSPOSE_B: return set(&d->transpose_b, sizeof d->transpose_b, value, bytes);
    case DESC_EPILOGUE: return set(&d->epilogue, sizeof d->epilogue, value, bytes);
    case DESC_BIAS: return set(&d->bias, sizeof d->bias, value, bytes);
    case DESC_BIAS_TYPE: return set(&d->bias_type, sizeof d->bias_type, value, bytes);
    case DESC_SCALE_A: return set(&d->scale_a, sizeof d->scale_a, value, bytes);
    case DESC_SCALE_B: return set(&d->scale_b, sizeof d->scale_b, value, bytes);
    default: return INVALID_VALUE;
    }
}

FAKE_EXPORT int NAME(MatmulDescGetAttribute)(const void *desc, int attribute, void *value,
                                             size_t bytes, size_t *written)
{
    const struct desc *d = desc;
    switch (attribute) {
    case DESC_TRANSPOSE_A:
        return get(value, bytes, &d->transpose_a, sizeof d->transpose_a, written);
    case DESC_TRANSPOSE_B:
        return get(value, bytes, &d->transpose_b, sizeof d->transpose_b, written);
    case DESC_EPILOGUE: return get(value, bytes, &d->epilogue, sizeof d->epilogue, written);
    case DESC_BIAS: return get(value, bytes, &d->bias, sizeof d->bias, written);
    default: return INVALID_VALUE;
    }
}

FAKE_EXPORT int NAME(MatmulPreferenceCreate)(void **preference)
{
    *preference = calloc(1, 64);
    return OK;
}

FAKE_EXPORT int NAME(MatmulPreferenceDestroy)(void *preference)
{
    free(preference);
    return OK;
}

FAKE_EXPORT int NAME(MatmulPreferenceSetAttribute)(void *preference, int attribute,
                                                   const void *value, size_t bytes)
{
    if (attribute >= PREFERENCE_ALIGNMENT && attribute < PREFERENCE_ALIGNMENT + 4) {
        uint32_t alignment;
        return set(&alignment, sizeof alignment, value, bytes);
    }
    return attribute == 1 ? set(preference, sizeof(uint64_t), value, bytes) : INVALID_VALUE;
}

static bool dtype_of(int type, enum dtype *ret_type)
{
    static const struct {
        int number;
        enum dtype type;
    } types[] = {{0, DTYPE_F32},
                 {1, DTYPE_F64},
                 {2, DTYPE_F16},
                 {14, DTYPE_BF16},
                 {28, DTYPE_F8_E4M3FN},
                 {29, DTYPE_F8_E5M2},
                 {1000, DTYPE_F8_E4M3FNUZ},
                 {1001, DTYPE_F8_E5M2FNUZ}};

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].number == type) {
            *ret_type = types[i].type;
            return true;
        }
    }
    return false;
}

FAKE_EXPORT int NAME(MatmulAlgoGetHeuristic)(void *handle, void *desc, void *a, void *b, void *c,
                                             void *d, void *preference, int wanted,
                                             struct result *results, int *count)
{
    (void)handle;
    (void)desc;
    (void)b;
    (void)c;
    (void)d;
    (void)preference;
    enum dtype type;
    if (fake_asked("ASSAY_FAKE_BLAS", "heuristic-crash")) {
        raise(SIGSEGV);
    }
    if (!dtype_of(((struct layout *)a)->type, &type)) {
        return NOT_SUPPORTED;
    }
    for (*count = 0; *count < wanted && *count < FAKE_SOLUTIONS; ++*count) {
        results[*count] = (struct result){.algorithm.index = FIRST_INDEX + *count, .waves = 1.0F};
    }
    return OK;
}

FAKE_EXPORT int NAME(Matmul)(void *handle, void *desc, const void *alpha, const void *a,
                             void *a_layout, const void *b, void *b_layout, const void *beta,
                             const void *c, void *c_layout, void *d, void *d_layout,
                             const struct algorithm *algorithm, void *workspace,
                             size_t workspace_bytes, void *stream)
{
    (void)handle;
    (void)c;
    (void)d_layout;
    (void)workspace;
    (void)workspace_bytes;
    (void)stream;
    const struct desc *e = desc;
    const struct layout *la = a_layout;
    const struct layout *lb = b_layout;
    const struct layout *lc = c_layout;
    struct fake_gemm g = {
        .m = (int64_t)lc->rows,
        .n = (int64_t)lc->columns,
        .k = (int64_t)(e->transpose_a == OPERATION_TRANSPOSE ? la->rows : la->columns),
        .lda = la->ld,
        .ldb = lb->ld,
        .ldc = lc->ld,
        .batch = la->batch,
        .stride_a = la->stride,
        .stride_b = lb->stride,
        .stride_c = lc->stride,
        .transpose_a = e->transpose_a == OPERATION_TRANSPOSE,
        .transpose_b = e->transpose_b == OPERATION_TRANSPOSE,
        .a = a,
        .b = b,
        .c = d,
        .scale_a = e->scale_a,
        .scale_b = e->scale_b,
        .bias = (e->epilogue & 4) != 0 ? e->bias : NULL,
        .relu = (e->epilogue & 2) != 0,
        .gelu = (e->epilogue & 32) != 0,
        .solution = FAKE_FIRST_SOLUTION + (algorithm != NULL ? algorithm->index - FIRST_INDEX : 0),
    };
    if (!dtype_of(la->type, &g.type_ab) || !dtype_of(lb->type, &g.type_b) ||
        !dtype_of(lc->type, &g.type_c)) {
        return NOT_SUPPORTED;
    }
    enum dtype scale = e->scale == 1 ? DTYPE_F64 : DTYPE_F32;
    g.alpha = dtype_get(scale, alpha);
    g.beta = dtype_get(scale, beta);
    fake_log_hipblaslt(&g);
    return fake_gemm_run(&g) == 0 ? OK : EXECUTION_FAILED;
}

#ifdef FAKE_CUDA
/* --- every algorithm: five ids with tiles and stages ------------------------------------------- */

FAKE_EXPORT int cublasLtMatmulAlgoGetIds(void *handle, int compute, int scale, int a, int b, int c,
                                         int d, int wanted, int *ids, int *count)
{
    (void)handle, (void)compute, (void)scale, (void)a, (void)b, (void)c, (void)d;
    for (*count = 0; *count < wanted && *count < FAKE_SOLUTIONS; ++*count) {
        ids[*count] = *count;
    }
    return OK;
}

FAKE_EXPORT int cublasLtMatmulAlgoInit(void *handle, int compute, int scale, int a, int b, int c,
                                       int d, int id, struct algorithm *algorithm)
{
    (void)handle, (void)compute, (void)scale, (void)a, (void)b, (void)c, (void)d;
    *algorithm = (struct algorithm){.index = id};
    return id < FAKE_SOLUTIONS ? OK : INVALID_VALUE;
}

FAKE_EXPORT int cublasLtMatmulAlgoCapGetAttribute(const struct algorithm *algorithm, int which,
                                                  void *value, size_t bytes, size_t *written)
{
    (void)algorithm;
    static const uint32_t tiles[] = {5, 15, 20};
    static const uint32_t stages[] = {1, 8};

    enum {
        TILES = 6,
        STAGES = 13
    };

    if (which != TILES && which != STAGES) {
        memset(value, 0, bytes);
        *written = bytes;
        return OK;
    }
    *written = which == TILES ? sizeof tiles : sizeof stages;
    if (value != NULL && bytes >= *written) {
        memcpy(value, which == TILES ? tiles : stages, *written);
    }
    return OK;
}

FAKE_EXPORT int cublasLtMatmulAlgoConfigSetAttribute(struct algorithm *algorithm, int which,
                                                     const void *value, size_t bytes)
{
    return which < 8 ? set((char *)algorithm + (size_t)which * 4, 4, value, bytes) : INVALID_VALUE;
}

FAKE_EXPORT int cublasLtMatmulAlgoConfigGetAttribute(const struct algorithm *algorithm, int which,
                                                     void *value, size_t bytes, size_t *written)
{
    return which < 8 ? get(value, bytes, (const char *)algorithm + (size_t)which * 4, 4, written)
                     : INVALID_VALUE;
}

/* 8 bits only as NVIDIA has them, and never both in e5m2. */
static bool can_do(const struct desc *e, const struct layout *a, const struct layout *b)
{
    const int e4m3 = 28;
    const int e5m2 = 29;
    if (a->type != e4m3 && a->type != e5m2) {
        return true;
    }
    return e->transpose_a == OPERATION_TRANSPOSE && e->transpose_b == OPERATION_NONE &&
           !(a->type == e5m2 && b->type == e5m2) && a->rows % 16 == 0 && a->columns % 16 == 0 &&
           a->ld % 16 == 0 && b->ld % 16 == 0;
}

FAKE_EXPORT int cublasLtMatmulAlgoCheck(void *handle, void *desc, void *a, void *b, void *c,
                                        void *d, const struct algorithm *algorithm,
                                        struct result *result)
{
    (void)handle, (void)c, (void)d;
    *result = (struct result){.algorithm = *algorithm, .workspace = 4096};
    return can_do(desc, a, b) ? OK : NOT_SUPPORTED;
}
#endif
