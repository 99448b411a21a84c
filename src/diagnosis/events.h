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
    /* A pattern of the knowledge, or one of the synthetic ones that our readers make:
     * amdgpu-page-fault, nvidia-xid, rocr-fault-block, python-exception (docs/knowledge.md). */
    const struct pattern *pattern;
    const char *source; /* file as the user named it; "-" for stdin */
    uint64_t line;      /* 1-based; '\r' progress updates do not count as lines */
    uint64_t offset;    /* byte offset of the line in the (decompressed) file */
    int64_t order;      /* position over all logs: by time when both have one, else by file, line */
    double time;        /* seconds since the epoch or since boot; NaN when the line has none */
    int rank;           /* from the line's own prefix or the file's name; -1 unknown */
    const char *text;   /* the line, colour codes removed, at most 2000 bytes */
    const char *explain; /* what an error number in the line means; NULL when it has none */
    const struct capture *captures;
    size_t capture_count;
    int file;      /* index of the file, for comparing positions */
    int clock;     /* enum clock_kind of `time` */
    double moment; /* `time`, or the last time seen before the line in its file; NaN without */
};

struct event_list {
    struct event *items;
    size_t count;
    size_t capacity;
};

/* Exact number of lines of one pattern id; of its events the first EVENTS_FIRST and the last
 * EVENTS_LAST are kept. */
struct event_count {
    uint64_t count;
};

enum {
    EVENTS_FIRST = 50,
    EVENTS_LAST = 10
};

/* Numbers about one metric, exact whatever was kept of it. A value that does not exist is NaN. */
struct series_stats {
    uint64_t count; /* finite and not */
    uint64_t nan_count;
    uint64_t inf_count;
    uint64_t zero_count;
    int64_t first_nan_index; /* NaN or infinite; -1 when all are finite */
    uint64_t zero_tail;      /* the last so many are 0 */
    uint64_t longest_zero;   /* longest run of zeros */
    double first;            /* of finite values, as are all below */
    double last;
    double min;
    double max;
    double median;
    double before_nan;    /* last finite value before the first NaN or infinity */
    double spike_ratio;   /* largest value over the mean of up to 16 finite ones before it */
    bool spike_recovered; /* after the largest spike the values came back near that mean */
    bool flat;            /* two or more, all equal */
    bool rising;          /* last quarter clearly above the first quarter, by medians */
    bool falling;
};

/* One metric over the run, of the rank that printed most of it (rank 0 when they print the same). */
struct series {
    const char *name; /* loss, eval_loss, grad_norm, lr, step_time, tokens_per_s, step … */
    int rank;
    double *values; /* in log order; thinned out when longer than 65536 */
    uint64_t *lines;
    size_t count;
    size_t capacity;
    uint64_t stride; /* every so many-th value was kept */
    struct series_stats stats;
    uint64_t nan_all_ranks; /* NaN and infinite values over all ranks */
};

struct run_summary {
    bool completed;      /* a line that only a finished run prints, no fault after it */
    bool died;           /* exception at top level, signal, abort, non-zero exit reported */
    int killed_signal;   /* 0 when none was reported */
    int exit_code;       /* non-zero exit status reported, 0 when none */
    int64_t steps;       /* highest step seen, -1 unknown */
    int64_t total_steps; /* -1 unknown */
    int ranks;           /* distinct ranks seen, 0 unknown */
    const char *phase;   /* import, load, data, train, eval, save; NULL unknown */
    bool last_line_is_progress;
    bool kernel_log;               /* one was read, empty or not */
    const char *first_failed_rank; /* "3", or NULL */
    const char *exception;         /* type of the root exception of the rank that failed first */
    const char *exception_text;
    uint64_t lines;
    uint64_t bytes;
    bool looks_binary; /* more than one byte in twenty is a control byte */
};

struct log_facts {
    struct arena *arena;
    struct event_list events; /* in `order` */
    struct map *counts;       /* pattern id -> struct event_count */
    struct map *series;       /* name -> struct series */
    struct run_summary run;
    bool has_train_log;
    bool has_kernel_log;
    struct text_list notes; /* what could not be read, as sentences */
};

/* Exact count of an id; 0 when it was never seen. */
uint64_t log_facts_count(const struct log_facts *lf, const char *id);

/* Event number `index` of an id among those kept (negative: from the end), or NULL. */
const struct event *log_facts_event(const struct log_facts *lf, const char *id, int64_t index);

/* A capture's value, or NULL. */
const char *event_capture(const struct event *e, const char *name);

#endif
