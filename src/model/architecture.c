// SPDX-License-Identifier: Apache-2.0
/* Sizes are read from config.json into a table; the tensors are rows whose dimensions name sizes. */
#include "model/architecture.h"

#include <string.h>

#include "base/attr.h"
#include "base/str.h"

#include "model/architecture_parts.h"

static const struct row text_head[] = {
    {"embed_tokens.weight", ALWAYS, {VOCAB, HIDDEN}},
};

/* In the order of the modules; of a linear layer weight comes before bias. */
static const struct row text_layer[] = {
    {"linear_attn.dt_bias", DELTA, {DELTA_HEADS}},
    {"linear_attn.A_log", DELTA, {DELTA_HEADS}},
    {"linear_attn.conv1d.weight", DELTA, {DELTA_QKV, ONE, KERNEL}},
    {"linear_attn.norm.weight", DELTA, {DELTA_HEAD_DIM}},
    {"linear_attn.out_proj.weight", DELTA, {HIDDEN, DELTA_V}},
    {"linear_attn.in_proj_qkv.weight", DELTA, {DELTA_QKV, HIDDEN}},
    {"linear_attn.in_proj_z.weight", DELTA, {DELTA_V, HIDDEN}},
    {"linear_attn.in_proj_b.weight", DELTA, {DELTA_HEADS, HIDDEN}},
    {"linear_attn.in_proj_a.weight", DELTA, {DELTA_HEADS, HIDDEN}},
    {"self_attn.q_proj.weight", FULL, {QUERY, HIDDEN}},
    {"self_attn.q_proj.bias", FULL | QKV_BIAS, {QUERY}},
    {"self_attn.q_proj.weight", GATED, {QUERY_2, HIDDEN}},
    {"self_attn.q_proj.bias", GATED | QKV_BIAS, {QUERY_2}},
    {"self_attn.k_proj.weight", ATTENDS, {KV, HIDDEN}},
    {"self_attn.k_proj.bias", ATTENDS | QKV_BIAS, {KV}},
    {"self_attn.v_proj.weight", ATTENDS, {KV, HIDDEN}},
    {"self_attn.v_proj.bias", ATTENDS | QKV_BIAS, {KV}},
    {"self_attn.o_proj.weight", ATTENDS, {HIDDEN, QUERY}},
    {"self_attn.o_proj.bias", ATTENDS | O_BIAS, {HIDDEN}},
    {"self_attn.q_norm.weight", ATTENDS | QK_NORM, {HEAD_DIM}},
    {"self_attn.k_norm.weight", ATTENDS | QK_NORM, {HEAD_DIM}},
    {"mlp.gate_proj.weight", DENSE, {INNER, HIDDEN}},
    {"mlp.gate_proj.bias", DENSE | MLP_BIAS, {INNER}},
    {"mlp.up_proj.weight", DENSE, {INNER, HIDDEN}},
    {"mlp.up_proj.bias", DENSE | MLP_BIAS, {INNER}},
    {"mlp.down_proj.weight", DENSE, {HIDDEN, INNER}},
    {"mlp.down_proj.bias", DENSE | MLP_BIAS, {HIDDEN}},
    {"input_layernorm.weight", ALWAYS, {HIDDEN}},
    {"post_attention_layernorm.weight", ALWAYS, {HIDDEN}},
};

static const struct row text_tail[] = {
    {"norm.weight", ALWAYS, {HIDDEN}},
};

static const struct row lm_head[] = {
    {"lm_head.weight", HEAD, {VOCAB, HIDDEN}},
};

static const struct row vision_head[] = {
    {"patch_embed.proj.weight", ALWAYS, {V_HIDDEN, V_CHANNELS, V_TIME, V_PATCH, V_PATCH}},
    {"patch_embed.proj.bias", ALWAYS, {V_HIDDEN}},
    {"pos_embed.weight", ALWAYS, {V_PLACES, V_HIDDEN}},
};

