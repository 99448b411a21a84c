// SPDX-License-Identifier: Apache-2.0
/* WordPiece: the longest piece that fits, from left to right; a word that cannot be cut to its end
 * is unknown as a whole. WordLevel: the word or unknown. */
#include "base/utf8.h"

#include "model/tok_parts.h"

/* The longest piece at `from`, its end in *ret_end. */
static uint32_t longest_at(const struct tok_encoder *e, struct str word, size_t from, char *buffer,
                           size_t *ret_end)
{
    const struct tokenizer *t = e->t;
    size_t prefix = from != 0 ? t->continuing.n : 0;
    memcpy(buffer, t->continuing.p, prefix);
    memcpy(buffer + prefix, word.p + from, word.n - from);
    for (size_t end = word.n; end > from;) {
        uint32_t id = tok_vocab_find(&t->vocab, buffer, prefix + end - from);
        if (id != TOK_NO_ID) {
            *ret_end = end;
            return id;
        }
        end--;
        while (end > from && ((unsigned char)word.p[end] & 0xC0) == 0x80) {
            end--;
        }
    }
    return TOK_NO_ID;
}

static void push_unk(struct tok_encoder *e)
{
    if (e->t->unk != TOK_NO_ID) {
        tok_push(e, e->t->unk);
    }
}

void tok_wordpiece_piece(struct tok_encoder *e, struct str word)
{
    const struct tokenizer *t = e->t;
    size_t characters = 0;
    for (size_t at = 0; at < word.n; at += utf8_length(word.p[at])) {
        characters++;
    }
    if (t->model == TOK_WORDLEVEL || characters > t->max_word) {
        uint32_t id = t->model == TOK_WORDLEVEL ? tok_vocab_find(&t->vocab, word.p, word.n)
                                                : (uint32_t)TOK_NO_ID;
        if (id != TOK_NO_ID) {
            tok_push(e, id);
        } else {
            push_unk(e);
        }
        return;
    }
    struct arena_mark mark = arena_mark(e->scratch);
    char *buffer = arena_alloc(e->scratch, word.n + t->continuing.n + 1);
    size_t kept = e->out->count;
    for (size_t at = 0; at < word.n;) {
        uint32_t id = longest_at(e, word, at, buffer, &at);
        if (id == TOK_NO_ID) {
            e->out->count = kept;
            push_unk(e);
            break;
        }
        tok_push(e, id);
    }
    arena_rewind(e->scratch, mark);
}
