// SPDX-License-Identifier: Apache-2.0
/* A tokenizer against itself, there and back, and against another one. */
#include <string.h>

#include "model/tok_check.h"

/* First byte where two texts part. */
static size_t common(struct str a, struct str b)
{
    size_t n = 0;
    while (n < a.n && n < b.n && a.p[n] == b.p[n]) {
        n++;
    }
    return n;
}

/* Byte-level models stand for every text; others may lower, normalise or not know it. */
static bool is_lossless(const struct tokenizer *t, struct arena *a)
{
    struct str way = str_of(tok_pipeline(t, a));
    return tok_model_of(t) == TOK_BPE && str_has(way, "byte-level") && !str_has(way, "lower") &&
           !str_has(way, "NFK") && !str_has(way, "NFD");
}

static bool round_trip(struct tok_encoder *e, const struct tokenizer *t, struct arena *a,
                       struct str text, struct str *ret_back, struct err *err)
{
    struct tok_ids ids = {0};
    struct strbuf back;
    strbuf_init(&back, a, 1 << 16);
    if (tok_encode(e, a, text, TOK_PLAIN_SPECIALS, &ids, err) != ST_OK ||
        tok_decode(t, a, ids.items, ids.count, false, &back, err) != ST_OK) {
        return false;
    }
    *ret_back = strbuf_str(&back);
    return true;
}

void tok_check_round_trip(const struct tokenizer *t, struct issues *issues)
{
    const char *name;
    const char *text;
    struct arena *a = issues->arena;
    struct tok_encoder *e = tok_encoder_new(t);
    struct strbuf changed;
    bool lossless = is_lossless(t, a);
    strbuf_init(&changed, a, 1000);
    for (size_t i = 0; (text = tok_sample(i, &name)) != NULL; i++) {
        struct err err = {0};
        struct str back;
        if (!round_trip(e, t, a, str_of(text), &back, &err)) {
            issue_add(issues, SEVERITY_UNKNOWN, "tokenizer-round-trip",
                      "text does not come back as it went in", "%s: %s.", name, err.text);
        } else if (!str_eq(back, str_of(text)) && lossless) {
            size_t at = common(back, str_of(text));
            issue_add(issues, SEVERITY_ERROR, "tokenizer-round-trip",
                      "text does not come back as it went in",
                      "%s: encoded and decoded again, the text differs from byte %zu on: \"%s\".",
                      name, at, issue_text(a, str_slice(back, at > 8 ? at - 8 : 0, back.n)));
        } else if (!str_eq(back, str_of(text))) {
            strbuf_fmt(&changed, "%s%s", changed.n != 0 ? ", " : "", name);
        }
    }
    if (changed.n != 0) {
        issue_add(issues, SEVERITY_NOTE, "tokenizer-lossy", "some text does not come back",
                  "Encoded and decoded again these differ, which a model of this kind (%s) does "
                  "with what it normalises or does not know: %s.",
                  tok_model_name(tok_model_of(t)), changed.p);
    }
    tok_encoder_free(e);
}

/* ---- two tokenizers ---- */

/* Files of two formats write the same bytes in two ways: what an id decodes to is compared then. */
static bool piece_of(const struct tokenizer *t, struct arena *a, uint32_t id, bool decoded,
                     struct str *ret)
{
    struct strbuf out;
    if (!decoded || !tok_piece(t, a, id, ret)) {
        return tok_piece(t, a, id, ret);
    }
    strbuf_init(&out, a, 1 << 20);
    if (tok_decode(t, a, &id, 1, false, &out, NULL) == ST_OK) {
        *ret = strbuf_str(&out);
    }
    return true;
}

static void compare_pieces(const struct tok_check *a, const struct tok_check *b,
                           struct issues *issues)
{
    uint32_t end = a->id_end > b->id_end ? a->id_end : b->id_end;
    uint32_t first = TOK_NO_ID;
    size_t differ = 0;
    struct arena *scratch = arena_new(0);
    bool decoded = tok_format_of(a->tokenizer) != tok_format_of(b->tokenizer);
    for (uint32_t id = 0; id < end; id++) {
        struct arena_mark mark = arena_mark(scratch);
        struct str x = STR("");
        struct str y = STR("");
        bool in_a = piece_of(a->tokenizer, scratch, id, decoded, &x);
        bool in_b = piece_of(b->tokenizer, scratch, id, decoded, &y);
        if (in_a != in_b || !str_eq(x, y)) {
            first = differ == 0 ? id : first;
            differ++;
        }
        arena_rewind(scratch, mark);
    }
    arena_free(scratch);
    if (differ != 0) {
        struct str x = STR("");
        struct str y = STR("");
        bool in_a = piece_of(a->tokenizer, issues->arena, first, decoded, &x);
        bool in_b = piece_of(b->tokenizer, issues->arena, first, decoded, &y);
        issue_add(issues, SEVERITY_ERROR, "tokenizer-pieces-differ",
                  "ids stand for different pieces",
                  "%zu ids differ, the first is %u: \"%s\"%s and \"%s\"%s.", differ, first,
                  issue_text(issues->arena, x), in_a ? "" : " (no such id)",
                  issue_text(issues->arena, y), in_b ? "" : " (no such id)");
    }
}

