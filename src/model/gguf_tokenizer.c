// SPDX-License-Identifier: Apache-2.0
/* Tokens, types, merges and the names of a GGUF file to JSON; a row for each known pre-tokenizer. */
#include "model/gguf_tokenizer.h"

#include <string.h>

#include "base/attr.h"
#include "base/json_out.h"

#include "model/tok_parts.h"

#define KEY "tokenizer.ggml."

enum {
    TEXT_MAX = 512 << 20
};

struct cut {
    const char *name;       /* tokenizer.ggml.pre */
    const char *expression; /* as tok_pattern_named() knows it; NULL: that of ByteLevel, GPT-2's */
    bool digits;            /* each digit by itself, before the expression */
    bool composed;          /* NFC */
    bool whole;             /* a piece that is a token is not merged (ignore_merges) */
    bool begins;            /* the beginning of the text is added unless the file says otherwise */
};

static const struct cut cuts[] = {
    {"gpt-2", NULL, .digits = false},
    {"smollm", NULL, .digits = true},
    {"starcoder", NULL, .digits = true},
    {"refact", NULL, .digits = true},
    {"llama-bpe", "llama3", .whole = true, .begins = true},
    {"llama3", "llama3", .whole = true, .begins = true},
    {"llama-v3", "llama3", .whole = true, .begins = true},
    {"qwen2", "qwen", .composed = true},
    {"deepseek-r1-qwen", "qwen", .composed = true},
    {"qwen35", "qwen3.5", .composed = true},
};

struct maker {
    struct arena *a;
    const struct gguf *g;
    const char *path;
    const struct gguf_value *tokens;
    const struct gguf_value *types; /* NULL: all are ordinary */
    const struct gguf_value *merges;
    const struct cut *cut;
    struct json_out j;
    struct err *err;
};

bool gguf_has_tokenizer(const struct gguf *g)
{
    return gguf_find(g, KEY "model") != NULL || gguf_find(g, KEY "tokens") != NULL;
}

static enum status find_cut(struct maker *m)
{
    struct str model = STR("");
    struct str pre = STR("");
    struct err *err = m->err;
    if (!gguf_text(m->g, KEY "model", &model)) {
        return err_set(err, ST_FORMAT, "%s: " KEY "model, the kind of the tokenizer, is no text",
                       m->path);
    }
    if (!str_is(model, "gpt2")) {
        return err_set(
            err, ST_UNSUPPORTED,
            "%s: its tokenizer is of kind '%s'; byte-level BPE ('gpt2') is read from GGUF "
            "files. Use the model's Hugging Face folder, whose tokenizer.json or "
            "tokenizer.model is read",
            m->path, issue_text(m->a, model));
    }
    (void)gguf_text(m->g, KEY "pre", &pre);
    for (size_t i = 0; i < ARRAY_LEN(cuts); i++) {
        if (str_is(pre, cuts[i].name)) {
            m->cut = &cuts[i];
            return ST_OK;
        }
    }
    return err_set(err, ST_UNSUPPORTED,
                   "%s: " KEY
                   "pre is '%s', a way to cut text that is not known here (gpt-2, smollm, "
                   "starcoder, refact, llama-bpe, qwen2, deepseek-r1-qwen and qwen35 are). Use the "
                   "model's Hugging Face folder",
                   m->path, issue_text(m->a, pre));
}

/* An array of the metadata; NULL when it is missing or holds something else. */
static const struct gguf_value *array_of(const struct gguf *g, const char *key, bool texts)
{
    const struct gguf_value *v = gguf_find(g, key);
    bool fits = v != NULL && v->kind == GGUF_ARRAY && (v->element == GGUF_STRING) == texts;
    return fits ? v : NULL;
}

static enum status find_arrays(struct maker *m)
{
    m->tokens = array_of(m->g, KEY "tokens", true);
    m->merges = array_of(m->g, KEY "merges", true);
    m->types = array_of(m->g, KEY "token_type", false);
    if (m->tokens == NULL || m->merges == NULL || m->tokens->count == 0) {
        return err_set(m->err, ST_FORMAT,
                       "%s: " KEY "tokens and " KEY "merges are not both lists of texts", m->path);
    }
    if (m->tokens->count > TOK_MAX_IDS) {
        return err_set(m->err, ST_LIMIT, "%s: more than %d tokens", m->path, TOK_MAX_IDS);
    }
    if ((m->types == NULL) != (gguf_find(m->g, KEY "token_type") == NULL) ||
        (m->types != NULL && m->types->count != m->tokens->count)) {
        return err_set(m->err, ST_FORMAT,
                       "%s: " KEY "token_type does not hold one number for each token", m->path);
    }
    for (uint64_t i = 0; i < m->tokens->count + m->merges->count; i++) {
        bool token = i < m->tokens->count;
        struct str s = token ? m->tokens->strings[i] : m->merges->strings[i - m->tokens->count];
        if (memchr(s.p, '\0', s.n) != NULL || s.n > TOK_MAX_PIECE) {
            return err_set(m->err, ST_FORMAT,
                           "%s: the text '%s' in " KEY "%s holds a NUL or is longer than %d bytes",
                           m->path, issue_text(m->a, s), token ? "tokens" : "merges",
                           TOK_MAX_PIECE);
        }
    }
    return ST_OK;
}

