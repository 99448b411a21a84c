// SPDX-License-Identifier: Apache-2.0
/*
 * Needles: texts of which every match of a regular expression contains at least one. Lines without
 * any needle of any pattern need not be looked at again, and nearly no line has one.
 *
 * Needles are folded: every byte has bit 0x20 set, which makes letters lower case, and every digit is
 * '0', as in the shapes (line_shape.h) they are looked for in; where a hexadecimal number of a shape can
 * reach into a needle, there is one more with '1's. A needle may say which bytes can stand before and
 * behind it. Extraction is conservative: what it does not understand requires nothing, and a
 * pattern that requires nothing has no needles.
 */
#ifndef ASSAY_DIAGNOSIS_NEEDLE_H
#define ASSAY_DIAGNOSIS_NEEDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

enum {
    NEEDLE_MIN = 3,
    NEEDLE_MAX = 28,
    NEEDLE_SET_MAX = 1000
};

/* A set of bytes. */
struct byte_set {
    uint64_t bits[4];
};

static inline bool byte_set_has(const struct byte_set *s, unsigned char c)
{
    return (s->bits[c >> 6] >> (c & 63) & 1) != 0;
}

static inline unsigned char needle_fold(unsigned char c)
{
    return c >= '0' && c <= '9' ? '0' : c | 0x20;
}

struct needle {
    unsigned char text[NEEDLE_MAX]; /* folded */
    size_t n;
    struct byte_set before; /* not folded, of shapes; a line's end counts as '\n' */
    struct byte_set after;
};

struct needle_list {
    struct needle *items;
    size_t count;
    size_t capacity;
};

/* The needles expected to be rarest; false when the expression requires none of NEEDLE_MIN bytes. */
bool needles_of(struct arena *a, const char *regex, struct needle_list *ret_needles);

/* Adds what the needles look like where hexadecimal numbers of a shape reach into them. */
void needle_list_add_hex(struct arena *a, struct needle_list *list);

/* How often a needle is expected in ordinary logs, as a weight for choosing. */
double needle_commonness(const struct needle *needle);

/* The text behind it, as it is (not folded). */
const char *needle_sample(size_t *ret_n);

#endif
