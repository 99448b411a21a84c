// SPDX-License-Identifier: Apache-2.0
/*
 * What the logs said: events (lines that a pattern recognised), metric series, and how the run
 * ended. Made by log_read.c, scan.c and their neighbours; judged by causes.c.
 */
#ifndef ASSAY_DIAGNOSIS_EVENTS_H
#define ASSAY_DIAGNOSIS_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"

#include "knowledge/knowledge.h"

struct capture {
    const char *name;
    const char *value;
};

struct event {
    const struct pattern *pattern;
    const char *source; /* file as the user named it; "-" for stdin */
    uint64_t line;      /* 1-based; '\r' progress updates do not count as lines */
    uint64_t offset;    /* byte offset of the line in the (decompressed) file */
    int64_t order;      /* position over all logs: by time when both have one, else by file, line */
    double time;        /* seconds since the epoch or since boot; NaN when the line has none */
    int rank;           /* from the line's own prefix or the file's name; -1 unknown */
    const char *text;   /* the line, colour codes removed, at most 2000 bytes */
    const struct capture *captures;
    size_t capture_count;
};

struct event_list {
    struct event *items;
    size_t count;
    size_t capacity;
};

/* One metric over the run: finite and not, in log order. */
struct series {
    const char *name; /* loss, eval_loss, grad_norm, lr, step_time, tokens_per_s, step … */
    double *values;
    uint64_t *lines;
    int *ranks;
    size_t count;
    size_t capacity;
};

struct run_summary {
    bool completed;      /* a line that only a finished run prints, no fault after it */
    bool died;           /* exception at top level, signal, abort, non-zero exit reported */
    int killed_signal;   /* 0 when none was reported */
    int64_t steps;       /* highest step seen, -1 unknown */
    int64_t total_steps; /* -1 unknown */
    int ranks;           /* distinct ranks seen, 0 unknown */
    const char *phase;   /* import, load, data, train, eval, save; NULL unknown */
    bool last_line_is_progress;
    const char *first_failed_rank; /* "3", or NULL */
    const char *exception;         /* type of the root exception of the rank that failed first */
    const char *exception_text;
    uint64_t lines;
    uint64_t bytes;
};

struct log_facts {
    struct arena *arena;
    struct event_list events; /* in `order` */
    struct map *series;       /* name -> struct series */
    struct run_summary run;
    bool has_train_log;
    bool has_kernel_log;
};

#endif
