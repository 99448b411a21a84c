// SPDX-License-Identifier: Apache-2.0
/*
 * Anomalies in the metrics of a run, found while they come: values in, anomalies out. Memory is
 * bounded: at most ANOMALY_SERIES_MAX series (a metric of one rank each), about 30 KiB a series.
 *
 * What is looked for, by metric:
 *   loss, *_loss            not finite, spike, drop, shift, equal in a row, zero, worse than guessing, period
 *   grad_norm               not finite, spike (logarithm), shift, equal, zero, period
 *   step_time, data_time    shift (logarithm), tail, slow rank, period
 *   tokens_per_s            shift (logarithm), slow rank
 *   memory                  imbalance between ranks or GPUs
 *   other metrics           not finite
 * Spikes and drops: distance from the rolling median of the last 101 values, in robust standard
 * deviations (1.4826 MAD of the last 512 such distances), and an absolute floor. Shifts: CUSUM of the same
 * deviations. Periods: period.h over the last 2,048 values.
 */
#ifndef ASSAY_STUDY_ANOMALY_H
#define ASSAY_STUDY_ANOMALY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/finding.h"

#include "study/anomaly_rules.h"
#include "study/period.h"

enum {
    ANOMALY_SERIES_MAX = 512,
    ANOMALY_SOURCES_MAX = 24,
    ANOMALY_WARM_UP = 48 /* values of a series before its spikes and shifts are judged */
};

enum anomaly_kind {
    ANOMALY_NOT_FINITE = 0,
    ANOMALY_SPIKE,
    ANOMALY_DROP,
    ANOMALY_SHIFT_UP,
    ANOMALY_SHIFT_DOWN,
    ANOMALY_SAME,
    ANOMALY_ZERO,
    ANOMALY_GUESSING,
    ANOMALY_TAIL,
    ANOMALY_SLOW_RANK,
    ANOMALY_MEMORY,
    ANOMALY_THROTTLED,
    ANOMALY_PERIOD,
    ANOMALY_STALL,
    ANOMALY_KIND_COUNT
};

struct anomaly {
    enum anomaly_kind kind;
    enum severity severity;
    const char *metric; /* lives as long as the detector */
    int rank;           /* -1: the log does not say */
    int64_t step;
    bool counted;            /* `step` is the number of the value: the log names no steps */
    double value;            /* what was seen */
    double low, high;        /* what was expected; NaN: no bound */
    double extra;            /* by kind: period in steps, values in a row, ratio; NaN */
    const char *source_name; /* ANOMALY_PERIOD: what has that length, or NULL */
    unsigned times, of;      /* period = times / of x that length */
    const char *file;        /* NULL: not from a log */
    uint64_t line;
    double time; /* seconds since the epoch, NaN */
};

/* One value. `step` < 0: the log does not say; `time` may be NaN. */
struct anomaly_sample {
    const char *metric;
    int rank;
    int64_t step;
    double value;
    double time;
    const char *file;
    uint64_t line;
};

struct anomaly_set;

/* `scratch` is rewound to where it was by every call: nobody else may allocate on it meanwhile. */
struct anomaly_set *anomaly_set_new(struct arena *a, struct arena *scratch,
                                    const struct anomaly_rules *rules) MUST_USE RETURNS_NONNULL;

/* Called for each anomaly, from inside anomaly_add() and its like. */
void anomaly_set_listen(struct anomaly_set *s, void (*found)(void *ctx, const struct anomaly *a),
                        void *ctx);

void anomaly_add(struct anomaly_set *s, const struct anomaly_sample *sample);

/* A length in steps that periods are compared with; a later one of the same name replaces it. The name
 * "vocabulary" is the number of tokens instead: what guessing costs. */
void anomaly_fact(struct anomaly_set *s, const char *name, double value);

/* Readings of one GPU of this machine; NaN where it does not tell. */
struct anomaly_gpu {
    int index;
    double clock_mhz, celsius, busy_percent, memory_bytes;
    bool throttled; /* the driver says so */
};

void anomaly_gpus(struct anomaly_set *s, const struct anomaly_gpu *gpus, size_t count, double now);

/* Nothing came for a while: `silent` seconds since the last value, which usually come every `usual`. */
void anomaly_silence(struct anomaly_set *s, double silent, double usual, double now);

/* The end of the data: periods are looked for once more. */
void anomaly_finish(struct anomaly_set *s);

/* ---- what is known so far ---- */

struct anomaly_view {
    const char *metric;
    int rank;
    uint64_t count, not_finite;
    double last, median, least, most; /* of finite values; median of the last 101 */
    int64_t step;
    bool judged; /* enough values for spikes and shifts */
    bool looked; /* spikes and shifts are looked for in a metric of this kind */
};

size_t anomaly_series_count(const struct anomaly_set *s);
struct anomaly_view anomaly_series_view(const struct anomaly_set *s, size_t index);

uint64_t anomaly_count(const struct anomaly_set *s, enum anomaly_kind kind);
uint64_t anomaly_count_severity(const struct anomaly_set *s, enum severity severity);

/* Values that found no room because there are ANOMALY_SERIES_MAX series. */
uint64_t anomaly_dropped(const struct anomaly_set *s);

/* ---- in words ---- */

/* "spike", "not-finite": label of metrics and JSON. */
const char *anomaly_kind_name(enum anomaly_kind kind);

/* One line: where, what, and what was expected. */
void anomaly_line(struct strbuf *out, const struct anomaly *a);

/* Step, value, expected range, what it may mean, what to do. Texts live on `arena`. */
void anomaly_finding(struct arena *arena, const struct anomaly *a, struct finding *ret_finding);

#endif
