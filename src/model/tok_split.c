// SPDX-License-Identifier: Apache-2.0
/*
 * Pre-tokenizers: text to pieces, pieces to the model. The usual case, one known expression whose
 * matches are the pieces and bytes behind it, goes straight through without lists.
 */
#include "base/utf8.h"

#include "model/tok_parts.h"

struct piece {
    struct str text;
    bool at_start; /* begins the document */
};

struct pieces {
    struct piece *items;
    size_t count;
    size_t capacity;
};

/* A stretch of a text: a match of a pattern, or what is between two. */
struct span {
    size_t from;
    size_t to;
    bool match;
};

struct spans {
    struct span *items;
    size_t count;
    size_t capacity;
};

static void add_span(struct arena *a, struct spans *s, size_t from, size_t to, bool match)
{
    if (from != to) {
        *VEC_PUSH(a, s) = (struct span){.from = from, .to = to, .match = match};
    }
}

static enum status find_spans(const struct tokenizer *t, struct arena *a,
                              const struct tok_pattern *p, struct str text, struct spans *s,
                              struct err *err)
{
    size_t at = 0;
    size_t done = 0;
    size_t from;
    size_t to;
    enum tok_found found;
    while ((found = tok_pattern_find(p, t->unicode, text, at, &from, &to)) == TOK_FOUND) {
        add_span(a, s, done, from, false);
        add_span(a, s, from, to, true);
        done = to;
        at = to;
        if (from == to) {
            if (at >= text.n) {
                break;
            }
            at += utf8_length(text.p[at]);
        }
    }
    if (found == TOK_FOUND_ERROR) {
        return err_set(err, ST_LIMIT, "the expression '%.100s' needs too many steps on this text",
                       p->name);
    }
    add_span(a, s, done, text.n, false);
    return ST_OK;
}

/* Characters of a class as matches; `single`: each its own. */
static void class_spans(struct arena *a, struct str text, bool (*is)(uint32_t cp), struct spans *s)
{
    size_t from = 0;
    for (size_t at = 0; at < text.n;) {
        unsigned n;
        if (is(utf8_next(text.p + at, text.p + text.n, &n))) {
            add_span(a, s, from, at, false);
            add_span(a, s, at, at + n, true);
            from = at + n;
        }
        at += n;
    }
    add_span(a, s, from, text.n, false);
}

static void add_piece(struct arena *a, struct pieces *out, const struct piece *whole, size_t from,
                      size_t to)
{
    if (from != to) {
        *VEC_PUSH(a, out) = (struct piece){.text = str_slice(whole->text, from, to),
                                           .at_start = whole->at_start && from == 0};
    }
}

static void merge_previous(struct arena *a, const struct piece *whole, const struct spans *s,
                           struct pieces *out)
{
    bool previous_match = false;
    size_t from = 0;
    for (size_t i = 0; i < s->count; i++) {
        bool joins = s->items[i].match && !previous_match;
        if (!joins) {
            add_piece(a, out, whole, from, s->items[i].from);
            from = s->items[i].from;
        }
        previous_match = s->items[i].match;
    }
    add_piece(a, out, whole, from, whole->text.n);
}

static void merge_next(struct arena *a, const struct piece *whole, const struct spans *s,
                       struct pieces *out)
{
    size_t from = 0;
    for (size_t i = 0; i < s->count; i++) {
        bool joins = s->items[i].match && i + 1 < s->count && !s->items[i + 1].match;
        if (!joins) {
            add_piece(a, out, whole, from, s->items[i].to);
            from = s->items[i].to;
        }
    }
}

static void cut(struct arena *a, const struct piece *whole, const struct spans *s,
                enum tok_behavior behavior, struct pieces *out)
{
    if (behavior == TOK_MERGED_WITH_PREVIOUS) {
        merge_previous(a, whole, s, out);
        return;
    }
    if (behavior == TOK_MERGED_WITH_NEXT) {
        merge_next(a, whole, s, out);
        return;
    }
    for (size_t i = 0; i < s->count;) {
        size_t last = i;
        while (behavior == TOK_CONTIGUOUS && last + 1 < s->count &&
               s->items[last + 1].match == s->items[i].match) {
            last++;
        }
        if (behavior != TOK_REMOVED || !s->items[i].match) {
            add_piece(a, out, whole, s->items[i].from, s->items[last].to);
        }
        i = last + 1;
    }
}

static bool is_numeric(uint32_t cp)
{
    return (unicode_class_slow(cp) & UNICODE_NUMBER) != 0;
}