static const struct row vision_layer[] = {
    {"norm1.weight", ALWAYS, {V_HIDDEN}},
    {"norm1.bias", ALWAYS, {V_HIDDEN}},
    {"norm2.weight", ALWAYS, {V_HIDDEN}},
    {"norm2.bias", ALWAYS, {V_HIDDEN}},
    {"attn.qkv.weight", ALWAYS, {V_HIDDEN_3, V_HIDDEN}},
    {"attn.qkv.bias", ALWAYS, {V_HIDDEN_3}},
    {"attn.proj.weight", ALWAYS, {V_HIDDEN, V_HIDDEN}},
    {"attn.proj.bias", ALWAYS, {V_HIDDEN}},
    {"mlp.linear_fc1.weight", ALWAYS, {V_INNER, V_HIDDEN}},
    {"mlp.linear_fc1.bias", ALWAYS, {V_INNER}},
    {"mlp.linear_fc2.weight", ALWAYS, {V_HIDDEN, V_INNER}},
    {"mlp.linear_fc2.bias", ALWAYS, {V_HIDDEN}},
};

/* The merger normalises before it concatenates patches, the mergers of deepstack after. */
static const struct row merger_norm[] = {
    {"norm.weight", ALWAYS, {V_HIDDEN}},
    {"norm.bias", ALWAYS, {V_HIDDEN}},
};

static const struct row deepstack_norm[] = {
    {"norm.weight", ALWAYS, {V_MERGED}},
    {"norm.bias", ALWAYS, {V_MERGED}},
};

static const struct row merger[] = {
    {"linear_fc1.weight", ALWAYS, {V_MERGED, V_MERGED}},
    {"linear_fc1.bias", ALWAYS, {V_MERGED}},
    {"linear_fc2.weight", ALWAYS, {V_OUT, V_MERGED}},
    {"linear_fc2.bias", ALWAYS, {V_OUT}},
};

static const struct family families[] = {
    {.model_type = "llama", .qkv = BIAS_BY_KEY, .o = BIAS_BY_KEY, .mlp = BIAS_BY_KEY},
    {.model_type = "mistral", .kv_heads = 8},
    {.model_type = "qwen2", .qkv = BIAS_ALWAYS, .kv_heads = 32},
    {.model_type = "qwen3",
     .qkv = BIAS_BY_KEY,
     .o = BIAS_BY_KEY,
     .qk_norm = true,
     .kv_heads = 32,
     .head_dim = 128},
    {.model_type = "mixtral", .kv_heads = 8, .experts = EXPERTS_MIXTRAL},
    {.model_type = "qwen2_moe",
     .qkv = BIAS_UNLESS,
     .qkv_key = "qkv_bias",
     .kv_heads = 16,
     .experts = EXPERTS_QWEN2},
    {.model_type = "qwen3_moe",
     .qkv = BIAS_BY_KEY,
     .o = BIAS_BY_KEY,
     .qk_norm = true,
     .kv_heads = 4,
     .experts = EXPERTS_QWEN3},
    {.model_type = "deepseek_v2",
     .qkv = BIAS_BY_KEY,
     .o = BIAS_BY_KEY,
     .mlp = BIAS_BY_KEY,
     .experts = EXPERTS_DEEPSEEK_V2},
    {.model_type = "deepseek_v3",
     .qkv = BIAS_BY_KEY,
     .o = BIAS_BY_KEY,
     .kv_heads = 128,
     .experts = EXPERTS_DEEPSEEK_V3},
    {.model_type = "gpt_oss",
     .qkv = BIAS_UNLESS,
     .o = BIAS_UNLESS,
     .kv_heads = 8,
     .head_dim = 64,
     .experts = EXPERTS_GPT_OSS},
    {.model_type = "qwen3_5_text",
     .qkv = BIAS_BY_KEY,
     .o = BIAS_BY_KEY,
     .qk_norm = true,
     .gated = true,
     .kv_heads = 4,
     .head_dim = 256},
    {.model_type = "qwen3_5",
     .wrapper = true,
     .qkv = BIAS_BY_KEY,
     .o = BIAS_BY_KEY,
     .qk_norm = true,
     .gated = true,
     .kv_heads = 4,
     .head_dim = 256},
    {.model_type = "qwen3_vl",
     .wrapper = true,
     .qkv = BIAS_BY_KEY,
     .o = BIAS_BY_KEY,
     .qk_norm = true,
     .deepstack = true,
     .kv_heads = 32,
     .head_dim = 128},
};

