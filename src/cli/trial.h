// SPDX-License-Identifier: Apache-2.0
/* One trial of a plan: `assay run` as a child, so that a trial is supervised and recorded exactly as a run
 * by hand is, and its folder can be given to every other command. */
#ifndef ASSAY_CLI_TRIAL_H
#define ASSAY_CLI_TRIAL_H

#include "cli/command.h"
#include "study/plan.h"

struct trial {
    const struct plan_route *route;
    const char *folder; /* absolute; its parent is there */
    double time_limit_s, hang_s;
    bool facts; /* read facts of the machine: once a route is enough */
};

/* SIGINT and SIGTERM end the trial that runs and are remembered. Call once. */
void trial_catch_signals(void);
bool trial_was_interrupted(void);

/*
 * Runs it to its end; tick() comes about ten times a second with the time since its start. The output
 * of the command is in the folder alone. Fails when the trial could not be started: then the plan is at
 * fault, not the route.
 */
enum status trial_run(struct cli *cli, const struct trial *t,
                      void (*tick)(void *ctx, double seconds), void *ctx, struct err *err) MUST_USE;

/* True when the folder holds a run that ended by itself or by its time limit. */
bool trial_is_finished(struct arena *a, const char *folder);

#endif
