// SPDX-License-Identifier: Apache-2.0
/* Opening a tokenizer, what every reader ends with, and the questions asked of one. */
#include "model/tok.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/fs.h"

#include "model/checkpoint.h"
#include "model/gguf_tokenizer.h"
#include "model/tok_parts.h"

static const struct fs live = {.prefix = ""};

const char *tok_format_name(enum tok_format f)
{
    static const char *const names[] = {"tokenizer.json", "SentencePiece", "tiktoken", "GGUF"};
    return names[f];
}

const char *tok_model_name(enum tok_model m)
{
    static const char *const names[] = {"BPE", "Unigram", "WordPiece", "WordLevel"};
    return names[m];
}

static int by_id(const void *a, const void *b)
{
    const struct tok_added *x = a;
    const struct tok_added *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* An added token that the model knows too has the model's id, whatever the list says. */
static void model_ids(struct tokenizer *t, struct arena *a)
{
    for (size_t i = 0; i < t->added_count; i++) {
        struct tok_added *token = &t->added[i];
        struct str key = token->content;
        if (t->byte_level) {
            char *bytes = arena_alloc(a, key.n + 1);
            size_t n;
            if (!tok_bytes_of(key, bytes, &n)) {
                continue;
            }
            key = (struct str){.p = bytes, .n = n};
        }
        uint32_t id = tok_vocab_find(&t->vocab, key.p, key.n);
        token->id = id != TOK_NO_ID ? id : token->id;
    }
}

static enum status index_added(struct tokenizer *t, struct arena *a, struct err *err)
{
    model_ids(t, a);
    if (t->added_count != 0) {
        qsort(t->added, t->added_count, sizeof *t->added, by_id);
    }
    for (size_t i = 0; i < t->added_count; i++) {
        const struct tok_added *token = &t->added[i];
        struct str content = token->content;
        if (!token->normalized) {
            TRY(tok_trie_add(&t->raw_added, a, content, (uint32_t)i, err));
            continue;
        }
        TRY(tok_normalize(t, a, content, &content, err));
        TRY(tok_trie_add(&t->normal_added, a, content, (uint32_t)i, err));
    }
    return ST_OK;
}

static void index_bytes(struct tokenizer *t)
{
    for (unsigned b = 0; b < 256; b++) {
        char text[8];
        int n = snprintf(text, sizeof text, "<0x%02X>", b);
        char byte = (char)b;
        t->byte_ids[b] = t->byte_level ? tok_vocab_find(&t->vocab, &byte, 1)
                                       : tok_vocab_find(&t->vocab, text, (size_t)n);
        if (t->types != NULL) { /* byte pieces cannot be found as text */
            t->byte_ids[b] = TOK_NO_ID;
        }
    }
    for (uint32_t id = 0; t->types != NULL && id < t->vocab.id_end; id++) {
        struct str s = t->vocab.pieces[id];
        uint64_t byte;
        if (t->types[id] == TOK_TYPE_BYTE && s.n == 6 && str_starts(s, "<0x") &&
            str_to_u64(str_slice(s, 3, 5), 16, &byte) == ST_OK && byte < 256) {
            t->byte_ids[byte] = id;
        }
    }
}

/* Bytes that some piece holds right before a space mark; only between others may a text be cut. */
static void find_cuts(struct tokenizer *t)
{
    t->cut_words = t->model == TOK_BPE && !t->byte_level && t->continuing.n == 0 &&
                   t->word_end.n == 0 && tok_vocab_find(&t->vocab, TOK_SPACE_MARK, 3) != TOK_NO_ID;
    for (uint32_t id = 0; t->cut_words && id < t->vocab.id_end; id++) {
        struct str s = t->vocab.pieces[id];
        if (s.p == NULL) {
            continue;
        }
        size_t at = 0;
        while ((at = str_find(s, TOK_SPACE_MARK, at)) != SIZE_MAX) {
            if (at > 0) {
                t->no_cut_after[(unsigned char)s.p[at - 1]] = true;
            }
            at += 3;
        }
    }
}

static enum status index_unigram(struct tokenizer *t, struct arena *a, struct err *err)
{
    double least = 0;
    bool any = false;
    for (uint32_t id = 0; id < t->vocab.id_end; id++) {
        bool normal = t->types == NULL || t->types[id] == TOK_TYPE_NORMAL;
        bool found = normal || t->types[id] == TOK_TYPE_USER || t->types[id] == TOK_TYPE_UNUSED;
        struct str s = t->vocab.pieces[id];
        if (found && s.p != NULL && s.n != 0) {
            TRY(tok_trie_add(&t->pieces, a, s, id, err));
        }
        if (normal && (!any || t->scores[id] < least)) {
            least = t->scores[id];
        }
        any = any || normal;
    }
    t->unk_score = t->format == TOK_SENTENCEPIECE ? (double)((float)least - 10.0f) : least - 10.0;
    return ST_OK;
}

enum status tok_finish(struct tokenizer *t, struct arena *a, struct err *err)
{
    index_bytes(t);
    find_cuts(t);
    if (t->model == TOK_UNIGRAM) {
        TRY(index_unigram(t, a, err));
    }
    if (t->unk != TOK_NO_ID && t->unk >= t->vocab.id_end) {
        return err_set(err, ST_FORMAT, "%s: the unknown token's id %u is beyond the vocabulary",
                       t->path, t->unk);
    }
    return index_added(t, a, err);
}

/* The file of a folder that holds its tokenizer. */
static enum status file_of(struct arena *a, const char *path, const char **ret_file,
                           struct err *err)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "spiece.model",
                                        "sentencepiece.bpe.model"};
    if (!fs_is_dir(&live, a, path)) {
        *ret_file = path;
        return ST_OK;
    }
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *file = arena_fmt(a, "%s/%s", path, names[i]);
        if (fs_exists(&live, a, file)) {
            *ret_file = file;
            return ST_OK;
        }
    }
    const char *const *list;
    size_t count;
    TRY(fs_list(&live, a, path, &list, &count, err));
    for (size_t i = 0; i < count; i++) {
        if (str_ends(str_of(list[i]), ".tiktoken")) {
            *ret_file = arena_fmt(a, "%s/%s", path, list[i]);
            return ST_OK;
        }
    }
    return err_set(
        err, ST_ABSENT,
        "%s holds no tokenizer: neither tokenizer.json nor tokenizer.model nor *.tiktoken", path);
}

