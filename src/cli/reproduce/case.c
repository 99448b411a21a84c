// SPDX-License-Identifier: Apache-2.0
/* See reproduce_case.h. */
#include "cli/reproduce/case.h"

#include <math.h>
#include <string.h>

#include "base/vec.h"

#include "device/blas.h"

enum {
    CPU_CHOICES = 7, /* entry points of one format: device/blas.c knows no more; numbers wrap */
    GPU_CHOICES = 16,
    BATCH_MAX = 65536
};

#define SIZE_MOST ((int64_t)1 << 40)

/* The family of the hook table, and what can call its products. */
static const struct {
    const char *family;
    const struct gemm_vendor *vendor;
    enum device_kind kind;
} vendors[] = {
    {"blas", &gemm_vendor_blas, DEVICE_CPU},
    {"onednn", &gemm_vendor_blas, DEVICE_CPU},
    {"cublaslt", &gemm_vendor_cublaslt, DEVICE_CUDA},
    {"cublas", &gemm_vendor_cublas, DEVICE_CUDA},
    {"hipblaslt", &gemm_vendor_hipblaslt, DEVICE_HIP},
    {"rocblas", &gemm_vendor_rocblas, DEVICE_HIP},
};

/* Numbers that cuBLASLt and hipBLASLt share; 0 where the call has none. */
static bool epilogue_of(unsigned number, enum gemm_epilogue *ret_epilogue)
{
    static const struct {
        unsigned number;
        enum gemm_epilogue epilogue;
    } rows[] = {
        {0, GEMM_EPILOGUE_NONE},       {1, GEMM_EPILOGUE_NONE},      {4, GEMM_EPILOGUE_BIAS},
        {2, GEMM_EPILOGUE_RELU},       {6, GEMM_EPILOGUE_BIAS_RELU}, {32, GEMM_EPILOGUE_GELU},
        {36, GEMM_EPILOGUE_BIAS_GELU},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].number == number) {
            *ret_epilogue = rows[i].epilogue;
            return true;
        }
    }
    return false;
}

static enum status type_of(const struct record_gemm *g, unsigned type, enum dtype *ret_dtype,
                           struct err *err)
{
    const char *name;
    if (fault_type_size(g->types, type, &name) == 0 || !dtype_find(str_of(name), ret_dtype) ||
        !dtype_info(*ret_dtype)->is_float) {
        return err_set(err, ST_UNSUPPORTED, "its number format (%u: %s) is none that is tried here",
                       type, name);
    }
    return ST_OK;
}

static bool sizes_make_sense(const struct record_gemm *g)
{
    int64_t rows_a = g->transpose_a ? g->k : g->m;
    int64_t rows_b = g->transpose_b ? g->n : g->k;
    const int64_t sizes[] = {g->m, g->n, g->k, g->lda, g->ldb, g->ldc};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        if (sizes[i] < 0 || sizes[i] > SIZE_MOST) {
            return false;
        }
    }
    return g->lda >= rows_a && g->ldb >= rows_b && g->ldc >= g->m && g->lda > 0 && g->ldb > 0 &&
           g->ldc > 0 && g->batch <= BATCH_MAX && fault_operand_bytes(g, 'C') < UINT64_C(1) << 40;
}

static enum status shape_of(const struct record_gemm *g, struct gemm_shape *ret, struct err *err)
{
    struct gemm_shape s = {.m = g->m,
                           .n = g->n,
                           .k = g->k,
                           .lda = g->lda,
                           .ldb = g->ldb,
                           .ldc = g->ldc,
                           .batch = g->batch > 1 ? g->batch : 1,
                           .transpose_a = g->transpose_a != 0,
                           .transpose_b = g->transpose_b != 0,
                           .alpha = g->alpha,
                           .beta = g->beta};
    enum dtype b;
    if (g->m == 0 && g->n == 0 && g->k == 0 && g->ldc == 0) {
        return err_set(err, ST_UNSUPPORTED,
                       "the record does not hold its sizes: this version of the library does not "
                       "tell what is in a descriptor");
    }
    if (!sizes_make_sense(g)) {
        return err_set(err, ST_UNSUPPORTED,
                       "its sizes are none that a library accepts (m %lld, n %lld, k %lld, lda "
                       "%lld, ldb %lld, ldc %lld)",
                       (long long)g->m, (long long)g->n, (long long)g->k, (long long)g->lda,
                       (long long)g->ldb, (long long)g->ldc);
    }
    TRY(type_of(g, g->type_a, &s.dtype_ab, err));
    TRY(type_of(g, g->type_b, &b, err));
    TRY(type_of(g, g->type_c, &s.dtype_c, err));
    if (b != s.dtype_ab) {
        return err_set(err, ST_UNSUPPORTED, "A and B have different number formats");
    }
    if (!epilogue_of(g->epilogue, &s.epilogue)) {
        return err_set(err, ST_UNSUPPORTED, "its epilogue (%u) is none that is tried here",
                       g->epilogue);
    }
    if (s.batch > 1) {
        s.stride_a = g->stride_a;
        s.stride_b = g->stride_b;
        s.stride_c = g->stride_c;
        if (s.stride_a < 0 || s.stride_b < 0 || s.stride_c < s.ldc * s.n) {
            return err_set(err, ST_UNSUPPORTED, "the matrices of its batch overlap");
        }
    }
    *ret = s;
    return ST_OK;
}

