// SPDX-License-Identifier: Apache-2.0
/*
 * Look-alikes of AMD's libraries on CPU memory, for tests: what the program would meet on such a
 * machine, with faults planted through the environment.
 *
 *   ASSAY_FAKE_HIP   a list of: abort (default way of a page fault: ROCr's line, then SIGABRT),
 *                    error700 (sticky error instead), silent (the fault is never reported),
 *                    hang (the device waits for ever after a fault), lost-stores (stores of the first
 *                    2 ms after a mapping are lost), lost-stores-always, no-device, old-version,
 *                    set-access-fails, no-memory
 *   ASSAY_FAKE_BLAS  a list of: tile64 (a 64-wide tile over B, whatever its width), ktail (K rounded
 *                    up to 32 in A), no-scale (the scale of B is ignored), splitk-nan (D not zeroed
 *                    before it is added to), row19 (columns from 2^19 on wrong), hang, crash,
 *                    heuristic-crash, illegal, old-version, crowd (an over-read unless it is the first
 *                    kernel since the device was waited for), slow (0.3 s for every product)
 *
 *   ASSAY_FAKE_NVML  see fake_nvml.c
 *   ASSAY_FAKE_HIP_DEVICES  how many devices; 1 unless set
 *   ASSAY_FAKE_RCCL  a list of words with the rank they concern behind them: wrong (the last element of large
 *                    sums), zero (nothing is written), hang (a start that never returns), stuck (an end that never
 *                    comes), slow (10 ms late at each operation), fail (an error code), crash
 *
 * A fault of the second list is in one solution of several, FAKE_GUILTY_SOLUTION, unless it is named
 * as "...-all".
 */
#ifndef ASSAY_TESTS_FAKE_H
#define ASSAY_TESTS_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"

#define FAKE_EXPORT __attribute__((visibility("default")))

/* Whether a comma-separated environment variable names the word. */
bool fake_asked(const char *variable, const char *word);

/* In libamdhip64: runs work(context) as a kernel would run: a wild access in it is a page fault of
 * the GPU. Returns the HIP error, 0 for none. */
FAKE_EXPORT int fake_hip_kernel(void (*work)(void *context), void *context);

/* In libamdhip64: kernels since the device was last waited for, the one that runs included. */
FAKE_EXPORT unsigned fake_hip_crowd(void);
/* In libamdhip64: what is queued on the device, run when it is waited for. */
FAKE_EXPORT void fake_hip_at_sync(void (*work)(void));

enum {
    FAKE_SOLUTIONS = 5,
    FAKE_FIRST_SOLUTION = 100,
    FAKE_GUILTY_SOLUTION = 103
};

/* Column-major, as src/device/gemm.h describes it. */
struct fake_gemm {
    int64_t m, n, k, lda, ldb, ldc, batch, stride_a, stride_b, stride_c;
    bool transpose_a, transpose_b;
    enum dtype type_ab, type_b, type_c; /* of A; of B */
    double alpha, beta;
    const float *scale_a, *scale_b; /* on the device; NULL: none */
    const void *a, *b, *bias;       /* bias may be NULL */
    void *c;
    bool relu, gelu;
    int solution;
};

/* Runs it as a kernel, with what ASSAY_FAKE_BLAS plants. */
int fake_gemm_run(struct fake_gemm *gemm);

/* What the libraries log of a product where their variables ask for it: HIPBLASLT_LOG_MASK, ROCBLAS_LAYER. */
void fake_log_hipblaslt(const struct fake_gemm *gemm);
void fake_log_rocblas(const struct fake_gemm *gemm, int algorithm);

#endif
