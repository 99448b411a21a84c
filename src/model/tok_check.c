// SPDX-License-Identifier: Apache-2.0
/* Each file says a part of what a tokenizer is; here the parts are held against each other. */
#include "model/tok_check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"

enum {
    TEMPLATE_TOKEN_MAX = 48, /* bytes of "<|...|>" */
    IDS_MAX = 64             /* of a list in config.json */
};

struct files {
    struct tok_check *c;
    const struct tree *config;
    const struct tree *text_config; /* config, or its text_config */
    const struct tree *generation;
    const struct tree *tokenizer_config;
    const struct tree *special_map;
    const struct tree *added; /* added_tokens.json */
};

const char *tok_special_name(enum tok_special_kind kind)
{
    static const char *const names[TOK_SPECIAL_COUNT] = {"bos", "eos", "pad", "unk"};
    return kind < TOK_SPECIAL_COUNT ? names[kind] : "?";
}

static const char *shown(const struct tok_check *c, const char *text)
{
    return issue_text(c->folder.arena, str_of(text));
}

static const struct tree *json_of(struct tok_check *c, const char *name)
{
    const struct tree *t = NULL;
    if (folder_has(&c->folder, name) && !folder_json(&c->folder, name, &t)) {
        folder_issue(&c->folder, SEVERITY_ERROR, "tokenizer-file-broken",
                     "A file beside the tokenizer is broken", name, "It cannot be read as JSON.");
        return NULL;
    }
    return t;
}

static bool whole_number(const struct tree *t, int64_t *ret)
{
    if (t == NULL || t->kind != TREE_SCALAR || t->value.kind != VALUE_INT) {
        return false;
    }
    *ret = t->value.integer;
    return true;
}

/* ---- tokens that other files add ---- */

static void check_one_added(struct tok_check *c, const char *file, const char *content, int64_t id)
{
    struct str piece;
    if (id < 0 || id >= TOK_MAX_IDS) {
        folder_issue(&c->folder, SEVERITY_ERROR, "tokenizer-added-id",
                     "An added token has an impossible id", file, "\"%s\" has the id %" PRId64 ".",
                     shown(c, content), id);
        return;
    }
    c->id_end = (uint32_t)id >= c->id_end ? (uint32_t)id + 1 : c->id_end;
    uint32_t known = tok_find(c->tokenizer, str_of(content));
    bool there = tok_piece(c->tokenizer, c->folder.arena, (uint32_t)id, &piece);
    if (there && !str_eq(piece, str_of(content))) {
        folder_issue(&c->folder, SEVERITY_ERROR, "tokenizer-added-differs",
                     "An added token stands for two things", file,
                     "Id %" PRId64 " is \"%s\" here, and \"%s\" in the tokenizer.", id,
                     shown(c, content), issue_text(c->folder.arena, piece));
    } else if (!there && known != TOK_NO_ID) {
        folder_issue(&c->folder, SEVERITY_ERROR, "tokenizer-added-differs",
                     "An added token stands for two things", file,
                     "\"%s\" has the id %" PRId64 " here, and %u in the tokenizer.",
                     shown(c, content), id, known);
    }
}

static void check_added(struct files *f)
{
    const struct tree *decoder = tree_get(f->tokenizer_config, "added_tokens_decoder");
    for (const struct tree *t = decoder != NULL ? decoder->child : NULL; t != NULL; t = t->next) {
        int64_t id;
        const char *content = tree_text(t, "content", NULL);
        if (t->key == NULL || content == NULL || str_to_i64(str_of(t->key), 10, &id) != ST_OK) {
            folder_issue(&f->c->folder, SEVERITY_ERROR, "tokenizer-file-broken",
                         "A file beside the tokenizer is broken", "tokenizer_config.json",
                         "added_tokens_decoder should map ids to tokens with a content; \"%s\" "
                         "does not.",
                         shown(f->c, t->key != NULL ? t->key : "?"));
            continue;
        }
        check_one_added(f->c, "tokenizer_config.json", content, id);
    }
    for (const struct tree *t = f->added != NULL ? f->added->child : NULL; t != NULL; t = t->next) {
        int64_t id;
        if (t->key != NULL && whole_number(t, &id)) {
            check_one_added(f->c, "added_tokens.json", t->key, id);
        }
    }
}

