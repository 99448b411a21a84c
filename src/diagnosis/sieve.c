// SPDX-License-Identifier: Apache-2.0
/*
 * See sieve.h. The tables are of bits and stay in the nearest cache; behind them are chains of entries.
 *
 * The table of long needles has three bits for eight bytes, in one of its words. A word of the other tables
 * stands for the bytes of a window, and its bits for what may stand beside: 8 for the byte before by its low
 * three bits, 16 for the first behind by its low four, 8 for the second behind.
 */
#include "diagnosis/sieve.h"

#include <string.h>

#if defined(__x86_64__)
# include <immintrin.h>
#endif

#include "base/vec.h"

enum {
    LONG_BITS = 18,
    WORD_BITS = 12, /* words of the other tables */
    SLOT_BITS_MIN = 10,
    BEHIND_SHIFT = 8, /* of the bits of a word */
    SECOND_SHIFT = 24
};

#define FOLD8 0x2020202020202020u
#define FOLD4 0x20202020u
#define HASH  0x9e3779b1u

#define HASH_LOW  0x85ebca6bu
#define HASH_HIGH 0xc2b2ae35u

/* A window. Four bytes of its needle beside it are kept here: most windows in ordinary text are refused by
 * them, and the needle itself would have to come from far. */
struct entry {
    uint32_t group; /* see group_of() */
    uint32_t beside;
    uint32_t beside_mask; /* of those bytes that are the needle's */
    uint16_t needle;      /* index */
    int8_t offset;        /* of the window in the needle */
    int8_t beside_at;     /* from the window on */
    uint8_t step;
};

struct sieve {
    struct arena *arena;
    enum simd simd;
    const struct packed_needle *needles;
    size_t count;
    const struct byte_set *sets;
    VEC_OF(struct entry) entries;
    const struct entry *sorted; /* by slot */
    uint32_t *slots;            /* where each slot begins */
    unsigned slot_shift;
    uint32_t *longs;
    uint32_t *middles;
    uint32_t *shorts;
};

static uint64_t long_at(const char *p)
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

static inline uint32_t group_of(uint64_t v, enum sieve_step step)
{
    return step == SIEVE_LONG ? long_group(v)
                              : (uint32_t)v & (step == SIEVE_MIDDLE ? ~0u : 0xffffu);
}

static inline bool long_has(const uint32_t *table, uint32_t group)
{
    uint32_t word = table[group >> (32 - LONG_BITS + 5)];
    return (word >> (group >> (32 - LONG_BITS) & 31) & word >> (group >> 9 & 31) &
            word >> (group >> 4 & 31) & 1) != 0;
}

static inline uint32_t word_of(uint32_t group)
{
    return group * HASH >> (32 - WORD_BITS);
}

/* The bytes before, behind and second behind a window. */
static inline bool word_has(const uint32_t *table, uint32_t group, uint32_t before, uint32_t behind,
                            uint32_t second)
{
    uint32_t word = table[word_of(group)];
    return (word >> (before & 7) & word >> BEHIND_SHIFT >> (behind & 15) &
            word >> SECOND_SHIFT >> (second & 7) & 1) != 0;
}

/* By the low four bits of a byte, whether one like that can stand at `at` of the needle. */
static uint32_t low_bits(const struct sieve *s, const struct packed_needle *n, int at)
{
    if (at >= 0 && at < n->n) {
        return 1u << (n->text[at] & 15);
    }
    if (at < -1 || at > n->n) {
        return 0xffff;
    }
    const struct byte_set *set = &s->sets[at < 0 ? n->before : n->after];
    uint64_t any = set->bits[0] | set->bits[1] | set->bits[2] | set->bits[3];
    any |= any >> 32;
    return (uint32_t)(any | any >> 16) & 0xffff;
}

/* The bits of a window's word; the first and the last byte count by three bits. */
static uint32_t beside(const struct sieve *s, const struct entry *e)
{
    const struct packed_needle *n = &s->needles[e->needle];
    int behind = e->offset + (int)sieve_window_length((enum sieve_step)e->step);
    uint32_t before = low_bits(s, n, e->offset - 1);
    uint32_t second = low_bits(s, n, behind + 1);
    return ((before | before >> 8) & 0xff) | low_bits(s, n, behind) << BEHIND_SHIFT |
           ((second | second >> 8) & 0xff) << SECOND_SHIFT;
}

