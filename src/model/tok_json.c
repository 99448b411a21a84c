// SPDX-License-Identifier: Apache-2.0
/*
 * tokenizer.json: the two large parts (vocabulary and merges, up to 30 MB) are read front to back by
 * a cursor, the small ones as documents. Source of the format: the tokenizers library, file
 * serialization and the `type` tags of its parts.
 */
#include <string.h>

#include "base/json_cursor.h"
#include "base/utf8.h"

#include "model/tok_parts.h"

enum {
    CHUNK = 1 << 20,
    MAX_ADDED = 1 << 18
};

struct reader {
    struct tokenizer *t;
    struct arena *a;
    struct json_cursor j;
    char *chunk; /* room for pieces that are not a view into the file */
    size_t left;
    uint8_t *raw; /* by id: a byte-level piece with a character outside the alphabet; or NULL */
    size_t raw_capacity;
    struct str parts[4]; /* normalizer, pre_tokenizer, post_processor, decoder */
    bool model_seen;
    struct str model; /* put off until the parts are known */
    struct str merges;
    struct str unk_token;
    bool has_type;
    VEC_OF(double) scores;
};

static const char *const part_names[] = {"normalizer", "pre_tokenizer", "post_processor",
                                         "decoder"};

static enum status broken(const struct reader *r, const char *part, struct err *err)
{
    size_t line = 1;
    for (size_t i = 0; i < r->j.at && i < r->j.text.n; i++) {
        line += r->j.text.p[i] == '\n';
    }
    return err_set(err, ST_FORMAT, "%s: %s: %s (line %zu, byte %zu)", r->t->path, part,
                   r->j.error != NULL ? r->j.error : "not understood", line, r->j.at);
}

static char *room(struct reader *r, size_t n)
{
    if (n > r->left) {
        r->left = n > CHUNK ? n : CHUNK;
        r->chunk = arena_alloc(r->a, r->left);
    }
    char *p = r->chunk;
    r->chunk += n;
    r->left -= n;
    return p;
}

/* The text of a string: a view when it has no escapes. */
static bool text_of(struct reader *r, struct json_text s, struct str *ret_text)
{
    if (s.raw.n > TOK_MAX_PIECE) {
        return json_cursor_fail(&r->j, "a token is longer than 65536 bytes");
    }
    if (!s.escaped) {
        *ret_text = s.raw;
        return true;
    }
    struct strbuf b;
    strbuf_init(&b, r->a, TOK_MAX_PIECE);
    if (!json_cursor_unescape(&b, s.raw)) {
        return json_cursor_fail(&r->j, "a string has an escape that is none");
    }
    *ret_text = strbuf_str(&b);
    return true;
}

/* As text_of(), in bytes where the model is byte-level. */
static bool piece_of(struct reader *r, struct json_text s, struct str *ret_piece, bool *ret_raw)
{
    *ret_raw = false;
    if (!text_of(r, s, ret_piece) || !r->t->byte_level) {
        return r->j.error == NULL;
    }
    char *bytes = room(r, ret_piece->n + 1);
    size_t n;
    if (tok_bytes_of(*ret_piece, bytes, &n)) {
        *ret_piece = (struct str){.p = bytes, .n = n};
    } else {
        *ret_raw = true;
    }
    return true;
}

static bool add_piece(struct reader *r, struct json_text text, int64_t id)
{
    struct str piece;
    bool raw;
    if (id < 0 || id >= TOK_MAX_IDS) {
        return json_cursor_fail(&r->j, "an id is not between 0 and 4194303");
    }
    if (!piece_of(r, text, &piece, &raw)) {
        return false;
    }
    tok_vocab_set(&r->t->vocab, r->a, (uint32_t)id, piece);
    if (raw) {
        if ((size_t)id >= r->raw_capacity) {
            size_t more = r->t->vocab.capacity;
            r->raw = arena_grow(r->a, r->raw, r->raw_capacity, more);
            r->raw_capacity = more;
        }
        r->raw[id] = 1;
    }
    return true;
}

