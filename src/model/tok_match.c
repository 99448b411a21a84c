// SPDX-License-Identifier: Apache-2.0
/*
 * The known expressions, matched by hand. Each function follows its expression alternative by
 * alternative, in order; the comment above it is the expression. All look at whole UTF-8.
 */
#include "base/utf8.h"

#include "model/tok_pattern.h"

struct cursor {
    const struct unicode_table *u;
    const char *end;
};

/* Class and length of the character at p; 0 and 0 at the end. */
static inline unsigned look(const struct cursor *c, const char *p, unsigned *ret_n)
{
    if (p >= c->end) {
        *ret_n = 0;
        return 0;
    }
    if ((unsigned char)*p < 0x80) {
        *ret_n = 1;
        return c->u->classes[(unsigned char)*p];
    }
    return unicode_class_of(c->u, utf8_next(p, c->end, ret_n));
}

/* The end of the run of characters that have one of `classes`. */
static inline const char *run(const struct cursor *c, const char *p, unsigned classes)
{
    unsigned n;
    while ((look(c, p, &n) & classes) != 0) {
        p += n;
    }
    return p;
}

/* The end of the run of characters that have none of `classes`. */
static inline const char *run_without(const struct cursor *c, const char *p, unsigned classes)
{
    unsigned n;
    while (p < c->end && (look(c, p, &n) & classes) == 0) {
        p += n;
    }
    return p;
}

static inline const char *run_newlines(const struct cursor *c, const char *p, bool slash)
{
    while (p < c->end && (*p == '\r' || *p == '\n' || (slash && *p == '/'))) {
        p++;
    }
    return p;
}

static inline bool is_newline(char c)
{
    return c == '\r' || c == '\n';
}

