// SPDX-License-Identifier: Apache-2.0
/* A list of blocks that are filled in turn; rewinding moves back along it and frees nothing. */
#include "train/tape.h"

#include <stdint.h>

enum {
    BLOCK_BYTES = 4 << 20,
    LINE = 64 /* bytes of a cache line and of the widest vector */
};

struct tape_block {
    struct tape_block *older, *newer;
    size_t size;
    unsigned char *data;
};

void tape_init(struct tape *t, struct arena *arena)
{
    *t = (struct tape){.arena = arena};
}

static struct tape_block *block_new(struct tape *t, size_t need)
{
    size_t size = need > BLOCK_BYTES ? need : BLOCK_BYTES;
    struct tape_block *b = arena_alloc(t->arena, sizeof *b);
    unsigned char *data = arena_alloc(t->arena, size + LINE);
    b->data = data + (LINE - (uintptr_t)data % LINE) % LINE;
    b->size = size;
    return b;
}

/* The next block when it is large enough; else a new one is put in front of it. */
static struct tape_block *next_block(struct tape *t, size_t need)
{
    struct tape_block *last = t->top;
    struct tape_block *b = last != NULL ? last->newer : t->first;
    if (b != NULL && b->size >= need) {
        return b;
    }
    struct tape_block *fresh = block_new(t, need);
    fresh->older = last;
    fresh->newer = b;
    if (b != NULL) {
        b->older = fresh;
    }
    if (last != NULL) {
        last->newer = fresh;
    } else {
        t->first = fresh;
    }
    return fresh;
}

void *tape_take(struct tape *t, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2) {
        arena_exhausted("out of memory: a size does not fit in the address space");
    }
    bytes = (bytes + LINE - 1) / LINE * LINE;
    if (t->top == NULL || bytes > t->top->size - t->used) {
        t->top = next_block(t, bytes);
        t->used = 0;
    }
    void *p = t->top->data + t->used;
    t->used += bytes;
    return p;
}

struct tape_mark tape_mark(const struct tape *t)
{
    return (struct tape_mark){.top = t->top, .used = t->used};
}

void tape_rewind(struct tape *t, struct tape_mark mark)
{
    t->top = mark.top;
    t->used = mark.used;
}

size_t tape_bytes(const struct tape *t)
{
    size_t sum = 0;
    for (const struct tape_block *b = t->first; b != NULL; b = b->newer) {
        sum += b->size;
    }
    return sum;
}
