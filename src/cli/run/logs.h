// SPDX-License-Identifier: Apache-2.0
/*
 * Logs that maths libraries write of themselves: asked for by run --library-logs, kept in the run folder as
 * library.NAME.PID.log, bounded, and read again by report --path and reproduce.
 */
#ifndef ASSAY_CLI_RUN_LOGS_H
#define ASSAY_CLI_RUN_LOGS_H

#include "base/finding.h"

#include "cli/command.h"
#include "recorder/library_log.h"

enum {
    RUN_LOGS_KEPT_MAX = 32 << 20 /* bytes of one log: as much from its beginning as from its end */
};

/* ST_USAGE when --library-logs names a library that is none of these. */
enum status run_logs_check(const struct cli *cli, struct err *err) MUST_USE;

/* Sets the variables of the libraries that --library-logs names; a library of which the user set one is left to
 * the user, and a note says so. */
void run_logs_variables(struct cli *cli, const char *folder, struct text_list *env,
                        struct text_list *notes);

/* Gives the room between beginning and end of long logs back, while they grow. */
void run_logs_bound(struct arena *a, const char *folder);

/* What the logs of the folder say, those of libraries and, for lines that libraries put there, the output of the
 * command. ret_cut: logs whose middle is gone. */
enum status run_logs_read(struct arena *a, const char *folder, struct library_log *ret_log,
                          size_t *ret_cut, struct err *err) MUST_USE;

#endif
