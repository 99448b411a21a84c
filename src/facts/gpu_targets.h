// SPDX-License-Identifier: Apache-2.0
/*
 * Which GPUs a file has code for: a library, a program, a code object, an offload bundle, a kpack
 * archive. Nothing is loaded or run, and of large files only headers are touched.
 */
#ifndef ASSAY_FACTS_GPU_TARGETS_H
#define ASSAY_FACTS_GPU_TARGETS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fs.h"

#include "facts/gpu_code.h"

enum gpu_targets_state {
    GPU_TARGETS_NONE = 0,   /* the file was read and has no GPU code */
    GPU_TARGETS_KNOWN,      /* it has; the list is complete unless unreadable != 0 */
    GPU_TARGETS_UNREADABLE, /* it has, compressed or damaged so that no target could be read */
    GPU_TARGETS_ELSEWHERE,  /* its code is in kpack archives, and none of them is there */
    GPU_TARGETS_STATE_COUNT
};

struct gpu_target {
    const char
        *name;      /* "gfx942", "gfx90a:sramecc+:xnack-", "gfx12-generic", "sm_90", "compute_90" */
    unsigned forms; /* enum gpu_code_form, or-ed */
    uint64_t count; /* pieces of code: one for each translation unit */
    uint64_t bytes; /* of them together, as the table of contents says */
};

struct gpu_targets {
    enum gpu_targets_state state;
    const struct gpu_target *items; /* sorted, each name once */
    size_t count;
    uint64_t containers;         /* bundles, fat binaries or archives walked */
    uint64_t unreadable;         /* of them, not readable */
    const char *problem;         /* why the first of those was not; a sentence, or NULL */
    const char *kernel_name;     /* kpack: the library's name in the archives, or NULL */
    const char *const *archives; /* kpack: archives found */
    size_t archive_count;
    const char *const *search_paths; /* kpack: where they are looked for, as stored */
    size_t search_path_count;
};

/* ST_FORMAT never means "no GPU code": a text file is GPU_TARGETS_NONE. Errors are those of
 * opening the file. `a` keeps the result only. */
enum status gpu_targets_of_file(const struct fs *fs, struct arena *a, const char *path,
                                struct gpu_targets *ret_targets, struct err *err) MUST_USE;

/* The same for bytes at hand; `path` is for messages and for finding kpack archives. */
void gpu_targets_of_bytes(const struct fs *fs, struct arena *a, const char *path, struct str bytes,
                          struct gpu_targets *ret_targets);

/* The target whose code would run on `gpu` ("gfx1201", "sm_90"): the exact one before the generic
 * one before PTX. NULL when the file has none. */
const struct gpu_target *gpu_targets_for(const struct gpu_targets *t, const char *gpu);

const char *gpu_targets_state_name(enum gpu_targets_state state);

#endif
