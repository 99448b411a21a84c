// SPDX-License-Identifier: Apache-2.0
/*
 * A folder with config.json and weights: every tensor that the configuration asks for is there, in the
 * shape it asks for, and no other. What loading would fill with random numbers, or drop, without more
 * than a warning, is named here.
 */
#include <inttypes.h>
#include <string.h>

#include "base/fs.h"

#include "model/architecture.h"
#include "model/folder.h"
#include "model/tok.h"

enum {
    FILES_MAX = 4096
};

struct check {
    const struct folder *f;
    struct architecture want;
    struct tensor_file **files;
    size_t file_count;
    size_t missing;
    size_t found;
};

static bool is_weights(const char *name)
{
    struct str s = str_of(name);
    return (str_starts(s, "model") && str_ends(s, ".safetensors")) ||
           (str_starts(s, "pytorch_model") && str_ends(s, ".bin"));
}

static bool matches(const struct folder *f)
{
    bool weights = false;
    for (size_t i = 0; i < f->count; i++) {
        weights = weights || is_weights(f->names[i]);
    }
    return weights && folder_has(f, "config.json");
}

static const char *shape_of(const struct check *c, const struct architecture_tensor *t)
{
    return tensor_shape_text(c->f->arena, t->shape, t->rank);
}

static const char *shown(const struct check *c, const char *name)
{
    return issue_text(c->f->arena, str_of(name));
}

/* With safetensors and .bin beside each other, loading takes the safetensors. */
static bool open_files(struct check *c)
{
    const struct folder *f = c->f;
    const char *suffix = ".bin";
    for (size_t i = 0; i < f->count; i++) {
        if (is_weights(f->names[i]) && str_ends(str_of(f->names[i]), ".safetensors")) {
            suffix = ".safetensors";
        }
    }
    c->files = arena_array(f->arena, FILES_MAX, sizeof(struct tensor_file *));
    for (size_t i = 0; i < f->count; i++) {
        if (!is_weights(f->names[i]) || !str_ends(str_of(f->names[i]), suffix)) {
            continue;
        }
        if (c->file_count == FILES_MAX ||
            tensor_file_open(f->arena, folder_join(f, f->names[i]), NULL, &c->files[c->file_count],
                             NULL) != ST_OK) {
            return false; /* the file's own reader says why; without it nothing is missing */
        }
        c->file_count++;
    }
    return true;
}

static const struct tensor *find(const struct check *c, const char *name,
                                 const struct tensor_file **ret_file)
{
    for (size_t i = 0; i < c->file_count; i++) {
        const struct tensor *t = tensor_find(c->files[i], name);
        if (t != NULL) {
            *ret_file = c->files[i];
            return t;
        }
    }
    return NULL;
}

/* A prefix that most tensors carry in front of the names the class has; NULL when none does. */
static const char *foreign_prefix(const struct check *c)
{
    static const char *const prefixes[] = {"module.", "_orig_mod.", "base_model.model.", "model.",
                                           "module.model."};
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
        const struct tensor_file *file;
        const char *name = arena_fmt(c->f->arena, "%s%s", prefixes[i], c->want.embedding);
        if (find(c, name, &file) != NULL && find(c, c->want.embedding, &file) == NULL) {
            return prefixes[i];
        }
    }
    return NULL;
}

/* What a wrapper puts into the middle of names, and the first name that has it; NULL when none has. */
static const char *wrapper_inside(const struct check *c, const char **ret_name)
{
    static const char *const parts[] = {"_fsdp_wrapped_module.", "_checkpoint_wrapped_module.",
                                        "_orig_mod."};
    for (size_t i = 0; i < c->file_count; i++) {
        for (size_t k = 0; k < c->files[i]->count; k++) {
            for (size_t p = 0; p < ARRAY_LEN(parts); p++) {
                *ret_name = c->files[i]->tensors[k].name;
                if (str_has(str_of(*ret_name), parts[p])) {
                    return parts[p];
                }
            }
        }
    }
    return NULL;
}

