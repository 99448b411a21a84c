// SPDX-License-Identifier: Apache-2.0
/* How many threads, and whose matrix product. */
#include <string.h>

#include "base/pool.h"

#include "device/blas.h"
#include "device/library.h"
#include "train/kernel.h"
#include "train/model_inside.h"

/* Each library's way to be told its threads; a slot stays NULL where it has none. */
struct thread_setters {
    void (*openblas)(int threads);
    void (*mkl)(int threads);
    void (*blis)(int64_t threads);
};

static void set_threads(const struct library *library, unsigned threads)
{
    static const struct library_symbol rows[] = {
        {"openblas_set_num_threads", offsetof(struct thread_setters, openblas), 0},
        {"MKL_Set_Num_Threads", offsetof(struct thread_setters, mkl), 1},
        {"bli_thread_set_num_threads", offsetof(struct thread_setters, blis), 2},
    };
    struct thread_setters set = {0};
    const char *missing[LIBRARY_FEATURES_MAX] = {0};
    library_bind(library, rows, ARRAY_LEN(rows), &set, missing);
    if (set.openblas != NULL) {
        set.openblas((int)threads);
    }
    if (set.mkl != NULL) {
        set.mkl((int)threads);
    }
    if (set.blis != NULL) {
        set.blis(threads);
    }
}

static enum status choose(struct gemm_library *blas, enum dtype t, struct gemm_choice *ret,
                          struct err *err)
{
    const struct gemm_shape shape = {.m = 1,
                                     .n = 1,
                                     .k = 1,
                                     .lda = 1,
                                     .ldb = 1,
                                     .ldc = 1,
                                     .batch = 1,
                                     .dtype_ab = t,
                                     .dtype_c = t,
                                     .alpha = 1};
    size_t count = 0;
    return gemm_vendor_blas.choices(blas, &shape, ret, 1, &count, err);
}

static enum status open_blas(struct arena *a, const char *path, struct compute *c, struct err *err)
{
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so", NULL};
    struct library library;
    enum status s = library_open(a, path, names, &library, err);
    if (s != ST_OK) {
        return path == NULL ? ST_OK : s; /* one that was only looked for may be missing */
    }
    TRY(gemm_vendor_blas.open(a, NULL, library.path, &c->blas, err));
    TRY(choose(c->blas, DTYPE_F32, &c->blas_f32, err));
    TRY(choose(c->blas, DTYPE_F64, &c->blas_f64, err));
    set_threads(&library, c->threads);
    struct blas_identity identity;
    blas_identity(c->blas, &identity);
    c->blas_summary = arena_fmt(a, "%s %s", identity.family, gemm_vendor_blas.version(c->blas));
    return ST_OK;
}

enum status compute_open(struct arena *a, const struct model_options *options, struct compute *ret,
                         struct err *err)
{
    unsigned threads = options->threads != 0 ? options->threads : pool_cores();
    struct compute c = {.threads = threads > POOL_THREADS_MAX ? POOL_THREADS_MAX : threads,
                        .reference = options->reference,
                        .blas_summary = options->reference ? "plain loops"
                                                           : kernel_at_f32(0)->name};
    bool own = options->reference || (options->blas != NULL && options->blas[0] == '\0');
    if (!own) {
        TRY(open_blas(a, options->blas, &c, err));
    }
    *ret = c;
    return ST_OK;
}

/* Distributions' OpenBLAS knows no CPU newer than itself; the own kernel for AVX-512 is ahead of it there,
 * and behind it elsewhere (bench/train.sh). */
const char *model_fastest_blas(void)
{
    return strcmp(kernel_at_f32(0)->name, "avx512") == 0 ? "" : NULL;
}