static enum status read_file(struct tokenizer *t, struct arena *a, struct str text,
                             const struct tok_options *options, struct err *err)
{
    struct str start = str_trim(str_slice(text, 0, text.n < 4096 ? text.n : 4096));
    if (str_starts(start, "version https://git-lfs")) {
        return err_set(err, ST_FORMAT,
                       "%s is a git-LFS pointer, not the file: fetch it with 'git lfs pull'",
                       t->path);
    }
    if (start.n == 0) {
        return err_set(err, ST_FORMAT, "%s is empty", t->path);
    }
    const char *foreign = checkpoint_foreign(start);
    if (foreign != NULL) {
        return err_set(err, ST_FORMAT, "%s is %s, not a tokenizer: fetch it again", t->path,
                       foreign);
    }
    if (start.p[0] != '{' && str_ends(str_of(t->path), ".json")) {
        return err_set(err, ST_FORMAT, "%s is no JSON object, as a tokenizer.json is", t->path);
    }
    if (start.p[0] == '{') {
        return tok_json_read(t, a, text, err);
    }
    if (str_ends(str_of(t->path), ".tiktoken") || options->pattern != NULL ||
        tok_tiktoken_looks(text)) {
        return tok_tiktoken_read(t, a, text, options->pattern, err);
    }
    return tok_spm_read(t, a, text, err);
}

/* GGUF files may be larger than TOK_MAX_FILE: only their header is read. */
static enum status read_gguf(struct tokenizer *t, struct arena *a, struct err *err)
{
    struct tensor_file *f;
    const struct gguf *g;
    struct str text;
    TRY(gguf_open(a, t->path, &f, &g, err));
    tensor_file_close(f);
    TRY(gguf_tokenizer_json(a, g, t->path, &text, err));
    enum status status = tok_json_read(t, a, text, err);
    t->format = TOK_GGUF;
    return status == ST_OK ? ST_OK : err_context(err, "the tokenizer in its metadata");
}

static enum status read_other(struct tokenizer *t, struct arena *a,
                              const struct tok_options *options, struct err *err)
{
    struct str text;
    TRY(fs_read(&live, a, t->path, TOK_MAX_FILE, &text, err));
    return read_file(t, a, text, options, err);
}

