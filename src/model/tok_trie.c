// SPDX-License-Identifier: Apache-2.0
/* Edges in one hash table: memory follows the number of nodes, not nodes times 256. */
#include "model/tok_trie.h"

static void put_edge(struct tok_trie *t, uint32_t key, uint32_t child)
{
    uint32_t at = (uint32_t)tok_mix(key, 0x9E3779B97F4A7C15u) & t->mask;
    while (t->edges[at].key != UINT32_MAX) {
        at = (at + 1) & t->mask;
    }
    t->edges[at] = (struct tok_edge){.key = key, .child = child};
}

/* Makes the table twice as large, or the first one. */
static void grow(struct tok_trie *t, struct arena *a)
{
    struct tok_edge *old = t->edges;
    size_t old_size = old != NULL ? (size_t)t->mask + 1 : 0;
    size_t size = old != NULL ? old_size * 2 : 1024;
    t->edges = arena_array(a, size, sizeof *t->edges);
    t->mask = (uint32_t)(size - 1);
    for (size_t i = 0; i < size; i++) {
        t->edges[i].key = UINT32_MAX;
    }
    for (size_t i = 0; i < old_size; i++) {
        if (old[i].key != UINT32_MAX) {
            put_edge(t, old[i].key, old[i].child);
        }
    }
    t->values = arena_grow(a, t->values, t->capacity * sizeof *t->values,
                           size / 2 * sizeof *t->values);
    t->capacity = size / 2;
}

enum status tok_trie_add(struct tok_trie *t, struct arena *a, struct str key, uint32_t value,
                         struct err *err)
{
    if (t->nodes == 0) {
        grow(t, a);
        t->nodes = 1;
        t->values[0] = TOK_NO_ID;
        t->only_first = -1;
    }
    if (key.n == 0) {
        return ST_OK;
    }
    if (!t->first[(unsigned char)key.p[0]]) {
        t->first[(unsigned char)key.p[0]] = true;
        t->only_first = t->nodes == 1 ? (unsigned char)key.p[0] : -1;
    }
    uint32_t node = 0;
    for (size_t i = 0; i < key.n; i++) {
        uint32_t child = tok_trie_step(t, node, key.p[i]);
        if (child == 0) {
            if (t->nodes >= TOK_TRIE_MAX_NODES - 1) {
                return err_set(err, ST_LIMIT, "the pieces have more than %d different beginnings",
                               TOK_TRIE_MAX_NODES);
            }
            if (t->nodes + 1 >= t->capacity) {
                grow(t, a);
            }
            child = t->nodes++;
            t->values[child] = TOK_NO_ID;
            put_edge(t, node << 8 | (unsigned char)key.p[i], child);
        }
        node = child;
    }
    if (t->values[node] == TOK_NO_ID) {
        t->values[node] = value;
    }
    return ST_OK;
}

size_t tok_trie_longest(const struct tok_trie *t, struct str text, uint32_t *ret_value)
{
    size_t longest = 0;
    uint32_t node = 0;
    for (size_t i = 0; t->nodes != 0 && i < text.n; i++) {
        node = tok_trie_step(t, node, text.p[i]);
        if (node == 0) {
            break;
        }
        if (t->values[node] != TOK_NO_ID) {
            longest = i + 1;
            *ret_value = t->values[node];
        }
    }
    return longest;
}

bool tok_trie_find(const struct tok_trie *t, struct str text, size_t at, size_t *ret_from,
                   size_t *ret_to, uint32_t *ret_value)
{
    if (t->nodes <= 1) {
        return false;
    }
    while (at < text.n) {
        if (t->only_first >= 0) {
            const char *hit = memchr(text.p + at, t->only_first, text.n - at);
            if (hit == NULL) {
                return false;
            }
            at = (size_t)(hit - text.p);
        } else if (!t->first[(unsigned char)text.p[at]]) {
            at++;
            continue;
        }
        size_t n = tok_trie_longest(t, str_slice(text, at, text.n), ret_value);
        if (n != 0) {
            *ret_from = at;
            *ret_to = at + n;
            return true;
        }
        at++;
    }
    return false;
}
