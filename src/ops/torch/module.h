// SPDX-License-Identifier: Apache-2.0
/*
 * A user's own kernel on trial: a Python file that defines inputs(torch), run(inputs) and
 * reference(inputs). The first gives tensors on the CPU, the last gets them in float64; run() gets
 * them guarded, on the device. The comparison is made in Python, since the reference is Python's; see
 * compare() in agent/cases.py for its bound.
 */
#ifndef ASSAY_OPS_TORCH_MODULE_H
#define ASSAY_OPS_TORCH_MODULE_H

#include "ops/torch/trial.h"

/* What came of one side; only `forward` of the result is used. */
struct torch_module_side {
    enum torch_side side;
    struct torch_result result;
    bool elsewhere; /* it faults with no input guarded too */
};

/* Runs the kernel with inputs ending at a hole, and with inputs beginning behind one. On a device
 * that tells no address, inputs are guarded one at a time until the guilty one is found. */
enum status torch_module_try(struct torch_agent *agent, struct arena *a, const char *path,
                             int deadline_ms, struct torch_module_side ret_sides[2],
                             struct err *err) MUST_USE;

#endif
