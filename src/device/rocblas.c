// SPDX-License-Identifier: Apache-2.0
/*
 * rocBLAS: the extended matrix product, with every solution the library lists for the problem.
 * It takes its workspace from its own pool, which is not guarded.
 *
 * Source of the numbers: rocblas-types.h and rocblas-functions.h of rocBLAS 4.x.
 */
#include <stddef.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"

#include "device/device.h"
#include "device/gemm.h"
#include "device/library.h"

enum {
    CORE = 0,
    SOLUTIONS,
    VERSION
};

enum {
    OPERATION_NONE = 111,
    OPERATION_TRANSPOSE = 112,
    F16 = 150,
    F32 = 151,
    F64 = 152,
    BF16 = 168
};

enum {
    ALGO_STANDARD = 0,
    ALGO_SOLUTION_INDEX = 1,
    SOLUTIONS_MAX = 8192
};

struct rocblas_api {
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*gemm)(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha,
                const void *a, int a_type, int lda, int64_t stride_a, const void *b, int b_type,
                int ldb, int64_t stride_b, const void *beta, const void *c, int c_type, int ldc,
                int64_t stride_c, void *d, int d_type, int ldd, int64_t stride_d, int batch,
                int compute, int algo, int32_t solution, uint32_t flags);
    int (*solutions)(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha,
                     const void *a, int a_type, int lda, int64_t stride_a, const void *b,
                     int b_type, int ldb, int64_t stride_b, const void *beta, const void *c,
                     int c_type, int ldc, int64_t stride_c, void *d, int d_type, int ldd,
                     int64_t stride_d, int batch, int compute, int algo, uint32_t flags,
                     int32_t *list, int32_t *count);
    int (*version)(char *to, size_t bytes);
    const char *(*status_text)(int status);
};

struct gemm_library {
    struct arena *arena;
    struct rocblas_api api;
    struct library library;
    const char *missing[LIBRARY_FEATURES_MAX];
    void *handle;
    char version[128];
};

#define ROW(name, slot, feature)                    \
 {                                                  \
  name, offsetof(struct rocblas_api, slot), feature \
 }
static const struct library_symbol symbols[] = {
    ROW("rocblas_create_handle", create, CORE),
    ROW("rocblas_destroy_handle", destroy, CORE),
    ROW("rocblas_gemm_strided_batched_ex", gemm, CORE),
    ROW("rocblas_gemm_strided_batched_ex_get_solutions", solutions, SOLUTIONS),
    ROW("rocblas_get_version_string", version, VERSION),
    ROW("rocblas_status_to_string", status_text, VERSION),
};
#undef ROW

static const char *const names[] = {"librocblas.so.5", "librocblas.so.4", "librocblas.so.0",
                                    "librocblas.so", "/opt/rocm/lib/librocblas.so"};
static const char *const python_patterns[] = {"torch/lib/librocblas.so*",
                                              "_rocm_sdk_libraries*/lib/librocblas.so*"};

static enum status rocblas_status(const struct gemm_library *library, int status, struct err *err,
                                  const char *what)
{
    enum {
        NOT_IMPLEMENTED = 2,
        INVALID_SIZE = 4,
        PERF_DEGRADED = 7,
        INVALID_VALUE = 11
    };

    if (status == 0 || status == PERF_DEGRADED) {
        return ST_OK;
    }
    const char *text = library->api.status_text != NULL ? library->api.status_text(status)
                                                        : "rocBLAS status";
    bool declined = status == NOT_IMPLEMENTED || status == INVALID_SIZE || status == INVALID_VALUE;
    return err_set(err, declined ? ST_UNSUPPORTED : ST_IO, "%s: rocBLAS answers %s (%d)", what,
                   text, status);
}

static enum status rocblas_open(struct arena *a, struct device *device, const char *path,
                                struct gemm_library **ret_library, struct err *err)
{
    if (device->backend->kind != DEVICE_HIP) {
        return err_set(err, ST_USAGE, "rocBLAS works on hip devices, not on %s",
                       device->backend->name);
    }
    struct gemm_library *library = arena_alloc(a, sizeof *library);
    library->arena = a;
    struct name_list list = {0};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        *VEC_PUSH(a, &list) = names[i];
    }
    for (size_t i = 0; i < ARRAY_LEN(python_patterns); i++) {
        library_find_in_python(a, python_patterns[i], &list);
    }
    *VEC_PUSH(a, &list) = NULL;
    TRY(library_open(a, path, list.items, &library->library, err));
    library_bind(&library->library, symbols, ARRAY_LEN(symbols), &library->api, library->missing);
    if (library->missing[CORE] != NULL) {
        return err_set(err, ST_UNSUPPORTED, "%s has no %s, so it is not a rocBLAS that can be used",
                       library->library.path, library->missing[CORE]);
    }
    TRY(rocblas_status(library, library->api.create(&library->handle), err, "starting"));
    str_print(library->version, sizeof library->version, "unknown");
    if (library->missing[VERSION] == NULL) {
        library->api.version(library->version, sizeof library->version);
        library->version[sizeof library->version - 1] = '\0';
    }
    *ret_library = library;
    return ST_OK;
}

static void rocblas_close(struct gemm_library *library)
{
    library->api.destroy(library->handle);
}

static const char *rocblas_version(const struct gemm_library *library)
{
    return library->version;
}

/* 0 when rocBLAS has no such type. */
static int type_number(enum dtype type)
{
    switch (type) {
    case DTYPE_F16: return F16;
    case DTYPE_F32: return F32;
    case DTYPE_F64: return F64;
    case DTYPE_BF16: return BF16;
    default: return 0;
    }
}

