// SPDX-License-Identifier: Apache-2.0
/*
 * The shape of a line: its bytes with every decimal digit as '0', and hexadecimal numbers as '1's. Logs
 * say the same lines over and over with other numbers, so a line's shape has mostly been seen before,
 * and what was found out about it need not be found out again (shape_cache.h).
 *
 * A hexadecimal number is 4 to 64 of 0-9a-f with a digit and a letter among them, between bytes of no
 * word; an 'x' may stand in front. Numbers with an exponent (1e5, 1.5e-05) are none: an 'e' does not
 * count before '-', nor when it is the only letter, unless it comes first.
 */
#ifndef ASSAY_DIAGNOSIS_LINE_SHAPE_H
#define ASSAY_DIAGNOSIS_LINE_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/simd.h"

enum {
    SHAPE_MARGIN = 128, /* bytes behind a text that are read with it and count for nothing */
    SHAPE_HEX_MIN = 4,  /* length of a hexadecimal number */
    SHAPE_HEX_MAX = 64,
    SHAPE_MAX = 510 /* longer lines get no hash and are not remembered */
};

/* The shapes of all lines of a text, and where the lines end. */
struct shapes {
    size_t n;
    char *text;                /* n bytes and a margin; '\r' as '\n', and a '\n' in front */
    enum simd simd;            /* how they are made and cut */
    uint32_t *ends;            /* where '\n' and '\r' stand, and n */
    size_t next_end;           /* for shapes_lines() to go on from */
    uint64_t *newlines;        /* bit sets over the bytes: '\n' alone */
    uint32_t *newlines_before; /* of them, in front of each 64 bytes */
    uint64_t *digits;          /* 0-9 */
    uint64_t *letters;         /* a-f */
    uint64_t *hex;             /* of hexadecimal numbers */
};

/* For texts of up to `capacity` bytes. */
struct shapes *shapes_new(struct arena *a, size_t capacity,
                          enum simd simd) MUST_USE RETURNS_NONNULL;

/* SHAPE_MARGIN bytes behind the text must be readable. */
void shapes_take(struct shapes *s, const char *p, size_t n);

/* '\n' in front of byte `at`, which may be the text's end. */
static inline uint64_t shapes_newlines(const struct shapes *s, size_t at)
{
    uint64_t count = s->newlines_before[at / 64];
    for (uint64_t w = s->newlines[at / 64] & ~(~0ull << at % 64); w != 0; w &= w - 1) {
        count++;
    }
    return count;
}

/* A line of the text, without its end. */
struct shape_line {
    uint64_t hash; /* shape_hash(), when the line is neither empty nor longer than SHAPE_MAX */
    uint32_t at;
    uint32_t n;
};

/* The next lines from *at on, at most `max`; moves *at behind the last. None at the text's end. Those that
 * are empty are left out unless `empty`. */
size_t shapes_lines(struct shapes *s, size_t *at, struct shape_line *lines, size_t max, bool empty);

/* True when the line of `n` bytes at `at` has hexadecimal numbers. */
bool shapes_have_hex(const struct shapes *s, size_t at, size_t n);

/* A number for a shape of at most SHAPE_MAX bytes, to know it by; another one at each level. SHAPE_MARGIN bytes
 * behind it must be readable. */
uint64_t shape_hash(enum simd simd, const char *shape, size_t n);

#endif
