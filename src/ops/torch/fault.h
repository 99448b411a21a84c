// SPDX-License-Identifier: Apache-2.0
/*
 * A signal in the worker, told in terms of operands: which one's hole was touched, on which side,
 * how far out, and by code of which library.
 */
#ifndef ASSAY_OPS_TORCH_FAULT_H
#define ASSAY_OPS_TORCH_FAULT_H

#include <stdint.h>

#include <sys/types.h>

#include "base/arena.h"
#include "base/tree.h"

#include "ops/torch/agent.h"

/* Where the worker put an operand: its own bytes, and the mapping between two holes. */
struct torch_place {
    char name[40];
    uint64_t address, bytes;
    uint64_t low, high; /* 0: not guarded */
};

struct torch_places {
    struct torch_place items[TORCH_OPERANDS_MAX];
    size_t count;
};

/* From a list of {name, address, bytes, low, high}; what does not fit is left out. */
void torch_places_read(const struct tree *operands, struct torch_places *ret_places);

/* Names the operand of an address. An address belongs to an operand when it lies in its mapping or
 * within `reach` bytes of a hole's edge. */
void torch_fault_locate(struct arena *a, const struct torch_places *places, uint64_t address,
                        uint64_t reach, struct torch_fault *fault);

/* From the fault record at the start of the shared file (layout: FaultRecord in agent/guard.py) and
 * /proc/<worker>/maps of the process that still waits. */
void torch_fault_read(struct arena *a, const unsigned char *record, pid_t worker,
                      const struct torch_places *places, struct torch_fault *ret_fault);

#endif