static void compare_added(const struct tok_check *a, const struct tok_check *b,
                          struct issues *issues)
{
    size_t count;
    const struct tok_added *added = tok_added_list(a->tokenizer, &count);
    for (size_t i = 0; i < count; i++) {
        const struct tok_added *x = &added[i];
        const struct tok_added *y = tok_added_find(b->tokenizer, x->id);
        if (y != NULL && str_eq(x->content, y->content) &&
            (x->special != y->special || x->lstrip != y->lstrip || x->rstrip != y->rstrip ||
             x->single_word != y->single_word || x->normalized != y->normalized)) {
            issue_add(issues, SEVERITY_WARNING, "tokenizer-added-flags",
                      "an added token has other flags",
                      "\"%s\" (%u): special, lstrip, rstrip, single_word or normalized differ.",
                      issue_text(issues->arena, x->content), x->id);
        }
    }
}

static void compare_specials(const struct tok_check *a, const struct tok_check *b,
                             struct issues *issues)
{
    for (int k = 0; k < TOK_SPECIAL_COUNT; k++) {
        const char *x = a->special[k].text;
        const char *y = b->special[k].text;
        if ((x == NULL) != (y == NULL) || (x != NULL && strcmp(x, y) != 0)) {
            issue_add(issues, SEVERITY_WARNING, "tokenizer-special-differs",
                      "the special tokens differ",
                      "%s_token is \"%s\" in the first and \"%s\" "
                      "in the second.",
                      tok_special_name((enum tok_special_kind)k),
                      x != NULL ? issue_text(issues->arena, str_of(x)) : "none",
                      y != NULL ? issue_text(issues->arena, str_of(y)) : "none");
        }
    }
    if (!str_eq(str_trim(a->template_text), str_trim(b->template_text))) {
        issue_add(issues, SEVERITY_WARNING, "tokenizer-template-differs",
                  "the chat templates differ", "They part at byte %zu (%zu and %zu bytes).",
                  common(a->template_text, b->template_text), a->template_text.n,
                  b->template_text.n);
    }
}

static void compare_samples(const struct tok_check *a, const struct tok_check *b,
                            struct issues *issues)
{
    const char *name;
    const char *text;
    bool same_format = tok_format_of(a->tokenizer) == tok_format_of(b->tokenizer);
    unsigned flags = same_format ? TOK_SPECIALS : 0; /* not every format says what is added */
    struct tok_encoder *ea = tok_encoder_new(a->tokenizer);
    struct tok_encoder *eb = tok_encoder_new(b->tokenizer);
    for (size_t i = 0; (text = tok_sample(i, &name)) != NULL; i++) {
        struct tok_ids x = {0};
        struct tok_ids y = {0};
        struct err err;
        size_t at = 0;
        if (tok_encode(ea, issues->arena, str_of(text), flags, &x, &err) != ST_OK ||
            tok_encode(eb, issues->arena, str_of(text), flags, &y, &err) != ST_OK) {
            continue; /* the round trip of each has said so */
        }
        while (at < x.count && at < y.count && x.items[at] == y.items[at]) {
            at++;
        }
        if (at != x.count || at != y.count) {
            issue_add(
                issues, SEVERITY_ERROR, "tokenizer-text-differs", "the same text gets other ids",
                "%s: %zu and %zu ids, the first %zu are the same.", name, x.count, y.count, at);
        }
    }
    tok_encoder_free(ea);
    tok_encoder_free(eb);
}

void tok_check_against(const struct tok_check *a, const struct tok_check *b, struct issues *issues)
{
    issues->file = tok_path(b->tokenizer);
    const char *x = tok_pipeline(a->tokenizer, issues->arena);
    const char *y = tok_pipeline(b->tokenizer, issues->arena);
    compare_pieces(a, b, issues);
    compare_added(a, b, issues);
    compare_specials(a, b, issues);
    compare_samples(a, b, issues);
    if (strcmp(x, y) != 0 && tok_format_of(a->tokenizer) == tok_format_of(b->tokenizer)) {
        issue_add(issues, SEVERITY_WARNING, "tokenizer-way-differs",
                  "text is cut in different ways", "The first: %s. The second: %s.", x, y);
    }
}
