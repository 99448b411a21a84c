// SPDX-License-Identifier: Apache-2.0
/* Characters to words. ASCII only: names of facts and patterns never hold anything else. */
#include "knowledge/expr_lex.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name(char c)
{
    return is_letter(c) || is_digit(c);
}

enum status lex_fail(const struct lexer *l, const char *at, const char *fmt, ...)
{
    char message[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    return err_set(l->err, ST_FORMAT, "%s: column %d of '%.300s': %s", l->where,
                   (int)(at - l->text) + 1, l->text, message);
}

void lex_space(struct lexer *l)
{
    while (*l->at == ' ' || (*l->at >= '\t' && *l->at <= '\r')) {
        l->at++;
    }
}

bool lex_sign(struct lexer *l, const char *sign)
{
    lex_space(l);
    size_t n = strlen(sign);
    if (strncmp(l->at, sign, n) != 0) {
        return false;
    }
    l->at += n;
    return true;
}

bool lex_word(struct lexer *l, const char *word)
{
    lex_space(l);
    size_t n = strlen(word);
    if (strncmp(l->at, word, n) != 0 || is_name(l->at[n]) || l->at[n] == '.') {
        return false;
    }
    l->at += n;
    return true;
}

bool lex_at_call(const struct lexer *l)
{
    const char *p = l->at;
    if (!is_letter(*p)) {
        return false;
    }
    while (is_name(*p)) {
        p++;
    }
    return *p == '(';
}

enum status lex_string(struct lexer *l, const char **ret_text)
{
    const char *open = l->at;
    char quote = *l->at++;
    struct strbuf out;
    strbuf_init(&out, l->arena, 8192);
    while (*l->at != quote) {
        if (*l->at == '\0') {
            return lex_fail(l, open, "the text that begins here has no closing %c", quote);
        }
        if (l->at[0] == '\\' && l->at[1] == quote) {
            l->at++;
        } else if (l->at[0] == '\\' && l->at[1] != '\0') {
            strbuf_addc(&out, *l->at++); /* "\\" stays two characters: see the header */
        }
        strbuf_addc(&out, *l->at++);
    }
    l->at++;
    *ret_text = out.p;
    return ST_OK;
}

double lex_unit(struct str word)
{
    static const struct {
        const char *name;
        double factor;
    } units[] = {
        {"B", 1},
        {"bytes", 1},
        {"KB", 1e3},
        {"kB", 1e3},
        {"MB", 1e6},
        {"GB", 1e9},
        {"TB", 1e12},
        {"KiB", 1024.0},
        {"MiB", 1048576.0},
        {"GiB", 1073741824.0},
        {"TiB", 1099511627776.0},
        {"ms", 1e-3},
        {"s", 1},
        {"sec", 1},
        {"seconds", 1},
        {"min", 60},
        {"minutes", 60},
        {"h", 3600},
        {"hours", 3600},
        {"d", 86400},
        {"days", 86400},
    };

    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (str_is(word, units[i].name)) {
            return units[i].factor;
        }
    }
    return 0;
}

/* Takes a unit behind a number; 1 when there is none. */
static double take_unit(struct lexer *l)
{
    const char *p = l->at;
    while (*p == ' ') {
        p++;
    }
    const char *begin = p;
    while (is_letter(*p)) {
        p++;
    }
    double factor = is_digit(*p) ? 0 : lex_unit((struct str){.p = begin, .n = (size_t)(p - begin)});
    if (factor <= 0) {
        return 1;
    }
    l->at = p;
    return factor;
}

enum status lex_number(struct lexer *l, struct lex_number *ret_number)
{
    const char *begin = l->at;
    bool hex = begin[0] == '0' && (begin[1] == 'x' || begin[1] == 'X');
    bool real = false;
    l->at += hex ? 2 : 0;
    for (;; l->at++) {
        char c = *l->at;
        bool exponent = !hex && (c == 'e' || c == 'E') &&
                        (is_digit(l->at[1]) ||
                         ((l->at[1] == '-' || l->at[1] == '+') && is_digit(l->at[2])));
        if (exponent) {
            l->at++;
            real = true;
        } else if (c == '.' && is_digit(l->at[1])) {
            real = true;
        } else if (!(is_digit(c) || (hex && is_letter(c)))) {
            break;
        }
    }
    struct str text = {.p = begin, .n = (size_t)(l->at - begin)};
    int64_t integer = 0;
    double value = 0;
    if (hex ? str_to_i64(text, 16, &integer) != ST_OK : str_to_double(text, &value) != ST_OK) {
        return lex_fail(l, begin, "this is not a number; write a version in quotes, as \"6.4.1\"");
    }
    if (!hex && !real && str_to_i64(text, 10, &integer) != ST_OK) {
        return lex_fail(l, begin, "this number does not fit in 64 bits");
    }
    double factor = take_unit(l);
    if (!real && factor >= 1 && factor < 2e12) {
        int64_t product;
        if (__builtin_mul_overflow(integer, (int64_t)factor, &product)) {
            return lex_fail(l, begin, "this number does not fit in 64 bits");
        }
        *ret_number = (struct lex_number){.integer = product};
        return ST_OK;
    }
    if (!real) {
        value = (double)integer;
    }
    *ret_number = (struct lex_number){.is_real = true, .real = value * factor};
    return ST_OK;
}

/* "[3]" or "[*]" inside a key. */
static enum status key_index(struct lexer *l)
{
    const char *open = l->at++;
    if (*l->at == '*') {
        l->at++;
    } else {
        while (is_digit(*l->at)) {
            l->at++;
        }
    }
    if (*l->at != ']' || l->at == open + 1) {
        return lex_fail(l, open, "'[' in a key holds a number or '*'");
    }
    l->at++;
    return ST_OK;
}

enum status lex_key(struct lexer *l, const char **ret_key)
{
    const char *begin = l->at;
    l->at += *l->at == '$';
    while (is_name(*l->at) || *l->at == '.' || *l->at == '[' || *l->at == '*') {
        if (*l->at == '[') {
            TRY(key_index(l));
        } else if (*l->at == '*' && (l->at == begin || l->at[-1] != '.')) {
            break; /* a product, not a glob */
        } else {
            l->at++;
        }
    }
    struct str key = {.p = begin, .n = (size_t)(l->at - begin)};
    if (key.n == 0 || str_ends(key, ".") || str_has(key, "..")) {
        return lex_fail(l, begin, "a fact key, a value or '(' is expected here");
    }
    if (key.n > 300) {
        return lex_fail(l, begin, "this key is longer than 300 characters");
    }
    *ret_key = str_dup(l->arena, key);
    return ST_OK;
}

enum status lex_id(struct lexer *l, const char *what, const char **ret_id)
{
    lex_space(l);
    const char *begin = l->at;
    while (is_name(*l->at) || *l->at == '-') {
        l->at++;
    }
    struct str id = {.p = begin, .n = (size_t)(l->at - begin)};
    if (id.n == 0 || id.n > 100) {
        return lex_fail(l, begin, "%s is expected here", what);
    }
    *ret_id = str_dup(l->arena, id);
    return ST_OK;
}
