// SPDX-License-Identifier: Apache-2.0
/*
 * Weights of a Hugging Face folder: model.safetensors, or the shards of model.safetensors.index.json.
 * Every parameter must be there with its shape and finite values, and every tensor must be a
 * parameter's: a model that was saved for another family would otherwise compute something else.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/fs.h"
#include "base/tree.h"

#include "model/tensor_file.h"
#include "train/model_gguf.h"
#include "train/model_inside.h"

enum {
    WINDOW = 65536, /* values converted at a time */
    FILES_MAX = 100000
};

static const struct fs live = {.prefix = ""};

/* Buffers that old checkpoints carry and no parameter needs; the multi-token prediction of Qwen3.5,
 * which transformers leaves out too, as it does the vision tower for the text model alone. */
static bool needless(const struct train_model *m, const char *name)
{
    bool qwen3_5 = m->config.family == FAMILY_QWEN3_5;
    return str_ends(str_of(name), ".rotary_emb.inv_freq") ||
           (qwen3_5 && strncmp(name, "mtp.", strlen("mtp.")) == 0) ||
           (qwen3_5 && m->vision == NULL &&
            strncmp(name, "model.visual.", strlen("model.visual.")) == 0) ||
           (m->config.tied && strcmp(name, "lm_head.weight") == 0);
}

static bool same_shape(const struct param *p, const struct tensor *t)
{
    bool same = t->rank == p->rank;
    for (size_t i = 0; same && i < p->rank; i++) {
        same = t->shape[i] == p->dim[i];
    }
    return same;
}

static const char *shape_of(struct arena *a, const struct param *p)
{
    uint64_t shape[PARAM_RANK_MAX];
    for (size_t i = 0; i < p->rank; i++) {
        shape[i] = p->dim[i];
    }
    return tensor_shape_text(a, shape, (uint32_t)p->rank);
}

static enum status read_tensor(const struct param_list *list, struct arena *scratch,
                               const struct tensor_file *f, const struct tensor *t, struct param *p,
                               struct err *err)
{
    const char *path = f->map.path;
    if (!same_shape(p, t)) {
        return err_set(err, ST_FORMAT, "%s: '%s' is %s, and the configuration asks for %s", path,
                       p->name, tensor_shape_text(scratch, t->shape, t->rank),
                       shape_of(scratch, p));
    }
    if (!t->present) {
        return err_set(err, ST_FORMAT,
                       "%s: the bytes of '%s' are not all in the file: it was cut off", path,
                       p->name);
    }
    bool blocks = t->type->values == VALUES_BLOCKS; /* quantised floats */
    if (!tensor_readable(t) || (!blocks && !dtype_info(t->type->dtype)->is_float)) {
        return err_set(err, ST_UNSUPPORTED, "%s: '%s' is of type %s; float types are read here",
                       path, p->name, t->type->name);
    }
    double *window = arena_array(scratch, WINDOW, sizeof *window);
    for (size_t first = 0; first < p->count; first += WINDOW) {
        size_t n = p->count - first < WINDOW ? p->count - first : WINDOW;
        TRY(tensor_values(f, t, first, n, window, err));
        for (size_t i = 0; i < n; i++) {
            if (!isfinite(window[i])) {
                return err_set(err, ST_FORMAT, "%s: value %zu of '%s' is %g, no finite number",
                               path, first + i, p->name, window[i]);
            }
            param_set(list, p, first + i, window[i]);
        }
    }
    p->file_dtype = blocks ? DTYPE_F32 : t->type->dtype;
    return ST_OK;
}