static bool same_shape(const struct tensor *t, const struct architecture_tensor *want)
{
    if (t->rank != want->rank) {
        return false;
    }
    for (uint32_t i = 0; i < t->rank; i++) {
        if (t->shape[i] != want->shape[i]) {
            return false;
        }
    }
    return true;
}

static void check_expected(struct check *c)
{
    for (size_t i = 0; i < c->want.tensors.count; i++) {
        const struct architecture_tensor *want = &c->want.tensors.items[i];
        const struct tensor_file *file;
        const struct tensor *t = find(c, want->name, &file);
        if (t == NULL) {
            c->missing += !want->optional;
            if (!want->optional) {
                folder_issue(c->f, SEVERITY_ERROR, "config-tensor-missing",
                             "A tensor that config.json asks for is missing", "config.json",
                             "'%s' %s is in no file: loading fills it with random numbers.",
                             want->name, shape_of(c, want));
            }
            continue;
        }
        c->found++;
        if (!same_shape(t, want)) {
            folder_issue(c->f, SEVERITY_ERROR, "config-shape",
                         "A tensor is not of the shape that config.json asks for", "config.json",
                         "'%s' should be %s, it is %s.", want->name, shape_of(c, want),
                         tensor_shape_text(c->f->arena, t->shape, t->rank));
        }
    }
}

static void check_unexpected(struct check *c)
{
    for (size_t i = 0; i < c->file_count; i++) {
        for (size_t k = 0; k < c->files[i]->count; k++) {
            const struct tensor *t = &c->files[i]->tensors[k];
            if (map_get(c->want.by_name, str_of(t->name)) != NULL ||
                architecture_ignores(&c->want, t->name)) {
                continue;
            }
            folder_issue(c->f, SEVERITY_WARNING, "config-tensor-unexpected",
                         "A tensor that config.json knows nothing of", "config.json",
                         "'%s' %s belongs to no part of the %s that config.json describes: loading "
                         "drops it.",
                         shown(c, t->name), tensor_shape_text(c->f->arena, t->shape, t->rank),
                         c->want.family);
        }
    }
}

/* A tied head that is stored all the same must hold the embedding's bytes. */
static void check_tied(const struct check *c)
{
    const struct tensor_file *in_head = NULL;
    const struct tensor_file *in_embedding = NULL;
    const struct tensor *head = find(c, "lm_head.weight", &in_head);
    const struct tensor *embedding = find(c, c->want.embedding, &in_embedding);
    if (!c->want.tied || head == NULL || embedding == NULL || !head->present ||
        !embedding->present || head->type != embedding->type || head->bytes != embedding->bytes ||
        head->stride != NULL || embedding->stride != NULL) {
        return;
    }
    if (file_map_populate(&in_head->map, head->offset, head->bytes, NULL) == ST_OK &&
        file_map_populate(&in_embedding->map, embedding->offset, head->bytes, NULL) == ST_OK &&
        memcmp(in_head->map.p + head->offset, in_embedding->map.p + embedding->offset,
               head->bytes) != 0) {
        folder_issue(
            c->f, SEVERITY_ERROR, "config-tied-differs", "Tied weights are stored twice and differ",
            "config.json",
            "tie_word_embeddings is true, but 'lm_head.weight' and '%s' hold other values: "
            "loading takes one for both.",
            c->want.embedding);
    }
}

/* Heads that predict further tokens: transformers leaves them out when it saves. */
static void note_dropped_heads(const struct check *c, const struct tree *config)
{
    const struct tree *text = tree_get(config, "text_config");
    const struct tree *n = tree_get(text != NULL ? text : config, "mtp_num_hidden_layers");
    bool any = false;
    for (size_t i = 0; i < c->file_count; i++) {
        for (size_t k = 0; k < c->files[i]->count; k++) {
            any = any || str_starts(str_of(c->files[i]->tensors[k].name), "mtp.");
        }
    }
    if (n != NULL && n->value.kind == VALUE_INT && n->value.integer > 0 && !any) {
        folder_issue(c->f, SEVERITY_NOTE, "config-mtp-missing",
                     "The heads for further tokens are not in the files", "config.json",
                     "mtp_num_hidden_layers is %" PRId64
                     "; saving with transformers drops the 'mtp.' tensors.",
                     n->value.integer);
    }
}

