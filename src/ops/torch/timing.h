// SPDX-License-Identifier: Apache-2.0
/*
 * The patch embedding as Conv3d and as linear layer, against the clock: the same parameter and the
 * same numbers, and on some stacks three orders of magnitude between them.
 */
#ifndef ASSAY_OPS_TORCH_TIMING_H
#define ASSAY_OPS_TORCH_TIMING_H

#include "ops/torch/trial.h"

struct torch_time {
    const char *way;
    enum dtype dtype;
    double forward_s, backward_s; /* medians of warm runs; NaN when it did not run */
};

struct torch_times {
    struct torch_time *items;
    size_t count;
    size_t capacity;
};

/* `patches` of 3 x 2 x 16 x 16 to 1152 features, the first stage of a vision tower, in each way
 * that the agent knows. Adds to `times`. */
enum status torch_time_patches(struct torch_agent *agent, struct arena *a, enum dtype dtype,
                               int patches, int deadline_ms, struct torch_times *times,
                               struct err *err) MUST_USE;

/* The time of a way and format for forward and backward together, or NaN. */
double torch_time_of(const struct torch_times *times, const char *way, enum dtype dtype);

#endif
