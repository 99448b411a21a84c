// SPDX-License-Identifier: Apache-2.0
/*
 * utf8proc behind our names. Normalising goes piece by piece: between two characters that are inert
 * (no combining class, never joined with what is before them) nothing can happen, so that only the
 * spans around others are given to the library, and its memory stays small.
 */
#include "base/unicode.h"

#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

enum {
    MAX_SPAN = 1 << 16 /* characters in a row that are not inert; beyond, they are cut */
};

bool unicode_is_space(uint32_t cp)
{
    return (cp >= 9 && cp <= 13) || cp == 0x20 || cp == 0x85 || cp == 0xA0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F ||
           cp == 0x205F || cp == 0x3000;
}

static unsigned class_of_category(utf8proc_category_t c)
{
    switch (c) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT: return UNICODE_LETTER | UNICODE_UPPER;
    case UTF8PROC_CATEGORY_LL: return UNICODE_LETTER | UNICODE_LOWER;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return UNICODE_LETTER;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return UNICODE_MARK;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return UNICODE_NUMBER;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO: return UNICODE_PUNCTUATION;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO: return UNICODE_SYMBOL;
    default: return 0;
    }
}

unsigned unicode_class_slow(uint32_t cp)
{
    unsigned space = unicode_is_space(cp) ? UNICODE_SPACE : 0;
    return space | class_of_category(utf8proc_category((utf8proc_int32_t)cp));
}

const struct unicode_table *unicode_table_new(struct arena *a)
{
    struct unicode_table *t = arena_alloc(a, sizeof *t);
    for (uint32_t cp = 0; cp < UNICODE_TABLE_SIZE; cp++) {
        t->classes[cp] = (uint8_t)unicode_class_slow(cp);
    }
    return t;
}

bool unicode_is_word(uint32_t cp)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    if ((class_of_category(c) & (UNICODE_LETTER | UNICODE_MARK)) != 0) {
        return true;
    }
    bool circled = (cp >= 0x24B6 && cp <= 0x24E9) || (cp >= 0x1F130 && cp <= 0x1F149) ||
                   (cp >= 0x1F150 && cp <= 0x1F169) || (cp >= 0x1F170 && cp <= 0x1F189);
    return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_PC ||
           circled;
}

bool unicode_is_other(uint32_t cp)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_CN ||
           c == UTF8PROC_CATEGORY_CO || c == UTF8PROC_CATEGORY_CS;
}

bool unicode_is_nonspacing(uint32_t cp)
{
    return utf8proc_category((utf8proc_int32_t)cp) == UTF8PROC_CATEGORY_MN;
}

void unicode_add_lower(struct strbuf *out, uint32_t cp)
{
    if (cp == 0x130) { /* the one full mapping without context that is longer */
        utf8_add(out, 'i');
        utf8_add(out, 0x307);
        return;
    }
    utf8_add(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp));
}

/* Surely untouched by any form and surely never joined with a character before it. */
static bool is_inert(enum unicode_form form, uint32_t cp)
{
    if (cp < 0x80) {
        return true;
    }
    if (form == UNICODE_NFC && cp < 0x300) {
        return true;
    }
    if (cp >= 0x3400 && cp <= 0x9FFF) {
        return true;
    }
    if (form == UNICODE_NFC && ((cp >= 0xAC00 && cp <= 0xD7A3) || (cp >= 0x3000 && cp <= 0x3029) ||
                                (cp >= 0x3041 && cp <= 0x3098) || (cp >= 0x309D && cp <= 0x30FF))) {
        return true;
    }
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)cp);
    bool decomposes = p->decomp_seqindex != UINT16_MAX &&
                      (form == UNICODE_NFC || form == UNICODE_NFD ? p->decomp_type == 0 : true);
    bool hangul = cp >= 0x1100 && cp <= 0x11FF;
    bool syllable = cp >= 0xAC00 && cp <= 0xD7A3;
    /* comb_index below 0x8000 starts a pair, from there on it may end one. */
    bool joins = p->comb_index != UINT16_MAX && p->comb_index >= 0x8000;
    return p->combining_class == 0 && !decomposes && !hangul && !syllable && !joins;
}

bool unicode_is_normal(enum unicode_form form, struct str s)
{
    const char *end = s.p + s.n;
    for (const char *p = s.p; p < end;) {
        unsigned n;
        uint32_t cp = utf8_next(p, end, &n);
        if (!is_inert(form, cp)) {
            return false;
        }
        p += n;
    }
    return true;
}

static void normalize_span(enum unicode_form form, struct strbuf *out, struct str s)
{
    unsigned options = UTF8PROC_STABLE;
    options |= form == UNICODE_NFC || form == UNICODE_NFKC ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
    options |= form == UNICODE_NFKC || form == UNICODE_NFKD ? UTF8PROC_COMPAT : 0;
    size_t room = s.n * 20 + 64; /* U+FDFA becomes 18 characters from 3 bytes */
    struct arena *scratch = arena_new(0);
    utf8proc_int32_t *cps = arena_array(scratch, room, sizeof *cps);
    utf8proc_ssize_t n = utf8proc_decompose((const utf8proc_uint8_t *)s.p, (utf8proc_ssize_t)s.n,
                                            cps, (utf8proc_ssize_t)room, options);
    if (n < 0 || (size_t)n > room) {
        strbuf_add(out, s);
    } else {
        n = utf8proc_normalize_utf32(cps, n, options);
        for (utf8proc_ssize_t i = 0; i < n; i++) {
            utf8_add(out, (uint32_t)cps[i]);
        }
    }
    arena_free(scratch);
}

void unicode_normalize(enum unicode_form form, struct strbuf *out, struct str s)
{
    const char *end = s.p + s.n;
    const char *clean = s.p; /* start of what was not yet appended */
    const char *last = s.p;  /* start of the last inert character */
    for (const char *p = s.p; p < end;) {
        unsigned n;
        uint32_t cp = utf8_next(p, end, &n);
        if (is_inert(form, cp)) {
            last = p;
            p += n;
            continue;
        }
        size_t count = 0;
        const char *q = p;
        while (q < end && count < MAX_SPAN) {
            cp = utf8_next(q, end, &n);
            if (is_inert(form, cp)) {
                break;
            }
            q += n;
            count++;
        }
        strbuf_add(out, (struct str){.p = clean, .n = (size_t)(last - clean)});
        normalize_span(form, out, (struct str){.p = last, .n = (size_t)(q - last)});
        clean = q;
        last = q;
        p = q;
    }
    strbuf_add(out, (struct str){.p = clean, .n = (size_t)(end - clean)});
}

size_t unicode_grapheme(struct str s)
{
    const char *end = s.p + s.n;
    utf8proc_int32_t state = 0;
    unsigned n;
    uint32_t before = utf8_next(s.p, end, &n);
    const char *p = s.p + n;
    while (p < end) {
        uint32_t cp = utf8_next(p, end, &n);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)cp,
                                             &state)) {
            break;
        }
        before = cp;
        p += n;
    }
    return (size_t)(p - s.p);
}
