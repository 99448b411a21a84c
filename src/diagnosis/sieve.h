// SPDX-License-Identifier: Apache-2.0
/*
 * Finds needles (needle.h) of many expressions in a line's shape. Every fourth position is
 * looked at: a needle of eleven bytes or more has four of its eight-byte groups entered into a bit
 * table, one of which stands at such a position wherever the needle begins. Shorter needles are looked
 * for at every second position, by groups of four and of three bytes. What the tables let through is
 * compared.
 */
#ifndef ASSAY_DIAGNOSIS_SIEVE_H
#define ASSAY_DIAGNOSIS_SIEVE_H

#include "base/arena.h"

#include "diagnosis/needle.h"

/* A needle as it is stored in a scanner database: where its search groups lie, whose it is. */
struct packed_needle {
    uint32_t id;
    uint8_t n;
    uint8_t stretch; /* offset of the bytes that are looked for first */
    uint8_t before;  /* index of a byte set */
    uint8_t after;
    unsigned char text[NEEDLE_MAX];
};

enum {
    SIEVE_SETS_MAX = 256
};

struct packed_needles {
    struct packed_needle *items;
    size_t count;
    size_t capacity;
    struct byte_set sets[SIEVE_SETS_MAX]; /* 0 is every byte */
    size_t set_count;
    uint8_t common[1 << 14]; /* how often ordinary logs have a group, by hash */
};

/* Adds the needles of one expression under `id`. */
void packed_needles_init(struct arena *a, struct packed_needles *p);
void packed_needles_add(struct arena *a, struct packed_needles *p, const struct needle_list *list,
                        uint32_t id);

struct sieve;

/* Keeps the pointers. */
struct sieve *sieve_new(struct arena *a, const struct packed_needle *needles, size_t count,
                        const struct byte_set *sets) MUST_USE RETURNS_NONNULL;

/* True when there are needles of this id. */
bool sieve_knows(const struct sieve *s, uint32_t id);

/*
 * Calls found(ctx, id, end) for every needle in the text, a line's shape (line_shape.h) with
 * SHAPE_MARGIN bytes behind it; `end` is behind the needle. Positions rise, but for needles that
 * overlap.
 */
typedef void sieve_found(void *ctx, uint32_t id, uint32_t end);
void sieve_run(const struct sieve *s, const char *text, size_t n, sieve_found *found, void *ctx);

#endif
