// SPDX-License-Identifier: Apache-2.0
/* assay snapshot: the state of a stack as a lock file. */
#include "cli/command.h"
#include "cli/command_list.h"
#include "cli/snapshot/stack_source.h"

static int run_snapshot(struct cli *cli)
{
    struct err err = {0};
    struct stack s;
    struct strbuf out;
    if (cli->operands.count != 0) {
        return cli_fail(cli, EXIT_USAGE, "snapshot takes no operands; -o FILE names the lock file");
    }
    if (stack_source_machine(cli, NULL, &s, NULL, &err) != ST_OK) {
        return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
    }
    for (size_t i = 0; i < s.gaps.count; i++) {
        const struct stack_gap *g = &s.gaps.items[i];
        cli_note(cli, "not in the snapshot: %s %s: %s", stack_section_name(g->section),
                 g->name != NULL ? g->name : "(all)", g->reason);
    }
    strbuf_init(&out, cli->arena, (size_t)256 << 20);
    stack_write(&s, &out);
    return cli_emit(cli, strbuf_str(&out), EXIT_FINE);
}

static const char *const description[] = {
    "Writes the state of the stack as a lock file in JSON: driver, firmware, kernel and its parameters, "
    "runtime, maths libraries with build ids, framework, every Python package with a digest of its RECORD, "
    "switches of the environment, container, every package of the distribution. Sorted and without times: "
    "an unchanged machine writes the same bytes.",
    "Take one when a stack trains well, and before each change. 'assay diff' names what changed since, "
    "'assay rollback' the way back. What could not be read is listed in the file under 'unread' and is "
    "never compared as if it were not there.",
    NULL,
};

static const struct example examples[] = {
    {"assay snapshot -o good.lock", "keep the state of this machine"},
    {"assay snapshot --python /srv/venv -o good.lock", "with another Python environment"},
    {0},
};

static const struct option_spec options[] = {
    {"python", 0, OPTION_VALUE, "PATH", "Environment to list: its folder or its python"},
    {"root", 0, OPTION_VALUE, "DIR", "The machine whose files are under DIR"},
    {0},
};

const struct command command_snapshot = {
    .name = "snapshot",
    .summary = "Write the state of the stack as a lock file",
    .operands = "",
    .operand_kind = "none",
    .description = description,
    .examples = examples,
    .options = options,
    .run = run_snapshot,
};
