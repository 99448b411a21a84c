// SPDX-License-Identifier: Apache-2.0
/*
 * Unigram: the cut of a text into pieces with the largest sum of scores. One pass over the starts of
 * characters; a better way replaces the kept one only when strictly better, so that of equals the one
 * found first, with the longer last piece, stays. SentencePiece sums in 32 bits and the tokenizers
 * library in 64, and each is followed.
 *
 * Source: sentencepiece src/unigram_model.cc (EncodeOptimized), tokenizers models/unigram/model.rs.
 */
#include <math.h>

#include "base/utf8.h"

#include "model/tok_parts.h"

static const double LARGE_SUM = 100000;

struct node {
    double score;
    uint32_t from; /* UINT32_MAX: not reached */
    uint32_t id;
};

static void offer(struct node *node, double score, uint32_t from, uint32_t id)
{
    if (node->from == UINT32_MAX || score > node->score) {
        *node = (struct node){.score = score, .from = from, .id = id};
    }
}

/* The library's sum: the exact sum of two 32-bit numbers fits 64, so that rounding it is their sum in 32. */
static double sum(const struct tokenizer *t, double score, double here)
{
    double all = score + here;
    return t->format == TOK_SENTENCEPIECE ? (double)(float)all : all;
}

/* SentencePiece from 0.2.2 on takes a large sum off everything reached so far: where it does it decides which of
 * two nearly equal ways is rounded up. */
static void start_again(struct node *nodes, size_t at, size_t frontier)
{
    float offset = (float)nodes[at].score;
    for (size_t i = at; i <= frontier; i++) {
        if (i == at || nodes[i].from != UINT32_MAX) {
            nodes[i].score = (double)((float)nodes[i].score - offset);
        }
    }
}

/* Score of a piece of n bytes; user-defined symbols beat everything of their length. SentencePiece before 0.2.2
 * gave them n times the largest score, less 0.1. */
static double score_of(const struct tokenizer *t, uint32_t id, size_t n)
{
    if (t->types != NULL && t->types[id] == TOK_TYPE_USER) {
        return (double)(float)(0.1 * (double)(n - 1));
    }
    return t->scores[id];
}

static void forward(const struct tokenizer *t, struct str s, struct node *nodes)
{
    size_t frontier = 0;
    for (size_t at = 0; at < s.n;) {
        unsigned n = utf8_length(s.p[at]);
        if (t->format == TOK_SENTENCEPIECE && fabs(nodes[at].score) > LARGE_SUM) {
            start_again(nodes, at, frontier);
        }
        double here = nodes[at].score;
        bool single = false;
        uint32_t node = 0;
        for (size_t end = at; end < s.n;) {
            node = tok_trie_step(&t->pieces, node, s.p[end]);
            if (node == 0) {
                break;
            }
            end++;
            uint32_t id = t->pieces.values[node];
            if (id == TOK_NO_ID) {
                continue;
            }
            if (t->types != NULL && t->types[id] == TOK_TYPE_UNUSED) {
                continue;
            }
            frontier = end > frontier ? end : frontier;
            offer(&nodes[end], sum(t, score_of(t, id, end - at), here), (uint32_t)at, id);
            single = single || end - at == n;
        }
        if (!single) {
            frontier = at + n > frontier ? at + n : frontier;
            offer(&nodes[at + n], sum(t, t->unk_score, here), (uint32_t)at,
                  t->unk != TOK_NO_ID ? t->unk : 0);
        }
        at += n;
    }
}

struct hit {
    uint32_t from;
    uint32_t to;
    uint32_t id;
};

/* The library looks a run of unknown characters up again as a whole before it is unknown. */
static void push_hit(struct tok_encoder *e, struct str s, struct hit hit)
{
    const struct tokenizer *t = e->t;
    if (hit.id != t->unk) {
        tok_push(e, hit.id);
        return;
    }
    uint32_t id = tok_as_json(t) ? tok_vocab_find(&t->vocab, s.p + hit.from, hit.to - hit.from)
                                 : (uint32_t)TOK_NO_ID;
    if (id != TOK_NO_ID) {
        tok_push(e, id);
        return;
    }
    tok_push_unknown(e, s.p + hit.from, hit.to - hit.from);
}

void tok_unigram_piece(struct tok_encoder *e, struct str s)
{
    const struct tokenizer *t = e->t;
    struct arena_mark mark = arena_mark(e->scratch);
    if (s.n == 0 || t->pieces.nodes == 0) {
        return;
    }
    struct node *nodes = arena_array(e->scratch, s.n + 1, sizeof *nodes);
    for (size_t i = 1; i <= s.n; i++) {
        nodes[i].from = UINT32_MAX;
    }
    forward(t, s, nodes);
    VEC_OF(struct hit) hits = {0};
    for (size_t end = s.n; end > 0;) {
        struct node n = nodes[end];
        struct hit *last = hits.count != 0 ? &hits.items[hits.count - 1] : NULL;
        if (last != NULL && n.id == t->unk && last->id == t->unk && last->from == end) {
            last->from = n.from; /* unknown characters in a row are one */
        } else {
            *VEC_PUSH(e->scratch,
                      &hits) = (struct hit){.from = n.from, .to = (uint32_t)end, .id = n.id};
        }
        end = n.from;
    }
    for (size_t i = hits.count; i-- > 0;) {
        push_hit(e, s, hits.items[i]);
    }
    arena_rewind(e->scratch, mark);
}