static void enter(struct sieve *s, struct entry e, uint64_t window, uint32_t bits)
{
    e.group = group_of(window, (enum sieve_step)e.step);
    *VEC_PUSH(s->arena, &s->entries) = e;
    if (e.step == SIEVE_LONG) {
        s->longs[e.group >> (32 - LONG_BITS + 5)] |= 1u << (e.group >> (32 - LONG_BITS) & 31) |
                                                     1u << (e.group >> 9 & 31) |
                                                     1u << (e.group >> 4 & 31);
    } else {
        (e.step == SIEVE_MIDDLE ? s->middles : s->shorts)[word_of(e.group)] |= bits;
    }
}

/* The bytes behind the window, or those before when there are fewer behind. */
static void set_beside(struct entry *e, const struct packed_needle *n)
{
    int behind = e->offset + (int)sieve_window_length((enum sieve_step)e->step);
    int at = n->n - behind >= 4 || n->n - behind >= e->offset ? behind : e->offset - 4;
    at = at < 0 ? 0 : at; /* then it overlaps the window */
    e->beside_at = (int8_t)(at - e->offset);
    for (int i = 0; i < 4 && at + i < n->n; i++) {
        e->beside |= (uint32_t)n->text[at + i] << 8 * i;
        e->beside_mask |= 0xffu << 8 * i;
    }
}

/* The window of needle `index` at `offset`; one for each byte that can stand where it reaches over the
 * needle's ends. */
static void enter_window(struct sieve *s, uint32_t index, int offset)
{
    const struct packed_needle *n = &s->needles[index];
    enum sieve_step step = sieve_step_of(n->n);
    int length = (int)sieve_window_length(step);
    struct entry e = {.needle = (uint16_t)index, .offset = (int8_t)offset, .step = (uint8_t)step};
    int open = -1; /* the place of the byte that is not the needle's */
    uint64_t window = 0;
    for (int i = 0; i < length; i++) {
        int at = offset + i;
        bool inside = at >= 0 && at < n->n;
        window |= inside ? (uint64_t)n->text[at] << 8 * i : 0;
        open = inside ? open : i;
    }
    uint32_t bits = beside(s, &e);
    set_beside(&e, n);
    if (open < 0) {
        enter(s, e, window, bits);
        return;
    }
    struct byte_set set = packed_needle_at(n, s->sets, offset + open);
    for (unsigned c = 0; c < 256; c++) {
        if (byte_set_has(&set, (unsigned char)c)) {
            enter(s, e, window | (uint64_t)c << 8 * open, bits);
        }
    }
}

static void enter_needle(struct sieve *s, uint32_t index)
{
    const struct packed_needle *n = &s->needles[index];
    bool is_long = sieve_step_of(n->n) == SIEVE_LONG;
    for (int k = 0; k < (is_long ? 4 : 2); k++) {
        enter_window(s, index, is_long ? n->window[0] + k : n->window[k]);
    }
}

/* By the upper bits of the product: the lower ones do not depend on the group's upper ones. */
static uint32_t slot_of(const struct sieve *s, uint32_t group)
{
    return group * HASH >> s->slot_shift;
}

/* Sorts the entries by slot, so that those of one slot lie side by side. */
static void sort_entries(struct sieve *s)
{
    unsigned bits = SLOT_BITS_MIN;
    while (1u << bits < s->entries.count) {
        bits++;
    }
    const uint32_t slots = 1u << bits;
    s->slot_shift = 32 - bits;
    s->slots = arena_array(s->arena, (size_t)slots + 2, sizeof *s->slots);
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
                        const struct byte_set *sets, enum simd simd)
{
    struct sieve *s = arena_alloc(a, sizeof *s);
    s->arena = a;
    s->simd = simd;
    s->needles = needles;
    s->count = count;
    s->sets = sets;
    s->longs = arena_alloc(a, (1u << LONG_BITS) / 8);
    s->middles = arena_array(a, 1u << WORD_BITS, sizeof *s->middles);
    s->shorts = arena_array(a, 1u << WORD_BITS, sizeof *s->shorts);
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
    size_t first = n->n < 8 ? n->n : 8;
    uint64_t differ = (long_at(r->text + start) | FOLD8) ^ long_at((const char *)n->text);
    if (differ << (64 - 8 * first) != 0 || start + n->n > r->n) {
        return false;
    }
    for (size_t i = first; i < n->n; i++) {
        if ((p[i] | 0x20) != n->text[i]) {
            return false;
        }
    }
    unsigned char before = start != 0 ? p[-1] : '\n';
    unsigned char after = start + n->n < r->n ? p[n->n] : '\n';
    return byte_set_has(&r->s->sets[n->before], before) &&
           byte_set_has(&r->s->sets[n->after], after);
}

