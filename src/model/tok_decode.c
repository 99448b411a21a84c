// SPDX-License-Identifier: Apache-2.0
/*
 * Ids back to text. Bytes that tokens stand for are given as they are: a cut character stays cut,
 * where the libraries would write U+FFFD. Sources: tokenizers src/decoders, sentencepiece
 * sentencepiece_processor.cc (Decode).
 */
#include "model/tok_parts.h"

struct tokens {
    struct str *items;
    size_t count;
    size_t capacity;
};

static struct str replaced(struct arena *a, struct str s, struct str from, struct str to)
{
    if (from.n == 0 || s.n < from.n || memmem(s.p, s.n, from.p, from.n) == NULL) {
        return s;
    }
    struct strbuf b;
    strbuf_init(&b, a, TOK_MAX_TEXT);
    while (s.n >= from.n) {
        const char *hit = memmem(s.p, s.n, from.p, from.n);
        if (hit == NULL) {
            break;
        }
        strbuf_add(&b, (struct str){.p = s.p, .n = (size_t)(hit - s.p)});
        strbuf_add(&b, to);
        s = str_slice(s, (size_t)(hit - s.p) + from.n, s.n);
    }
    strbuf_add(&b, s);
    return strbuf_str(&b);
}

/* The byte of "<0xE4>". */
static bool byte_token(struct str s, char *ret_byte)
{
    uint64_t value;
    if (s.n != 6 || !str_starts(s, "<0x") || s.p[5] != '>' ||
        str_to_u64(str_slice(s, 3, 5), 16, &value) != ST_OK) {
        return false;
    }
    *ret_byte = (char)value;
    return true;
}

static void fuse(struct arena *a, struct tokens *t)
{
    struct strbuf b;
    strbuf_init(&b, a, TOK_MAX_TEXT);
    for (size_t i = 0; i < t->count; i++) {
        strbuf_add(&b, t->items[i]);
    }
    t->count = 0;
    *VEC_PUSH(a, t) = strbuf_str(&b);
}

static void byte_level(struct arena *a, struct tokens *t)
{
    for (size_t i = 0; i < t->count; i++) {
        char *bytes = arena_alloc(a, t->items[i].n + 1);
        size_t n;
        if (tok_bytes_of(t->items[i], bytes, &n)) {
            t->items[i] = (struct str){.p = bytes, .n = n};
        }
    }
    fuse(a, t);
}

static struct str strip(struct str s, const struct tok_dec *d)
{
    for (size_t i = 0; i < d->start && d->pattern.n != 0 && s.n >= d->pattern.n &&
                       memcmp(s.p, d->pattern.p, d->pattern.n) == 0;
         i++) {
        s = str_slice(s, d->pattern.n, s.n);
    }
    for (size_t i = 0; i < d->stop && d->pattern.n != 0 && s.n >= d->pattern.n &&
                       memcmp(s.p + s.n - d->pattern.n, d->pattern.p, d->pattern.n) == 0;
         i++) {
        s.n -= d->pattern.n;
    }
    return s;
}

