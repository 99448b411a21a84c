// SPDX-License-Identifier: Apache-2.0
/* Comparison of loosely typed values: facts come from files of many makers, so "1" and 1 meet. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "knowledge/expr_value.h"

#include <math.h>
#include <pcre2.h>
#include <string.h>
#include <strings.h>

#include "base/version.h"

#include "knowledge/expr_lex.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Copies the number in front of `s` without the commas between its digits; moves s behind it. */
static bool take_number(struct str *s, char *buffer, size_t size)
{
    size_t n = 0;
    size_t i = 0;
    for (; i < s->n && n + 1 < size; i++) {
        char c = s->p[i];
        bool sign = (c == '-' || c == '+') && (i == 0 || s->p[i - 1] == 'e' || s->p[i - 1] == 'E');
        bool exponent = (c == 'e' || c == 'E') && n != 0 && i + 1 < s->n &&
                        (is_digit(s->p[i + 1]) || s->p[i + 1] == '-' || s->p[i + 1] == '+');
        if (c == ',' && n != 0 && i + 3 < s->n && is_digit(s->p[i - 1]) && is_digit(s->p[i + 1])) {
            continue;
        }
        if (!is_digit(c) && c != '.' && !sign && !exponent) {
            break;
        }
        buffer[n++] = c;
    }
    buffer[n] = '\0';
    *s = str_slice(*s, i, s->n);
    return n != 0;
}

static bool text_number(const char *text, double *ret_number)
{
    struct str s = str_trim(str_of(text));
    uint64_t hex;
    if (s.n > 2 && s.p[0] == '0' && (s.p[1] == 'x' || s.p[1] == 'X') &&
        str_to_u64(s, 16, &hex) == ST_OK) {
        *ret_number = (double)hex;
        return true;
    }
    double whole;
    if (s.n != 0 && s.n < 20 && strpbrk(text, "nN") != NULL && str_to_double(s, &whole) == ST_OK) {
        *ret_number = whole; /* nan, inf */
        return true;
    }
    char buffer[64];
    if (!take_number(&s, buffer, sizeof buffer) || str_to_double(str_of(buffer), &whole) != ST_OK) {
        return false;
    }
    s = str_trim(s);
    double factor = s.n == 0 || str_is(s, "%") ? 1 : lex_unit(s);
    if (factor <= 0) {
        return false;
    }
    *ret_number = whole * factor;
    return true;
}

bool value_number(const struct value *v, double *ret_number)
{
    switch (v->kind) {
    case VALUE_BOOL: *ret_number = v->boolean ? 1 : 0; return true;
    case VALUE_INT: *ret_number = (double)v->integer; return true;
    case VALUE_REAL: *ret_number = v->real; return true;
    case VALUE_STRING: return text_number(v->string, ret_number);
    default: return false;
    }
}

/* The text that a version comparison looks at, or NULL. */
static const char *version_text(struct arena *scratch, const struct value *v)
{
    const char *text = v->kind == VALUE_STRING ? v->string
                       : v->kind == VALUE_INT  ? arena_fmt(scratch, "%lld", (long long)v->integer)
                       : v->kind == VALUE_REAL ? arena_fmt(scratch, "%.10g", v->real)
                                               : NULL;
    return text != NULL && version_valid(str_of(text)) ? text : NULL;
}

/* True when the two are to be compared as versions; *ret_order is then set. */
static bool version_order(struct arena *scratch, const struct operand *a, const struct operand *b,
                          int *ret_order)
{
    if (!a->is_version && !b->is_version) {
        return false;
    }
    const char *x = version_text(scratch, &a->v);
    const char *y = version_text(scratch, &b->v);
    if (x == NULL || y == NULL) {
        return false;
    }
    *ret_order = version_cmp(str_of(x), str_of(y));
    return true;
}

static bool text_bool(const char *text, bool *ret_bool)
{
    bool yes = strcasecmp(text, "true") == 0 || strcmp(text, "1") == 0 ||
               strcasecmp(text, "yes") == 0 || strcasecmp(text, "on") == 0;
    bool no = strcasecmp(text, "false") == 0 || strcmp(text, "0") == 0 ||
              strcasecmp(text, "no") == 0 || strcasecmp(text, "off") == 0;
    *ret_bool = yes;
    return yes || no;
}

static enum truth lists_equal(struct arena *scratch, const struct operand *a,
                              const struct operand *b)
{
    if (a->v.list.count != b->v.list.count) {
        return TRUTH_FALSE;
    }
    for (size_t i = 0; i < a->v.list.count; i++) {
        struct operand x = {.state = LOOKUP_KNOWN, .v = a->v.list.items[i]};
        struct operand y = {.state = LOOKUP_KNOWN, .v = b->v.list.items[i]};
        if (value_equal(scratch, &x, &y) != TRUTH_TRUE) {
            return TRUTH_FALSE;
        }
    }
    return TRUTH_TRUE;
}

