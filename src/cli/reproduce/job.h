// SPDX-License-Identifier: Apache-2.0
/* What the files of assay reproduce share. Not for other modules. */
#ifndef ASSAY_CLI_REPRODUCE_JOB_H
#define ASSAY_CLI_REPRODUCE_JOB_H

#include "base/tree.h"

#include "cli/reproduce/replay.h"
#include "cli/run/served.h"

struct replay_list {
    struct replay *items;
    size_t count;
    size_t capacity;
};

struct reproduce_job {
    struct cli *cli;
    const char *folder; /* of the run, absolute */
    const char *output; /* of the reproducer */
    bool output_made;   /* by us */
    const struct tree *run;
    struct suspects suspects;
    struct run_served_list served;
    bool served_known;
    double until_s;
    struct replay_guards guards;
    struct replay_list replays;
    struct replay *found; /* the one that failed, or NULL */
    struct finding_list findings;
    struct text_list notes;
};

/* --- what is told (reproduce_story.c) ------------------------------------------------------------ */

/* Fills the findings: the one that failed, localised, or what its absence excludes; switches that were
 * not in effect. */
void reproduce_tell(struct reproduce_job *j);

/* One row for each product that was looked at. */
void reproduce_table(struct reproduce_job *j, struct report_table *ret_table);

/* How the same call did without the guard. */
const char *reproduce_plain_words(struct cli *cli, const struct replay *r);

/* Which of the algorithms or entry points that were tried failed: the others are a control. */
const char *reproduce_guilty_words(struct cli *cli, const struct replay *r);

#endif