/* A table has the window of `v` at `at`: which needles are really there? */
static void look(const struct run *r, size_t at, uint64_t v, enum sieve_step step)
{
    const struct sieve *s = r->s;
    uint32_t group = group_of(v, step);
    uint32_t slot = slot_of(s, group);
    uint32_t end = s->slots[slot + 1];
    for (uint32_t i = s->slots[slot]; i < end; i++) {
        const struct entry *e = &s->sorted[i];
        if (e->group != group || e->step != step || (e->offset > 0 && (size_t)e->offset > at)) {
            continue;
        }
        uint32_t beside;
        memcpy(&beside, r->text + at + e->beside_at, sizeof beside);
        if ((((beside | FOLD4) ^ e->beside) & e->beside_mask) != 0) {
            continue;
        }
        size_t start = (size_t)((ptrdiff_t)at - e->offset);
        const struct packed_needle *n = &s->needles[e->needle];
        if (needle_here(r, n, start)) {
            r->found(r->ctx, n->id, (uint32_t)(start + n->n));
        }
    }
}

/* Asks the tables for the four positions from `at` on. */
static inline void look_all(const struct run *r, size_t at)
{
    const struct sieve *s = r->s;
    uint64_t v = long_at(r->text + at) | FOLD8;
    if (long_has(s->longs, long_group(v))) {
        look(r, at, v, SIEVE_LONG);
    }
    uint32_t before = (unsigned char)r->text[(ptrdiff_t)at - 1];
    for (size_t k = 0; k < 4; k += 2) {
        if (word_has(s->middles, (uint32_t)v, before, (uint32_t)(v >> 32), (uint32_t)(v >> 40))) {
            look(r, at + k, long_at(r->text + at + k) | FOLD8, SIEVE_MIDDLE);
        }
        if (word_has(s->shorts, v & 0xffff, before, (uint32_t)(v >> 16), (uint32_t)(v >> 24))) {
            look(r, at + k, long_at(r->text + at + k) | FOLD8, SIEVE_SHORT);
        }
        before = (uint32_t)(v >> 8);
        v >>= 16;
    }
}

static void run_plain(const struct run *r)
{
    for (size_t at = 0; at < r->n; at += 4) {
        look_all(r, at);
    }
}

#if defined(__x86_64__)
TARGET_AVX2 static inline __m256i gather(const uint32_t *table, __m256i at)
{
    return _mm256_i32gather_epi32((const int *)table, at, 4);
}

/* long_has() of eight groups, in bit 0 of each lane (the other bits are anything). */
TARGET_AVX2 static inline __m256i long_bits(const uint32_t *table, __m256i group)
{
    const __m256i low = _mm256_set1_epi32(31);
    __m256i word = gather(table, _mm256_srli_epi32(group, 32 - LONG_BITS + 5));
    __m256i first = _mm256_and_si256(_mm256_srli_epi32(group, 32 - LONG_BITS), low);
    __m256i second = _mm256_and_si256(_mm256_srli_epi32(group, 9), low);
    __m256i third = _mm256_and_si256(_mm256_srli_epi32(group, 4), low);
    __m256i two = _mm256_and_si256(_mm256_srlv_epi32(word, first), _mm256_srlv_epi32(word, second));
    return _mm256_and_si256(two, _mm256_srlv_epi32(word, third));
}

/* word_has() of eight groups; the bytes beside are the lowest of their lanes. */
TARGET_AVX2 static inline __m256i word_bits(const uint32_t *table, __m256i group, __m256i before,
                                            __m256i behind, __m256i second)
{
    const __m256i seven = _mm256_set1_epi32(7);
    __m256i hash = _mm256_mullo_epi32(group, _mm256_set1_epi32((int)HASH));
    __m256i word = gather(table, _mm256_srli_epi32(hash, 32 - WORD_BITS));
    __m256i b = _mm256_and_si256(behind, _mm256_set1_epi32(15));
    __m256i any = _mm256_srlv_epi32(word, _mm256_and_si256(before, seven));
    any = _mm256_and_si256(any, _mm256_srlv_epi32(_mm256_srli_epi32(word, BEHIND_SHIFT), b));
    return _mm256_and_si256(any, _mm256_srlv_epi32(_mm256_srli_epi32(word, SECOND_SHIFT),
                                                   _mm256_and_si256(second, seven)));
}

TARGET_AVX2 static inline __m256i folded_at(const char *p)
{
    return _mm256_or_si256(_mm256_loadu_si256((const __m256i *)p), _mm256_set1_epi8(0x20));
}

/* Eight times four positions (32 bytes) at once: a bit for each of the eight where look_all() would
 * look. */
