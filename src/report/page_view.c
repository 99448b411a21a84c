// SPDX-License-Identifier: Apache-2.0
/* See page_view.h. States are words and signs as well as classes: nothing is told by colour alone. */
#include "report/page_view.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "report/svg.h"

enum {
    CELL_BYTES = 4096
};

struct maker {
    struct arena *a;
    const struct report_options *options;
    bool drawn;
    size_t anchors;
    size_t plots; /* so far: links a figure with its data */
};

/* Class, sign and word of a state. */
static void state(struct maker *m, struct view *v, enum severity s, const char *word)
{
    static const char *const signs[SEVERITY_COUNT] = {
        [SEVERITY_OK] = "✓",    [SEVERITY_NOTE] = "i",    [SEVERITY_WARNING] = "!",
        [SEVERITY_ERROR] = "✕", [SEVERITY_UNKNOWN] = "?",
    };
    view_text(m->a, v, "state", severity_name(s));
    view_text(m->a, v, "sign", signs[s]);
    view_text(m->a, v, "word", word);
}

static const char *word_of(enum severity s)
{
    static const char *const words[SEVERITY_COUNT] = {
        [SEVERITY_OK] = "ok",
        [SEVERITY_NOTE] = "note",
        [SEVERITY_WARNING] = "warning",
        [SEVERITY_ERROR] = "error",
        [SEVERITY_UNKNOWN] = "could not tell",
    };
    return words[s];
}

static void anchor(struct maker *m, struct view *v)
{
    view_fmt(m->a, v, "anchor", "s%zu", ++m->anchors);
}

/* "checks:" without its colon. */
static void heading(struct maker *m, struct view *v, const char *text, const char *key)
{
    struct str s = str_of(text != NULL ? text : key);
    while (s.n > 0 && s.p[s.n - 1] == ':') {
        s.n--;
    }
    view_text(m->a, v, "heading", str_dup(m->a, s));
}

static void texts(struct maker *m, struct view *v, const char *name, const struct text_list *list)
{
    if (list->count == 0) {
        return;
    }
    struct view *items = view_list(m->a, view_object(m->a, v, name), "items");
    for (size_t i = 0; i < list->count; i++) {
        view_item_text(m->a, items, list->items[i]);
    }
}

static void finding(struct maker *m, struct view *list, const struct finding *f, bool cause)
{
    struct view *v = view_item(m->a, list);
    state(m, v, f->severity, word_of(f->severity));
    view_text(m->a, v, "title", f->title);
    view_text(m->a, v, "id", f->id);
    view_text(m->a, v, "claim", f->claim);
    if (cause) {
        view_text(m->a, v, "layer", f->layer);
        view_fmt(m->a, v, "confidence", "%.2f", f->confidence);
    }
    if (f->evidence.count != 0) {
        struct view *rows = view_list(m->a, view_object(m->a, v, "evidence"), "items");
        for (size_t i = 0; i < f->evidence.count; i++) {
            const struct evidence *e = &f->evidence.items[i];
            struct view *row = view_item(m->a, rows);
            view_text(m->a, row, "source", e->source);
            if (e->line > 0) {
                view_fmt(m->a, row, "line", "%ld", e->line);
            }
            view_text(m->a, row, "text", e->text);
        }
    }
    texts(m, v, "remedy", &f->remedy);
    if (f->links.count != 0) {
        struct view *links = view_list(m->a, view_object(m->a, v, "links"), "items");
        for (size_t i = 0; i < f->links.count; i++) {
            struct str link = str_of(f->links.items[i]);
            struct view *row = view_item(m->a, links);
            view_text(m->a, row, "text", f->links.items[i]);
            /* Knowledge may come from anywhere: no javascript: behind a link. */
            if (str_starts(link, "https://") || str_starts(link, "http://")) {
                view_text(m->a, row, "href", f->links.items[i]);
            }
        }
    }
}

static void lists(struct maker *m, struct view *v, const struct report *r)
{
    struct view *all = view_list(m->a, v, "lists");
    for (size_t l = 0; l < r->list_count; l++) {
        const struct report_list *list = &r->lists[l];
        if (list->findings->count == 0) {
            continue;
        }
        struct view *one = view_item(m->a, all);
        anchor(m, one);
        heading(m, one, list->heading, list->key);
        view_fmt(m->a, one, "count", "%zu", list->findings->count);
        struct view *items = view_list(m->a, one, list->brief ? "brief" : "findings");
        for (size_t i = 0; i < list->findings->count; i++) {
            finding(m, items, &list->findings->items[i], list->causes);
        }
    }
}

