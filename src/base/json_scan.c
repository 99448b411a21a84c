// SPDX-License-Identifier: Apache-2.0
/* The outline of JSON: strings are skipped by memchr, values by counting brackets. */
#include "base/json_scan.h"

#include <string.h>

enum {
    MAX_DEPTH = 256
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t skip_space(struct str t, size_t at)
{
    while (at < t.n && is_space(t.p[at])) {
        at++;
    }
    return at;
}

/* `at` is behind the opening quote; returns the place of the closing one, or SIZE_MAX. */
static size_t string_end(struct str t, size_t at)
{
    for (;;) {
        size_t quote = str_find_char(t, '"', at);
        if (quote == SIZE_MAX) {
            return SIZE_MAX;
        }
        size_t backslashes = 0;
        while (quote - backslashes > at && t.p[quote - backslashes - 1] == '\\') {
            backslashes++;
        }
        if (backslashes % 2 == 0) {
            return quote;
        }
        at = quote + 1;
    }
}

size_t json_scan_value_end(struct str t, size_t at)
{
    char open[MAX_DEPTH];
    size_t depth = 0;
    while (at < t.n) {
        char c = t.p[at];
        if (c == '"') {
            at = string_end(t, at + 1);
            if (at == SIZE_MAX) {
                return SIZE_MAX;
            }
        } else if (c == '{' || c == '[') {
            if (depth == MAX_DEPTH) {
                return SIZE_MAX;
            }
            open[depth++] = c;
        } else if (c == '}' || c == ']') {
            if (depth == 0) {
                return at; /* a bare word ends at its parent's bracket */
            }
            if (open[--depth] != (c == '}' ? '{' : '[')) {
                return SIZE_MAX;
            }
        } else if (depth == 0 && (c == ',' || is_space(c))) {
            return at;
        }
        at++;
        if (depth == 0 && (c == '"' || c == '}' || c == ']')) {
            return at;
        }
    }
    return depth == 0 ? at : SIZE_MAX;
}

bool json_scan_open(struct json_scan *s, struct str text)
{
    size_t at = skip_space(text, 0);
    if (at >= text.n || (text.p[at] != '{' && text.p[at] != '[')) {
        return false;
    }
    *s = (struct json_scan){.text = text, .at = at + 1, .close = text.p[at] == '{' ? '}' : ']'};
    return true;
}

static bool fail(struct json_scan *s)
{
    s->broken = true;
    return false;
}

bool json_scan_next(struct json_scan *s, struct str *ret_key, struct str *ret_value)
{
    struct str t = s->text;
    if (s->broken) {
        return false;
    }
    size_t at = skip_space(t, s->at);
    if (at < t.n && t.p[at] == ',') {
        at = skip_space(t, at + 1);
    }
    if (at >= t.n) {
        return fail(s);
    }
    if (t.p[at] == s->close) {
        s->at = at; /* stays here: further calls answer the same */
        return false;
    }
    struct str key = {.p = "", .n = 0};
    if (s->close == '}') {
        if (t.p[at] != '"') {
            return fail(s);
        }
        size_t end = string_end(t, at + 1);
        if (end == SIZE_MAX) {
            return fail(s);
        }
        key = str_slice(t, at + 1, end);
        at = skip_space(t, end + 1);
        if (at >= t.n || t.p[at] != ':') {
            return fail(s);
        }
        at = skip_space(t, at + 1);
    }
    size_t end = json_scan_value_end(t, at);
    if (end == SIZE_MAX || end == at) {
        return fail(s);
    }
    *ret_key = key;
    *ret_value = str_slice(t, at, end);
    s->at = end;
    return true;
}

size_t json_scan_count(struct str text)
{
    struct json_scan s;
    struct str key;
    struct str value;
    size_t n = 0;
    if (!json_scan_open(&s, text)) {
        return SIZE_MAX;
    }
    while (json_scan_next(&s, &key, &value)) {
        n++;
    }
    return s.broken ? SIZE_MAX : n;
}
