// SPDX-License-Identifier: Apache-2.0
/*
 * UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.
 *
 * Text that is not UTF-8 is repaired as Python's errors="replace" does it: each maximal start of a
 * character becomes one U+FFFD.
 */
#ifndef ASSAY_BASE_UTF8_H
#define ASSAY_BASE_UTF8_H

#include <stdint.h>

#include "base/str.h"

enum {
    UTF8_REPLACEMENT = 0xFFFD
};

/* The character at p (p < end) and its length in bytes. Broken bytes give U+FFFD and the length of
 * the part to replace, at least 1; *ret_ok (may be NULL) tells it from a real U+FFFD. */
uint32_t utf8_decode(const char *p, const char *end, unsigned *ret_n, bool *ret_ok);

/* The same for text that is known to be whole UTF-8; ASCII without a call. */
static inline uint32_t utf8_next(const char *p, const char *end, unsigned *ret_n)
{
    if ((unsigned char)*p < 0x80) {
        *ret_n = 1;
        return (unsigned char)*p;
    }
    return utf8_decode(p, end, ret_n, NULL);
}

/* Length in bytes by the first byte of a whole character. */
static inline unsigned utf8_length(char first)
{
    unsigned char c = (unsigned char)first;
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

/* Bytes written (1 to 4); cp must be at most U+10FFFF. */
unsigned utf8_put(uint32_t cp, char ret_bytes[4]);
void utf8_add(struct strbuf *out, uint32_t cp);

/* Offset of the first byte that is not UTF-8; s.n when all is. */
size_t utf8_valid_prefix(struct str s);

/* Appends s with what is broken replaced. */
void utf8_repair(struct strbuf *out, struct str s);

#endif