/* {"piece": id, ...} or [["piece", score], ...] */
static bool read_vocab(struct reader *r)
{
    struct json_text s;
    int64_t id;
    if (json_cursor_peek(&r->j) == '{') {
        json_cursor_enter(&r->j, '{');
        while (json_cursor_key(&r->j, &s)) {
            if (!json_cursor_int(&r->j, &id) || !add_piece(r, s, id)) {
                return false;
            }
        }
        return r->j.error == NULL;
    }
    if (!json_cursor_enter(&r->j, '[')) {
        return false;
    }
    if (!r->has_type) {
        r->t->model = TOK_UNIGRAM;
    }
    for (id = 0; json_cursor_item(&r->j); id++) {
        double score;
        if (!json_cursor_enter(&r->j, '[') || !json_cursor_item(&r->j) ||
            !json_cursor_string(&r->j, &s) || !json_cursor_item(&r->j) ||
            !json_cursor_real(&r->j, &score) || !add_piece(r, s, id)) {
            return json_cursor_fail(&r->j, "a piece and its score are expected");
        }
        if (json_cursor_item(&r->j)) {
            return json_cursor_fail(&r->j, "a piece has more than a score");
        }
        *VEC_PUSH(r->a, &r->scores) = score;
    }
    return r->j.error == NULL;
}

static bool add_merge(struct reader *r, struct str left, struct str right, uint32_t rank)
{
    struct tokenizer *t = r->t;
    char joined[2 * TOK_MAX_PIECE];
    uint32_t a = tok_vocab_find(&t->vocab, left.p, left.n);
    uint32_t b = tok_vocab_find(&t->vocab, right.p, right.n);
    size_t cut = right.n >= t->continuing.n ? t->continuing.n : right.n;
    if (left.n > TOK_MAX_PIECE || right.n > TOK_MAX_PIECE) {
        return json_cursor_fail(&r->j, "a merge is longer than 65536 bytes");
    }
    memcpy(joined, left.p, left.n);
    memcpy(joined + left.n, right.p + cut, right.n - cut);
    uint32_t id = tok_vocab_find(&t->vocab, joined, left.n + right.n - cut);
    if (a == TOK_NO_ID || b == TOK_NO_ID || id == TOK_NO_ID) {
        return json_cursor_fail(&r->j,
                                "a merge has a part or a result that is not in the vocabulary");
    }
    tok_merges_put(&t->merges, r->a,
                   (struct tok_merge){.left = a, .right = b, .rank = rank, .id = id});
    return true;
}

static bool piece_of_text(struct reader *r, struct str text, struct str *ret_piece)
{
    bool raw;
    return piece_of(r, (struct json_text){.raw = text}, ret_piece, &raw);
}

/* "left right", or ["left", "right"] */
static bool read_merge(struct reader *r, uint32_t rank)
{
    struct json_text s;
    struct json_text s2;
    struct str left;
    struct str right;
    bool raw;
    if (json_cursor_peek(&r->j) != '"') {
        return json_cursor_enter(&r->j, '[') && json_cursor_item(&r->j) &&
               json_cursor_string(&r->j, &s) && json_cursor_item(&r->j) &&
               json_cursor_string(&r->j, &s2) && !json_cursor_item(&r->j) && r->j.error == NULL &&
               piece_of(r, s, &left, &raw) && piece_of(r, s2, &right, &raw) &&
               add_merge(r, left, right, rank);
    }
    struct str both;
    if (!json_cursor_string(&r->j, &s) || !text_of(r, s, &both)) {
        return false;
    }
    size_t space = str_find_char(both, ' ', 0);
    if (space == SIZE_MAX || str_find_char(both, ' ', space + 1) != SIZE_MAX) {
        return json_cursor_fail(&r->j, "a merge is not two parts with a space between");
    }
    return piece_of_text(r, str_slice(both, 0, space), &left) &&
           piece_of_text(r, str_slice(both, space + 1, both.n), &right) &&
           add_merge(r, left, right, rank);
}