enum status params_read_file(struct param_list *list, const char *path, param_name_fn *name_of,
                             void *ctx, struct map *seen, struct err *err)
{
    struct arena *scratch = arena_new(0);
    struct issues issues;
    struct tensor_file *f = NULL;
    issues_init(&issues, scratch, path);
    enum status s = tensor_file_open(scratch, path, &issues, &f, err);
    for (size_t i = 0; s == ST_OK && i < f->count; i++) {
        const struct tensor *t = &f->tensors[i];
        const char *name = name_of(ctx, t->name);
        if (name == NULL) {
            continue;
        }
        struct param *p = param_find(list, name);
        if (p == NULL) {
            s = err_set(
                err, ST_FORMAT,
                "%s: tensor '%s' is no parameter of this model: does the configuration belong to it?",
                path, issue_text(scratch, str_of(t->name)));
        } else {
            struct arena_mark mark = arena_mark(scratch);
            s = read_tensor(list, scratch, f, t, p, err);
            arena_rewind(scratch, mark);
            map_put(seen, str_of(name), p);
        }
    }
    tensor_file_close(f);
    arena_free(scratch);
    return s;
}

static const char *own_name(void *ctx, const char *name)
{
    const struct train_model *m = ctx;
    return needless(m, name) ? NULL : name;
}

/* Each file that the index names, once. */
static enum status read_shards(struct train_model *m, struct arena *a, const char *folder,
                               struct str index, struct map *seen, struct err *err)
{
    const struct tree *root = NULL;
    const char *index_name = arena_fmt(a, "%s/model.safetensors.index.json", folder);
    TRY(tree_from_json(a, index, index_name, TREE_LIMITS_DEFAULT, &root, err));
    const struct tree *weights = tree_get(root, "weight_map");
    if (weights == NULL || weights->kind != TREE_MAP) {
        return err_set(err, ST_FORMAT, "%s: no weight_map", index_name);
    }
    struct map *files = map_new(a);
    for (const struct tree *t = weights->child; t != NULL; t = t->next) {
        if (t->text == NULL || strchr(t->text, '/') != NULL || map_count(files) > FILES_MAX) {
            return err_set(err, ST_FORMAT, "%s: an entry names no file of the folder", index_name);
        }
        if (map_get(files, str_of(t->text)) == NULL) {
            map_put(files, str_of(t->text), m);
        }
    }
    for (size_t i = 0; i < map_count(files); i++) {
        const char *path = arena_fmt(a, "%s/%s", folder, map_key(files, i));
        if (!fs_exists(&live, a, path)) {
            return err_set(err, ST_ABSENT,
                           "the shard '%s' is not there, and %s names it: download the rest of the "
                           "model (%zu files of weights)",
                           path, index_name, map_count(files));
        }
        TRY(params_read_file(&m->params, path, own_name, m, seen, err));
    }
    return ST_OK;
}

static enum status read_folder(struct train_model *m, struct arena *a, const char *folder,
                               struct map *seen, struct err *err)
{
    const char *single = arena_fmt(a, "%s/model.safetensors", folder);
    const char *index = arena_fmt(a, "%s/model.safetensors.index.json", folder);
    struct str text;
    if (gguf_is_file(folder)) {
        return model_gguf_load(&m->params, &m->config, folder, seen, err);
    }
    enum status s = fs_read(&live, a, index, 64 << 20, &text, err);
    if (s == ST_OK) {
        return read_shards(m, a, folder, text, seen, err);
    }
    if (s != ST_ABSENT) {
        return s;
    }
    if (!fs_exists(&live, a, single)) {
        return err_set(
            err, ST_ABSENT,
            "%s: neither model.safetensors nor model.safetensors.index.json is there; a model in "
            "another format must be converted first",
            folder);
    }
    return params_read_file(&m->params, single, own_name, m, seen, err);
}

static bool is_adapter(const struct param *p)
{
    return strstr(p->name, ".lora_") != NULL;
}

enum status model_load(struct train_model *m, const char *folder, struct err *err)
{
    struct arena *a = arena_new(0);
    struct map *seen = map_new(a);
    enum status s = read_folder(m, a, folder, seen, err);
    for (size_t i = 0; s == ST_OK && i < m->params.count; i++) {
        const struct param *p = &m->params.items[i];
        if (!is_adapter(p) && map_get(seen, str_of(p->name)) == NULL) {
            s = err_set(err, ST_FORMAT,
                        "%s: the weights lack '%s', which the configuration asks for", folder,
                        p->name);
        }
    }
    arena_free(a);
    return s;
}
