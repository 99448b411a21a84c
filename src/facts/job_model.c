// SPDX-License-Identifier: Apache-2.0
/*
 * The folder that model_name_or_path names: config.json, tokenizer files. A hub name that is no
 * folder gives model.name alone. Large files are walked, not loaded.
 */
#include <string.h>

#include "base/json_scan.h"
#include "base/tree.h"
#include "base/vec.h"

#include "facts/job_parts.h"

enum {
    MAX_JSON = 8 << 20,
    MAX_TOKENIZER = 256 << 20,
    MAX_TEMPLATE = 1 << 20
};

static const struct tree *read_json(const struct job *j, const char *folder, const char *name)
{
    struct tree_limits limits = {.bytes = MAX_JSON, .nodes = 500000, .depth = 64};
    const char *path = arena_fmt(j->arena, "%s/%s", folder, name);
    const struct tree *t;
    struct str text;
    if (fs_read(j->fs, j->arena, path, MAX_JSON, &text, NULL) != ST_OK ||
        tree_from_json(j->arena, text, path, limits, &t, NULL) != ST_OK) {
        return NULL;
    }
    return t;
}

static const char *last_part(struct arena *a, const char *path)
{
    struct str s = str_of(path);
    while (s.n > 1 && s.p[s.n - 1] == '/') {
        s.n--;
    }
    size_t start = s.n;
    while (start != 0 && s.p[start - 1] != '/') {
        start--;
    }
    return str_dup(a, str_slice(s, start, s.n));
}

/* A number of the top level or of the text part of a composite model. */
static bool config_int(const struct tree *t, const char *key, int64_t *ret_value)
{
    const struct tree *n = tree_get(t, key);
    n = n != NULL ? n : tree_get(tree_get(t, "text_config"), key);
    n = n != NULL ? n : tree_get(tree_get(t, "llm_config"), key);
    if (n == NULL || n->value.kind != VALUE_INT) {
        return false;
    }
    *ret_value = n->value.integer;
    return true;
}

static void set_text(const struct job *j, const char *key, const char *text, const char *source)
{
    if (text != NULL) {
        facts_string(j->facts, key, text, source);
    } else {
        facts_set_state(j->facts, key, FACT_ABSENT, source, "not in the file");
    }
}

static void set_head_dim(const struct job *j, const struct tree *t, const char *source)
{
    int64_t head;
    int64_t hidden;
    int64_t heads;
    if (config_int(t, "head_dim", &head)) {
        facts_int(j->facts, "model.head_dim", head, source);
    } else if (config_int(t, "hidden_size", &hidden) &&
               config_int(t, "num_attention_heads", &heads) && heads > 0) {
        facts_int(j->facts, "model.head_dim", hidden / heads, source);
    }
}

static void set_config(const struct job *j, const char *folder)
{
    const char *source = arena_fmt(j->arena, "%s/config.json", folder);
    const struct tree *t = read_json(j, folder, "config.json");
    if (t == NULL) {
        facts_set_state(j->facts, "model.type",
                        fs_exists(j->fs, j->arena, source) ? FACT_UNREADABLE : FACT_ABSENT, source,
                        "config.json is missing or not JSON");
        return;
    }
    set_text(j, "model.type", tree_text(t, "model_type", NULL), source);
    const char *dtype = tree_text(t, "torch_dtype", tree_text(t, "dtype", NULL));
    dtype = dtype != NULL ? dtype : tree_text(tree_get(t, "text_config"), "torch_dtype", NULL);
    set_text(j, "model.torch_dtype", dtype, source);
    const struct tree *vision = tree_get(t, "vision_config");
    vision = vision != NULL ? vision : tree_get(t, "visual");
    facts_bool(j->facts, "model.has_vision_tower", vision != NULL, source);
    set_text(j, "model.quant_method",
             tree_text(tree_get(t, "quantization_config"), "quant_method", NULL), source);
    int64_t rows;
    if (config_int(t, "vocab_size", &rows)) {
        facts_int(j->facts, "model.vocab_rows", rows, source);
    }
    set_head_dim(j, t, source);
    const char *name = tree_text(t, "_name_or_path", NULL);
    if (name != NULL && name[0] != '\0') {
        facts_string(j->facts, "model.name", last_part(j->arena, name), source);
    }
}

