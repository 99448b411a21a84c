// SPDX-License-Identifier: Apache-2.0
/*
 * The form people read in a terminal. Most important first, everything to copy on a line of its
 * own, the verdict (and the score, when there is one) last, where the eye rests after scrolling.
 */
#include <string.h>

#include "report/formats.h"

enum {
    LABEL = 12
}; /* column where texts start */

static const char *tint(const struct report_options *o, enum severity s)
{
    static const char *const codes[SEVERITY_COUNT] = {
        [SEVERITY_OK] = "\033[32m",      [SEVERITY_NOTE] = "\033[36m",
        [SEVERITY_WARNING] = "\033[33m", [SEVERITY_ERROR] = "\033[31m",
        [SEVERITY_UNKNOWN] = "\033[35m",
    };
    return o->color ? codes[s] : "";
}

static const char *bold(const struct report_options *o)
{
    return o->color ? "\033[1m" : "";
}

static const char *dim(const struct report_options *o)
{
    return o->color ? "\033[2m" : "";
}

static const char *plain(const struct report_options *o)
{
    return o->color ? "\033[0m" : "";
}

/* Untrusted text for a terminal: control characters (U+0080 to U+009F are some, too) shown as '?',
 * cut to `max` bytes. */
static void safe_part(struct strbuf *out, struct str text, size_t max)
{
    for (size_t i = 0; i < text.n; i++) {
        unsigned char b = (unsigned char)text.p[i];
        unsigned char next = i + 1 < text.n ? (unsigned char)text.p[i + 1] : 0;
        if (i >= max && (b & 0xc0) != 0x80) {
            strbuf_addz(out, " …");
            return;
        }
        bool c1 = b == 0xc2 && next >= 0x80 && next < 0xa0;
        i += c1;
        strbuf_addc(out, b == '\t' || b == '\n'        ? ' '
                         : b < 0x20 || b == 0x7f || c1 ? '?'
                                                       : (char)b);
    }
}

static void safe_line(struct strbuf *out, const char *text, size_t max)
{
    safe_part(out, str_of(text != NULL ? text : ""),
              max); /* without: evidence that is a place alone */
}

void report_wrap(struct strbuf *out, const char *text, int indent, int width)
{
    size_t room = (size_t)(width > indent + 30 ? width - indent : 60);
    size_t column = 0;
    struct str rest = str_trim(str_of(text));
    struct str word;
    while (str_cut(&rest, ' ', &word)) {
        if (word.n == 0) {
            continue;
        }
        if (column != 0 && column + 1 + word.n > room) {
            strbuf_fmt(out, "\n%*s", indent, "");
            column = 0;
        }
        if (column != 0) {
            strbuf_addc(out, ' ');
            column++;
        }
        safe_part(out, word, word.n);
        column += word.n;
    }
    strbuf_addc(out, '\n');
}

static void label(struct strbuf *out, const struct report_options *o, const char *name)
{
    strbuf_fmt(out, "  %s%-*s%s", dim(o), LABEL - 2, name, plain(o));
}

static void place(struct strbuf *out, const struct evidence *e)
{
    safe_line(out, e->source, 200);
    if (e->line > 0) {
        strbuf_fmt(out, ":%ld", e->line);
    }
    strbuf_addz(out, e->text != NULL && e->text[0] != '\0' ? ": " : "");
}

static void body(struct strbuf *out, const struct report_options *o, const struct finding *f)
{
    if (f->claim != NULL && f->claim[0] != '\0') {
        label(out, o, "why");
        report_wrap(out, f->claim, LABEL, o->width);
    }
    for (size_t i = 0; i < f->evidence.count; i++) {
        label(out, o, i == 0 ? "evidence" : "");
        place(out, &f->evidence.items[i]);
        safe_line(out, f->evidence.items[i].text, 330);
        strbuf_addc(out, '\n');
    }
    for (size_t i = 0; i < f->remedy.count; i++) {
        label(out, o, i == 0 ? "do" : "");
        safe_line(out, f->remedy.items[i], 1000);
        strbuf_addc(out, '\n');
    }
    for (size_t i = 0; i < f->links.count; i++) {
        label(out, o, i == 0 ? "see" : "");
        safe_line(out, f->links.items[i], 1000);
        strbuf_addc(out, '\n');
    }
}

static void head(struct strbuf *out, const struct report_options *o, const struct finding *f,
                 bool cause)
{
    strbuf_fmt(out, "%s%s%-8s%s  %s", tint(o, f->severity), bold(o),
               cause ? "cause" : severity_name(f->severity), plain(o), bold(o));
    safe_line(out, f->title, 1000);
    strbuf_fmt(out, "%s  %s(%s", plain(o), dim(o), f->id);
    if (cause) {
        strbuf_fmt(out, ", %s, confidence %.2f", f->layer != NULL ? f->layer : "unknown layer",
                   f->confidence);
    }
    strbuf_fmt(out, ")%s\n", plain(o));
}

