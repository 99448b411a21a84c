// SPDX-License-Identifier: Apache-2.0
/* See plot.h. */
#include "cli/compare/plot.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>

enum {
    ROWS = 10,
    COLUMNS_MAX = 100,
    COLUMNS_MIN = 24,
    LABEL = 10 /* columns left of the axis */
};

struct field {
    unsigned char marks[ROWS][COLUMNS_MAX]; /* bit 1: a, bit 2: b */
    int columns;
    double low, high;
    int64_t first, last;
    size_t points;
};

static void extend(struct field *f, const struct curve *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct curve_point *p = &c->items[i];
        if (!isfinite(p->value)) {
            continue;
        }
        f->low = f->points == 0 || p->value < f->low ? p->value : f->low;
        f->high = f->points == 0 || p->value > f->high ? p->value : f->high;
        f->first = f->points == 0 || p->step < f->first ? p->step : f->first;
        f->last = f->points == 0 || p->step > f->last ? p->step : f->last;
        f->points++;
    }
}

/* The mean of the points that fall into a column. */
static void draw(struct field *f, const struct curve *c, unsigned char mark)
{
    double sum[COLUMNS_MAX] = {0};
    int count[COLUMNS_MAX] = {0};
    double steps = (double)(f->last - f->first);
    for (size_t i = 0; i < c->count; i++) {
        if (isfinite(c->items[i].value)) {
            double at = steps > 0 ? (double)(c->items[i].step - f->first) / steps : 0;
            int column = (int)(at * (f->columns - 1) + 0.5);
            sum[column] += c->items[i].value;
            count[column]++;
        }
    }
    for (int x = 0; x < f->columns; x++) {
        if (count[x] > 0) {
            double range = f->high - f->low;
            double at = range > 0 ? (f->high - sum[x] / count[x]) / range : 0.5;
            f->marks[(int)(at * (ROWS - 1) + 0.5)][x] |= mark;
        }
    }
}

void plot_curves(struct strbuf *out, const char *title, const struct plot_curve *a,
                 const struct plot_curve *b, int width)
{
    static const char *const signs[] = {" ", "o", "x", "*"};
    struct field f = {.columns = width - LABEL - 3};
    f.columns = f.columns > COLUMNS_MAX ? COLUMNS_MAX : f.columns;
    f.columns = f.columns < COLUMNS_MIN ? COLUMNS_MIN : f.columns;
    extend(&f, a->curve);
    extend(&f, b->curve);
    if (f.points < 2) {
        return;
    }
    draw(&f, a->curve, 1);
    draw(&f, b->curve, 2);
    strbuf_fmt(out, "%s: o %s, x %s, * both\n", title, a->name, b->name);
    for (int y = 0; y < ROWS; y++) {
        double value = f.high - (f.high - f.low) * y / (ROWS - 1);
        if (y % 3 == 0) {
            strbuf_fmt(out, "%*.4g ┤", LABEL, value);
        } else {
            strbuf_fmt(out, "%*s │", LABEL, "");
        }
        int end = f.columns;
        while (end > 0 && f.marks[y][end - 1] == 0) {
            end--;
        }
        for (int x = 0; x < end; x++) {
            strbuf_addz(out, signs[f.marks[y][x]]);
        }
        strbuf_addc(out, '\n');
    }
    strbuf_fmt(out, "%*s └", LABEL, "");
    for (int x = 0; x < f.columns; x++) {
        strbuf_addz(out, "─");
    }
    strbuf_fmt(out, "\n%*s  step %" PRId64 "%*s%" PRId64 "\n\n", LABEL, "", f.first,
               f.columns - 18 > 1 ? f.columns - 18 : 1, "", f.last);
}
