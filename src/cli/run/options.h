// SPDX-License-Identifier: Apache-2.0
/* Options of 'assay run': what is wrong with them is told before a run folder is made. */
#ifndef ASSAY_CLI_RUN_OPTIONS_H
#define ASSAY_CLI_RUN_OPTIONS_H

#include "cli/command.h"

/* ST_USAGE when a number is none or out of range, or an option refines a guard that is not asked for. */
enum status run_options_check(const struct cli *cli, struct err *err) MUST_USE;

/* The numbers alone; options that a command does not have are not given. */
enum status run_options_check_numbers(const struct cli *cli, struct err *err) MUST_USE;

/* The number of an option that run_options_check() has seen; `fallback` when it was not given. */
double run_options_number(const struct cli *cli, const char *name, double fallback);

#endif
