// SPDX-License-Identifier: Apache-2.0
/* What the parts of `assay watch` share: the detector, its sources, and what was found. */
#ifndef ASSAY_CLI_WATCH_WATCH_H
#define ASSAY_CLI_WATCH_WATCH_H

#include "cli/command.h"
#include "study/anomaly.h"
#include "study/anomaly_source.h"

enum {
    WATCH_SOURCES_MAX = 64,
    WATCH_SAME_MAX = 20 /* findings of one kind that are listed */
};

struct watch {
    struct cli *cli;
    struct arena *scratch; /* of the detector */
    struct anomaly_rules rules;
    struct anomaly_set *set;
    struct anomaly_source *sources[WATCH_SOURCES_MAX];
    size_t source_count;
    bool numbered; /* ranks are the places of the files among the operands */
    enum severity fail_on;
    uint64_t values;
    struct finding_list findings; /* the first WATCH_SAME_MAX of each kind */
    uint64_t left_out;
    /* Told of each anomaly and each value; may be NULL. */
    void (*on_anomaly)(void *ctx, const struct anomaly *a, const struct finding *f);
    void (*on_value)(void *ctx, const struct anomaly_sample *sample);
    void *ctx;
};

extern volatile int watch_stop; /* set by SIGINT and SIGTERM */

/* Options to rules, facts and sources. EXIT_FINE, or an exit status after a sentence was said. */
int watch_open(struct watch *w, struct cli *cli);
void watch_close(struct watch *w);

/* Reads what is there. False when nothing more is there at once. */
bool watch_poll(struct watch *w);

/* The exit status that the anomalies so far call for. */
int watch_status(const struct watch *w);

/* A report over everything that was read, and its exit status. */
int watch_report(struct watch *w);

/* "watch: 2 errors, 1 warning in 1,200 values": the last line of every form. */
const char *watch_verdict(struct watch *w, int *ret_status);

/* One JSON object without a line break: `--json` while following, and the body for --webhook. */
void watch_json(struct strbuf *out, const struct anomaly *a, const struct finding *f);

/* Follows the sources to their end; view or lines. */
int watch_live(struct watch *w);

#endif
