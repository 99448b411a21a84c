// SPDX-License-Identifier: Apache-2.0
/* The mode --check of assay probe: tensors from a file on trial. */
#ifndef ASSAY_CLI_PROBE_CHECK_H
#define ASSAY_CLI_PROBE_CHECK_H

#include "cli/command.h"

/* Every --check FILE is one case; exit by the findings, 2 when a file cannot be used. */
int probe_check(struct cli *cli);

#endif
