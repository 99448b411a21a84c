// SPDX-License-Identifier: Apache-2.0
/*
 * libhipblaslt on CPU memory: the C functions that a user of it calls, five solutions.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

enum {
    OK = 0,
    INVALID_VALUE = 3,
    EXECUTION_FAILED = 5,
    NOT_SUPPORTED = 7
};

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

struct algorithm {
    int32_t index;
    char rest[12];
    size_t max_workspace;
};

struct result {
    struct algorithm algorithm;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

FAKE_EXPORT int hipblasLtCreate(void **handle)
{
    *handle = calloc(1, 16);
    return OK;
}

FAKE_EXPORT int hipblasLtDestroy(void *handle)
{
    free(handle);
    return OK;
}

FAKE_EXPORT int hipblasLtGetVersion(void *handle, int *version)
{
    (void)handle;
    *version = fake_asked("ASSAY_FAKE_BLAS", "old-version") ? 1000 : 100202;
    return OK;
}

FAKE_EXPORT int hipblasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows,
                                            uint64_t columns, int64_t ld)
{
    struct layout *l = calloc(1, sizeof *l);
    *l = (struct layout){type, rows, columns, ld, 0, 1};
    *layout = l;
    return OK;
}

FAKE_EXPORT int hipblasLtMatrixLayoutDestroy(void *layout)
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

FAKE_EXPORT int hipblasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value,
                                                  size_t bytes)
{
    struct layout *l = layout;
    return attribute == 0   ? set(&l->batch, sizeof l->batch, value, bytes)
           : attribute == 1 ? set(&l->stride, sizeof l->stride, value, bytes)
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

FAKE_EXPORT int hipblasLtMatrixLayoutGetAttribute(const void *layout, int attribute, void *value,
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

FAKE_EXPORT int hipblasLtMatmulDescCreate(void **desc, int compute, int scale)
{
    struct desc *d = calloc(1, sizeof *d);
    *d = (struct desc){compute, scale, 111, 111, 1, -1, NULL, NULL, NULL};
    *desc = d;
    return OK;
}

FAKE_EXPORT int hipblasLtMatmulDescDestroy(void *desc)
{
    free(desc);
    return OK;
}

FAKE_EXPORT int hipblasLtMatmulDescSetAttribute(void *desc, int attribute, const void *value,
                                                size_t bytes)
{
    struct desc *d = desc;
    switch (attribute) {
    case 0: return set(&d->transpose_a, sizeof d->transpose_a, value, bytes);
    case 1: return set(&d->transpose_b, sizeof d->transpose_b, value, bytes);
    case 2: return set(&d->epilogue, sizeof d->epilogue, value, bytes);
    case 3: return set(&d->bias, sizeof d->bias, value, bytes);
    case 4: return set(&d->bias_type, sizeof d->bias_type, value, bytes);
    case 5: return set(&d->scale_a, sizeof d->scale_a, value, bytes);
    case 6: return set(&d->scale_b, sizeof d->scale_b, value, bytes);
    default: return INVALID_VALUE;
    }
}

FAKE_EXPORT int hipblasLtMatmulDescGetAttribute(const void *desc, int attribute, void *value,
                                                size_t bytes, size_t *written)
{
    const struct desc *d = desc;
    switch (attribute) {
    case 0: return get(value, bytes, &d->transpose_a, sizeof d->transpose_a, written);
    case 1: return get(value, bytes, &d->transpose_b, sizeof d->transpose_b, written);
    case 2: return get(value, bytes, &d->epilogue, sizeof d->epilogue, written);
    case 3: return get(value, bytes, &d->bias, sizeof d->bias, written);
    default: return INVALID_VALUE;
    }
}

FAKE_EXPORT int hipblasLtMatmulPreferenceCreate(void **preference)
{
    *preference = calloc(1, 64);
    return OK;
}

FAKE_EXPORT int hipblasLtMatmulPreferenceDestroy(void *preference)
{
    free(preference);
    return OK;
}

FAKE_EXPORT int hipblasLtMatmulPreferenceSetAttribute(void *preference, int attribute,
                                                      const void *value, size_t bytes)
{
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

FAKE_EXPORT int hipblasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c,
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
        results[*count] = (struct result){.algorithm.index = FAKE_FIRST_SOLUTION + *count,
                                          .waves = 1.0F};
    }
    return OK;
}

FAKE_EXPORT int hipblasLtMatmul(void *handle, void *desc, const void *alpha, const void *a,
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
        .k = (int64_t)(e->transpose_a == 112 ? la->rows : la->columns),
        .lda = la->ld,
        .ldb = lb->ld,
        .ldc = lc->ld,
        .batch = la->batch,
        .stride_a = la->stride,
        .stride_b = lb->stride,
        .stride_c = lc->stride,
        .transpose_a = e->transpose_a == 112,
        .transpose_b = e->transpose_b == 112,
        .a = a,
        .b = b,
        .c = d,
        .scale_a = e->scale_a,
        .scale_b = e->scale_b,
        .bias = (e->epilogue & 4) != 0 ? e->bias : NULL,
        .relu = (e->epilogue & 2) != 0,
        .gelu = (e->epilogue & 32) != 0,
        .solution = algorithm != NULL ? algorithm->index : FAKE_FIRST_SOLUTION,
    };
    if (!dtype_of(la->type, &g.type_ab) || !dtype_of(lb->type, &g.type_b) ||
        !dtype_of(lc->type, &g.type_c)) {
        return NOT_SUPPORTED;
    }
    enum dtype scale = e->scale == 1 ? DTYPE_F64 : DTYPE_F32;
    g.alpha = dtype_get(scale, alpha);
    g.beta = dtype_get(scale, beta);
    return fake_gemm_run(&g) == 0 ? OK : EXECUTION_FAILED;
}
