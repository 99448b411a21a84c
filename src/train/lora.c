// SPDX-License-Identifier: Apache-2.0
/*
 * Adapters as PEFT stores them: adapter_config.json and adapter_model.safetensors. An option that
 * changes what is computed and is not computed here is refused by name; keys that only say how the
 * adapter came to be (init_lora_weights, revision, ...) are passed over.
 *
 * Source: LoraConfig of huggingface/peft, src/peft/tuners/lora/config.py.
 */
#include <string.h>

#include "base/fs.h"
#include "base/tree.h"

#include "train/model_inside.h"

enum {
    RANK_MAX = 65536
};

static const struct fs live = {.prefix = ""};

/* Null, false, 0, an empty list or object: the option is off. */
static bool is_off(const struct tree *t)
{
    if (t == NULL) {
        return true;
    }
    if (t->kind != TREE_SCALAR) {
        return t->count == 0;
    }
    const struct value *v = &t->value;
    return v->kind == VALUE_NULL || (v->kind == VALUE_BOOL && !v->boolean) ||
           (v->kind == VALUE_INT && v->integer == 0) || (v->kind == VALUE_REAL && v->real == 0);
}

static enum status refuse(const struct config_reader *r)
{
    static const char *const off[] = {
        "use_dora",        "lora_bias",       "lora_dropout",        "fan_in_fan_out",
        "modules_to_save", "exclude_modules", "layers_to_transform", "layer_replication",
        "rank_pattern",    "alpha_pattern",   "target_parameters",   "trainable_token_indices"};
    for (size_t i = 0; i < ARRAY_LEN(off); i++) {
        if (!is_off(tree_get(r->at, off[i]))) {
            return err_set(r->err, ST_UNSUPPORTED,
                           "%s: '%s' is set, which changes the model and is not computed here",
                           r->name, off[i]);
        }
    }
    const char *bias = tree_text(r->at, "bias", "none");
    const char *type = tree_text(r->at, "peft_type", "LORA");
    if (strcmp(bias, "none") != 0 || strcmp(type, "LORA") != 0) {
        return err_set(
            r->err, ST_UNSUPPORTED,
            "%s: peft_type %.20s with bias '%.20s'; LORA with bias 'none' is computed here",
            r->name, type, bias);
    }
    return ST_OK;
}

static enum status read_targets(struct arena *a, const struct config_reader *r,
                                const char **ret_targets)
{
    const struct tree *t = tree_get(r->at, "target_modules");
    if (t != NULL && t->kind == TREE_SCALAR && t->text != NULL &&
        strcmp(t->text, "all-linear") == 0) {
        *ret_targets = t->text;
        return ST_OK;
    }
    if (t == NULL || t->kind != TREE_LIST || t->count == 0) {
        return err_set(
            r->err, ST_UNSUPPORTED,
            "%s: target_modules is neither a list of names nor 'all-linear'; an expression "
            "is not followed here",
            r->name);
    }
    struct strbuf names;
    strbuf_init(&names, a, 1 << 20);
    for (const struct tree *x = t->child; x != NULL; x = x->next) {
        if (x->kind != TREE_SCALAR || x->text == NULL || strchr(x->text, ',') != NULL) {
            return err_set(r->err, ST_FORMAT, "%s: target_modules holds something else than names",
                           r->name);
        }
        strbuf_fmt(&names, "%s%s", names.n != 0 ? "," : "", x->text);
    }
    *ret_targets = names.p;
    return ST_OK;
}

enum status lora_read_config(struct arena *a, const char *folder, struct lora_options *ret_lora,
                             struct err *err)
{
    struct lora_options lora = {.adapter = folder};
    struct str text;
    const struct tree *root = NULL;
    const char *path = arena_fmt(a, "%s/adapter_config.json", folder);
    TRY(fs_read(&live, a, path, CONFIG_BYTES_MAX, &text, err));
    TRY(tree_from_json(a, text, path, TREE_LIMITS_DEFAULT, &root, err));
    const struct config_reader r = {.name = path, .at = root, .err = err};
    TRY(refuse(&r));
    TRY(config_size(&r, "r", 8, &lora.rank));
    TRY(config_real(&r, "lora_alpha", 8, &lora.alpha));
    TRY(config_bool(&r, "use_rslora", false, &lora.rank_stabilised));
    TRY(read_targets(a, &r, &lora.targets));
    if (lora.rank > RANK_MAX) {
        return err_set(err, ST_LIMIT, "%s: rank %zu is beyond %d", path, lora.rank, RANK_MAX);
    }
    *ret_lora = lora;
    return ST_OK;
}

static const char *own_name(void *ctx, const char *name)
{
    (void)ctx;
    return name;
}

enum status lora_load(struct train_model *m, const char *folder, struct err *err)
{
    struct arena *a = arena_new(0);
    struct map *seen = map_new(a);
    const char *path = arena_fmt(a, "%s/adapter_model.safetensors", folder);
    enum status s = params_read_file(&m->params, path, own_name, NULL, seen, err);
    for (size_t i = 0; s == ST_OK && i < m->params.count; i++) {
        const struct param *p = &m->params.items[i];
        if (p->trainable && map_get(seen, str_of(p->name)) == NULL) {
            s = err_set(err, ST_FORMAT,
                        "%s: the adapter lacks '%s', which its configuration asks for", path,
                        p->name);
        }
    }
    arena_free(a);
    return s;
}
