// SPDX-License-Identifier: Apache-2.0
/*
 * Normalizers of tokenizer.json. Each reads whole UTF-8 and writes a new text; where a look shows
 * that nothing would change, the old text is passed on.
 */
#include "base/utf8.h"

#include "model/tok_parts.h"

static void out_init(struct strbuf *b, struct arena *a)
{
    strbuf_init(b, a, TOK_MAX_TEXT * 2);
}

static void each_lower(struct strbuf *out, struct str s)
{
    const char *end = s.p + s.n;
    unsigned n;
    for (const char *p = s.p; p < end; p += n) {
        unicode_add_lower(out, utf8_next(p, end, &n));
    }
}

static void drop_nonspacing(struct strbuf *out, struct str s)
{
    const char *end = s.p + s.n;
    unsigned n;
    for (const char *p = s.p; p < end; p += n) {
        if (!unicode_is_nonspacing(utf8_next(p, end, &n))) {
            strbuf_add(out, (struct str){.p = p, .n = n});
        }
    }
}

static struct str strip(struct str s, bool left, bool right)
{
    unsigned n;
    while (left && s.n != 0 && unicode_is_space(utf8_next(s.p, s.p + s.n, &n))) {
        s = str_slice(s, n, s.n);
    }
    while (right && s.n != 0) {
        size_t last = s.n - 1;
        while (last > 0 && ((unsigned char)s.p[last] & 0xC0) == 0x80) {
            last--;
        }
        if (!unicode_is_space(utf8_next(s.p + last, s.p + s.n, &n))) {
            break;
        }
        s.n = last;
    }
    return s;
}

static enum status replace(const struct tokenizer *t, const struct tok_norm *norm,
                           struct strbuf *out, struct str s, struct err *err)
{
    size_t at = 0;
    size_t done = 0;
    size_t from;
    size_t to;
    enum tok_found found;
    while ((found = tok_pattern_find(&norm->pattern, t->unicode, s, at, &from, &to)) == TOK_FOUND) {
        strbuf_add(out, str_slice(s, done, from));
        strbuf_add(out, norm->text);
        done = to;
        at = to;
        if (from == to) { /* an empty match: on by one character */
            if (at >= s.n) {
                break;
            }
            at += utf8_length(s.p[at]);
        }
    }
    if (found == TOK_FOUND_ERROR) {
        return err_set(err, ST_LIMIT, "the expression '%.100s' needs too many steps on this text",
                       norm->pattern.name);
    }
    strbuf_add(out, str_slice(s, done, s.n));
    return ST_OK;
}

/* As the spm_precompiled crate does it: whole grapheme clusters below 6 bytes first, then single
 * characters; a key that only begins a cluster replaces all of it. */
static void charsmap(const struct tok_norm *norm, struct strbuf *out, struct str s)
{
    struct str value;
    while (s.n != 0) {
        size_t cluster = unicode_grapheme(s);
        if (cluster < 6 &&
            tok_charsmap_shortest(&norm->charsmap, str_slice(s, 0, cluster), &value)) {
            strbuf_add(out, value);
            s = str_slice(s, cluster, s.n);
            continue;
        }
        for (size_t at = 0; at < cluster;) {
            unsigned n = utf8_length(s.p[at]);
            struct str one = str_slice(s, at, at + n);
            bool hit = tok_charsmap_shortest(&norm->charsmap, one, &value) != 0;
            strbuf_add(out, hit ? value : one);
            at += n;
        }
        s = str_slice(s, cluster, s.n);
    }
}

static void nmt(struct strbuf *out, struct str s)
{
    const char *end = s.p + s.n;
    unsigned n;
    for (const char *p = s.p; p < end; p += n) {
        uint32_t c = utf8_next(p, end, &n);
        bool gone = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F ||
                    c == 0x8F || c == 0x9F;
        bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                     (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xFEFF || c == 0xFFFD;
        if (space) {
            strbuf_addc(out, ' ');
        } else if (!gone) {
            strbuf_add(out, (struct str){.p = p, .n = n});
        }
    }
}

static bool is_chinese(uint32_t c)
{
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
           (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

static void bert_clean(const struct tok_norm *norm, struct strbuf *out, struct str s)
{
    const char *end = s.p + s.n;
    unsigned n;
    for (const char *p = s.p; p < end; p += n) {
        uint32_t c = utf8_next(p, end, &n);
        bool layout = c == '\t' || c == '\n' || c == '\r';
        if (norm->clean_text &&
            (c == 0 || c == UTF8_REPLACEMENT || (!layout && unicode_is_other(c)))) {
            continue;
        }
        if (norm->clean_text && unicode_is_space(c)) {
            strbuf_addc(out, ' ');
            continue;
        }
        bool pad = norm->chinese_chars && is_chinese(c);
        strbuf_addz(out, pad ? " " : "");
        strbuf_add(out, (struct str){.p = p, .n = n});
        strbuf_addz(out, pad ? " " : "");
    }
}

static struct str bert(const struct tok_norm *norm, struct arena *a, struct str s)
{
    struct strbuf out;
    out_init(&out, a);
    bert_clean(norm, &out, s);
    s = strbuf_str(&out);
    if (norm->strip_accents) {
        struct strbuf apart;
        struct strbuf bare;
        out_init(&apart, a);
        out_init(&bare, a);
        unicode_normalize(UNICODE_NFD, &apart, s);
        drop_nonspacing(&bare, strbuf_str(&apart));
        s = strbuf_str(&bare);
    }
    if (norm->lowercase) {
        struct strbuf lower;
        out_init(&lower, a);
        each_lower(&lower, s);
        s = strbuf_str(&lower);
    }
    return s;
}

static enum status run(const struct tokenizer *t, const struct tok_norm *norm, struct arena *a,
                       struct str *s, struct err *err)
{
    struct strbuf out;
    if (norm->kind == TOK_NORM_STRIP) {
        *s = strip(*s, norm->left, norm->right);
        return ST_OK;
    }
    if (norm->kind == TOK_NORM_BERT) {
        *s = bert(norm, a, *s);
        return ST_OK;
    }
    if ((norm->kind == TOK_NORM_FORM && unicode_is_normal(norm->form, *s)) ||
        (norm->kind == TOK_NORM_CHARSMAP && tok_charsmap_is_empty(&norm->charsmap))) {
        return ST_OK;
    }
    out_init(&out, a);
    switch (norm->kind) {
    case TOK_NORM_FORM: unicode_normalize(norm->form, &out, *s); break;
    case TOK_NORM_LOWERCASE: each_lower(&out, *s); break;
    case TOK_NORM_STRIP_ACCENTS: drop_nonspacing(&out, *s); break;
    case TOK_NORM_REPLACE: TRY(replace(t, norm, &out, *s, err)); break;
    case TOK_NORM_PREPEND:
        strbuf_add(&out, s->n != 0 ? norm->text : STR(""));
        strbuf_add(&out, *s);
        break;
    case TOK_NORM_CHARSMAP: charsmap(norm, &out, *s); break;
    case TOK_NORM_NMT: nmt(&out, *s); break;
    default: break;
    }
    if (out.truncated) {
        return err_set(err, ST_LIMIT, "the normalised text would be larger than 2 GiB");
    }
    *s = strbuf_str(&out);
    return ST_OK;
}

enum status tok_normalize(const struct tokenizer *t, struct arena *a, struct str text,
                          struct str *ret_text, struct err *err)
{
    for (size_t i = 0; i < t->norms.count; i++) {
        TRY(run(t, &t->norms.items[i], a, &text, err));
    }
    *ret_text = text;
    return ST_OK;
}