/* ---- numbers of the config ---- */

enum status architecture_number(struct builder *b, const struct tree *t, const char *key,
                                uint64_t fallback, uint64_t *ret)
{
    const struct tree *v = tree_get(t, key);
    if (v == NULL || (v->kind == TREE_SCALAR && v->value.kind == VALUE_NULL)) {
        if (fallback == 0) {
            return err_set(b->err, ST_FORMAT, "config.json has no %s", key);
        }
        *ret = fallback;
        return ST_OK;
    }
    if (v->kind != TREE_SCALAR || v->value.kind != VALUE_INT || v->value.integer <= 0 ||
        v->value.integer > INT32_MAX) {
        return err_set(b->err, ST_FORMAT, "%s of config.json is no positive number", key);
    }
    *ret = (uint64_t)v->value.integer;
    return ST_OK;
}

static bool flag(const struct tree *t, const char *key, bool fallback)
{
    const struct tree *v = tree_get(t, key);
    return v != NULL && v->value.kind == VALUE_BOOL ? v->value.boolean : fallback;
}

static bool has_bias(enum bias bias, const struct tree *t, const char *key)
{
    bool by_key = bias == BIAS_BY_KEY || bias == BIAS_UNLESS;
    return bias == BIAS_ALWAYS || (by_key && flag(t, key, bias == BIAS_UNLESS));
}

static enum status text_sizes(struct builder *b, const struct tree *t)
{
    uint64_t *s = b->sizes;
    uint64_t heads;
    uint64_t kv;
    uint64_t head_dim;
    const struct family *f = b->family;
    TRY(architecture_number(b, t, "vocab_size", 0, &s[VOCAB]));
    TRY(architecture_number(b, t, "hidden_size", 0, &s[HIDDEN]));
    TRY(architecture_number(b, t, "intermediate_size", 0, &s[INNER]));
    TRY(architecture_number(b, t, "num_attention_heads", 0, &heads));
    TRY(architecture_number(b, t, "num_key_value_heads", f->kv_heads != 0 ? f->kv_heads : heads,
                            &kv));
    TRY(architecture_number(
        b, t, "head_dim", f->head_dim != 0 ? f->head_dim : s[HIDDEN] / heads + (s[HIDDEN] < heads),
        &head_dim));
    s[ONE] = 1;
    s[HEAD_DIM] = head_dim;
    s[QUERY] = heads * head_dim;
    s[QUERY_2] = 2 * s[QUERY];
    s[KV] = kv * head_dim;
    const char *qkv = f->qkv_key != NULL ? f->qkv_key : "attention_bias";
    s[HEADS] = heads;
    b->facts |= has_bias(f->qkv, t, qkv) ? QKV_BIAS : 0U;
    b->facts |= has_bias(f->o, t, "attention_bias") ? O_BIAS : 0U;
    b->facts |= has_bias(f->mlp, t, "mlp_bias") ? MLP_BIAS : 0U;
    b->facts |= f->qk_norm ? QK_NORM : 0U;
    if (f->gated) {
        uint64_t k_heads;
        uint64_t k_dim;
        TRY(architecture_number(b, t, "linear_num_key_heads", 16, &k_heads));
        TRY(architecture_number(b, t, "linear_key_head_dim", 128, &k_dim));
        TRY(architecture_number(b, t, "linear_num_value_heads", 32, &s[DELTA_HEADS]));
        TRY(architecture_number(b, t, "linear_value_head_dim", 128, &s[DELTA_HEAD_DIM]));
        TRY(architecture_number(b, t, "linear_conv_kernel_dim", 4, &s[KERNEL]));
        s[DELTA_V] = s[DELTA_HEADS] * s[DELTA_HEAD_DIM];
        s[DELTA_QKV] = 2 * k_heads * k_dim + s[DELTA_V];
    }
    if (f->experts != EXPERTS_NONE) {
        TRY(architecture_expert_sizes(b, t));
    }
    return ST_OK;
}

