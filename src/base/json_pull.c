// SPDX-License-Identifier: Apache-2.0
/* The state machine: what may come next is one small enum, the nesting a stack of brackets. */
#include "base/json_pull.h"

#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

enum expect {
    EXPECT_VALUE = 0,
    EXPECT_VALUE_OR_CLOSE, /* after '[' */
    EXPECT_KEY,            /* after ',' in an object */
    EXPECT_KEY_OR_CLOSE,   /* after '{' */
    EXPECT_COMMA,          /* after a value inside brackets */
    EXPECT_NOTHING,        /* the outermost value is complete */
    EXPECT_FAILED
};

void json_pull_init(struct json_pull *j, struct str source, struct arena *arena)
{
    *j = (struct json_pull){.source = source, .arena = arena, .expect = EXPECT_VALUE};
}

static enum json_event fail(struct json_pull *j, const char *problem)
{
    j->problem = problem;
    j->expect = EXPECT_FAILED;
    return JSON_PULL_ERROR;
}

/* ---- strings ---- */

static bool hex4(struct str s, size_t at, uint32_t *ret_code)
{
    if (s.n - at < 4) {
        return false;
    }
    uint32_t code = 0;
    for (size_t i = 0; i < 4; i++) {
        unsigned char c = (unsigned char)s.p[at + i];
        unsigned char lower = c | 0x20;
        if (c >= '0' && c <= '9') {
            code = code << 4 | (uint32_t)(c - '0');
        } else if (lower >= 'a' && lower <= 'f') {
            code = code << 4 | (uint32_t)(lower - 'a' + 10);
        } else {
            return false;
        }
    }
    *ret_code = code;
    return true;
}

/* The \u escape whose digits begin at *at, with its low surrogate; false when malformed. */
static bool unicode_escape(struct str s, size_t *at, uint32_t *ret_code)
{
    uint32_t code;
    if (!hex4(s, *at, &code)) {
        return false;
    }
    *at += 4;
    if (code >= 0xdc00 && code <= 0xdfff) {
        return false;
    }
    if (code >= 0xd800 && code <= 0xdbff) {
        uint32_t low;
        if (s.n - *at < 6 || s.p[*at] != '\\' || s.p[*at + 1] != 'u' || !hex4(s, *at + 2, &low) ||
            low < 0xdc00 || low > 0xdfff) {
            return false;
        }
        *at += 6;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    *ret_code = code;
    return true;
}

/* Writes the unescaped text; false when an escape is malformed. An escape never grows. */
static bool unescape(struct str raw, char *out, size_t *ret_n)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    size_t n = 0;
    for (size_t at = 0; at < raw.n;) {
        if (raw.p[at] != '\\') {
            out[n++] = raw.p[at++];
            continue;
        }
        if (++at >= raw.n) {
            return false;
        }
        char c = raw.p[at++];
        if (c == 'u') {
            uint32_t code;
            if (!unicode_escape(raw, &at, &code)) {
                return false;
            }
            n += utf8_put(code, out + n);
            continue;
        }
        const char *found = c != '\0' ? strchr(from, c) : NULL;
        if (found == NULL) {
            return false;
        }
        out[n++] = to[found - from];
    }
    *ret_n = n;
    return true;
}

/* At an opening quote. NULL when the string was taken, else the problem. */
static const char *take_string(struct json_pull *j)
{
    struct str s = j->source;
    size_t start = j->at + 1;
    size_t at = start;
    bool escaped = false;
    while (at < s.n && s.p[at] != '"') {
        if ((unsigned char)s.p[at] < 0x20) {
            return "a string holds a control byte";
        }
        if (s.p[at] == '\\') {
            escaped = true;
            at++;
        }
        at++;
    }
    if (at >= s.n) {
        return "a string does not end";
    }
    struct str raw = str_slice(s, start, at);
    j->at = at + 1;
    j->text = raw;
    if (utf8_valid_prefix(raw) != raw.n) {
        return "a string is not UTF-8";
    }
    if (escaped) {
        char *out = arena_alloc(j->arena, raw.n + 1);
        if (!unescape(raw, out, &j->text.n)) {
            return "a string holds a malformed escape";
        }
        j->text.p = out;
    }
    return NULL;
}

/* ---- numbers and words ---- */

static size_t digits(struct str s, size_t at)
{
    while (at < s.n && s.p[at] >= '0' && s.p[at] <= '9') {
        at++;
    }
    return at;
}

static const char *take_number(struct json_pull *j)
{
    static const char malformed[] = "a number is malformed";
    struct str s = j->source;
    size_t at = j->at + (s.p[j->at] == '-');
    size_t from = at;
    at = digits(s, at);
    if (at == from || (s.p[from] == '0' && at - from > 1)) {
        return malformed;
    }
    if (at < s.n && s.p[at] == '.') {
        from = ++at;
        at = digits(s, at);
        if (at == from) {
            return malformed;
        }
    }
    if (at < s.n && (s.p[at] == 'e' || s.p[at] == 'E')) {
        at++;
        at += at < s.n && (s.p[at] == '+' || s.p[at] == '-');
        from = at;
        at = digits(s, at);
        if (at == from) {
            return malformed;
        }
    }
    j->text = str_slice(s, j->at, at);
    j->at = at;
    return NULL;
}