TARGET_AVX2 static inline unsigned lanes_at(const struct sieve *s, const char *p)
{
    const __m256i two = _mm256_set1_epi32(0xffff);
    __m256i before = folded_at(p - 1);
    __m256i v0 = folded_at(p);
    __m256i v2 = folded_at(p + 2);
    __m256i v4 = folded_at(p + 4);
    __m256i any = long_bits(
        s->longs, _mm256_add_epi32(_mm256_mullo_epi32(v0, _mm256_set1_epi32((int)HASH_LOW)),
                                   _mm256_mullo_epi32(v4, _mm256_set1_epi32((int)HASH_HIGH))));
    __m256i v1 = _mm256_srli_epi32(v0, 8);
    __m256i v3 = _mm256_srli_epi32(v2, 8);
    __m256i v5 = _mm256_srli_epi32(v4, 8);
    any = _mm256_or_si256(any, word_bits(s->middles, v0, before, v4, v5));
    any = _mm256_or_si256(
        any, word_bits(s->middles, v2, v1, _mm256_srli_epi32(v4, 16), _mm256_srli_epi32(v4, 24)));
    any = _mm256_or_si256(any, word_bits(s->shorts, _mm256_and_si256(v0, two), before, v2, v3));
    any = _mm256_or_si256(any, word_bits(s->shorts, _mm256_and_si256(v2, two), v1, v4, v5));
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_slli_epi32(any, 31)));
}

TARGET_AVX2 static void run_avx2(const struct run *r)
{
    for (size_t at = 0; at < r->n; at += 32) {
        unsigned lanes = lanes_at(r->s, r->text + at);
        if (r->n - at < 32) { /* not those behind the text */
            lanes &= (1u << (r->n - at + 3) / 4) - 1;
        }
        for (; lanes != 0; lanes &= lanes - 1) {
            look_all(r, at + 4 * (size_t)__builtin_ctz(lanes));
        }
    }
}

/* Places where a table has a window, as they are gathered over a stretch of the text: the position of the four, and
 * bits for which table and which of the positions; in the order that look_all() has. */
enum {
    STRETCH = 512,
    AT_LONG = 0,
    AT_MIDDLE,
    AT_SHORT,
    AT_MIDDLE_2,
    AT_SHORT_2,
    AT_COUNT
};

struct places {
    size_t count;
    uint32_t at[STRETCH / 4 + 16];
    uint32_t bits[STRETCH / 4 + 16];
};

TARGET_AVX512 static inline __m512i gather_wide(const uint32_t *table, __m512i at)
{
    return _mm512_i32gather_epi32(at, table, 4);
}

/* long_has() of 16 groups, in bit 0 of each lane. */
TARGET_AVX512 static inline __m512i long_bits_wide(const uint32_t *table, __m512i group)
{
    const __m512i low = _mm512_set1_epi32(31);
    __m512i word = gather_wide(table, _mm512_srli_epi32(group, 32 - LONG_BITS + 5));
    __m512i first = _mm512_and_si512(_mm512_srli_epi32(group, 32 - LONG_BITS), low);
    __m512i second = _mm512_and_si512(_mm512_srli_epi32(group, 9), low);
    __m512i third = _mm512_and_si512(_mm512_srli_epi32(group, 4), low);
    __m512i two = _mm512_and_si512(_mm512_srlv_epi32(word, first), _mm512_srlv_epi32(word, second));
    return _mm512_and_si512(two, _mm512_srlv_epi32(word, third));
}

/* word_has() of 16 groups; the bytes beside are the lowest of their lanes. */
TARGET_AVX512 static inline __m512i word_bits_wide(const uint32_t *table, __m512i group,
                                                   __m512i before, __m512i behind, __m512i second)
{
    const __m512i seven = _mm512_set1_epi32(7);
    __m512i hash = _mm512_mullo_epi32(group, _mm512_set1_epi32((int)HASH));
    __m512i word = gather_wide(table, _mm512_srli_epi32(hash, 32 - WORD_BITS));
    __m512i b = _mm512_and_si512(behind, _mm512_set1_epi32(15));
    __m512i any = _mm512_srlv_epi32(word, _mm512_and_si512(before, seven));
    any = _mm512_and_si512(any, _mm512_srlv_epi32(_mm512_srli_epi32(word, BEHIND_SHIFT), b));
    return _mm512_and_si512(any, _mm512_srlv_epi32(_mm512_srli_epi32(word, SECOND_SHIFT),
                                                   _mm512_and_si512(second, seven)));
}

TARGET_AVX512 static inline __m512i folded_wide(const char *p)
{
    return _mm512_or_si512(_mm512_loadu_si512(p), _mm512_set1_epi8(0x20));
}