void job_model_facts(const struct job *j)
{
    const struct job_entry *e = job_config_get(j->config, JOB_UNKNOWN, "model_name_or_path");
    e = e != NULL ? e : job_config_get(j->config, JOB_UNKNOWN, "base_model"); /* axolotl */
    if (e == NULL || e->value.kind != VALUE_STRING) {
        return;
    }
    facts_string(j->facts, "model.name", last_part(j->arena, e->text), job_where(j, e));
    const char *folder = job_path(j, e->key);
    if (folder == NULL || !fs_is_dir(j->fs, j->arena, folder)) {
        facts_set_state(j->facts, "model.path", FACT_ABSENT, job_where(j, e),
                        arena_fmt(j->arena,
                                  "'%.200s' is no folder here: a hub name, or a wrong path",
                                  e->text));
        return;
    }
    facts_string(j->facts, "model.path", folder, job_where(j, e));
    set_config(j, folder);
    job_weights_facts(j, folder);
}

/* A token written as text or as {"content": …}. */
static const char *token_text(const struct tree *t, const char *key)
{
    const struct tree *n = tree_get(t, key);
    if (n == NULL || n->kind == TREE_MAP) {
        return tree_text(n, "content", NULL);
    }
    return n->value.kind == VALUE_STRING ? n->value.string : NULL;
}

struct token_count {
    size_t vocabulary;
    size_t added;
    bool known;
};

/* Names of the ids, and how many added tokens lie behind the vocabulary. */
static void count_added(const struct job *j, struct str list, struct token_count *count)
{
    struct tree_limits limits = {.bytes = 4096, .nodes = 64, .depth = 4};
    struct json_scan s;
    struct str key;
    struct str value;
    if (!json_scan_open(&s, list)) {
        return;
    }
    while (json_scan_next(&s, &key, &value)) {
        struct arena_mark mark = arena_mark(j->arena);
        const struct tree *t;
        if (tree_from_json(j->arena, value, "added_tokens", limits, &t, NULL) == ST_OK) {
            const struct tree *id = tree_get(t, "id");
            if (id != NULL && id->value.kind == VALUE_INT &&
                id->value.integer >= (int64_t)count->vocabulary) {
                count->added++;
            }
        }
        arena_rewind(j->arena, mark);
    }
}

static struct token_count count_tokens(const struct job *j, struct str text)
{
    struct token_count count = {0};
    struct json_scan top;
    struct json_scan model;
    struct str key;
    struct str value;
    struct str added = {.p = "", .n = 0};
    if (!json_scan_open(&top, text)) {
        return count;
    }
    while (json_scan_next(&top, &key, &value)) {
        if (str_is(key, "added_tokens")) {
            added = value;
        } else if (str_is(key, "model") && json_scan_open(&model, value)) {
            while (json_scan_next(&model, &key, &value)) {
                if (str_is(key, "vocab")) {
                    count.vocabulary = json_scan_count(value);
                    count.known = count.vocabulary != SIZE_MAX;
                    break;
                }
            }
        }
    }
    if (count.known) {
        count_added(j, added, &count);
    }
    return count;
}

static void set_length(const struct job *j, const char *folder)
{
    const char *path = arena_fmt(j->arena, "%s/tokenizer.json", folder);
    struct fs_map map;
    struct err err = {0};
    if (fs_map(j->fs, j->arena, path, &map, &err) != ST_OK) {
        facts_set_error(j->facts, "tokenizer.length", path, &err);
        return;
    }
    if (map.n > MAX_TOKENIZER) {
        facts_set_state(j->facts, "tokenizer.length", FACT_UNREADABLE, path,
                        "larger than any tokenizer");
        fs_unmap(&map);
        return;
    }
    struct token_count count = count_tokens(j, (struct str){.p = (const char *)map.p, .n = map.n});
    fs_unmap(&map);
    if (count.known) {
        facts_int(j->facts, "tokenizer.length", (int64_t)(count.vocabulary + count.added), path);
    } else {
        facts_set_state(j->facts, "tokenizer.length", FACT_UNREADABLE, path,
                        "no vocabulary was found in it");
    }
}

