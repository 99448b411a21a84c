// SPDX-License-Identifier: Apache-2.0
/* See loss_align.h. */
#include "study/loss_align.h"

#include <math.h>

#include "study/stats.h"

void loss_align(struct arena *a, const struct curve *const *curves, size_t runs,
                struct aligned *ret_aligned)
{
    struct aligned l = {.runs = runs};
    size_t most = runs > 0 ? curves[0]->count : 0;
    size_t *at = arena_array(a, runs + 1, sizeof *at);
    double *rows = arena_array(a, most * runs + 1, sizeof *rows);
    l.steps = arena_array(a, most + 1, sizeof *l.steps);
    for (size_t i = 0; i < most; i++) {
        int64_t step = curves[0]->items[i].step;
        bool all = true;
        for (size_t r = 0; r < runs && all; r++) {
            while (at[r] < curves[r]->count && curves[r]->items[at[r]].step < step) {
                at[r]++;
            }
            all = at[r] < curves[r]->count && curves[r]->items[at[r]].step == step;
            rows[l.count * runs + r] = all ? curves[r]->items[at[r]].value : NAN;
        }
        if (!all) {
            continue;
        }
        bool finite = true;
        for (size_t r = 0; r < runs; r++) {
            finite = finite && isfinite(rows[l.count * runs + r]);
        }
        if (!finite) {
            break;
        }
        l.steps[l.count++] = step;
    }
    l.values = arena_array(a, l.count * runs + 1, sizeof *l.values);
    for (size_t i = 0; i < l.count; i++) {
        for (size_t r = 0; r < runs; r++) {
            l.values[r * l.count + i] = rows[i * runs + r];
        }
    }
    *ret_aligned = l;
}

double aligned_mean(const struct aligned *l, size_t from, size_t to, size_t i)
{
    double sum = 0;
    for (size_t r = from; r < to; r++) {
        sum += l->values[r * l->count + i];
    }
    return sum / (double)(to - from);
}

size_t aligned_windows(struct arena *a, const struct aligned *l, int64_t steps,
                       struct aligned_window **ret_windows)
{
    struct aligned_window *out = arena_array(a, l->count + 1, sizeof *out);
    size_t n = 0;
    for (size_t i = 0; i < l->count;) {
        size_t end = i;
        while (end < l->count && l->steps[end] < l->steps[i] + steps) {
            end++;
        }
        out[n++] = (struct aligned_window){.begin = i, .end = end};
        i = end;
    }
    if (n >= 2 && 2 * (out[n - 1].end - out[n - 1].begin) < out[n - 2].end - out[n - 2].begin) {
        out[n - 2].end = out[n - 1].end;
        n--;
    }
    *ret_windows = out;
    return n;
}

double aligned_window_mean(const struct aligned *l, size_t run, struct aligned_window w)
{
    return stats_mean(l->values + run * l->count + w.begin, w.end - w.begin);
}
