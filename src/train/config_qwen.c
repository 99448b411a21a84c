// SPDX-License-Identifier: Apache-2.0
/* Keys of Qwen3-VL and Qwen3.5: kinds of layers, sizes of Gated DeltaNet, M-RoPE, the vision tower. */
#include <string.h>

#include "train/config.h"
#include "train/conv1d.h"
#include "train/vision.h"

static bool missing(const struct tree *t)
{
    return !t || (t->kind == TREE_SCALAR && t->value.kind == VALUE_NULL);
}

static enum status read_delta(const struct config_reader *r, struct linear_attention_config *c)
{
    TRY(config_size(r, "linear_num_key_heads", 16, &c->heads));
    TRY(config_size(r, "linear_num_value_heads", 32, &c->v_heads));
    TRY(config_size(r, "linear_key_head_dim", 128, &c->dim_k));
    TRY(config_size(r, "linear_value_head_dim", 128, &c->dim_v));
    TRY(config_size(r, "linear_conv_kernel_dim", 4, &c->taps));
    if (c->v_heads % c->heads) {
        return err_set(
            r->err, ST_FORMAT,
            "%s: %zu value heads do not divide among %zu key heads (linear_num_value_heads, "
            "linear_num_key_heads)",
            r->name, c->v_heads, c->heads);
    }
    if (c->taps > CONV1D_TAPS_MAX || c->dim_k > 4096 || c->dim_v > 4096 || c->v_heads > 65536) {
        return err_set(
            r->err, ST_LIMIT,
            "%s: Gated DeltaNet of %zu heads of %zu and %zu with %zu taps is larger than "
            "65536, 4096, 4096, %d",
            r->name, c->v_heads, c->dim_k, c->dim_v, c->taps, CONV1D_TAPS_MAX);
    }
    return ST_OK;
}

static enum status layer_kind_of(const struct config_reader *r, size_t i, const struct tree *t,
                                 enum layer_kind *ret)
{
    if (t->text && !strcmp(t->text, "linear_attention")) {
        *ret = LAYER_LINEAR_ATTENTION;
        return ST_OK;
    }
    if (t->text && !strcmp(t->text, "full_attention")) {
        *ret = LAYER_GATED_ATTENTION;
        return ST_OK;
    }
    return err_set(
        r->err, ST_UNSUPPORTED,
        "%s: layer %zu is of type '%.40s'; linear_attention and full_attention are computed "
        "for this family",
        r->name, i, t->text ? t->text : "?");
}

/* layer_types, or where it is missing full attention in every full_attention_interval-th layer. */
static enum status read_kinds(struct arena *a, const struct config_reader *r,
                              struct model_config *c)
{
    enum layer_kind *kinds = arena_array(a, c->layers, sizeof *kinds);
    const struct tree *list = tree_get(r->at, "layer_types");
    c->layer_kind = kinds;
    if (missing(list)) {
        size_t interval = 0;
        TRY(config_size(r, "full_attention_interval", 4, &interval));
        for (size_t i = 0; i < c->layers; i++) {
            kinds[i] = (i + 1) % interval ? LAYER_LINEAR_ATTENTION : LAYER_GATED_ATTENTION;
        }
        return ST_OK;
    }
    if (list->kind != TREE_LIST || list->count != c->layers) {
        return err_set(r->err, ST_FORMAT,
                       "%s: layer_types does not list one type for each of %zu layers", r->name,
                       c->layers);
    }
    size_t i = 0;
    for (const struct tree *t = list->child; t; t = t->next, i++) {
        TRY(layer_kind_of(r, i, t, &kinds[i]));
    }
    return ST_OK;
}

/* The three streams of positions. transformers interleaves them whatever mrope_interleaved says; a file
 * that says otherwise was made for another implementation. */
static enum status read_mrope(const struct config_reader *r, struct model_config *c)
{
    static const size_t qwen3_vl[3] = {24, 20, 20}, qwen3_5[3] = {11, 11, 10};
    const struct tree *rope = tree_get(r->at, "rope_parameters");
    rope = missing(rope) ? tree_get(r->at, "rope_scaling") : rope;
    struct config_reader inner = {r->name, missing(rope) ? NULL : rope, r->err};
    const struct tree *list = tree_get(inner.at, "mrope_section");
    bool interleaved = true;
    TRY(config_bool(&inner, "mrope_interleaved", true, &interleaved));
    if (!interleaved) {
        return err_set(r->err, ST_UNSUPPORTED,
                       "%s: mrope_interleaved is false; the interleaved form is computed here",
                       r->name);
    }
    memcpy(c->rope.section, c->family == FAMILY_QWEN3_VL ? qwen3_vl : qwen3_5,
           sizeof c->rope.section);
    if (missing(list)) {
        return ST_OK;
    }
    size_t i = 0;
    for (const struct tree *t = list->child; t && i < 3; t = t->next, i++) {
        if (t->kind != TREE_SCALAR || t->value.kind != VALUE_INT || t->value.integer < 0 ||
            t->value.integer > CONFIG_WIDTH_MAX) {
            break;
        }
        c->rope.section[i] = (size_t)t->value.integer;
    }
    return list->kind == TREE_LIST && list->count == 3 && i == 3
               ? ST_OK
               : err_set(r->err, ST_FORMAT,
                         "%s: mrope_section is not a list of three whole numbers", r->name);
}

static enum status check_gate(const struct config_reader *r)
{
    bool gate = true;
    TRY(config_bool(r, "attn_output_gate", true, &gate));
    return gate
               ? ST_OK
               : err_set(r->err, ST_UNSUPPORTED,
                         "%s: attn_output_gate is false; attention of this family is computed with "
                         "its gate",
                         r->name);
}

static enum status read_vision(struct arena *a, const struct config_reader *root,
                               struct model_config *c)
{
    TRY(vision_config_read(a, root, c->layers, c->family == FAMILY_QWEN3_VL, &c->vision,
                           root->err));
    if (c->vision->out != c->hidden) {
        return err_set(root->err, ST_FORMAT,
                       "%s: features of width %zu (out_hidden_size) cannot stand for embeddings of "
                       "width %zu (hidden_size of text_config)",
                       root->name, c->vision->out, c->hidden);
    }
    return ST_OK;
}

enum status config_read_qwen(struct arena *a, const struct config_reader *root,
                             const struct config_reader *text, struct model_config *c)
{
    TRY(read_mrope(text, c));
    if (c->family == FAMILY_QWEN3_5) {
        TRY(check_gate(text));
        TRY(read_delta(text, &c->linear_attention));
        TRY(read_kinds(a, text, c));
    } else {
        enum layer_kind *kinds = arena_array(a, c->layers, sizeof *kinds);
        c->layer_kind = kinds; /* all LAYER_FULL_ATTENTION */
    }
    return root->at == text->at ? ST_OK : read_vision(a, root, c);
}