static void add_probe(struct arena *a, const struct suspect *suspect, struct reproduce_case *c,
                      struct gemm_probe probe, bool other_side)
{
    const struct gemm_shape *s = &probe.shape;
    bool begin = suspect->before != other_side;
    probe.side = begin ? GUARD_BEGIN : GUARD_END;
    probe.seed = 1;
    *VEC_PUSH(a, &c->probes) = probe;
    c->operations += 2.0 * (double)s->m * (double)s->n * (double)s->k * (double)s->batch;
}

/* Every entry point, both sides, exact and rounded numbers. */
static void add_host_probes(struct arena *a, const struct suspect *suspect, struct gemm_shape shape,
                            struct reproduce_case *c)
{
    static const enum gemm_values values[] = {GEMM_VALUES_GRID, GEMM_VALUES_RANDOM};

    for (size_t v = 0; v < ARRAY_LEN(values); v++) {
        for (uint32_t i = 0; i < 2 * CPU_CHOICES; i++) {
            const struct gemm_probe p = {.shape = shape, .values = values[v], .choice = i / 2};
            add_probe(a, suspect, c, p, i % 2 == 1);
        }
    }
}

/* A fault costs seconds there: the recorded algorithm on both sides, then the others that the library
 * offers, at the side of the record. */
static void add_device_probes(struct arena *a, const struct suspect *suspect,
                              struct gemm_shape shape, struct reproduce_case *c)
{
    const struct gemm_probe recorded = {.shape = shape,
                                        .algorithm_set = suspect->gemm.algorithm != UINT64_MAX,
                                        .algorithm = suspect->gemm.algorithm};
    add_probe(a, suspect, c, recorded, false);
    add_probe(a, suspect, c, recorded, true);
    for (uint32_t i = 0; i < GPU_CHOICES; i++) {
        const struct gemm_probe p = {.shape = shape, .choice = i};
        add_probe(a, suspect, c, p, false);
    }
}

/* What the recorded addresses let the caller promise: libraries choose other kernels by it. */
static size_t alignment_of(const struct record_gemm *g, const struct gemm_shape *s)
{
    enum {
        ALIGNMENT_MOST = 16
    };

    uint64_t all = g->a | g->b | g->c | g->d;
    size_t alignment = ALIGNMENT_MOST;
    while (alignment > 1 && all % alignment != 0) {
        alignment /= 2;
    }
    return gemm_shape_alignment(s, alignment);
}

enum status reproduce_case_make(struct arena *a, const struct suspect *suspect,
                                struct reproduce_case *ret_case, struct err *err)
{
    struct reproduce_case c = {0};
    struct gemm_shape shape = {0};
    for (size_t i = 0; i < ARRAY_LEN(vendors); i++) {
        if (strcmp(vendors[i].family, suspect->family) == 0) {
            c.vendor = vendors[i].vendor;
            c.device_kind = vendors[i].kind;
        }
    }
    if (c.vendor == NULL) {
        return err_set(err, ST_UNSUPPORTED, "products of %s cannot be called alone from here",
                       suspect->family);
    }
    TRY(shape_of(&suspect->gemm, &shape, err));
    bool told = isfinite(shape.alpha) && isfinite(shape.beta);
    for (int beta = 0; beta < (told ? 1 : 2); beta++) {
        shape.alpha = told ? shape.alpha : 1;
        shape.beta = told ? shape.beta : beta;
        if (c.device_kind == DEVICE_CPU) {
            add_host_probes(a, suspect, shape, &c);
        } else {
            shape.alignment_bytes = alignment_of(&suspect->gemm, &shape);
            add_device_probes(a, suspect, shape, &c);
        }
    }
    *ret_case = c;
    return ST_OK;
}

bool reproduce_case_same_function(const struct suspect *suspect, const struct gemm_choice *choice)
{
    struct str name = str_of(choice->name);
    size_t comma = str_find(name, ", ", 0);
    if (strcmp(suspect->family, "blas") == 0 || strcmp(suspect->family, "onednn") == 0) {
        return comma != SIZE_MAX && str_is(str_slice(name, 0, comma), suspect->function);
    }
    return suspect->gemm.algorithm == UINT64_MAX ||
           memcmp(choice->opaque, &suspect->gemm.algorithm, sizeof suspect->gemm.algorithm) == 0;
}
