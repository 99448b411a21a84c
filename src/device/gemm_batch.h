// SPDX-License-Identifier: Apache-2.0
/*
 * One matrix product by several algorithms of a library, all operands guarded, with one wait for the
 * device: every algorithm writes an output of its own between canaries, and what it left is read back
 * behind it. The inputs are copied once.
 *
 * A fault ends them all together. Who must name the guilty algorithm runs them again one at a time, in a
 * new process.
 */
#ifndef ASSAY_DEVICE_GEMM_BATCH_H
#define ASSAY_DEVICE_GEMM_BATCH_H

#include "device/gemm.h"
#include "device/guard.h"

enum gemm_batch_part {
    GEMM_BATCH_A = 0,
    GEMM_BATCH_B,
    GEMM_BATCH_C,
    GEMM_BATCH_BIAS,
    GEMM_BATCH_PART_COUNT
};

enum {
    GEMM_BATCH_MAX = 64, /* outputs at a time */
    GEMM_BATCH_WORKSPACE_BYTES = 32 << 20
};

struct gemm_batch;

/* What lies where. `extra` bytes may be read between the part and its hole; `roomy` parts have them on
 * both sides. */
struct gemm_batch_place {
    const struct gemm_shape *shape;
    enum guard_side side;
    size_t bytes[GEMM_BATCH_PART_COUNT]; /* of the bias 0 where there is none */
    size_t extra[GEMM_BATCH_PART_COUNT];
    bool roomy[GEMM_BATCH_PART_COUNT];
};

/* What came of one algorithm. */
struct gemm_batch_result {
    enum status status; /* of the call: ST_UNSUPPORTED where the library declines */
    char words[160];    /* "" where status is ST_OK */
    const void *c;      /* host copy of the output after the run; that of gemm_batch_output() */
    struct guard_damage damage; /* of its canaries */
};

/* Lives in `a`. */
struct gemm_batch *gemm_batch_new(struct arena *a, struct device *device, struct guard *guard,
                                  const struct gemm_vendor *vendor, struct gemm_library *library);

/* Takes guarded memory for the inputs and for up to `wanted` outputs; *ret_count is how many there are:
 * fewer where outputs are large. What an earlier call took is given back. */
enum status gemm_batch_place(struct gemm_batch *batch, const struct gemm_batch_place *place,
                             size_t wanted, size_t *ret_count, struct err *err) MUST_USE;

/* Host memory to write an input into (A, B, BIAS) before the first run, and an output's content before
 * each run. */
void *gemm_batch_input(struct gemm_batch *batch, enum gemm_batch_part part);
void *gemm_batch_output(struct gemm_batch *batch, size_t which);

/* Where a part lies on the device; C: that of output 0. */
void *gemm_batch_address(const struct gemm_batch *batch, enum gemm_batch_part part);

/* Runs choices[i] into output i, for i < count, with the workspace poisoned; waits; reads back. Fails
 * when the device does (see device->event). `launching` is called before each call, and may be NULL. */
enum status gemm_batch_run(struct gemm_batch *batch, const struct gemm_choice *choices,
                           size_t count, void (*launching)(void *context, size_t which),
                           void *context, struct gemm_batch_result *ret_results,
                           struct err *err) MUST_USE;

/* Canaries of the inputs after the last run; *ret_part is the damaged one's. */
void gemm_batch_damage(const struct gemm_batch *batch, enum gemm_batch_part *ret_part,
                       struct guard_damage *ret_damage);

#endif
