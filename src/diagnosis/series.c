// SPDX-License-Identifier: Apache-2.0
/* Metric series; see series.h. */
#include "diagnosis/series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

enum {
    WINDOW = 16,
    WINDOW_MIN = 3,
    LANES = 4
};

/* A series with what its statistics need while it grows. */
struct growing {
    struct series s;
    double window[WINDOW]; /* the last finite values; free places are 0 */
    double sums[LANES];    /* of every LANES-th place of the window */
    size_t window_count;
    size_t window_at;
    double spike_base; /* mean before the largest spike */
    uint64_t zero_run;
};

struct series_set {
    struct arena *arena;
    VEC_OF(struct growing *) items;
    size_t hint; /* the same metrics come in the same order, line after line */
};

struct series_set *series_set_new(struct arena *a)
{
    struct series_set *s = arena_alloc(a, sizeof *s);
    s->arena = a;
    return s;
}

static struct growing *find(struct series_set *set, const char *name, int rank)
{
    for (size_t i = 0, at = set->hint; i < set->items.count; i++, at++) {
        at = at < set->items.count ? at : 0;
        struct growing *g = set->items.items[at];
        if (g->s.rank == rank && strcmp(g->s.name, name) == 0) {
            set->hint = at + 1;
            return g;
        }
    }
    if (set->items.count == SERIES_MAX) {
        return NULL;
    }
    struct growing *g = arena_alloc(set->arena, sizeof *g);
    g->s = (struct series){.name = arena_strdup(set->arena, name), .rank = rank, .stride = 1};
    g->s.stats = (struct series_stats){.first_nan_index = -1,
                                       .first = NAN,
                                       .last = NAN,
                                       .min = NAN,
                                       .max = NAN,
                                       .median = NAN,
                                       .before_nan = NAN,
                                       .spike_ratio = NAN,
                                       .flat = true};
    *VEC_PUSH(set->arena, &set->items) = g;
    return g;
}

/* Keeps every stride-th value (a power of two); halves what is kept when it grows too long. */
static void keep(struct arena *a, struct series *s, double value, uint64_t line)
{
    if (((s->stats.count - 1) & (s->stride - 1)) != 0) {
        return;
    }
    if (s->count == SERIES_KEPT) {
        for (size_t i = 0; i < SERIES_KEPT / 2; i++) {
            s->values[i] = s->values[2 * i];
            s->lines[i] = s->lines[2 * i];
        }
        s->count = SERIES_KEPT / 2;
        s->stride *= 2;
        if (((s->stats.count - 1) & (s->stride - 1)) != 0) {
            return;
        }
    }
    if (s->count == s->capacity) {
        size_t grown = s->capacity == 0 ? 16 : s->capacity * 2;
        s->values = arena_grow(a, s->values, s->capacity * sizeof *s->values,
                               grown * sizeof *s->values);
        s->lines = arena_grow(a, s->lines, s->capacity * sizeof *s->lines,
                              grown * sizeof *s->lines);
        s->capacity = grown;
    }
    s->values[s->count] = value;
    s->lines[s->count++] = line;
}

static double window_mean(const struct growing *g)
{
    double all = g->sums[0] + g->sums[1] + (g->sums[2] + g->sums[3]);
    return g->window_count != 0 ? all / (double)g->window_count : NAN;
}

/* The oldest value gives way to a new one. Its lane is summed up anew, for no rounding may stay behind. */
static void window_put(struct growing *g, double v)
{
    const double *lane = &g->window[g->window_at % LANES];
    g->window[g->window_at] = v;
    g->sums[g->window_at % LANES] = lane[0] + lane[LANES] + lane[2 * LANES] + lane[3 * LANES];
    g->window_at = (g->window_at + 1) % WINDOW;
    g->window_count += g->window_count < WINDOW;
}

/* A spike stands out of the values before it; losses that start high are none. */
static void track_spike(struct growing *g, double v)
{
    struct series_stats *st = &g->s.stats;
    double mean = window_mean(g);
    if (g->window_count >= WINDOW_MIN && mean > 0) {
        double ratio = v / mean;
        if (!(ratio <= st->spike_ratio)) { /* also when there was none yet */
            st->spike_ratio = ratio;
            st->spike_recovered = false;
            g->spike_base = mean;
        } else {
            st->spike_recovered = st->spike_recovered || v <= g->spike_base * 1.2;
        }
    }
    window_put(g, v);
}

/* Not a number, or infinite. */
static void track_bad(struct growing *g, double v)
{
    struct series_stats *st = &g->s.stats;
    st->flat = false;
    st->nan_count += isnan(v) != 0;
    st->inf_count += isinf(v) != 0;
    if (st->first_nan_index < 0) {
        st->first_nan_index = (int64_t)st->count - 1;
    }
    g->zero_run = 0;
    st->zero_tail = 0;
}

