// SPDX-License-Identifier: Apache-2.0
/* What assay fleet is given: files and folders of what nodes wrote, the table of what is compared, expected nodes. */
#ifndef ASSAY_CLI_FLEET_INPUTS_H
#define ASSAY_CLI_FLEET_INPUTS_H

#include "cli/command.h"
#include "snapshot/fleet.h"

/* Built in, or fleet.tsv of --knowledge DIR. */
enum status fleet_inputs_rules(const struct cli *cli, struct fleet_rules *ret_rules,
                               struct err *err) MUST_USE;

/* All files of the operands (of a folder: *.json and *.lock in it), one read after the other. */
enum status fleet_inputs_read(const struct cli *cli, struct fleet *f, struct err *err) MUST_USE;

/* Names of nodes that --hosts expects and that sent nothing, or a sentence where --nodes gives only a number; names
 * that were not expected go to `ret_strangers`. */
enum status fleet_inputs_missing(const struct cli *cli, const struct fleet *f,
                                 struct text_list *ret_missing, struct text_list *ret_strangers,
                                 struct err *err) MUST_USE;

#endif
