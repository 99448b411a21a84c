// SPDX-License-Identifier: Apache-2.0
/*
 * See watch_view.h. A braille character holds 2 x 4 dots; where the terminal has no UTF-8, a cell with
 * any dot is a star.
 */
#include "cli/watch/view.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/utf8.h"

enum {
    LABEL_WIDTH = 12,
    ROWS_MAX = 16, /* of one plot */
    COLUMNS_MAX = 200
};

static const struct {
    const char *metric;
    bool log_scale;
} shown[VIEW_PLOTS] = {{"loss", false},
                       {"grad_norm", true},
                       {"step_time", false},
                       {"tokens_per_s", false},
                       {"memory", false}};

void watch_view_init(struct watch_view *v)
{
    *v = (struct watch_view){0};
    for (size_t i = 0; i < VIEW_PLOTS; i++) {
        v->plots[i].each = 1;
        v->plots[i].rank = INT32_MAX;
    }
}

/* Two points become one. */
static void halve(struct view_plot *p)
{
    for (size_t i = 0; i < VIEW_POINTS / 2; i++) {
        const struct view_point *a = &p->points[2 * i];
        p->points[i] = (struct view_point){.least = fmin(a[0].least, a[1].least),
                                           .most = fmax(a[0].most, a[1].most)};
    }
    p->count = VIEW_POINTS / 2;
    p->each *= 2;
}

static void add(struct view_plot *p, double v)
{
    if (p->values++ % p->each == 0) {
        if (p->count == VIEW_POINTS) {
            halve(p);
        }
        p->points[p->count++] = (struct view_point){.least = v, .most = v};
    } else {
        struct view_point *last = &p->points[p->count - 1];
        last->least = fmin(last->least, v);
        last->most = fmax(last->most, v);
    }
}

void watch_view_value(struct watch_view *v, const struct anomaly_sample *sample)
{
    for (size_t i = 0; i < VIEW_PLOTS; i++) {
        struct view_plot *p = &v->plots[i];
        if (strcmp(sample->metric, shown[i].metric) != 0 || sample->rank > p->rank ||
            !isfinite(sample->value) || (shown[i].log_scale && !(sample->value > 0))) {
            continue;
        }
        if (sample->rank < p->rank) {
            *p = (struct view_plot){.each = 1, .rank = sample->rank};
        }
        p->last = sample->value;
        add(p, shown[i].log_scale ? log(sample->value) : sample->value);
    }
}

void watch_view_anomaly(struct watch_view *v, enum severity severity, const char *line)
{
    size_t at = v->recent_count++ % VIEW_RECENT;
    str_print(v->recent[at], VIEW_LINE_MAX, "%s", line);
    v->severities[at] = severity;
}

/* ---- one plot ---- */

struct canvas {
    unsigned char dots[ROWS_MAX][COLUMNS_MAX]; /* bits of U+2800 */
    size_t columns, rows;
};

static void dot(struct canvas *c, size_t x, size_t y)
{
    static const unsigned char bits[4][2] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    if (x / 2 < c->columns && y / 4 < c->rows) {
        c->dots[y / 4][x / 2] |= bits[y % 4][x % 2];
    }
}

static void range_of(const struct view_plot *p, double *ret_least, double *ret_most)
{
    double least = INFINITY;
    double most = -INFINITY;
    for (size_t i = 0; i < p->count; i++) {
        least = fmin(least, p->points[i].least);
        most = fmax(most, p->points[i].most);
    }
    double room = most - least > 0 ? 0 : fabs(least) * 0.05 + 1e-9;
    *ret_least = least - room;
    *ret_most = most + room;
}

static size_t height_of(const struct canvas *c, double v, double least, double most)
{
    double part = (most - v) / (most - least);
    double y = part * (double)(c->rows * 4 - 1);
    return y > 0 ? (size_t)(y + 0.5) : 0;
}

static void plot(struct canvas *c, const struct view_plot *p, double least, double most)
{
    size_t width = c->columns * 2;
    for (size_t x = 0; x < width; x++) {
        size_t i = x * p->count / width;
        size_t end = (x + 1) * p->count / width;
        end = end > i ? end : i + 1;
        double low = p->points[i].least;
        double high = p->points[i].most;
        for (size_t k = i; k < end; k++) {
            low = fmin(low, p->points[k].least);
            high = fmax(high, p->points[k].most);
        }
        size_t bottom = height_of(c, low, least, most);
        for (size_t y = height_of(c, high, least, most); y <= bottom; y++) {
            dot(c, x, y);
        }
    }
}