/* `all` with `bit` where bit 0 of `has` is set. */
TARGET_AVX512 static inline __m512i mark(__m512i all, __m512i has, int bit)
{
    __m512i one = _mm512_and_si512(has, _mm512_set1_epi32(1));
    return _mm512_or_si512(all, _mm512_slli_epi32(one, (unsigned)bit));
}

/* 16 times four positions (64 bytes) at once. Only the first `lanes` count. */
TARGET_AVX512 static inline void gather_places(const struct run *r, size_t at, uint32_t lanes,
                                               struct places *places)
{
    const struct sieve *s = r->s;
    const char *p = r->text + at;
    const __m512i two = _mm512_set1_epi32(0xffff);
    const __m512i steps = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56,
                                            60);
    __m512i before = folded_wide(p - 1);
    __m512i v0 = folded_wide(p);
    __m512i v2 = folded_wide(p + 2);
    __m512i v4 = folded_wide(p + 4);
    __m512i v1 = _mm512_srli_epi32(v0, 8);
    __m512i v3 = _mm512_srli_epi32(v2, 8);
    __m512i v5 = _mm512_srli_epi32(v4, 8);
    __m512i v6 = _mm512_srli_epi32(v4, 16);
    __m512i group = _mm512_add_epi32(_mm512_mullo_epi32(v0, _mm512_set1_epi32((int)HASH_LOW)),
                                     _mm512_mullo_epi32(v4, _mm512_set1_epi32((int)HASH_HIGH)));
    __m512i all = mark(_mm512_setzero_si512(), long_bits_wide(s->longs, group), AT_LONG);
    all = mark(all, word_bits_wide(s->middles, v0, before, v4, v5), AT_MIDDLE);
    all = mark(all, word_bits_wide(s->shorts, _mm512_and_si512(v0, two), before, v2, v3), AT_SHORT);
    all = mark(all, word_bits_wide(s->middles, v2, v1, v6, _mm512_srli_epi32(v4, 24)), AT_MIDDLE_2);
    all = mark(all, word_bits_wide(s->shorts, _mm512_and_si512(v2, two), v1, v4, v5), AT_SHORT_2);
    __mmask16 any = (__mmask16)(_mm512_test_epi32_mask(all, all) & lanes);
    __m512i here = _mm512_add_epi32(_mm512_set1_epi32((int)at), steps);
    _mm512_storeu_si512(places->at + places->count, _mm512_maskz_compress_epi32(any, here));
    _mm512_storeu_si512(places->bits + places->count, _mm512_maskz_compress_epi32(any, all));
    places->count += (size_t)__builtin_popcount(any);
}

static void look_at_places(const struct run *r, const struct places *places)
{
    static const struct {
        uint8_t shift;
        uint8_t step;
    } rows[AT_COUNT] = {[AT_LONG] = {0, SIEVE_LONG},
                        [AT_MIDDLE] = {0, SIEVE_MIDDLE},
                        [AT_SHORT] = {0, SIEVE_SHORT},
                        [AT_MIDDLE_2] = {2, SIEVE_MIDDLE},
                        [AT_SHORT_2] = {2, SIEVE_SHORT}};

    for (size_t i = 0; i < places->count; i++) {
        for (uint32_t bits = places->bits[i]; bits != 0; bits &= bits - 1) {
            int k = __builtin_ctz(bits);
            size_t at = places->at[i] + rows[k].shift;
            look(r, at, long_at(r->text + at) | FOLD8, (enum sieve_step)rows[k].step);
        }
    }
}

TARGET_AVX512 static void run_avx512(const struct run *r)
{
    struct places places;
    for (size_t from = 0; from < r->n; from += STRETCH) {
        size_t to = r->n - from < STRETCH ? r->n : from + STRETCH;
        places.count = 0;
        for (size_t at = from; at < to; at += 64) {
            uint32_t lanes = to - at < 64 ? (1u << (to - at + 3) / 4) - 1 : 0xffff;
            gather_places(r, at, lanes, &places);
        }
        look_at_places(r, &places);
    }
}
#endif

void sieve_run(const struct sieve *s, const char *text, size_t n, sieve_found *found, void *ctx)
{
    const struct run r = {.s = s, .text = text, .n = n, .found = found, .ctx = ctx};
#if defined(__x86_64__)
    if (s->simd == SIMD_AVX512) {
        run_avx512(&r);
        return;
    }
    if (s->simd == SIMD_AVX2) {
        run_avx2(&r);
        return;
    }
#endif
    run_plain(&r);
}
