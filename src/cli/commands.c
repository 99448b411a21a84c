// SPDX-License-Identifier: Apache-2.0
/* The table of commands and the options they all share. */
#include <stdint.h>
#include <string.h>

#include "base/str.h"

#include "cli/command.h"
#include "cli/command_list.h"

const struct option_spec common_options[] = {
    {"output", 'o', OPTION_VALUE, "FILE", "Write the result to FILE instead of standard output"},
    {"color", 0, OPTION_VALUE, "auto|always|never", "Colour; auto obeys NO_COLOR and the terminal"},
    {"quiet", 'q', OPTION_FLAG, NULL, "No progress line and no notes on standard error"},
    {"help", 'h', OPTION_FLAG, NULL, "Short help with -h, long help with --help"},
    {0},
};

/* In the order of the help; one a line, so that branches merge. */
/* clang-format off */
const struct command *const commands[] = {
    &command_qualify,
    &command_doctor,
    &command_diagnose,
    &command_probe,
    &command_train,
    &command_run,
    &command_report,
    &command_reproduce,
    &command_compare,
    &command_matrix,
    &command_watch,
    &command_exporter,
    &command_checkpoint,
    &command_tokenizer,
    &command_data,
    &command_snapshot,
    &command_diff,
    &command_rollback,
    &command_fleet,
    &command_collectives,
    &command_man,
    &command_completion,
    NULL,
};

/* clang-format on */

const struct command *command_find(const char *name)
{
    for (size_t i = 0; commands[i] != NULL; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    return NULL;
}

const char *command_suggest(const char *name)
{
    const char *best = NULL;
    size_t best_distance = 3;
    for (size_t i = 0; commands[i] != NULL; i++) {
        size_t d = str_distance(str_of(name), str_of(commands[i]->name), best_distance);
        if (d < best_distance) {
            best = commands[i]->name;
            best_distance = d;
        }
    }
    return best;
}