static bool rocblas_supports(const struct gemm_library *library, const struct gemm_shape *s)
{
    (void)library;
    int64_t largest = s->m;
    const int64_t others[] = {s->n, s->k, s->lda, s->ldb, s->ldc, s->batch};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        largest = others[i] > largest ? others[i] : largest;
    }
    bool f64 = s->dtype_ab == DTYPE_F64;
    return s->m > 0 && s->n > 0 && s->k > 0 && s->batch > 0 && largest <= INT32_MAX &&
           type_number(s->dtype_ab) != 0 && type_number(s->dtype_c) != 0 &&
           f64 == (s->dtype_c == DTYPE_F64) && s->epilogue == GEMM_EPILOGUE_NONE &&
           s->compute == GEMM_COMPUTE_DEFAULT;
}

struct scalars {
    float alpha32, beta32;
    const void *alpha, *beta;
    int compute;
};

static void set_scalars(const struct gemm_shape *s, struct scalars *scalars)
{
    bool f64 = s->dtype_ab == DTYPE_F64;
    scalars->alpha32 = (float)s->alpha;
    scalars->beta32 = (float)s->beta;
    scalars->alpha = f64 ? (const void *)&s->alpha : &scalars->alpha32;
    scalars->beta = f64 ? (const void *)&s->beta : &scalars->beta32;
    scalars->compute = f64 ? F64 : F32;
}

static int list_solutions(struct gemm_library *library, const struct gemm_shape *s, int32_t *list,
                          int32_t *count)
{
    struct scalars x;
    set_scalars(s, &x);
    int op[] = {OPERATION_NONE, OPERATION_TRANSPOSE};
    int ab = type_number(s->dtype_ab);
    int c = type_number(s->dtype_c);
    /* The addresses are not read; their being there is checked. */
    void *some = (void *)(uintptr_t)4096;
    return library->api.solutions(library->handle, op[s->transpose_a], op[s->transpose_b],
                                  (int)s->m, (int)s->n, (int)s->k, x.alpha, some, ab, (int)s->lda,
                                  s->stride_a, some, ab, (int)s->ldb, s->stride_b, x.beta, some, c,
                                  (int)s->ldc, s->stride_c, some, c, (int)s->ldc, s->stride_c,
                                  (int)s->batch, x.compute, ALGO_SOLUTION_INDEX, 0, list, count);
}

static enum status rocblas_choices(struct gemm_library *library, const struct gemm_shape *shape,
                                   struct gemm_choice *ret_choices, size_t capacity,
                                   size_t *ret_count, struct err *err)
{
    if (!rocblas_supports(library, shape)) {
        return err_set(err, ST_UNSUPPORTED, "rocBLAS has no product of %s giving %s in this form",
                       dtype_info(shape->dtype_ab)->name, dtype_info(shape->dtype_c)->name);
    }
    if (capacity == 0) {
        return err_set(err, ST_USAGE, "no room for a choice");
    }
    ret_choices[0] = (struct gemm_choice){.id = -1, .name = "the library's own choice"};
    size_t count = 1;
    struct arena_mark mark = arena_mark(library->arena);
    int32_t *list = arena_array(library->arena, SOLUTIONS_MAX, sizeof *list);
    int32_t got = 0;
    if (library->missing[SOLUTIONS] == NULL && list_solutions(library, shape, NULL, &got) == 0) {
        got = got < SOLUTIONS_MAX ? got : SOLUTIONS_MAX;
        if (got <= 0 || list_solutions(library, shape, list, &got) != 0) {
            got = 0;
        }
    }
    for (int32_t i = 0; i < got && i < SOLUTIONS_MAX && count < capacity; i++) {
        struct gemm_choice *choice = &ret_choices[count++];
        *choice = (struct gemm_choice){.id = list[i]};
        str_print(choice->name, sizeof choice->name, "solution %d", list[i]);
        memcpy(choice->opaque, &list[i], sizeof list[i]);
    }
    arena_rewind(library->arena, mark);
    *ret_count = count;
    return ST_OK;
}

static enum status rocblas_run(struct gemm_library *library, const struct gemm_shape *s,
                               const struct gemm_operands *o, const struct gemm_choice *choice,
                               struct err *err)
{
    if (!rocblas_supports(library, s)) {
        return err_set(err, ST_UNSUPPORTED, "rocBLAS has no product of this form");
    }
    struct scalars x;
    set_scalars(s, &x);
    int32_t solution = 0;
    if (choice != NULL && choice->id >= 0) {
        memcpy(&solution, choice->opaque, sizeof solution);
    }
    int op[] = {OPERATION_NONE, OPERATION_TRANSPOSE};
    int ab = type_number(s->dtype_ab);
    int c = type_number(s->dtype_c);
    int status = library->api.gemm(
        library->handle, op[s->transpose_a], op[s->transpose_b], (int)s->m, (int)s->n, (int)s->k,
        x.alpha, o->a, ab, (int)s->lda, s->stride_a, o->b, ab, (int)s->ldb, s->stride_b, x.beta,
        o->c, c, (int)s->ldc, s->stride_c, o->c, c, (int)s->ldc, s->stride_c, (int)s->batch,
        x.compute, solution != 0 ? ALGO_SOLUTION_INDEX : ALGO_STANDARD, solution, 0);
    return rocblas_status(library, status, err, "the matrix product");
}

const struct gemm_vendor gemm_vendor_rocblas = {
    .name = "rocblas",
    .open = rocblas_open,
    .close = rocblas_close,
    .version = rocblas_version,
    .supports = rocblas_supports,
    .choices = rocblas_choices,
    .run = rocblas_run,
};
