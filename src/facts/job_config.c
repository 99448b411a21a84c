// SPDX-License-Identifier: Apache-2.0
/*
 * Reading a training configuration into flat entries. JSON is read as YAML first, because that
 * keeps the lines; the facts are in job_facts.c, job_model.c and job_data.c.
 */
#include "facts/job_config.h"

#include <string.h>

#include "base/tree.h"
#include "base/vec.h"

enum {
    MAX_FILE = 4 << 20,
    MAX_ENTRIES = 20000,
    MAX_PARENTS = 8
};

static const struct tree_limits limits = {.bytes = MAX_FILE, .nodes = MAX_ENTRIES, .depth = 64};

struct flatten {
    struct arena *arena;
    struct job_config *config;
    const char *file;
    enum job_kind kind;
};

const char *job_kind_name(enum job_kind kind)
{
    static const char *const names[JOB_KIND_COUNT] = {
        [JOB_UNKNOWN] = "unknown",           [JOB_LLAMAFACTORY] = "llamafactory",
        [JOB_TRANSFORMERS] = "transformers", [JOB_DEEPSPEED] = "deepspeed",
        [JOB_ACCELERATE] = "accelerate",
    };
    return kind < JOB_KIND_COUNT ? names[kind] : "?";
}

static bool has_any(const struct tree *root, const char *const *keys, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (tree_get(root, keys[i]) != NULL) {
            return true;
        }
    }
    return false;
}

enum job_kind job_kind_of(const struct tree *root)
{
    static const char *const deepspeed[] = {"zero_optimization", "train_micro_batch_size_per_gpu",
                                            "zero_allow_untested_optimizer",
                                            "zero_force_ds_cpu_optimizer", "train_batch_size"};
    static const char *const accelerate[] = {
        "compute_environment", "distributed_type", "deepspeed_config", "fsdp_config",
        "num_processes",       "machine_rank",     "downcast_bf16"};
    static const char *const factory[] = {"finetuning_type", "cutoff_len",      "dataset_dir",
                                          "template",        "lora_target",     "stage",
                                          "pure_bf16",       "quantization_bit"};
    static const char *const trainer[] = {"output_dir",
                                          "per_device_train_batch_size",
                                          "gradient_accumulation_steps",
                                          "num_train_epochs",
                                          "max_steps",
                                          "lr_scheduler_type",
                                          "learning_rate"};
    const struct tree *fp16 = tree_get(root, "fp16");
    const struct tree *bf16 = tree_get(root, "bf16");
    if (has_any(root, deepspeed, ARRAY_LEN(deepspeed)) ||
        (fp16 != NULL && fp16->kind == TREE_MAP) || (bf16 != NULL && bf16->kind == TREE_MAP)) {
        return JOB_DEEPSPEED;
    }
    if (has_any(root, accelerate, ARRAY_LEN(accelerate))) {
        return JOB_ACCELERATE;
    }
    if (has_any(root, factory, ARRAY_LEN(factory))) {
        return JOB_LLAMAFACTORY;
    }
    return has_any(root, trainer, ARRAY_LEN(trainer)) ? JOB_TRANSFORMERS : JOB_UNKNOWN;
}

static void add_entry(struct flatten *f, const char *key, const struct tree *t, enum job_kind kind)
{
    if (f->config->entries.count >= MAX_ENTRIES) {
        return;
    }
    *VEC_PUSH(f->arena, &f->config->entries) = (struct job_entry){
        .key = key,
        .value = tree_value(f->arena, t),
        .text = t->kind == TREE_SCALAR && t->text != NULL ? t->text : "",
        .quoted = t->quoted,
        .file = f->file,
        .line = t->line,
        .kind = kind,
    };
}

static void flatten(struct flatten *f, const struct tree *t, const char *prefix, enum job_kind kind)
{
    size_t index = 0;
    for (const struct tree *child = t->child; child != NULL; child = child->next, index++) {
        const char *name = t->kind == TREE_LIST ? arena_fmt(f->arena, "%s[%zu]", prefix, index)
                           : prefix[0] != '\0'  ? arena_fmt(f->arena, "%s.%s", prefix, child->key)
                                                : child->key;
        bool scalars = true;
        for (const struct tree *c = child->child; c != NULL; c = c->next) {
            scalars &= c->kind == TREE_SCALAR;
        }
        if (child->kind == TREE_SCALAR || child->count == 0 ||
            (child->kind == TREE_LIST && scalars)) {
            add_entry(f, name, child, kind);
            continue;
        }
        /* A DeepSpeed configuration written inside another one keeps its own key names. */
        if (prefix[0] == '\0' && strcmp(name, "deepspeed") == 0 && child->kind == TREE_MAP) {
            flatten(f, child, "", JOB_DEEPSPEED);
        } else {
            flatten(f, child, name, kind);
        }
    }
}

