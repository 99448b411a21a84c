// SPDX-License-Identifier: Apache-2.0
/* See reproducer_fill.h. */
#include "ops/reproducer_fill.h"

#include <inttypes.h>
#include <string.h>

#include "base/vec.h"

enum {
    TEXT_MAX = 1 << 20,
    PATH_SHOWN_MAX = 512
};

void fill_text(struct fill *f, const char *name, const char *text)
{
    *VEC_PUSH(f->arena, &f->values) = (struct reproducer_line){.name = name, .text = text};
}

void fill_int(struct fill *f, const char *name, int64_t value)
{
    fill_text(f, name, arena_fmt(f->arena, "%" PRId64, value));
}

void fill_word(struct fill *f, const char *word)
{
    *VEC_PUSH(f->arena, &f->words) = word;
}

/* --- the template ------------------------------------------------------------------------------ */

static bool is_set(const struct fill *f, struct str words)
{
    struct str word;
    while (str_cut(&words, ' ', &word)) {
        for (size_t i = 0; i < f->words.count; i++) {
            if (str_is(word, f->words.items[i])) {
                return true;
            }
        }
    }
    return false;
}

static const char *value_of(const struct fill *f, struct str name)
{
    for (size_t i = 0; i < f->values.count; i++) {
        if (str_is(name, f->values.items[i].name)) {
            return f->values.items[i].text;
        }
    }
    return NULL;
}

static enum status add_line(const struct fill *f, struct str line, struct strbuf *out,
                            struct err *err)
{
    static const char capitals[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    size_t at = 0;
    for (;;) {
        size_t from = str_find_char(line, '@', at);
        if (from == SIZE_MAX) {
            strbuf_add(out, str_slice(line, at, line.n));
            strbuf_addc(out, '\n');
            return ST_OK;
        }
        size_t to = from + 1;
        while (to < line.n && strchr(capitals, line.p[to]) != NULL) {
            to++;
        }
        struct str name = str_slice(line, from + 1, to);
        const char *value = to < line.n && line.p[to] == '@' ? value_of(f, name) : NULL;
        if (value == NULL) {
            return err_set(err, ST_FORMAT, "the template names '%.*s', which has no value",
                           STR_ARG(name));
        }
        strbuf_add(out, str_slice(line, at, from));
        strbuf_addz(out, value);
        at = to + 1;
    }
}

enum status fill_template(const struct fill *f, const char *template_text, struct str *ret_text,
                          struct err *err)
{
    struct str rest = str_of(template_text);
    struct str line;
    struct strbuf out;
    unsigned depth = 0;   /* of @if */
    unsigned dropped = 0; /* depth of the first one that does not hold; 0: all hold */
    strbuf_init(&out, f->arena, TEXT_MAX);
    while (str_cut_line(&rest, &line)) {
        if (str_starts(line, "@if ")) {
            depth++;
            if (dropped == 0 && !is_set(f, str_slice(line, strlen("@if "), line.n))) {
                dropped = depth;
            }
        } else if (str_is(line, "@end")) {
            if (depth == 0) {
                return err_set(err, ST_FORMAT, "the template has an @end without @if");
            }
            dropped = dropped == depth ? 0 : dropped;
            depth--;
        } else if (dropped == 0) {
            TRY(add_line(f, line, &out, err));
        }
    }
    if (depth != 0) {
        return err_set(err, ST_FORMAT, "the template has an @if without @end");
    }
    *ret_text = strbuf_str(&out);
    return ST_OK;
}

/* --- values ------------------------------------------------------------------------------------ */

/* Safe inside a comment and a string of C. */
static bool is_plain(const char *path)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "/._+-:,=~";
    return strspn(path, allowed) == strlen(path) && strlen(path) < PATH_SHOWN_MAX;
}

const char *fill_library(struct arena *a, const char *path)
{
    const char *shown = reproducer_redact(a, path);
    if (strcmp(shown, path) == 0 && is_plain(path)) {
        return path;
    }
    const char *slash = strrchr(path, '/');
    return fill_plain(a, slash != NULL ? slash + 1 : path);
}

const char *fill_plain(struct arena *a, const char *text)
{
    return is_plain(text) ? arena_strdup(a, text) : "not-shown";
}

const char *fill_symbol(struct arena *a, const struct gemm_choice *choice)
{
    struct str name = str_of(choice->name);
    size_t comma = str_find(name, ", ", 0);
    return str_dup(a, str_slice(name, 0, comma == SIZE_MAX ? name.n : comma));
}

bool fill_is_edge(enum gemm_fault_kind kind)
{
    return kind == GEMM_READS_OUTSIDE || kind == GEMM_WRITES_OUTSIDE ||
           kind == GEMM_TOUCHES_OUTSIDE || kind == GEMM_STRAYS;
}

/* A comment ends at the first star and slash, wherever the text came from. */
static const char *in_comment(struct arena *a, const char *text)
{
    char *copy = arena_strdup(a, text);
    for (char *p = copy; *p != '\0'; p++) {
        bool bad = (unsigned char)*p < ' ' || (*p == '/' && p != copy && p[-1] == '*') ||
                   *p == '\\' || *p == '@';
        *p = bad ? ' ' : *p;
    }
    return copy;
}

void fill_product(struct fill *f, const struct reproducer *r)
{
    struct arena *a = f->arena;
    const struct gemm_probe *p = &r->diagnosis->probe;
    const struct gemm_shape *s = &p->shape;
    struct strbuf shape;
    strbuf_init(&shape, a, 400);
    gemm_shape_print(&shape, s);
    fill_text(f, "TITLE", in_comment(a, reproducer_redact(a, r->title)));
    fill_text(f, "SHAPE", shape.p);
    fill_text(f, "CHOICE", in_comment(a, r->diagnosis->fault.choice.name));
    fill_text(f, "LIBRARY", fill_library(a, r->target->path != NULL ? r->target->path : ""));
    fill_text(f, "PLACED", p->side == GUARD_END ? "ends at" : "begins behind");
    fill_int(f, "AT_END", p->side == GUARD_END);

    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {
        {"M", s->m},
        {"N", s->n},
        {"K", s->k},
        {"LDA", s->lda},
        {"LDB", s->ldb},
        {"LDC", s->ldc},
        {"SA", s->stride_a},
        {"SB", s->stride_b},
        {"SC", s->stride_c},
        {"TA", s->transpose_a},
        {"TB", s->transpose_b},
        {"BATCH", s->batch},
        {"COUNT_A", (int64_t)gemm_extent_a(s)},
        {"COUNT_B", (int64_t)gemm_extent_b(s)},
        {"COUNT_C", (int64_t)gemm_extent_c(s)},
    };

    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        fill_int(f, numbers[i].name, numbers[i].value);
    }
    fill_text(f, "ALPHA", arena_fmt(a, "%.17g", s->alpha));
    fill_text(f, "BETA", arena_fmt(a, "%.17g", s->beta));
    fill_text(f, "PADDING", p->plain_padding ? "0" : "NAN");
}