static enum status vision_sizes(struct builder *b, const struct tree *t)
{
    uint64_t *s = b->sizes;
    uint64_t merge;
    TRY(architecture_number(b, t, "hidden_size", 1152, &s[V_HIDDEN]));
    TRY(architecture_number(b, t, "intermediate_size", 4304, &s[V_INNER]));
    TRY(architecture_number(b, t, "in_channels", 3, &s[V_CHANNELS]));
    TRY(architecture_number(b, t, "patch_size", 16, &s[V_PATCH]));
    TRY(architecture_number(b, t, "temporal_patch_size", 2, &s[V_TIME]));
    TRY(architecture_number(b, t, "spatial_merge_size", 2, &merge));
    TRY(architecture_number(b, t, "out_hidden_size", 3584, &s[V_OUT]));
    TRY(architecture_number(b, t, "num_position_embeddings", 2304, &s[V_PLACES]));
    s[V_HIDDEN_3] = 3 * s[V_HIDDEN];
    s[V_MERGED] = s[V_HIDDEN] * merge * merge;
    return ST_OK;
}

/* ---- tensors ---- */

void architecture_add_rows(struct builder *b, const char *prefix, const struct row *rows,
                           size_t count, unsigned facts)
{
    for (size_t i = 0; i < count; i++) {
        const struct row *r = &rows[i];
        if ((r->when & ~facts) != 0) {
            continue;
        }
        struct architecture_tensor t = {.name = arena_fmt(b->arena, "%s%s", prefix, r->name),
                                        .optional = (r->when & HEAD) != 0 && b->model->tied};
        while (t.rank < ARCHITECTURE_RANK && r->dims[t.rank] != NO_SIZE) {
            t.shape[t.rank] = b->sizes[r->dims[t.rank]];
            t.rank++;
        }
        *VEC_PUSH(b->arena, &b->model->tensors) = t;
    }
}

/* layer_types says it; without it every full_attention_interval-th layer attends. */
static enum status layer_facts(struct builder *b, const struct tree *t, const struct tree **type,
                               uint64_t layer, unsigned *ret)
{
    uint64_t interval;
    if (!b->family->gated) {
        *ret = FULL | ATTENDS | DENSE;
        return b->family->experts != EXPERTS_NONE ? architecture_expert_facts(b, t, layer, ret)
                                                  : ST_OK;
    }
    TRY(architecture_number(b, t, "full_attention_interval", 4, &interval));
    bool full = (layer + 1) % interval == 0;
    if (tree_get(t, "layer_types") != NULL) {
        if (*type == NULL || (*type)->text == NULL) {
            return err_set(b->err, ST_FORMAT,
                           "layer_types of config.json has fewer entries than layers");
        }
        full = strcmp((*type)->text, "full_attention") == 0;
        if (!full && strcmp((*type)->text, "linear_attention") != 0) {
            return err_set(b->err, ST_FORMAT, "layer_types of config.json names an unknown type");
        }
        *type = (*type)->next;
    }
    *ret = DENSE | (full ? GATED | ATTENDS : DELTA);
    return ST_OK;
}