static bool is_punctuation(uint32_t cp)
{
    bool ascii = (cp >= 33 && cp <= 47) || (cp >= 58 && cp <= 64) || (cp >= 91 && cp <= 96) ||
                 (cp >= 123 && cp <= 126);
    return ascii || (unicode_class_slow(cp) & UNICODE_PUNCTUATION) != 0;
}

/* \w+|[^\w\s]+ */
static void word_pieces(struct arena *a, const struct piece *whole, struct pieces *out)
{
    struct str text = whole->text;
    size_t from = 0;
    int before = 0;
    for (size_t at = 0; at < text.n;) {
        unsigned n;
        uint32_t cp = utf8_next(text.p + at, text.p + text.n, &n);
        int kind = unicode_is_word(cp) ? 1 : unicode_is_space(cp) ? 0 : 2;
        if (kind != before) {
            add_piece(a, out, whole, from, before != 0 ? at : from);
            from = at;
            before = kind;
        }
        at += n;
    }
    add_piece(a, out, whole, from, before != 0 ? text.n : from);
}

static struct str prefixed(struct arena *a, struct str prefix, struct str s)
{
    char *p = arena_alloc(a, prefix.n + s.n + 1);
    memcpy(p, prefix.p, prefix.n);
    memcpy(p + prefix.n, s.p, s.n);
    return (struct str){.p = p, .n = prefix.n + s.n};
}

static void metaspace(struct tok_encoder *e, const struct tok_pre *p, const struct piece *in,
                      struct pieces *out)
{
    struct arena *a = e->scratch;
    struct strbuf b;
    struct piece whole = *in;
    strbuf_init(&b, a, TOK_MAX_TEXT * 4);
    struct str rest = in->text;
    size_t space;
    bool marked = in->text.n != 0 && (in->text.p[0] == ' ' || (in->text.n >= p->replacement.n &&
                                                               memcmp(in->text.p, p->replacement.p,
                                                                      p->replacement.n) == 0));
    bool first = p->prepend == TOK_PREPEND_FIRST && in->at_start;
    if (!marked && (p->prepend == TOK_PREPEND_ALWAYS || first)) {
        strbuf_add(&b, p->replacement);
    }
    while ((space = str_find_char(rest, ' ', 0)) != SIZE_MAX) {
        strbuf_add(&b, str_slice(rest, 0, space));
        strbuf_add(&b, p->replacement);
        rest = str_slice(rest, space + 1, rest.n);
    }
    strbuf_add(&b, rest);
    whole.text = strbuf_str(&b);
    if (!p->split) {
        add_piece(a, out, &whole, 0, whole.text.n);
        return;
    }
    struct spans s = {0};
    struct tok_pattern mark = tok_pattern_literal(p->replacement);
    (void)find_spans(e->t, a, &mark, whole.text, &s, NULL); /* a literal cannot fail */
    merge_next(a, &whole, &s, out);
}

static enum status byte_level(struct tok_encoder *e, const struct tok_pre *p, bool last,
                              const struct piece *in, struct pieces *out, struct err *err)
{
    struct arena *a = e->scratch;
    struct piece whole = *in;
    if (p->prefix_space && (whole.text.n == 0 || whole.text.p[0] != ' ')) {
        whole.text = prefixed(a, STR(" "), whole.text);
    }
    struct spans s = {0};
    if (p->split) {
        TRY(find_spans(e->t, a, &p->pattern, whole.text, &s, err));
    } else {
        add_span(a, &s, 0, whole.text.n, false);
    }
    size_t first = out->count;
    cut(a, &whole, &s, TOK_ISOLATED, out);
    for (size_t i = first; !last && i < out->count; i++) {
        struct strbuf b; /* other pre-tokenizers follow: they see the alphabet */
        strbuf_init(&b, a, TOK_MAX_TEXT * 4);
        tok_alphabet_add(&b, out->items[i].text);
        out->items[i].text = strbuf_str(&b);
    }
    return ST_OK;
}

