// SPDX-License-Identifier: Apache-2.0
/*
 * A run folder judged: how the run ended, what the records say, what the logs say, whether the expected
 * path was taken. `run` shows it at its end, `report` at any time later; both from the folder alone.
 */
#ifndef ASSAY_CLI_RUN_REPORT_H
#define ASSAY_CLI_RUN_REPORT_H

#include "cli/command.h"
#include "knowledge/knowledge.h"
#include "report/report.h"

struct run_curves;

/* Fills the report; ret_status: EXIT_FINE, EXIT_FAULT or EXIT_UNKNOWN. `expects` are of the form
 * "no:hipblaslt" or "yes:openblas", besides those that run.json holds. */
enum status run_report_make(struct cli *cli, const struct knowledge *k, const char *folder,
                            const struct text_list *expects, struct report *ret_report,
                            int *ret_status, struct err *err) MUST_USE;

/* A folder that holds metrics and no run, such as one of the reference trainer. */
bool run_report_is_metrics(struct arena *a, const char *folder);

/* Several runs, and records of other commands (`assay ... --json` in a file), in one report: each run and each
 * record but the first of `qualify` is a part; what a qualification says stands at the top, and the curves of
 * all runs are drawn together. `paths` are run folders and files. */
enum status run_report_many(struct cli *cli, const struct knowledge *k,
                            const struct text_list *paths, const struct text_list *expects,
                            struct report *ret_report, int *ret_status, struct err *err) MUST_USE;

/* Whether an expectation can be understood. */
enum status run_report_check_expect(const char *expect, struct err *err) MUST_USE;

#endif
