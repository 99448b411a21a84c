// SPDX-License-Identifier: Apache-2.0
/* assay report: a run folder, judged again from what it holds. */
#include <string.h>

#include "base/vec.h"

#include "cli/command.h"
#include "cli/command_list.h"
#include "cli/run_report.h"
#include "cli/session.h"

static int run_report(struct cli *cli)
{
    struct err err = {0};
    const struct knowledge *k;
    struct text_list expects = {0};
    if (cli->operands.count != 1) {
        return cli_fail(cli, EXIT_USAGE, "report takes one run folder: assay report RUN");
    }
    const char *expect;
    for (size_t i = 0; (expect = cli_repeat(cli, "expect", i)) != NULL; i++) {
        if (run_report_check_expect(expect, &err) != ST_OK) {
            return cli_fail(cli, EXIT_USAGE, "%s", err.text);
        }
        *VEC_PUSH(cli->arena, &expects) = expect;
    }
    struct report report;
    int status;
    if (session_knowledge(cli, &k, &err) != ST_OK ||
        run_report_make(cli, k, cli->operands.items[0], &expects, &report, &status, &err) !=
            ST_OK) {
        return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
    }
    return session_report(cli, &report, status);
}

static const char *const description[] = {
    "Judges a folder that 'assay run' made: how the run ended, the likeliest causes from records and "
    "logs, which library served which calls. The folder may come from another machine; names of "
    "functions on the stack then need its libraries and may be missing.",
    "--expect asks whether a path was really taken: no:hipblaslt fails when a single call of "
    "hipBLASLt was recorded, whatever the environment variables said.",
    NULL,
};

static const struct example examples[] = {
    {"assay report assay-run-20261129T180000Z-4711", "what happened in this run?"},
    {"assay report RUN --expect no:hipblaslt", "was hipBLASLt really left?"},
    {"assay report RUN --json", "for a script"},
    {0},
};

static const struct option_spec options[] = {
    {"expect", 0, OPTION_REPEAT, "WHAT",
     "no:NAME or yes:NAME: a library or function, by part of its name"},
    REPORT_OPTIONS,
    {0},
};

const struct command command_report = {
    .name = "report",
    .summary = "Judge a folder that 'assay run' made",
    .operands = "RUN",
    .operand_kind = "dir",
    .description = description,
    .examples = examples,
    .options = options,
    .run = run_report,
};
