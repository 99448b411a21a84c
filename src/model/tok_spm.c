// SPDX-License-Identifier: Apache-2.0
/*
 * SentencePiece models: protobuf read field by field within its bounds, and the library's own
 * normalisation. Source: sentencepiece src/sentencepiece_model.proto, src/normalizer.cc,
 * src/bpe_model.cc, src/sentencepiece_processor.cc.
 */
#include <math.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/utf8.h"

#include "model/tok_parts.h"

/* One field of a message. */
struct field {
    uint32_t number;
    unsigned wire;   /* 0 varint, 1 eight bytes, 2 bytes, 5 four bytes */
    uint64_t value;  /* varint, or the bits of a fixed one */
    struct str data; /* wire 2 */
};

static bool varint(struct str *s, uint64_t *ret_value)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && s->n != 0; shift += 7) {
        unsigned char c = (unsigned char)s->p[0];
        *s = str_slice(*s, 1, s->n);
        v |= (uint64_t)(c & 0x7F) << shift;
        if (c < 0x80) {
            *ret_value = v;
            return true;
        }
    }
    return false;
}

/* Takes the next field off *s; false when the bytes are no message. */
static bool next_field(struct str *s, struct field *ret)
{
    uint64_t tag;
    if (!varint(s, &tag) || tag >> 3 == 0 || tag >> 3 > 0x1FFFFFFF) {
        return false;
    }
    *ret = (struct field){.number = (uint32_t)(tag >> 3), .wire = tag & 7};
    if (ret->wire == 0) {
        return varint(s, &ret->value);
    }
    uint64_t n = ret->wire == 1 ? 8 : 4;
    if (ret->wire == 2 ? !varint(s, &n) : ret->wire != 1 && ret->wire != 5) {
        return false;
    }
    if (!bytes_view(*s, 0, n, &ret->data)) {
        return false;
    }
    if (ret->wire != 2) {
        ret->value = n == 8 ? bytes_le64(ret->data.p) : bytes_le32(ret->data.p);
    }
    *s = str_slice(*s, (size_t)n, s->n);
    return true;
}

static float float_of(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float f;
    memcpy(&f, &low, sizeof f);
    return f;
}

struct reader {
    struct tokenizer *t;
    struct arena *a;
    VEC_OF(uint8_t) types;
    VEC_OF(double) scores;
    uint64_t model_type; /* 1 unigram, 2 BPE, 3 word, 4 char */
    bool trainer; /* trainer_spec and normalizer_spec, which stand behind the pieces, were seen */
    bool normalizer;
};

static enum status broken(const struct reader *r, const char *what, struct err *err)
{
    return err_set(err, ST_FORMAT,
                   "%s is no SentencePiece model: %s (nor a tokenizer.json or tiktoken file)",
                   r->t->path, what);
}

static enum status read_piece(struct reader *r, struct str message, struct err *err)
{
    struct field f;
    struct str piece = STR("");
    double score = 0;
    uint64_t type = TOK_TYPE_NORMAL;
    uint32_t id = (uint32_t)r->types.count;
    while (message.n != 0) {
        if (!next_field(&message, &f)) {
            return broken(r, "a piece is cut", err);
        }
        if (f.number == 1 && f.wire == 2) {
            piece = f.data;
        } else if (f.number == 2 && f.wire == 5) {
            score = (double)float_of(f.value);
        } else if (f.number == 3 && f.wire == 0) {
            type = f.value;
        }
    }
    if (id >= TOK_MAX_IDS || piece.n == 0 || piece.n > TOK_MAX_PIECE || type < 1 || type > 6 ||
        utf8_valid_prefix(piece) != piece.n || !isfinite(score)) {
        return broken(r, "a piece is empty, too long, not UTF-8, or has no type or no score", err);
    }
    tok_vocab_set(&r->t->vocab, r->a, id, piece);
    *VEC_PUSH(r->a, &r->types) = (uint8_t)type;
    *VEC_PUSH(r->a, &r->scores) = score;
    if (type == TOK_TYPE_UNKNOWN && r->t->unk == TOK_NO_ID) {
        r->t->unk = id;
    }
    return ST_OK;
}

/* int32 fields are sign-extended to 64 bits; -1 says none. */
static uint32_t id_of(uint64_t value)
{
    return value < TOK_MAX_IDS ? (uint32_t)value : (uint32_t)TOK_NO_ID;
}

