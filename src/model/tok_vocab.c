// SPDX-License-Identifier: Apache-2.0
/* Building the tables; the lookups are inline in the header. */
#include "model/tok_vocab.h"

void tok_vocab_reserve(struct tok_vocab *v, struct arena *a, uint32_t id)
{
    if (id >= v->capacity) {
        size_t more = v->capacity < 1024 ? 1024 : v->capacity * 2;
        while (more <= id) {
            more *= 2;
        }
        v->pieces = arena_grow(a, v->pieces, v->capacity * sizeof *v->pieces,
                               more * sizeof *v->pieces);
        v->capacity = more;
    }
    if (id >= v->id_end) {
        v->id_end = id + 1;
    }
}

void tok_vocab_set(struct tok_vocab *v, struct arena *a, uint32_t id, struct str piece)
{
    tok_vocab_reserve(v, a, id);
    if (v->pieces[id].p == NULL) {
        v->count++;
    }
    v->pieces[id] = piece;
}

/* A power of two, at least twice `count`. */
static size_t table_size(size_t count)
{
    size_t size = 16;
    while (size < count * 2) {
        size *= 2;
    }
    return size;
}

void tok_vocab_index(struct tok_vocab *v, struct arena *a, const uint8_t *skip)
{
    size_t size = table_size(v->count);
    v->slots = arena_array(a, size, sizeof *v->slots);
    v->slot_mask = (uint32_t)(size - 1);
    for (size_t i = 0; i < size; i++) {
        v->slots[i].id = TOK_NO_ID;
    }
    for (uint32_t id = 0; id < v->id_end; id++) {
        struct str s = v->pieces[id];
        if (s.p == NULL || (skip != NULL && skip[id] != 0)) {
            continue;
        }
        uint64_t hash = tok_hash(s.p, s.n);
        if (s.n <= v->longest && tok_vocab_find_hashed(v, s.p, s.n, hash) != TOK_NO_ID) {
            continue;
        }
        uint32_t at = (uint32_t)hash & v->slot_mask;
        while (v->slots[at].id != TOK_NO_ID) {
            at = (at + 1) & v->slot_mask;
        }
        v->slots[at] = (struct tok_slot){.hash = (uint32_t)(hash >> 32), .id = id};
        v->longest = s.n > v->longest ? (uint32_t)s.n : v->longest;
    }
}

void tok_merges_init(struct tok_merges *m, struct arena *a, size_t count)
{
    size_t size = table_size(count);
    m->slots = arena_array(a, size, sizeof *m->slots);
    m->mask = (uint32_t)(size - 1);
    for (size_t i = 0; i < size; i++) {
        m->slots[i].left = TOK_NO_ID;
    }
}

static void put(struct tok_merges *m, struct tok_merge merge)
{
    uint64_t key = (uint64_t)merge.left << 32 | merge.right;
    uint32_t at = (uint32_t)tok_mix(key, 0x9E3779B97F4A7C15u) & m->mask;
    while (m->slots[at].left != TOK_NO_ID &&
           (m->slots[at].left != merge.left || m->slots[at].right != merge.right)) {
        at = (at + 1) & m->mask;
    }
    m->count += m->slots[at].left == TOK_NO_ID;
    m->slots[at] = merge;
}

void tok_merges_put(struct tok_merges *m, struct arena *a, struct tok_merge merge)
{
    if (m->count * 2 > m->mask) {
        struct tok_merges old = *m;
        tok_merges_init(m, a, (size_t)old.mask + 1);
        m->count = 0;
        for (size_t i = 0; i <= old.mask; i++) {
            if (old.slots[i].left != TOK_NO_ID) {
                put(m, old.slots[i]);
            }
        }
    }
    put(m, merge);
}
