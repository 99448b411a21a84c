// SPDX-License-Identifier: Apache-2.0
/* What shows only side by side: ranks of one metric, GPUs of one machine, the clock on the wall. */
#include <math.h>

#include "study/anomaly_series.h"

enum {
    RANK_VALUES = 16, /* of each rank before it is compared */
    HOT_READINGS = 3
};

/* Median of the ranks' medians: the lower of the two middle ones, so that of two ranks the slower one
 * is compared with the faster. */
static double middle_of(struct anomaly_window *w)
{
    return w->count != 0 ? w->sorted[(w->count - 1) / 2] : NAN;
}

static void tell_rank(struct anomaly_set *s, struct anomaly_series *x,
                      const struct anomaly_sample *sample, enum anomaly_kind kind, double value,
                      double limit, double ratio)
{
    struct anomaly a = anomaly_at(x, sample, kind, SEVERITY_WARNING);
    a.rank = x->rank;
    a.value = value;
    a.high = x->family == FAMILY_RATE ? NAN : limit;
    a.low = x->family == FAMILY_RATE ? limit : NAN;
    a.extra = ratio;
    anomaly_tell(s, &a);
}

static void judge_rank(struct anomaly_set *s, struct anomaly_series *x,
                       const struct anomaly_sample *sample, double middle)
{
    double own = anomaly_window_quantile(&x->level, 0.5);
    if (x->family == FAMILY_MEMORY) {
        bool heavy = own > middle * s->rules.memory_ratio && own - middle > s->rules.memory_bytes;
        if (heavy && !x->heavy) {
            tell_rank(s, x, sample, ANOMALY_MEMORY, own, middle * s->rules.memory_ratio,
                      own / middle);
        }
        x->heavy = heavy;
        return;
    }
    double slower = x->family == FAMILY_RATE ? middle - own : own - middle; /* of logarithms */
    bool slow = slower > log(s->rules.straggler_ratio);
    if (slow && !x->slow) {
        double limit = x->family == FAMILY_RATE ? middle - log(s->rules.straggler_ratio)
                                                : middle + log(s->rules.straggler_ratio);
        tell_rank(s, x, sample, ANOMALY_SLOW_RANK, exp(own), exp(limit), exp(slower));
    }
    x->slow = slow || (x->slow && slower > log(s->rules.straggler_ratio) / 2);
}

void anomaly_ranks_compare(struct anomaly_set *s, struct anomaly_series *x,
                           const struct anomaly_sample *sample)
{
    bool compared = x->family == FAMILY_TIME || x->family == FAMILY_RATE ||
                    x->family == FAMILY_MEMORY;
    if (!compared || x->rank < 0 || x->level.count < RANK_VALUES || x->count % RANK_VALUES != 0) {
        return;
    }
    struct arena_mark mark = arena_mark(s->scratch);
    struct anomaly_window ranks;
    anomaly_window_init(&ranks, s->scratch, s->series_count);
    for (size_t i = 0; i < s->series_count; i++) {
        const struct anomaly_series *o = s->series[i];
        if (o->rank >= 0 && o->level.count >= RANK_VALUES && str_is(str_of(o->metric), x->metric)) {
            anomaly_window_add(&ranks, anomaly_window_quantile(&o->level, 0.5));
        }
    }
    if (ranks.count >= 2) {
        judge_rank(s, x, sample, middle_of(&ranks));
    }
    arena_rewind(s->scratch, mark);
}

static struct anomaly of_gpu(const struct anomaly_gpu *g, enum anomaly_kind kind,
                             const char *metric, double now)
{
    return (struct anomaly){.kind = kind,
                            .severity = SEVERITY_WARNING,
                            .metric = metric,
                            .rank = g->index,
                            .step = -1,
                            .low = NAN,
                            .high = NAN,
                            .extra = NAN,
                            .time = now};
}

static void judge_clock(struct anomaly_set *s, const struct anomaly_gpu *g, double now)
{
    double *most = &s->clock_most[g->index];
    bool busy = !(g->busy_percent < 50); /* a GPU that does not say is taken for busy */
    if (g->clock_mhz > *most) {
        *most = g->clock_mhz;
    }
    bool hot = g->celsius >= s->rules.throttle_celsius;
    bool slow = busy && g->clock_mhz < s->rules.throttle_ratio * *most;
    bool throttled = hot && (slow || g->throttled);
    s->hot_run[g->index] = throttled ? s->hot_run[g->index] + 1 : 0;
    if (s->hot_run[g->index] >= HOT_READINGS && !s->hot_said[g->index]) {
        s->hot_said[g->index] = true;
        struct anomaly a = of_gpu(g, ANOMALY_THROTTLED, "gpu_clock", now);
        a.value = g->clock_mhz;
        a.low = s->rules.throttle_ratio * *most;
        a.extra = g->celsius;
        anomaly_tell(s, &a);
    }
    s->hot_said[g->index] &= throttled;
}

void anomaly_gpus(struct anomaly_set *s, const struct anomaly_gpu *gpus, size_t count, double now)
{
    struct arena_mark mark = arena_mark(s->scratch);
    struct anomaly_window used;
    anomaly_window_init(&used, s->scratch, count);
    const struct anomaly_gpu *most = NULL;
    for (size_t i = 0; i < count; i++) {
        if (gpus[i].index >= 0 && (size_t)gpus[i].index < ARRAY_LEN(s->clock_most)) {
            judge_clock(s, &gpus[i], now);
        }
        anomaly_window_add(&used, gpus[i].memory_bytes);
        if (gpus[i].memory_bytes > (most != NULL ? most->memory_bytes : 0)) {
            most = &gpus[i];
        }
    }
    /* An idle GPU beside a busy one is no imbalance: the middle one must be in use. */
    double middle = middle_of(&used);
    bool heavy = used.count >= 2 && middle > s->rules.memory_bytes && most != NULL &&
                 most->memory_bytes > middle * s->rules.memory_ratio &&
                 most->memory_bytes - middle > s->rules.memory_bytes;
    if (heavy && !s->gpu_heavy) {
        struct anomaly a = of_gpu(most, ANOMALY_MEMORY, "gpu_memory", now);
        a.value = most->memory_bytes;
        a.high = middle * s->rules.memory_ratio;
        a.extra = most->memory_bytes / middle;
        anomaly_tell(s, &a);
    }
    s->gpu_heavy = heavy;
    arena_rewind(s->scratch, mark);
}

void anomaly_silence(struct anomaly_set *s, double silent, double usual, double now)
{
    double limit = s->rules.stall_ratio * usual;
    limit = limit > s->rules.stall_seconds ? limit : s->rules.stall_seconds;
    if (s->stalled || !(silent >= limit)) {
        return;
    }
    s->stalled = true;
    struct anomaly a = {.kind = ANOMALY_STALL,
                        .severity = SEVERITY_ERROR,
                        .metric = "progress",
                        .rank = -1,
                        .step = -1,
                        .value = silent,
                        .low = NAN,
                        .high = limit,
                        .extra = usual,
                        .time = now};
    anomaly_tell(s, &a);
}