static enum status read_trainer(struct reader *r, struct str message, struct err *err)
{
    struct field f;
    struct tokenizer *t = r->t;
    while (message.n != 0) {
        if (!next_field(&message, &f)) {
            return broken(r, "trainer_spec is cut", err);
        }
        switch (f.number) {
        case 3: r->model_type = f.value; break;
        case 24: t->spm.space_suffix = f.value != 0; break;
        case 35: t->byte_fallback = f.value != 0; break;
        case 41: t->spm.bos = id_of(f.value); break;
        case 42: t->spm.eos = id_of(f.value); break;
        case 43: t->spm.pad = id_of(f.value); break;
        case 44: t->spm.unk_surface = f.wire == 2 ? f.data : t->spm.unk_surface; break;
        default: break;
        }
    }
    return ST_OK;
}

static enum status read_normalizer(struct reader *r, struct str message, struct err *err)
{
    struct field f;
    struct tokenizer *t = r->t;
    struct str blob = STR("");
    while (message.n != 0) {
        if (!next_field(&message, &f)) {
            return broken(r, "normalizer_spec is cut", err);
        }
        switch (f.number) {
        case 1: t->spm.normalizer = f.wire == 2 ? str_dup(r->a, f.data) : ""; break;
        case 2: blob = f.wire == 2 ? f.data : blob; break;
        case 3: t->spm.dummy_prefix = f.value != 0; break;
        case 4: t->spm.remove_spaces = f.value != 0; break;
        case 5: t->spm.escape_spaces = f.value != 0; break;
        default: break;
        }
    }
    enum status status = tok_charsmap_read(blob, &t->spm.charsmap, err);
    return status == ST_OK ? ST_OK : err_context(err, "%s", t->path);
}

static int by_score(const void *x, const void *y, void *scores)
{
    const double *s = scores;
    double a = s[*(const uint32_t *)x];
    double b = s[*(const uint32_t *)y];
    return a > b ? -1 : a < b;
}

/* Ranks for the pair search: the higher score joins first, equal scores are equal. */
static void make_ranks(struct reader *r)
{
    struct tokenizer *t = r->t;
    uint32_t n = t->vocab.id_end;
    uint32_t *order = arena_array(r->a, n, sizeof *order);
    t->ranks = arena_array(r->a, n, sizeof *t->ranks);
    for (uint32_t i = 0; i < n; i++) {
        order[i] = i;
    }
    qsort_r(order, n, sizeof *order, by_score, r->scores.items);
    uint32_t rank = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0 && r->scores.items[order[i]] < r->scores.items[order[i - 1]]) {
            rank = i;
        }
        t->ranks[order[i]] = rank;
    }
}

static enum status conclude(struct reader *r, struct err *err)
{
    struct tokenizer *t = r->t;
    uint32_t n = t->vocab.id_end;
    if (n == 0) {
        return broken(r, "it holds no piece", err);
    }
    if (!r->trainer || !r->normalizer) {
        return err_set(err, ST_FORMAT,
                       "%s is cut off: behind its %u pieces there is no %s, which every model has; "
                       "fetch the file again",
                       t->path, n, r->trainer ? "normalizer_spec" : "trainer_spec");
    }
    if (r->model_type != 1 && r->model_type != 2) {
        return err_set(
            err, ST_UNSUPPORTED,
            "%s is a SentencePiece model of type %llu (3 word, 4 char); only unigram (1) "
            "and BPE (2) are read",
            t->path, (unsigned long long)r->model_type);
    }
    t->model = r->model_type == 2 ? TOK_BPE : TOK_UNIGRAM;
    t->types = r->types.items;
    t->scores = r->scores.items;
    uint8_t *skip = arena_array(r->a, n, 1);
    for (uint32_t id = 0; id < n; id++) {
        skip[id] = t->types[id] != TOK_TYPE_NORMAL && t->types[id] != TOK_TYPE_USER &&
                   t->types[id] != TOK_TYPE_UNUSED;
        if (t->types[id] == TOK_TYPE_USER) {
            TRY(tok_trie_add(&t->spm.user, r->a, t->vocab.pieces[id], id, err));
        }
    }
    tok_vocab_index(&t->vocab, r->a, skip);
    if (t->model == TOK_BPE) {
        make_ranks(r);
    }
    return ST_OK;
}

