// SPDX-License-Identifier: Apache-2.0
/*
 * What the hooks of CUDA and HIP share. The two interfaces are one to one where it matters here, so each
 * hook is one macro used for both. Codes returned when nobody has the real function are theirs for
 * "symbol not found": 500 in CUDA's runtime, CUDA's driver and HIP.
 */
#ifndef ASSAY_PRELOAD_GPU_H
#define ASSAY_PRELOAD_GPU_H

#include "preload/preload.h"

enum {
    GPU_NOT_FOUND = 500
};

struct gpu_dim3 {
    unsigned x, y, z;
};

/* Closes the entry, and remembers the first error that says a kernel touched what it must not: every
 * later call of the context returns it again. */
void gpu_close(struct record_entry *e, int result);

enum gpu_platform {
    GPU_CUDA = 0,
    GPU_HIP,
};

/* Guarded device memory (guard_gpu.c): NULL: serve it the plain way. */
void *gpu_guard_take(enum gpu_platform platform, size_t size, uint64_t caller);
/* True when `p` was guarded and is back in the pool. */
bool gpu_guard_give_back(void *p);
/* Progress marks (marks.c). Gives the call its number on its stream; the mark follows the call. */
void gpu_marks_number(struct record_entry *e, enum gpu_platform platform, uint64_t stream,
                      uint64_t caller);
void gpu_marks_after(const struct record_entry *e, int result);

/* Every stream that work is put on is told here: one stream or several decides how blocks are reused. */
void gpu_guard_stream(uint64_t stream);

/* Copies the values of a kernel's arguments into the entry, where the driver tells their sizes. Only
 * while memory is guarded: it costs a look-up for each launch. */
void gpu_arguments(struct record_entry *e, const void *driver_function, void **arguments,
                   uint64_t caller);

/* The kernel behind a launch handle, named once. */
void gpu_name(uint64_t key, const char *name);

/* Counts a launch of it; true when its name is not known and was not asked for by this before. */
bool gpu_count_launch(uint64_t key);

/* A function of the driver, as the code at `caller` would find it, or in the driver library that is loaded: code
 * that looks the driver up by name has it in no scope. `slot` keeps the answer for the process. */
void *gpu_driver_symbol(_Atomic(void *) *slot, const char *name, uint64_t caller);

#endif