/* ---- size of the vocabulary ---- */

/* Rows of the embedding among the weights of the folder; 0 when there are none. */
static uint64_t embedding_rows(const struct folder *f)
{
    static const char *const ends[] = {"embed_tokens.weight", "wte.weight",
                                       "word_embeddings.weight", "embed_in.weight"};
    for (size_t i = 0; i < f->count; i++) {
        struct tensor_file *file;
        uint64_t rows = 0;
        if (!str_ends(str_of(f->names[i]), ".safetensors") ||
            tensor_file_open(f->arena, folder_join(f, f->names[i]), NULL, &file, NULL) != ST_OK) {
            continue;
        }
        for (size_t t = 0; t < file->count && rows == 0; t++) {
            for (size_t e = 0; e < ARRAY_LEN(ends); e++) {
                const struct tensor *one = &file->tensors[t];
                if (one->rank == 2 && str_ends(str_of(one->name), ends[e])) {
                    rows = one->shape[0];
                }
            }
        }
        tensor_file_close(file);
        if (rows != 0) {
            return rows;
        }
    }
    return 0;
}

static void check_size(struct files *f)
{
    struct tok_check *c = f->c;
    int64_t size;
    if (whole_number(tree_get(f->text_config, "vocab_size"), &size) && size > 0) {
        c->vocab_size = (uint64_t)size;
    }
    c->rows = embedding_rows(&c->folder);
    uint64_t rows = c->rows != 0 ? c->rows : c->vocab_size;
    const char *what = c->rows != 0 ? "the embedding has" : "vocab_size of config.json is";
    if (rows == 0) {
        return;
    }
    if (c->id_end > rows) {
        folder_issue(&c->folder, SEVERITY_ERROR, "tokenizer-beyond-vocabulary",
                     "Tokens have no row in the embedding", "config.json",
                     "The tokenizer's ids go up to %u, %s %" PRIu64
                     ": ids from there on read beyond the table.",
                     c->id_end - 1, what, rows);
        issue_remedy(c->folder.issues, "Resize the embedding to the tokenizer, or take the "
                                       "tokenizer that belongs to these weights.");
    } else if (c->id_end < rows) {
        folder_issue(&c->folder, SEVERITY_NOTE, "tokenizer-padded-vocabulary",
                     "The embedding has more rows than the tokenizer has ids", "config.json",
                     "%" PRIu64 " rows are never used: %s %" PRIu64 ", the tokenizer has %u ids.",
                     rows - c->id_end, what, rows, c->id_end);
    }
    if (c->rows != 0 && c->vocab_size != 0 && c->rows != c->vocab_size) {
        folder_issue(&c->folder, SEVERITY_ERROR, "tokenizer-vocab-size",
                     "config.json and embedding disagree", "config.json",
                     "vocab_size is %" PRIu64 ", the embedding has %" PRIu64 " rows.",
                     c->vocab_size, c->rows);
    }
}

/* ---- special tokens ---- */

/* "<s>", {"content": "<s>"} or null. */
static const char *token_text(const struct tree *file, const char *key)
{
    const struct tree *t = tree_get(file, key);
    if (t == NULL) {
        return NULL;
    }
    if (t->kind == TREE_MAP) {
        return tree_text(t, "content", NULL);
    }
    return t->kind == TREE_SCALAR && t->value.kind == VALUE_STRING ? t->text : NULL;
}

/* Ids of a key that is a number or a list of them. */
struct ids {
    int64_t items[IDS_MAX];
    size_t count;
};

static struct ids ids_of(const struct tree *file, const char *key)
{
    struct ids ids = {.count = 0};
    const struct tree *t = tree_get(file, key);
    if (t != NULL && t->kind == TREE_LIST) {
        for (t = t->child; t != NULL && ids.count < IDS_MAX; t = t->next) {
            ids.count += whole_number(t, &ids.items[ids.count]);
        }
    } else {
        ids.count = whole_number(t, &ids.items[0]);
    }
    return ids;
}

static bool has_id(const struct ids *ids, uint32_t id)
{
    for (size_t i = 0; i < ids->count; i++) {
        if (ids->items[i] == (int64_t)id) {
            return true;
        }
    }
    return false;
}

