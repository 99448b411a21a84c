// SPDX-License-Identifier: Apache-2.0
/* Known expressions by their text, others through PCRE2. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/tok_pattern.h"

#include <pcre2.h>
#include <string.h>

#include "base/utf8.h"

enum {
    MAX_EXPRESSION = 1 << 16
};

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL         "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LLAMA3                                             \
 CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" \
              "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL
#define QWEN2 \
 CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL
#define QWEN35                                                \
 CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}" \
              "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" TAIL
#define CL100K                                                        \
 "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+" \
 "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s"
#define O200K_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define O200K_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define O200K                                                               \
 "[^\\r\\n\\p{L}\\p{N}]?" O200K_UPPER "*" O200K_LOWER "+" CONTRACTIONS "?"  \
 "|[^\\r\\n\\p{L}\\p{N}]?" O200K_UPPER "+" O200K_LOWER "*" CONTRACTIONS "?" \
 "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" TAIL
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define R50K \
 "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++|\\s++$|\\s+(?!\\S)|\\s"
/* DeepSeek's file holds the newline characters themselves. */
#define DEEPSEEK                                                       \
 "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"               \
 "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*" \
 "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"

struct known {
    const char *expression;
    struct tok_pattern pattern;
};

static const struct known known[] = {
    {LLAMA3, {TOK_PATTERN_CL100K, .name = "llama3", .letters = UNICODE_LETTER, .digits = 3}},
    {QWEN2, {TOK_PATTERN_CL100K, .name = "qwen2", .letters = UNICODE_LETTER, .digits = 1}},
    {QWEN35,
     {TOK_PATTERN_CL100K, .name = "qwen3.5", .letters = UNICODE_LETTER | UNICODE_MARK,
      .digits = 1}},
    {CL100K,
     {TOK_PATTERN_CL100K, .name = "cl100k", .letters = UNICODE_LETTER, .digits = 3,
      .tail_first = true}},
    {O200K, {TOK_PATTERN_O200K, .name = "o200k", .digits = 3, .slash = true}},
    {GPT2, {TOK_PATTERN_GPT2, .name = "gpt2"}},
    {R50K, {TOK_PATTERN_GPT2, .name = "gpt2"}},
    {"\\p{N}{1,3}", {TOK_PATTERN_DIGITS, .name = "digits by 3", .digits = 3}},
    {"[一-龥\u3040-ゟ゠-ヿ]+", {TOK_PATTERN_CJK, .name = "CJK"}},
    {DEEPSEEK, {TOK_PATTERN_DEEPSEEK, .name = "deepseek"}},
};

static const struct {
    const char *name;
    const char *expression;
} encodings[] = {
    {"gpt2", R50K},          {"r50k_base", R50K},   {"p50k_base", R50K},
    {"cl100k_base", CL100K}, {"o200k_base", O200K}, {"o200k_harmony", O200K},
    {"llama3", LLAMA3},      {"qwen", QWEN2},       {"qwen3.5", QWEN35},
};

const char *tok_pattern_named(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(encodings); i++) {
        if (strcmp(encodings[i].name, name) == 0) {
            return encodings[i].expression;
        }
    }
    return NULL;
}

const char *tok_pattern_known(size_t index)
{
    return index < ARRAY_LEN(known) ? known[index].expression : NULL;
}

/* What Oniguruma and Rust mean: White_Space; Alphabetic, marks, decimal digits, connectors. */
#define SPACE_ITEMS                                                             \
 "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}" \
 "\\x{202f}\\x{205f}\\x{3000}"
#define WORD_ITEMS "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}"

/* Rewrites the shorthand classes that PCRE2 understands differently. */
static enum status translate(struct str e, struct strbuf *out, struct err *err)
{
    bool in_class = false;
    for (size_t i = 0; i < e.n; i++) {
        char c = e.p[i];
        if (c == '\\' && i + 1 < e.n) {
            char k = e.p[++i];
            bool space = k == 's' || k == 'S';
            if (!space && k != 'w' && k != 'W') {
                strbuf_addc(out, c);
                strbuf_addc(out, k);
                continue;
            }
            if (in_class && (k == 'S' || k == 'W')) {
                return err_set(err, ST_UNSUPPORTED, "\\%c inside brackets", k);
            }
            const char *open = in_class ? "" : k == 'S' || k == 'W' ? "[^" : "[";
            strbuf_fmt(out, "%s%s%s", open, space ? SPACE_ITEMS : WORD_ITEMS, in_class ? "" : "]");
            continue;
        }
        if (c == '[' && !in_class) {
            in_class = true;
            strbuf_addc(out, c);
            /* a bracket right behind [ or [^ is an item */
            if (i + 1 < e.n && e.p[i + 1] == '^') {
                strbuf_addc(out, e.p[++i]);
            }
            if (i + 1 < e.n && e.p[i + 1] == ']') {
                strbuf_addc(out, e.p[++i]);
            }
            continue;
        }
        in_class = in_class && c != ']';
        strbuf_addc(out, c);
    }
    return ST_OK;
}

