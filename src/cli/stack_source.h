// SPDX-License-Identifier: Apache-2.0
/* Where a stack comes from: this machine, a frozen one, a lock file, the facts of a run. */
#ifndef ASSAY_CLI_STACK_SOURCE_H
#define ASSAY_CLI_STACK_SOURCE_H

#include "cli/command.h"
#include "snapshot/stack.h"

/* The machine of --root, the environment of --python. `ret_fs` (may be NULL) is where its files are. */
enum status stack_source_machine(const struct cli *cli, struct stack *ret_stack, struct fs *ret_fs,
                                 struct err *err) MUST_USE;

/* A lock file, a facts.json, or a run folder that holds one. */
enum status stack_source_file(const struct cli *cli, const char *path, struct stack *ret_stack,
                              struct err *err) MUST_USE;

#endif