static void brief(struct strbuf *out, const struct report_options *o, const struct finding *f)
{
    strbuf_fmt(out, "  %s%-8s%s ", tint(o, f->severity), severity_name(f->severity), plain(o));
    safe_line(out, f->title, 1000);
    if (f->evidence.count != 0) {
        strbuf_fmt(out, "%s  ", dim(o));
        place(out, &f->evidence.items[0]);
        safe_line(out, f->evidence.items[0].text, 120);
        strbuf_addz(out, plain(o));
    }
    strbuf_addc(out, '\n');
}

static void list(struct strbuf *out, const struct report_options *o, const struct report_list *l)
{
    if (l->findings->count == 0) {
        return;
    }
    if (l->heading != NULL) {
        strbuf_fmt(out, "%s%s%s\n", bold(o), l->heading, plain(o));
    }
    for (size_t i = 0; i < l->findings->count; i++) {
        const struct finding *f = &l->findings->items[i];
        if (l->brief) {
            brief(out, o, f);
            continue;
        }
        head(out, o, f, l->causes);
        body(out, o, f);
        strbuf_addc(out, '\n');
    }
    if (l->brief) {
        strbuf_addc(out, '\n');
    }
}

static void stages(struct strbuf *out, const struct report_options *o, const struct report *r)
{
    for (size_t i = 0; i < r->stage_count; i++) {
        const struct report_stage *s = &r->stages[i];
        enum severity sev = strcmp(s->verdict, "passed") == 0   ? SEVERITY_OK
                            : strcmp(s->verdict, "failed") == 0 ? SEVERITY_ERROR
                                                                : SEVERITY_UNKNOWN;
        strbuf_fmt(out, "%sstage %-16s%s %s%-14s%s  %s\n", bold(o), s->name, plain(o), tint(o, sev),
                   s->verdict, plain(o), s->summary);
    }
    if (r->stage_count != 0) {
        strbuf_addc(out, '\n');
    }
}

/* "health 70/100 (confidence 0.95): -30 torch-cpu-build (error)": always with its weights. */
static void score(struct strbuf *out, const struct report_options *o, const struct report_score *s)
{
    enum severity sev = s->points >= 90   ? SEVERITY_OK
                        : s->points >= 60 ? SEVERITY_WARNING
                                          : SEVERITY_ERROR;
    strbuf_fmt(out, "%s%shealth %d/%d%s (confidence %.2f)", bold(o), tint(o, sev), s->points,
               s->maximum, plain(o), s->confidence);
    const char *sep = ": ";
    for (size_t i = 0; i < s->row_count; i++) {
        if (s->rows[i].lost != 0) {
            strbuf_fmt(out, "%s-%d %s", sep, s->rows[i].lost, s->rows[i].name);
            sep = ", ";
        }
    }
    strbuf_addc(out, '\n');
}

static void render(const struct report *r, const struct report_options *o, struct strbuf *out)
{
    for (size_t i = 0; i < r->part_count; i++) {
        strbuf_fmt(out, "%s== ", bold(o));
        safe_line(out, r->parts[i].name, 200);
        strbuf_fmt(out, " ==%s\n", plain(o));
        render(&r->parts[i], o, out);
        strbuf_addc(out, '\n');
    }
    stages(out, o, r);
    for (size_t l = 0; l < r->list_count; l++) {
        list(out, o, &r->lists[l]);
    }
    for (size_t i = 0; i < r->table_count; i++) {
        if (!report_table_has_text(&r->tables[i])) {
            continue;
        }
        if (r->tables[i].heading != NULL) {
            strbuf_fmt(out, "%s%s%s\n", bold(o), r->tables[i].heading, plain(o));
        }
        report_table_text(&r->tables[i], out);
        strbuf_addc(out, '\n');
    }
    for (size_t i = 0; i < r->notes.count; i++) {
        strbuf_fmt(out, "%-*s", LABEL, "note");
        report_wrap(out, r->notes.items[i], LABEL, o->width);
    }
    if (r->verdict != NULL) {
        strbuf_addz(out, bold(o));
        safe_line(out, r->verdict, 4000);
        strbuf_fmt(out, "%s\n", plain(o));
    }
    if (r->score.present) {
        score(out, o, &r->score);
    }
}

const struct report_format format_text = {
    .name = "text",
    .what = "For people: most important first, verdict last",
    .render = render,
};
