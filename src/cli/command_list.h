// SPDX-License-Identifier: Apache-2.0
/* One line per command: the rows that commands.c puts into its table. */
#ifndef ASSAY_CLI_COMMAND_LIST_H
#define ASSAY_CLI_COMMAND_LIST_H

#include "cli/command.h"

extern const struct command command_qualify;
extern const struct command command_doctor;
extern const struct command command_diagnose;
extern const struct command command_probe;
extern const struct command command_train;
extern const struct command command_run;
extern const struct command command_report;
extern const struct command command_reproduce;
extern const struct command command_compare;
extern const struct command command_matrix;
extern const struct command command_watch;
extern const struct command command_exporter;
extern const struct command command_checkpoint;
extern const struct command command_tokenizer;
extern const struct command command_data;
extern const struct command command_snapshot;
extern const struct command command_diff;
extern const struct command command_rollback;
extern const struct command command_fleet;
extern const struct command command_collectives;
extern const struct command command_man;
extern const struct command command_completion;

#endif
