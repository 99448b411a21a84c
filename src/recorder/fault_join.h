// SPDX-License-Identifier: Apache-2.0
/*
 * Joins a fault to what the process was doing: address to block, block to operand, operand to the call
 * in flight. "0 bytes past the end of operand B of sgemm_ (NT 129x5x63 float32), read".
 */
#ifndef ASSAY_RECORDER_FAULT_JOIN_H
#define ASSAY_RECORDER_FAULT_JOIN_H

#include "base/arena.h"

#include "recorder/maps_file.h"
#include "recorder/record_reader.h"

enum fault_side {
    FAULT_SIDE_NONE = 0, /* no block or operand near it */
    FAULT_SIDE_INSIDE,
    FAULT_SIDE_AFTER,  /* distance 0: the first byte behind the end */
    FAULT_SIDE_BEFORE, /* distance 0: the byte in front of the first */
};

/* Where an address lies relative to [start, start + size). */
struct fault_place {
    enum fault_side side;
    uint64_t distance; /* bytes, for AFTER and BEFORE */
};

struct fault_story {
    bool present;   /* the process met a fatal signal */
    bool addressed; /* the address was told by the processor */
    uint64_t address;
    bool write;
    int32_t signal;
    const struct record_alloc *block; /* NULL when none is near */
    struct fault_place block_place;
    const struct record_event *call; /* the call it happened in, or NULL */
    char operand; /* 'A', 'B', 'C' of a product, 'x', 'w', 'y' of a convolution; 0: none is near */
    struct fault_place operand_place;
    uint64_t operand_bytes;     /* extent of the operand in memory */
    const char *thread;         /* name, "" when not told */
    const struct mapping *code; /* library of the faulting instruction, or NULL */
    bool
        same_thread; /* the call is of the faulting thread; else the only one open in the process */
};

/* `maps` may be empty. */
void fault_join(const struct record *r, const struct maps *maps, struct fault_story *ret_story);

/* Bytes from the first to the last element of operand 'A', 'B' or 'C' of one batch entry; all batches
 * for a batched call. 0 when the type is unknown. */
uint64_t fault_operand_bytes(const struct record_gemm *g, char operand);

/* "NT 129x5x63 float32": transposes, m x n x k, type. */
const char *fault_gemm_text(struct arena *a, const struct record_gemm *g);

/* The shape of a product or a convolution in words. */
const char *fault_shape_text(struct arena *a, const struct record_entry *e);

/* Bytes of one element of a recorded type; 0 when unknown. `ret_name` may be NULL. */
unsigned fault_type_size(unsigned types, unsigned type, const char **ret_name);

#endif
