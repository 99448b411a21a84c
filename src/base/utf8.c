// SPDX-License-Identifier: Apache-2.0
/* One decoder; the ranges are table 3-7 of the Unicode standard. */
#include "base/utf8.h"

#include <string.h>

uint32_t utf8_decode(const char *p, const char *end, unsigned *ret_n, bool *ret_ok)
{
    const unsigned char *b = (const unsigned char *)p;
    size_t left = (size_t)(end - p);
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    unsigned need;
    uint32_t cp;
    bool ok = true;
    *ret_n = 1;
    if (b[0] < 0x80) {
        cp = b[0];
        need = 0;
    } else if (b[0] >= 0xC2 && b[0] <= 0xDF) {
        cp = b[0] & 0x1F;
        need = 1;
    } else if (b[0] >= 0xE0 && b[0] <= 0xEF) {
        low = b[0] == 0xE0 ? 0xA0 : 0x80;
        high = b[0] == 0xED ? 0x9F : 0xBF;
        cp = b[0] & 0x0F;
        need = 2;
    } else if (b[0] >= 0xF0 && b[0] <= 0xF4) {
        low = b[0] == 0xF0 ? 0x90 : 0x80;
        high = b[0] == 0xF4 ? 0x8F : 0xBF;
        cp = b[0] & 0x07;
        need = 3;
    } else {
        cp = UTF8_REPLACEMENT;
        need = 0;
        ok = false;
    }
    for (unsigned i = 1; i <= need; i++) {
        if (i >= left || b[i] < low || b[i] > high) {
            cp = UTF8_REPLACEMENT;
            ok = false;
            break;
        }
        cp = cp << 6 | (b[i] & 0x3F);
        low = 0x80;
        high = 0xBF;
        *ret_n = i + 1;
    }
    if (ret_ok != NULL) {
        *ret_ok = ok;
    }
    return cp;
}

unsigned utf8_put(uint32_t cp, char ret_bytes[4])
{
    if (cp < 0x80) {
        ret_bytes[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        ret_bytes[0] = (char)(0xC0 | cp >> 6);
        ret_bytes[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        ret_bytes[0] = (char)(0xE0 | cp >> 12);
        ret_bytes[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        ret_bytes[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    ret_bytes[0] = (char)(0xF0 | cp >> 18);
    ret_bytes[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    ret_bytes[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    ret_bytes[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}

void utf8_add(struct strbuf *out, uint32_t cp)
{
    char bytes[4];
    unsigned n = utf8_put(cp, bytes);
    strbuf_add(out, (struct str){.p = bytes, .n = n});
}

/* First byte at or after `at` that is not ASCII. */
static size_t skip_ascii(struct str s, size_t at)
{
    while (at + 8 <= s.n) {
        uint64_t word;
        memcpy(&word, s.p + at, sizeof word);
        if ((word & 0x8080808080808080u) != 0) {
            break;
        }
        at += 8;
    }
    while (at < s.n && (unsigned char)s.p[at] < 0x80) {
        at++;
    }
    return at;
}

size_t utf8_valid_prefix(struct str s)
{
    size_t at = 0;
    while ((at = skip_ascii(s, at)) < s.n) {
        unsigned n;
        bool ok;
        (void)utf8_decode(s.p + at, s.p + s.n, &n, &ok);
        if (!ok) {
            return at;
        }
        at += n;
    }
    return at;
}

void utf8_repair(struct strbuf *out, struct str s)
{
    while (s.n != 0) {
        size_t good = utf8_valid_prefix(s);
        strbuf_add(out, str_slice(s, 0, good));
        s = str_slice(s, good, s.n);
        if (s.n != 0) {
            unsigned n;
            (void)utf8_decode(s.p, s.p + s.n, &n, NULL);
            utf8_add(out, UTF8_REPLACEMENT);
            s = str_slice(s, n, s.n);
        }
    }
}
