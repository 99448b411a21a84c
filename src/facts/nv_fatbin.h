// SPDX-License-Identifier: Apache-2.0
/*
 * NVIDIA fat binaries (.nv_fatbin, __nv_relfatbin): which compute capabilities have machine code
 * (cubin, "sm_80") and which only virtual code (PTX, "compute_80"). The format is not documented by
 * its maker; field offsets were checked on files of CUDA 11.8 to 13.2 against cuobjdump.
 */
#ifndef ASSAY_FACTS_NV_FATBIN_H
#define ASSAY_FACTS_NV_FATBIN_H

#include "facts/elf.h"
#include "facts/gpu_code.h"

/* Reports every member of every fat binary in `bytes`. */
void nv_fatbin_read(struct str bytes, struct gpu_code_sink *sink);

/* "sm_90a" from the flags of a cubin (an ELF file for machine 190); empty when they say nothing. */
struct str nv_fatbin_cubin_target(struct arena *a, const struct elf *cubin);

#endif
