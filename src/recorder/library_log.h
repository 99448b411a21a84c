// SPDX-License-Identifier: Apache-2.0
/*
 * What maths libraries write of themselves when their variables ask for it, as one list of products. A line is of
 * one of these forms; every other line is passed over.
 *
 *   hipBLASLt  HIPBLASLT_LOG_MASK=32    hipblaslt-bench --api_method c -m … (ROCm 6.0 on; solution from 7.0)
 *                                  64    - {function: matmul, M: …, call_count: N} (7.0 on, written at the end)
 *                                   2    [time][HIPBLASLT][pid][Trace][rocblaslt_matmul] A=0x… Adesc=[type=…] …
 *              TENSILE_DB=0x8000         Running kernel: Cijk_… behind the product it belongs to
 *   rocBLAS    ROCBLAS_LAYER=2          ./rocblas-bench -f gemm_ex --transposeA N …
 *                            4          - { rocblas_function: "rocblas_gemm_ex", transA: 'N', …, call_count: N }
 *                            1          rocblas_gemm_ex,N,T,m,n,k,alpha,A,type,lda,…
 *   cuBLASLt   CUBLASLT_LOG_MASK=2      [time][cublasLt][pid][Trace][cublasLtMatmul] A=0X… Adesc=[…] … algo=[…]
 *   MIOpen     MIOPEN_ENABLE_LOGGING_CMD=1   MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv …
 *   cuDNN      CUDNN_LOGLEVEL_DBG=2     I! CuDNN (v…) function cudnnConvolutionForward() called:
 *
 * Sources: hipBLASLt's env-variables.rst and logging.h, rocBLAS's logging documentation, MIOpen's debug-log.rst and
 * log_test.cpp, NVIDIA's cuBLASLt and cuDNN manuals, and lines pasted into public issues (docs/run.md).
 */
#ifndef ASSAY_RECORDER_LIBRARY_LOG_H
#define ASSAY_RECORDER_LIBRARY_LOG_H

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"

#include "recorder/record_format.h"

enum {
    LIBRARY_LOG_LINE_MAX = 16384, /* bytes of a line that are looked at */
    LIBRARY_LOG_PRODUCTS_MAX =
        8192 /* different ones; calls of further ones are counted as dropped */
};

struct library_log_product {
    const char *library;  /* "hipblaslt", "rocblas", "cublaslt", "miopen", "cudnn" */
    const char *function; /* as the library calls it: "gemm_ex", "cublasLtMatmul", "convbfp16" */
    const char
        *text; /* "NT 64x16x94 bfloat16"; "3D forward float32, 1x3x2x14x14, 1152 of 2x14x14" */
    bool is_gemm;
    struct record_gemm
        gemm; /* types of RECORD_TYPES_CUDA; addresses are 0, alpha and beta NaN where not told */
    int64_t solution;      /* -1: not told */
    const char *algorithm; /* of cuBLASLt: "algoId=67 tile=…"; else NULL */
    const char *kernel;    /* of hipBLASLt where it was told; else NULL */
    const char *bench;     /* the line for the vendor's own bench, as logged; else NULL */
    uint64_t calls;
};

struct library_log {
    struct arena *arena;
    struct arena *scratch; /* while a text is read */
    struct map *known;     /* products by all that tells them apart */

    struct {
        struct library_log_product *items;
        size_t count;
        size_t capacity;
    } products; /* in order of first appearance */

    uint64_t dropped; /* calls of products beyond the limit */
    size_t last;      /* of the product that a kernel's line belongs to; SIZE_MAX: none */
};

void library_log_start(struct arena *a, struct library_log *log);

/* Takes in what a file says; lines of several files go into one log. */
void library_log_read(struct library_log *log, struct str text);

#endif
