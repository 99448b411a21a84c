// SPDX-License-Identifier: Apache-2.0
/*
 * The order of encoding: added tokens are found in the raw text; what is between them is normalised
 * piece by piece; added tokens that want it are found in that; the rest is split and given to the
 * model. Source: tokenizers, added_vocabulary.rs (extract_and_normalize) and tokenizer/mod.rs.
 */
#include "base/utf8.h"

#include "model/tok_parts.h"

struct tok_encoder *tok_encoder_new(const struct tokenizer *t)
{
    struct arena *own = arena_new(0);
    struct tok_encoder *e = arena_alloc(own, sizeof *e);
    *e = (struct tok_encoder){.t = t, .own = own, .scratch = arena_new((size_t)64 << 30)};
    if (t->model == TOK_BPE) {
        tok_bpe_cache_init(e);
    }
    return e;
}

void tok_encoder_free(struct tok_encoder *e)
{
    if (e != NULL) {
        arena_free(e->scratch);
        arena_free(e->own);
    }
}

void tok_model_piece(struct tok_encoder *e, struct str piece)
{
    switch (e->t->model) {
    case TOK_BPE: tok_bpe_piece(e, piece); break;
    case TOK_UNIGRAM: tok_unigram_piece(e, piece); break;
    default: tok_wordpiece_piece(e, piece); break;
    }
}

void tok_push_unknown(struct tok_encoder *e, const char *p, size_t n)
{
    const struct tokenizer *t = e->t;
    bool all = t->byte_fallback;
    for (size_t i = 0; i < n && all; i++) {
        all = t->byte_ids[(unsigned char)p[i]] != TOK_NO_ID;
    }
    if (!all) {
        if (t->unk != TOK_NO_ID) {
            tok_push(e, t->unk);
        }
        return;
    }
    for (size_t i = 0; i < n; i++) {
        tok_push(e, t->byte_ids[(unsigned char)p[i]]);
    }
}

/* Start of the last character of s. */
static size_t last_character(struct str s)
{
    size_t at = s.n - 1;
    while (at > 0 && ((unsigned char)s.p[at] & 0xC0) == 0x80) {
        at--;
    }
    return at;
}

static bool touches_words(struct str text, size_t from, size_t to)
{
    unsigned n;
    if (from > 0) {
        size_t at = last_character(str_slice(text, 0, from));
        if (unicode_is_word(utf8_next(text.p + at, text.p + text.n, &n))) {
            return true;
        }
    }
    return to < text.n && unicode_is_word(utf8_next(text.p + to, text.p + text.n, &n));
}

static size_t spaces_before(struct str text, size_t from)
{
    unsigned n;
    while (from > 0) {
        size_t at = last_character(str_slice(text, 0, from));
        if (!unicode_is_space(utf8_next(text.p + at, text.p + text.n, &n))) {
            break;
        }
        from = at;
    }
    return from;
}

static size_t spaces_behind(struct str text, size_t to)
{
    unsigned n;
    while (to < text.n && unicode_is_space(utf8_next(text.p + to, text.p + text.n, &n))) {
        to += n;
    }
    return to;
}

typedef enum status segment_fn(struct tok_encoder *e, struct str text, bool at_start,
                               unsigned flags, struct err *err);

/* Gives what is between the added tokens of `trie` to `rest`, and pushes their ids. */
static enum status cut_added(struct tok_encoder *e, const struct tok_trie *trie, struct str text,
                             bool at_start, unsigned flags, segment_fn *rest, struct err *err)
{
    const struct tokenizer *t = e->t;
    size_t done = 0;
    size_t at = 0;
    size_t from;
    size_t to;
    uint32_t index;
    while (tok_trie_find(trie, text, at, &from, &to, &index)) {
        const struct tok_added *token = &t->added[index];
        at = to;
        if ((token->special && (flags & TOK_PLAIN_SPECIALS) != 0) ||
            (token->single_word && touches_words(text, from, to))) {
            continue;
        }
        if (token->lstrip) {
            size_t earlier = spaces_before(text, from);
            from = earlier > done ? earlier : done;
        }
        if (token->rstrip) {
            to = spaces_behind(text, to);
        }
        if (done < from) {
            TRY(rest(e, str_slice(text, done, from), at_start && done == 0, flags, err));
        }
        tok_push(e, token->id);
        done = to;
    }
    if (done < text.n) {
        TRY(rest(e, str_slice(text, done, text.n), at_start && done == 0, flags, err));
    }
    return ST_OK;
}

static enum status split_segment(struct tok_encoder *e, struct str text, bool at_start,
                                 unsigned flags, struct err *err)
{
    (void)flags;
    return tok_split(e, text, at_start, err);
}

static enum status normal_segment(struct tok_encoder *e, struct str text, bool at_start,
                                  unsigned flags, struct err *err)
{
    TRY(tok_normalize(e->t, e->scratch, text, &text, err));
    if (e->t->normal_added.nodes <= 1) {
        return tok_split(e, text, at_start, err);
    }
    return cut_added(e, &e->t->normal_added, text, at_start, flags, split_segment, err);
}

static void push_all(struct tok_encoder *e, const uint32_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tok_push(e, ids[i]);
    }
}

enum status tok_encode(struct tok_encoder *e, struct arena *a, struct str text, unsigned flags,
                       struct tok_ids *ids, struct err *err)
{
    const struct tokenizer *t = e->t;
    if (text.n > TOK_MAX_TEXT) {
        return err_set(err, ST_LIMIT, "a text of %zu bytes; at most %zu are encoded at once",
                       text.n, TOK_MAX_TEXT);
    }
    struct arena_mark mark = arena_mark(e->scratch);
    enum status status = ST_OK;
    e->out = ids;
    e->out_arena = a;
    if (utf8_valid_prefix(text) != text.n) {
        struct strbuf whole;
        strbuf_init(&whole, e->scratch, TOK_MAX_TEXT * 4);
        utf8_repair(&whole, text);
        text = strbuf_str(&whole);
    }
    if ((flags & TOK_SPECIALS) != 0) {
        push_all(e, t->before.items, t->before.count);
    }
    if (t->format == TOK_SENTENCEPIECE) {
        tok_spm_encode(e, text);
    } else {
        status = cut_added(e, &t->raw_added, text, true, flags, normal_segment, err);
    }
    if ((flags & TOK_SPECIALS) != 0) {
        push_all(e, t->after.items, t->after.count);
    }
    arena_rewind(e->scratch, mark);
    return status;
}
