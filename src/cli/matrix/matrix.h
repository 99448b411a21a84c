// SPDX-License-Identifier: Apache-2.0
/* A plan while it is carried out, and what came of it. */
#ifndef ASSAY_CLI_MATRIX_MATRIX_H
#define ASSAY_CLI_MATRIX_MATRIX_H

#include "cli/compare/run.h"
#include "report/report.h"
#include "study/bisect.h"
#include "study/plan.h"

struct matrix {
    struct cli *cli;
    const struct knowledge *k;
    const struct plan *plan;
    const char *output;           /* folder, absolute */
    struct compare_route *routes; /* trials of each route, by its index */
    struct bisect search;         /* plan->bisect */
    enum bisect_state found;
    size_t done, planned; /* trials; planned is an upper bound for a search */
    size_t resumed;       /* of those done: from an earlier call */
    double spent_s;       /* by trials of this call */
    size_t ran;           /* the same, their number */
    bool stopped;         /* interrupted */
    int lock;             /* descriptor of the folder's lock */
};

/* Folder of trial number `n` (from 0) of a route. */
const char *matrix_folder(const struct matrix *m, size_t route, uint64_t n);

/* Makes or checks the output folder: its plan must be this one. Takes its lock. */
enum status matrix_open(struct matrix *m, struct err *err) MUST_USE;

/* Runs what is not done yet. An interruption ends it with ST_OK and `stopped`. */
enum status matrix_run(struct matrix *m, struct err *err) MUST_USE;

/* A trial that failed, or whose losses are not finite; what to call it. */
bool matrix_failed(const struct compare_run *r, const char **ret_class);

/* Findings, tables, verdict; ret_status as the exit status. */
void matrix_report(struct matrix *m, struct report *ret_report, int *ret_status);

#endif
