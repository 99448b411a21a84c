// SPDX-License-Identifier: Apache-2.0
/* Where a job hung, from the stacks that were taken while it was silent (stacks.<pid>.txt). */
#ifndef ASSAY_CLI_RUN_HANG_H
#define ASSAY_CLI_RUN_HANG_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/finding.h"

/* One finding for all processes of the folder; false where no stacks were taken. */
bool run_hang_find(struct arena *a, const char *folder, struct finding *ret_finding);

#endif
