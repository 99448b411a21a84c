// SPDX-License-Identifier: Apache-2.0
/* Where a stack comes from: this machine, a frozen one, a lock file, the facts of a run. */
#ifndef ASSAY_CLI_SNAPSHOT_STACK_SOURCE_H
#define ASSAY_CLI_SNAPSHOT_STACK_SOURCE_H

#include "cli/command.h"
#include "snapshot/stack.h"

/* The machine of --root, the environment of --python; without that the one of `like` (may be NULL), where
 * this machine has it: another environment would differ in everything. `ret_fs` (may be NULL) is where the
 * machine's files are. */
enum status stack_source_machine(const struct cli *cli, const struct stack *like,
                                 struct stack *ret_stack, struct fs *ret_fs,
                                 struct err *err) MUST_USE;

/* A sentence when the two are of different Python environments, else NULL. */
const char *stack_source_other_python(const struct cli *cli, const struct stack *a,
                                      const struct stack *b);

/* A lock file, a facts.json, or a run folder that holds one. */
enum status stack_source_file(const struct cli *cli, const char *path, struct stack *ret_stack,
                              struct err *err) MUST_USE;

#endif
