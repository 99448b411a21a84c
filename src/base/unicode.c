// SPDX-License-Identifier: Apache-2.0
/*
 * utf8proc behind our names. Normalising goes piece by piece: between two characters that are inert
 * (no combining class, never joined with what is before them) nothing can happen, so that only the
 * spans around others are given to the library, and its memory stays small.
 */
#include "base/unicode.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

enum {
    MAX_SPAN = 1 << 16 /* characters in a row that are not inert; beyond, they are cut */
};

/* What Unicode 15.1 and 16.0 assigned, for a utf8proc that is older: the tokenizers of today were made with
 * these, and a letter that is none cuts its word. Punctuation and symbols by their first letter alone.
 * Source: DerivedGeneralCategory-16.0.0.txt. */
static const struct assigned {
    uint32_t first;
    uint32_t last;
    utf8proc_category_t category;
} assigned[] = {
    {0x897, 0x897, UTF8PROC_CATEGORY_MN},     {0x1B4E, 0x1B4F, UTF8PROC_CATEGORY_PO},
    {0x1B7F, 0x1B7F, UTF8PROC_CATEGORY_PO},   {0x1C89, 0x1C89, UTF8PROC_CATEGORY_LU},
    {0x1C8A, 0x1C8A, UTF8PROC_CATEGORY_LL},   {0x2427, 0x2429, UTF8PROC_CATEGORY_SO},
    {0x2FFC, 0x2FFF, UTF8PROC_CATEGORY_SO},   {0x31E4, 0x31E5, UTF8PROC_CATEGORY_SO},
    {0x31EF, 0x31EF, UTF8PROC_CATEGORY_SO},   {0xA7CB, 0xA7CC, UTF8PROC_CATEGORY_LU},
    {0xA7CD, 0xA7CD, UTF8PROC_CATEGORY_LL},   {0xA7DA, 0xA7DA, UTF8PROC_CATEGORY_LU},
    {0xA7DB, 0xA7DB, UTF8PROC_CATEGORY_LL},   {0xA7DC, 0xA7DC, UTF8PROC_CATEGORY_LU},
    {0x105C0, 0x105F3, UTF8PROC_CATEGORY_LO}, {0x10D40, 0x10D49, UTF8PROC_CATEGORY_ND},
    {0x10D4A, 0x10D4D, UTF8PROC_CATEGORY_LO}, {0x10D4E, 0x10D4E, UTF8PROC_CATEGORY_LM},
    {0x10D4F, 0x10D4F, UTF8PROC_CATEGORY_LO}, {0x10D50, 0x10D65, UTF8PROC_CATEGORY_LU},
    {0x10D69, 0x10D6D, UTF8PROC_CATEGORY_MN}, {0x10D6E, 0x10D6E, UTF8PROC_CATEGORY_PO},
    {0x10D6F, 0x10D6F, UTF8PROC_CATEGORY_LM}, {0x10D70, 0x10D85, UTF8PROC_CATEGORY_LL},
    {0x10D8E, 0x10D8F, UTF8PROC_CATEGORY_SO}, {0x10EC2, 0x10EC4, UTF8PROC_CATEGORY_LO},
    {0x10EFC, 0x10EFC, UTF8PROC_CATEGORY_MN}, {0x11380, 0x11389, UTF8PROC_CATEGORY_LO},
    {0x1138B, 0x1138B, UTF8PROC_CATEGORY_LO}, {0x1138E, 0x1138E, UTF8PROC_CATEGORY_LO},
    {0x11390, 0x113B5, UTF8PROC_CATEGORY_LO}, {0x113B7, 0x113B7, UTF8PROC_CATEGORY_LO},
    {0x113B8, 0x113BA, UTF8PROC_CATEGORY_MC}, {0x113BB, 0x113C0, UTF8PROC_CATEGORY_MN},
    {0x113C2, 0x113C2, UTF8PROC_CATEGORY_MC}, {0x113C5, 0x113C5, UTF8PROC_CATEGORY_MC},
    {0x113C7, 0x113CA, UTF8PROC_CATEGORY_MC}, {0x113CC, 0x113CD, UTF8PROC_CATEGORY_MC},
    {0x113CE, 0x113CE, UTF8PROC_CATEGORY_MN}, {0x113CF, 0x113CF, UTF8PROC_CATEGORY_MC},
    {0x113D0, 0x113D0, UTF8PROC_CATEGORY_MN}, {0x113D1, 0x113D1, UTF8PROC_CATEGORY_LO},
    {0x113D2, 0x113D2, UTF8PROC_CATEGORY_MN}, {0x113D3, 0x113D3, UTF8PROC_CATEGORY_LO},
    {0x113D4, 0x113D5, UTF8PROC_CATEGORY_PO}, {0x113D7, 0x113D8, UTF8PROC_CATEGORY_PO},
    {0x113E1, 0x113E2, UTF8PROC_CATEGORY_MN}, {0x116D0, 0x116E3, UTF8PROC_CATEGORY_ND},
    {0x11BC0, 0x11BE0, UTF8PROC_CATEGORY_LO}, {0x11BE1, 0x11BE1, UTF8PROC_CATEGORY_PO},
    {0x11BF0, 0x11BF9, UTF8PROC_CATEGORY_ND}, {0x11F5A, 0x11F5A, UTF8PROC_CATEGORY_MN},
    {0x13460, 0x143FA, UTF8PROC_CATEGORY_LO}, {0x16100, 0x1611D, UTF8PROC_CATEGORY_LO},
    {0x1611E, 0x16129, UTF8PROC_CATEGORY_MN}, {0x1612A, 0x1612C, UTF8PROC_CATEGORY_MC},
    {0x1612D, 0x1612F, UTF8PROC_CATEGORY_MN}, {0x16130, 0x16139, UTF8PROC_CATEGORY_ND},
    {0x16D40, 0x16D42, UTF8PROC_CATEGORY_LM}, {0x16D43, 0x16D6A, UTF8PROC_CATEGORY_LO},
    {0x16D6B, 0x16D6C, UTF8PROC_CATEGORY_LM}, {0x16D6D, 0x16D6F, UTF8PROC_CATEGORY_PO},
    {0x16D70, 0x16D79, UTF8PROC_CATEGORY_ND}, {0x18CFF, 0x18CFF, UTF8PROC_CATEGORY_LO},
    {0x1CC00, 0x1CCEF, UTF8PROC_CATEGORY_SO}, {0x1CCF0, 0x1CCF9, UTF8PROC_CATEGORY_ND},
    {0x1CD00, 0x1CEB3, UTF8PROC_CATEGORY_SO}, {0x1E5D0, 0x1E5ED, UTF8PROC_CATEGORY_LO},
    {0x1E5EE, 0x1E5EF, UTF8PROC_CATEGORY_MN}, {0x1E5F0, 0x1E5F0, UTF8PROC_CATEGORY_LO},
    {0x1E5F1, 0x1E5FA, UTF8PROC_CATEGORY_ND}, {0x1E5FF, 0x1E5FF, UTF8PROC_CATEGORY_PO},
    {0x1F8B2, 0x1F8BB, UTF8PROC_CATEGORY_SO}, {0x1F8C0, 0x1F8C1, UTF8PROC_CATEGORY_SO},
    {0x1FA89, 0x1FA89, UTF8PROC_CATEGORY_SO}, {0x1FA8F, 0x1FA8F, UTF8PROC_CATEGORY_SO},
    {0x1FABE, 0x1FABE, UTF8PROC_CATEGORY_SO}, {0x1FAC6, 0x1FAC6, UTF8PROC_CATEGORY_SO},
    {0x1FADC, 0x1FADC, UTF8PROC_CATEGORY_SO}, {0x1FADF, 0x1FADF, UTF8PROC_CATEGORY_SO},
    {0x1FAE9, 0x1FAE9, UTF8PROC_CATEGORY_SO}, {0x1FBCB, 0x1FBEF, UTF8PROC_CATEGORY_SO},
    {0x2EBF0, 0x2EE5D, UTF8PROC_CATEGORY_LO},
};

