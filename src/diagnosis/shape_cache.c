// SPDX-License-Identifier: Apache-2.0
/* See shape_cache.h. Open addressing. A look-up comes from far twice: for the slot, then for the entry. */
#include "diagnosis/shape_cache.h"

#include <string.h>

#include "diagnosis/wide_bytes.h"

enum {
    ENTRIES_MAX = 4096,
    SLOTS = 2 * ENTRIES_MAX,
    SEEN_ONCE = 1 << 14,
    CACHE_LINE = 64
};

struct slot {
    uint64_t hash;
    struct shape_entry *entry; /* NULL: free */
};

struct shape_cache {
    enum simd simd;
    struct arena *arena; /* of itself, entries and layouts */
    struct arena_mark empty;
    size_t count;
    size_t looked_at; /* `count` at the last shape_cache_find_lines() */
    struct slot slots[SLOTS];
    struct shape_entry *none; /* stands for that of a free slot: neither idle nor alone */
    uint32_t seen[SEEN_ONCE]; /* tags of shapes that came once */
};

static void *alloc_aligned(struct arena *a, size_t size)
{
    char *room = arena_alloc(a, size + CACHE_LINE);
    return room + (-(uintptr_t)room & (CACHE_LINE - 1));
}

static uint32_t tag_of(uint64_t hash)
{
    return (uint32_t)(hash >> 32) | 1;
}

struct shape_cache *shape_cache_new(enum simd simd)
{
    struct arena *a = arena_new(0);
    struct shape_cache *c = alloc_aligned(a, sizeof *c);
    c->none = alloc_aligned(a, sizeof *c->none);
    c->none->count = SHAPE_TOO_MANY;
    c->simd = simd;
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

/* The slot of the shape, or the free one where it would be. */
static inline __attribute__((always_inline)) const struct slot *slot_of(
    const struct shape_cache *c, const char *text, size_t n, uint64_t hash,
    bool (*equal)(const char *a, const char *b, size_t n))
{
    size_t at = hash % SLOTS;
    for (; c->slots[at].entry != NULL; at = (at + 1) % SLOTS) {
        const struct shape_entry *e = c->slots[at].entry;
        if (c->slots[at].hash == hash && e->n == n && equal(e->text, text, n)) {
            break;
        }
    }
    return &c->slots[at];
}

static inline bool equal_plain(const char *a, const char *b, size_t n)
{
    return memcmp(a, b, n) == 0;
}

struct shape_entry *shape_cache_find_new(struct shape_cache *c, const struct line_shape *shape)
{
    if (c->count == c->looked_at) {
        return NULL;
    }
    return slot_of(c, shape->text, shape->n, shape->hash, equal_plain)->entry;
}

static void prefetch(const struct shape_cache *c, const struct shape_line *lines, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        __builtin_prefetch(&c->slots[lines[i].hash % SLOTS]);
    }
    for (size_t i = 0; i < count; i++) {
        const char *entry = (const char *)c->slots[lines[i].hash % SLOTS].entry;
        entry = entry != NULL ? entry : (const char *)c->none;
        __builtin_prefetch(entry);
        __builtin_prefetch(entry + CACHE_LINE);
        __builtin_prefetch(entry + 2 * (size_t)CACHE_LINE);
    }
}

/* What shape_cache_find_lines() asks and answers. */
struct find {
    struct shape_cache *c;
    const char *text;
    const struct shape_line *lines;
    size_t count;
    uint16_t id;
    struct shape_entry **entries;
};

static inline __attribute__((always_inline)) struct shape_find find_lines(
    const struct find *f, bool (*equal)(const char *a, const char *b, size_t n))
{
    struct shape_cache *c = f->c;
    uint64_t idle = 0;
    uint64_t alone = 0;
    for (size_t i = 0; i < f->count; i++) {
        const struct shape_line *line = &f->lines[i];
        struct shape_entry *e = slot_of(c, f->text + line->at, line->n, line->hash, equal)->entry;
        f->entries[i] = e;
        e = e != NULL ? e : c->none; /* no branch: there is no telling which way it goes */
        idle |= (uint64_t)(e->count == 0) << i;
        alone |= (uint64_t)((e->count == 1) & (e->ids[0] == f->id)) << i;
    }
    return (struct shape_find){.idle = idle, .alone = alone};
}

#if defined(__x86_64__)
TARGET_AVX2 static inline __m256i differ(const char *a, const char *b, size_t at)
{
    return _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(a + at)),
                            _mm256_loadu_si256((const __m256i *)(b + at)));
}

/* Blocks that overlap at the end: most lines go through here without a branch that depends on their
 * length. */
TARGET_AVX2 static inline bool equal_avx2(const char *a, const char *b, size_t n)
{
    enum {
        BLOCK = 32
    };

    if (n < BLOCK || n > 4 * BLOCK) {
        return memcmp(a, b, n) == 0;
    }
    size_t last = n - BLOCK;
    __m256i d = _mm256_or_si256(differ(a, b, 0), differ(a, b, last));
    d = _mm256_or_si256(d, differ(a, b, last < BLOCK ? last : BLOCK));
    d = _mm256_or_si256(d, differ(a, b, last < 2 * BLOCK ? last : 2 * BLOCK));
    return _mm256_testz_si256(d, d) != 0;
}

TARGET_AVX2 static struct shape_find find_lines_avx2(const struct find *f)
{
    return find_lines(f, equal_avx2);
}

TARGET_AVX512 static inline bool equal_avx512(const char *a, const char *b, size_t n)
{
    return n <= WIDE_MAX ? wide_equal(a, b, n) : memcmp(a, b, n) == 0;
}

TARGET_AVX512 static struct shape_find find_lines_avx512(const struct find *f)
{
    return find_lines(f, equal_avx512);
}
#endif

struct shape_find shape_cache_find_lines(struct shape_cache *c, const char *text,
                                         const struct shape_line *lines, size_t count, uint16_t id,
                                         struct shape_entry **entries)
{
    const struct find f = {
        .c = c, .text = text, .lines = lines, .count = count, .id = id, .entries = entries};
    c->looked_at = c->count;
    prefetch(c, lines, count);
#if defined(__x86_64__)
    if (c->simd == SIMD_AVX512) {
        return find_lines_avx512(&f);
    }
    if (c->simd == SIMD_AVX2) {
        return find_lines_avx2(&f);
    }
#endif
    return find_lines(&f, equal_plain);
}

struct shape_entry *shape_cache_add(struct shape_cache *c, const struct line_shape *shape)
{
    uint32_t *seen = &c->seen[shape->hash % SEEN_ONCE];
    if (c->count == ENTRIES_MAX) {
        return NULL;
    }
    if (*seen != tag_of(shape->hash)) {
        *seen = tag_of(shape->hash);
        return NULL;
    }
    size_t at = (size_t)(slot_of(c, shape->text, shape->n, shape->hash, equal_plain) - c->slots);
    struct shape_entry *e = alloc_aligned(c->arena, sizeof *e + shape->n);
    e->n = (uint16_t)shape->n;
    memcpy(e->text, shape->text, shape->n);
    c->slots[at] = (struct slot){.hash = shape->hash, .entry = e};
    c->count++;
    return e;
}
