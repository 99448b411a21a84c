// SPDX-License-Identifier: Apache-2.0
/* Reading the words of a condition: the part of the compiler that looks at characters. */
#ifndef ASSAY_KNOWLEDGE_EXPR_LEX_H
#define ASSAY_KNOWLEDGE_EXPR_LEX_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct lexer {
    struct arena *arena;
    const char *text;
    const char *at;
    const char *where;
    struct err *err;
};

/* "<where>: column N of '<text>': <message>" */
enum status lex_fail(const struct lexer *l, const char *at, const char *fmt, ...) PRINTF_LIKE(3, 4);

void lex_space(struct lexer *l);

/* Takes a sign such as "==" or "(" when it comes next. */
bool lex_sign(struct lexer *l, const char *sign);

/* Takes a whole word such as "and" when it comes next. */
bool lex_word(struct lexer *l, const char *word);

/* True when the next word is followed by "(". */
bool lex_at_call(const struct lexer *l);

/* A quoted text, quotes removed; only \" (or \' in single quotes) is an escape, so that regular
 * expressions need no doubling. */
enum status lex_string(struct lexer *l, const char **ret_text) MUST_USE;

/* A number with an optional unit: "12 GiB", "30 min", "1e-4". */
struct lex_number {
    bool is_real;
    int64_t integer;
    double real;
};
enum status lex_number(struct lexer *l, struct lex_number *ret_number) MUST_USE;

/* A fact key or another dotted name. */
enum status lex_key(struct lexer *l, const char **ret_key) MUST_USE;

/* A pattern id or a name between brackets: letters, digits, '-' and '_'. */
enum status lex_id(struct lexer *l, const char *what, const char **ret_id) MUST_USE;

/* Factor of a unit word ("GiB", "min"), or 0 when it is none. Bytes and seconds. */
double lex_unit(struct str word);

#endif
