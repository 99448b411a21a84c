// SPDX-License-Identifier: Apache-2.0
/*
 * The path that a run really took: which libraries served it, which products they were given, which kernels were
 * launched, and what their names say of attention, linear attention, short convolution and convolutions in 3D. From the
 * records and the libraries' own logs; a switch or a configuration is no evidence here.
 */
#ifndef ASSAY_CLI_RUN_REPORT_PATH_H
#define ASSAY_CLI_RUN_REPORT_PATH_H

#include "cli/command.h"
#include "report/report.h"

/* ret_status: EXIT_FINE, or EXIT_UNKNOWN where a question could not be told. */
enum status report_path_make(struct cli *cli, const char *folder, struct report *ret_report,
                             int *ret_status, struct err *err) MUST_USE;

#endif
