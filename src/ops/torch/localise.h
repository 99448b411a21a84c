// SPDX-License-Identifier: Apache-2.0
/*
 * More about a fault: which operand it is, where the device does not tell the address (a GPU), and
 * how much mapped memory behind the operand makes it go away. Each question is one more run.
 */
#ifndef ASSAY_OPS_TORCH_LOCALISE_H
#define ASSAY_OPS_TORCH_LOCALISE_H

#include "ops/torch/trial.h"

struct torch_place_of_fault {
    const char *operand; /* NULL when no single one could be named */
    bool elsewhere;      /* it faults with no operand guarded as well */
    int64_t clean_pad;   /* bytes; 0: not found up to 1 MiB */
};

/* `probe` faulted with `fault`. Texts of the result live as long as `p`'s operator. */
enum status torch_localise(struct torch_agent *agent, struct arena *scratch,
                           const struct op_problem *p, const struct torch_probe *probe,
                           const struct torch_fault *fault, struct torch_place_of_fault *ret_found,
                           struct err *err) MUST_USE;

#endif
