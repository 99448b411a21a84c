// SPDX-License-Identifier: Apache-2.0
/*
 * Names of AMD GPU targets: from the flags of a code object, inside file names, and the question
 * that matters: does code for one target run on a GPU of another.
 *
 * A target is written "gfx942", "gfx90a:sramecc+:xnack-" or "gfx12-generic"; "amdgcnspirv" is
 * portable code that the run-time compiles for any AMD GPU.
 */
#ifndef ASSAY_FACTS_AMDGPU_TARGET_H
#define ASSAY_FACTS_AMDGPU_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

/* From e_flags; os_abi and abi_version say how the feature bits are coded (version 1: code object
 * V3, two on/off bits; 2 and up: V4, two fields). NULL for a machine number not in the table. */
const char *amdgpu_target_of_flags(struct arena *a, uint32_t flags, uint8_t os_abi,
                                   uint8_t abi_version);

/* The generic target whose code runs on `name` ("gfx1201" -> "gfx12-generic"), or NULL. Features
 * after ':' are ignored. */
const char *amdgpu_target_generic(const char *name);

/* True for a name of the table, features ignored. */
bool amdgpu_target_known(struct str name);

/* Length of the longest known target that `text` begins with, 0 for none: the "gfx90a" of
 * "gfx90a68.kdb". */
size_t amdgpu_target_prefix(struct str text);

/* True when code built for `code` runs on a GPU that reports `gpu`: same processor or its generic
 * target, and no feature that the two spell out differently. A feature left out of `code` runs
 * with either setting; one left out of `gpu` is not known and counts as compatible. */
bool amdgpu_target_covers(const char *code, const char *gpu);

/* Finds the next target in a file name at or after *from: "Kernels.so-000-gfx90a-xnack-.hsaco"
 * gives "gfx90a:xnack-". Moves *from behind it. NULL when there is none. */
const char *amdgpu_target_in_name(struct arena *a, struct str name, size_t *from);

/* Order for lists: by processor number, generic targets last, NVIDIA names after AMD's. */
int amdgpu_target_cmp(const char *a, const char *b);

#endif