/* Each id that a file names must be one of the tokenizer. */
static void check_ids_exist(struct tok_check *c, const char *file, const char *key,
                            const struct ids *ids)
{
    for (size_t i = 0; i < ids->count; i++) {
        bool there = ids->items[i] >= 0 && ids->items[i] < (int64_t)c->id_end;
        if (!there) {
            folder_issue(&c->folder, SEVERITY_ERROR, "tokenizer-special-absent",
                         "A special token is not in the tokenizer", file,
                         "%s is %" PRId64 "; the tokenizer's ids end at %u.", key, ids->items[i],
                         c->id_end);
        }
    }
}

static void check_special(struct files *f, enum tok_special_kind kind)
{
    struct tok_check *c = f->c;
    const char *name = tok_special_name(kind);
    const char *key = arena_fmt(c->folder.arena, "%s_token", name);
    const char *id_key = arena_fmt(c->folder.arena, "%s_token_id", name);
    const char *text = token_text(f->tokenizer_config, key);
    const char *mapped = token_text(f->special_map, key);
    struct ids config = ids_of(f->config, id_key);
    struct ids generation = ids_of(f->generation, id_key);
    config = config.count != 0 ? config : ids_of(f->text_config, id_key);
    check_ids_exist(c, "config.json", id_key, &config);
    check_ids_exist(c, "generation_config.json", id_key, &generation);
    if (text != NULL && mapped != NULL && strcmp(text, mapped) != 0) {
        folder_issue(&c->folder, SEVERITY_WARNING, "tokenizer-special-differs",
                     "Files name different special tokens", "special_tokens_map.json",
                     "%s is \"%s\" here and \"%s\" in tokenizer_config.json.", key,
                     shown(c, mapped), shown(c, text));
    }
    text = text != NULL ? text : mapped;
    c->special[kind] = (struct tok_special){.text = text, .id = TOK_NO_ID};
    if (text == NULL) {
        return;
    }
    uint32_t id = tok_find(c->tokenizer, str_of(text));
    int64_t added;
    if (id == TOK_NO_ID && whole_number(tree_get(f->added, text), &added) && added >= 0) {
        id = (uint32_t)added;
    }
    c->special[kind].id = id;
    if (id == TOK_NO_ID) {
        folder_issue(
            &c->folder, SEVERITY_ERROR, "tokenizer-special-absent",
            "A special token is not in the tokenizer", "tokenizer_config.json",
            "%s is \"%s\", which has no id: loading adds it behind the last one, where the "
            "embedding may have no row.",
            key, shown(c, text));
        return;
    }
    bool named = config.count != 0 || generation.count != 0;
    if (!named || has_id(&config, id) || has_id(&generation, id)) {
        return;
    }
    folder_issue(&c->folder, SEVERITY_WARNING, "tokenizer-special-differs",
                 "Files name different special tokens",
                 config.count != 0 ? "config.json" : "generation_config.json",
                 "%s of the tokenizer is \"%s\" with the id %u; %s is %" PRId64 "%s.", key,
                 shown(c, text), id, id_key,
                 config.count != 0 ? config.items[0] : generation.items[0],
                 kind == TOK_EOS ? ": generation does not stop where training ends a text" : "");
}

static void check_specials(struct files *f)
{
    static const char *const others[] = {"image_token_id",        "video_token_id",
                                         "vision_start_token_id", "vision_end_token_id",
                                         "audio_token_id",        "decoder_start_token_id"};
    for (int k = 0; k < TOK_SPECIAL_COUNT; k++) {
        check_special(f, (enum tok_special_kind)k);
    }
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        struct ids ids = ids_of(f->config, others[i]);
        check_ids_exist(f->c, "config.json", others[i], &ids);
    }
    const struct tok_special *pad = &f->c->special[TOK_PAD];
    const struct tok_special *eos = &f->c->special[TOK_EOS];
    if (pad->text != NULL && eos->text != NULL && pad->id == eos->id && pad->id != TOK_NO_ID) {
        folder_issue(&f->c->folder, SEVERITY_NOTE, "tokenizer-pad-is-eos",
                     "Padding is the end of text", "tokenizer_config.json",
                     "pad_token and eos_token are both \"%s\": a collator that masks padding masks "
                     "the end too, and the model does not learn to stop.",
                     shown(f->c, pad->text));
    }
}