static struct str wordpiece(struct arena *a, const struct tok_dec *d, struct str s, bool first)
{
    static const char *const cleanup[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    struct strbuf b;
    strbuf_init(&b, a, TOK_MAX_TEXT);
    if (!first) {
        bool inside = s.n >= d->pattern.n && memcmp(s.p, d->pattern.p, d->pattern.n) == 0;
        strbuf_addz(&b, inside ? "" : " ");
        s = inside ? str_slice(s, d->pattern.n, s.n) : s;
    }
    strbuf_add(&b, s);
    s = strbuf_str(&b);
    for (size_t i = 0; d->cleanup && i < ARRAY_LEN(cleanup); i++) {
        s = replaced(a, s, str_of(cleanup[i][0]), str_of(cleanup[i][1]));
    }
    return s;
}

static struct str one_token(struct arena *a, const struct tok_dec *d, struct str s, bool first,
                            bool last)
{
    char byte;
    switch (d->kind) {
    case TOK_DEC_REPLACE: return replaced(a, s, d->pattern, d->content);
    case TOK_DEC_STRIP: return strip(s, d);
    case TOK_DEC_METASPACE:
        return replaced(a, s, d->pattern, first && d->prefix_space ? STR("") : STR(" "));
    case TOK_DEC_WORDPIECE: return wordpiece(a, d, s, first);
    case TOK_DEC_BPE: return replaced(a, s, d->pattern, last ? STR("") : STR(" "));
    case TOK_DEC_BYTE_FALLBACK:
        return byte_token(s, &byte) ? (struct str){.p = arena_copy(a, &byte, 1), .n = 1} : s;
    default: return s;
    }
}

static enum status decode_json(const struct tokenizer *t, struct arena *a, struct tokens *tokens,
                               struct strbuf *out, struct err *err)
{
    for (size_t i = 0; i < t->decs.count; i++) {
        const struct tok_dec *d = &t->decs.items[i];
        if (d->kind == TOK_DEC_OTHER) {
            return err_set(err, ST_UNSUPPORTED,
                           "%s: its decoder has a part that assay does not know", t->path);
        }
        if (d->kind == TOK_DEC_BYTE_LEVEL) {
            byte_level(a, tokens);
        } else if (d->kind == TOK_DEC_FUSE) {
            fuse(a, tokens);
        }
        for (size_t k = 0; k < tokens->count; k++) {
            tokens->items[k] = one_token(a, d, tokens->items[k], k == 0, k + 1 == tokens->count);
        }
    }
    for (size_t k = 0; k < tokens->count; k++) {
        strbuf_addz(out, k > 0 && t->decs.count == 0 ? " " : "");
        strbuf_add(out, tokens->items[k]);
    }
    return ST_OK;
}

/* The dummy prefix goes from the first piece that makes text. */
static void spm_piece(const struct tokenizer *t, struct arena *a, uint32_t id, bool *at_start,
                      struct strbuf *out)
{
    struct str s = t->vocab.pieces[id];
    char byte;
    if (t->types[id] == TOK_TYPE_CONTROL) {
        return;
    }
    if (t->types[id] == TOK_TYPE_BYTE && byte_token(s, &byte)) {
        strbuf_addc(out, byte);
        *at_start = false;
        return;
    }
    if (t->types[id] == TOK_TYPE_UNKNOWN) {
        strbuf_add(out, t->spm.unk_surface);
        *at_start = false;
        return;
    }
    bool first = *at_start && (t->spm.dummy_prefix || t->spm.remove_spaces);
    if (first && str_starts(s, TOK_SPACE_MARK)) {
        s = str_slice(s, 3, s.n);
        *at_start = t->spm.remove_spaces && s.n == 0;
    } else {
        *at_start = false;
    }
    strbuf_add(out, replaced(a, s, STR(TOK_SPACE_MARK), STR(" ")));
}

enum status tok_decode(const struct tokenizer *t, struct arena *a, const uint32_t *ids,
                       size_t count, bool skip_special, struct strbuf *out, struct err *err)
{
    struct tokens tokens = {0};
    bool at_start = true;
    for (size_t i = 0; i < count; i++) {
        const struct tok_added *added = tok_added_find(t, ids[i]);
        struct str piece;
        if (!tok_piece(t, a, ids[i], &piece)) {
            return err_set(err, ST_USAGE, "%s has no token of id %u; its ids end at %u", t->path,
                           ids[i], tok_id_end(t) - 1);
        }
        if (added != NULL && added->special && skip_special) {
            continue;
        }
        if (t->format == TOK_SENTENCEPIECE) {
            spm_piece(t, a, ids[i], &at_start, out);
        } else if (t->format == TOK_TIKTOKEN) {
            strbuf_add(out, piece);
        } else {
            *VEC_PUSH(a, &tokens) = piece;
        }
    }
    return tok_as_json(t) ? decode_json(t, a, &tokens, out, err) : ST_OK;
}