static void track(struct growing *g, double v)
{
    struct series_stats *st = &g->s.stats;
    if (!isfinite(v)) {
        track_bad(g, v);
        return;
    }
    st->first = isnan(st->first) ? v : st->first;
    st->last = v;
    st->flat = st->flat && v == st->first;
    if (st->first_nan_index < 0) {
        st->before_nan = v;
    }
    st->min = !(v >= st->min) ? v : st->min;
    st->max = !(v <= st->max) ? v : st->max;
    if (v == 0) {
        st->zero_count++;
        g->zero_run++;
        st->longest_zero = g->zero_run > st->longest_zero ? g->zero_run : st->longest_zero;
    } else {
        g->zero_run = 0;
    }
    st->zero_tail = g->zero_run;
    track_spike(g, v);
}

static void add(struct series_set *set, struct growing *g, double value, uint64_t line)
{
    g->s.stats.count++;
    track(g, value);
    keep(set->arena, &g->s, value, line);
}

void series_add(struct series_set *set, const char *name, int rank, double value, uint64_t line)
{
    struct growing *g = find(set, name, rank);
    if (g != NULL) {
        add(set, g, value, line);
    }
}

void series_add_at(struct series_set *set, struct series_place *place, const char *name, int rank,
                   double value, uint64_t line)
{
    if (place->series == NULL || place->rank != rank) {
        *place = (struct series_place){.series = find(set, name, rank), .rank = rank};
    }
    if (place->series != NULL) {
        add(set, place->series, value, line);
    }
}

/* The k-th smallest of n values, which are reordered (Hoare's selection). */
static double select_value(double *v, size_t n, size_t k)
{
    size_t low = 0;
    size_t high = n - 1;
    while (low < high) {
        double pivot = v[low + (high - low) / 2];
        size_t i = low;
        size_t j = high;
        for (;;) {
            while (v[i] < pivot) {
                i++;
            }
            while (v[j] > pivot) {
                j--;
            }
            if (i >= j) {
                break;
            }
            double spare = v[i];
            v[i++] = v[j];
            v[j--] = spare;
        }
        size_t split = v[j] > pivot ? j - 1 : j;
        if (k <= split) {
            high = split;
        } else {
            low = split + 1;
        }
    }
    return v[k];
}

/* Median of the finite values in [from, to), NaN without any. */
static double median_of(const struct series *s, size_t from, size_t to, double *scratch)
{
    size_t n = 0;
    for (size_t i = from; i < to; i++) {
        if (isfinite(s->values[i])) {
            scratch[n++] = s->values[i];
        }
    }
    if (n == 0) {
        return NAN;
    }
    double upper = select_value(scratch, n, n / 2);
    return n % 2 != 0 ? upper : (select_value(scratch, n, n / 2 - 1) + upper) / 2;
}

/* The last quarter against the first, by medians; needs eight values and a tenth of difference. */
static void trend(struct series *s, double *scratch)
{
    s->stats.rising = false;
    s->stats.falling = false;
    if (s->count < 8) {
        return;
    }
    size_t quarter = s->count / 4;
    double early = median_of(s, 0, quarter, scratch);
    double late = median_of(s, s->count - quarter, s->count, scratch);
    double margin = 0.1 * fabs(early);
    s->stats.rising = late > early + margin;
    s->stats.falling = late < early - margin;
}

/* Rank 0 and lines without a rank speak for the run when they say as much as the others. */
static bool speaks_better(const struct series *a, const struct series *b)
{
    if (a->stats.count != b->stats.count) {
        return a->stats.count > b->stats.count;
    }
    return a->rank < b->rank;
}

struct map *series_finish(struct series_set *set, struct arena *a)
{
    struct map *out = map_new(a);
    for (size_t i = 0; i < set->items.count; i++) {
        struct series *s = &set->items.items[i]->s;
        struct series *best = map_get(out, str_of(s->name));
        uint64_t bad = s->stats.nan_count + s->stats.inf_count;
        if (best == NULL) {
            s->nan_all_ranks = bad;
            map_put(out, str_of(s->name), s);
            continue;
        }
        uint64_t all = best->nan_all_ranks + bad;
        if (speaks_better(s, best)) {
            map_put(out, str_of(s->name), s);
            best = s;
        }
        best->nan_all_ranks = all;
    }
    for (size_t i = 0; i < map_count(out); i++) {
        struct series *s = map_value(out, i);
        double *scratch = arena_array(a, s->count + 1, sizeof *scratch);
        s->stats.median = median_of(s, 0, s->count, scratch);
        trend(s, scratch);
        s->stats.flat = s->stats.flat && s->stats.count >= 3;
    }
    return out;
}
