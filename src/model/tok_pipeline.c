// SPDX-License-Identifier: Apache-2.0
/* The parts of a tokenizer in words, for `show` and for comparisons that look for a cause. */
#include "model/tok_parts.h"

static void norm(struct strbuf *b, const struct tok_norm *n)
{
    static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD"};
    switch (n->kind) {
    case TOK_NORM_FORM: strbuf_addz(b, forms[n->form]); break;
    case TOK_NORM_LOWERCASE: strbuf_addz(b, "lowercase"); break;
    case TOK_NORM_STRIP: strbuf_addz(b, "strip"); break;
    case TOK_NORM_STRIP_ACCENTS: strbuf_addz(b, "strip accents"); break;
    case TOK_NORM_REPLACE:
        strbuf_fmt(b, "replace '%.40s' by '%.*s'",
                   n->pattern.kind == TOK_PATTERN_LITERAL ? str_dup(b->arena, n->pattern.literal)
                                                          : n->pattern.name,
                   STR_ARG(n->text));
        break;
    case TOK_NORM_PREPEND: strbuf_fmt(b, "prepend '%.*s'", STR_ARG(n->text)); break;
    case TOK_NORM_CHARSMAP: strbuf_addz(b, "character map"); break;
    case TOK_NORM_BERT:
        strbuf_fmt(b, "bert%s%s%s%s", n->clean_text ? " clean" : "",
                   n->chinese_chars ? " chinese" : "", n->strip_accents ? " strip-accents" : "",
                   n->lowercase ? " lowercase" : "");
        break;
    case TOK_NORM_NMT: strbuf_addz(b, "nmt"); break;
    default: break;
    }
}

static void pre(struct strbuf *b, const struct tok_pre *p)
{
    static const char *const behaviors[] = {"", " removed", " merged with previous",
                                            " merged with next", " contiguous"};
    static const char *const prepends[] = {"always", "first", "never"};
    switch (p->kind) {
    case TOK_PRE_SPLIT:
        strbuf_fmt(b, "split(%s%.60s%s)", p->invert ? "not " : "",
                   p->pattern.kind == TOK_PATTERN_LITERAL
                       ? arena_fmt(b->arena, "'%s'", str_dup(b->arena, p->pattern.literal))
                       : p->pattern.name,
                   behaviors[p->behavior]);
        break;
    case TOK_PRE_BYTE_LEVEL:
        strbuf_fmt(b, "byte-level%s%s", p->split ? " gpt2" : "",
                   p->prefix_space ? " prefix-space" : "");
        break;
    case TOK_PRE_METASPACE:
        strbuf_fmt(b, "metaspace(%.*s %s%s)", STR_ARG(p->replacement), prepends[p->prepend],
                   p->split ? "" : " no-split");
        break;
    case TOK_PRE_WHITESPACE: strbuf_addz(b, "words"); break;
    case TOK_PRE_WHITESPACE_SPLIT: strbuf_addz(b, "white space"); break;
    case TOK_PRE_DIGITS: strbuf_addz(b, p->individual ? "single digits" : "digits"); break;
    case TOK_PRE_PUNCTUATION: strbuf_addz(b, "punctuation"); break;
    case TOK_PRE_BERT: strbuf_addz(b, "bert"); break;
    default: break;
    }
}

static void separate(struct strbuf *b)
{
    strbuf_addz(b, b->n != 0 ? ", " : "");
}

static void spm(struct strbuf *b, const struct tok_spm *s)
{
    strbuf_fmt(b, "normalizer %.60s", s->normalizer[0] != '\0' ? s->normalizer : "(unnamed)");
    strbuf_addz(b, s->dummy_prefix ? s->space_suffix ? ", dummy suffix" : ", dummy prefix" : "");
    strbuf_addz(b, s->remove_spaces ? ", extra white space removed" : "");
}

const char *tok_pipeline(const struct tokenizer *t, struct arena *a)
{
    struct strbuf b;
    strbuf_init(&b, a, 1 << 16);
    for (size_t i = 0; i < t->norms.count; i++) {
        separate(&b);
        norm(&b, &t->norms.items[i]);
    }
    for (size_t i = 0; i < t->pres.count; i++) {
        separate(&b);
        pre(&b, &t->pres.items[i]);
    }
    if (t->format == TOK_SENTENCEPIECE) {
        spm(&b, &t->spm);
    }
    separate(&b);
    strbuf_addz(&b, tok_model_name(t->model));
    strbuf_addz(&b, t->byte_fallback ? " byte-fallback" : "");
    strbuf_addz(&b, t->ignore_merges && tok_as_json(t) ? " whole pieces first" : "");
    return b.p;
}
