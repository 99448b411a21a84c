// SPDX-License-Identifier: Apache-2.0
/*
 * The stage `training` of qualify: a small model of examples/train, compiled in, is trained on this machine from
 * random weights: 100 updates in float32 with the libraries that training would use, evaluation, checkpoint,
 * resumption. Its losses must be those of a run in float64 with plain loops.
 */
#ifndef ASSAY_CLI_STAGE_TRAINING_H
#define ASSAY_CLI_STAGE_TRAINING_H

#include "cli/command.h"

/* NULL when it ran, and what is wrong is among the findings; else why it did not. `ret_summary` says what was
 * measured. */
const char *stage_training(struct cli *cli, struct finding_list *findings,
                           const char **ret_summary);

#endif