static enum status add_text(struct builder *b, const struct tree *t, const char *prefix)
{
    uint64_t layers;
    const struct tree *types = tree_get(t, "layer_types");
    const struct tree *type = types != NULL ? types->child : NULL;
    TRY(architecture_number(b, t, "num_hidden_layers", 0, &layers));
    if (layers > ARCHITECTURE_LAYERS_MAX) {
        return err_set(b->err, ST_FORMAT, "num_hidden_layers of config.json is absurd");
    }
    architecture_add_rows(b, prefix, text_head, ARRAY_LEN(text_head), b->facts);
    b->model->layers = layers;
    b->model->in_modules_order = b->family->experts == EXPERTS_NONE;
    b->model->embedding = b->model->tensors.items[b->model->tensors.count - 1].name;
    for (uint64_t i = 0; i < layers; i++) {
        unsigned facts = 0;
        TRY(layer_facts(b, t, &type, i, &facts));
        const char *in = arena_fmt(b->arena, "%slayers.%d.", prefix, (int)i);
        architecture_add_rows(b, in, text_layer, ARRAY_LEN(text_layer), b->facts | facts);
        architecture_expert_rows(b, in, b->facts | facts);
    }
    architecture_add_rows(b, prefix, text_tail, ARRAY_LEN(text_tail), b->facts);
    return ST_OK;
}

static enum status add_vision(struct builder *b, const struct tree *t)
{
    uint64_t depth;
    const struct tree *deep = tree_get(t, "deepstack_visual_indexes");
    TRY(vision_sizes(b, t));
    TRY(architecture_number(b, t, "depth", 27, &depth));
    size_t mergers = !b->family->deepstack ? 0 : deep != NULL ? deep->count : 3;
    if (depth > ARCHITECTURE_LAYERS_MAX || mergers > ARCHITECTURE_LAYERS_MAX) {
        return err_set(b->err, ST_FORMAT, "depth of config.json is absurd");
    }
    architecture_add_rows(b, "model.visual.", vision_head, ARRAY_LEN(vision_head), 0);
    for (uint64_t i = 0; i < depth; i++) {
        const char *in = arena_fmt(b->arena, "model.visual.blocks.%d.", (int)i);
        architecture_add_rows(b, in, vision_layer, ARRAY_LEN(vision_layer), 0);
    }
    architecture_add_rows(b, "model.visual.merger.", merger_norm, ARRAY_LEN(merger_norm), 0);
    architecture_add_rows(b, "model.visual.merger.", merger, ARRAY_LEN(merger), 0);
    for (size_t i = 0; i < mergers; i++) {
        const char *in = arena_fmt(b->arena, "model.visual.deepstack_merger_list.%d.", (int)i);
        architecture_add_rows(b, in, deepstack_norm, ARRAY_LEN(deepstack_norm), 0);
        architecture_add_rows(b, in, merger, ARRAY_LEN(merger), 0);
    }
    return ST_OK;
}

/* ---- the model ---- */

static const struct family *family_of(const char *model_type)
{
    for (size_t i = 0; i < ARRAY_LEN(families); i++) {
        if (strcmp(families[i].model_type, model_type) == 0) {
            return &families[i];
        }
    }
    return NULL;
}

/* The first class that the config names; "" when it names none. */
static struct str class_of(const struct tree *config)
{
    const struct tree *list = tree_get(config, "architectures");
    bool has = list != NULL && list->kind == TREE_LIST && list->child != NULL &&
               list->child->text != NULL;
    return str_of(has ? list->child->text : "");
}

/* Classes with the whole of the model inside; those of speculative heads and the like have a part. */
static bool is_known_class(struct str class)
{
    static const char *const ends[] = {"ForCausalLM",
                                       "ForConditionalGeneration",
                                       "Model",
                                       "ForSequenceClassification",
                                       "ForTokenClassification",
                                       "ForQuestionAnswering"};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        bool other = strcmp(ends[i], "Model") == 0 && str_has(class, "For"); /* ...ForRewardModel */
        if (str_ends(class, ends[i]) && !other) {
            return true;
        }
    }
    return class.n == 0;
}

/* What the model inside of a head's class is called in front of its tensors' names. Some classes for
 * questions keep an older name (transformers/models/<family>/modeling_<family>.py). */
