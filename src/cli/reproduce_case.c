// SPDX-License-Identifier: Apache-2.0
/* See reproduce_case.h. */
#include "cli/reproduce_case.h"

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

static void add_probes(struct arena *a, const struct suspect *suspect, struct gemm_shape shape,
                       struct reproduce_case *c)
{
    bool cpu = c->device_kind == DEVICE_CPU;

    const enum gemm_values values[] = {GEMM_VALUES_GRID, GEMM_VALUES_RANDOM};

    uint32_t choices = cpu ? CPU_CHOICES : GPU_CHOICES;
    for (size_t v = 0; v < ARRAY_LEN(values); v++) {
        for (uint32_t i = 0; i < 2 * choices; i++) {
            bool begin = (i % 2 == 1) != suspect->before;
            *VEC_PUSH(a, &c->probes) = (struct gemm_probe){
                .shape = shape,
                .values = values[v],
                .side = begin ? GUARD_BEGIN : GUARD_END,
                .choice = i / 2,
                .seed = 1,
            };
        }
        double each = 2.0 * (double)shape.m * (double)shape.n * (double)shape.k *
                      (double)shape.batch;
        c->operations += each * (2.0 * choices + 8);
    }
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
        add_probes(a, suspect, shape, &c);
    }
    *ret_case = c;
    return ST_OK;
}

bool reproduce_case_same_function(const struct suspect *suspect, const struct gemm_choice *choice)
{
    struct str name = str_of(choice->name);
    size_t comma = str_find(name, ", ", 0);
    return comma != SIZE_MAX && str_is(str_slice(name, 0, comma), suspect->function);
}
