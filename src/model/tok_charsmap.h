// SPDX-License-Identifier: Apache-2.0
/*
 * SentencePiece's precompiled_charsmap: u32 size of a double array (darts-clone, u32 units), the
 * array, then NUL-terminated replacements that its values point at.
 * Source: sentencepiece src/normalizer.cc (DecodePrecompiledCharsMap), darts_clone/darts.h.
 */
#ifndef ASSAY_MODEL_TOK_CHARSMAP_H
#define ASSAY_MODEL_TOK_CHARSMAP_H

#include "base/str.h"

struct tok_charsmap {
    struct str units;  /* little-endian u32 each */
    struct str values; /* replacements */
};

/* The blob must outlive the map. An empty blob gives an empty map. */
enum status tok_charsmap_read(struct str blob, struct tok_charsmap *ret_map,
                              struct err *err) MUST_USE;

static inline bool tok_charsmap_is_empty(const struct tok_charsmap *m)
{
    return m->units.n == 0;
}

/* Length of the longest key that `text` starts with and its replacement; 0 when there is none. */
size_t tok_charsmap_longest(const struct tok_charsmap *m, struct str text, struct str *ret_value);

/* The shortest key, which is what the tokenizers library takes. */
size_t tok_charsmap_shortest(const struct tok_charsmap *m, struct str text, struct str *ret_value);

#endif