static int64_t type_of(const struct maker *m, uint64_t id)
{
    int64_t type = TOK_TYPE_NORMAL;
    (void)gguf_integer_at(m->types, id, &type);
    return type;
}

/* A token of the file by the key of its id; NULL when there is none. */
static const char *special(const struct gguf *g, const char *key, int64_t *ret_id)
{
    const struct gguf_value *tokens = array_of(g, KEY "tokens", true);
    struct str text;
    if (!gguf_integer(g, key, ret_id) || *ret_id < 0 ||
        !gguf_text_at(tokens, (uint64_t)*ret_id, &text)) {
        return NULL;
    }
    return text.p; /* NUL-terminated by the reader */
}

static void put_flag(struct json_out *j, const char *key, bool value)
{
    json_key(j, key);
    json_bool(j, value);
}

static void put_null(struct json_out *j, const char *key)
{
    json_key(j, key);
    json_null(j);
}

static void put_added(struct maker *m)
{
    static const char *const no[] = {"single_word", "lstrip", "rstrip", "normalized"};
    struct json_out *j = &m->j;
    json_key(j, "added_tokens");
    json_list(j);
    for (uint64_t id = 0; id < m->tokens->count; id++) {
        int64_t type = type_of(m, id);
        if (type != TOK_TYPE_CONTROL && type != TOK_TYPE_USER && type != TOK_TYPE_UNKNOWN) {
            continue;
        }
        json_object(j);
        json_key(j, "id");
        json_int(j, (int64_t)id);
        json_field(j, "content", m->tokens->strings[id].p);
        for (size_t i = 0; i < ARRAY_LEN(no); i++) {
            put_flag(j, no[i], false);
        }
        put_flag(j, "special", type != TOK_TYPE_USER);
        json_object_end(j);
    }
    json_list_end(j);
}

static void put_byte_level(struct json_out *j, bool expression)
{
    json_object(j);
    json_field(j, "type", "ByteLevel");
    put_flag(j, "add_prefix_space", false);
    put_flag(j, "trim_offsets", true);
    put_flag(j, "use_regex", expression);
    json_object_end(j);
}

static void put_cut(struct maker *m)
{
    struct json_out *j = &m->j;
    if (m->cut->composed) {
        json_key(j, "normalizer");
        json_object(j);
        json_field(j, "type", "NFC");
        json_object_end(j);
    } else {
        put_null(j, "normalizer");
    }
    json_key(j, "pre_tokenizer");
    json_object(j);
    json_field(j, "type", "Sequence");
    json_key(j, "pretokenizers");
    json_list(j);
    if (m->cut->digits) {
        json_object(j);
        json_field(j, "type", "Digits");
        put_flag(j, "individual_digits", true);
        json_object_end(j);
    }
    if (m->cut->expression != NULL) {
        json_object(j);
        json_field(j, "type", "Split");
        json_key(j, "pattern");
        json_object(j);
        json_field(j, "Regex", tok_pattern_named(m->cut->expression));
        json_object_end(j);
        json_field(j, "behavior", "Isolated");
        put_flag(j, "invert", false);
        json_object_end(j);
    }
    put_byte_level(j, m->cut->expression == NULL);
    json_list_end(j);
    json_object_end(j);
}

static void put_template_token(struct json_out *j, const char *kind, const char *name)
{
    json_object(j);
    json_key(j, kind);
    json_object(j);
    json_field(j, "id", name);
    json_key(j, "type_id");
    json_int(j, 0);
    json_object_end(j);
    json_object_end(j);
}

static void put_template_id(struct json_out *j, const char *text, int64_t id)
{
    json_key(j, text);
    json_object(j);
    json_field(j, "id", text);
    json_key(j, "ids");
    json_list(j);
    json_int(j, id);
    json_list_end(j);
    json_key(j, "tokens");
    json_list(j);
    json_string(j, text);
    json_list_end(j);
    json_object_end(j);
}