/* ---- chat template ---- */

static const char *template_kind(struct str t)
{
    static const struct {
        const char *mark;
        const char *name;
    } rows[] = {
        {"<|start_header_id|>", "Llama 3"}, {"<|header_start|>", "Llama 4"},
        {"<|im_start|>", "ChatML"},         {"<start_of_turn>", "Gemma"},
        {"[INST]", "Llama 2 or Mistral"},   {"<|turn>", "Gemma 4"},
        {"<|user|>", "Phi or Zephyr"},      {"<\xef\xbd\x9cUser\xef\xbd\x9c>", "DeepSeek"},
        {"<|start|>", "Harmony"},           {"USER:", "Vicuna"},
        {"### Instruction", "Alpaca"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (str_has(t, rows[i].mark)) {
            return rows[i].name;
        }
    }
    return "another";
}

static size_t count_of(struct str s, const char *needle)
{
    size_t n = 0;
    for (size_t at = str_find(s, needle, 0); at != SIZE_MAX; n++) {
        at = str_find(s, needle, at + strlen(needle));
    }
    return n;
}

/* Every "<|...|>" that the template writes must be one token. */
static void check_template_tokens(struct tok_check *c)
{
    struct str t = c->template_text;
    struct map *seen = map_new(c->folder.arena);
    for (size_t at = str_find(t, "<|", 0); at != SIZE_MAX; at = str_find(t, "<|", at + 2)) {
        size_t end = str_find(t, "|>", at + 2);
        struct str token = str_slice(t, at, end == SIZE_MAX ? at : end + 2);
        bool plain = end != SIZE_MAX && token.n > 4 && token.n <= TEMPLATE_TOKEN_MAX;
        for (size_t i = 2; plain && i + 2 < token.n; i++) {
            plain = strchr(" '\"+{}%<|\\\n", token.p[i]) == NULL;
        }
        if (!plain || map_get(seen, token) != NULL) {
            continue;
        }
        map_put(seen, token, c);
        if (tok_find(c->tokenizer, token) == TOK_NO_ID) {
            folder_issue(&c->folder, SEVERITY_WARNING, "tokenizer-template-token",
                         "The chat template writes a token that the tokenizer has not",
                         c->template_file, "\"%s\" is no token: it is cut into pieces of text.",
                         issue_text(c->folder.arena, token));
        }
    }
}

/* The text of a template in tokenizer_config.json: one, or a list of named ones of which "default"
 * counts. */
static struct str template_in(const struct tree *config)
{
    const struct tree *t = tree_get(config, "chat_template");
    if (t == NULL) {
        return STR("");
    }
    if (t->kind == TREE_SCALAR) {
        return t->value.kind == VALUE_STRING ? str_of(t->text) : STR("");
    }
    const char *text = NULL;
    for (const struct tree *e = t->child; e != NULL; e = e->next) {
        if (text == NULL || strcmp(tree_text(e, "name", ""), "default") == 0) {
            text = tree_text(e, "template", text);
        }
    }
    return str_of(text);
}

/* The word behind "{%", a dash or a plus, and spaces. */
static struct str tag_word(struct str template, size_t at)
{
    at += 2;
    at += at < template.n && (template.p[at] == '-' || template.p[at] == '+');
    while (at < template.n && strchr(" \t\r\n", template.p[at]) != NULL) {
        at++;
    }
    size_t end = at;
    while (end < template.n && template.p[end] >= 'a' && template.p[end] <= 'z') {
        end++;
    }
    return str_slice(template, at, end);
}

/* The template without its comments, which may hold tags. */
static struct str without_comments(struct arena *a, struct str template)
{
    struct strbuf out;
    strbuf_init(&out, a, template.n + 1);
    for (size_t at = 0; at < template.n;) {
        size_t comment = str_find(template, "{#", at);
        size_t end = comment == SIZE_MAX ? SIZE_MAX : str_find(template, "#}", comment);
        strbuf_add(&out, str_slice(template, at, end == SIZE_MAX ? template.n : comment));
        at = end == SIZE_MAX ? template.n : end + 2;
    }
    return strbuf_str(&out);
}

/* A block that is opened more often than it is closed, or NULL. A template that quotes tags (raw) is not
 * judged. */
static const char *open_block(struct str template)
{
    static const char *const words[] = {"for", "if", "macro", "call", "filter", "generation"};
    int depth[ARRAY_LEN(words)] = {0};
    for (size_t i = 0; i + 1 < template.n; i++) {
        if (template.p[i] == '{' && template.p[i + 1] == '%') {
            struct str word = tag_word(template, i);
            bool closes = str_starts(word, "end");
            word = closes ? str_slice(word, 3, word.n) : word;
            if (str_is(word, "raw")) {
                return NULL;
            }
            for (size_t w = 0; w < ARRAY_LEN(words); w++) {
                depth[w] += str_is(word, words[w]) ? (closes ? -1 : 1) : 0;
            }
        }
    }
    for (size_t w = 0; w < ARRAY_LEN(words); w++) {
        if (depth[w] > 0) {
            return words[w];
        }
    }
    return NULL;
}

static void check_closed(struct tok_check *c)
{
    struct str text = without_comments(c->folder.arena, c->template_text);
    const char *word = open_block(text);
    if (count_of(text, "{%") != count_of(text, "%}") ||
        count_of(text, "{{") > count_of(text, "}}")) {
        folder_issue(&c->folder, SEVERITY_ERROR, "tokenizer-template-broken",
                     "The chat template is broken", c->template_file,
                     "It opens more tags than it closes: it was cut off.");
    } else if (word != NULL) {
        folder_issue(&c->folder, SEVERITY_ERROR, "tokenizer-template-broken",
                     "The chat template is broken", c->template_file,
                     "A {%% %s %%} in it is never closed: it was cut off.", word);
    }
}

static void check_template(struct files *f)
{
    struct tok_check *c = f->c;
    struct str own = {.p = "", .n = 0};
    struct str inner = template_in(f->tokenizer_config);
    if (folder_has(&c->folder, "chat_template.jinja") &&
        folder_text(&c->folder, "chat_template.jinja", &own)) {
        c->template_file = "chat_template.jinja";
    } else if (inner.n != 0) {
        c->template_file = "tokenizer_config.json";
    }
    c->template_text = own.n != 0 ? own : inner;
    if (c->template_text.n == 0) {
        c->template_file = NULL;
        folder_issue(&c->folder, SEVERITY_NOTE, "tokenizer-no-template",
                     "There is no chat template", "tokenizer_config.json",
                     "The model was made for text, or its template was lost.");
        return;
    }
    c->template_name = template_kind(c->template_text);
    if (own.n != 0 && inner.n != 0 && !str_eq(own, str_trim(inner))) {
        folder_issue(&c->folder, SEVERITY_WARNING, "tokenizer-two-templates",
                     "Two chat templates differ", "chat_template.jinja",
                     "tokenizer_config.json holds another one; chat_template.jinja wins in "
                     "transformers from 4.43 on, the other before.");
    }
    check_closed(c);
    check_template_tokens(c);
}

/* ---- all of it ---- */

static void read_files(struct files *f)
{
    struct tok_check *c = f->c;
    f->config = json_of(c, "config.json");
    f->generation = json_of(c, "generation_config.json");
    f->tokenizer_config = json_of(c, "tokenizer_config.json");
    f->special_map = json_of(c, "special_tokens_map.json");
    f->added = json_of(c, "added_tokens.json");
    const struct tree *text = tree_get(f->config, "text_config");
    f->text_config = text != NULL ? text : f->config;
}

enum status tok_check(struct arena *a, const char *path, const struct tok_options *options,
                      struct issues *issues, struct tok_check *ret_check, struct err *err)
{
    static const struct fs live = {.prefix = ""};
    struct tok_check c = {.folder = {.arena = a, .path = path, .issues = issues}};
    struct files f = {.c = &c};
    TRY(tok_open(a, path, options, &c.tokenizer, err));
    c.id_end = tok_id_end(c.tokenizer);
    if (fs_is_dir(&live, a, path) && folder_open(a, path, issues, &c.folder, NULL)) {
        read_files(&f);
        check_added(&f);
        check_size(&f);
        check_specials(&f);
        check_template(&f);
    }
    issues->file = tok_path(c.tokenizer);
    tok_check_round_trip(c.tokenizer, issues);
    *ret_check = c;
    return ST_OK;
}
