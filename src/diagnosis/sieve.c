// SPDX-License-Identifier: Apache-2.0
/*
 * See sieve.h. Three bit tables that stay in the nearest cache, and chains of entries behind them:
 * long groups (eight bytes, needles of eleven and more) at every fourth position, quads (four bytes,
 * needles of five and more) and trios (three bytes, for the rest) at every second.
 */
#include "diagnosis/sieve.h"

#include <string.h>

#if defined(__x86_64__)
# include <immintrin.h>
#endif

#include "base/vec.h"

enum {
    LONG_BITS = 18,
    QUAD_BITS = 16,
    TRIO_BITS = 17,
    COMMON_BITS = 14,
    SLOTS_MIN = 1024
};

#define FOLD4 0x20202020u
#define FOLD8 0x2020202020202020u
#define HASH  0x9e3779b1u

#define HASH_LOW  0x85ebca6bu
#define HASH_HIGH 0xc2b2ae35u

enum step {
    STEP_LONG = 0,
    STEP_QUAD,
    STEP_TRIO
};

struct entry {
    uint32_t group;  /* four or three folded bytes; a hash of eight for long ones */
    uint32_t first;  /* the needle's first four bytes, three of a short one */
    uint16_t needle; /* index */
    int8_t offset;   /* of the group in the needle; -1: it begins in front */
    uint8_t step;
};

struct sieve {
    struct arena *arena;
    const struct packed_needle *needles;
    size_t count;
    const struct byte_set *sets;
    VEC_OF(struct entry) entries;
    const struct entry *sorted; /* by slot */
    uint32_t *slots;            /* where each slot begins */
    uint32_t slot_mask;
    uint64_t *longs;
    uint64_t *quads;
    uint64_t *trios;
};

