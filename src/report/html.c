// SPDX-License-Identifier: Apache-2.0
/*
 * One HTML page that needs nothing beside itself: no request leaves it, which its content security
 * policy enforces; scripts and styles are named there by their hash, so that nothing planted in a log can
 * run even if an escape were forgotten. The page's parts are files under page/.
 */
#include "base/json_out.h"
#include "base/utf8.h"

#include "report/formats.h"
#include "report/page_text.h"
#include "report/page_view.h"
#include "report/svg.h"
#include "report/template.h"

enum {
    POINTS = 6000, /* of a curve on the page */
    DATA_MAX = 64 << 20
};

static void curve_data(struct arena *a, struct json_out *j, const struct report_curve *whole)
{
    struct report_curve c;
    report_curve_thin(a, whole, POINTS, &c);
    json_object(j);
    json_field(j, "name", c.name);
    json_key(j, "x");
    json_list(j);
    for (size_t i = 0; i < c.count; i++) {
        json_real(j, c.x[i]);
    }
    json_list_end(j);
    json_key(j, "y");
    json_list(j);
    for (size_t i = 0; i < c.count; i++) {
        json_real(j, c.y[i]);
    }
    json_list_end(j);
    json_object_end(j);
}

static void plots_data(struct arena *a, struct json_out *j, const struct report *r)
{
    for (size_t i = 0; i < r->plot_count; i++) {
        const struct report_plot *p = &r->plots[i];
        json_object(j);
        json_field(j, "x_label", p->x_label);
        json_field(j, "y_label", p->y_label);
        json_key(j, "logarithmic");
        json_bool(j, report_plot_logarithmic(p));
        json_key(j, "curves");
        json_list(j);
        for (size_t c = 0; c < p->curve_count; c++) {
            curve_data(a, j, &p->curves[c]);
        }
        json_list_end(j);
        json_object_end(j);
    }
}

static void add_unit(struct strbuf *out, uint32_t unit)
{
    strbuf_fmt(out, "\\u%04x", unit);
}

/* JSON inside a script element: no '<' may end it. What is not ASCII is escaped too, for it may turn the
 * direction of text; the indentation is dropped: it would be most of it. */
static const char *embedded(struct arena *a, struct str json)
{
    struct strbuf out;
    strbuf_init(&out, a, (size_t)4 * DATA_MAX);
    const char *end = json.p + json.n;
    for (const char *p = json.p; p < end;) {
        unsigned n;
        uint32_t c = utf8_next(p, end, &n);
        p += n;
        if (c >= 0x10000) {
            add_unit(&out, 0xd800 + ((c - 0x10000) >> 10));
            add_unit(&out, 0xdc00 + ((c - 0x10000) & 0x3ff));
        } else if (c == '<' || c == '>' || c == '&' || c >= 0x7f) {
            add_unit(&out, c);
        } else if (c == '\n') {
            while (p < end && *p == ' ') {
                p++;
            }
        } else {
            strbuf_addc(&out, (char)c);
        }
    }
    return out.p;
}

static const char *data_of(struct arena *a, const struct report *r)
{
    struct strbuf out;
    struct json_out j;
    strbuf_init(&out, a, DATA_MAX);
    json_init(&j, &out);
    json_list(&j);
    plots_data(a, &j, r);
    for (size_t i = 0; i < r->part_count; i++) {
        plots_data(a, &j, &r->parts[i]);
    }
    json_list_end(&j);
    return embedded(a, strbuf_str(&out));
}

static bool has_plots(const struct report *r)
{
    bool some = r->plot_count != 0;
    for (size_t i = 0; i < r->part_count; i++) {
        some |= r->parts[i].plot_count != 0;
    }
    return some;
}

static void render(const struct report *r, const struct report_options *o, struct strbuf *out)
{
    static const struct template_page page = {.text = PAGE_HTML, .escape = html_escape};
    struct arena *a = arena_new(0);
    struct err err = {0};
    struct view *v = report_page_view(a, r, o, true);
    view_text(
        a, v, "policy",
        "default-src 'none'; base-uri 'none'; form-action 'none'; script-src 'sha256-" PAGE_JS_SHA256
        "' 'sha256-" UPLOT_JS_SHA256 "'; style-src 'sha256-" PAGE_CSS_SHA256
        "' 'sha256-" UPLOT_CSS_SHA256 "'");
    view_text(a, v, "style", PAGE_CSS);
    if (has_plots(r)) {
        struct view *s = view_object(a, v, "scripts");
        view_text(a, s, "uplot_style", UPLOT_CSS);
        view_text(a, s, "uplot_licence", UPLOT_LICENCE);
        view_text(a, s, "uplot", UPLOT_JS);
        view_text(a, s, "script", PAGE_JS);
        view_text(a, s, "data", data_of(a, r));
    }
    if (template_write(&page, "page", v, out, &err) != ST_OK) {
        strbuf_addz(out, err.text);
    }
    arena_free(a);
}

const struct report_format format_html = {
    .name = "html",
    .what = "One self-contained page to read, print or attach; works offline",
    .render = render,
};
