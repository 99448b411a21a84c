// SPDX-License-Identifier: Apache-2.0
/* Small readers for pieces of a line: "key: value" and friends. Views into the line. */
#ifndef ASSAY_DIAGNOSIS_LINE_TEXT_H
#define ASSAY_DIAGNOSIS_LINE_TEXT_H

#include "base/str.h"

/* The run of characters behind `key` that are none of `stops`; empty when the key is not there. */
static inline struct str line_behind(struct str line, const char *key, const char *stops)
{
    size_t at = str_find(line, key, 0);
    if (at == SIZE_MAX) {
        return (struct str){.p = "", .n = 0};
    }
    struct str rest = str_slice(line, at + str_of(key).n, line.n);
    size_t n = 0;
    while (n < rest.n && str_find_char(str_of(stops), rest.p[n], 0) == SIZE_MAX) {
        n++;
    }
    return str_slice(rest, 0, n);
}

/* Decimal digits at the front. */
static inline struct str line_digits(struct str s)
{
    size_t n = 0;
    while (n < s.n && s.p[n] >= '0' && s.p[n] <= '9') {
        n++;
    }
    return str_slice(s, 0, n);
}

/* The number in the digits behind `key`, or `fallback`. */
static inline int64_t line_number(struct str line, const char *key, int64_t fallback)
{
    size_t at = str_find(line, key, 0);
    if (at == SIZE_MAX) {
        return fallback;
    }
    struct str rest = str_slice(line, at + str_of(key).n, line.n);
    while (rest.n != 0 && (rest.p[0] == ' ' || rest.p[0] == ':' || rest.p[0] == '=')) {
        rest = str_slice(rest, 1, rest.n);
    }
    bool minus = rest.n != 0 && rest.p[0] == '-';
    uint64_t v;
    if (str_to_u64(line_digits(str_slice(rest, minus, rest.n)), 10, &v) != ST_OK || v > INT64_MAX) {
        return fallback;
    }
    return minus ? -(int64_t)v : (int64_t)v;
}

#endif
