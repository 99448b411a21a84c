// SPDX-License-Identifier: Apache-2.0
/* See svg.h. */
#include "report/svg.h"

#include <math.h>

#include "base/utf8.h"

enum {
    WIDTH = 760, /* of the drawing, in its own units */
    HEIGHT = 260,
    LEFT = 64,
    RIGHT = 12,
    TOP = 10,
    BOTTOM = 40,
    POINTS = 400, /* of a curve: about one for each two units */
    TICKS = 5,
    BYTES_MAX = 1 << 20
};

#define VALUE_MAX 1e300

/* ---- text ---- */

void html_escape(struct strbuf *out, const char *text)
{
    const char *end = text + str_of(text).n;
    for (const char *p = text; p < end;) {
        unsigned n;
        uint32_t c = utf8_next(p, end, &n);
        bool broken = false;
        if (c >= 0x80) {
            bool whole;
            c = utf8_decode(p, end, &n, &whole);
            broken = !whole;
        }
        switch (c) {
        case '<': strbuf_addz(out, "&lt;"); break;
        case '>': strbuf_addz(out, "&gt;"); break;
        case '&': strbuf_addz(out, "&amp;"); break;
        case '"': strbuf_addz(out, "&quot;"); break;
        case '\'': strbuf_addz(out, "&#39;"); break;
        default:
            /* Control characters, and those that turn the direction of text so that it reads as another. */
            if (broken || (c < ' ' && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0) ||
                (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069)) {
                utf8_add(out, UTF8_REPLACEMENT);
            } else {
                strbuf_add(out, (struct str){.p = p, .n = n});
            }
        }
        p += n;
    }
}

/* ---- axes ---- */

struct axis {
    double from, to; /* of the values; logarithms where `log` */
    double step;     /* between ticks */
    bool log;
};