static void put_cell(struct strbuf *out, unsigned char bits, bool utf8)
{
    if (!utf8) {
        strbuf_addc(out, bits != 0 ? '*' : ' ');
    } else {
        utf8_add(out, 0x2800u + bits);
    }
}

static void label(struct strbuf *out, double v, bool log_scale, bool bytes)
{
    v = log_scale ? exp(v) : v;
    if (bytes) {
        strbuf_fmt(out, "%8.4g GiB ", v / 1073741824.0);
    } else {
        strbuf_fmt(out, "%*.4g ", LABEL_WIDTH - 1, v);
    }
}

static void draw_plot(const struct watch_view *v, size_t index, size_t rows,
                      const struct view_frame *frame, struct strbuf *out)
{
    const struct view_plot *p = &v->plots[index];
    struct canvas c = {.rows = rows < ROWS_MAX ? rows : ROWS_MAX};
    size_t columns = frame->columns > LABEL_WIDTH + 8 ? (size_t)frame->columns - LABEL_WIDTH - 1
                                                      : 8;
    c.columns = columns < COLUMNS_MAX ? columns : COLUMNS_MAX;
    bool bytes = strcmp(shown[index].metric, "memory") == 0;
    double least;
    double most;
    range_of(p, &least, &most);
    plot(&c, p, least, most);
    strbuf_fmt(out, "%s%s%s  ", frame->color ? "\033[1m" : "", shown[index].metric,
               frame->color ? "\033[0m" : "");
    if (p->rank > 0) {
        strbuf_fmt(out, "rank %d  ", p->rank);
    }
    if (bytes) {
        strbuf_fmt(out, "last %.4g GiB", p->last / 1073741824.0);
    } else {
        strbuf_fmt(out, "last %.5g", p->last);
    }
    strbuf_fmt(out, ", %" PRIu64 " values\033[K\n", p->values);
    for (size_t y = 0; y < c.rows; y++) {
        if (y == 0 || y + 1 == c.rows) {
            label(out, y == 0 ? most : least, shown[index].log_scale, bytes);
        } else {
            strbuf_fmt(out, "%*s", LABEL_WIDTH, "");
        }
        for (size_t x = 0; x < c.columns; x++) {
            put_cell(out, c.dots[y][x], frame->utf8);
        }
        strbuf_addz(out, "\033[K\n");
    }
}

static void draw_recent(const struct watch_view *v, const struct view_frame *frame,
                        struct strbuf *out)
{
    size_t n = v->recent_count < VIEW_RECENT ? (size_t)v->recent_count : VIEW_RECENT;
    for (size_t i = 0; i < n; i++) {
        size_t at = (size_t)((v->recent_count - n + i) % VIEW_RECENT);
        const char *tint = v->severities[at] == SEVERITY_ERROR     ? "\033[31m"
                           : v->severities[at] == SEVERITY_WARNING ? "\033[33m"
                                                                   : "";
        strbuf_fmt(out, "%s%.*s%s\033[K\n", frame->color ? tint : "", frame->columns - 1,
                   v->recent[at], frame->color ? "\033[0m" : "");
    }
}

void watch_view_draw(const struct watch_view *v, const struct view_frame *frame, struct strbuf *out)
{
    size_t plots = 0;
    for (size_t i = 0; i < VIEW_PLOTS; i++) {
        plots += v->plots[i].count != 0;
    }
    strbuf_fmt(out, "\033[H%.*s\033[K\n", frame->columns - 1, frame->head);
    int rest = frame->rows - 2 - VIEW_RECENT - (int)plots;
    int each = plots != 0 ? rest / (int)plots : 0;
    for (size_t i = 0; i < VIEW_PLOTS && each >= 1; i++) {
        if (v->plots[i].count != 0) {
            draw_plot(v, i, (size_t)each, frame, out);
        }
    }
    draw_recent(v, frame, out);
    strbuf_addz(out, "\033[J");
}