static uint32_t group_at(const unsigned char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t long_at(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Eight bytes as a group: its upper bits index the bit table, all of it the chains. Made of two
 * halves, so that eight positions can be computed at once. */
static inline uint32_t long_group(uint64_t v)
{
    return (uint32_t)v * HASH_LOW + (uint32_t)(v >> 32) * HASH_HIGH;
}

/* A second bit in the same 32 of the table: both must be set. */
static inline uint32_t long_second(uint32_t group)
{
    return (group >> (32 - LONG_BITS) & ~31u) | (group >> 4 & 31);
}

static inline uint32_t hash_bits(uint32_t group, int bits)
{
    return group * HASH >> (32 - bits);
}

static void bit_set(uint64_t *table, uint32_t at)
{
    table[at >> 6] |= 1ull << (at & 63);
}

static inline uint64_t bit_of(const uint64_t *table, uint32_t at)
{
    return table[at >> 6] >> (at & 63) & 1;
}

static void enter(struct sieve *s, uint32_t needle, int offset, enum step step, uint32_t group)
{
    const struct packed_needle *n = &s->needles[needle];
    *VEC_PUSH(s->arena, &s->entries) = (struct entry){.group = group,
                                                      .first = group_at(n->text) &
                                                               (n->n > 3 ? UINT32_MAX : 0xffffffu),
                                                      .needle = (uint16_t)needle,
                                                      .offset = (int8_t)offset,
                                                      .step = (uint8_t)step};
    if (step == STEP_LONG) {
        bit_set(s->longs, group >> (32 - LONG_BITS));
        bit_set(s->longs, long_second(group));
    } else if (step == STEP_QUAD) {
        bit_set(s->quads, hash_bits(group, QUAD_BITS));
    } else {
        bit_set(s->trios, hash_bits(group, TRIO_BITS));
    }
}

static uint32_t trio(unsigned a, unsigned b, unsigned c)
{
    return a | b << 8 | c << 16;
}

/* A needle of three bytes begins at an even position, or its last two stand at one with the byte
 * behind it. Folding leaves 128 values for that. */
static void enter_three(struct sieve *s, uint32_t index)
{
    const struct packed_needle *n = &s->needles[index];
    bool done[256] = {false};
    enter(s, index, 0, STEP_TRIO, trio(n->text[0], n->text[1], n->text[2]));
    for (unsigned c = 0; c < 256; c++) {
        unsigned folded = c | 0x20;
        if (!done[folded] && byte_set_has(&s->sets[n->after], (unsigned char)c)) {
            done[folded] = true;
            enter(s, index, 1, STEP_TRIO, trio(n->text[1], n->text[2], folded));
        }
    }
}

static void enter_needle(struct sieve *s, uint32_t index)
{
    const struct packed_needle *n = &s->needles[index];
    const unsigned char *p = n->text + n->stretch;
    if (n->n >= 11) {
        for (int k = 0; k < 4; k++) {
            enter(s, index, n->stretch + k, STEP_LONG, long_group(long_at(p + k)));
        }
    } else if (n->n >= 5) {
        enter(s, index, n->stretch, STEP_QUAD, group_at(p));
        enter(s, index, n->stretch + 1, STEP_QUAD, group_at(p + 1));
    } else if (n->n == 4) {
        enter(s, index, 0, STEP_TRIO, trio(n->text[0], n->text[1], n->text[2]));
        enter(s, index, 1, STEP_TRIO, trio(n->text[1], n->text[2], n->text[3]));
    } else {
        enter_three(s, index);
    }
}

static uint32_t slot_of(const struct sieve *s, uint32_t group)
{
    return (group * HASH >> 7) & s->slot_mask;
}

/* Sorts the entries by slot, so that those of one slot lie side by side. */
static void sort_entries(struct sieve *s)
{
    uint32_t slots = SLOTS_MIN;
    while (slots < s->entries.count * 2) {
        slots *= 2;
    }
    s->slots = arena_array(s->arena, (size_t)slots + 2, sizeof *s->slots);
    s->slot_mask = slots - 1;
    for (size_t i = 0; i < s->entries.count; i++) {
        s->slots[slot_of(s, s->entries.items[i].group) + 2]++;
    }
    for (uint32_t i = 2; i < slots + 2; i++) {
        s->slots[i] += s->slots[i - 1];
    }
    struct entry *sorted = arena_array(s->arena, s->entries.count, sizeof *sorted);
    for (size_t i = 0; i < s->entries.count; i++) { /* fills up to slots[slot + 1] */
        sorted[s->slots[slot_of(s, s->entries.items[i].group) + 1]++] = s->entries.items[i];
    }
    s->sorted = sorted;
}

struct sieve *sieve_new(struct arena *a, const struct packed_needle *needles, size_t count,
                        const struct byte_set *sets)
{
    struct sieve *s = arena_alloc(a, sizeof *s);
    s->arena = a;
    s->needles = needles;
    s->count = count;
    s->sets = sets;
    s->longs = arena_alloc(a, (1u << LONG_BITS) / 8);
    s->quads = arena_alloc(a, (1u << QUAD_BITS) / 8);
    s->trios = arena_alloc(a, (1u << TRIO_BITS) / 8);
    for (size_t i = 0; i < count; i++) {
        enter_needle(s, (uint32_t)i);
    }
    sort_entries(s);
    return s;
}

bool sieve_knows(const struct sieve *s, uint32_t id)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->needles[i].id == id) {
            return true;
        }
    }
    return false;
}

/* Length of the stretch of a needle that is looked for first. */
static size_t stretch_length(size_t n)
{
    return n >= 11 ? 11 : n >= 5 ? 5 : n;
}

/* The stretch whose groups are rarest in ordinary text. */
static size_t best_stretch(const struct packed_needles *p, const struct needle *n)
{
    size_t length = stretch_length(n->n);
    size_t best = 0;
    unsigned least = UINT32_MAX;
    for (size_t at = 0; at + length <= n->n && length >= 5; at++) {
        unsigned cost = 0;
        for (size_t k = 0; k + 4 <= length; k++) {
            cost += p->common[hash_bits(group_at(n->text + at + k), COMMON_BITS)];
        }
        if (cost < least) {
            best = at;
            least = cost;
        }
    }
    return best;
}

void packed_needles_init(struct arena *a, struct packed_needles *p)
{
    p->count = 0;
    p->sets[0] = (struct byte_set){{~0ull, ~0ull, ~0ull, ~0ull}};
    p->set_count = 1;
    memset(p->common, 0, sizeof p->common);
    size_t n;
    const unsigned char *text = (const unsigned char *)needle_sample(&n);
    unsigned char *sample = arena_alloc(a, n);
    for (size_t i = 0; i < n; i++) {
        sample[i] = needle_fold(text[i]);
    }
    for (size_t at = 0; at + 4 <= n; at++) {
        uint8_t *c = &p->common[hash_bits(group_at(sample + at), COMMON_BITS)];
        *c = *c < 255 ? *c + 1 : 255;
    }
}