static void stages(struct maker *m, struct view *v, const struct report *r)
{
    if (r->stage_count == 0) {
        return;
    }
    struct view *path = view_object(m->a, v, "path");
    anchor(m, path);
    struct view *items = view_list(m->a, path, "items");
    for (size_t i = 0; i < r->stage_count; i++) {
        const struct report_stage *s = &r->stages[i];
        struct view *row = view_item(m->a, items);
        enum severity severity = strcmp(s->verdict, "passed") == 0       ? SEVERITY_OK
                                 : strcmp(s->verdict, "failed") == 0     ? SEVERITY_ERROR
                                 : strcmp(s->verdict, "conditions") == 0 ? SEVERITY_WARNING
                                                                         : SEVERITY_UNKNOWN;
        state(m, row, severity, s->verdict);
        view_text(m->a, row, "name", s->name);
        view_text(m->a, row, "summary", s->summary);
    }
}

/* ---- tables ---- */

static const char *page_heading(const struct report_column *c)
{
    return c->heading != NULL ? c->heading : c->page;
}

static void table_row(struct maker *m, struct view *rows, const struct report_table *t, size_t r,
                      struct strbuf *cell)
{
    struct view *cells = view_list(m->a, view_item(m->a, rows), "cells");
    for (size_t c = 0; c < t->column_count; c++) {
        if (page_heading(&t->columns[c]) == NULL) {
            continue;
        }
        report_cell_text(cell, &t->columns[c], &t->cells[r * t->column_count + c]);
        struct view *v = view_item(m->a, cells);
        view_text(m->a, v, "text", str_dup(m->a, strbuf_str(cell)));
        view_text(m->a, v, "number", report_column_is_number(t, c) ? "number" : NULL);
    }
}

static void tables(struct maker *m, struct view *v, const struct report *r)
{
    struct view *all = view_list(m->a, v, "tables");
    struct strbuf cell;
    strbuf_init(&cell, m->a, CELL_BYTES);
    for (size_t i = 0; i < r->table_count; i++) {
        const struct report_table *t = &r->tables[i];
        struct view *one = view_item(m->a, all);
        anchor(m, one);
        heading(m, one, t->heading, t->key);
        struct view *columns = view_list(m->a, one, "columns");
        for (size_t c = 0; c < t->column_count; c++) {
            if (page_heading(&t->columns[c]) != NULL) {
                struct view *column = view_item(m->a, columns);
                view_text(m->a, column, "text", page_heading(&t->columns[c]));
                view_text(m->a, column, "number", report_column_is_number(t, c) ? "number" : NULL);
            }
        }
        struct view *rows = view_list(m->a, one, "rows");
        for (size_t row = 0; row < t->row_count; row++) {
            table_row(m, rows, t, row, &cell);
        }
    }
}

/* ---- plots ---- */

static void number(struct maker *m, struct view *v, const char *name, double value)
{
    struct strbuf out;
    strbuf_init(&out, m->a, 64);
    if (isnan(value)) {
        strbuf_addz(&out, "-");
    } else {
        report_number_text(&out, value);
    }
    view_text(m->a, v, name, out.p);
}

static void curve(struct maker *m, struct view *rows, const struct report_curve *c, size_t index)
{
    struct curve_summary s;
    struct view *v = view_item(m->a, rows);
    report_curve_summary(c, &s);
    view_text(m->a, v, "name", c->name);
    view_fmt(m->a, v, "index", "%zu", index);
    view_fmt(m->a, v, "points", "%zu", s.finite + s.not_finite);
    number(m, v, "first", s.first);
    number(m, v, "last", s.last);
    number(m, v, "least", s.least);
    number(m, v, "median", s.median);
    number(m, v, "most", s.most);
    view_fmt(m->a, v, "not_finite", "%zu", s.not_finite);
    if (s.not_finite != 0) {
        struct strbuf at;
        strbuf_init(&at, m->a, 64);
        report_number_text(&at, s.first_not_finite_x);
        view_text(m->a, v, "not_finite_at", at.p);
    }
}

static void plots(struct maker *m, struct view *v, const struct report *r)
{
    if (r->plot_count == 0) {
        return;
    }
    struct view *section = view_object(m->a, v, "plots");
    anchor(m, section);
    struct view *all = view_list(m->a, section, "items");
    for (size_t i = 0; i < r->plot_count; i++) {
        const struct report_plot *p = &r->plots[i];
        struct view *one = view_item(m->a, all);
        view_fmt(m->a, one, "index", "%zu", m->plots++);
        view_text(m->a, one, "title", p->title);
        view_text(m->a, one, "x_label", p->x_label);
        view_text(m->a, one, "y_label", p->y_label);
        struct view *rows = view_list(m->a, one, "curves");
        for (size_t c = 0; c < p->curve_count; c++) {
            curve(m, rows, &p->curves[c], c);
        }
        if (m->drawn) {
            view_text(m->a, one, "svg", svg_plot(m->a, p));
        }
    }
}

