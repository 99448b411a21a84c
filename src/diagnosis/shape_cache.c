// SPDX-License-Identifier: Apache-2.0
/* See shape_cache.h. Open addressing over slots that hold a part of the hash and the entry's number. */
#include "diagnosis/shape_cache.h"

#include <string.h>

enum {
    ENTRIES_MAX = 4096,
    SLOTS = 2 * ENTRIES_MAX,
    SEEN_ONCE = 1 << 14,
    CACHE_LINE = 64
};

struct slot {
    uint32_t tag;
    uint32_t entry; /* its number + 1; 0 is free */
};

struct shape_cache {
    struct arena *arena; /* of itself, texts and layouts */
    struct arena_mark empty;
    size_t count;
    struct slot slots[SLOTS];
    struct shape_entry entries[ENTRIES_MAX];
    uint32_t seen[SEEN_ONCE]; /* tags of shapes that came once */
};

static uint32_t tag_of(uint64_t hash)
{
    return (uint32_t)(hash >> 32) | 1;
}

struct shape_cache *shape_cache_new(void)
{
    struct arena *a = arena_new(0);
    struct shape_cache *c = arena_alloc(a, sizeof *c);
    c->arena = a;
    c->empty = arena_mark(a);
    return c;
}

void shape_cache_free(struct shape_cache *c)
{
    if (c != NULL) {
        arena_free(c->arena);
    }
}

void shape_cache_clear(struct shape_cache *c)
{
    c->count = 0;
    memset(c->slots, 0, sizeof c->slots);
    arena_rewind(c->arena, c->empty);
}

struct arena *shape_cache_arena(struct shape_cache *c)
{
    return c->arena;
}

/* The slot of the shape, or the free one where it would be. */
static const struct slot *slot_of(const struct shape_cache *c, const struct line_shape *shape)
{
    size_t at = shape->hash % SLOTS;
    for (; c->slots[at].entry != 0; at = (at + 1) % SLOTS) {
        const struct shape_entry *e = &c->entries[c->slots[at].entry - 1];
        if (c->slots[at].tag == tag_of(shape->hash) && e->n == shape->n &&
            memcmp(e->text, shape->text, shape->n) == 0) {
            break;
        }
    }
    return &c->slots[at];
}

void shape_cache_prefetch(const struct shape_cache *c, const struct shape_line *lines, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        __builtin_prefetch(&c->slots[lines[i].hash % SLOTS]);
    }
    for (size_t i = 0; i < count; i++) {
        const struct slot *slot = &c->slots[lines[i].hash % SLOTS];
        __builtin_prefetch(&c->entries[slot->entry != 0 ? slot->entry - 1 : 0]);
    }
    for (size_t i = 0; i < count; i++) {
        const struct slot *slot = &c->slots[lines[i].hash % SLOTS];
        const struct shape_entry *e = &c->entries[slot->entry != 0 ? slot->entry - 1 : 0];
        for (size_t at = 0; at < e->n; at += CACHE_LINE) {
            __builtin_prefetch(e->text + at);
        }
    }
}

struct shape_entry *shape_cache_find(struct shape_cache *c, const struct line_shape *shape)
{
    const struct slot *slot = slot_of(c, shape);
    return slot->entry != 0 ? &c->entries[slot->entry - 1] : NULL;
}

struct shape_entry *shape_cache_add(struct shape_cache *c, const struct line_shape *shape)
{
    uint32_t *seen = &c->seen[shape->hash % SEEN_ONCE];
    if (*seen != tag_of(shape->hash)) {
        *seen = tag_of(shape->hash);
        return NULL;
    }
    if (c->count == ENTRIES_MAX) {
        shape_cache_clear(c);
    }
    struct slot *slot = &c->slots[slot_of(c, shape) - c->slots];
    struct shape_entry *e = &c->entries[c->count++];
    *slot = (struct slot){.tag = tag_of(shape->hash), .entry = (uint32_t)c->count};
    *e = (struct shape_entry){.n = (uint16_t)shape->n,
                              .hex = shape->hex,
                              .text = arena_copy(c->arena, shape->text, shape->n)};
    return e;
}
