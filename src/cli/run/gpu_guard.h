// SPDX-License-Identifier: Apache-2.0
/* May memory of this machine's GPU be guarded: asked of the device itself before a run begins, because
 * the planted fault costs the context it happens in. */
#ifndef ASSAY_CLI_RUN_GPU_GUARD_H
#define ASSAY_CLI_RUN_GPU_GUARD_H

#include <stdbool.h>

#include "cli/command.h"

struct run_gpu_guard {
    bool present;         /* a CUDA or HIP device answers */
    bool proven;          /* a planted over-read and over-write past both sides faulted */
    const char *sentence; /* for the reader */
};

void run_gpu_guard_prove(struct cli *cli, struct run_gpu_guard *ret_guard);

#endif
