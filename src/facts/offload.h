// SPDX-License-Identifier: Apache-2.0
/*
 * Offload bundles: how clang puts code for several GPUs in one file. A linked library has one
 * bundle for each translation unit, one behind the other, so all of a section is walked.
 * Source: clang/docs/ClangOffloadBundler.rst; llvm/include/llvm/Object/OffloadBinary.h.
 */
#ifndef ASSAY_FACTS_OFFLOAD_H
#define ASSAY_FACTS_OFFLOAD_H

#include "facts/gpu_code.h"

/* True when the bytes begin with a bundle, plain or compressed. */
bool offload_is_bundle(struct str bytes);

/* Reports every device entry of every bundle in `bytes` (the content of .hip_fatbin or of a bare
 * bundle file). Host entries and entries of no size are left out. */
void offload_read_bundles(struct str bytes, struct gpu_code_sink *sink);

/* The same for section .llvm.offloading (OpenMP and the newer HIP driver). */
void offload_read_binaries(struct str bytes, struct gpu_code_sink *sink);

/* The target in a bundle entry's id: "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-" -> "gfx90a:xnack-",
 * "host-x86_64-unknown-linux--" -> empty. */
struct str offload_target_of_id(struct str id);

#endif
