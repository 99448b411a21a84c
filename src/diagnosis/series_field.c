// SPDX-License-Identifier: Apache-2.0
/* Derived numbers of series and runs, by name: what conditions may ask for. */
#include "diagnosis/series_field.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/str.h"

enum field_kind {
    FIELD_COUNT = 0,
    FIELD_INDEX,
    FIELD_REAL,
    FIELD_BOOL
};

struct field {
    const char *name;
    enum field_kind kind;
    size_t offset; /* in struct series_stats */
};

#define STAT(name, kind)                           \
 {                                                 \
#  name, kind, offsetof(struct series_stats, name) \
 }

static const struct field fields[] = {
    STAT(count, FIELD_COUNT),
    STAT(nan_count, FIELD_COUNT),
    STAT(inf_count, FIELD_COUNT),
    STAT(zero_count, FIELD_COUNT),
    STAT(zero_tail, FIELD_COUNT),
    STAT(longest_zero, FIELD_COUNT),
    STAT(first_nan_index, FIELD_INDEX),
    STAT(first, FIELD_REAL),
    STAT(last, FIELD_REAL),
    STAT(min, FIELD_REAL),
    STAT(max, FIELD_REAL),
    STAT(median, FIELD_REAL),
    STAT(before_nan, FIELD_REAL),
    STAT(spike_ratio, FIELD_REAL),
    STAT(spike_recovered, FIELD_BOOL),
    STAT(flat, FIELD_BOOL),
    STAT(rising, FIELD_BOOL),
    STAT(falling, FIELD_BOOL),
};

static bool stat_value(const struct series *s, const struct field *f, struct value *ret_value)
{
    const char *at = (const char *)&s->stats + f->offset;
    uint64_t count;
    int64_t index;
    double real;
    bool flag;
    switch (f->kind) {
    case FIELD_COUNT:
        memcpy(&count, at, sizeof count);
        *ret_value = value_int((int64_t)count);
        return true;
    case FIELD_INDEX:
        memcpy(&index, at, sizeof index);
        *ret_value = value_int(index);
        return s->stats.count != 0;
    case FIELD_REAL:
        memcpy(&real, at, sizeof real);
        *ret_value = value_real(real);
        /* before_nan of a series without NaN, the median of one without numbers: not there */
        return !isnan(real) &&
               (strcmp(f->name, "before_nan") != 0 || s->stats.first_nan_index >= 0);
    case FIELD_BOOL:
        memcpy(&flag, at, sizeof flag);
        *ret_value = value_bool(flag);
        return s->stats.count != 0;
    }
    return false;
}

bool series_field(struct arena *scratch, const struct series *s, const char *field,
                  struct value *ret_value)
{
    (void)scratch;
    static const struct series none = {.stats = {.first_nan_index = -1,
                                                 .first = NAN,
                                                 .last = NAN,
                                                 .min = NAN,
                                                 .max = NAN,
                                                 .median = NAN,
                                                 .before_nan = NAN,
                                                 .spike_ratio = NAN}};
    s = s != NULL ? s : &none;
    if (strcmp(field, "bad_all_ranks") == 0) {
        *ret_value = value_int((int64_t)s->nan_all_ranks);
        return true;
    }
    if (strcmp(field, "max_over_median") == 0) {
        *ret_value = value_real(s->stats.max / s->stats.median);
        return isfinite(ret_value->real);
    }
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if (strcmp(fields[i].name, field) == 0) {
            return stat_value(s, &fields[i], ret_value);
        }
    }
    return false;
}

static bool text_or_absent(const char *text, struct value *ret_value)
{
    if (text == NULL) {
        return false;
    }
    *ret_value = value_string(text);
    return true;
}

bool run_field(const struct run_summary *r, const char *field, struct value *ret_value)
{
    const struct {
        const char *name;
        int64_t value;
        int64_t unknown;
    } numbers[] = {{"steps", r->steps, -1},          {"total_steps", r->total_steps, -1},
                   {"ranks", r->ranks, 0},           {"lines", (int64_t)r->lines, -1},
                   {"bytes", (int64_t)r->bytes, -1}, {"killed_signal", r->killed_signal, -1},
                   {"exit_code", r->exit_code, -1}};

    const struct {
        const char *name;
        bool value;
    } flags[] = {{"completed", r->completed},
                 {"died", r->died},
                 {"last_line_is_progress", r->last_line_is_progress},
                 {"kernel_log", r->kernel_log}};

    const struct {
        const char *name;
        const char *value;
    } texts[] = {{"phase", r->phase},
                 {"exception", r->exception},
                 {"exception_text", r->exception_text},
                 {"first_failed_rank", r->first_failed_rank}};

    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        if (strcmp(flags[i].name, field) == 0) {
            *ret_value = value_bool(flags[i].value);
            return true;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        if (strcmp(numbers[i].name, field) == 0) {
            *ret_value = value_int(numbers[i].value);
            return numbers[i].value != numbers[i].unknown;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (strcmp(texts[i].name, field) == 0) {
            return text_or_absent(texts[i].value, ret_value);
        }
    }
    return false;
}
