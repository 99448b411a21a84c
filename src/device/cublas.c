// SPDX-License-Identifier: Apache-2.0
/*
 * cuBLAS by its handle: the product that frameworks call where no epilogue is fused. It chooses the kernel
 * itself, so there is one choice; its workspace comes from its own pool, which is not guarded.
 *
 * Source of the numbers: cublas_api.h and library_types.h of CUDA 12.9 and 13.0.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"

#include "device/device.h"
#include "device/gemm.h"
#include "device/library.h"

enum {
    CORE = 0,
    VERSION
};

enum {
    OPERATION_NONE = 0,
    OPERATION_TRANSPOSE = 1,
    R_32F = 0,
    R_64F = 1,
    R_16F = 2,
    R_16BF = 14,
    COMPUTE_32F = 68,
    COMPUTE_64F = 70,
    COMPUTE_32F_TF32 = 77,
    ALGORITHM_DEFAULT = -1,
    MATH_FULL_SUMS = 16 /* CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION */
};

struct cublas_api {
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*gemm)(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha,
                const void *a, int a_type, int lda, const void *b, int b_type, int ldb,
                const void *beta, void *c, int c_type, int ldc, int compute, int algorithm);
    int (*gemm_batched)(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha,
                        const void *a, int a_type, int lda, long long stride_a, const void *b,
                        int b_type, int ldb, long long stride_b, const void *beta, void *c,
                        int c_type, int ldc, long long stride_c, int batch, int compute,
                        int algorithm);
    int (*math_mode)(void *handle, int mode);
    int (*version)(void *handle, int *version);
    const char *(*status_name)(int status);
};

struct gemm_library {
    struct cublas_api api;
    struct library library;
    const char *missing[LIBRARY_FEATURES_MAX];
    void *handle;
    char version[32];
};

#define ROW(name, slot, feature)                   \
 {                                                 \
  name, offsetof(struct cublas_api, slot), feature \
 }
static const struct library_symbol symbols[] = {
    ROW("cublasCreate_v2", create, CORE),
    ROW("cublasDestroy_v2", destroy, CORE),
    ROW("cublasGemmEx", gemm, CORE),
    ROW("cublasGemmStridedBatchedEx", gemm_batched, CORE),
    ROW("cublasSetMathMode", math_mode, VERSION),
    ROW("cublasGetVersion_v2", version, VERSION),
    ROW("cublasGetStatusName", status_name, VERSION),
};
#undef ROW

static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11",
                                    "/usr/local/cuda/lib64/libcublas.so", "libcublas.so"};
static const char *const python_patterns[] = {"nvidia/cu1[0-9]/lib/libcublas.so.[0-9]*",
                                              "nvidia/cublas/lib/libcublas.so.[0-9]*"};

/* libcublas needs libcublasLt, which lies beside it; a wheel's folder is not among those that the loader searches. */
static void open_beside(struct arena *a, const char *path)
{
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    const char *name = slash != NULL ? strstr(slash, "libcublas.so") : NULL;
    if (name != NULL) {
        const char *beside = arena_fmt(a, "%.*slibcublasLt.so%s", (int)(name - path), path,
                                       name + strlen("libcublas.so"));
        (void)dlopen(beside,
                     RTLD_LAZY | RTLD_GLOBAL); /* where it fails, opening libcublas says why */
    }
}

static enum status cublas_status(const struct gemm_library *library, int status, struct err *err,
                                 const char *what)
{
    enum {
        INVALID_VALUE = 7,
        ARCH_MISMATCH = 8,
        NOT_SUPPORTED = 15
    };

    if (status == 0) {
        return ST_OK;
    }
    const char *text = library->api.status_name != NULL ? library->api.status_name(status) : NULL;
    bool declined = status == INVALID_VALUE || status == ARCH_MISMATCH || status == NOT_SUPPORTED;
    return err_set(err, declined ? ST_UNSUPPORTED : ST_IO, "%s: cuBLAS answers %s (%d)", what,
                   text != NULL ? text : "cuBLAS status", status);
}

static enum status cublas_open(struct arena *a, struct device *device, const char *path,
                               struct gemm_library **ret_library, struct err *err)
{
    if (device->backend->kind != DEVICE_CUDA) {
        return err_set(err, ST_USAGE, "cuBLAS works on cuda devices, not on %s",
                       device->backend->name);
    }
    struct gemm_library *library = arena_alloc(a, sizeof *library);
    struct name_list list = {0};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        *VEC_PUSH(a, &list) = names[i];
    }
    for (size_t i = 0; i < ARRAY_LEN(python_patterns); i++) {
        library_find_in_python(a, python_patterns[i], &list);
    }
    *VEC_PUSH(a, &list) = NULL;
    open_beside(a, path);
    TRY(library_open(a, path, list.items, &library->library, err));
    library_bind(&library->library, symbols, ARRAY_LEN(symbols), &library->api, library->missing);
    if (library->missing[CORE] != NULL) {
        return err_set(err, ST_UNSUPPORTED, "%s has no %s, so it is not a cuBLAS that can be used",
                       library->library.path, library->missing[CORE]);
    }
    TRY(cublas_status(library, library->api.create(&library->handle), err, "starting"));
    if (library->api.math_mode !=
        NULL) { /* partial sums in 16 bits are no fault that is looked for */
        TRY(cublas_status(library, library->api.math_mode(library->handle, MATH_FULL_SUMS), err,
                          "setting the mode of sums"));
    }
    str_print(library->version, sizeof library->version, "unknown");
    int version = 0;
    if (library->api.version != NULL && library->api.version(library->handle, &version) == 0) {
        enum {
            MAJOR = 10000,
            MINOR = 100
        };

        str_print(library->version, sizeof library->version, "%d.%d.%d", version / MAJOR,
                  version % MAJOR / MINOR, version % MINOR);
    }
    *ret_library = library;
    return ST_OK;
}

