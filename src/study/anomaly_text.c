// SPDX-License-Identifier: Apache-2.0
/* Anomalies in words: one row a kind and family of metric; see anomaly.h. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"

#include "study/anomaly.h"

struct words {
    enum anomaly_kind kind;
    const char *metric; /* NULL: any; a row with a metric comes before the general one */
    const char *what;   /* "the loss jumped" */
    const char *may_mean;
    const char *remedy[3];
};

static const struct words table[] = {
#include "study/anomaly_words.def"
};

static const char *const names[] = {
    [ANOMALY_NOT_FINITE] = "not-finite",
    [ANOMALY_SPIKE] = "spike",
    [ANOMALY_DROP] = "drop",
    [ANOMALY_SHIFT_UP] = "shift-up",
    [ANOMALY_SHIFT_DOWN] = "shift-down",
    [ANOMALY_SAME] = "repeated",
    [ANOMALY_ZERO] = "zero",
    [ANOMALY_GUESSING] = "worse-than-guessing",
    [ANOMALY_TAIL] = "slow-steps",
    [ANOMALY_SLOW_RANK] = "slow-rank",
    [ANOMALY_MEMORY] = "uneven-memory",
    [ANOMALY_THROTTLED] = "throttled",
    [ANOMALY_PERIOD] = "period",
    [ANOMALY_STALL] = "stall",
};
_Static_assert(ARRAY_LEN(names) == ANOMALY_KIND_COUNT, "a name for each kind");

const char *anomaly_kind_name(enum anomaly_kind kind)
{
    return names[kind];
}

static const struct words *words_of(const struct anomaly *a)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        bool metric = table[i].metric == NULL || strcmp(table[i].metric, a->metric) == 0;
        if (table[i].kind == a->kind && metric) {
            return &table[i];
        }
    }
    return &table[ARRAY_LEN(table) - 1]; /* not reached: each kind has a general row */
}

/* Bytes and seconds are read more easily in larger units. */
static void add_value(struct strbuf *out, const struct anomaly *a, double v)
{
    if (strstr(a->metric, "memory") != NULL && isfinite(v)) {
        strbuf_fmt(out, "%.4g GiB", v / 1073741824.0);
    } else if (a->kind == ANOMALY_STALL || strstr(a->metric, "time") != NULL) {
        strbuf_fmt(out, a->kind == ANOMALY_PERIOD ? "%.4g" : "%.4g s", v);
    } else if (a->kind == ANOMALY_THROTTLED) {
        strbuf_fmt(out, "%.4g MHz", v);
    } else {
        strbuf_fmt(out, "%.4g", v);
    }
}

static void add_expected(struct strbuf *out, const struct anomaly *a)
{
    bool low = isfinite(a->low);
    bool high = isfinite(a->high);
    if (!low && !high) {
        return;
    }
    strbuf_addz(out, ", expected ");
    if (low && high) {
        add_value(out, a, a->low);
        strbuf_addz(out, " to ");
        add_value(out, a, a->high);
    } else {
        strbuf_addz(out, low ? "at least " : "at most ");
        add_value(out, a, low ? a->low : a->high);
    }
}

static void add_detail(struct strbuf *out, const struct anomaly *a)
{
    switch (a->kind) {
    case ANOMALY_SAME: strbuf_fmt(out, "%.10g, %.0f times in a row", a->value, a->extra); return;
    case ANOMALY_ZERO: strbuf_fmt(out, "0, %.0f times in a row", a->extra); return;
    case ANOMALY_PERIOD:
        strbuf_fmt(out, "every %.10g %s (autocorrelation %.2f, noise stays below %.2f)",
                   a->extra < 100 ? round(a->extra * 10) / 10 : round(a->extra),
                   a->counted ? "values" : "steps", a->value, a->high);
        if (a->source_name != NULL && a->times == 1 && a->of == 1) {
            strbuf_fmt(out, ": the length of %s", a->source_name);
        } else if (a->source_name != NULL && a->of == 1) {
            strbuf_fmt(out, ": %u times the length of %s", a->times, a->source_name);
        } else if (a->source_name != NULL) {
            strbuf_fmt(out, ": 1/%u of the length of %s", a->of, a->source_name);
        }
        return;
    case ANOMALY_THROTTLED:
        add_value(out, a, a->value);
        strbuf_fmt(out, " at %.0f degrees", a->extra);
        add_expected(out, a);
        return;
    case ANOMALY_GUESSING: strbuf_fmt(out, "%.4g, guessing costs %.4g", a->value, a->high); return;
    case ANOMALY_SHIFT_UP:
    case ANOMALY_SHIFT_DOWN:
        strbuf_addz(out, "now about ");
        add_value(out, a, a->value);
        add_expected(out, a);
        return;
    case ANOMALY_STALL:
        strbuf_fmt(out, "silent for %.0f s, values usually come every %.3g s", a->value, a->extra);
        return;
    default: add_value(out, a, a->value); add_expected(out, a);
    }
}

static bool is_gpu(const struct anomaly *a)
{
    return strncmp(a->metric, "gpu_", 4) == 0;
}

static void add_place(struct strbuf *out, const struct anomaly *a)
{
    if (is_gpu(a)) {
        strbuf_fmt(out, "gpu %d ", a->rank);
    } else if (a->rank >= 0) {
        strbuf_fmt(out, "rank %d ", a->rank);
    }
    if (a->step >= 0) {
        strbuf_fmt(out, "%s %" PRId64 " ", a->counted ? "value" : "step", a->step);
    }
}

void anomaly_line(struct strbuf *out, const struct anomaly *a)
{
    strbuf_fmt(out, "%s %s: ", severity_name(a->severity), names[a->kind]);
    add_place(out, a);
    strbuf_fmt(out, "%s ", a->metric);
    add_detail(out, a);
}

void anomaly_finding(struct arena *arena, const struct anomaly *a, struct finding *ret_finding)
{
    const struct words *w = words_of(a);
    struct strbuf title;
    struct strbuf claim;
    strbuf_init(&title, arena, 400);
    strbuf_init(&claim, arena, 2000);
    add_place(&title, a);
    if (title.n != 0) {
        title.p[title.n - 1] = ':'; /* the space behind the place */
        strbuf_addc(&title, ' ');
    }
    strbuf_addz(&title, w->what);
    strbuf_fmt(&claim, "%s is ", a->metric);
    add_detail(&claim, a);
    strbuf_fmt(&claim, ". %s", w->may_mean);
    struct finding f = {.id = names[a->kind],
                        .severity = a->severity,
                        .title = strbuf_str(&title).p,
                        .claim = strbuf_str(&claim).p,
                        .confidence = a->kind == ANOMALY_NOT_FINITE ? 1 : 0.9};
    for (size_t i = 0; i < ARRAY_LEN(w->remedy) && w->remedy[i] != NULL; i++) {
        *VEC_PUSH(arena, &f.remedy) = w->remedy[i];
    }
    struct strbuf line;
    strbuf_init(&line, arena, 400);
    strbuf_fmt(&line, "%s ", a->metric);
    add_detail(&line, a);
    if (a->file != NULL) {
        *VEC_PUSH(arena, &f.evidence) = (struct evidence){.source = arena_strdup(arena, a->file),
                                                          .line = (long)a->line,
                                                          .text = strbuf_str(&line).p};
    }
    *ret_finding = f;
}
