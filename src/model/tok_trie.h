// SPDX-License-Identifier: Apache-2.0
/* A set of byte strings that is walked byte by byte: pieces of Unigram models, added tokens. */
#ifndef ASSAY_MODEL_TOK_TRIE_H
#define ASSAY_MODEL_TOK_TRIE_H

#include "model/tok_vocab.h"

enum {
    TOK_TRIE_MAX_NODES = 1 << 24
};

struct tok_edge {
    uint32_t key;   /* node << 8 | byte; UINT32_MAX: free */
    uint32_t child; /* never 0 */
};

struct tok_trie {
    struct tok_edge *edges;
    uint32_t mask;
    uint32_t nodes;   /* 0: nothing was added; node 0 is the root */
    uint32_t *values; /* by node; TOK_NO_ID where no string ends */
    size_t capacity;  /* of values */
    bool first[256];  /* bytes that a string starts with */
    int only_first;   /* that byte when there is one alone, else -1 */
};

/* Adds a string, not empty; one that is there keeps its value. ST_LIMIT at TOK_TRIE_MAX_NODES. */
enum status tok_trie_add(struct tok_trie *t, struct arena *a, struct str key, uint32_t value,
                         struct err *err) MUST_USE;

/* The node behind `byte`, 0 when there is none. */
static inline uint32_t tok_trie_step(const struct tok_trie *t, uint32_t node, char byte)
{
    uint32_t key = node << 8 | (unsigned char)byte;
    uint32_t at = (uint32_t)tok_mix(key, 0x9E3779B97F4A7C15u) & t->mask;
    while (t->edges[at].key != UINT32_MAX) {
        if (t->edges[at].key == key) {
            return t->edges[at].child;
        }
        at = (at + 1) & t->mask;
    }
    return 0;
}

/* Leftmost-longest string in text[at...]; false when there is none. */
bool tok_trie_find(const struct tok_trie *t, struct str text, size_t at, size_t *ret_from,
                   size_t *ret_to, uint32_t *ret_value);

/* Length of the longest string that `text` starts with; 0 when there is none. */
size_t tok_trie_longest(const struct tok_trie *t, struct str text, uint32_t *ret_value);

#endif
