// SPDX-License-Identifier: Apache-2.0
/*
 * Finds needles (needle.h) of many expressions in a line's shape. Three tables are asked, each for a few
 * bytes of a needle, its window; what they let through is compared.
 *
 * - Long needles (eleven bytes or more): eight bytes at every fourth position. Four windows in a row are
 *   entered, one of which stands at such a position wherever the needle begins.
 * - Middle ones (five and more): four bytes at every second position, with one byte before and two behind.
 * - Short ones (three, four): two bytes at every second position, with one byte before and two behind.
 *
 * A middle or short needle has one window for beginning at an even position and one for an odd one. They
 * may reach a byte over its ends, where only the bytes can stand that the needle allows there.
 */
#ifndef ASSAY_DIAGNOSIS_SIEVE_H
#define ASSAY_DIAGNOSIS_SIEVE_H

#include "base/arena.h"
#include "base/simd.h"

#include "diagnosis/needle.h"

enum sieve_step {
    SIEVE_LONG = 0,
    SIEVE_MIDDLE,
    SIEVE_SHORT,
    SIEVE_STEPS
};

/* A needle as it is stored in a scanner database: where its windows lie, whose it is. */
struct packed_needle {
    uint32_t id;
    uint8_t n;
    int8_t window[2]; /* offsets; of a long needle the first alone counts */
    uint8_t before;   /* index of a byte set */
    uint8_t after;
    unsigned char text[NEEDLE_MAX];
};

enum {
    SIEVE_SETS_MAX = 256,
    SIEVE_COMMON_BITS = 16,
    SIEVE_LONG_STRETCH = 11 /* bytes under the four windows of a long needle */
};

struct packed_needles {
    struct packed_needle *items;
    size_t count;
    size_t capacity;
    struct byte_set sets[SIEVE_SETS_MAX]; /* 0 is every byte */
    size_t set_count;
    const unsigned char *sample; /* the shape of needle_sample(), folded */
    size_t sample_n;
    uint8_t common[1 << SIEVE_COMMON_BITS];  /* how often it has four bytes, by hash */
    uint8_t windows[1 << SIEVE_COMMON_BITS]; /* and eight */
};

/* Adds the needles of one expression under `id`. */
void packed_needles_init(struct arena *a, struct packed_needles *p);
void packed_needles_add(struct arena *a, struct packed_needles *p, const struct needle_list *list,
                        uint32_t id);

/* False when its numbers are none that packed_needles_add() makes with `sets` byte sets. */
bool packed_needle_is_valid(const struct packed_needle *n, size_t sets);

/* Which table a needle of `n` bytes is in. */
static inline enum sieve_step sieve_step_of(size_t n)
{
    return n >= SIEVE_LONG_STRETCH ? SIEVE_LONG : n >= 5 ? SIEVE_MIDDLE : SIEVE_SHORT;
}

/* The bytes a window is found by. */
static inline size_t sieve_window_length(enum sieve_step step)
{
    return step == SIEVE_LONG ? 8 : step == SIEVE_MIDDLE ? 4 : 2;
}

/* The folded bytes that can stand at `at` of the needle: -1 is in front of it, n behind it. */
struct byte_set packed_needle_at(const struct packed_needle *n, const struct byte_set *sets,
                                 int at);

struct sieve;

/* Keeps the pointers. The needles must be valid. */
struct sieve *sieve_new(struct arena *a, const struct packed_needle *needles, size_t count,
                        const struct byte_set *sets, enum simd simd) MUST_USE RETURNS_NONNULL;

/* True when there are needles of this id. */
bool sieve_knows(const struct sieve *s, uint32_t id);

/*
 * Calls found(ctx, id, end) for every needle in the text, a line's shape (line_shape.h) with its ends:
 * '\n' in front of it and SHAPE_MARGIN bytes behind, '\n' first. `end` is behind the needle. Positions
 * rise, but for needles that overlap.
 */
typedef void sieve_found(void *ctx, uint32_t id, uint32_t end);
void sieve_run(const struct sieve *s, const char *text, size_t n, sieve_found *found, void *ctx);

#endif
