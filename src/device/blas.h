// SPDX-License-Identifier: Apache-2.0
/*
 * Matrix products of CPU libraries: any shared object that exports one of the interfaces below is a
 * vendor of gemm.h, opened with dlopen because it is the thing under test.
 *
 *   CBLAS    cblas_sgemm and its relatives, row-major and column-major (netlib's interface)
 *   Fortran  sgemm_ (arguments by reference)
 *   oneDNN   dnnl_sgemm (row-major, returns a status)
 *   LIBXSMM  libxsmm_sgemm (Fortran's arguments without the hidden lengths)
 *   BLIS     bli_sgemm (a row and a column stride for each operand)
 *
 * Names may carry scipy's prefix ("scipy_cblas_sgemm64_") and the suffixes of 64-bit interfaces.
 * Integers are always passed as 64 bits: on a little-endian 64-bit machine a 32-bit interface reads
 * the low half of the same register, stack slot or variable. Sizes beyond 2^31-1 are refused for it.
 *
 * A library may change its process for good (threads, signal handlers, floating-point mode): open it
 * in a child (isolate.h).
 */
#ifndef ASSAY_DEVICE_BLAS_H
#define ASSAY_DEVICE_BLAS_H

#include "device/gemm.h"

/* What a library says of itself. Fixed size, because it crosses from a child process. */
struct blas_identity {
    char family[24];   /* "openblas", "blis", "mkl", "onednn", "libxsmm"; "blas" when unknown */
    char version[160]; /* "0.3.21"; "" when the library does not tell */
    char kernel[64];   /* kernel family it chose on this CPU; "" when it does not tell */
    char file[512];    /* the object that holds the interface, links resolved */
    char symbols[300]; /* entry points found, comma separated */
};

extern const struct gemm_vendor gemm_vendor_blas;

void blas_identity(const struct gemm_library *library, struct blas_identity *ret_identity);

/* Name of the entry point behind a choice ("cblas_sgemm") and its calling convention. */
enum blas_abi {
    BLAS_CBLAS_COLUMN = 0,
    BLAS_CBLAS_ROW,
    BLAS_FORTRAN,
    BLAS_DNNL,
    BLAS_XSMM,
    BLAS_BLI,
    BLAS_CBLAS_BATCH,
    BLAS_ABI_COUNT
};

/* "column-major cblas", ... */
const char *blas_abi_name(enum blas_abi abi);

/* False when the library has no such choice. */
bool blas_choice_abi(const struct gemm_library *library, const struct gemm_choice *choice,
                     enum blas_abi *ret_abi, const char **ret_symbol);

/* Environment under which every known library uses one thread; call before open, in the child. */
void blas_single_thread(void);

/* How a family's kernels are forced: a variable that the library reads when it starts. A value may
 * be unknown to this version or be code for another CPU: both are found out by trying. */
struct blas_forcing {
    const char *family;
    const char *variable;
    const char *const *values; /* NULL-terminated */
};

/* NULL when there is no way to choose. */
const struct blas_forcing *blas_forcing_of(const char *family);

#endif
