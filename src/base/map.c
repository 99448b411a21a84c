// SPDX-License-Identifier: Apache-2.0
/* Open addressing over an insertion-ordered entry array; FNV-1a, at most 1/2 full. */
#include "base/map.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

struct entry {
    const char *key;
    size_t key_length;
    uint64_t hash;
    void *value;
};

struct map {
    struct arena *arena;
    VEC_OF(struct entry) entries;
    uint32_t *slots; /* entry index + 1, 0 = free */
    size_t slot_count;
};

static uint64_t hash_of(struct str key)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < key.n; i++) {
        h = (h ^ (unsigned char)key.p[i]) * 0x100000001b3u;
    }
    return h;
}

struct map *map_new(struct arena *arena)
{
    struct map *m = arena_alloc(arena, sizeof *m);
    m->arena = arena;
    m->slot_count = 64;
    m->slots = arena_array(arena, m->slot_count, sizeof *m->slots);
    return m;
}

/* The slot that holds the key, or the free one where it would go. */
static size_t slot_of(const struct map *m, struct str key, uint64_t hash)
{
    size_t at = hash & (m->slot_count - 1);
    for (;;) {
        uint32_t index = m->slots[at];
        if (index == 0) {
            return at;
        }
        const struct entry *e = &m->entries.items[index - 1];
        if (e->hash == hash && e->key_length == key.n && memcmp(e->key, key.p, key.n) == 0) {
            return at;
        }
        at = (at + 1) & (m->slot_count - 1);
    }
}

void *map_get(const struct map *m, struct str key)
{
    uint32_t index = m->slots[slot_of(m, key, hash_of(key))];
    return index != 0 ? m->entries.items[index - 1].value : NULL;
}

static void rehash(struct map *m)
{
    m->slot_count *= 2;
    m->slots = arena_array(m->arena, m->slot_count, sizeof *m->slots);
    for (size_t i = 0; i < m->entries.count; i++) {
        const struct entry *e = &m->entries.items[i];
        struct str key = {.p = e->key, .n = e->key_length};
        m->slots[slot_of(m, key, e->hash)] = (uint32_t)(i + 1);
    }
}

void map_put(struct map *m, struct str key, void *value)
{
    uint64_t hash = hash_of(key);
    size_t at = slot_of(m, key, hash);
    if (m->slots[at] != 0) {
        m->entries.items[m->slots[at] - 1].value = value;
        return;
    }
    *VEC_PUSH(m->arena, &m->entries) = (struct entry){
        .key = str_dup(m->arena, key), .key_length = key.n, .hash = hash, .value = value};
    m->slots[at] = (uint32_t)m->entries.count;
    if (m->entries.count * 2 > m->slot_count) {
        rehash(m);
    }
}

size_t map_count(const struct map *m)
{
    return m->entries.count;
}

const char *map_key(const struct map *m, size_t index)
{
    return m->entries.items[index].key;
}

void *map_value(const struct map *m, size_t index)
{
    return m->entries.items[index].value;
}

static int by_key(const void *a, const void *b, void *ctx)
{
    const struct map *m = ctx;
    return strcmp(map_key(m, *(const size_t *)a), map_key(m, *(const size_t *)b));
}

const size_t *map_sorted(const struct map *m, struct arena *arena)
{
    size_t *order = arena_array(arena, m->entries.count + 1, sizeof *order);
    for (size_t i = 0; i < m->entries.count; i++) {
        order[i] = i;
    }
    qsort_r(order, m->entries.count, sizeof *order, by_key, (void *)m);
    return order;
}
