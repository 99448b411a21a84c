// SPDX-License-Identifier: Apache-2.0
/* See anomaly_window.h. Insertion into a sorted array: for a few hundred values faster than a tree. */
#include "study/anomaly_window.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

void anomaly_window_init(struct anomaly_window *w, struct arena *a, size_t capacity)
{
    *w = (struct anomaly_window){.ring = arena_array(a, capacity, sizeof *w->ring),
                                 .sorted = arena_array(a, capacity, sizeof *w->sorted),
                                 .capacity = capacity,
                                 .limit = capacity};
}

void anomaly_window_clear(struct anomaly_window *w)
{
    w->count = 0;
    w->at = 0;
}

/* Index of the first sorted value that is not below `v`. */
static size_t place_of(const struct anomaly_window *w, double v)
{
    size_t low = 0;
    size_t high = w->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->sorted[middle] < v) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void anomaly_window_add(struct anomaly_window *w, double v)
{
    if (!isfinite(v) || w->capacity == 0) {
        return;
    }
    if (w->count == w->limit) {
        size_t oldest = (w->at + w->capacity - w->count) % w->capacity;
        size_t old = place_of(w, w->ring[oldest]);
        memmove(w->sorted + old, w->sorted + old + 1, (w->count - old - 1) * sizeof *w->sorted);
        w->count--;
    }
    size_t at = place_of(w, v);
    memmove(w->sorted + at + 1, w->sorted + at, (w->count - at) * sizeof *w->sorted);
    w->sorted[at] = v;
    w->count++;
    w->ring[w->at] = v;
    w->at = (w->at + 1) % w->capacity;
}

double anomaly_window_quantile(const struct anomaly_window *w, double q)
{
    if (w->count == 0 || !(q >= 0 && q <= 1)) {
        return NAN;
    }
    double place = q * (double)(w->count - 1);
    size_t below = (size_t)place;
    size_t above = below + 1 < w->count ? below + 1 : below;
    double part = place - (double)below;
    return w->sorted[below] + (w->sorted[above] - w->sorted[below]) * part;
}

/* Distances grow to both sides of the centre: the two sides are merged up to the middle one. */
double anomaly_window_mad(const struct anomaly_window *w, double centre)
{
    if (w->count == 0 || !isfinite(centre)) {
        return NAN;
    }
    size_t right = place_of(w, centre);
    size_t left = right; /* values below: sorted[left - 1] */
    double middle[2] = {0, 0};
    size_t wanted = w->count / 2;
    for (size_t i = 0; i <= wanted; i++) {
        bool take_left = left != 0 && (right == w->count ||
                                       centre - w->sorted[left - 1] <= w->sorted[right] - centre);
        double d = take_left ? centre - w->sorted[left - 1] : w->sorted[right] - centre;
        left -= take_left;
        right += !take_left;
        middle[0] = middle[1];
        middle[1] = d;
    }
    return w->count % 2 != 0 ? middle[1] : (middle[0] + middle[1]) / 2;
}