/* The vocabulary by text, without what the model can never meet. */
static void index_pieces(struct reader *r)
{
    struct tok_vocab *v = &r->t->vocab;
    if (r->raw != NULL && r->raw_capacity < v->id_end) {
        r->raw = arena_grow(r->a, r->raw, r->raw_capacity, v->id_end);
        r->raw_capacity = v->id_end;
    }
    r->t->raw = r->raw;
    tok_vocab_index(v, r->a, r->raw);
    tok_merges_init(&r->t->merges, r->a, v->count);
}

static bool read_merges(struct reader *r)
{
    index_pieces(r);
    if (!json_cursor_enter(&r->j, '[')) {
        return false;
    }
    uint32_t rank = 0;
    while (json_cursor_item(&r->j)) {
        if (!read_merge(r, rank)) {
            return json_cursor_fail(&r->j, "a merge is expected");
        }
        rank++;
    }
    return r->j.error == NULL;
}

static bool text_or_null(struct reader *r, struct str *ret_text)
{
    struct json_text s;
    struct str skipped;
    if (json_cursor_peek(&r->j) == 'n') {
        *ret_text = STR("");
        return json_cursor_skip(&r->j, &skipped);
    }
    return json_cursor_string(&r->j, &s) && text_of(r, s, ret_text);
}

static bool bool_or_null(struct reader *r, bool *ret_value)
{
    struct str skipped;
    if (json_cursor_peek(&r->j) == 'n') {
        *ret_value = false;
        return json_cursor_skip(&r->j, &skipped);
    }
    return json_cursor_bool(&r->j, ret_value);
}

static bool model_type(struct reader *r, struct str type)
{
    for (enum tok_model m = 0; m < TOK_MODEL_COUNT; m++) {
        if (str_is(type, tok_model_name(m))) {
            r->t->model = m;
            r->has_type = true;
            return true;
        }
    }
    return json_cursor_fail(&r->j,
                            "the model's type is none of BPE, Unigram, WordPiece, WordLevel");
}

static bool read_dropout(struct reader *r)
{
    struct str value;
    double p;
    if (!json_cursor_skip(&r->j, &value)) {
        return false;
    }
    if (!str_is(value, "null") && (str_to_double(value, &p) != ST_OK || p != 0)) {
        return json_cursor_fail(&r->j,
                                "the model has a dropout: its ids are random, nothing can be "
                                "compared");
    }
    return true;
}

static bool read_id(struct reader *r, int64_t *ret_value)
{
    struct str skipped;
    if (json_cursor_peek(&r->j) == 'n') {
        return json_cursor_skip(&r->j, &skipped);
    }
    return json_cursor_int(&r->j, ret_value);
}

static bool model_member(struct reader *r, struct str key, bool *vocab_seen)
{
    struct tokenizer *t = r->t;
    struct str text;
    int64_t number = -1;
    if (str_is(key, "type")) {
        return text_or_null(r, &text) && model_type(r, text);
    }
    if (str_is(key, "vocab")) {
        if (*vocab_seen) {
            return json_cursor_fail(&r->j, "there are two vocabularies");
        }
        *vocab_seen = true;
        return read_vocab(r);
    }
    if (str_is(key, "merges")) {
        if (t->merges.slots != NULL || r->merges.n != 0) {
            return json_cursor_fail(&r->j, "there are two lists of merges");
        }
        return *vocab_seen ? read_merges(r) : json_cursor_skip(&r->j, &r->merges);
    }
    if (str_is(key, "unk_token")) {
        return text_or_null(r, &r->unk_token);
    }
    if (str_is(key, "continuing_subword_prefix")) {
        return text_or_null(r, &t->continuing);
    }
    if (str_is(key, "end_of_word_suffix")) {
        return text_or_null(r, &t->word_end);
    }
    if (str_is(key, "fuse_unk")) {
        return bool_or_null(r, &t->fuse_unk);
    }
    if (str_is(key, "byte_fallback")) {
        return bool_or_null(r, &t->byte_fallback);
    }
    if (str_is(key, "ignore_merges")) {
        return bool_or_null(r, &t->ignore_merges);
    }
    if (str_is(key, "dropout")) {
        return read_dropout(r);
    }
    if (str_is(key, "unk_id") || str_is(key, "max_input_chars_per_word")) {
        if (!read_id(r, &number) || number > TOK_MAX_IDS) {
            return json_cursor_fail(&r->j, "a number is too large");
        }
        if (str_is(key, "unk_id") && number >= 0) {
            t->unk = (uint32_t)number;
        } else if (number >= 0) {
            t->max_word = (size_t)number;
        }
        return true;
    }
    return json_cursor_skip(&r->j, &text);
}