static enum status parse_tree(struct arena *a, struct str text, const char *path,
                              const struct tree **ret_tree, struct err *err)
{
    struct err yaml = {0};
    if (tree_from_yaml(a, text, path, limits, ret_tree, &yaml) == ST_OK) {
        return ST_OK;
    }
    struct str start = str_trim(text);
    if (start.n != 0 && (start.p[0] == '{' || str_ends(str_of(path), ".json"))) {
        return tree_from_json(a, text, path, limits, ret_tree, err);
    }
    if (str_ends(str_of(path), ".toml") || str_ends(str_of(path), ".py")) {
        return err_set(err, ST_FORMAT, "%s: configurations are read as YAML or JSON only", path);
    }
    return err_set(err, yaml.status, "%s", yaml.text);
}

static enum status add_document(struct arena *a, struct job_config *config, struct str text,
                                const char *path, enum job_kind forced, enum job_kind *ret_kind,
                                struct err *err)
{
    const struct tree *root;
    TRY(parse_tree(a, text, path, &root, err));
    if (root->kind != TREE_MAP) {
        return err_set(err, ST_FORMAT, "%s: a configuration must be a map of keys", path);
    }
    struct flatten f = {.arena = a,
                        .config = config,
                        .file = arena_strdup(a, path),
                        .kind = forced != JOB_UNKNOWN ? forced : job_kind_of(root)};
    flatten(&f, root, "", f.kind);
    *ret_kind = f.kind;
    return ST_OK;
}

const struct job_entry *job_config_get(const struct job_config *c, enum job_kind kind,
                                       const char *key)
{
    for (size_t i = 0; i < c->entries.count; i++) {
        const struct job_entry *e = &c->entries.items[i];
        bool fits = kind == JOB_UNKNOWN ? e->kind != JOB_DEEPSPEED : e->kind == kind;
        if (fits && strcmp(e->key, key) == 0) {
            return e;
        }
    }
    return NULL;
}

static const char *folder_of(struct arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return ".";
    }
    return slash == path ? "/" : str_dup(a, str_slice(str_of(path), 0, (size_t)(slash - path)));
}

const char *job_config_find_path(struct arena *a, const struct fs *fs, const struct job_config *c,
                                 const char *cwd, const char *written)
{
    if (fs == NULL || written == NULL || written[0] == '\0' || strlen(written) > 4096) {
        return NULL;
    }
    if (written[0] == '/') {
        return fs_exists(fs, a, written) ? arena_strdup(a, written) : NULL;
    }
    if (cwd != NULL) {
        const char *path = arena_fmt(a, "%s/%s", cwd, written);
        if (fs_exists(fs, a, path)) {
            return path;
        }
    }
    const char *folder = folder_of(a, c->file);
    for (int i = 0; i < MAX_PARENTS; i++) {
        const char *path = arena_fmt(a, "%s/%s", folder, written);
        if (fs_exists(fs, a, path)) {
            return path;
        }
        if (strcmp(folder, "/") == 0) {
            return NULL;
        }
        /* "." and "a/.." have parents only by name. */
        folder = folder[0] == '/' ? folder_of(a, folder) : arena_fmt(a, "%s/..", folder);
    }
    return NULL;
}

/* Reads a DeepSpeed file that `key` names, when it is a path and not "auto" or a map. */
static void follow(struct arena *a, const struct fs *fs, struct job_config *config, const char *key)
{
    const struct job_entry *e = job_config_get(config, JOB_UNKNOWN, key);
    if (e == NULL || e->value.kind != VALUE_STRING || fs == NULL) {
        return;
    }
    const char *where = arena_fmt(a, "%s:%d: %s: %s", e->file, e->line, e->key, e->text);
    const char *path = job_config_find_path(a, fs, config, NULL, e->text);
    struct err err = {0};
    struct str text;
    enum job_kind kind;
    if (path == NULL) {
        *VEC_PUSH(a, &config->problems) = arena_fmt(a, "%s: there is no such file", where);
        return;
    }
    if (fs_read(fs, a, path, MAX_FILE, &text, &err) != ST_OK ||
        add_document(a, config, text, path, JOB_DEEPSPEED, &kind, &err) != ST_OK) {
        *VEC_PUSH(a, &config->problems) = arena_fmt(a, "%s: %s", where, err.text);
    }
}

enum status job_config_parse(struct arena *a, const struct fs *fs, struct str text,
                             const char *path, struct job_config *ret_config, struct err *err)
{
    struct job_config config = {.file = arena_strdup(a, path)};
    TRY(add_document(a, &config, text, path, JOB_UNKNOWN, &config.kind, err));
    follow(a, fs, &config, "deepspeed");
    follow(a, fs, &config, "deepspeed_config.deepspeed_config_file");
    *ret_config = config;
    return ST_OK;
}

enum status job_config_read(struct arena *a, const struct fs *fs, const char *path,
                            struct job_config *ret_config, struct err *err)
{
    struct str text;
    TRY(fs_read(fs, a, path, MAX_FILE, &text, err));
    return job_config_parse(a, fs, text, path, ret_config, err);
}