enum truth value_equal(struct arena *scratch, const struct operand *a, const struct operand *b)
{
    int order;
    if (version_order(scratch, a, b, &order)) {
        return order == 0;
    }
    enum value_kind x = a->v.kind;
    enum value_kind y = b->v.kind;
    if (x == VALUE_NULL || y == VALUE_NULL) {
        return x == y;
    }
    if (x == VALUE_LIST || y == VALUE_LIST) {
        return x == y ? lists_equal(scratch, a, b) : TRUTH_FALSE;
    }
    if (x == VALUE_STRING && y == VALUE_STRING) {
        double p;
        double q;
        return strcmp(a->v.string, b->v.string) == 0 ||
               ((a->is_capture || b->is_capture) && value_number(&a->v, &p) &&
                value_number(&b->v, &q) && p == q);
    }
    if ((x == VALUE_BOOL && y == VALUE_STRING) || (x == VALUE_STRING && y == VALUE_BOOL)) {
        bool flag;
        bool want = x == VALUE_BOOL ? a->v.boolean : b->v.boolean;
        return text_bool(x == VALUE_BOOL ? b->v.string : a->v.string, &flag) && flag == want;
    }
    if (x == VALUE_INT && y == VALUE_INT) {
        return a->v.integer == b->v.integer;
    }
    double p;
    double q;
    return value_number(&a->v, &p) && value_number(&b->v, &q) && p == q;
}

bool value_order(struct arena *scratch, const struct operand *a, const struct operand *b,
                 int *ret_order)
{
    if (version_order(scratch, a, b, ret_order)) {
        return true;
    }
    if (a->v.kind == VALUE_INT && b->v.kind == VALUE_INT) {
        *ret_order = (a->v.integer > b->v.integer) - (a->v.integer < b->v.integer);
        return true;
    }
    double p;
    double q;
    if (value_number(&a->v, &p) && value_number(&b->v, &q)) {
        *ret_order = (p > q) - (p < q);
        return !isnan(p) && !isnan(q);
    }
    if (a->v.kind == VALUE_STRING && b->v.kind == VALUE_STRING &&
        version_valid(str_of(a->v.string)) && version_valid(str_of(b->v.string))) {
        *ret_order = version_cmp(str_of(a->v.string), str_of(b->v.string));
        return true;
    }
    return false;
}

enum truth value_in(struct arena *scratch, const struct operand *a, const struct operand *b)
{
    if (b->v.kind == VALUE_LIST) {
        for (size_t i = 0; i < b->v.list.count; i++) {
            struct operand item = {.state = LOOKUP_KNOWN, .v = b->v.list.items[i]};
            if (value_equal(scratch, a, &item) == TRUTH_TRUE) {
                return TRUTH_TRUE;
            }
        }
        return TRUTH_FALSE;
    }
    if (a->v.kind == VALUE_STRING && b->v.kind == VALUE_STRING) {
        return strstr(b->v.string, a->v.string) != NULL;
    }
    return TRUTH_FALSE;
}

static bool text_matches(const pcre2_code *code, pcre2_match_data *data, const struct value *v)
{
    if (v->kind == VALUE_STRING) {
        return pcre2_match(code, (PCRE2_SPTR)v->string, strlen(v->string), 0, 0, data, NULL) >= 0;
    }
    if (v->kind == VALUE_LIST) {
        for (size_t i = 0; i < v->list.count; i++) {
            if (v->list.items[i].kind == VALUE_STRING &&
                text_matches(code, data, &v->list.items[i])) {
                return true;
            }
        }
    }
    return false;
}

enum truth value_matches(const struct value *v, const char *regex)
{
    int error;
    PCRE2_SIZE offset;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)regex, PCRE2_ZERO_TERMINATED,
                                     PCRE2_UTF | PCRE2_MATCH_INVALID_UTF, &error, &offset, NULL);
    pcre2_match_data *data = code != NULL ? pcre2_match_data_create_from_pattern(code, NULL) : NULL;
    enum truth result = TRUTH_UNKNOWN; /* out of memory, or a regex that was checked elsewhere */
    if (data != NULL) {
        result = text_matches(code, data, v) ? TRUTH_TRUE : TRUTH_FALSE;
    }
    pcre2_match_data_free(data);
    pcre2_code_free(code);
    return result;
}
