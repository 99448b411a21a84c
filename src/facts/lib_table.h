// SPDX-License-Identifier: Apache-2.0
/*
 * The native libraries that matter to GPU training, as data: their names, which package carries
 * them, what a soname says about the ROCm series, which release shipped which version.
 */
#ifndef ASSAY_FACTS_LIB_TABLE_H
#define ASSAY_FACTS_LIB_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/str.h"

enum lib_family {
    LIB_ROCM = 0,
    LIB_CUDA,
    LIB_TORCH
};

struct lib_row {
    const char *fact; /* name in fact keys: "miopen" */
    const char *base; /* name of the file: "MIOpen" of libMIOpen.so.1 */
    enum lib_family family;
    const char *wheel; /* NVIDIA's distribution without its "-cu12": "nvidia-cublas" */
    bool file_number;  /* the number behind ".so." is the library's version, not only an ABI */
};

extern const struct lib_row lib_rows[];
extern const size_t lib_row_count;

/* "libMIOpen.so.1.0" -> the row of MIOpen, NULL for other libraries. */
const struct lib_row *lib_row_of_file(const char *file_name);

/* Which ROCm series a soname belongs to: "6" for libamdhip64.so.6, "7+" for libhipblaslt.so.1;
 * NULL when it says nothing. */
const char *lib_rocm_series(const char *soname);

/* "4.2" for rocblas in ROCm "6.2.1"; NULL when the table does not know it. */
const char *lib_version_in_rocm(const char *fact, const char *rocm_version);

/* The version behind ".so." of a real file name: "4.3" of librocblas.so.4.3.60304, "0.10.0" of
 * libaotriton_v2.so.0.10.0; NULL for a bare ".so" or a single number. */
const char *lib_version_of_file_name(struct arena *a, const char *file_name);

#endif
