// SPDX-License-Identifier: Apache-2.0
/*
 * Byte pair encoding. A piece starts as its characters (bytes where byte-level); again and again the
 * pair with the lowest rank is joined, the leftmost of equals, until no pair has a rank.
 *
 * Short pieces scan for the lowest rank, long ones keep a heap. What short pieces become is kept in a
 * cache of fixed size, one place for each hash: text repeats its words, and most pieces cost one
 * lookup. Two ways to rank a pair: merges of tokenizer.json by their two ids, SentencePiece and
 * tiktoken by the rank of the joined text.
 */
#include "base/utf8.h"

#include "model/tok_parts.h"

enum {
    CACHE_SIZE = 1 << 16,
    CACHE_KEY = 30,
    CACHE_IDS = 8,
    SHORT = 48, /* symbols up to which scanning beats the heap */
    NO_RANK = UINT32_MAX
};

struct tok_cache_entry { /* 64 bytes, one cache line */
    uint8_t n;           /* bytes of the key; 0: free */
    uint8_t count;
    char key[CACHE_KEY];
    uint32_t ids[CACHE_IDS];
};

struct symbol {
    uint32_t id;
    uint32_t from;
    uint32_t n;
    bool frozen; /* a user-defined symbol: joins nothing */
};

struct pair {
    uint32_t rank; /* NO_RANK: these two do not join */
    uint32_t id;   /* of what they become */
};

/* SentencePiece may not output UNUSED pieces: they fall back into what they were made of. */
struct undo {
    uint32_t from;
    uint32_t left;
    uint32_t right;
};

struct undo_list {
    struct undo *items;
    size_t count;
    size_t capacity;
};

struct work {
    struct tok_encoder *e;
    struct str text;
    struct symbol *symbols;
    size_t count;
    struct undo_list undos;
};

void tok_bpe_cache_init(struct tok_encoder *e)
{
    e->cache = arena_array(e->own, CACHE_SIZE, sizeof *e->cache);
}

static struct pair rank_of(const struct work *w, const struct symbol *a, const struct symbol *b)
{
    const struct tokenizer *t = w->e->t;
    struct pair p = {.rank = NO_RANK};
    if (t->ranks == NULL) {
        const struct tok_merge *m = tok_merges_find(&t->merges, a->id, b->id);
        return m != NULL ? (struct pair){.rank = m->rank, .id = m->id} : p;
    }
    if (!a->frozen && !b->frozen) {
        p.id = tok_vocab_find(&t->vocab, w->text.p + a->from, a->n + b->n);
        p.rank = p.id != TOK_NO_ID ? t->ranks[p.id] : NO_RANK;
    }
    return p;
}

static void note_unused(struct work *w, const struct symbol *a, const struct symbol *b,
                        struct pair p)
{
    const struct tokenizer *t = w->e->t;
    if (p.rank != NO_RANK && t->types != NULL && t->types[p.id] == TOK_TYPE_UNUSED) {
        *VEC_PUSH(w->e->scratch,
                  &w->undos) = (struct undo){.from = a->from, .left = a->n, .right = b->n};
    }
}

static struct pair pair_at(struct work *w, size_t i, size_t k)
{
    struct pair p = rank_of(w, &w->symbols[i], &w->symbols[k]);
    note_unused(w, &w->symbols[i], &w->symbols[k], p);
    return p;
}

/* Joins in place by scanning; symbols stay dense. */
static void merge_short(struct work *w)
{
    struct symbol *s = w->symbols;
    struct pair pairs[SHORT];
    size_t n = w->count;
    for (size_t i = 0; i + 1 < n; i++) {
        pairs[i] = pair_at(w, i, i + 1);
    }
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++) {
            best = pairs[i].rank < pairs[best].rank ? i : best;
        }
        if (pairs[best].rank == NO_RANK) {
            break;
        }
        s[best].id = pairs[best].id;
        s[best].n += s[best + 1].n;
        n--;
        memmove(&s[best + 1], &s[best + 2], (n - best - 1) * sizeof *s);
        memmove(&pairs[best], &pairs[best + 1], (n - best) * sizeof *pairs);
        if (best + 1 < n) {
            pairs[best] = pair_at(w, best, best + 1);
        }
        if (best > 0) {
            pairs[best - 1] = pair_at(w, best - 1, best);
        }
    }
    w->count = n;
}