/* What is added in front and behind. */
static enum status put_template(struct maker *m)
{
    struct json_out *j = &m->j;
    bool begin = m->cut->begins;
    bool end = false;
    int64_t ids[2] = {0};
    (void)gguf_bool(m->g, KEY "add_bos_token", &begin);
    (void)gguf_bool(m->g, KEY "add_eos_token", &end);
    const char *bos = begin ? special(m->g, KEY "bos_token_id", &ids[0]) : NULL;
    const char *eos = end ? special(m->g, KEY "eos_token_id", &ids[1]) : NULL;
    if ((begin && bos == NULL) || (end && eos == NULL)) {
        return err_set(
            m->err, ST_FORMAT,
            "%s: the %s of a text should be added, and " KEY "%s_token_id names no token", m->path,
            begin && bos == NULL ? "beginning" : "end", begin && bos == NULL ? "bos" : "eos");
    }
    if (bos == NULL && eos == NULL) {
        put_null(j, "post_processor");
        return ST_OK;
    }
    json_key(j, "post_processor");
    json_object(j);
    json_field(j, "type", "TemplateProcessing");
    for (unsigned i = 0; i < 2; i++) { /* a pair of texts is one behind the other */
        json_key(j, i == 0 ? "single" : "pair");
        json_list(j);
        if (bos != NULL) {
            put_template_token(j, "SpecialToken", bos);
        }
        put_template_token(j, "Sequence", "A");
        if (i == 1) {
            put_template_token(j, "Sequence", "B");
        }
        if (eos != NULL) {
            put_template_token(j, "SpecialToken", eos);
        }
        json_list_end(j);
    }
    json_key(j, "special_tokens");
    json_object(j);
    if (bos != NULL) {
        put_template_id(j, bos, ids[0]);
    }
    if (eos != NULL && (bos == NULL || ids[0] != ids[1])) {
        put_template_id(j, eos, ids[1]);
    }
    json_object_end(j);
    json_object_end(j);
    return ST_OK;
}

static void put_model(struct maker *m)
{
    struct json_out *j = &m->j;
    json_key(j, "model");
    json_object(j);
    json_field(j, "type", "BPE");
    put_null(j, "dropout");
    put_null(j, "unk_token");
    put_null(j, "continuing_subword_prefix");
    put_null(j, "end_of_word_suffix");
    put_flag(j, "fuse_unk", false);
    put_flag(j, "byte_fallback", false);
    put_flag(j, "ignore_merges", m->cut->whole);
    json_key(j, "vocab");
    json_object(j);
    for (uint64_t id = 0; id < m->tokens->count; id++) {
        if (type_of(m, id) != TOK_TYPE_UNUSED) { /* ids that only fill up the matrix */
            json_key(j, m->tokens->strings[id].p);
            json_int(j, (int64_t)id);
        }
    }
    json_object_end(j);
    json_key(j, "merges");
    json_list(j);
    for (uint64_t i = 0; i < m->merges->count; i++) {
        json_string(j, m->merges->strings[i].p);
    }
    json_list_end(j);
    json_object_end(j);
}

enum status gguf_tokenizer_json(struct arena *a, const struct gguf *g, const char *path,
                                struct str *ret_text, struct err *err)
{
    struct maker m = {.a = a, .g = g, .path = path, .err = err};
    struct strbuf out;
    if (!gguf_has_tokenizer(g)) {
        return err_set(err, ST_ABSENT, "%s: the file brings no tokenizer (no " KEY "model)", path);
    }
    TRY(find_cut(&m));
    TRY(find_arrays(&m));
    strbuf_init(&out, a, TEXT_MAX);
    json_init(&m.j, &out);
    json_object(&m.j);
    json_field(&m.j, "version", "1.0");
    put_null(&m.j, "truncation");
    put_null(&m.j, "padding");
    put_added(&m);
    put_cut(&m);
    TRY(put_template(&m));
    json_key(&m.j, "decoder");
    put_byte_level(&m.j, true);
    put_model(&m);
    json_object_end(&m.j);
    strbuf_addc(&out, '\n');
    if (out.truncated) {
        return err_set(err, ST_LIMIT, "%s: its tokenizer is larger than %d bytes", path, TEXT_MAX);
    }
    *ret_text = strbuf_str(&out);
    return ST_OK;
}

struct str gguf_tokenizer_config(struct arena *a, const struct gguf *g)
{
    static const char *const names[][2] = {{KEY "bos_token_id", "bos_token"},
                                           {KEY "eos_token_id", "eos_token"},
                                           {KEY "padding_token_id", "pad_token"},
                                           {KEY "unknown_token_id", "unk_token"}};
    struct strbuf out;
    struct json_out j;
    struct str chat;
    int64_t id;
    strbuf_init(&out, a, TEXT_MAX);
    json_init(&j, &out);
    json_object(&j);
    json_field(&j, "tokenizer_class", "PreTrainedTokenizerFast");
    put_flag(&j, "clean_up_tokenization_spaces", false);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        json_field(&j, names[i][1], special(g, names[i][0], &id));
    }
    if (gguf_text(g, "tokenizer.chat_template", &chat)) {
        json_field(&j, "chat_template", str_dup(a, chat));
    }
    json_object_end(&j);
    strbuf_addc(&out, '\n');
    return strbuf_str(&out);
}