/* Index of a byte set; when there are too many, every byte is allowed. */
static uint8_t set_index(struct packed_needles *p, const struct byte_set *set)
{
    for (size_t i = 0; i < p->set_count; i++) {
        if (memcmp(&p->sets[i], set, sizeof *set) == 0) {
            return (uint8_t)i;
        }
    }
    if (p->set_count == SIEVE_SETS_MAX) {
        return 0;
    }
    p->sets[p->set_count] = *set;
    return (uint8_t)p->set_count++;
}

void packed_needles_add(struct arena *a, struct packed_needles *p, const struct needle_list *list,
                        uint32_t id)
{
    const size_t first = p->count;
    for (size_t i = 0; i < list->count; i++) {
        const struct needle *n = &list->items[i];
        struct packed_needle out = {.id = id,
                                    .n = (uint8_t)n->n,
                                    .stretch = (uint8_t)best_stretch(p, n),
                                    .before = set_index(p, &n->before),
                                    .after = set_index(p, &n->after)};
        memcpy(out.text, n->text, n->n);
        bool known = false;
        for (size_t k = first; k < p->count && !known; k++) {
            known = memcmp(&p->items[k], &out, sizeof out) == 0;
        }
        if (!known) {
            *VEC_PUSH(a, p) = out;
        }
    }
}

struct run {
    const struct sieve *s;
    const char *text;
    size_t n;
    sieve_found *found;
    void *ctx;
};

static bool needle_here(const struct run *r, const struct packed_needle *n, size_t start)
{
    const unsigned char *p = (const unsigned char *)r->text + start;
    if (start + n->n > r->n) {
        return false;
    }
    for (size_t i = 0; i < n->n; i++) {
        if ((p[i] | 0x20) != n->text[i]) {
            return false;
        }
    }
    unsigned char before = start != 0 ? p[-1] : '\n';
    unsigned char after = start + n->n < r->n ? p[n->n] : '\n';
    return byte_set_has(&r->s->sets[n->before], before) &&
           byte_set_has(&r->s->sets[n->after], after);
}

/* A group of a table stands at `at`: which needles are really there? */
static void look(const struct run *r, size_t at, uint32_t group, enum step step)
{
    const struct sieve *s = r->s;
    uint32_t slot = slot_of(s, group);
    uint32_t end = s->slots[slot + 1];
    for (uint32_t i = s->slots[slot]; i < end; i++) {
        const struct entry *e = &s->sorted[i];
        if (e->group != group || e->step != step || (e->offset > 0 && (size_t)e->offset > at)) {
            continue;
        }
        size_t start = at - (size_t)e->offset;
        if (start + 4 <= r->n) { /* most come no further */
            uint32_t here = group_at((const unsigned char *)r->text + start) | FOLD4;
            if (((here ^ e->first) & (e->first > 0xffffffu ? UINT32_MAX : 0xffffffu)) != 0) {
                continue;
            }
        }
        const struct packed_needle *n = &s->needles[e->needle];
        if (needle_here(r, n, start)) {
            r->found(r->ctx, n->id, (uint32_t)(start + n->n));
        }
    }
}

/* At least one table has a group of the eight folded bytes at `at`. */
static __attribute__((noinline)) void look_all(const struct run *r, size_t at, uint64_t v)
{
    const struct sieve *s = r->s;
    uint32_t g8 = long_group(v);
    if ((bit_of(s->longs, g8 >> (32 - LONG_BITS)) & bit_of(s->longs, long_second(g8))) != 0) {
        look(r, at, g8, STEP_LONG);
    }
    for (size_t k = 0; k <= 2; k += 2) {
        uint32_t quad = (uint32_t)(v >> (8 * k));
        if (bit_of(s->quads, hash_bits(quad, QUAD_BITS)) != 0) {
            look(r, at + k, quad, STEP_QUAD);
        }
        uint32_t three = quad & 0xffffffu;
        if (bit_of(s->trios, hash_bits(three, TRIO_BITS)) != 0) {
            look(r, at + k, three, STEP_TRIO);
        }
    }
}

