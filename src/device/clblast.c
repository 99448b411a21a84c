// SPDX-License-Identifier: Apache-2.0
/*
 * CLBlast on OpenCL: sgemm and dgemm. It chooses its kernel by the device's tuning; there is no
 * choice to force. Source: clblast_c.h of CLBlast 1.5.
 */
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#include "device/gemm.h"
#include "device/library.h"
#include "device/opencl.h"

enum {
    COLUMN_MAJOR = 102,
    OPERATION_NONE = 111,
    OPERATION_TRANSPOSE = 112
};

struct clblast_api {
    int (*sgemm)(int layout, int op_a, int op_b, size_t m, size_t n, size_t k, float alpha, void *a,
                 size_t a_offset, size_t lda, void *b, size_t b_offset, size_t ldb, float beta,
                 void *c, size_t c_offset, size_t ldc, void **queue, void **event);
    int (*dgemm)(int layout, int op_a, int op_b, size_t m, size_t n, size_t k, double alpha,
                 void *a, size_t a_offset, size_t lda, void *b, size_t b_offset, size_t ldb,
                 double beta, void *c, size_t c_offset, size_t ldc, void **queue, void **event);
};

struct gemm_library {
    struct device *device;
    struct clblast_api api;
    struct library library;
    char version[128];
};

static const struct library_symbol symbols[] = {
    {"CLBlastSgemm", offsetof(struct clblast_api, sgemm), 0},
    {"CLBlastDgemm", offsetof(struct clblast_api, dgemm), 0},
};
static const char *const names[] = {"libclblast.so.1", "libclblast.so", NULL};

static enum status clblast_open(struct arena *a, struct device *device, const char *path,
                                struct gemm_library **ret_library, struct err *err)
{
    if (device->backend->kind != DEVICE_OPENCL) {
        return err_set(err, ST_USAGE, "CLBlast works on opencl devices, not on %s",
                       device->backend->name);
    }
    struct gemm_library *library = arena_alloc(a, sizeof *library);
    const char *missing[LIBRARY_FEATURES_MAX] = {0};
    library->device = device;
    TRY(library_open(a, path, names, &library->library, err));
    library_bind(&library->library, symbols, ARRAY_LEN(symbols), &library->api, missing);
    if (missing[0] != NULL) {
        return err_set(err, ST_UNSUPPORTED, "%s has no %s, so it is not a CLBlast",
                       library->library.path, missing[0]);
    }
    /* The library does not tell its version; the name of its file does. */
    char real[PATH_MAX];
    const char *at = realpath(library->library.path, real) != NULL ? strstr(real, ".so.") : NULL;
    str_print(library->version, sizeof library->version, "%s", at != NULL ? at + 4 : "unknown");
    *ret_library = library;
    return ST_OK;
}

static void clblast_close(struct gemm_library *library)
{
    (void)library;
}

static const char *clblast_version(const struct gemm_library *library)
{
    return library->version;
}

static bool clblast_supports(const struct gemm_library *library, const struct gemm_shape *s)
{
    (void)library;
    return (s->dtype_ab == DTYPE_F32 || s->dtype_ab == DTYPE_F64) && s->dtype_c == s->dtype_ab &&
           s->batch == 1 && s->m > 0 && s->n > 0 && s->k > 0 && s->epilogue == GEMM_EPILOGUE_NONE &&
           s->compute == GEMM_COMPUTE_DEFAULT;
}

static enum status clblast_choices(struct gemm_library *library, const struct gemm_shape *shape,
                                   struct gemm_choice *ret_choices, size_t capacity,
                                   size_t *ret_count, struct err *err)
{
    if (!clblast_supports(library, shape) || capacity == 0) {
        return err_set(err, ST_UNSUPPORTED, "CLBlast has no product of %s in this form",
                       dtype_info(shape->dtype_ab)->name);
    }
    ret_choices[0] = (struct gemm_choice){.id = -1};
    *ret_count = 1;
    return ST_OK;
}

/* Offsets in elements. */
static int call(struct gemm_library *library, const struct gemm_shape *s, void *const buffers[3],
                const size_t offsets[3])
{
    void *queue = opencl_queue(library->device);
    int op[] = {OPERATION_NONE, OPERATION_TRANSPOSE};
    size_t m = (size_t)s->m;
    size_t n = (size_t)s->n;
    size_t k = (size_t)s->k;
    size_t lda = (size_t)s->lda;
    size_t ldb = (size_t)s->ldb;
    size_t ldc = (size_t)s->ldc;
    if (s->dtype_ab == DTYPE_F32) {
        return library->api.sgemm(COLUMN_MAJOR, op[s->transpose_a], op[s->transpose_b], m, n, k,
                                  (float)s->alpha, buffers[0], offsets[0], lda, buffers[1],
                                  offsets[1], ldb, (float)s->beta, buffers[2], offsets[2], ldc,
                                  &queue, NULL);
    }
    return library->api.dgemm(COLUMN_MAJOR, op[s->transpose_a], op[s->transpose_b], m, n, k,
                              s->alpha, buffers[0], offsets[0], lda, buffers[1], offsets[1], ldb,
                              s->beta, buffers[2], offsets[2], ldc, &queue, NULL);
}

static enum status clblast_run(struct gemm_library *library, const struct gemm_shape *shape,
                               const struct gemm_operands *operands,
                               const struct gemm_choice *choice, struct err *err)
{
    (void)choice;
    struct device *device = library->device;
    void *buffers[3] = {0};
    size_t offsets[3] = {0};
    size_t size = dtype_info(shape->dtype_ab)->size;
    const void *addresses[3] = {operands->a, operands->b, operands->c};
    enum status st = ST_OK;
    for (size_t i = 0; i < ARRAY_LEN(buffers) && st == ST_OK; i++) {
        st = opencl_buffer(device, addresses[i], &buffers[i], &offsets[i], err);
        offsets[i] /= size;
    }
    if (st == ST_OK) {
        int status = call(library, shape, buffers, offsets);

        /* -2xxx: "not implemented", "no double precision" and the like are no failures. */
        enum {
            NOT_IMPLEMENTED = -1024,
            NO_HALF = -2044,
            NO_DOUBLE = -2045
        };

        if (status != 0) {
            bool declined = status == NOT_IMPLEMENTED || status == NO_HALF || status == NO_DOUBLE;
            st = err_set(err, declined ? ST_UNSUPPORTED : ST_IO,
                         "the matrix product failed in CLBlast with %d", status);
        }
    }
    enum status finished = device_sync(device, st == ST_OK ? err : NULL);
    for (size_t i = 0; i < ARRAY_LEN(buffers); i++) {
        opencl_buffer_release(device, buffers[i]);
    }
    return st != ST_OK ? st : finished;
}

const struct gemm_vendor gemm_vendor_clblast = {
    .name = "clblast",
    .open = clblast_open,
    .close = clblast_close,
    .version = clblast_version,
    .supports = clblast_supports,
    .choices = clblast_choices,
    .run = clblast_run,
};