struct candidate {
    uint32_t rank;
    uint32_t at; /* left symbol */
};

struct heap {
    struct candidate *items;
    size_t count;
    size_t capacity;
};

static bool before(struct candidate a, struct candidate b)
{
    return a.rank < b.rank || (a.rank == b.rank && a.at < b.at);
}

static void heap_push(struct arena *a, struct heap *h, struct candidate c)
{
    *VEC_PUSH(a, h) = c;
    size_t i = h->count - 1;
    while (i > 0 && before(c, h->items[(i - 1) / 2])) {
        h->items[i] = h->items[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    h->items[i] = c;
}

static struct candidate heap_pop(struct heap *h)
{
    struct candidate top = h->items[0];
    struct candidate last = h->items[--h->count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= h->count) {
            break;
        }
        if (child + 1 < h->count && before(h->items[child + 1], h->items[child])) {
            child++;
        }
        if (!before(h->items[child], last)) {
            break;
        }
        h->items[i] = h->items[child];
        i = child;
    }
    if (h->count != 0) {
        h->items[i] = last;
    }
    return top;
}

struct chain {
    uint32_t *next; /* UINT32_MAX behind the last */
    uint32_t *previous;
    struct pair *pairs; /* of a symbol and its next; the only truth about heap entries */
};

static void refresh(struct work *w, struct chain *c, struct heap *h, uint32_t i)
{
    uint32_t k = c->next[i];
    c->pairs[i] = k != UINT32_MAX ? pair_at(w, i, k) : (struct pair){.rank = NO_RANK};
    if (c->pairs[i].rank != NO_RANK) {
        heap_push(w->e->scratch, h, (struct candidate){.rank = c->pairs[i].rank, .at = i});
    }
}

/* Joins through a heap; an entry is stale when the pair at its place has another rank now. */
static void merge_long(struct work *w)
{
    struct arena *a = w->e->scratch;
    size_t n = w->count;
    struct chain c = {.next = arena_array(a, n, sizeof *c.next),
                      .previous = arena_array(a, n, sizeof *c.previous),
                      .pairs = arena_array(a, n, sizeof *c.pairs)};
    struct heap h = {.items = arena_array(a, n, sizeof *h.items), .capacity = n};
    for (size_t i = 0; i < n; i++) {
        c.next[i] = i + 1 < n ? (uint32_t)i + 1 : UINT32_MAX;
        c.previous[i] = i > 0 ? (uint32_t)i - 1 : UINT32_MAX;
    }
    for (size_t i = 0; i < n; i++) {
        refresh(w, &c, &h, (uint32_t)i);
    }
    while (h.count != 0) {
        struct candidate best = heap_pop(&h);
        uint32_t i = best.at;
        if (c.pairs[i].rank != best.rank) {
            continue;
        }
        uint32_t k = c.next[i];
        w->symbols[i].id = c.pairs[i].id;
        w->symbols[i].n += w->symbols[k].n;
        c.pairs[k].rank = NO_RANK;
        c.next[i] = c.next[k];
        if (c.next[i] != UINT32_MAX) {
            c.previous[c.next[i]] = i;
        }
        refresh(w, &c, &h, i);
        if (c.previous[i] != UINT32_MAX) {
            refresh(w, &c, &h, c.previous[i]);
        }
    }
    size_t kept = 0;
    for (uint32_t i = 0; i != UINT32_MAX && n != 0; i = c.next[i]) {
        w->symbols[kept++] = w->symbols[i];
    }
    w->count = kept;
}

static void add_symbol(struct work *w, uint32_t id, size_t from, size_t n)
{
    w->symbols[w->count++] = (struct symbol){.id = id, .from = (uint32_t)from, .n = (uint32_t)n};
}

/* A character that is no piece: its bytes where all have a token, else the unknown token, once for
 * a run where they are fused. */
static void add_unknown(struct work *w, size_t from, size_t n, size_t *unknown_end)
{
    const struct tokenizer *t = w->e->t;
    bool all = t->byte_fallback;
    for (size_t i = 0; i < n && all; i++) {
        all = t->byte_ids[(unsigned char)w->text.p[from + i]] != TOK_NO_ID;
    }
    if (all) {
        for (size_t i = 0; i < n; i++) {
            add_symbol(w, t->byte_ids[(unsigned char)w->text.p[from + i]], from + i, 1);
            w->symbols[w->count - 1].frozen = true;
        }
        return;
    }
    if (t->unk == TOK_NO_ID) {
        return;
    }
    if (t->fuse_unk && w->count != 0 && *unknown_end == w->count) {
        w->symbols[w->count - 1].n += (uint32_t)n;
        return;
    }
    add_symbol(w, t->unk, from, n);
    w->symbols[w->count - 1].frozen = true;
    *unknown_end = w->count;
}

/* Looks up a character with the affixes that some models put on: "a</w>", "##a". */
static uint32_t find_affixed(const struct work *w, size_t from, size_t n)
{
    const struct tokenizer *t = w->e->t;
    char text[512];
    size_t len = 0;
    if (t->continuing.n + t->word_end.n + n > sizeof text) {
        return TOK_NO_ID;
    }
    if (from != 0) {
        memcpy(text, t->continuing.p, t->continuing.n);
        len = t->continuing.n;
    }
    memcpy(text + len, w->text.p + from, n);
    len += n;
    if (from + n == w->text.n) {
        memcpy(text + len, t->word_end.p, t->word_end.n);
        len += t->word_end.n;
    }
    return tok_vocab_find(&t->vocab, text, len);
}

static void make_symbols(struct work *w)
{
    const struct tokenizer *t = w->e->t;
    struct str s = w->text;
    bool affixes = t->continuing.n != 0 || t->word_end.n != 0;
    size_t unknown_end = 0;
    for (size_t at = 0; at < s.n;) {
        uint32_t id;
        size_t user = t->spm.user.nodes > 1
                          ? tok_trie_longest(&t->spm.user, str_slice(s, at, s.n), &id)
                          : 0;
        if (user != 0) {
            add_symbol(w, id, at, user);
            w->symbols[w->count - 1].frozen = true;
            at += user;
            continue;
        }
        size_t n = t->byte_level ? 1 : utf8_length(s.p[at]);
        if (affixes) {
            id = find_affixed(w, at, n);
        } else {
            id = n == 1 && t->byte_level ? t->byte_ids[(unsigned char)s.p[at]]
                                         : tok_vocab_find(&t->vocab, s.p + at, n);
        }
        if (id != TOK_NO_ID || t->types != NULL) { /* SentencePiece lets unknown ones join */
            add_symbol(w, id, at, n);
        } else {
            add_unknown(w, at, n, &unknown_end);
        }
        at += n;
    }
}

/* Pushes a symbol, an UNUSED one as what it was made of. */
static void push_symbol(const struct work *w, uint32_t id, uint32_t from, uint32_t n, int depth)
{
    const struct tokenizer *t = w->e->t;
    if (id == TOK_NO_ID) {
        tok_push_unknown(w->e, w->text.p + from, n);
        return;
    }
    if (t->types == NULL || t->types[id] != TOK_TYPE_UNUSED || depth > 64) {
        tok_push(w->e, id);
        return;
    }
    for (size_t i = w->undos.count; i-- > 0;) {
        const struct undo *u = &w->undos.items[i];
        if (u->left + u->right == n && memcmp(w->text.p + u->from, w->text.p + from, n) == 0) {
            uint32_t left = tok_vocab_find(&t->vocab, w->text.p + from, u->left);
            uint32_t right = tok_vocab_find(&t->vocab, w->text.p + from + u->left, u->right);
            if (left != TOK_NO_ID && right != TOK_NO_ID) {
                push_symbol(w, left, from, u->left, depth + 1);
                push_symbol(w, right, from + u->left, u->right, depth + 1);
                return;
            }
        }
    }
    tok_push(w->e, id);
}

static void compute(struct tok_encoder *e, struct str piece)
{
    struct symbol few[SHORT];
    struct work w = {.e = e, .text = piece, .symbols = few};
    struct arena_mark mark = arena_mark(e->scratch);
    if (piece.n > SHORT) {
        w.symbols = arena_array(e->scratch, piece.n, sizeof *w.symbols);
    }
    make_symbols(&w);
    if (w.count > SHORT) {
        merge_long(&w);
    } else {
        merge_short(&w);
    }
    for (size_t i = 0; i < w.count; i++) {
        push_symbol(&w, w.symbols[i].id, w.symbols[i].from, w.symbols[i].n, 0);
    }
    arena_rewind(e->scratch, mark);
}

static void encode_piece(struct tok_encoder *e, struct str piece)
{
    const struct tokenizer *t = e->t;
    if (piece.n > CACHE_KEY) {
        uint32_t id = t->ignore_merges ? tok_vocab_find(&t->vocab, piece.p, piece.n)
                                       : (uint32_t)TOK_NO_ID;
        if (id != TOK_NO_ID) {
            tok_push(e, id);
        } else {
            compute(e, piece);
        }
        return;
    }
    uint64_t hash = tok_hash(piece.p, piece.n);
    struct tok_cache_entry *c = &e->cache[hash & (CACHE_SIZE - 1)];
    if (c->n == piece.n && tok_same(c->key, piece.p, piece.n)) {
        for (size_t i = 0; i < c->count; i++) {
            tok_push(e, c->ids[i]);
        }
        return;
    }
    size_t from = e->out->count;
    uint32_t whole = t->ignore_merges && piece.n <= t->vocab.longest
                         ? tok_vocab_find_hashed(&t->vocab, piece.p, piece.n, hash)
                         : (uint32_t)TOK_NO_ID;
    if (whole != TOK_NO_ID) {
        tok_push(e, whole);
    } else {
        compute(e, piece);
    }
    size_t count = e->out->count - from;
    if (count <= CACHE_IDS) {
        c->n = (uint8_t)piece.n;
        c->count = (uint8_t)count;
        memcpy(c->key, piece.p, piece.n);
        memcpy(c->ids, e->out->items + from, count * sizeof *c->ids);
    }
}

/* Where a long text may be cut: in front of a space mark that no piece holds behind this byte. */
static size_t next_cut(const struct tokenizer *t, struct str s, size_t at)
{
    while (at < s.n) {
        size_t mark = str_find_char(s, TOK_SPACE_MARK[0], at);
        if (mark == SIZE_MAX) {
            break;
        }
        if (mark > 0 && s.n - mark >= 3 && memcmp(s.p + mark, TOK_SPACE_MARK, 3) == 0 &&
            !t->no_cut_after[(unsigned char)s.p[mark - 1]]) {
            return mark;
        }
        at = mark + 1;
    }
    return s.n;
}

void tok_bpe_piece(struct tok_encoder *e, struct str piece)
{
    const struct tokenizer *t = e->t;
    if (!t->cut_words) {
        encode_piece(e, piece);
        return;
    }
    for (size_t at = 0; at < piece.n;) {
        size_t end = next_cut(t, piece, at + 1);
        encode_piece(e, str_slice(piece, at, end));
        at = end;
    }
}