static enum status read_model(struct reader *r, struct err *err)
{
    struct tokenizer *t = r->t;
    struct json_text key;
    bool vocab_seen = false;
    if (json_cursor_enter(&r->j, '{')) {
        while (json_cursor_key(&r->j, &key) && model_member(r, key.raw, &vocab_seen)) {
        }
    }
    if (r->j.error == NULL && !vocab_seen) {
        (void)json_cursor_fail(&r->j, "there is no vocabulary");
    }
    if (r->j.error != NULL) {
        return broken(r, "model", err);
    }
    if (r->merges.n != 0) {
        struct json_cursor outer = r->j;
        json_cursor_init(&r->j, r->merges);
        if (!read_merges(r)) {
            return broken(r, "merges", err);
        }
        r->j = outer;
    }
    if (t->merges.slots == NULL) {
        index_pieces(r);
    }
    if (t->model == TOK_UNIGRAM && r->scores.count != t->vocab.id_end) {
        (void)json_cursor_fail(&r->j, "a Unigram model needs a list of pieces with scores");
        return broken(r, "model", err);
    }
    t->scores = r->scores.items;
    if (r->unk_token.n != 0) {
        struct str unk;
        if (piece_of_text(r, r->unk_token, &unk)) {
            t->unk = tok_vocab_find(&t->vocab, unk.p, unk.n);
        }
    }
    return ST_OK;
}

static bool added_member(struct reader *r, struct str key, struct tok_added *ret_token,
                         int64_t *ret_id)
{
    struct json_text s;
    struct str skipped;
    if (str_is(key, "id")) {
        return json_cursor_int(&r->j, ret_id);
    }
    if (str_is(key, "content")) {
        return json_cursor_string(&r->j, &s) && text_of(r, s, &ret_token->content);
    }
    if (str_is(key, "special")) {
        return json_cursor_bool(&r->j, &ret_token->special);
    }
    if (str_is(key, "single_word")) {
        return json_cursor_bool(&r->j, &ret_token->single_word);
    }
    if (str_is(key, "lstrip")) {
        return json_cursor_bool(&r->j, &ret_token->lstrip);
    }
    if (str_is(key, "rstrip")) {
        return json_cursor_bool(&r->j, &ret_token->rstrip);
    }
    if (str_is(key, "normalized")) {
        return json_cursor_bool(&r->j, &ret_token->normalized);
    }
    return json_cursor_skip(&r->j, &skipped);
}

