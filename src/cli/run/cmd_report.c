// SPDX-License-Identifier: Apache-2.0
/* assay report: run folders, judged again from what they hold, and records of other commands, in any form. */
#include <string.h>

#include <sys/stat.h>

#include "base/vec.h"

#include "cli/command.h"
#include "cli/command_list.h"
#include "cli/run/report.h"
#include "cli/run/report_path.h"
#include "cli/session.h"

static int run_path(struct cli *cli)
{
    struct err err = {0};
    struct report report;
    int status;
    if (cli->operands.count != 1 || cli_flag(cli, "expect")) {
        return cli_fail(cli, EXIT_USAGE,
                        "--path takes one run folder and no --expect: assay report --path RUN");
    }
    if (report_path_make(cli, cli->operands.items[0], &report, &status, &err) != ST_OK) {
        return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
    }
    return session_report(cli, &report, status);
}

static int run_report(struct cli *cli)
{
    struct err err = {0};
    const struct knowledge *k;
    struct text_list expects = {0};
    if (cli_flag(cli, "path")) {
        return run_path(cli);
    }
    if (cli->operands.count == 0) {
        return cli_fail(cli, EXIT_USAGE, "report takes run folders and records: assay report RUN");
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
    if (session_knowledge(cli, &k, &err) != ST_OK) {
        return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
    }
    struct stat st;
    const char *first = cli->operands.items[0];
    bool one_run = cli->operands.count == 1 && !(stat(first, &st) == 0 && S_ISREG(st.st_mode)) &&
                   !run_report_is_metrics(cli->arena, first);
    enum status made = one_run ? run_report_make(cli, k, first, &expects, &report, &status, &err)
                               : run_report_many(cli, k, &cli->operands, &expects, &report, &status,
                                                 &err);
    if (made != ST_OK) {
        return cli_fail(cli, made == ST_USAGE ? EXIT_USAGE : EXIT_UNKNOWN, "%s", err.text);
    }
    return session_report(cli, &report, status);
}

static const char *const description[] = {
    "Judges a folder that 'assay run' made: how the run ended, the likeliest causes from records and "
    "logs, which library served which calls. The folder may come from another machine; names of "
    "functions on the stack then need its libraries and may be missing.",
    "Several folders make one report, with their curves drawn together. A file is a record that any command "
    "wrote with --json: one of 'assay qualify' puts its stages at the top. --format html makes one page "
    "that needs nothing beside itself, --format markdown a text for an issue or a job summary.",
    "--path tells what really executed, from recorded launches and the logs of libraries (run "
    "--library-logs): which attention ran, whether FLA's kernels were launched, whether a short "
    "convolution fell back, whether a convolution in 3D is gone. What cannot be told exits with 2.",
    "--expect asks whether a path was really taken: no:hipblaslt fails when a single call of "
    "hipBLASLt was recorded, whatever the environment variables said.",
    NULL,
};

static const struct example examples[] = {
    {"assay report assay-run-20261129T180000Z-4711", "what happened in this run?"},
    {"assay report RUN --expect no:hipblaslt", "was hipBLASLt really left?"},
    {"assay report --path RUN", "which attention ran, which products, which kernels?"},
    {"assay report RUN --json", "for a script"},
    {"assay report RUN --format html -o run.html", "a page to read, print or attach"},
    {"assay report qualification.json RUN-A RUN-B --format html -o report.html",
     "stages and two routes on one page"},
    {0},
};

static const struct option_spec options[] = {
    {"expect", 0, OPTION_REPEAT, "WHAT",
     "no:NAME, yes:NAME: a library or function, by part of name or path; or kernel:NAME"},
    {"path", 0, OPTION_FLAG, NULL,
     "The path that the run took: kernels, products, and what ran attention and convolutions"},
    REPORT_OPTIONS,
    {0},
};

const struct command command_report = {
    .name = "report",
    .summary = "Judge folders that 'assay run' made; show records as a page",
    .operands = "RUN|RECORD...",
    .operand_kind = "file",
    .description = description,
    .examples = examples,
    .options = options,
    .run = run_report,
};