enum status tok_spm_read(struct tokenizer *t, struct arena *a, struct str text, struct err *err)
{
    struct reader r = {.t = t, .a = a, .model_type = 1};
    struct field f;
    t->format = TOK_SENTENCEPIECE;
    t->spm = (struct tok_spm){.dummy_prefix = true,
                              .remove_spaces = true,
                              .escape_spaces = true,
                              .bos = 1,
                              .eos = 2,
                              .pad = TOK_NO_ID,
                              .unk_surface = STR(" \xE2\x81\x87 "),
                              .normalizer = ""};
    while (text.n != 0) {
        if (!next_field(&text, &f)) {
            return broken(&r, "it is cut, or its bytes are not protobuf", err);
        }
        if (f.wire != 2) {
            continue;
        }
        if (f.number == 1) {
            TRY(read_piece(&r, f.data, err));
        } else if (f.number == 2) {
            r.trainer = true;
            TRY(read_trainer(&r, f.data, err));
        } else if (f.number == 3) {
            r.normalizer = true;
            TRY(read_normalizer(&r, f.data, err));
        }
    }
    return conclude(&r, err);
}

/* What the text starts with and what it becomes: a user-defined symbol itself, the longest key of
 * the map, else one character. */
static size_t normal_prefix(const struct tokenizer *t, struct str s, struct str *ret_text)
{
    uint32_t id;
    size_t n = t->spm.user.nodes > 1 ? tok_trie_longest(&t->spm.user, s, &id) : 0;
    if (n == 0 && t->spm.charsmap.units.n != 0) {
        n = tok_charsmap_longest(&t->spm.charsmap, s, ret_text);
        if (n != 0) {
            return n;
        }
    }
    n = n != 0 ? n : utf8_length(s.p[0]);
    *ret_text = str_slice(s, 0, n);
    return n;
}

static void add_space(const struct tokenizer *t, struct strbuf *out)
{
    strbuf_addz(out, t->spm.escape_spaces ? TOK_SPACE_MARK : " ");
}

static void add_escaped(const struct tokenizer *t, struct strbuf *out, struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == ' ') {
            add_space(t, out);
        } else {
            strbuf_addc(out, s.p[i]);
        }
    }
}

static struct str normalize(const struct tokenizer *t, struct arena *a, struct str s)
{
    struct strbuf out;
    struct str part;
    bool remove = t->spm.remove_spaces;
    strbuf_init(&out, a, TOK_MAX_TEXT * 4);
    while (remove && s.n != 0) {
        size_t n = normal_prefix(t, s, &part);
        if (!str_is(part, " ")) {
            break;
        }
        s = str_slice(s, n, s.n);
    }
    if (s.n == 0) {
        return strbuf_str(&out);
    }
    if (!t->spm.space_suffix && t->spm.dummy_prefix) {
        add_space(t, &out);
    }
    bool after_space = remove;
    while (s.n != 0) {
        size_t n = normal_prefix(t, s, &part);
        while (after_space && part.n != 0 && part.p[0] == ' ') {
            part = str_slice(part, 1, part.n);
        }
        if (part.n != 0) {
            add_escaped(t, &out, part);
            after_space = remove && part.p[part.n - 1] == ' ';
        }
        s = str_slice(s, n, s.n);
    }
    struct str text = strbuf_str(&out);
    const char *space = t->spm.escape_spaces ? TOK_SPACE_MARK : " ";
    while (remove && str_ends(text, space)) {
        text.n -= strlen(space);
    }
    if (t->spm.space_suffix && t->spm.dummy_prefix) {
        struct strbuf longer;
        strbuf_init(&longer, a, TOK_MAX_TEXT * 4);
        strbuf_add(&longer, text);
        add_space(t, &longer);
        text = strbuf_str(&longer);
    }
    return text;
}

void tok_spm_encode(struct tok_encoder *e, struct str text)
{
    const struct tokenizer *t = e->t;
    size_t first = e->out->count;
    struct str normal = normalize(t, e->scratch, text);
    if (normal.n == 0) {
        return;
    }
    tok_model_piece(e, normal);
    if (t->byte_fallback || t->unk == TOK_NO_ID) {
        return;
    }
    size_t kept = first; /* unknown characters in a row are one unknown token */
    for (size_t i = first; i < e->out->count; i++) {
        uint32_t id = e->out->items[i];
        if (id != t->unk || kept == first || e->out->items[kept - 1] != t->unk) {
            e->out->items[kept++] = id;
        }
    }
    e->out->count = kept;
}