static int by_range(const void *key, const void *row)
{
    uint32_t cp = *(const uint32_t *)key;
    const struct assigned *r = row;
    return cp < r->first ? -1 : cp > r->last;
}

static utf8proc_category_t category_of(uint32_t cp)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    if (c != UTF8PROC_CATEGORY_CN || cp > assigned[ARRAY_LEN(assigned) - 1].last) {
        return c;
    }
    const struct assigned *r = bsearch(&cp, assigned, ARRAY_LEN(assigned), sizeof *assigned,
                                       by_range);
    return r != NULL ? r->category : c;
}

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
    return space | class_of_category(category_of(cp));
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
    utf8proc_category_t c = category_of(cp);
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
    utf8proc_category_t c = category_of(cp);
    return c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_CN ||
           c == UTF8PROC_CATEGORY_CO || c == UTF8PROC_CATEGORY_CS;
}

bool unicode_is_nonspacing(uint32_t cp)
{
    return category_of(cp) == UTF8PROC_CATEGORY_MN;
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

/* Characters that Unicode 10.0 to 15.0 gave a combining class or a decomposition. The tokenizers library makes
 * normal forms by the tables of 9.0 and leaves them as they are, and ids are to be its ids. */
static const struct range {
    uint32_t first;
    uint32_t last;
} untouched[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
    {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},
    {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},
    {0xA82C, 0xA82C},   {0xAB69, 0xAB69},   {0x10781, 0x10785}, {0x10787, 0x107B0},
    {0x107B2, 0x107BA}, {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF},
    {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B},
    {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11938, 0x11938}, {0x1193D, 0x1193E},
    {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47},
    {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97},
    {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E030, 0x1E06D}, {0x1E08F, 0x1E08F},
    {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF},
    {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9},
};

static int by_untouched(const void *key, const void *row)
{
    uint32_t cp = *(const uint32_t *)key;
    const struct range *r = row;
    return cp < r->first ? -1 : cp > r->last;
}

static bool is_untouched(uint32_t cp)
{
    return cp > 0x7FC &&
           bsearch(&cp, untouched, ARRAY_LEN(untouched), sizeof *untouched, by_untouched) != NULL;
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
    return (p->combining_class == 0 && !decomposes && !hangul && !syllable && !joins) ||
           is_untouched(cp);
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
    const char *last = s.p;  /* start of the last inert character, or behind an untouched one */
    for (const char *p = s.p; p < end;) {
        if ((unsigned char)*p < 0x80) { /* most of most texts */
            last = p++;
            continue;
        }
        unsigned n;
        uint32_t cp = utf8_next(p, end, &n);
        if (is_inert(form, cp)) {
            last = is_untouched(cp) ? p + n : p;
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
