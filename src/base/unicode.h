// SPDX-License-Identifier: Apache-2.0
/*
 * Classes and normal forms of Unicode characters, from utf8proc (Unicode 15.0 in version 2.8). Classes know
 * what Unicode 16.0 assigned, however old utf8proc is; normal forms leave alone what is younger than Unicode 9.0,
 * as the tokenizers library does.
 *
 * What is white space follows the property White_Space, as Rust's char::is_whitespace and `\s` of
 * Oniguruma and of Rust's regex crate do; U+200B and U+FEFF are none.
 */
#ifndef ASSAY_BASE_UNICODE_H
#define ASSAY_BASE_UNICODE_H

#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

/* Bits of a character's class; general categories in brackets. */
enum unicode_class {
    UNICODE_LETTER = 1,       /* [L] */
    UNICODE_NUMBER = 2,       /* [N] */
    UNICODE_MARK = 4,         /* [M] */
    UNICODE_SPACE = 8,        /* White_Space */
    UNICODE_PUNCTUATION = 16, /* [P] */
    UNICODE_SYMBOL = 32,      /* [S] */
    UNICODE_UPPER = 64,       /* [Lu], [Lt] */
    UNICODE_LOWER = 128       /* [Ll] */
};

enum {
    UNICODE_TABLE_SIZE = 0x40000 /* characters above are looked up one by one */
};

/* Made once, read by everybody. */
struct unicode_table {
    uint8_t classes[UNICODE_TABLE_SIZE];
};

const struct unicode_table *unicode_table_new(struct arena *a) MUST_USE RETURNS_NONNULL;

/* The class of one character without a table. */
unsigned unicode_class_slow(uint32_t cp);

static inline unsigned unicode_class_of(const struct unicode_table *t, uint32_t cp)
{
    return cp < UNICODE_TABLE_SIZE ? t->classes[cp] : unicode_class_slow(cp);
}

bool unicode_is_space(uint32_t cp);
bool unicode_is_word(uint32_t cp);       /* `\w`: Alphabetic, marks, decimal digits, connectors */
bool unicode_is_other(uint32_t cp);      /* [C]: controls, formats, private use, unassigned */
bool unicode_is_nonspacing(uint32_t cp); /* [Mn] */

/* Appends the full lower case form, without regard to context (U+0130 gives two characters). */
void unicode_add_lower(struct strbuf *out, uint32_t cp);

enum unicode_form {
    UNICODE_NFC = 0,
    UNICODE_NFD,
    UNICODE_NFKC,
    UNICODE_NFKD,
    UNICODE_FORM_COUNT
};

/* True when s, whole UTF-8, surely is in the form already; a quick look that may say no wrongly. */
bool unicode_is_normal(enum unicode_form form, struct str s);

/* Appends s, whole UTF-8, in the form. */
void unicode_normalize(enum unicode_form form, struct strbuf *out, struct str s);

/* Length in bytes of the extended grapheme cluster that whole UTF-8 starts with; s.n > 0. */
size_t unicode_grapheme(struct str s);

#endif