enum status tok_pattern_compile(struct arena *a, struct str expression,
                                struct tok_pattern *ret_pattern, struct err *err)
{
    if (expression.n > MAX_EXPRESSION) {
        return err_set(err, ST_LIMIT, "an expression of %zu bytes; at most %d are read",
                       expression.n, MAX_EXPRESSION);
    }
    struct strbuf text;
    strbuf_init(&text, a, (size_t)MAX_EXPRESSION * 8);
    enum status status = translate(expression, &text, err);
    if (status != ST_OK) {
        return err_context(err, "the expression '%.200s' uses", str_dup(a, expression));
    }
    int error;
    PCRE2_SIZE offset;
    pcre2_code *code = pcre2_compile(
        (PCRE2_SPTR)text.p, text.n,
        PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_DOLLAR_ENDONLY, &error, &offset, NULL);
    if (code == NULL) {
        PCRE2_UCHAR message[160];
        pcre2_get_error_message(error, message, sizeof message);
        return err_set(err, ST_UNSUPPORTED, "the expression '%.300s' cannot be compiled: %s",
                       str_dup(a, expression), (char *)message);
    }
    (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* without it matching is only slower */
    *ret_pattern = (struct tok_pattern){
        .kind = TOK_PATTERN_REGEX, .name = str_dup(a, expression), .code = code};
    return ST_OK;
}

enum status tok_pattern_of(struct arena *a, struct str expression, struct tok_pattern *ret_pattern,
                           struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (str_is(expression, known[i].expression)) {
            *ret_pattern = known[i].pattern;
            return ST_OK;
        }
    }
    return tok_pattern_compile(a, expression, ret_pattern, err);
}

struct tok_pattern tok_pattern_literal(struct str text)
{
    return (struct tok_pattern){.kind = TOK_PATTERN_LITERAL, .name = "text", .literal = text};
}

static enum tok_found find_regex(const struct tok_pattern *p, struct str text, size_t at,
                                 size_t *ret_from, size_t *ret_to)
{
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    if (data == NULL) {
        arena_exhausted("out of memory: the system gave none for matching an expression");
    }
    int n = pcre2_match(p->code, (PCRE2_SPTR)text.p, text.n, at, PCRE2_NO_UTF_CHECK, data, NULL);
    enum tok_found found = n == PCRE2_ERROR_NOMATCH ? TOK_FOUND_NONE
                           : n < 0                  ? TOK_FOUND_ERROR
                                                    : TOK_FOUND;
    if (found == TOK_FOUND) {
        const PCRE2_SIZE *span = pcre2_get_ovector_pointer(data);
        *ret_from = span[0] < span[1] ? span[0] : span[1]; /* \K may turn them around */
        *ret_to = span[1];
    }
    pcre2_match_data_free(data);
    return found;
}

static enum tok_found find_literal(const struct tok_pattern *p, struct str text, size_t at,
                                   size_t *ret_from, size_t *ret_to)
{
    if (p->literal.n == 0 || at > text.n) {
        return TOK_FOUND_NONE;
    }
    const char *hit = memmem(text.p + at, text.n - at, p->literal.p, p->literal.n);
    if (hit == NULL) {
        return TOK_FOUND_NONE;
    }
    *ret_from = (size_t)(hit - text.p);
    *ret_to = *ret_from + p->literal.n;
    return TOK_FOUND;
}

enum tok_found tok_pattern_find(const struct tok_pattern *p, const struct unicode_table *u,
                                struct str text, size_t at, size_t *ret_from, size_t *ret_to)
{
    if (p->kind == TOK_PATTERN_REGEX) {
        return find_regex(p, text, at, ret_from, ret_to);
    }
    if (p->kind == TOK_PATTERN_LITERAL) {
        return find_literal(p, text, at, ret_from, ret_to);
    }
    while (at < text.n) {
        size_t end = tok_match(p, u, text, at);
        if (end != at) {
            *ret_from = at;
            *ret_to = end;
            return TOK_FOUND;
        }
        at += utf8_length(text.p[at]);
    }
    return TOK_FOUND_NONE;
}

void tok_pattern_free(struct tok_pattern *p)
{
    if (p->kind == TOK_PATTERN_REGEX) {
        pcre2_code_free(p->code);
        p->code = NULL;
    }
}
