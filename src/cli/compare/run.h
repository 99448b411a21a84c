// SPDX-License-Identifier: Apache-2.0
/* One run as `compare` and `matrix` look at it: how it ended, what it printed, what it ran on, what it
 * was fed with. From a run folder everything; from a log what a log tells. */
#ifndef ASSAY_CLI_COMPARE_RUN_H
#define ASSAY_CLI_COMPARE_RUN_H

#include "cli/command.h"
#include "cli/run/library_name.h"
#include "knowledge/knowledge.h"
#include "study/inputs.h"
#include "study/loss_judge.h"
#include "study/run_log.h"
#include "study/setup.h"
#include "study/step_time.h"

struct compare_run {
    const char *path;
    bool folder; /* of assay run: inputs, environment and libraries are on record */
    struct run_log log;
    struct step_time time;
    const char *ending; /* "completed", "exit 1", "SIGSEGV", … */
    bool end_known;
    bool failed;       /* ended badly, or a fault is on record */
    double seconds;    /* of the whole run; NaN unknown */
    double peak_bytes; /* of its largest process; NaN unknown */
    const char *fault; /* class of the likeliest cause; NULL */
    const char *fault_title;
    struct evidence_list fault_evidence;
    struct library_files served; /* those with most calls */
    const char *libraries; /* their names, by compare_tell_libraries(); NULL without records */
    struct setup setup;
    struct run_inputs inputs;
    const struct tree *run;                          /* run.json, or NULL */
    size_t expect_met, expect_broken, expect_untold; /* of --expect */
    struct over_fitting over;
};

/* A run of the route with the letter 'A', 'B', … */
struct compare_route {
    const char *name; /* "A" */
    struct compare_run *items;
    size_t count;
    size_t capacity;
};

enum status compare_run_load(struct cli *cli, const struct knowledge *k, const char *path,
                             struct compare_run *ret_run, struct err *err) MUST_USE;

/* Names the libraries of each run so that two files of one base name are told apart among all runs. */
void compare_tell_libraries(struct arena *a, struct compare_route *routes, size_t count);

/* Variables that differ between two run.json, as "NAME: a -> b"; what belongs to a session is left out. */
void compare_environment(struct arena *a, const struct tree *run_a, const struct tree *run_b,
                         struct text_list *ret_differences);

#endif
