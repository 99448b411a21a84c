// SPDX-License-Identifier: Apache-2.0
/* The kernel log of a run's time, kept in its folder. */
#ifndef ASSAY_CLI_RUN_KERNEL_LOG_H
#define ASSAY_CLI_RUN_KERNEL_LOG_H

#include "base/arena.h"
#include "base/finding.h"

/* Writes kernel.log, and kernel.others.log where there are faults of other processes; `start` in seconds of
 * CLOCK_MONOTONIC. What could not be read or written becomes a note. */
void run_kernel_log_write(struct arena *a, const char *folder, double start,
                          struct text_list *notes);

#endif