/* 's 't 're 've 'm 'll 'd at p; the end or p. With `fold`, any case; U+017F folds to s. */
static const char *contraction(const struct cursor *c, const char *p, bool fold)
{
    if (c->end - p < 2 || *p != '\'') {
        return p;
    }
    char a = fold && p[1] >= 'A' && p[1] <= 'Z' ? (char)(p[1] | 0x20) : p[1];
    if (a == 's' || a == 't' || a == 'm' || a == 'd') {
        return p + 2;
    }
    if (fold && a == '\xC5' && c->end - p > 2 && p[2] == '\xBF') {
        return p + 3;
    }
    if (c->end - p < 3) {
        return p;
    }
    char b = fold && p[2] >= 'A' && p[2] <= 'Z' ? (char)(p[2] | 0x20) : p[2];
    bool two = (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l');
    return two ? p + 3 : p;
}

/* \s*[\r\n]+|\s+(?!\S)|\s+ where `newlines`, else \s+(?!\S)|\s+; p is at white space. */
static const char *spaces(const struct cursor *c, const char *p, bool newlines, bool tail_first)
{
    const char *last = p;    /* start of the last character */
    const char *newline = p; /* behind the last newline */
    unsigned n;
    const char *q = p;
    while ((look(c, q, &n) & UNICODE_SPACE) != 0) {
        last = q;
        if (is_newline(*q)) {
            newline = q + 1;
        }
        q += n;
    }
    if (tail_first && q == c->end) {
        return q;
    }
    if (newlines && newline != p) {
        return newline;
    }
    return q == c->end || last == p ? q : last;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static const char *match_gpt2(const struct cursor *c, const char *p)
{
    enum {
        KINDS = UNICODE_LETTER | UNICODE_NUMBER | UNICODE_SPACE
    };

    const char *q = contraction(c, p, false);
    if (q != p) {
        return q;
    }
    unsigned n;
    q = *p == ' ' ? p + 1 : p;
    unsigned class = look(c, q, &n) & KINDS;
    if (n == 0 || class == UNICODE_SPACE) {
        return spaces(c, p, false, false);
    }
    return class != 0 ? run(c, q + n, class) : run_without(c, q + n, KINDS);
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*
 * |\s*[\r\n]+|\s+(?!\S)|\s+, with \p{N} for Qwen, and [\p{L}\p{M}]+, [^\s\p{L}\p{M}\p{N}] for Qwen 3.5 */
static inline const char *match_cl100k(const struct tok_pattern *t, const struct cursor *c,
                                       const char *p)
{
    unsigned n;
    unsigned m;
    unsigned class = look(c, p, &n);
    if ((class & t->letters) != 0) {
        return run(c, p + n, t->letters);
    }
    if ((class & UNICODE_NUMBER) != 0) {
        const char *q = p + n;
        for (unsigned i = 1; i < t->digits && (look(c, q, &m) & UNICODE_NUMBER) != 0; i++) {
            q += m;
        }
        return q;
    }
    if (*p == '\'') {
        const char *q = contraction(c, p, true);
        if (q != p) {
            return q;
        }
    }
    if (!is_newline(*p) && (look(c, p + n, &m) & t->letters) != 0) {
        return run(c, p + n + m, t->letters);
    }
    unsigned kinds = UNICODE_SPACE | UNICODE_NUMBER | t->letters;
    const char *q = *p == ' ' ? p + 1 : p;
    if (q < c->end && (look(c, q, &m) & kinds) == 0) {
        return run_newlines(c, run_without(c, q + m, kinds), false);
    }
    return spaces(c, p, true, t->tail_first);
}

/* Upper part of o200k's words: [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]. */
static inline bool is_upper_part(unsigned class)
{
    return (class & (UNICODE_LETTER | UNICODE_MARK)) != 0 && (class & UNICODE_LOWER) == 0;
}

/* Lower part: [\p{Ll}\p{Lm}\p{Lo}\p{M}]. */
static inline bool is_lower_part(unsigned class)
{
    return (class & (UNICODE_LETTER | UNICODE_MARK)) != 0 && (class & UNICODE_UPPER) == 0;
}

/* Upper* Lower+ from p, else Upper+ Lower* when `second`; p when neither. Where the upper run took
 * all, it gives back up to its last character that may also be lower. */
static const char *word_o200k(const struct cursor *c, const char *p, bool second)
{
    const char *both = NULL; /* end of the upper run's last character that is in both parts */
    unsigned n;
    unsigned class;
    const char *q = p;
    while (class = look(c, q, &n), is_upper_part(class)) {
        q += n;
        both = is_lower_part(class) ? q : both;
    }
    const char *lower = q;
    while (is_lower_part(look(c, lower, &n))) {
        lower += n;
    }
    if (second) {
        return q != p ? lower : p;
    }
    /* Given back to the character in both parts, lower+ takes it and cannot go on: what follows
     * was upper only. */
    return lower != q ? lower : both != NULL ? both : p;
}

/* [^\r\n\p{L}\p{N}]? Upper* Lower+ (contraction)?|[^\r\n\p{L}\p{N}]? Upper+ Lower* (contraction)?
 * |\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static const char *match_o200k(const struct tok_pattern *t, const struct cursor *c, const char *p)
{
    unsigned n;
    unsigned m;
    unsigned class = look(c, p, &n);
    bool lead = (class & (UNICODE_LETTER | UNICODE_NUMBER)) == 0 && !is_newline(*p);
    for (int second = 0; second < 2; second++) {
        const char *from = lead ? p + n : p;
        const char *q = word_o200k(c, from, second != 0);
        if (q == from && lead) {
            from = p;
            q = word_o200k(c, from, second != 0);
        }
        if (q != from) {
            return contraction(c, q, true);
        }
    }
    if ((class & UNICODE_NUMBER) != 0) {
        const char *q = p + n;
        for (unsigned i = 1; i < t->digits && (look(c, q, &m) & UNICODE_NUMBER) != 0; i++) {
            q += m;
        }
        return q;
    }
    unsigned kinds = UNICODE_SPACE | UNICODE_NUMBER | UNICODE_LETTER;
    const char *q = *p == ' ' ? p + 1 : p;
    if (q < c->end && (look(c, q, &m) & kinds) == 0) {
        return run_newlines(c, run_without(c, q + m, kinds), t->slash);
    }
    return (class & UNICODE_SPACE) != 0 ? spaces(c, p, true, t->tail_first) : p;
}

/* [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
 * | ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static const char *match_deepseek(const struct cursor *c, const char *p)
{
    enum {
        WORD = UNICODE_LETTER | UNICODE_MARK,
        SIGN = UNICODE_PUNCTUATION | UNICODE_SYMBOL
    };

    unsigned n;
    unsigned m;
    unsigned class = look(c, p, &n);
    if ((class & SIGN) != 0 && (unsigned char)*p < 0x80) {
        const char *q = p + 1;
        while (q < c->end && ((*q >= 'a' && *q <= 'z') || (*q >= 'A' && *q <= 'Z'))) {
            q++;
        }
        if (q != p + 1) {
            return q;
        }
    }
    if ((class & WORD) != 0) {
        return run(c, p + n, WORD);
    }
    if ((class & SIGN) == 0 && !is_newline(*p) && (look(c, p + n, &m) & WORD) != 0) {
        return run(c, p + n + m, WORD);
    }
    const char *q = *p == ' ' ? p + 1 : p;
    if ((look(c, q, &m) & SIGN) != 0) {
        return run_newlines(c, run(c, q + m, SIGN), false);
    }
    return (class & UNICODE_SPACE) != 0 ? spaces(c, p, true, false) : p;
}

static const char *match_digits(const struct tok_pattern *t, const struct cursor *c, const char *p)
{
    unsigned n;
    for (unsigned i = 0; i < t->digits && (look(c, p, &n) & UNICODE_NUMBER) != 0; i++) {
        p += n;
    }
    return p;
}

static const char *match_cjk(const struct cursor *c, const char *p)
{
    while (p < c->end && (unsigned char)*p >= 0xE3) {
        unsigned n;
        uint32_t cp = utf8_next(p, c->end, &n);
        if (!((cp >= 0x4E00 && cp <= 0x9FA5) || (cp >= 0x3040 && cp <= 0x30FF))) {
            break;
        }
        p += n;
    }
    return p;
}

size_t tok_match(const struct tok_pattern *p, const struct unicode_table *u, struct str text,
                 size_t at)
{
    struct cursor c = {.u = u, .end = text.p + text.n};
    const char *from = text.p + at;
    if (from >= c.end) {
        return at;
    }
    switch (p->kind) {
    case TOK_PATTERN_CL100K: return (size_t)(match_cl100k(p, &c, from) - text.p);
    case TOK_PATTERN_GPT2: return (size_t)(match_gpt2(&c, from) - text.p);
    case TOK_PATTERN_O200K: return (size_t)(match_o200k(p, &c, from) - text.p);
    case TOK_PATTERN_DEEPSEEK: return (size_t)(match_deepseek(&c, from) - text.p);
    case TOK_PATTERN_DIGITS: return (size_t)(match_digits(p, &c, from) - text.p);
    case TOK_PATTERN_CJK: return (size_t)(match_cjk(&c, from) - text.p);
    default: return at;
    }
}
