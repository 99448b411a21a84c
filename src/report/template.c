// SPDX-License-Identifier: Apache-2.0
/* See template.h. */
#include "report/template.h"

#include <string.h>

enum {
    DEPTH_MAX = 32
};

/* ---- views ---- */

struct view *view_new(struct arena *a)
{
    struct view *v = arena_alloc(a, sizeof *v);
    v->kind = VIEW_OBJECT;
    return v;
}

static struct view *add(struct arena *a, struct view *to, const char *name, enum view_kind kind)
{
    struct view *v = view_new(a);
    v->kind = kind;
    v->name = name;
    if (to->last != NULL) {
        to->last->next = v;
    } else {
        to->child = v;
    }
    to->last = v;
    return v;
}

void view_text(struct arena *a, struct view *to, const char *name, const char *text)
{
    if (text != NULL && text[0] != '\0') {
        add(a, to, name, VIEW_TEXT)->text = text;
    }
}

void view_fmt(struct arena *a, struct view *to, const char *name, const char *fmt, ...)
{
    struct strbuf out;
    va_list ap;
    strbuf_init(&out, a, 1 << 16);
    va_start(ap, fmt);
    strbuf_vfmt(&out, fmt, ap);
    va_end(ap);
    view_text(a, to, name, out.p);
}

struct view *view_object(struct arena *a, struct view *to, const char *name)
{
    return add(a, to, name, VIEW_OBJECT);
}

struct view *view_list(struct arena *a, struct view *to, const char *name)
{
    return add(a, to, name, VIEW_LIST);
}

struct view *view_item(struct arena *a, struct view *list)
{
    return add(a, list, NULL, VIEW_OBJECT);
}

void view_item_text(struct arena *a, struct view *list, const char *text)
{
    add(a, list, NULL, VIEW_TEXT)->text = text != NULL ? text : "";
}

/* ---- templates ---- */

struct writer {
    const struct template_page *page;
    struct strbuf *out;
    struct err *err;
    int depth;
};

/* Where a name is looked up, and what {{.}} is. */
struct scope {
    const struct view *object;
    const struct view *self;
};

struct tag {
    char kind; /* '#', '^', '/', '>', '{' or 0 for an escaped text */
    struct str name;
    size_t from, to; /* in the text, braces and, where it stands alone, its line included */
};

static enum status broken(struct writer *w, struct str at)
{
    return err_set(w->err, ST_FORMAT, "the template of the page is not well formed at '%.*s'",
                   (int)(at.n < 30 ? at.n : 30), at.p);
}

/* A section tag alone on its line takes the line with it. */
static void take_line(struct str text, struct tag *t)
{
    size_t from = t->from;
    size_t to = t->to;
    while (from > 0 && text.p[from - 1] == ' ') {
        from--;
    }
    if ((from == 0 || text.p[from - 1] == '\n') && to < text.n && text.p[to] == '\n') {
        t->from = from;
        t->to = to + 1;
    }
}

/* The next tag at or after `from`; false when there is none. */
static bool next_tag(struct str text, size_t from, struct tag *ret_tag)
{
    size_t at = str_find(text, "{{", from);
    if (at == SIZE_MAX) {
        return false;
    }
    bool raw = at + 2 < text.n && text.p[at + 2] == '{';
    size_t end = str_find(text, raw ? "}}}" : "}}", at);
    if (end == SIZE_MAX) {
        return false;
    }
    struct str inside = str_slice(text, at + (raw ? 3 : 2), end);
    struct tag t = {.kind = raw ? '{' : 0, .from = at, .to = end + (raw ? 3 : 2)};
    if (!raw && inside.n > 0 && strchr("#^/>", inside.p[0]) != NULL) {
        t.kind = inside.p[0];
        inside = str_slice(inside, 1, inside.n);
        take_line(text, &t);
    }
    t.name = str_trim(inside);
    *ret_tag = t;
    return true;
}