static const char *prefix_of(struct str class, bool bare)
{
    static const char *const older[] = {"LlamaForQuestionAnswering", "Qwen2ForQuestionAnswering",
                                        "Qwen3ForQuestionAnswering",
                                        "Qwen3MoeForQuestionAnswering"};
    for (size_t i = 0; i < ARRAY_LEN(older); i++) {
        if (str_is(class, older[i])) {
            return "transformer.";
        }
    }
    return bare ? "" : "model.";
}

static enum status build(struct builder *b, const struct tree *config)
{
    struct str class = class_of(config);
    if (!is_known_class(class)) {
        return err_set(b->err, ST_UNSUPPORTED, "the class %.*s is not known here",
                       class.n < 80 ? (int)class.n : 80, class.p);
    }
    bool generates = class.n == 0 || str_ends(class, "ForCausalLM") ||
                     str_ends(class, "ForConditionalGeneration");
    bool bare = str_ends(class, "Model") &&
                !str_has(class, "For"); /* saved without the prefix of a head's module */
    const struct tree *text = b->family->wrapper ? tree_get(config, "text_config") : config;
    const struct tree *vision = tree_get(config, "vision_config");
    if (text == NULL || (b->family->wrapper && vision == NULL)) {
        return err_set(b->err, ST_FORMAT, "config.json has no text_config or no vision_config");
    }
    b->model->tied = flag(config, "tie_word_embeddings", flag(text, "tie_word_embeddings", false));
    b->model->whole = generates || bare;
    if (bare && b->family->wrapper) {
        return err_set(b->err, ST_UNSUPPORTED, "the class %.*s is not known here",
                       class.n < 80 ? (int)class.n : 80, class.p);
    }
    TRY(text_sizes(b, text));
    if (b->family->wrapper) {
        TRY(add_vision(b, vision));
        TRY(add_text(b, text, "model.language_model."));
    } else {
        TRY(add_text(b, text, prefix_of(class, bare)));
    }
    architecture_add_rows(b, "", lm_head, ARRAY_LEN(lm_head), generates ? HEAD : 0U);
    b->model->vocab_size = b->sizes[VOCAB];
    b->model->hidden_size = b->sizes[HIDDEN];
    return ST_OK;
}

enum status architecture_read(struct arena *a, const struct tree *config,
                              struct architecture *ret_architecture, struct err *err)
{
    const char *type = tree_text(config, "model_type", "");
    struct architecture m = {.by_name = map_new(a)};
    struct builder b = {.arena = a, .family = family_of(type), .model = &m, .err = err};
    if (b.family == NULL) {
        return err_set(err, ST_UNSUPPORTED, "the family \"%.80s\" is not known here", type);
    }
    const struct tree *quantised = tree_get(config, "quantization_config");
    if (quantised != NULL && quantised->kind == TREE_MAP) {
        return err_set(err, ST_UNSUPPORTED, "the weights are quantised");
    }
    m.family = b.family->model_type;
    TRY(build(&b, config));
    for (size_t i = 0; i < m.tensors.count; i++) {
        map_put(m.by_name, str_of(m.tensors.items[i].name), &m.tensors.items[i]);
    }
    *ret_architecture = m;
    return ST_OK;
}

bool architecture_ignores(const struct architecture *m, const char *name)
{
    struct str s = str_of(name);
    if (str_ends(s, "rotary_emb.inv_freq")) {
        return true;
    }
    uint64_t layer;
    if (strcmp(m->family, "deepseek_v3") == 0 && str_starts(s, "model.layers.")) {
        struct str number = STR("");
        struct str rest = str_slice(s, 13,
                                    s.n); /* heads for further tokens follow the last layer */
        return str_cut(&rest, '.', &number) && str_to_u64(number, 10, &layer) == ST_OK &&
               layer >= m->layers;
    }
    bool qwen35 = str_starts(str_of(m->family), "qwen3_5");
    return qwen35 && (str_starts(s, "mtp.") ||
                      (strcmp(m->family, "qwen3_5_text") == 0 && str_starts(s, "model.visual.")));
}
