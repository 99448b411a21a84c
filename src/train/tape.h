// SPDX-License-Identifier: Apache-2.0
/*
 * Memory for activations: a stack of reals that is filled during forward and emptied during backward,
 * and keeps its pages from step to step (an arena zeroes and frees). Not zeroed.
 */
#ifndef ASSAY_TRAIN_TAPE_H
#define ASSAY_TRAIN_TAPE_H

#include <stddef.h>

#include "base/arena.h"

struct tape_block;

struct tape {
    struct arena *arena;
    struct tape_block *first;
    struct tape_block *top; /* the block that is being filled; NULL before the first */
    size_t used;            /* of the top block */
};

struct tape_mark {
    struct tape_block *top;
    size_t used;
};

void tape_init(struct tape *t, struct arena *arena);

/* `count` things of `size` bytes, aligned to 64 bytes, with whatever was there before. */
void *tape_take(struct tape *t, size_t count, size_t size) RETURNS_NONNULL MUST_USE;

struct tape_mark tape_mark(const struct tape *t);

/* Everything taken since the mark is free again. */
void tape_rewind(struct tape *t, struct tape_mark mark);

/* Bytes of all blocks: the peak so far. */
size_t tape_bytes(const struct tape *t);

#endif
