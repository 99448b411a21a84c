// SPDX-License-Identifier: Apache-2.0
/*
 * The metrics of a run folder (metrics.jsonl, docs/run.md), or of a folder of the reference trainer, as
 * curves, and the time of the run as spans: what a report draws. The file is foreign: it may come from
 * another machine, and be cut off anywhere.
 */
#ifndef ASSAY_CLI_RUN_CURVES_H
#define ASSAY_CLI_RUN_CURVES_H

#include "base/err.h"
#include "base/tree.h"

#include "cli/run/story.h"
#include "report/report.h"

/* One metric by steps. A step that does not exceed the one before (ranks that print the same, a run that
 * went back to a checkpoint) is left out: the first value of a step counts. */
struct run_metric {
    const char *name; /* loss, grad_norm, ... */
    double *x;        /* step; number of the line where no line has a step */
    double *y;
    double *t; /* seconds since the start of the run */
    size_t count;
    size_t capacity; /* of each of the three */
};

struct run_curves {
    struct run_metric *items;
    size_t count;
    size_t capacity;
    bool by_step;
    double first_s, last_s; /* of all lines; NaN without any */
    double last_step;       /* NaN when no line has one */
};

/* The same for each rank of a job whose lines tell theirs. */
struct run_rank {
    int rank;
    struct run_curves curves;
};

struct run_ranks {
    struct run_rank *items; /* by rank */
    size_t count;
    size_t capacity;
};

struct run_drawn {
    const char *name; /* of the run, for the legend */
    const struct run_curves *curves;
};

/* ST_ABSENT: the folder has no metrics. Lines that cannot be understood are left out. Where lines tell their rank the
 * curves are those of the lowest one. `ret_ranks` may be NULL; it is empty where fewer than two ranks spoke. */
enum status run_curves_read(struct arena *a, const char *folder, struct run_curves *ret_curves,
                            struct run_ranks *ret_ranks, struct err *err) MUST_USE;

/* A row a rank: values, last step, median step time, last loss; and, where one rank is slower than the others by
 * more than a share, a sentence about it (else NULL). */
struct report_table run_curves_ranks(struct arena *a, const struct run_ranks *ranks,
                                     const char **ret_slow);

const struct run_metric *run_curves_find(const struct run_curves *c, const char *name);

/* Loss, step time, throughput, gradient norm, learning rate, memory of all runs, one plot each, into the report.
 * More runs than a plot can tell apart are left out with a note. */
void run_curves_plot(struct arena *a, const struct run_drawn *runs, size_t count,
                     struct report *report);

/* Phases as far as metrics tell them, and the recorded processes. `run` is run.json. */
void run_curves_spans(struct arena *a, const struct tree *run, const struct run_curves *curves,
                      const struct run_story *story, struct report *report);

#endif
