// SPDX-License-Identifier: Apache-2.0
/* Options that belong to some actions of a command: given with another, they are told, not ignored. */
#ifndef ASSAY_CLI_ACTION_OPTIONS_H
#define ASSAY_CLI_ACTION_OPTIONS_H

#include "cli/command.h"

struct action_option {
    const char *option;
    const char *actions; /* "encode|decode" */
};

/* ST_USAGE when an option of the table was given and `action` is not among its actions. */
enum status action_options_check(const struct cli *cli, const struct action_option *table,
                                 size_t count, const char *action, struct err *err) MUST_USE;

#endif