/* A tokenizer beside the weights must not have ids beyond them. */
static void check_vocabulary(const struct check *c)
{
    const struct tokenizer *t;
    if ((!folder_has(c->f, "tokenizer.json") && !folder_has(c->f, "tokenizer.model")) ||
        tok_open(c->f->arena, c->f->path, NULL, &t, NULL) != ST_OK) {
        return; /* 'tokenizer check' says why it cannot be read */
    }
    if (tok_id_end(t) > c->want.vocab_size) {
        folder_issue(c->f, SEVERITY_ERROR, "config-vocabulary",
                     "The tokenizer has ids that the embedding has not", "config.json",
                     "vocab_size is %" PRIu64
                     ", the tokenizer's ids go up to %u: those read beyond the table.",
                     c->want.vocab_size, tok_id_end(t) - 1);
    }
    tok_close(t);
}

static void check_weights(struct check *c, const struct tree *config)
{
    const char *prefix = foreign_prefix(c);
    if (prefix != NULL) {
        folder_issue(c->f, SEVERITY_ERROR, "config-names-prefixed",
                     "The names of the tensors carry a prefix", "config.json",
                     "Tensors begin with '%s' ('%s%s'): a wrapper's state was saved. Loading finds "
                     "none of them and fills the model with random numbers.",
                     prefix, prefix, c->want.embedding);
        return;
    }
    check_expected(c);
    if (c->want.whole) {
        check_unexpected(c);
    }
    check_tied(c);
    check_vocabulary(c);
    note_dropped_heads(c, config);
}

/* "docker -v" makes a folder of what is not there. Links that lead nowhere are told elsewhere. */
static void check_place(const struct folder *f)
{
    static const struct fs live = {.prefix = ""};
    if (fs_is_dir(&live, f->arena, folder_join(f, "model.safetensors"))) {
        folder_issue(f, SEVERITY_ERROR, "weights-are-folder", "A folder in the place of weights",
                     "model.safetensors",
                     "model.safetensors is a folder: no loader finds weights. A container that "
                     "mounts a file which is not there makes one.");
    }
}

static void check_architecture(struct check *c, const struct tree *config)
{
    const char *name;
    const char *part = wrapper_inside(c, &name);
    if (part != NULL) {
        folder_issue(c->f, SEVERITY_ERROR, "config-names-prefixed",
                     "The names of the tensors carry a prefix", "config.json",
                     "'%s' is in the names of tensors ('%s'): a wrapper's state was saved. Loading "
                     "finds none of these and fills the model with random numbers.",
                     part, shown(c, name));
        return;
    }
    struct err err = {0};
    enum status status = architecture_read(c->f->arena, config, &c->want, &err);
    if (status == ST_OK) {
        check_weights(c, config);
    } else if (status == ST_UNSUPPORTED) {
        folder_issue(c->f, SEVERITY_NOTE, "config-not-compared",
                     "Names and shapes were not held against config.json", "config.json",
                     "Not compared: %s.", issue_text(c->f->arena, str_of(err.text)));
    } else {
        folder_issue(c->f, SEVERITY_ERROR, "config-broken", "config.json is broken", "config.json",
                     "It describes no model: %s.", err.text);
    }
}

static void check(const struct folder *f)
{
    struct check c = {.f = f};
    const struct tree *config;
    uint64_t size;
    if (folder_has(f, "model.safetensors") && !folder_size(f, "model.safetensors", &size)) {
        check_place(f);
        return;
    }
    if (!folder_json(f, "config.json", &config)) {
        folder_issue(f, SEVERITY_ERROR, "config-broken", "config.json is broken", "config.json",
                     "It cannot be read as JSON: no library loads this model.");
        return;
    }
    if (open_files(&c)) {
        check_architecture(&c, config);
    }
    for (size_t i = 0; i < c.file_count; i++) {
        tensor_file_close(c.files[i]);
    }
}

const struct folder_kind folder_kind_model = {
    .name = "Hugging Face model", .matches = matches, .check = check};
