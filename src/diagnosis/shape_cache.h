// SPDX-License-Identifier: Apache-2.0
/*
 * What was found out about lines of one shape (line_shape.h). A shape is remembered when it comes a
 * second time, so that texts that never repeat cost nothing.
 *
 * A shape is known by its length and a hash of 64 bits; its text is not kept. In a log of ten million shapes one line
 * is taken for another with a probability of 2e-9 (ten million times the 4096 that are remembered, of 2^64). It is
 * then judged like that one, and nothing is read outside of it.
 */
#ifndef ASSAY_DIAGNOSIS_SHAPE_CACHE_H
#define ASSAY_DIAGNOSIS_SHAPE_CACHE_H

#include <stdalign.h>

#include "diagnosis/line_shape.h"
#include "diagnosis/metric_line.h"

enum {
    SHAPE_IDS_MAX = 11,
    SHAPE_TOO_MANY = SHAPE_IDS_MAX + 1 /* `count` of lines that are to be scanned again */
};

struct shape_entry {
    alignas(64) struct metric_layout *layout; /* where the metrics stand; NULL when not known */
    struct bar_places *bar; /* where the numbers of a bar stand; NULL when not known */
    uint8_t count;
    bool hex;      /* it has hexadecimal numbers (line_shape.h): for the caller to set */
    bool by_place; /* run_reader_by_place() reads its lines */
    uint16_t ask;  /* bit i: whether ids[i] really matches depends on the digits, ask again */
    uint16_t ids[SHAPE_IDS_MAX]; /* candidates that match, or may (scan.h), rising */
};

struct shape_cache;

struct shape_cache *shape_cache_new(void) MUST_USE RETURNS_NONNULL;
void shape_cache_free(struct shape_cache *c); /* NULL is fine */

/* Forgets all: what was found out no longer holds. */
void shape_cache_clear(struct shape_cache *c);

/* A full cache forgets all; true when it did. Entries stay until then. */
bool shape_cache_make_room(struct shape_cache *c);

/* Bit sets over the lines of a batch. */
struct shape_find {
    uint64_t idle;  /* their shape is known to have no candidates */
    uint64_t alone; /* it has one candidate, the one that was asked for */
};

/* The entries of up to 64 lines, NULL for those that have none, and for those that are too long for one. `id` is the
 * candidate that is asked for. */
struct shape_find shape_cache_find_lines(struct shape_cache *c, const struct shape_line *lines,
                                         size_t count, uint16_t id, struct shape_entry **entries);

/* The entry of a line's shape that was added since then, or NULL. */
struct shape_entry *shape_cache_find_new(struct shape_cache *c, const struct shape_line *line);

/* A new entry without candidates, or NULL when this shape comes for the first time or the cache is
 * full. The line has a hash, and no entry. */
struct shape_entry *shape_cache_add(struct shape_cache *c, const struct shape_line *line);

/* Memory that lives as long as the entries. */
struct arena *shape_cache_arena(struct shape_cache *c) RETURNS_NONNULL;

#endif
