// SPDX-License-Identifier: Apache-2.0
#include "train/vision.h"

#include <string.h>

static enum status add_level(const struct config_reader *r, int64_t block, struct vision_config *c)
{
    if (block < 0 || (size_t)block >= c->depth ||
        (c->levels && (size_t)block <= c->level_block[c->levels - 1])) {
        return err_set(r->err, ST_FORMAT,
                       "%s: deepstack_visual_indexes must be ascending numbers of the %zu blocks",
                       r->name, c->depth);
    }
    c->level_block[c->levels++] = (size_t)block;
    return ST_OK;
}

/* Blocks 8, 16 and 24 when the key is missing. */
static enum status read_levels(const struct config_reader *r, size_t layers,
                               struct vision_config *c)
{
    const struct tree *list = tree_get(r->at, "deepstack_visual_indexes");
    size_t levels = list ? list->count : 3;
    if ((list && list->kind != TREE_LIST) || levels > VISION_LEVELS_MAX || levels > layers) {
        return err_set(r->err, ST_FORMAT,
                       "%s: deepstack_visual_indexes is not a list of at most %zu numbers, one for "
                       "each decoder layer (and at most %d)",
                       r->name, layers, VISION_LEVELS_MAX);
    }
    for (int64_t block = 8; !list && block <= 24; block += 8) {
        TRY(add_level(r, block, c));
    }
    for (const struct tree *t = list ? list->child : NULL; t; t = t->next) {
        bool whole = t->kind == TREE_SCALAR && t->value.kind == VALUE_INT;
        TRY(add_level(r, whole ? t->value.integer : -1, c));
    }
    return ST_OK;
}

static enum status read_act(const struct config_reader *r, struct vision_config *c)
{
    const char *act = tree_text(r->at, "hidden_act", "gelu_pytorch_tanh");
    c->exact_gelu = !strcmp(act, "gelu");
    if (!c->exact_gelu && strcmp(act, "gelu_pytorch_tanh") != 0) {
        return err_set(r->err, ST_UNSUPPORTED,
                       "%s: hidden_act '%.40s' of the vision tower is not computed here; "
                       "gelu_pytorch_tanh and gelu are",
                       r->name, act);
    }
    return ST_OK;
}

static enum status read_theta(const struct config_reader *r, struct vision_config *c)
{
    const struct tree *rope = tree_get(r->at, "rope_parameters");
    struct config_reader inner = {r->name, rope && rope->kind == TREE_MAP ? rope : NULL, r->err};
    TRY(config_real(&inner, "rope_theta", 10000, &c->theta));
    if (!(c->theta > 0)) {
        return err_set(r->err, ST_FORMAT, "%s: rope_theta of the vision tower must be above 0",
                       r->name);
    }
    return ST_OK;
}

static enum status read_sizes(const struct config_reader *r, struct vision_config *c)
{
    size_t table = 0;
    TRY(config_size(r, "depth", 27, &c->depth));
    TRY(config_size(r, "hidden_size", 1152, &c->hidden));
    TRY(config_size(r, "intermediate_size", 4304, &c->intermediate));
    TRY(config_size(r, "num_heads", 16, &c->heads));
    TRY(config_size(r, "in_channels", 3, &c->channels));
    TRY(config_size(r, "temporal_patch_size", 2, &c->temporal));
    TRY(config_size(r, "patch_size", 16, &c->patch));
    TRY(config_size(r, "spatial_merge_size", 2, &c->merge));
    TRY(config_size(r, "out_hidden_size", 3584, &c->out));
    TRY(config_size(r, "num_position_embeddings", 2304, &table));
    while (c->side * c->side < table) {
        c->side++;
    }
    if (c->side * c->side != table) {
        return err_set(r->err, ST_FORMAT, "%s: num_position_embeddings %zu is not a square",
                       r->name, table);
    }
    if (c->depth > CONFIG_LAYERS_MAX || c->channels > 1024 || c->temporal > 64 || c->patch > 1024 ||
        c->merge > 64) {
        return err_set(
            r->err, ST_LIMIT,
            "%s: depth, in_channels, temporal_patch_size, patch_size or spatial_merge_size "
            "of the vision tower is larger than %d, 1024, 64, 1024, 64",
            r->name, CONFIG_LAYERS_MAX);
    }
    if (c->hidden % c->heads || c->hidden / c->heads % 4) {
        return err_set(
            r->err, ST_FORMAT,
            "%s: the vision tower's hidden_size %zu over %zu heads gives no width that is "
            "a multiple of 4",
            r->name, c->hidden, c->heads);
    }
    return ST_OK;
}

static enum status read_token(const struct config_reader *root, const char *key, int32_t *ret)
{
    const struct tree *t = tree_get(root->at, key);
    if (!t || t->kind != TREE_SCALAR || t->value.kind != VALUE_INT || t->value.integer < 0 ||
        t->value.integer > INT32_MAX) {
        return err_set(root->err, ST_FORMAT, "%s: %s is not the id of a token", root->name, key);
    }
    *ret = (int32_t)t->value.integer;
    return ST_OK;
}

