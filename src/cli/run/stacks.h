// SPDX-License-Identifier: Apache-2.0
/* Stacks of a job that hangs: what /proc tells of each thread, and what gdb and py-spy add where they
 * are installed. */
#ifndef ASSAY_CLI_RUN_STACKS_H
#define ASSAY_CLI_RUN_STACKS_H

#include <stddef.h>

#include <sys/types.h>

#include "base/arena.h"
#include "base/str.h"

/* Text for stacks.<pid>.txt. Tools get ten seconds each. */
struct str run_stacks_take(struct arena *a, pid_t pid);

#endif
