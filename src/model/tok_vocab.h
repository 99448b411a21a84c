// SPDX-License-Identifier: Apache-2.0
/*
 * Tables of a tokenizer: pieces by id and by text, merges by pair. Open addressing, at most half
 * full, built once. Of two pieces with the same text the first added is found.
 */
#ifndef ASSAY_MODEL_TOK_VOCAB_H
#define ASSAY_MODEL_TOK_VOCAB_H

#include <string.h>

#include "model/tok.h"

struct tok_slot {
    uint32_t hash; /* upper half, to reject without touching the piece */
    uint32_t id;   /* TOK_NO_ID: free */
};

struct tok_vocab {
    struct str *pieces; /* by id; p is NULL where an id has no piece */
    uint32_t id_end;
    size_t count;
    size_t capacity; /* of pieces */
    struct tok_slot *slots;
    uint32_t slot_mask;
    uint32_t longest; /* bytes of the longest piece that can be found */
};

struct tok_merge {
    uint32_t left; /* TOK_NO_ID: free */
    uint32_t right;
    uint32_t rank;
    uint32_t id;
};

struct tok_merges {
    struct tok_merge *slots;
    uint32_t mask;
    size_t count;
};

static inline uint64_t tok_mix(uint64_t a, uint64_t b)
{
    unsigned __int128 m = (unsigned __int128)a * b;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

/* Not for hostile keys alone: tables are at most half full and lookups bounded by their size. */
static inline uint64_t tok_hash(const char *p, size_t n)
{
    uint64_t h = 0x9E3779B97F4A7C15u ^ n;
    uint64_t w;
    while (n >= 8) {
        memcpy(&w, p, 8);
        h = tok_mix(h ^ w, 0xD6E8FEB86659FD93u);
        p += 8;
        n -= 8;
    }
    w = 0;
    if (n >= 4) {
        uint32_t low;
        uint32_t high;
        memcpy(&low, p, 4);
        memcpy(&high, p + n - 4, 4);
        w = low | (uint64_t)high << 32;
    } else if (n > 0) {
        w = (unsigned char)p[0] | (uint64_t)(unsigned char)p[n / 2] << 8 |
            (uint64_t)(unsigned char)p[n - 1] << 16;
    }
    return tok_mix(h ^ w, 0xA0761D6478BD642Fu);
}

/* memcmp() == 0 of the few bytes of a word, without its call. */
static inline bool tok_same(const char *a, const char *b, size_t n)
{
    uint64_t x;
    uint64_t y;
    uint32_t u;
    uint32_t v;
    if (n >= 8) {
        for (size_t i = 0; i + 8 < n; i += 8) {
            memcpy(&x, a + i, 8);
            memcpy(&y, b + i, 8);
            if (x != y) {
                return false;
            }
        }
        memcpy(&x, a + n - 8, 8);
        memcpy(&y, b + n - 8, 8);
        return x == y;
    }
    if (n >= 4) {
        memcpy(&u, a, 4);
        memcpy(&v, b, 4);
        if (u != v) {
            return false;
        }
        memcpy(&u, a + n - 4, 4);
        memcpy(&v, b + n - 4, 4);
        return u == v;
    }
    return n == 0 || (a[0] == b[0] && a[n / 2] == b[n / 2] && a[n - 1] == b[n - 1]);
}

/* Makes room so that `id` exists; id < TOK_MAX_IDS. */
void tok_vocab_reserve(struct tok_vocab *v, struct arena *a, uint32_t id);

/* Sets the piece of an id (its bytes must outlive the vocabulary). */
void tok_vocab_set(struct tok_vocab *v, struct arena *a, uint32_t id, struct str piece);

/* Makes the table for tok_vocab_find(); `skip[id]` (may be NULL) leaves a piece out. */
void tok_vocab_index(struct tok_vocab *v, struct arena *a, const uint8_t *skip);

static inline uint32_t tok_vocab_find_hashed(const struct tok_vocab *v, const char *p, size_t n,
                                             uint64_t hash)
{
    uint32_t at = (uint32_t)hash & v->slot_mask;
    uint32_t upper = (uint32_t)(hash >> 32);
    while (v->slots[at].id != TOK_NO_ID) {
        if (v->slots[at].hash == upper) {
            struct str s = v->pieces[v->slots[at].id];
            if (s.n == n && tok_same(s.p, p, n)) {
                return v->slots[at].id;
            }
        }
        at = (at + 1) & v->slot_mask;
    }
    return TOK_NO_ID;
}

/* The id of a piece, TOK_NO_ID when there is none. */
static inline uint32_t tok_vocab_find(const struct tok_vocab *v, const char *p, size_t n)
{
    return n > v->longest ? (uint32_t)TOK_NO_ID : tok_vocab_find_hashed(v, p, n, tok_hash(p, n));
}

/* Room for `count` pairs at first; it grows. */
void tok_merges_init(struct tok_merges *m, struct arena *a, size_t count);

/* Of a pair given twice the later rank counts, as in a map. */
void tok_merges_put(struct tok_merges *m, struct arena *a, struct tok_merge merge);

static inline const struct tok_merge *tok_merges_find(const struct tok_merges *m, uint32_t left,
                                                      uint32_t right)
{
    uint32_t at = (uint32_t)tok_mix((uint64_t)left << 32 | right, 0x9E3779B97F4A7C15u) & m->mask;
    while (m->slots[at].left != TOK_NO_ID) {
        if (m->slots[at].left == left && m->slots[at].right == right) {
            return &m->slots[at];
        }
        at = (at + 1) & m->mask;
    }
    return NULL;
}

#endif