/* 1, 2 or 5 times a power of ten, about a TICKSth of the width. */
static double nice_step(double width)
{
    double rough = width / TICKS;
    double power = pow(10, floor(log10(rough)));
    double part = rough / power;
    return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

static void finish_axis(struct axis *x)
{
    if (!(x->from <= x->to)) {
        x->from = 0;
        x->to = 1;
    }
    if (!(x->to - x->from > fabs(x->to) * 1e-6) || !isfinite(x->to - x->from)) {
        double pad = x->to != 0 && isfinite(x->to) ? fabs(x->to) * 0.05 : 0.5;
        x->from -= pad;
        x->to += pad;
    }
    x->step = nice_step(x->to - x->from);
    if (x->log && x->step < 1) {
        x->step = 1;
        x->from = floor(x->from);
        x->to = ceil(x->to);
    }
}

static double place(const struct axis *x, double v)
{
    return ((x->log ? log10(v) : v) - x->from) / (x->to - x->from);
}

static void axes_of(const struct report_plot *p, struct axis *ret_x, struct axis *ret_y)
{
    struct axis x = {.from = INFINITY, .to = -INFINITY};
    struct axis y = {.from = INFINITY, .to = -INFINITY, .log = report_plot_logarithmic(p)};
    for (size_t c = 0; c < p->curve_count; c++) {
        const struct report_curve *curve = &p->curves[c];
        for (size_t i = 0; i < curve->count; i++) {
            if (isfinite(curve->x[i])) {
                x.from = fmin(x.from, curve->x[i]);
                x.to = fmax(x.to, curve->x[i]);
            }
            if (isfinite(curve->y[i])) {
                double v = y.log ? log10(curve->y[i]) : curve->y[i];
                y.from = fmin(y.from, v);
                y.to = fmax(y.to, v);
            }
        }
    }
    /* A range that a double can hold; what lies beyond is drawn beyond. */
    y.from = fmax(y.from, -VALUE_MAX);
    y.to = fmin(y.to, VALUE_MAX);
    finish_axis(&x);
    finish_axis(&y);
    double margin = y.log ? 0 : (y.to - y.from) * 0.05;
    y.from -= margin;
    y.to += margin;
    *ret_x = x;
    *ret_y = y;
}

static void tick_text(struct strbuf *out, const struct axis *x, double v)
{
    report_number_text(out, x->log ? pow(10, v) : fabs(v) < x->step * 1e-9 ? 0 : v);
}

static double x_of(const struct axis *x, double share)
{
    (void)x;
    return LEFT + share * (WIDTH - LEFT - RIGHT);
}

static double y_of(double share)
{
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
}

static void grid(struct strbuf *out, const struct axis *x, const struct axis *y)
{
    for (int k = 0; k <= 4 * TICKS; k++) {
        double v = (ceil(y->from / y->step) + k) * y->step;
        if (!(v <= y->to)) {
            break;
        }
        double at = y_of((v - y->from) / (y->to - y->from));
        strbuf_fmt(out,
                   "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/><text "
                   "class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">",
                   LEFT, at, WIDTH - RIGHT, at, LEFT - 7, at + 4);
        tick_text(out, y, v);
        strbuf_addz(out, "</text>");
    }
    for (int k = 0; k <= 4 * TICKS; k++) {
        double v = (ceil(x->from / x->step) + k) * x->step;
        if (!(v <= x->to)) {
            break;
        }
        strbuf_fmt(out, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">",
                   x_of(x, (v - x->from) / (x->to - x->from)), HEIGHT - BOTTOM + 17);
        tick_text(out, x, v);
        strbuf_addz(out, "</text>");
    }
}

/* One path; a value that is not finite breaks it. A point with a gap on both sides is a dot. */
static void draw_curve(struct arena *a, struct strbuf *out, const struct report_curve *whole,
                       size_t index, const struct axis *x, const struct axis *y)
{
    struct report_curve c;
    bool open = false;
    report_curve_thin(a, whole, POINTS, &c);
    strbuf_fmt(out, "<path class=\"curve curve%zu\" d=\"", index % PLOT_CURVES_MAX);
    for (size_t i = 0; i < c.count; i++) {
        if (!isfinite(c.y[i]) || !isfinite(c.x[i])) {
            open = false;
            continue;
        }
        double px = x_of(x, place(x, c.x[i]));
        double py = y_of(place(y, c.y[i]));
        strbuf_fmt(out, "%s%.1f %.1f", open ? "L" : "M", px, py);
        bool alone = !open && (i + 1 == c.count || !isfinite(c.y[i + 1]));
        if (alone) {
            strbuf_addz(out, "h0.1");
        }
        open = true;
    }
    strbuf_addz(out, "\"/>");
}

const char *svg_plot(struct arena *a, const struct report_plot *p)
{
    struct strbuf out;
    struct axis x;
    struct axis y;
    strbuf_init(&out, a, BYTES_MAX);
    axes_of(p, &x, &y);
    strbuf_fmt(&out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH, HEIGHT);
    html_escape(&out, p->title);
    strbuf_addz(&out, "\">");
    grid(&out, &x, &y);
    for (size_t i = 0; i < p->curve_count; i++) {
        draw_curve(a, &out, &p->curves[i], i, &x, &y);
    }
    strbuf_fmt(&out, "<text class=\"label\" x=\"%d\" y=\"%d\" text-anchor=\"end\">", WIDTH - RIGHT,
               HEIGHT - 6);
    html_escape(&out, p->x_label);
    strbuf_addz(&out, "</text></svg>");
    return out.p;
}

const char *svg_span(struct arena *a, const struct report_span *s, double end_s)
{
    struct strbuf out;
    strbuf_init(&out, a, 1024);
    double scale = end_s > 0 ? 100 / end_s : 0;
    double from = s->from_s * scale;
    double width = (s->to_s - s->from_s) * scale;
    from = from > 99 ? 99 : from; /* a moment at the very end is still seen */
    width = width > 1 ? width : 1;
    strbuf_fmt(
        &out,
        "<svg class=\"span\" width=\"100%%\" height=\"16\" aria-hidden=\"true\"><rect "
        "class=\"lane\" x=\"0\" y=\"7\" width=\"100%%\" height=\"2\"/><rect class=\"bar %s\" "
        "x=\"%.2f%%\" y=\"2\" width=\"%.2f%%\" height=\"12\" rx=\"2\"/></svg>",
        severity_name(s->severity), from, width);
    return out.p;
}
