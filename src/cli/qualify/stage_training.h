// SPDX-License-Identifier: Apache-2.0
/*
 * The stage `training` of qualify: a small model of examples/train, compiled in, is trained on this machine from
 * random weights: 100 updates in float32 with the libraries that training would use, evaluation, checkpoint,
 * resumption. Its losses must be those of a run in float64 with plain loops.
 */
#ifndef ASSAY_CLI_QUALIFY_STAGE_TRAINING_H
#define ASSAY_CLI_QUALIFY_STAGE_TRAINING_H

#include "base/finding.h"

#include "cli/command.h"

/* What came of it. `why` is NULL when it ran: then the lists hold what is wrong. A training that broke off leaves
 * `checkpoint_read` or `resumed` false. */
struct training_result {
    const char *why;     /* it could not be tried */
    const char *summary; /* what was measured */
    double tokens_per_second;
    bool checkpoint_read, resumed;
    struct finding_list course, checkpoint, resumption;
};

/* Trains, verifies the checkpoint and resumes from one; all files are gone afterwards. */
void stage_training(struct cli *cli, struct training_result *ret_result);

#endif
