// SPDX-License-Identifier: Apache-2.0
/* See sieve.h. The bit tables stay in the first two cache levels; the loop does a load, two to six
 * multiplications and bit tests for four bytes of text. */
#include "diagnosis/sieve.h"

#include <string.h>

#include "base/vec.h"

enum {
    LONG_BITS = 18,
    WIDE_BITS = 16,
    PAIR_BITS = 15,
    EACH_BITS = 14,
    COMMON_BITS = 14,
    SLOTS_MIN = 1024
};

#define FOLD4 0x20202020u
#define HASH  0x9e3779b1u

enum step {
    STEP_LONG = 0,
    STEP_FOUR,
    STEP_TWO,
    STEP_ONE,
    STEP_TRIPLE
};

struct entry {
    uint32_t
        group; /* four folded bytes, three for needles of three, a hash of eight for long ones */
    uint32_t needle; /* index */
    uint32_t next;   /* in the chain, index + 1 */
    uint8_t offset;  /* of the group in the needle */
    uint8_t step;
};

struct sieve {
    struct arena *arena;
    const struct packed_needle *needles;
    const struct byte_set *sets;
    VEC_OF(struct entry) entries;
    uint32_t *slots;
    uint32_t slot_mask;
    uint64_t *longs; /* every fourth position, eight bytes */
    uint64_t *wide;  /* every fourth position */
    uint64_t *pair;  /* every second */
    uint64_t *each;  /* every one */
    bool has_each;
    bool has_triple;
    uint64_t *triple;
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

/* Eight bytes as a group: its upper bits index the bit table, all of it the chains. */
static uint32_t long_group(uint64_t v)
{
    return (uint32_t)(v * 0x9e3779b97f4a7c15u >> 32);
}

static uint32_t hash_bits(uint32_t group, int bits)
{
    return group * HASH >> (32 - bits);
}

static void bit_set(uint64_t *table, uint32_t at)
{
    table[at >> 6] |= 1ull << (at & 63);
}

static bool bit_has(const uint64_t *table, uint32_t at)
{
    return (table[at >> 6] >> (at & 63) & 1) != 0;
}

static void enter(struct sieve *s, uint32_t needle, size_t offset, enum step step)
{
    const struct packed_needle *n = &s->needles[needle];
    uint32_t group = group_at(n->text + (step == STEP_TRIPLE ? 0 : offset));
    group = step == STEP_TRIPLE ? group & 0xffffffu : group;
    group = step == STEP_LONG ? long_group(long_at(n->text + offset)) : group;
    *VEC_PUSH(s->arena, &s->entries) = (struct entry){
        .group = group, .needle = needle, .offset = (uint8_t)offset, .step = (uint8_t)step};
    switch (step) {
    case STEP_LONG: bit_set(s->longs, group >> (32 - LONG_BITS)); break;
    case STEP_FOUR: bit_set(s->wide, hash_bits(group, WIDE_BITS)); break;
    case STEP_TWO: bit_set(s->pair, hash_bits(group, PAIR_BITS)); break;
    case STEP_ONE: bit_set(s->each, hash_bits(group, EACH_BITS)); break;
    case STEP_TRIPLE: bit_set(s->triple, hash_bits(group, EACH_BITS)); break;
    }
}

static void enter_needle(struct sieve *s, uint32_t index)
{
    const struct packed_needle *n = &s->needles[index];
    if (n->n >= 7) {
        for (size_t k = 0; k < 4; k++) {
            enter(s, index, n->stretch + k, n->n >= 11 ? STEP_LONG : STEP_FOUR);
        }
    } else if (n->n >= 5) {
        enter(s, index, n->stretch, STEP_TWO);
        enter(s, index, n->stretch + 1u, STEP_TWO);
    } else if (n->n == 4) {
        enter(s, index, 0, STEP_ONE);
        s->has_each = true;
    } else {
        enter(s, index, 0, STEP_TRIPLE);
        s->has_triple = true;
    }
}

static void chain_entries(struct sieve *s)
{
    uint32_t slots = SLOTS_MIN;
    while (slots < s->entries.count * 2) {
        slots *= 2;
    }
    s->slots = arena_array(s->arena, slots, sizeof *s->slots);
    s->slot_mask = slots - 1;
    for (size_t i = s->entries.count; i-- > 0;) {
        struct entry *e = &s->entries.items[i];
        uint32_t at = (e->group * HASH >> 7) & s->slot_mask;
        e->next = s->slots[at];
        s->slots[at] = (uint32_t)i + 1;
    }
}

struct sieve *sieve_new(struct arena *a, const struct packed_needle *needles, size_t count,
                        const struct byte_set *sets)
{
    struct sieve *s = arena_alloc(a, sizeof *s);
    s->arena = a;
    s->needles = needles;
    s->sets = sets;
    s->longs = arena_alloc(a, (1u << LONG_BITS) / 8);
    s->wide = arena_alloc(a, (1u << WIDE_BITS) / 8);
    s->pair = arena_alloc(a, (1u << PAIR_BITS) / 8);
    s->each = arena_alloc(a, (1u << EACH_BITS) / 8);
    s->triple = arena_alloc(a, (1u << EACH_BITS) / 8);
    for (size_t i = 0; i < count; i++) {
        enter_needle(s, (uint32_t)i);
    }
    chain_entries(s);
    return s;
}

/* Length of the stretch of a needle that is looked for first. */
static size_t stretch_length(size_t n)
{
    return n >= 11 ? 11 : n >= 7 ? 7 : n >= 5 ? 5 : n;
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

void packed_needles_init(struct packed_needles *p)
{
    p->count = 0;
    p->sets[0] = (struct byte_set){{~0ull, ~0ull, ~0ull, ~0ull}};
    p->set_count = 1;
    memset(p->common, 0, sizeof p->common);
    size_t n;
    const unsigned char *sample = (const unsigned char *)needle_sample(&n);
    for (size_t at = 0; at + 4 <= n; at++) {
        uint8_t *c = &p->common[hash_bits(group_at(sample + at) | FOLD4, COMMON_BITS)];
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
    for (size_t i = 0; i < list->count; i++) {
        const struct needle *n = &list->items[i];
        struct packed_needle *out = VEC_PUSH(a, p);
        *out = (struct packed_needle){.id = id,
                                      .n = (uint8_t)n->n,
                                      .before = set_index(p, &n->before),
                                      .after = set_index(p, &n->after)};
        memcpy(out->text, n->text, n->n);
        out->stretch = (uint8_t)best_stretch(p, n);
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

/* A group of the table stands at `at`: which needles are really there? */
static __attribute__((noinline)) void look(const struct run *r, size_t at, uint32_t group,
                                           enum step step)
{
    const struct sieve *s = r->s;
    for (uint32_t i = s->slots[(group * HASH >> 7) & s->slot_mask]; i != 0;) {
        const struct entry *e = &s->entries.items[i - 1];
        i = e->next;
        if (e->group != group || e->step != step || e->offset > at) {
            continue;
        }
        size_t start = at - e->offset;
        const struct packed_needle *n = &s->needles[e->needle];
        if (needle_here(r, n, start)) {
            r->found(r->ctx, n->id, (uint32_t)(start + n->n));
        }
    }
}

static inline void check_each(const struct run *r, size_t at, uint32_t group)
{
    const struct sieve *s = r->s;
    if (s->has_each && bit_has(s->each, hash_bits(group, EACH_BITS))) {
        look(r, at, group, STEP_ONE);
    }
    uint32_t triple = group & 0xffffffu;
    if (s->has_triple && bit_has(s->triple, hash_bits(triple, EACH_BITS))) {
        look(r, at, triple, STEP_TRIPLE);
    }
}

/* The last bytes, where no group of eight can be loaded. */
static void run_tail(const struct run *r, size_t at)
{
    unsigned char last[16] = {0};
    size_t left = r->n - at;
    memcpy(last, r->text + at, left);
    for (size_t k = 0; k < left; k++) {
        uint32_t group = group_at(last + k) | FOLD4;
        if (k % 4 == 0 && bit_has(r->s->wide, hash_bits(group, WIDE_BITS))) {
            look(r, at + k, group, STEP_FOUR);
        }
        if (k % 2 == 0 && bit_has(r->s->pair, hash_bits(group, PAIR_BITS))) {
            look(r, at + k, group, STEP_TWO);
        }
        check_each(r, at + k, group);
    }
}

void sieve_run(const struct sieve *s, const char *text, size_t n, sieve_found *found, void *ctx)
{
    const struct run r = {.s = s, .text = text, .n = n, .found = found, .ctx = ctx};
    const uint64_t *wide = s->wide;
    const uint64_t *pair = s->pair;
    bool has_each = s->has_each || s->has_triple;
    size_t at = 0;
    for (; at + 8 <= n; at += 4) {
        uint64_t v;
        memcpy(&v, text + at, sizeof v);
        v |= (uint64_t)FOLD4 << 32 | FOLD4;
        uint32_t g0 = (uint32_t)v;
        uint32_t g2 = (uint32_t)(v >> 16);
        if (bit_has(wide, hash_bits(g0, WIDE_BITS))) {
            look(&r, at, g0, STEP_FOUR);
        }
        uint32_t g8 = long_group(v);
        if (bit_has(s->longs, g8 >> (32 - LONG_BITS))) {
            look(&r, at, g8, STEP_LONG);
        }
        uint32_t h0 = hash_bits(g0, PAIR_BITS);
        uint32_t h2 = hash_bits(g2, PAIR_BITS);
        if (bit_has(pair, h0)) {
            look(&r, at, g0, STEP_TWO);
        }
        if (bit_has(pair, h2)) {
            look(&r, at + 2, g2, STEP_TWO);
        }
        if (has_each) {
            check_each(&r, at, g0);
            check_each(&r, at + 1, (uint32_t)(v >> 8));
            check_each(&r, at + 2, g2);
            check_each(&r, at + 3, (uint32_t)(v >> 24));
        }
    }
    run_tail(&r, at);
}
