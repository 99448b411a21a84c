// SPDX-License-Identifier: Apache-2.0
/*
 * Unigram: the cut of a text into pieces with the largest sum of scores. One pass over the starts of
 * characters; a better way replaces the kept one only when strictly better, so that of equals the one
 * found first, with the longer last piece, stays. SentencePiece sums in 32 bits and the tokenizers
 * library in 64, and each is followed.
 *
 * Source: sentencepiece src/unigram_model.cc (EncodeOptimized), tokenizers models/unigram/model.rs.
 */
#include "base/utf8.h"

#include "model/tok_parts.h"

struct node {
    double score;
    uint32_t from; /* UINT32_MAX: not reached */
    uint32_t id;
};

/* SentencePiece compares the sum in 64 bits with what it kept in 32. */
static void offer(const struct tokenizer *t, struct node *node, double score, uint32_t from,
                  uint32_t id)
{
    if (node->from == UINT32_MAX || score > node->score) {
        double kept = t->format == TOK_SENTENCEPIECE ? (double)(float)score : score;
        *node = (struct node){.score = kept, .from = from, .id = id};
    }
}

/* Score of a piece of n bytes; user-defined symbols beat everything of their length. */
static double score_of(const struct tokenizer *t, uint32_t id, size_t n, double longest_score)
{
    if (t->types != NULL && t->types[id] == TOK_TYPE_USER) {
        return (double)((float)n * (float)longest_score) - 0.1;
    }
    return t->scores[id];
}

static double unknown_sum(const struct tokenizer *t, double here)
{
    return t->format == TOK_SENTENCEPIECE ? (double)((float)t->unk_score + (float)here)
                                          : t->unk_score + here;
}

static void forward(const struct tokenizer *t, struct str s, struct node *nodes)
{
    double most = t->spm.max_score;
    for (size_t at = 0; at < s.n;) {
        unsigned n = utf8_length(s.p[at]);
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
            double score = score_of(t, id, end - at, most) + here;
            offer(t, &nodes[end], score, (uint32_t)at, id);
            single = single || end - at == n;
        }
        if (!single) {
            offer(t, &nodes[at + n], unknown_sum(t, here), (uint32_t)at,
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
