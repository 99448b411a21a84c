// SPDX-License-Identifier: Apache-2.0
/*
 * The byte-level alphabet of GPT-2: bytes 33-126, 161-172 and 174-255 are written as the characters
 * of that number, the other 68 in increasing order as U+0100, U+0101, ...
 */
#include "base/utf8.h"

#include "model/tok_parts.h"

enum {
    LOW_OTHERS = 33,         /* bytes 0 to 32 */
    HIGH_OTHERS = 33 + 34,   /* and 127 to 160 */
    OTHERS = HIGH_OTHERS + 1 /* and 173 */
};

static bool is_itself(uint32_t c)
{
    return (c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255);
}

bool tok_bytes_of(struct str piece, char *ret_bytes, size_t *ret_n)
{
    const char *end = piece.p + piece.n;
    size_t count = 0;
    unsigned n;
    for (const char *p = piece.p; p < end; p += n) {
        uint32_t c = utf8_next(p, end, &n);
        if (is_itself(c)) {
            ret_bytes[count++] = (char)c;
            continue;
        }
        uint32_t k = c - 0x100;
        if (c < 0x100 || k >= OTHERS) {
            return false;
        }
        uint32_t byte = k < LOW_OTHERS ? k : k < HIGH_OTHERS ? 127 + k - LOW_OTHERS : 173;
        ret_bytes[count++] = (char)byte;
    }
    *ret_n = count;
    return true;
}

void tok_alphabet_add(struct strbuf *out, struct str bytes)
{
    for (size_t i = 0; i < bytes.n; i++) {
        uint32_t c = (unsigned char)bytes.p[i];
        if (!is_itself(c)) {
            c = 0x100 + (c < LOW_OTHERS ? c : c == 173 ? HIGH_OTHERS : c - 127 + LOW_OTHERS);
        }
        utf8_add(out, c);
    }
}