static bool take_word(struct json_pull *j, const char *word)
{
    size_t n = strlen(word);
    if (j->source.n - j->at < n || memcmp(j->source.p + j->at, word, n) != 0) {
        return false;
    }
    j->at += n;
    return true;
}

/* ---- the machine ---- */

static void after_value(struct json_pull *j)
{
    j->expect = j->depth == 0 ? EXPECT_NOTHING : EXPECT_COMMA;
}

static enum json_event open_bracket(struct json_pull *j, char c)
{
    if (j->depth == JSON_PULL_DEPTH) {
        return fail(j, "brackets are nested deeper than 128");
    }
    j->open[j->depth++] = (unsigned char)c;
    j->at++;
    j->expect = c == '{' ? EXPECT_KEY_OR_CLOSE : EXPECT_VALUE_OR_CLOSE;
    return c == '{' ? JSON_PULL_OBJECT : JSON_PULL_LIST;
}

static enum json_event close_bracket(struct json_pull *j)
{
    bool object = j->open[--j->depth] == '{';
    j->at++;
    after_value(j);
    return object ? JSON_PULL_OBJECT_END : JSON_PULL_LIST_END;
}

static enum json_event take_value(struct json_pull *j)
{
    static const struct {
        const char *word;
        enum json_event event;
    } words[] = {{"true", JSON_PULL_TRUE}, {"false", JSON_PULL_FALSE}, {"null", JSON_PULL_NULL}};

    char c = j->source.p[j->at];
    if (c == '{' || c == '[') {
        return open_bracket(j, c);
    }
    if (c == '"' || c == '-' || (c >= '0' && c <= '9')) {
        const char *problem = c == '"' ? take_string(j) : take_number(j);
        if (problem != NULL) {
            return fail(j, problem);
        }
        after_value(j);
        return c == '"' ? JSON_PULL_STRING : JSON_PULL_NUMBER;
    }
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (take_word(j, words[i].word)) {
            after_value(j);
            return words[i].event;
        }
    }
    return fail(j, "a value is missing or no JSON");
}

static void skip_space(struct json_pull *j)
{
    while (j->at < j->source.n && strchr(" \t\n\r", j->source.p[j->at]) != NULL &&
           j->source.p[j->at] != '\0') {
        j->at++;
    }
}

static enum json_event take_key(struct json_pull *j)
{
    if (j->source.p[j->at] != '"') {
        return fail(j, "a key in quotes is missing");
    }
    const char *problem = take_string(j);
    if (problem != NULL) {
        return fail(j, problem);
    }
    skip_space(j);
    if (j->at >= j->source.n || j->source.p[j->at] != ':') {
        return fail(j, "a colon is missing behind a key");
    }
    j->at++;
    j->expect = EXPECT_VALUE;
    return JSON_PULL_KEY;
}

/* Inside brackets and behind a value: a comma or the closing bracket. */
static bool pass_comma(struct json_pull *j)
{
    if (j->source.p[j->at] != ',') {
        return false;
    }
    j->at++;
    j->expect = j->open[j->depth - 1] == '{' ? EXPECT_KEY : EXPECT_VALUE;
    skip_space(j);
    return true;
}

enum json_event json_pull_next(struct json_pull *j)
{
    if (j->expect == EXPECT_FAILED) {
        return JSON_PULL_ERROR;
    }
    skip_space(j);
    bool at_end = j->at >= j->source.n;
    if (j->expect == EXPECT_NOTHING) {
        return at_end ? JSON_PULL_END : fail(j, "something follows the value");
    }
    if (!at_end && j->expect == EXPECT_COMMA && pass_comma(j)) {
        at_end = j->at >= j->source.n;
    }
    if (at_end) {
        return fail(j, "the text ends too early");
    }
    char c = j->source.p[j->at];
    bool closes = j->depth != 0 && c == (j->open[j->depth - 1] == '{' ? '}' : ']');
    switch (j->expect) {
    case EXPECT_VALUE_OR_CLOSE: return closes ? close_bracket(j) : take_value(j);
    case EXPECT_KEY_OR_CLOSE: return closes ? close_bracket(j) : take_key(j);
    case EXPECT_COMMA:
        return closes ? close_bracket(j) : fail(j, "a comma or a closing bracket is missing");
    case EXPECT_KEY: return take_key(j);
    default: return take_value(j);
    }
}

bool json_pull_skip(struct json_pull *j, enum json_event began)
{
    if (began == JSON_PULL_ERROR) {
        return false;
    }
    if (began != JSON_PULL_OBJECT && began != JSON_PULL_LIST) {
        return true;
    }
    unsigned outside = j->depth - 1;
    while (j->depth > outside) {
        if (json_pull_next(j) == JSON_PULL_ERROR) {
            return false;
        }
    }
    return true;
}
