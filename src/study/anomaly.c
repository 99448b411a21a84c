// SPDX-License-Identifier: Apache-2.0
/* The set of series: finds the one that a value belongs to, keeps counts. See anomaly.h. */
#include "study/anomaly.h"

#include <math.h>
#include <string.h>

#include "study/anomaly_series.h"

static const struct {
    const char *metric;
    enum anomaly_family family;
} families[] = {
    {"loss", FAMILY_LOSS},      {"grad_norm", FAMILY_NORM},    {"step_time", FAMILY_TIME},
    {"data_time", FAMILY_TIME}, {"tokens_per_s", FAMILY_RATE}, {"memory", FAMILY_MEMORY},
};

static enum anomaly_family family_of(const char *metric)
{
    for (size_t i = 0; i < ARRAY_LEN(families); i++) {
        if (strcmp(families[i].metric, metric) == 0) {
            return families[i].family;
        }
    }
    return str_ends(str_of(metric), "_loss") ? FAMILY_LOSS : FAMILY_PLAIN;
}

struct anomaly_set *anomaly_set_new(struct arena *a, struct arena *scratch,
                                    const struct anomaly_rules *rules)
{
    struct anomaly_set *s = arena_alloc(a, sizeof *s);
    s->arena = a;
    s->scratch = scratch;
    s->rules = *rules;
    return s;
}

void anomaly_set_listen(struct anomaly_set *s, void (*found)(void *ctx, const struct anomaly *a),
                        void *ctx)
{
    s->found = found;
    s->ctx = ctx;
}

static struct anomaly_series *series_new(struct anomaly_set *s, const struct anomaly_sample *sample)
{
    struct anomaly_series *x = arena_alloc(s->arena, sizeof *x);
    x->metric = arena_strdup(s->arena, sample->metric);
    x->rank = sample->rank;
    x->family = family_of(sample->metric);
    x->last = NAN;
    x->least = NAN;
    x->most = NAN;
    x->best_level = NAN;
    x->lowest_level = NAN;
    if (x->family != FAMILY_PLAIN) {
        anomaly_window_init(&x->level, s->arena, ANOMALY_LEVEL);
    }
    if (x->family != FAMILY_PLAIN && x->family != FAMILY_MEMORY) {
        anomaly_window_init(&x->spread, s->arena, ANOMALY_SPREAD);
    }
    s->series[s->series_count++] = x;
    return x;
}

/* The same metrics come in the same order, line after line: the search begins behind the last one. */
static struct anomaly_series *series_of(struct anomaly_set *s, const struct anomaly_sample *sample)
{
    for (size_t i = 0; i < s->series_count; i++) {
        size_t at = (s->hint + i) % s->series_count;
        struct anomaly_series *x = s->series[at];
        if (x->rank == sample->rank && strcmp(x->metric, sample->metric) == 0) {
            s->hint = at + 1;
            return x;
        }
    }
    if (s->series_count == ANOMALY_SERIES_MAX) {
        s->dropped++;
        return NULL;
    }
    return series_new(s, sample);
}

void anomaly_add(struct anomaly_set *s, const struct anomaly_sample *sample)
{
    static const char *const positions[] = {"step", "epoch", "total_steps"};
    for (size_t i = 0; i < ARRAY_LEN(positions); i++) {
        if (strcmp(sample->metric, positions[i]) == 0) {
            return; /* where a value stands, no value */
        }
    }
    struct anomaly_series *x = series_of(s, sample);
    if (x == NULL) {
        return;
    }
    if (sample->step >= 0 && !x->counted && sample->step < x->step) {
        anomaly_series_restart(x);
    }
    x->count++;
    x->counted |= sample->step < 0;
    x->step = x->counted ? (int64_t)x->count : sample->step;
    x->first_step = x->count == 1 ? x->step : x->first_step;
    bool finite = isfinite(sample->value);
    x->finite += finite;
    x->not_finite += !finite;
    anomaly_series_take(s, x, sample);
    if (finite) {
        x->last = sample->value;
        x->least = !(x->last >= x->least) ? x->last : x->least;
        x->most = !(x->last <= x->most) ? x->last : x->most;
        anomaly_ranks_compare(s, x, sample);
    }
    s->stalled = false;
}

void anomaly_fact(struct anomaly_set *s, const char *name, double value)
{
    if (!(value > 0) || !isfinite(value)) {
        return;
    }
    if (strcmp(name, "vocabulary") == 0) {
        s->vocabulary = value;
        return;
    }
    for (size_t i = 0; i < s->source_count; i++) {
        if (strcmp(s->sources[i].name, name) == 0) {
            s->sources[i].steps = value;
            return;
        }
    }
    if (s->source_count < ANOMALY_SOURCES_MAX) {
        s->sources[s->source_count++] = (struct period_source){.name = arena_strdup(s->arena, name),
                                                               .steps = value};
    }
}

void anomaly_tell(struct anomaly_set *s, const struct anomaly *a)
{
    s->counts[a->kind]++;
    s->severities[a->severity]++;
    if (s->found != NULL) {
        s->found(s->ctx, a);
    }
}

void anomaly_finish(struct anomaly_set *s)
{
    for (size_t i = 0; i < s->series_count; i++) {
        struct anomaly_series *x = s->series[i];
        struct anomaly_sample end = {.metric = x->metric, .rank = x->rank, .time = NAN};
        anomaly_series_period(s, x, true, &end);
    }
}

size_t anomaly_series_count(const struct anomaly_set *s)
{
    return s->series_count;
}

struct anomaly_view anomaly_series_view(const struct anomaly_set *s, size_t index)
{
    const struct anomaly_series *x = s->series[index];
    double level = anomaly_window_quantile(&x->level, 0.5);
    bool log_scale = x->family == FAMILY_NORM || x->family == FAMILY_TIME ||
                     x->family == FAMILY_RATE;
    return (struct anomaly_view){.metric = x->metric,
                                 .rank = x->rank,
                                 .count = x->count,
                                 .not_finite = x->not_finite,
                                 .last = x->last,
                                 .median = log_scale ? exp(level) : level,
                                 .least = x->least,
                                 .most = x->most,
                                 .step = x->step,
                                 .judged = x->family == FAMILY_PLAIN ||
                                           x->family == FAMILY_MEMORY ||
                                           x->finite >= ANOMALY_WARM_UP,
                                 .looked = x->family != FAMILY_PLAIN && x->family != FAMILY_MEMORY};
}

uint64_t anomaly_count(const struct anomaly_set *s, enum anomaly_kind kind)
{
    return s->counts[kind];
}

uint64_t anomaly_count_severity(const struct anomaly_set *s, enum severity severity)
{
    return s->severities[severity];
}

uint64_t anomaly_dropped(const struct anomaly_set *s)
{
    return s->dropped;
}
