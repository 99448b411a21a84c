// SPDX-License-Identifier: Apache-2.0
/* What `probe --reproducer` and `reproduce` share: a diagnosis becomes a folder, built and run. */
#ifndef ASSAY_CLI_REPRODUCE_REPRODUCER_MAKE_H
#define ASSAY_CLI_REPRODUCE_REPRODUCER_MAKE_H

#include "cli/command.h"
#include "facts/facts.h"
#include "ops/reproducer.h"

/* Writes the folder (reproducer_folder() has accepted it), tries the program, writes the report. The
 * stack of `r` is filled from `facts`, or from this machine when they are NULL. `notes` gets one line
 * for the folder and one for each thing that was seen; or why there is none: what was found out before
 * is worth telling all the same. */
void reproducer_make(struct cli *cli, struct reproducer *r, const struct facts *facts,
                     const char *folder, struct text_list *notes);

#endif
