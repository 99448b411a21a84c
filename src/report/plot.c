// SPDX-License-Identifier: Apache-2.0
/* See plot.h. */
#include "report/plot.h"

#include <math.h>
#include <stdlib.h>

static int by_value(const void *pa, const void *pb)
{
    double a = *(const double *)pa;
    double b = *(const double *)pb;
    return a < b ? -1 : a > b;
}

void report_curve_summary(const struct report_curve *c, struct curve_summary *ret_summary)
{
    struct curve_summary s = {.first = NAN,
                              .last = NAN,
                              .least = NAN,
                              .most = NAN,
                              .median = NAN,
                              .from_x = NAN,
                              .to_x = NAN,
                              .first_not_finite_x = NAN};
    struct arena *scratch = arena_new(0);
    double *sorted = arena_array(scratch, c->count + 1, sizeof *sorted);
    for (size_t i = 0; i < c->count; i++) {
        double y = c->y[i];
        if (!isfinite(y)) {
            if (s.not_finite++ == 0) {
                s.first_not_finite_x = c->x[i];
            }
            continue;
        }
        sorted[s.finite] = y;
        if (s.finite++ == 0) {
            s.first = s.least = s.most = y;
        }
        s.last = y;
        s.least = y < s.least ? y : s.least;
        s.most = y > s.most ? y : s.most;
    }
    if (s.finite != 0) {
        qsort(sorted, s.finite, sizeof *sorted, by_value);
        s.median = (sorted[(s.finite - 1) / 2] + sorted[s.finite / 2]) / 2;
    }
    if (c->count != 0) {
        s.from_x = c->x[0];
        s.to_x = c->x[c->count - 1];
    }
    arena_free(scratch);
    *ret_summary = s;
}

/* Of the points [from, to): the least, the most and one gap, in their order. */
static size_t keep_stretch(const struct report_curve *c, size_t from, size_t to, double *x,
                           double *y)
{
    size_t chosen[3];
    size_t n = 0;
    size_t least = SIZE_MAX;
    size_t most = SIZE_MAX;
    size_t gap = SIZE_MAX;
    for (size_t i = from; i < to; i++) {
        if (!isfinite(c->y[i])) {
            gap = gap == SIZE_MAX ? i : gap;
            continue;
        }
        least = least == SIZE_MAX || c->y[i] < c->y[least] ? i : least;
        most = most == SIZE_MAX || c->y[i] > c->y[most] ? i : most;
    }
    for (size_t i = from; i < to; i++) {
        if (i == least || i == most || i == gap) {
            chosen[n++] = i;
        }
    }
    for (size_t i = 0; i < n; i++) {
        x[i] = c->x[chosen[i]];
        y[i] = c->y[chosen[i]];
    }
    return n;
}

void report_curve_thin(struct arena *a, const struct report_curve *c, size_t room,
                       struct report_curve *ret_curve)
{
    *ret_curve = *c;
    size_t stretches = room / 3;
    if (c->count <= room || stretches == 0) {
        return;
    }
    double *x = arena_array(a, stretches * 3, sizeof *x);
    double *y = arena_array(a, stretches * 3, sizeof *y);
    size_t n = 0;
    for (size_t s = 0; s < stretches; s++) {
        n += keep_stretch(c, c->count * s / stretches, c->count * (s + 1) / stretches, x + n,
                          y + n);
    }
    ret_curve->x = x;
    ret_curve->y = y;
    ret_curve->count = n;
}

bool report_plot_logarithmic(const struct report_plot *p)
{
    for (size_t i = 0; i < p->curve_count; i++) {
        for (size_t n = 0; n < p->curves[i].count; n++) {
            double y = p->curves[i].y[n];
            if (isfinite(y) && !(y > 0)) {
                return false;
            }
        }
    }
    return p->logarithmic;
}

void report_number_text(struct strbuf *out, double v)
{
    if (!isfinite(v)) {
        strbuf_addz(out, isnan(v) ? "NaN" : v > 0 ? "infinite" : "-infinite");
    } else if (fabs(v) >= 1e7 || (v != 0 && fabs(v) < 1e-4)) {
        strbuf_fmt(out, "%.3g", v);
    } else if (fabs(v) >= 1000) {
        strbuf_fmt(out, "%.0f", v);
    } else {
        strbuf_fmt(out, "%.4g", v);
    }
}
