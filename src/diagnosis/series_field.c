// SPDX-License-Identifier: Apache-2.0
/* Derived numbers of series and runs. All statistics but counts are over finite values. */
#include "diagnosis/series_field.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

struct finite {
    const double *values;
    size_t count;
};

static struct finite finite_of(struct arena *a, const struct series *s)
{
    double *values = arena_array(a, s->count + 1, sizeof *values);
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (isfinite(s->values[i])) {
            values[n++] = s->values[i];
        }
    }
    return (struct finite){.values = values, .count = n};
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(struct arena *a, const double *values, size_t count)
{
    double *sorted = arena_array(a, count + 1, sizeof *sorted);
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_size);
    return count % 2 != 0 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static double extreme(const struct finite *f, bool largest)
{
    double best = f->values[0];
    for (size_t i = 1; i < f->count; i++) {
        if (largest ? f->values[i] > best : f->values[i] < best) {
            best = f->values[i];
        }
    }
    return best;
}

static int64_t count_if(const struct series *s, int kind)
{
    int64_t n = 0;
    for (size_t i = 0; i < s->count; i++) {
        double v = s->values[i];
        n += kind == 0 ? isnan(v) != 0 : kind == 1 ? isinf(v) != 0 : v == 0;
    }
    return n;
}

static int64_t first_nan(const struct series *s)
{
    for (size_t i = 0; i < s->count; i++) {
        if (isnan(s->values[i])) {
            return (int64_t)i;
        }
    }
    return -1;
}

static int64_t zero_tail(const struct series *s)
{
    int64_t n = 0;
    for (size_t i = s->count; i != 0 && s->values[i - 1] == 0; i--) {
        n++;
    }
    return n;
}

/* Integer-valued fields; -2 when the field is none of them. */
static int64_t count_field(const struct series *s, const char *field)
{
    if (strcmp(field, "count") == 0) {
        return (int64_t)s->count;
    }
    if (strcmp(field, "nan_count") == 0) {
        return count_if(s, 0);
    }
    if (strcmp(field, "inf_count") == 0) {
        return count_if(s, 1);
    }
    if (strcmp(field, "zero_count") == 0) {
        return count_if(s, 2);
    }
    if (strcmp(field, "zero_tail") == 0) {
        return zero_tail(s);
    }
    if (strcmp(field, "first_nan_index") == 0) {
        return first_nan(s);
    }
    return -2;
}

/* The last quarter lies above the first by a tenth or more; needs eight values. */
static bool is_rising(struct arena *a, const struct finite *f)
{
    if (f->count < 8) {
        return false;
    }
    size_t quarter = f->count / 4;
    double early = median_of(a, f->values, quarter);
    double late = median_of(a, f->values + f->count - quarter, quarter);
    return late > early + 0.1 * fabs(early);
}

static bool number_field(struct arena *a, const struct series *s, const char *field,
                         struct value *ret_value)
{
    struct finite f = finite_of(a, s);
    if (strcmp(field, "before_nan") == 0) {
        int64_t at = first_nan(s);
        for (int64_t i = at - 1; i >= 0; i--) {
            if (isfinite(s->values[i])) {
                *ret_value = value_real(s->values[i]);
                return true;
            }
        }
        return false;
    }
    if (f.count == 0) {
        return false;
    }
    double median = median_of(a, f.values, f.count);
    double largest = extreme(&f, true);
    if (strcmp(field, "flat") == 0) {
        *ret_value = value_bool(s->count >= 3 && f.count == s->count &&
                                largest == extreme(&f, false));
    } else if (strcmp(field, "rising") == 0) {
        *ret_value = value_bool(is_rising(a, &f));
    } else if (strcmp(field, "first") == 0) {
        *ret_value = value_real(f.values[0]);
    } else if (strcmp(field, "last") == 0) {
        *ret_value = value_real(f.values[f.count - 1]);
    } else if (strcmp(field, "min") == 0) {
        *ret_value = value_real(extreme(&f, false));
    } else if (strcmp(field, "max") == 0) {
        *ret_value = value_real(largest);
    } else if (strcmp(field, "median") == 0) {
        *ret_value = value_real(median);
    } else if (strcmp(field, "spike_ratio") == 0 && median > 0) {
        *ret_value = value_real(largest / median);
    } else {
        return false;
    }
    return true;
}

bool series_field(struct arena *scratch, const struct series *s, const char *field,
                  struct value *ret_value)
{
    static const struct series none = {0};
    if (s == NULL) {
        s = &none;
    }
    int64_t n = count_field(s, field);
    if (n != -2) {
        *ret_value = value_int(n);
        return s->count != 0 || strcmp(field, "first_nan_index") != 0;
    }
    struct arena_mark mark = arena_mark(scratch);
    bool found = number_field(scratch, s, field, ret_value);
    arena_rewind(scratch, mark);
    return found;
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
                   {"bytes", (int64_t)r->bytes, -1}, {"killed_signal", r->killed_signal, -1}};

    const struct {
        const char *name;
        bool value;
    } flags[] = {{"completed", r->completed},
                 {"died", r->died},
                 {"last_line_is_progress", r->last_line_is_progress}};

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