static enum status apply(struct tok_encoder *e, size_t index, const struct piece *in,
                         struct pieces *out, struct err *err)
{
    const struct tok_pre *p = &e->t->pres.items[index];
    struct arena *a = e->scratch;
    struct spans s = {0};
    struct pieces words = {0};
    switch (p->kind) {
    case TOK_PRE_SPLIT:
        TRY(find_spans(e->t, a, &p->pattern, in->text, &s, err));
        for (size_t i = 0; p->invert && i < s.count; i++) {
            s.items[i].match = !s.items[i].match;
        }
        cut(a, in, &s, p->behavior, out);
        break;
    case TOK_PRE_BYTE_LEVEL: return byte_level(e, p, index + 1 == e->t->pres.count, in, out, err);
    case TOK_PRE_METASPACE: metaspace(e, p, in, out); break;
    case TOK_PRE_WHITESPACE: word_pieces(a, in, out); break;
    case TOK_PRE_WHITESPACE_SPLIT:
        class_spans(a, in->text, unicode_is_space, &s);
        cut(a, in, &s, TOK_REMOVED, out);
        break;
    case TOK_PRE_DIGITS:
        class_spans(a, in->text, is_numeric, &s);
        cut(a, in, &s, p->individual ? TOK_ISOLATED : TOK_CONTIGUOUS, out);
        break;
    case TOK_PRE_PUNCTUATION:
        class_spans(a, in->text, is_punctuation, &s);
        cut(a, in, &s, p->behavior, out);
        break;
    case TOK_PRE_BERT:
        class_spans(a, in->text, unicode_is_space, &s);
        cut(a, in, &s, TOK_REMOVED, &words);
        for (size_t i = 0; i < words.count; i++) {
            s.count = 0;
            class_spans(a, words.items[i].text, is_punctuation, &s);
            cut(a, &words.items[i], &s, TOK_ISOLATED, out);
        }
        break;
    default: break;
    }
    return ST_OK;
}

/* Splits whose matches and gaps are pieces alike, then bytes: no list is needed. */
static bool is_straight(const struct tokenizer *t)
{
    size_t count = t->pres.count;
    for (size_t i = 0; i < count; i++) {
        const struct tok_pre *p = &t->pres.items[i];
        bool last = i + 1 == count;
        bool split = p->kind == TOK_PRE_SPLIT && p->behavior == TOK_ISOLATED && !p->invert;
        if (last ? p->kind != TOK_PRE_BYTE_LEVEL || p->prefix_space : !split) {
            return false;
        }
    }
    return count != 0;
}

static enum status straight(struct tok_encoder *e, struct str text, size_t index, struct err *err)
{
    const struct tokenizer *t = e->t;
    const struct tok_pre *p = &t->pres.items[index];
    bool last = index + 1 == t->pres.count;
    if (last && !p->split) {
        tok_model_piece(e, text);
        return ST_OK;
    }
    for (size_t at = 0; at < text.n;) {
        size_t from = text.n;
        size_t to = text.n;
        enum tok_found found = tok_pattern_find(&p->pattern, t->unicode, text, at, &from, &to);
        if (found == TOK_FOUND_ERROR) {
            return err_set(err, ST_LIMIT,
                           "the expression '%.100s' needs too many steps on this text",
                           p->pattern.name);
        }
        if (from == to && found == TOK_FOUND) { /* an empty match cuts nothing off */
            from = to = text.n;
        }
        struct str parts[2] = {str_slice(text, at, from), str_slice(text, from, to)};
        for (int i = 0; i < 2; i++) {
            if (parts[i].n != 0 &&
                (last || (index + 2 == t->pres.count && !t->pres.items[index + 1].split))) {
                tok_model_piece(e, parts[i]);
            } else if (parts[i].n != 0) {
                TRY(straight(e, parts[i], index + 1, err));
            }
        }
        at = to;
    }
    return ST_OK;
}

/* A piece that went on in the byte-level alphabet, in bytes again. */
static struct str unmapped(struct arena *a, struct str s)
{
    char *bytes = arena_alloc(a, s.n + 1);
    size_t n;
    return tok_bytes_of(s, bytes, &n) ? (struct str){.p = bytes, .n = n} : s;
}

enum status tok_split(struct tok_encoder *e, struct str text, bool at_start, struct err *err)
{
    const struct tokenizer *t = e->t;
    if (text.n == 0) {
        return ST_OK;
    }
    if (is_straight(t)) {
        return straight(e, text, 0, err);
    }
    struct pieces now = {0};
    *VEC_PUSH(e->scratch, &now) = (struct piece){.text = text, .at_start = at_start};
    bool mapped = false;
    for (size_t i = 0; i < t->pres.count; i++) {
        struct pieces next = {0};
        for (size_t k = 0; k < now.count; k++) {
            TRY(apply(e, i, &now.items[k], &next, err));
        }
        now = next;
        mapped = mapped || (t->pres.items[i].kind == TOK_PRE_BYTE_LEVEL && i + 1 < t->pres.count);
    }
    for (size_t k = 0; k < now.count; k++) {
        struct str piece = now.items[k].text;
        tok_model_piece(e, mapped ? unmapped(e->scratch, piece) : piece);
    }
    return ST_OK;
}
