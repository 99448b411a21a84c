// SPDX-License-Identifier: Apache-2.0
/* The mode --figures of assay probe: figures of a device that explain slowness. */
#ifndef ASSAY_CLI_PROBE_FIGURES_H
#define ASSAY_CLI_PROBE_FIGURES_H

#include "cli/command.h"

/* 0: nothing slow; 1: a figure is slow; 2: one could not be measured. */
int probe_figures(struct cli *cli);

#endif
