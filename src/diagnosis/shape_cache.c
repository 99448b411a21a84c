// SPDX-License-Identifier: Apache-2.0
/* See shape_cache.h. Open addressing over slots that say enough of most lines: that they are of no use. */
#include "diagnosis/shape_cache.h"

#include <string.h>

enum {
    ENTRIES_MAX = 4096,
    SLOTS = 2 * ENTRIES_MAX,
    SEEN_ONCE = 1 << 14,
    CACHE_LINE = 64
};

enum slot_kind {
    KIND_UNKNOWN = 0, /* not looked up since it was added */
    KIND_IDLE,
    KIND_ALONE,
    KIND_OTHER
};

struct slot {
    uint64_t hash;
    uint32_t entry; /* its number + 1; 0 is free */
    uint16_t n;     /* length of the line */
    uint16_t kind;
};

struct shape_cache {
    struct arena *arena; /* of itself and layouts */
    struct arena_mark empty;
    size_t count;
    size_t looked_at; /* `count` at the last shape_cache_find_lines() */
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
    char *room = arena_alloc(a, sizeof(struct shape_cache) + CACHE_LINE);
    struct shape_cache *c = (void *)(room + (-(uintptr_t)room & (CACHE_LINE - 1)));
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

bool shape_cache_make_room(struct shape_cache *c)
{
    bool full = c->count == ENTRIES_MAX;
    if (full) {
        shape_cache_clear(c);
    }
    return full;
}

struct arena *shape_cache_arena(struct shape_cache *c)
{
    return c->arena;
}

/* The slot of the line's shape, or the free one where it would be. */
static struct slot *slot_of(struct shape_cache *c, const struct shape_line *line)
{
    size_t at = line->hash % SLOTS;
    while (c->slots[at].entry != 0 &&
           (c->slots[at].hash != line->hash || c->slots[at].n != line->n)) {
        at = (at + 1) % SLOTS;
    }
    return &c->slots[at];
}

static struct shape_entry *entry_of(struct shape_cache *c, const struct slot *slot)
{
    return slot->entry != 0 ? &c->entries[slot->entry - 1] : NULL;
}

struct shape_entry *shape_cache_find_new(struct shape_cache *c, const struct shape_line *line)
{
    return c->count != c->looked_at ? entry_of(c, slot_of(c, line)) : NULL;
}

static enum slot_kind kind_of(const struct shape_entry *e, uint16_t id)
{
    return e->count == 0 ? KIND_IDLE : e->count == 1 && e->ids[0] == id ? KIND_ALONE : KIND_OTHER;
}

struct shape_find shape_cache_find_lines(struct shape_cache *c, const struct shape_line *lines,
                                         size_t count, uint16_t id, struct shape_entry **entries)
{
    struct shape_find found = {0};
    c->looked_at = c->count;
    for (size_t i = 0; i < count; i++) {
        struct slot *slot = slot_of(c, &lines[i]);
        entries[i] = entry_of(c, slot);
        if (entries[i] != NULL && slot->kind == KIND_UNKNOWN) {
            slot->kind = (uint16_t)kind_of(entries[i], id);
        }
        found.idle |= (uint64_t)(slot->kind == KIND_IDLE) << i;
        found.alone |= (uint64_t)(slot->kind == KIND_ALONE) << i;
    }
    return found;
}

struct shape_entry *shape_cache_add(struct shape_cache *c, const struct shape_line *line)
{
    uint32_t *seen = &c->seen[line->hash % SEEN_ONCE];
    if (c->count == ENTRIES_MAX) {
        return NULL;
    }
    if (*seen != tag_of(line->hash)) {
        *seen = tag_of(line->hash);
        return NULL;
    }
    struct shape_entry *e = &c->entries[c->count++];
    *slot_of(c, line) = (struct slot){
        .hash = line->hash, .entry = (uint32_t)c->count, .n = (uint16_t)line->n};
    *e = (struct shape_entry){.count = 0};
    return e;
}