static enum status read_added(struct reader *r, struct err *err)
{
    struct tokenizer *t = r->t;
    struct json_text key;
    VEC_OF(struct tok_added) list = {0};
    bool ok = json_cursor_enter(&r->j, '[');
    while (ok && json_cursor_item(&r->j)) {
        struct tok_added token = {.content = STR("")};
        int64_t id = -1;
        ok = json_cursor_enter(&r->j, '{');
        while (ok && json_cursor_key(&r->j, &key)) {
            ok = added_member(r, key.raw, &token, &id);
        }
        ok = ok && r->j.error == NULL;
        if (ok && (id < 0 || id >= TOK_MAX_IDS || list.count >= MAX_ADDED)) {
            ok = json_cursor_fail(&r->j, "an added token has no id, or one beyond 4194303");
        }
        if (ok && token.content.n != 0) {
            token.id = (uint32_t)id;
            *VEC_PUSH(r->a, &list) = token;
        }
    }
    if (r->j.error != NULL) {
        return broken(r, "added_tokens", err);
    }
    t->added = list.items;
    t->added_count = list.count;
    return ST_OK;
}

/* The small parts, as documents; then it is known whether the model sees bytes. */
static enum status read_parts(struct reader *r, struct err *err)
{
    struct tokenizer *t = r->t;
    for (size_t i = 0; i < ARRAY_LEN(part_names); i++) {
        const struct tree *tree = NULL;
        if (r->parts[i].n == 0 || str_is(r->parts[i], "null")) {
            continue;
        }
        const char *name = arena_fmt(r->a, "%s: %s", t->path, part_names[i]);
        TRY(tree_from_json(r->a, r->parts[i], name, TREE_LIMITS_DEFAULT, &tree, err));
        enum status status = tok_json_parts(t, r->a, part_names[i], tree, err);
        if (status != ST_OK) {
            return err_context(err, "%s", name);
        }
    }
    for (size_t i = 0; i < t->pres.count; i++) {
        t->byte_level = t->byte_level || t->pres.items[i].kind == TOK_PRE_BYTE_LEVEL;
    }
    return ST_OK;
}

static enum status top_member(struct reader *r, struct str key, struct err *err)
{
    struct str skipped;
    if (str_is(key, "added_tokens")) {
        return read_added(r, err);
    }
    if (str_is(key, "model")) {
        if (r->model_seen) {
            (void)json_cursor_fail(&r->j, "there are two");
            return broken(r, "model", err);
        }
        r->model_seen = true;
        if (r->parts[0].n != 0 && r->parts[1].n != 0 && r->parts[2].n != 0 && r->parts[3].n != 0) {
            TRY(read_parts(r, err));
            return read_model(r, err);
        }
        return json_cursor_skip(&r->j, &r->model) ? ST_OK : broken(r, "model", err);
    }
    for (size_t i = 0; i < ARRAY_LEN(part_names); i++) {
        if (str_is(key, part_names[i])) {
            return json_cursor_skip(&r->j, &r->parts[i]) ? ST_OK : broken(r, part_names[i], err);
        }
    }
    return json_cursor_skip(&r->j, &skipped) ? ST_OK : broken(r, "outline", err);
}

enum status tok_json_read(struct tokenizer *t, struct arena *a, struct str text, struct err *err)
{
    struct reader r = {.t = t, .a = a};
    struct json_text key;
    size_t valid = utf8_valid_prefix(text);
    t->format = TOK_JSON;
    t->unk = TOK_NO_ID;
    t->max_word = 100;
    t->continuing = STR("");
    t->word_end = STR("");
    if (valid != text.n) {
        return err_set(err, ST_FORMAT, "%s: byte %zu is not UTF-8, which JSON must be", t->path,
                       valid);
    }
    json_cursor_init(&r.j, text);
    if (!json_cursor_enter(&r.j, '{')) {
        return broken(&r, "outline", err);
    }
    while (json_cursor_key(&r.j, &key)) {
        TRY(top_member(&r, key.raw, err));
    }
    if (r.j.error != NULL || !json_cursor_end(&r.j)) {
        return broken(&r, "outline", err);
    }
    if (!r.model_seen) {
        return err_set(err, ST_FORMAT, "%s has no \"model\": it is no tokenizer.json", t->path);
    }
    if (r.model.n != 0) {
        TRY(read_parts(&r, err));
        json_cursor_init(&r.j, r.model);
        TRY(read_model(&r, err));
    }
    return ST_OK;
}