enum status vision_config_read(struct arena *a, const struct config_reader *root, size_t layers,
                               bool deepstack, const struct vision_config **ret_config,
                               struct err *err)
{
    struct vision_config *c = arena_alloc(a, sizeof *c);
    struct config_reader r = {root->name, tree_get(root->at, "vision_config"), err};
    if (!r.at || r.at->kind != TREE_MAP) {
        return err_set(err, ST_FORMAT, "%s: no object vision_config, which this family has",
                       root->name);
    }
    TRY(read_sizes(&r, c));
    TRY(read_act(&r, c));
    TRY(read_theta(&r, c));
    if (deepstack) {
        TRY(read_levels(&r, layers, c));
    }
    TRY(read_token(root, "image_token_id", &c->image_token));
    TRY(read_token(root, "video_token_id", &c->video_token));
    *ret_config = c;
    return ST_OK;
}

/* ---- parameters ---- */

enum {
    PARAMS_LINEAR = 4, /* weight, bias, two of an adapter */
    PARAMS_NORM = 2,
    PARAMS_BLOCK = 2 * PARAMS_NORM + 4 * PARAMS_LINEAR,
    PARAMS_MERGER = PARAMS_NORM + 2 * PARAMS_LINEAR,
    PARAMS_EMBED = 3
};

size_t vision_param_count(const struct vision_config *c)
{
    return PARAMS_EMBED + c->depth * PARAMS_BLOCK + (1 + c->levels) * PARAMS_MERGER;
}

static void declare_norm(struct maker *mk, struct layer_norm *l, const char *module, size_t width)
{
    struct arena *a = mk->arena;
    *l = (struct layer_norm){.module = arena_strdup(a, module), .width = width};
    l->weight = maker_param(mk, arena_fmt(a, "%s.weight", module), INIT_ONE, 1, &width);
    l->bias = maker_param(mk, arena_fmt(a, "%s.bias", module), INIT_ZERO, 1, &width);
}

static void declare_block(struct maker *mk, const struct vision_config *c, const char *module,
                          struct vision_block *b)
{
    struct arena *a = mk->arena;
    size_t h = c->hidden;
    b->module = module;
    declare_norm(mk, &b->norm1, arena_fmt(a, "%s.norm1", module), h);
    declare_norm(mk, &b->norm2, arena_fmt(a, "%s.norm2", module), h);
    maker_linear(mk, &b->qkv, arena_fmt(a, "%s.attn.qkv", module), 3 * h, h, true);
    maker_linear(mk, &b->proj, arena_fmt(a, "%s.attn.proj", module), h, h, true);
    maker_linear(mk, &b->fc1, arena_fmt(a, "%s.mlp.linear_fc1", module), c->intermediate, h, true);
    maker_linear(mk, &b->fc2, arena_fmt(a, "%s.mlp.linear_fc2", module), h, c->intermediate, true);
}

static void declare_merger(struct maker *mk, const struct vision_config *c, const char *module,
                           bool after_view, struct vision_merger *m)
{
    struct arena *a = mk->arena;
    size_t wide = c->hidden * c->merge * c->merge;
    m->module = module;
    declare_norm(mk, &m->norm, arena_fmt(a, "%s.norm", module), after_view ? wide : c->hidden);
    maker_linear(mk, &m->fc1, arena_fmt(a, "%s.linear_fc1", module), wide, wide, true);
    maker_linear(mk, &m->fc2, arena_fmt(a, "%s.linear_fc2", module), c->out, wide, true);
}

/* A Conv3d whose stride is its kernel: its weight, row by row, is that of a linear layer. */
static void declare_patch(struct maker *mk, const struct vision_config *c, const char *module,
                          struct linear *l)
{
    struct arena *a = mk->arena;
    *l = (struct linear){
        .module = module, .in = c->channels * c->temporal * c->patch * c->patch, .out = c->hidden};
    l->weight = maker_param(
        mk, arena_fmt(a, "%s.weight", module), INIT_NORMAL, 5,
        (const size_t[]){c->hidden, c->channels, c->temporal, c->patch, c->patch});
    l->bias = maker_param(mk, arena_fmt(a, "%s.bias", module), INIT_ZERO, 1, &c->hidden);
}

struct vision *vision_declare(struct maker *mk, const struct vision_config *c, const char *module)
{
    struct arena *a = mk->arena;
    struct vision *v = arena_alloc(a, sizeof *v);
    size_t first = mk->list->count;
    v->module = arena_strdup(a, module);
    v->config = c;
    declare_patch(mk, c, arena_fmt(a, "%s.patch_embed.proj", module), &v->patch);
    v->table = maker_param(mk, arena_fmt(a, "%s.pos_embed.weight", module), INIT_NORMAL, 2,
                           (const size_t[]){c->side * c->side, c->hidden});
    v->blocks = arena_array(a, c->depth, sizeof *v->blocks);
    for (size_t i = 0; i < c->depth; i++) {
        declare_block(mk, c, arena_fmt(a, "%s.blocks.%zu", module, i), &v->blocks[i]);
    }
    declare_merger(mk, c, arena_fmt(a, "%s.merger", module), false, &v->merger);
    v->levels = arena_array(a, c->levels, sizeof *v->levels);
    for (size_t i = 0; i < c->levels; i++) {
        declare_merger(mk, c, arena_fmt(a, "%s.deepstack_merger_list.%zu", module, i), true,
                       &v->levels[i]);
    }
    for (size_t i = first; i < mk->list->count; i++) {
        v->trained = v->trained || mk->list->items[i].trainable;
    }
    return v;
}