/* The tag that closes the section `open`. */
static bool closing_tag(struct str text, const struct tag *open, struct tag *ret_tag)
{
    int depth = 1;
    struct tag t = *open;
    while (next_tag(text, t.to, &t)) {
        bool same = str_eq(t.name, open->name);
        depth += same && (t.kind == '#' || t.kind == '^');
        depth -= same && t.kind == '/';
        if (depth == 0) {
            *ret_tag = t;
            return true;
        }
    }
    return false;
}

static const struct view *look_up(const struct scope *s, struct str name)
{
    if (str_is(name, ".")) {
        return s->self;
    }
    for (const struct view *v = s->object->child; v != NULL; v = v->next) {
        if (v->name != NULL && str_is(name, v->name)) {
            return v;
        }
    }
    return NULL;
}

static bool is_empty(const struct view *v)
{
    return v == NULL || (v->kind == VIEW_LIST && v->child == NULL);
}

static enum status write_text(struct writer *w, struct str text, const struct scope *s);

static enum status write_section(struct writer *w, struct str body, const struct view *v,
                                 const struct scope *outer)
{
    if (v->kind != VIEW_LIST) {
        struct scope s = {.object = v->kind == VIEW_OBJECT ? v : outer->object, .self = v};
        return write_text(w, body, &s);
    }
    for (const struct view *item = v->child; item != NULL; item = item->next) {
        struct scope s = {.object = item->kind == VIEW_OBJECT ? item : outer->object, .self = item};
        TRY(write_text(w, body, &s));
    }
    return ST_OK;
}

static enum status write_part(struct writer *w, struct str name, const struct scope *s)
{
    struct str rest = str_of(w->page->text);
    struct str line;
    const char *begin = NULL;
    const char *end = NULL;
    while (str_cut_line(&rest, &line)) {
        if (!str_starts(line, "@@ ")) {
            continue;
        }
        if (begin != NULL) {
            end = line.p;
            break;
        }
        if (str_eq(str_trim(str_slice(line, 3, line.n)), name)) {
            begin = rest.p;
        }
    }
    if (begin == NULL) {
        return broken(w, name);
    }
    end = end != NULL ? end : rest.p + rest.n;
    return write_text(w, (struct str){.p = begin, .n = (size_t)(end - begin)}, s);
}

static enum status write_value(struct writer *w, const struct tag *t, const struct scope *s)
{
    const struct view *v = look_up(s, t->name);
    if (v != NULL && v->kind == VIEW_TEXT) {
        if (t->kind == '{') {
            strbuf_addz(w->out, v->text);
        } else {
            w->page->escape(w->out, v->text);
        }
    }
    return ST_OK;
}

static enum status write_tags(struct writer *w, struct str text, const struct scope *s)
{
    size_t at = 0;
    struct tag t;
    while (next_tag(text, at, &t)) {
        strbuf_add(w->out, str_slice(text, at, t.from));
        at = t.to;
        if (t.kind == '>') {
            TRY(write_part(w, t.name, s));
        } else if (t.kind == '#' || t.kind == '^') {
            struct tag close;
            if (!closing_tag(text, &t, &close)) {
                return broken(w, t.name);
            }
            struct str body = str_slice(text, t.to, close.from);
            const struct view *v = look_up(s, t.name);
            at = close.to;
            if (t.kind == '^' && is_empty(v)) {
                TRY(write_text(w, body, s));
            } else if (t.kind == '#' && !is_empty(v)) {
                TRY(write_section(w, body, v, s));
            }
        } else if (t.kind == '/') {
            return broken(w, t.name);
        } else {
            TRY(write_value(w, &t, s));
        }
    }
    strbuf_add(w->out, str_slice(text, at, text.n));
    return ST_OK;
}

static enum status write_text(struct writer *w, struct str text, const struct scope *s)
{
    if (w->depth >= DEPTH_MAX) {
        return broken(w, text);
    }
    w->depth++;
    enum status status = write_tags(w, text, s);
    w->depth--;
    return status;
}

enum status template_write(const struct template_page *page, const char *name,
                           const struct view *view, struct strbuf *out, struct err *err)
{
    struct writer w = {.page = page, .out = out, .err = err};
    struct scope s = {.object = view, .self = view};
    return write_part(&w, str_of(name), &s);
}
