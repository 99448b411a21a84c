// SPDX-License-Identifier: Apache-2.0
/*
 * Expressions that cut text into pieces. The ones that the large models use are matched by hand,
 * which is where encoding gets its speed; any other is compiled with PCRE2 (UTF, JIT), with `\s` and
 * `\w` replaced by what Oniguruma and Rust mean by them. tests/unit/test_tok_pattern.c compares both
 * ways on each known expression.
 */
#ifndef ASSAY_MODEL_TOK_PATTERN_H
#define ASSAY_MODEL_TOK_PATTERN_H

#include "base/unicode.h"

#include "model/tok.h"

enum tok_pattern_kind {
    TOK_PATTERN_REGEX = 0, /* PCRE2 */
    TOK_PATTERN_LITERAL,
    TOK_PATTERN_GPT2,
    TOK_PATTERN_CL100K, /* also Llama 3, Qwen 2, 3 and 3.5 */
    TOK_PATTERN_O200K,
    TOK_PATTERN_DIGITS,   /* \p{N}{1,3} */
    TOK_PATTERN_CJK,      /* DeepSeek's [一-龥぀-ゟ゠-ヿ]+ */
    TOK_PATTERN_DEEPSEEK, /* its main expression */
    TOK_PATTERN_KIND_COUNT
};

struct tok_pattern {
    enum tok_pattern_kind kind;
    const char *name;   /* for people: "llama3", "qwen2"; of others the expression */
    unsigned letters;   /* classes that make words */
    unsigned digits;    /* most digits in a piece */
    bool tail_first;    /* white space up to the end of the text is one piece, newlines or not */
    bool slash;         /* punctuation swallows slashes behind it, as newlines */
    struct str literal; /* TOK_PATTERN_LITERAL */
    void *code;         /* TOK_PATTERN_REGEX: pcre2_code */
};

/* What a search gives. */
enum tok_found {
    TOK_FOUND_NONE = 0,
    TOK_FOUND,
    TOK_FOUND_ERROR /* the expression needs too many steps on this text */
};

/* The pattern of an expression. */
enum status tok_pattern_of(struct arena *a, struct str expression, struct tok_pattern *ret_pattern,
                           struct err *err) MUST_USE;

/* The same through PCRE2 alone, known or not. */
enum status tok_pattern_compile(struct arena *a, struct str expression,
                                struct tok_pattern *ret_pattern, struct err *err) MUST_USE;

struct tok_pattern tok_pattern_literal(struct str text);

/* The expression of a named tiktoken encoding (gpt2, r50k_base, p50k_base, cl100k_base, o200k_base,
 * o200k_harmony, llama3, qwen, qwen3.5); NULL when there is none of that name. */
const char *tok_pattern_named(const char *name);

/* Row `index` of the known expressions, for tests; NULL behind the last. */
const char *tok_pattern_known(size_t index);

/* First match at or after `at` in whole UTF-8. */
enum tok_found tok_pattern_find(const struct tok_pattern *p, const struct unicode_table *u,
                                struct str text, size_t at, size_t *ret_from, size_t *ret_to);

void tok_pattern_free(struct tok_pattern *p);

/* End of the match that starts exactly at `at`; `at` when none does. By hand, kinds other than REGEX
 * and LITERAL. */
size_t tok_match(const struct tok_pattern *p, const struct unicode_table *u, struct str text,
                 size_t at);

#endif
