// SPDX-License-Identifier: Apache-2.0
/* The side of a trial that runs in a child; used by gemm_trial.c only. */
#ifndef ASSAY_OPS_GEMM_CHILD_H
#define ASSAY_OPS_GEMM_CHILD_H

#include "device/gemm_batch.h"
#include "ops/gemm_judge.h"

enum {
    GEMM_CHOICES_MAX = 256,
    GEMM_REGION_POWERS = 30 /* from 64 KiB to 2^45 bytes */
};

/* Where the operands of the item in hand lie; written before each call. */
struct gemm_placement {
    uint64_t address[GEMM_OPERAND_COUNT];
    uint64_t bytes[GEMM_OPERAND_COUNT];
    enum guard_side side;
    struct gemm_choice choice;
};

/* The algorithms of one item on a device. They run together; when that ends the process, one at a time in
 * new ones, until each has run: the one in hand when a process ends is the guilty one. */
struct gemm_flight {
    size_t index;           /* of the item */
    uint32_t count;         /* algorithms of it; 0: no item is in hand */
    uint32_t done;          /* of them, run and judged */
    uint32_t batch;         /* running now, from `done` on */
    uint32_t alone_until;   /* those before this one run alone */
    uint32_t found;         /* faults of those that ran alone */
    struct isolate_end end; /* of the batch that they ran in before */
    struct gemm_choice choices[GEMM_BATCH_MAX];
};

/* Shared by parent and child. */
struct gemm_shared {
    struct gemm_result result;
    struct gemm_placement placement;
    /* A copy of the result between two items, where the parent has asked for it; `next` set. */
    struct gemm_result snapshot;
    bool snapshot_wanted; /* set by the parent, cleared by the child when the copy is there */
    bool stop_wanted;     /* set by the parent: the child waits at the next item */
    bool stopped;         /* set by the child then */
    struct gemm_flight flight;
};

/* What the child keeps between items. */
struct gemm_child {
    const struct gemm_target *target;
    const struct gemm_source *source;
    struct gemm_shared *shared;
    /* in the child only */
    struct arena *arena;
    struct device *device;
    struct guard *guard;
    struct gemm_library *library;
    struct gemm_case *numbers;
    struct guard_region *regions[GEMM_OPERAND_COUNT][GEMM_REGION_POWERS]; /* by size */
    uint64_t memory_bytes;
    struct gemm_choice *choices;
    size_t choice_count;
    struct gemm_shape choices_for; /* the shape they were asked for */
    bool choices_known;
    struct gemm_batch *batch; /* of devices; NULL until it is needed */
    struct gemm_batch_result *batch_results;
};

/* isolate_batch's functions; context is a struct gemm_child. */
void gemm_child_start(void *context);
void gemm_child_item(void *context, size_t index);
void gemm_child_faulted(void *context, size_t index, const struct isolate_end *end);

/* Counts a product that was run, and keeps the fault when there is one. */
void gemm_child_finish(struct gemm_child *t, size_t index, struct gemm_fault *fault);

/* The algorithms of one product on a device, placed, called, judged and counted (gemm_device.c). Does
 * not return where the device met a fault: the child ends. */
void gemm_device_run(struct gemm_child *t, const struct gemm_probe *probe, size_t index);

/* In the parent: a child of a device ended at item `index`. True: the end is told of one algorithm; false:
 * of several, which are to run alone. */
bool gemm_device_ended(struct gemm_flight *flight);

/* In the parent, then: whether the item has algorithms left. */
bool gemm_device_again(struct gemm_flight *flight);

/* A fault of the algorithm in hand, kept and counted. */
void gemm_child_note(struct gemm_child *t, size_t index, struct gemm_fault *fault);

/* What an end was and which operand it belongs to, from the placement; fills all but `index`. */
void gemm_attribute(const struct gemm_placement *placement, const struct isolate_end *end,
                    struct gemm_fault *ret_fault);

/* Counts a fault and keeps it while there is room. */
void gemm_note_fault(struct gemm_result *result, const struct gemm_fault *fault);

#endif
