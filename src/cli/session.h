// SPDX-License-Identifier: Apache-2.0
/* What several commands need: knowledge, facts, and the way from a report to the screen. */
#ifndef ASSAY_CLI_SESSION_H
#define ASSAY_CLI_SESSION_H

#include "base/fs.h"

#include "cli/command.h"
#include "diagnosis/judge.h"
#include "facts/facts.h"
#include "facts/job_config.h"
#include "knowledge/knowledge.h"
#include "report/report.h"

/* Knowledge for this invocation: built in, or of --knowledge DIR, in the language of --lang. */
enum status session_knowledge(const struct cli *cli, const struct knowledge **ret_knowledge,
                              struct err *err) MUST_USE;

/* The machine whose files are under `root` ("" for this one); ST_FORMAT for a folder that is no such
 * root, for nothing would be wrong with an empty one. */
enum status session_open_root(const struct cli *cli, const char *root, struct fs *ret_fs,
                              struct err *err) MUST_USE;

/* Facts of the machine under `root` ("" = this one). `python` may be NULL. */
enum status session_collect(const struct cli *cli, const struct knowledge *k, const char *root,
                            const char *python, struct facts **ret_facts, struct err *err) MUST_USE;

/* The same with those of the user's program or library `binary`, which may be NULL. */
enum status session_collect_with(const struct cli *cli, const struct knowledge *k, const char *root,
                                 const char *python, const char *binary, struct facts **ret_facts,
                                 struct err *err) MUST_USE;

/* Unit of a fact, for facts_write_json(); `knowledge` is a struct knowledge. */
const char *session_unit_of_key(void *knowledge, const char *key);

/* Facts from a file that `doctor --facts --json` wrote, or a flat {key: value}. */
enum status session_facts_file(const struct cli *cli, const struct knowledge *k, const char *path,
                               struct facts **ret_facts, struct err *err) MUST_USE;

/* Adds what the --config files say as config.* facts, and lists their entries for the lint. */
enum status session_config(const struct cli *cli, struct facts *facts,
                           struct job_config *ret_config, struct err *err) MUST_USE;

/* Sums the health of two stages. */
void session_add_health(const struct cli *cli, struct health *all, const struct health *part);

/* The score line of a report from a health. */
void session_score(const struct cli *cli, const struct health *health,
                   struct report_score *ret_score);

/* Renders in the form that --format or --json asks for, and writes it out. */
int session_report(const struct cli *cli, const struct report *r, int status);

/* The same, beside the output of a command that we ran. */
int session_report_aside(const struct cli *cli, const struct report *r, int status);

/* Worst of a list: EXIT_FAULT for errors and warnings, EXIT_UNKNOWN when something could not be
 * told and nothing is wrong, else EXIT_FINE. */
int session_exit(const struct finding_list *findings);

/* "1 error, 2 warnings, 1 could not tell": for verdict lines; "nothing wrong" when all is well. */
const char *session_counts(const struct cli *cli, const struct finding_list *findings);

#endif
