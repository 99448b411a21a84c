// SPDX-License-Identifier: Apache-2.0
/*
 * Where a run's time went: steady steps told apart from warm-up (compilation, kernel search, caches),
 * from evaluation, saving, and from other pauses (a data loader that stands), by robust detection on
 * the intervals between logged steps. What is reported as seconds per step is of steady steps only.
 *
 * An interval counts as steady when it is below median + max(5 robust deviations, a quarter of the
 * median). Warm-up are the intervals at the beginning before the first steady one; an interval with an
 * evaluation or a checkpoint in it is never steady; any other long interval is a pause. Sixteen long ones in a
 * row are no pause: the run has become slower, and they count as steady.
 */
#ifndef ASSAY_STUDY_STEP_TIME_H
#define ASSAY_STUDY_STEP_TIME_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

#include "study/run_log.h"

enum step_time_source {
    STEP_TIME_NONE = 0,
    STEP_TIME_STAMPS,  /* times at which the lines came */
    STEP_TIME_PRINTED, /* the program's own step times */
    STEP_TIME_RUNTIME, /* train_runtime over the number of steps: warm-up and pauses are in it */
};

struct step_time {
    enum step_time_source source;
    double *steady; /* seconds per step of each steady interval, in order */
    size_t steady_count;
    double seconds;  /* mean over steady steps; NaN without */
    double median;   /* of steady intervals */
    double p95;      /* the same */
    double start_s;  /* until the first logged step; NaN without stamps */
    double warmup_s; /* what the warm-up intervals took beyond steady steps */
    int64_t warmup_steps;
    double eval_s; /* the same of intervals with an evaluation */
    size_t evals;
    double
        save_s; /* the same of those in which a checkpoint was written, as far as the log tells */
    size_t saves;
    double slow_steps;   /* steady ones in stretches that are slower than the rest */
    double slow_seconds; /* mean of these; NaN without */
    double pause_s;      /* of other long intervals */
    size_t pauses;
};

void step_time_of(struct arena *a, const struct run_log *log, struct step_time *ret_time);

/* "time stamps of the lines", … for a report. */
const char *step_time_source_name(enum step_time_source s);

#endif
