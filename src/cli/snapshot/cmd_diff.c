// SPDX-License-Identifier: Apache-2.0
/* assay diff: what differs between two stacks. */
#include <string.h>

#include "base/vec.h"

#include "cli/command.h"
#include "cli/command_list.h"
#include "cli/session.h"
#include "cli/snapshot/stack_source.h"
#include "snapshot/stack_diff.h"

static struct value text_or_null(const char *text)
{
    return text != NULL ? value_string(text) : (struct value){.kind = VALUE_NULL};
}

static struct report_table changes_table(struct arena *a, const struct stack_diff *d)
{
    static const struct report_column columns[] = {
        {"section", NULL, 0, "section"}, {"name", NULL, 0, "name"}, {"change", NULL, 0, "change"},
        {"from", NULL, 0, "from"},       {"to", NULL, 0, "to"},     {"matters", NULL, 0, NULL},
    };

    enum {
        COLUMNS = sizeof columns / sizeof *columns
    };

    struct value *cells = arena_array(a, d->changes.count * COLUMNS + 1, sizeof *cells);
    for (size_t i = 0; i < d->changes.count; i++) {
        const struct stack_change *c = &d->changes.items[i];
        struct value *row = &cells[i * COLUMNS];
        bool build = c->kind == CHANGE_REBUILT;
        bool moved = c->kind == CHANGE_MOVED;
        row[0] = value_string(stack_section_name(c->section));
        row[1] = value_string(c->name);
        row[2] = value_string(stack_change_name(c->kind));
        row[3] = text_or_null(moved             ? c->from->path
                              : c->from != NULL ? stack_item_text(a, c->from, build)
                                                : NULL);
        row[4] = text_or_null(moved           ? c->to->path
                              : c->to != NULL ? stack_item_text(a, c->to, build)
                                              : NULL);
        row[5] = value_bool(c->matters);
    }
    return (struct report_table){.key = "changes",
                                 .heading = "changes",
                                 .columns = columns,
                                 .column_count = COLUMNS,
                                 .cells = cells,
                                 .row_count = d->changes.count};
}

static const char *verdict_of(struct arena *a, const struct stack_diff *d)
{
    size_t weighty = 0;
    for (size_t i = 0; i < d->changes.count; i++) {
        weighty += d->changes.items[i].matters;
    }
    size_t others = d->changes.count - weighty;
    const char *gaps = d->gaps.count != 0 ? "; not everything could be compared" : "";
    if (d->changes.count == 0) {
        return d->gaps.count != 0 ? "no difference was seen, but not everything could be compared"
                                  : "the stacks are the same";
    }
    if (weighty == 0) {
        return arena_fmt(a, "the GPU stacks are the same; %zu other %s%s", others,
                         others == 1 ? "thing differs" : "things differ", gaps);
    }
    return arena_fmt(a, "%zu %s of the GPU stack %s, and %zu besides%s", weighty,
                     weighty == 1 ? "part" : "parts", weighty == 1 ? "differs" : "differ", others,
                     gaps);
}

static int run_diff(struct cli *cli)
{
    struct err err = {0};
    struct stack from;
    struct stack to;
    struct stack_diff d;
    if (cli->operands.count < 1 || cli->operands.count > 2) {
        return cli_fail(cli, EXIT_USAGE,
                        "diff takes two snapshots, or one to compare with this machine: assay diff "
                        "BEFORE [AFTER]");
    }
    bool two = cli->operands.count == 2;
    if (two && (cli_value(cli, "root", NULL) != NULL || cli_value(cli, "python", NULL) != NULL)) {
        return cli_fail(cli, EXIT_USAGE,
                        "--root and --python choose the machine to compare with, and two snapshots "
                        "were given: leave them out");
    }
    if (stack_source_file(cli, cli->operands.items[0], &from, &err) != ST_OK ||
        (two ? stack_source_file(cli, cli->operands.items[1], &to, &err)
             : stack_source_machine(cli, &from, &to, NULL, &err)) != ST_OK) {
        return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
    }
    stack_diff_make(cli->arena, &from, &to, &d);
    struct finding_list findings = {0};
    stack_diff_findings(cli->arena, &d, &findings);
    struct report r = {.command = "diff", .schema_version = 1};
    const char *other = stack_source_other_python(cli, &from, &to);
    if (other != NULL) {
        *VEC_PUSH(cli->arena, &r.notes) = other;
    }
    report_tell(&r, "from", from.source);
    report_tell(&r, "to", to.source);
    r.lists[r.list_count++] = (struct report_list){.key = "findings", .findings = &findings};
    if (d.changes.count != 0) {
        r.tables[r.table_count++] = changes_table(cli->arena, &d);
    }
    r.verdict = verdict_of(cli->arena, &d);
    return session_report(cli, &r, session_exit(&findings));
}

static const char *const description[] = {
    "Compares two snapshots, or one with this machine. What matters comes first: driver, firmware, kernel, "
    "runtime, maths libraries (two builds of one version too), framework, switches, container, then other "
    "Python packages and those of the distribution.",
    "A snapshot may also be a facts.json or a run folder that holds one: 'assay diff RUN-A RUN-B' names what "
    "changed between two runs, as far as facts go.",
    "Exit 0: nothing of the GPU stack differs. 1: something does. 2: something could not be compared.",
    NULL,
};

static const struct example examples[] = {
    {"assay diff good.lock", "what changed on this machine since the snapshot?"},
    {"assay diff good.lock bad.lock", "what is different between two machines or days?"},
    {"assay diff RUN-A RUN-B --format markdown", "for an issue"},
    {0},
};

static const struct option_spec options[] = {
    {"python", 0, OPTION_VALUE, "PATH", "Environment of this machine to compare with"},
    {"root", 0, OPTION_VALUE, "DIR", "Compare with the machine whose files are under DIR"},
    REPORT_OPTIONS,
    {0},
};

const struct command command_diff = {
    .name = "diff",
    .summary = "Name what differs between two stacks, most important first",
    .operands = "BEFORE [AFTER]",
    .operand_kind = "file",
    .description = description,
    .examples = examples,
    .options = options,
    .run = run_diff,
};