/* One position in four after the other. */
static void run_plain(const struct run *r)
{
    const uint64_t *longs = r->s->longs;
    const uint64_t *quads = r->s->quads;
    const uint64_t *trios = r->s->trios;
    for (size_t at = 0; at < r->n; at += 4) {
        uint64_t v = long_at((const unsigned char *)r->text + at) | FOLD8;
        uint32_t q0 = (uint32_t)v;
        uint32_t q2 = (uint32_t)(v >> 16);
        uint32_t g8 = long_group(v);
        uint64_t any = (bit_of(longs, g8 >> (32 - LONG_BITS)) & bit_of(longs, long_second(g8))) |
                       bit_of(quads, hash_bits(q0, QUAD_BITS)) |
                       bit_of(quads, hash_bits(q2, QUAD_BITS)) |
                       bit_of(trios, hash_bits(q0 & 0xffffffu, TRIO_BITS)) |
                       bit_of(trios, hash_bits(q2 & 0xffffffu, TRIO_BITS));
        if (__builtin_expect(any != 0, 0)) {
            look_all(r, at, v);
        }
    }
}

#if defined(__x86_64__)
# define AVX2 __attribute__((target("avx2")))

/* For eight hashes the bits of a table, in bit 0 of each lane (the other bits are anything). */
AVX2 static inline __m256i table_bits(const uint64_t *table, __m256i hash)
{
    __m256i word = _mm256_i32gather_epi32((const int *)table, _mm256_srli_epi32(hash, 5), 4);
    return _mm256_srlv_epi32(word, _mm256_and_si256(hash, _mm256_set1_epi32(31)));
}

AVX2 static inline __m256i long_bits(const uint64_t *table, __m256i group)
{
    const __m256i low = _mm256_set1_epi32(31);
    __m256i hash = _mm256_srli_epi32(group, 32 - LONG_BITS);
    __m256i word = _mm256_i32gather_epi32((const int *)table, _mm256_srli_epi32(hash, 5), 4);
    __m256i second = _mm256_and_si256(_mm256_srli_epi32(group, 4), low);
    return _mm256_and_si256(_mm256_srlv_epi32(word, _mm256_and_si256(hash, low)),
                            _mm256_srlv_epi32(word, second));
}

AVX2 static inline __m256i folded_at(const char *p)
{
    return _mm256_or_si256(_mm256_loadu_si256((const __m256i *)p), _mm256_set1_epi8(0x20));
}

AVX2 static inline __m256i hashes(__m256i v, int bits)
{
    return _mm256_srli_epi32(_mm256_mullo_epi32(v, _mm256_set1_epi32((int)HASH)), 32 - bits);
}

/* The same, eight positions (32 bytes) at once. */
AVX2 static void run_avx2(const struct run *r)
{
    const struct sieve *s = r->s;
    const __m256i three = _mm256_set1_epi32(0xffffff);
    for (size_t at = 0; at < r->n; at += 32) {
        __m256i v0 = folded_at(r->text + at);
        __m256i v2 = folded_at(r->text + at + 2);
        __m256i v4 = folded_at(r->text + at + 4);
        __m256i eight = _mm256_add_epi32(_mm256_mullo_epi32(v0, _mm256_set1_epi32((int)HASH_LOW)),
                                         _mm256_mullo_epi32(v4, _mm256_set1_epi32((int)HASH_HIGH)));
        __m256i any = long_bits(s->longs, eight);
        any = _mm256_or_si256(any, table_bits(s->quads, hashes(v0, QUAD_BITS)));
        any = _mm256_or_si256(any, table_bits(s->quads, hashes(v2, QUAD_BITS)));
        any = _mm256_or_si256(any,
                              table_bits(s->trios, hashes(_mm256_and_si256(v0, three), TRIO_BITS)));
        any = _mm256_or_si256(any,
                              table_bits(s->trios, hashes(_mm256_and_si256(v2, three), TRIO_BITS)));
        unsigned lanes = (unsigned)_mm256_movemask_ps(
            _mm256_castsi256_ps(_mm256_slli_epi32(any, 31)));
        for (; lanes != 0; lanes &= lanes - 1) {
            size_t here = at + 4 * (size_t)__builtin_ctz(lanes);
            look_all(r, here, long_at((const unsigned char *)r->text + here) | FOLD8);
        }
    }
}
#endif

void sieve_run(const struct sieve *s, const char *text, size_t n, sieve_found *found, void *ctx)
{
    const struct run r = {.s = s, .text = text, .n = n, .found = found, .ctx = ctx};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        run_avx2(&r);
        return;
    }
#endif
    run_plain(&r);
}