static void cublas_close(struct gemm_library *library)
{
    library->api.destroy(library->handle);
}

static const char *cublas_version(const struct gemm_library *library)
{
    return library->version;
}

/* -1 when there is none here. */
static int type_number(enum dtype type)
{
    switch (type) {
    case DTYPE_F16: return R_16F;
    case DTYPE_F32: return R_32F;
    case DTYPE_F64: return R_64F;
    case DTYPE_BF16: return R_16BF;
    default: return -1;
    }
}

static bool cublas_supports(const struct gemm_library *library, const struct gemm_shape *s)
{
    (void)library;
    int64_t largest = s->m;
    const int64_t others[] = {s->n, s->k, s->lda, s->ldb, s->ldc, s->batch};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        largest = others[i] > largest ? others[i] : largest;
    }
    bool same = s->dtype_c == s->dtype_ab;
    bool wider = s->dtype_c == DTYPE_F32 && (s->dtype_ab == DTYPE_F16 || s->dtype_ab == DTYPE_BF16);
    return s->m > 0 && s->n > 0 && s->k > 0 && s->batch > 0 && largest <= INT32_MAX &&
           type_number(s->dtype_ab) >= 0 && (same || wider) && s->epilogue == GEMM_EPILOGUE_NONE;
}

static enum status cublas_choices(struct gemm_library *library, const struct gemm_shape *shape,
                                  struct gemm_choice *ret_choices, size_t capacity,
                                  size_t *ret_count, struct err *err)
{
    if (!cublas_supports(library, shape)) {
        return err_set(err, ST_UNSUPPORTED, "cuBLAS has no product of %s giving %s in this form",
                       dtype_info(shape->dtype_ab)->name, dtype_info(shape->dtype_c)->name);
    }
    if (capacity == 0) {
        return err_set(err, ST_USAGE, "no room for a choice");
    }
    ret_choices[0] = (struct gemm_choice){.id = -1, .name = "the library's own choice"};
    *ret_count = 1;
    return ST_OK;
}

static enum status cublas_run(struct gemm_library *library, const struct gemm_shape *s,
                              const struct gemm_operands *o, const struct gemm_choice *choice,
                              struct err *err)
{
    (void)choice;
    if (!cublas_supports(library, s)) {
        return err_set(err, ST_UNSUPPORTED, "cuBLAS has no product of this form");
    }
    bool f64 = s->dtype_ab == DTYPE_F64;
    float alpha32 = (float)s->alpha;
    float beta32 = (float)s->beta;
    const void *alpha = f64 ? (const void *)&s->alpha : &alpha32;
    const void *beta = f64 ? (const void *)&s->beta : &beta32;
    int op_a = s->transpose_a ? OPERATION_TRANSPOSE : OPERATION_NONE;
    int op_b = s->transpose_b ? OPERATION_TRANSPOSE : OPERATION_NONE;
    int ab = type_number(s->dtype_ab);
    int c = type_number(s->dtype_c);
    int compute = f64                               ? COMPUTE_64F
                  : s->compute == GEMM_COMPUTE_TF32 ? COMPUTE_32F_TF32
                                                    : COMPUTE_32F;
    int m = (int)s->m;
    int n = (int)s->n;
    int k = (int)s->k;
    int status = s->batch > 1 ? library->api.gemm_batched(library->handle, op_a, op_b, m, n, k,
                                                          alpha, o->a, ab, (int)s->lda, s->stride_a,
                                                          o->b, ab, (int)s->ldb, s->stride_b, beta,
                                                          o->c, c, (int)s->ldc, s->stride_c,
                                                          (int)s->batch, compute, ALGORITHM_DEFAULT)
                              : library->api.gemm(library->handle, op_a, op_b, m, n, k, alpha, o->a,
                                                  ab, (int)s->lda, o->b, ab, (int)s->ldb, beta,
                                                  o->c, c, (int)s->ldc, compute, ALGORITHM_DEFAULT);
    return cublas_status(library, status, err, "the matrix product");
}

const struct gemm_vendor gemm_vendor_cublas = {
    .name = "cublas",
    .open = cublas_open,
    .close = cublas_close,
    .version = cublas_version,
    .supports = cublas_supports,
    .choices = cublas_choices,
    .run = cublas_run,
};