enum status tok_open(struct arena *a, const char *path, const struct tok_options *options,
                     const struct tokenizer **ret_tokenizer, struct err *err)
{
    static const struct tok_options none = {0};
    struct tokenizer *t = arena_alloc(a, sizeof *t);
    TRY(file_of(a, path, &t->path, err));
    t->unicode = unicode_table_new(a);
    t->unk = TOK_NO_ID;
    t->continuing = STR("");
    t->word_end = STR("");
    enum status status = gguf_is_file(t->path)
                             ? read_gguf(t, a, err)
                             : read_other(t, a, options != NULL ? options : &none, err);
    if (status == ST_OK) {
        status = tok_finish(t, a, err);
    }
    if (status != ST_OK) {
        tok_close(t);
        return status;
    }
    *ret_tokenizer = t;
    return ST_OK;
}

void tok_close(const struct tokenizer *t)
{
    for (size_t i = 0; t != NULL && i < t->norms.count; i++) {
        tok_pattern_free(&t->norms.items[i].pattern);
    }
    for (size_t i = 0; t != NULL && i < t->pres.count; i++) {
        tok_pattern_free(&t->pres.items[i].pattern);
    }
}

enum tok_format tok_format_of(const struct tokenizer *t)
{
    return t->format;
}

enum tok_model tok_model_of(const struct tokenizer *t)
{
    return t->model;
}

const char *tok_path(const struct tokenizer *t)
{
    return t->path;
}

uint32_t tok_id_end(const struct tokenizer *t)
{
    uint32_t last = t->added_count != 0 ? t->added[t->added_count - 1].id + 1 : 0;
    return t->vocab.id_end > last ? t->vocab.id_end : last;
}

static bool in_vocab(const struct tokenizer *t, uint32_t id)
{
    return id < t->vocab.id_end && t->vocab.pieces[id].p != NULL;
}

size_t tok_count(const struct tokenizer *t)
{
    size_t count = t->vocab.count;
    for (size_t i = 0; i < t->added_count; i++) {
        bool again = i > 0 && t->added[i].id == t->added[i - 1].id;
        count += !again && !in_vocab(t, t->added[i].id);
    }
    return count;
}

const struct tok_added *tok_added_list(const struct tokenizer *t, size_t *ret_count)
{
    *ret_count = t->added_count;
    return t->added;
}

const struct tok_added *tok_added_find(const struct tokenizer *t, uint32_t id)
{
    struct tok_added key = {.id = id};
    return t->added_count == 0 ? NULL
                               : bsearch(&key, t->added, t->added_count, sizeof *t->added, by_id);
}

bool tok_piece(const struct tokenizer *t, struct arena *a, uint32_t id, struct str *ret_piece)
{
    const struct tok_added *token = tok_added_find(t, id);
    if (token != NULL) {
        *ret_piece = token->content;
        return true;
    }
    if (!in_vocab(t, id)) {
        return false;
    }
    *ret_piece = t->vocab.pieces[id];
    if (t->byte_level && tok_as_json(t) && (t->raw == NULL || t->raw[id] == 0)) {
        struct strbuf b;
        strbuf_init(&b, a, TOK_MAX_PIECE * 4);
        tok_alphabet_add(&b, *ret_piece);
        *ret_piece = strbuf_str(&b);
    }
    return true;
}

uint32_t tok_find(const struct tokenizer *t, struct str piece)
{
    for (size_t i = 0; i < t->added_count; i++) {
        if (str_eq(t->added[i].content, piece)) {
            return t->added[i].id;
        }
    }
    for (uint32_t id = 0; t->types != NULL && id < t->vocab.id_end; id++) {
        if (t->vocab.pieces[id].p != NULL && str_eq(t->vocab.pieces[id], piece)) {
            return id; /* control pieces are not in the index */
        }
    }
    return tok_vocab_find(&t->vocab, piece.p, piece.n);
}

void tok_specials(const struct tokenizer *t, const uint32_t **ret_before, size_t *ret_before_count,
                  const uint32_t **ret_after, size_t *ret_after_count)
{
    *ret_before = t->before.items;
    *ret_before_count = t->before.count;
    *ret_after = t->after.items;
    *ret_after_count = t->after.count;
}
