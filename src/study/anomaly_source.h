// SPDX-License-Identifier: Apache-2.0
/*
 * Where values come from: a training log (any that metric_line.h understands) or the folder of a run
 * ('assay run': stdout.log, stderr.log, and the times of metrics.jsonl). Read as it grows; a log that
 * was replaced or cut is read anew from its start.
 */
#ifndef ASSAY_STUDY_ANOMALY_SOURCE_H
#define ASSAY_STUDY_ANOMALY_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

#include "study/anomaly.h"

struct anomaly_source;

/* Who gets what was read. Texts live for the call. */
struct anomaly_sink {
    void *ctx;
    void (*sample)(void *ctx, const struct anomaly_sample *sample);
    /* A length that the log tells ("Gradient Accumulation steps = 8"); see anomaly_fact(). */
    void (*fact)(void *ctx, const char *name, double value);
};

/* What a source is so far. */
struct anomaly_progress {
    int64_t step, total; /* -1: not known */
    uint64_t values;     /* metrics read */
    uint64_t bytes, lines;
    uint64_t restarts;  /* the log was replaced or cut */
    double last_change; /* of the file, seconds since the epoch; NaN of a pipe */
    bool stream;        /* a pipe: reading it waits */
    bool ended;         /* the run is over: run.json says so, a closing line came, a pipe ended */
    int exit_code;      /* of run.json; -1: not known */
};

/*
 * "-" is standard input. ST_ABSENT names what is missing; a folder without run.json and logs is
 * ST_FORMAT. `a` holds the source; its buffers are bounded. `stop` as in input.h.
 */
enum status anomaly_source_open(struct arena *a, const char *path, const volatile int *stop,
                                const struct anomaly_sink *sink, struct anomaly_source **ret_source,
                                struct err *err) MUST_USE;

/*
 * Reads what is there, at most some MiB; *ret_more: there is more at once. Of a pipe it waits for
 * bytes or the end. An error is of one file and may pass: the caller may go on.
 */
enum status anomaly_source_poll(struct anomaly_source *s, bool *ret_more, struct err *err) MUST_USE;

/* The last line, which had no end. */
void anomaly_source_finish(struct anomaly_source *s);

/* The rank of lines that tell none, in place of what the name of the file says. */
void anomaly_source_rank(struct anomaly_source *s, int rank);

struct anomaly_progress anomaly_source_progress(const struct anomaly_source *s);

/* What is wrong with a file although it was used (a compressed log that is cut), or NULL. */
const char *anomaly_source_note(const struct anomaly_source *s);

void anomaly_source_close(struct anomaly_source *s); /* NULL is fine */

/* True when the folder holds a run of 'assay run'. */
bool anomaly_source_is_run(struct arena *scratch, const char *path);

/* Whether run.json of that folder (an absolute path) says that the run is over, and its exit status;
 * -1 when it does not say. */
bool anomaly_source_run_ended(struct arena *scratch, const char *folder, int *ret_code);

#endif
