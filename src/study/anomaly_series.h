// SPDX-License-Identifier: Apache-2.0
/* Inside of the detector: one metric of one rank. Used by anomaly*.c alone. */
#ifndef ASSAY_STUDY_ANOMALY_SERIES_H
#define ASSAY_STUDY_ANOMALY_SERIES_H

#include "study/anomaly.h"
#include "study/anomaly_window.h"

enum {
    ANOMALY_LEVEL = 101,  /* values of the rolling median, once the series is long */
    ANOMALY_SPREAD = 512, /* distances that tell the spread */
    ANOMALY_PERIODS = 2048
};

enum anomaly_family {
    FAMILY_PLAIN = 0, /* judged for NaN alone */
    FAMILY_LOSS,
    FAMILY_NORM,
    FAMILY_TIME,
    FAMILY_RATE,
    FAMILY_MEMORY
};

struct anomaly_series {
    const char *metric;
    int rank;
    enum anomaly_family family;
    uint64_t count, finite, not_finite;
    double last, least, most;
    int64_t step;
    int64_t first_step;
    bool counted;
    struct anomaly_window level;  /* of values, in the family's scale */
    uint64_t level_values;        /* taken since the beginning, or since steps went back */
    struct anomaly_window spread; /* of distances from the level */
    uint64_t quiet_until[ANOMALY_KIND_COUNT]; /* number of the value until which a kind is silent */
    double up, down;                          /* CUSUM */
    double up_sum, down_sum;                  /* of values since the sums left zero */
    double up_level, down_level;              /* rolling median when they left it */
    uint64_t up_run, down_run;
    uint64_t flagged_run;      /* spikes and drops in a row */
    double tail_up, tail_down; /* mean ratio of the 99 % quantile to that of normal noise */
    uint64_t tail_values;
    double best_level;   /* lowest rolling median since the last shift, NaN before there is one */
    double lowest_level; /* lowest rolling median of all */
    double z_before, z_product, z_square; /* what tells how much the noise remembers of itself */
    uint64_t same_run, zero_run, same_pairs, pairs;
    bool guessing, slow, heavy; /* said already, and not over */
    double *kept;               /* the last ANOMALY_PERIODS values, a ring; NULL: no periods */
    uint64_t kept_count;
    uint64_t period_at; /* kept_count when periods were looked for last */
    double period_said; /* values in the period reported last; 0: none */
    bool period_known;  /* it was said what has that length */
};

struct anomaly_set {
    struct arena *arena;
    struct arena *scratch;
    struct anomaly_rules rules;
    struct anomaly_series *series[ANOMALY_SERIES_MAX];
    size_t series_count;
    size_t hint;
    uint64_t dropped;
    struct period_source sources[ANOMALY_SOURCES_MAX];
    size_t source_count;
    double vocabulary; /* 0: not known */
    uint64_t counts[ANOMALY_KIND_COUNT];
    uint64_t severities[SEVERITY_COUNT];
    void (*found)(void *ctx, const struct anomaly *a);
    void *ctx;
    double clock_most[64]; /* highest clock seen of each GPU */
    unsigned hot_run[64];
    bool hot_said[64];
    bool gpu_heavy;
    bool stalled;
};

/* Judges a value that was counted already. */
void anomaly_series_take(struct anomaly_set *s, struct anomaly_series *x,
                         const struct anomaly_sample *sample);

/* Steps went back: another run in the same log, or a start from a checkpoint. Its level is learnt anew. */
void anomaly_series_restart(struct anomaly_series *x);

/* Looks for a period when enough values came since the last time, or `at_end`. */
void anomaly_series_period(struct anomaly_set *s, struct anomaly_series *x, bool at_end,
                           const struct anomaly_sample *sample);

/* Compares the ranks of the metric of `x`. */
void anomaly_ranks_compare(struct anomaly_set *s, struct anomaly_series *x,
                           const struct anomaly_sample *sample);

/* An anomaly of `x` at `sample`, to be completed and told. */
struct anomaly anomaly_at(const struct anomaly_series *x, const struct anomaly_sample *sample,
                          enum anomaly_kind kind, enum severity severity);
void anomaly_tell(struct anomaly_set *s, const struct anomaly *a);

#endif
