// SPDX-License-Identifier: Apache-2.0
/* A cursor over JSON text; strings end by memchr, which is where vocabularies spend their time. */
#include "base/json_cursor.h"

#include <string.h>

#include "base/json_scan.h"
#include "base/utf8.h"

static void skip_space(struct json_cursor *j)
{
    while (j->at < j->text.n) {
        char c = j->text.p[j->at];
        if (c != ' ' && c != '\n' && c != '\t' && c != '\r') {
            return;
        }
        j->at++;
    }
}

void json_cursor_init(struct json_cursor *j, struct str text)
{
    *j = (struct json_cursor){.text = text};
}

bool json_cursor_fail(struct json_cursor *j, const char *reason)
{
    if (j->error == NULL) {
        j->error = reason;
    }
    return false;
}

char json_cursor_peek(struct json_cursor *j)
{
    skip_space(j);
    return j->error == NULL && j->at < j->text.n ? j->text.p[j->at] : 0;
}

bool json_cursor_enter(struct json_cursor *j, char open)
{
    if (json_cursor_peek(j) != open) {
        return json_cursor_fail(j, open == '{' ? "an object is expected" : "a list is expected");
    }
    j->at++;
    return true;
}

/* Steps to the next entry; `first` when the bracket is just behind. False at the closing bracket. */
static bool next_entry(struct json_cursor *j, char open, char close)
{
    char c = json_cursor_peek(j);
    if (c == close) {
        j->at++;
        return false;
    }
    size_t before = j->at;
    while (before > 0 && strchr(" \n\t\r", j->text.p[before - 1]) != NULL) {
        before--;
    }
    if (before > 0 && j->text.p[before - 1] == open) {
        return c != 0 ? true : json_cursor_fail(j, "the text ends too early");
    }
    if (c != ',') {
        return json_cursor_fail(j, c == 0 ? "the text ends too early" : "a comma is expected");
    }
    j->at++;
    if (json_cursor_peek(j) == close) {
        return json_cursor_fail(j, "a comma stands before a closing bracket");
    }
    return true;
}

bool json_cursor_item(struct json_cursor *j)
{
    return next_entry(j, '[', ']');
}

bool json_cursor_key(struct json_cursor *j, struct json_text *ret_key)
{
    if (!next_entry(j, '{', '}') || !json_cursor_string(j, ret_key)) {
        return false;
    }
    if (json_cursor_peek(j) != ':') {
        return json_cursor_fail(j, "a colon is expected behind a key");
    }
    j->at++;
    return true;
}

bool json_cursor_string(struct json_cursor *j, struct json_text *ret_text)
{
    if (json_cursor_peek(j) != '"') {
        return json_cursor_fail(j, "a string is expected");
    }
    size_t from = j->at + 1;
    size_t at = from;
    bool escaped = false;
    for (;;) {
        while (at < j->text.n && j->text.p[at] != '"' && j->text.p[at] != '\\') {
            at++;
        }
        if (at >= j->text.n) {
            return json_cursor_fail(j, "a string does not end");
        }
        if (j->text.p[at] == '"') {
            break;
        }
        escaped = true;
        at += 2;
    }
    *ret_text = (struct json_text){.raw = str_slice(j->text, from, at), .escaped = escaped};
    j->at = at + 1;
    return true;
}

/* The bare word or number at the cursor. */
static struct str word(struct json_cursor *j)
{
    skip_space(j);
    size_t from = j->at;
    while (j->at < j->text.n && strchr(",]} \n\t\r:", j->text.p[j->at]) == NULL) {
        j->at++;
    }
    return str_slice(j->text, from, j->at);
}

bool json_cursor_int(struct json_cursor *j, int64_t *ret_value)
{
    struct str w = word(j);
    uint64_t small = 0;
    if (w.n > 0 && w.n < 10) { /* ids, the common case */
        size_t i = 0;
        while (i < w.n && w.p[i] >= '0' && w.p[i] <= '9') {
            small = small * 10 + (uint64_t)(w.p[i] - '0');
            i++;
        }
        if (i == w.n) {
            *ret_value = (int64_t)small;
            return true;
        }
    }
    return str_to_i64(w, 10, ret_value) == ST_OK ||
           json_cursor_fail(j, "a whole number is expected");
}

bool json_cursor_real(struct json_cursor *j, double *ret_value)
{
    return str_to_double(word(j), ret_value) == ST_OK ||
           json_cursor_fail(j, "a number is expected");
}

bool json_cursor_bool(struct json_cursor *j, bool *ret_value)
{
    struct str w = word(j);
    if (!str_is(w, "true") && !str_is(w, "false")) {
        return json_cursor_fail(j, "true or false is expected");
    }
    *ret_value = str_is(w, "true");
    return true;
}

bool json_cursor_skip(struct json_cursor *j, struct str *ret_value)
{
    skip_space(j);
    size_t end = j->error == NULL ? json_scan_value_end(j->text, j->at) : SIZE_MAX;
    if (end == SIZE_MAX || end == j->at) {
        return json_cursor_fail(j, "a value is expected");
    }
    *ret_value = str_slice(j->text, j->at, end);
    j->at = end;
    return true;
}

bool json_cursor_end(struct json_cursor *j)
{
    return json_cursor_peek(j) == 0 && j->error == NULL;
}

/* Four hexadecimal digits at `at`. */
static bool hex4(struct str s, size_t at, uint32_t *ret_value)
{
    uint64_t value;
    if (at + 4 > s.n) {
        return false;
    }
    for (size_t i = at; i < at + 4; i++) {
        if (strchr("0123456789abcdefABCDEF", s.p[i]) == NULL || s.p[i] == '\0') {
            return false;
        }
    }
    if (str_to_u64(str_slice(s, at, at + 4), 16, &value) != ST_OK) {
        return false;
    }
    *ret_value = (uint32_t)value;
    return true;
}

static bool unicode_escape(struct strbuf *out, struct str raw, size_t *at)
{
    uint32_t cp;
    uint32_t low;
    if (!hex4(raw, *at, &cp)) {
        return false;
    }
    *at += 4;
    if (cp >= 0xD800 && cp <= 0xDBFF) {
        if (*at + 2 > raw.n || raw.p[*at] != '\\' || raw.p[*at + 1] != 'u' ||
            !hex4(raw, *at + 2, &low) || low < 0xDC00 || low > 0xDFFF) {
            return false;
        }
        cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
        *at += 6;
    } else if (cp >= 0xDC00 && cp <= 0xDFFF) {
        return false;
    }
    utf8_add(out, cp);
    return true;
}

bool json_cursor_unescape(struct strbuf *out, struct str raw)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    size_t at = 0;
    while (at < raw.n) {
        size_t back = str_find_char(raw, '\\', at);
        strbuf_add(out, str_slice(raw, at, back == SIZE_MAX ? raw.n : back));
        if (back == SIZE_MAX) {
            return true;
        }
        if (back + 1 >= raw.n) {
            return false;
        }
        at = back + 2;
        const char *plain = strchr(from, raw.p[back + 1]);
        if (plain != NULL && *plain != '\0') {
            strbuf_addc(out, to[plain - from]);
        } else if (raw.p[back + 1] != 'u' || !unicode_escape(out, raw, &at)) {
            return false;
        }
    }
    return true;
}