static void timeline(struct maker *m, struct view *v, const struct report *r)
{
    if (r->span_count == 0) {
        return;
    }
    struct view *section = view_object(m->a, v, "timeline");
    anchor(m, section);
    struct view *rows = view_list(m->a, section, "items");
    double end = 0;
    for (size_t i = 0; i < r->span_count; i++) {
        end = r->spans[i].to_s > end ? r->spans[i].to_s : end;
    }
    for (size_t i = 0; i < r->span_count; i++) {
        const struct report_span *s = &r->spans[i];
        struct view *row = view_item(m->a, rows);
        view_text(m->a, row, "name", s->name);
        view_text(m->a, row, "what", s->what);
        view_fmt(m->a, row, "from", "%.2f", s->from_s);
        view_fmt(m->a, row, "to", "%.2f", s->to_s);
        state(m, row, s->severity, s->severity == SEVERITY_OK ? NULL : word_of(s->severity));
        if (m->drawn) {
            view_text(m->a, row, "svg", svg_span(m->a, s, end));
        }
    }
}

/* ---- the whole ---- */

static void score(struct maker *m, struct view *v, const struct report_score *s)
{
    if (!s->present) {
        return;
    }
    struct view *one = view_object(m->a, v, "score");
    anchor(m, one);
    view_fmt(m->a, one, "points", "%d", s->points);
    view_fmt(m->a, one, "maximum", "%d", s->maximum);
    view_fmt(m->a, one, "confidence", "%.2f", s->confidence);
    struct view *rows = view_list(m->a, one, "rows");
    for (size_t i = 0; i < s->row_count; i++) {
        if (s->rows[i].lost != 0) {
            struct view *row = view_item(m->a, rows);
            view_text(m->a, row, "name", s->rows[i].name);
            view_fmt(m->a, row, "lost", "%d", s->rows[i].lost);
            state(m, row, s->rows[i].severity, word_of(s->rows[i].severity));
        }
    }
}

static void about(struct maker *m, struct view *v, const struct report *r)
{
    if (r->about_count == 0 && r->number_count == 0) {
        return;
    }
    struct view *items = view_list(m->a, view_object(m->a, v, "about"), "items");
    for (size_t i = 0; i < r->about_count; i++) {
        struct view *row = view_item(m->a, items);
        view_text(m->a, row, "name", r->about[i].name);
        view_text(m->a, row, "text", r->about[i].text);
    }
    for (size_t i = 0; i < r->number_count; i++) {
        char *name = arena_strdup(m->a, r->numbers[i].key);
        for (char *p = name; *p != '\0'; p++) {
            *p = *p == '_' ? ' ' : *p;
        }
        struct view *row = view_item(m->a, items);
        view_text(m->a, row, "name", name);
        view_fmt(m->a, row, "text", "%" PRId64, r->numbers[i].value);
    }
}

/* Exit status 1 stands for warnings, too; a reader of the page is told which of the two it is. */
static enum severity shown_outcome(const struct report *r)
{
    bool warned = false;
    if (r->outcome != SEVERITY_ERROR || (r->part_count != 0 && r->stage_count == 0)) {
        return r->outcome;
    }
    for (size_t i = 0; i < r->stage_count; i++) {
        if (strcmp(r->stages[i].verdict, "failed") == 0) {
            return SEVERITY_ERROR;
        }
    }
    for (size_t l = 0; l < r->list_count; l++) {
        const struct finding_list *f = r->lists[l].findings;
        for (size_t i = 0; i < f->count; i++) {
            if (f->items[i].severity == SEVERITY_ERROR || r->lists[l].causes) {
                return SEVERITY_ERROR;
            }
            warned |= f->items[i].severity == SEVERITY_WARNING;
        }
    }
    return warned ? SEVERITY_WARNING : SEVERITY_ERROR;
}

static void fill(struct maker *m, struct view *v, const struct report *r)
{
    static const char *const outcomes[SEVERITY_COUNT] = {
        [SEVERITY_OK] = "nothing wrong",       [SEVERITY_NOTE] = "nothing wrong",
        [SEVERITY_WARNING] = "warnings",       [SEVERITY_ERROR] = "fault found",
        [SEVERITY_UNKNOWN] = "could not tell",
    };
    enum severity outcome = shown_outcome(r);
    anchor(m, v);
    view_text(m->a, v, "command", r->command);
    view_text(m->a, v, "name", r->name);
    view_text(m->a, v, "verdict", r->verdict);
    state(m, v, outcome, outcomes[outcome]);
    about(m, v, r);
    stages(m, v, r);
    lists(m, v, r);
    plots(m, v, r);
    timeline(m, v, r);
    tables(m, v, r);
    score(m, v, &r->score);
    texts(m, v, "notes", &r->notes);
}

struct view *report_page_view(struct arena *a, const struct report *r,
                              const struct report_options *o, bool drawn)
{
    struct maker m = {.a = a, .options = o, .drawn = drawn};
    struct view *v = view_new(a);
    fill(&m, v, r);
    view_text(a, v, "version", o->version);
    struct view *parts = view_list(a, v, "parts");
    for (size_t i = 0; i < r->part_count; i++) {
        fill(&m, view_item(a, parts), &r->parts[i]);
    }
    return v;
}