/* The token that ends a turn, by the name of the template or by the template's own text. */
static void set_template(const struct job *j, const char *folder, const struct tree *config)
{
    static const struct {
        const char *prefix, *token;
    } by_name[] = {
        {"qwen", "<|im_end|>"},      {"chatml", "<|im_end|>"},   {"llama3", "<|eot_id|>"},
        {"llama4", "<|eot|>"},       {"gemma", "<end_of_turn>"}, {"llama2", "</s>"},
        {"mistral", "</s>"},         {"phi", "<|end|>"},         {"yi", "<|im_end|>"},
        {"internlm2", "<|im_end|>"},
    };

    static const char *const tokens[] = {"<|im_end|>", "<|eot_id|>",    "<end_of_turn>", "<|eot|>",
                                         "<|end|>",    "<|endoftext|>", "</s>"};
    const char *name = facts_get_string(j->facts, "config.template", NULL);
    for (size_t i = 0; name != NULL && i < ARRAY_LEN(by_name); i++) {
        if (str_starts(str_of(name), by_name[i].prefix)) {
            facts_string(j->facts, "template.eos_token", by_name[i].token,
                         arena_fmt(j->arena, "template '%s' of LLaMA-Factory", name));
            return;
        }
    }
    struct str text = str_of(tree_text(config, "chat_template", NULL));
    const char *source = "chat_template of tokenizer_config.json";
    if (text.n == 0 && folder != NULL) {
        source = arena_fmt(j->arena, "%s/chat_template.jinja", folder);
        if (fs_read(j->fs, j->arena, source, MAX_TEMPLATE, &text, NULL) != ST_OK) {
            return;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(tokens); i++) {
        if (str_has(text, tokens[i])) {
            facts_string(j->facts, "template.eos_token", tokens[i], source);
            return;
        }
    }
}

/* EOS of the model: an id in generation_config.json or config.json, named by the tokenizer. */
static void set_model_eos(const struct job *j, const char *folder, const struct tree *tokenizer)
{
    const struct tree *config = read_json(j, folder, "config.json");
    const struct tree *id = tree_get(config, "eos_token_id");
    id = id != NULL ? id : tree_get(tree_get(config, "text_config"), "eos_token_id");
    if (id != NULL && id->kind == TREE_LIST) {
        id = id->child;
    }
    if (id == NULL || id->value.kind != VALUE_INT) {
        return;
    }
    const char *number = arena_fmt(j->arena, "%lld", (long long)id->value.integer);
    const struct tree *named = tree_get(tree_get(tokenizer, "added_tokens_decoder"), number);
    const char *text = tree_text(named, "content", NULL);
    if (text != NULL) {
        facts_string(j->facts, "model.eos_token", text,
                     arena_fmt(j->arena, "%s/config.json", folder));
    }
}

void job_tokenizer_facts(const struct job *j)
{
    const char *folder = facts_get_string(j->facts, "model.path", NULL);
    if (folder == NULL) {
        set_template(j, NULL, NULL);
        return;
    }
    const char *source = arena_fmt(j->arena, "%s/tokenizer_config.json", folder);
    const struct tree *t = read_json(j, folder, "tokenizer_config.json");
    if (t != NULL) {
        const struct tree *special = read_json(j, folder, "special_tokens_map.json");
        const char *pad = token_text(t, "pad_token");
        const char *eos = token_text(t, "eos_token");
        set_text(j, "tokenizer.pad_token", pad != NULL ? pad : token_text(special, "pad_token"),
                 source);
        set_text(j, "tokenizer.eos_token", eos != NULL ? eos : token_text(special, "eos_token"),
                 source);
        set_text(j, "tokenizer.padding_side", tree_text(t, "padding_side", NULL), source);
    }
    set_length(j, folder);
    set_template(j, folder, t);
    set_model_eos(j, folder, t);
}
