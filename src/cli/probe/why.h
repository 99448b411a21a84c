// SPDX-License-Identifier: Apache-2.0
/* The mode --why of assay probe: devices, libraries, the proof of the guard, and what is missing. */
#ifndef ASSAY_CLI_PROBE_WHY_H
#define ASSAY_CLI_PROBE_WHY_H

#include "cli/command.h"

/* 0 when the guard is proven on every device, 2 when it is not on one. */
int probe_why(struct cli *cli);

#endif
