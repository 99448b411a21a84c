// SPDX-License-Identifier: Apache-2.0
/*
 * kpack: GPU code taken out of a library and put into one archive for each GPU target. The library
 * keeps section .rocm_kpack_ref, which names itself and where to look for archives.
 * Source: ROCm/rocm-systems, shared/kpack (docs/multi_arch_packaging_with_kpack.md, runtime/).
 */
#ifndef ASSAY_FACTS_KPACK_H
#define ASSAY_FACTS_KPACK_H

#include "base/fs.h"

#include "facts/elf.h"
#include "facts/gpu_code.h"

/* True when the bytes begin as a kpack archive does. */
bool kpack_is_archive(struct str bytes);

/* True when the library expects its GPU code in kpack archives: it has .rocm_kpack_ref, or its
 * wrappers in .hipFatBinSegment say "HIPK". */
bool kpack_is_reference(const struct elf *elf);

/* Reports the targets of one archive; only those with code for `kernel_name` (as the reference
 * spells it) unless that is NULL. */
void kpack_read_archive(struct str bytes, const char *kernel_name, struct gpu_code_sink *sink);

struct kpack_reference {
    const char *kernel_name;
    const char *const *search_paths; /* as stored; may hold @GFXARCH@ */
    size_t search_path_count;
    const char *const *archives; /* files that exist, as seen inside the root; sorted */
    size_t archive_count;
};

/* The reference of a library at `path`, its archives looked up beside it as the loader does. */
enum status kpack_read_reference(const struct fs *fs, struct arena *a, const struct elf *elf,
                                 const char *path, struct kpack_reference *ret_reference,
                                 struct err *err) MUST_USE;

#endif
