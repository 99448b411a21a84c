// SPDX-License-Identifier: Apache-2.0
/*
 * What the readers of GPU code report to: one call for each piece of code found, and counters of
 * the containers it was in. Shared by offload.c, kpack.c, nv_fatbin.c and gpu_targets.c.
 */
#ifndef ASSAY_FACTS_GPU_CODE_H
#define ASSAY_FACTS_GPU_CODE_H

#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

/* How a target was found; several may apply to one target of one file. */
enum gpu_code_form {
    GPU_CODE_OBJECT = 1 << 0,         /* an AMDGPU ELF file, from its flags */
    GPU_CODE_BUNDLE = 1 << 1,         /* entry of a plain offload bundle */
    GPU_CODE_COMPRESSED = 1 << 2,     /* entry of a compressed offload bundle */
    GPU_CODE_OFFLOAD_BINARY = 1 << 3, /* image in .llvm.offloading */
    GPU_CODE_KPACK = 1 << 4,          /* table of contents of a kpack archive */
    GPU_CODE_CUBIN = 1 << 5,          /* NVIDIA machine code */
    GPU_CODE_PTX = 1 << 6,            /* NVIDIA virtual code, compiled by the driver */
    GPU_CODE_FORM_ALL = (1 << 7) - 1
};

struct gpu_code_sink {
    void (*found)(void *ctx, struct str target, enum gpu_code_form form, uint64_t bytes);
    void *ctx;
    struct arena *scratch;    /* decompressed headers; the caller rewinds it */
    uint64_t containers;      /* bundles, fat binaries, archives read */
    uint64_t unreadable;      /* found and not readable */
    struct err first_problem; /* why the first unreadable one was not; status ST_OK when none */
};

/* Counts an unreadable container and keeps the first reason. */
void gpu_code_unreadable(struct gpu_code_sink *sink, const struct err *err);

/* "code object", "bundle", "compressed bundle", ... for one form. */
const char *gpu_code_form_name(enum gpu_code_form form);

#endif
