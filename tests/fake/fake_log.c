// SPDX-License-Identifier: Apache-2.0
/* The bench lines of hipBLASLt and rocBLAS, where their variables ask for them and in their forms. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake.h"

static const char *type_name(enum dtype type)
{
    return type == DTYPE_BF16  ? "bf16_r"
           : type == DTYPE_F16 ? "f16_r"
           : type == DTYPE_F64 ? "f64_r"
                               : "f32_r";
}

/* The file of a variable, the first %i in it being the process; stderr without. */
static FILE *open_log(const char *variable, bool expands)
{
    const char *named = getenv(variable);
    char path[4096];
    const char *at = named != NULL ? strstr(named, "%i") : NULL;
    if (named == NULL) {
        return stderr;
    }
    if (at != NULL && expands) {
        snprintf(path, sizeof path, "%.*s%d%s", (int)(at - named), named, (int)getpid(), at + 2);
        named = path;
    }
    FILE *f = fopen(named, "w");
    return f != NULL ? f : stderr;
}

void fake_log_hipblaslt(const struct fake_gemm *g)
{
    static FILE *log;
    const char *mask = getenv("HIPBLASLT_LOG_MASK");
    if (mask == NULL || (strtol(mask, NULL, 0) & 32) == 0 ||
        getenv("HIPBLASLT_LOG_LEVEL") != NULL) {
        return;
    }
    log = log != NULL ? log : open_log("HIPBLASLT_LOG_FILE", true);
    fprintf(
        log,
        "hipblaslt-bench --api_method c -m %ld -n %ld -k %ld --lda %ld --ldb %ld --ldc %ld --ldd %ld  "
        "--stride_a %ld --stride_b %ld --stride_c %ld --stride_d %ld  --alpha %f --beta %f --transA %c "
        "--transB %c --batch_count %ld  --a_type %s --b_type %s --c_type %s --d_type %s --scale_type f32_r "
        "--bias_type f32_r   --compute_type f32_r --algo_method index --solution_index %d --activation_type "
        "none --any_stride --rotating 0 --cold_iters 0 --iters 0 \n",
        (long)g->m, (long)g->n, (long)g->k, (long)g->lda, (long)g->ldb, (long)g->ldc, (long)g->ldc,
        (long)g->stride_a, (long)g->stride_b, (long)g->stride_c, (long)g->stride_c, g->alpha,
        g->beta, g->transpose_a ? 'T' : 'N', g->transpose_b ? 'T' : 'N', (long)g->batch,
        type_name(g->type_ab), type_name(g->type_ab), type_name(g->type_c), type_name(g->type_c),
        g->solution);
    fflush(log);
}

void fake_log_rocblas(const struct fake_gemm *g, int algorithm)
{
    static FILE *log;
    const char *layer = getenv("ROCBLAS_LAYER");
    if (layer == NULL || (strtol(layer, NULL, 0) & 2) == 0) {
        return;
    }
    log = log != NULL ? log : open_log("ROCBLAS_LOG_BENCH_PATH", false);
    fprintf(
        log,
        "./rocblas-bench -f gemm_strided_batched_ex --transposeA %c --transposeB %c -m %ld -n %ld -k %ld "
        "--alpha %g --a_type %s --lda %ld --stride_a %ld --b_type %s --ldb %ld --stride_b %ld --beta %g "
        "--c_type %s --ldc %ld --stride_c %ld --d_type %s --ldd %ld --stride_d %ld --batch_count %ld "
        "--compute_type f32_r --algo %d --solution_index %d --flags 0 --atomics_not_allowed\n",
        g->transpose_a ? 'T' : 'N', g->transpose_b ? 'T' : 'N', (long)g->m, (long)g->n, (long)g->k,
        g->alpha, type_name(g->type_ab), (long)g->lda, (long)g->stride_a, type_name(g->type_ab),
        (long)g->ldb, (long)g->stride_b, g->beta, type_name(g->type_c), (long)g->ldc,
        (long)g->stride_c, type_name(g->type_c), (long)g->ldc, (long)g->stride_c, (long)g->batch,
        algorithm, algorithm == 1 ? g->solution : 0);
    fflush(log);
}
