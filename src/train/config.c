// SPDX-License-Identifier: Apache-2.0
/* A row per model_type; keys that all families share are read by one function. */
#include "train/config.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/fs.h"

#include "train/model_gguf.h"

struct family {
    const char *model_type;
    enum model_family family;
    bool qkv_bias; /* wired in, whatever attention_bias says */
    bool qk_norm;
    bool mlp_bias_key;
    bool qwen;       /* has the keys of config_qwen.c */
    bool wrapper;    /* the text model's keys are in text_config */
    size_t head_dim; /* when the key is missing; 0: hidden_size / num_attention_heads */
    double theta;    /* when rope_theta is missing */
};

static const struct family families[] = {
    {"llama", FAMILY_LLAMA, .mlp_bias_key = true, .theta = 10000},
    {"qwen2", FAMILY_QWEN2, .qkv_bias = true, .theta = 10000},
    {"qwen3", FAMILY_QWEN3, .qk_norm = true, .theta = 10000},
    {"qwen3_vl_text", FAMILY_QWEN3_VL, .qk_norm = true, .qwen = true, .head_dim = 128,
     .theta = 5e5},
    {"qwen3_vl", FAMILY_QWEN3_VL, .qk_norm = true, .qwen = true, .wrapper = true, .head_dim = 128,
     .theta = 5e5},
    {"qwen3_5_text", FAMILY_QWEN3_5, .qk_norm = true, .qwen = true, .head_dim = 256,
     .theta = 10000},
    {"qwen3_5", FAMILY_QWEN3_5, .qk_norm = true, .qwen = true, .wrapper = true, .head_dim = 256,
     .theta = 10000},
};

static bool missing(const struct tree *t)
{
    return t == NULL || (t->kind == TREE_SCALAR && t->value.kind == VALUE_NULL);
}

static enum status wrong(const struct config_reader *r, const char *key, const char *expected)
{
    const struct tree *t = tree_get(r->at, key);
    (void)err_set(r->err, ST_FORMAT, "%s: '%s' is %.40s, and %s was expected", r->name, key,
                  t == NULL             ? "missing"
                  : t->kind == TREE_MAP ? "an object"
                  : t->text != NULL     ? t->text
                                        : "a list",
                  expected);
    return ST_FORMAT;
}

enum status config_size(const struct config_reader *r, const char *key, size_t fallback,
                        size_t *ret)
{
    const struct tree *t = tree_get(r->at, key);
    if (missing(t)) {
        if (fallback == 0) {
            return wrong(r, key, "a whole number");
        }
        *ret = fallback;
        return ST_OK;
    }
    if (t->kind != TREE_SCALAR || t->value.kind != VALUE_INT || t->value.integer < 1 ||
        t->value.integer > CONFIG_WIDTH_MAX) {
        return wrong(r, key, "a whole number from 1 to 16777216");
    }
    *ret = (size_t)t->value.integer;
    return ST_OK;
}

enum status config_real(const struct config_reader *r, const char *key, double fallback,
                        double *ret)
{
    const struct tree *t = tree_get(r->at, key);
    double value = fallback;
    if (!missing(t)) {
        if (t->kind != TREE_SCALAR || (t->value.kind != VALUE_INT && t->value.kind != VALUE_REAL)) {
            return wrong(r, key, "a number");
        }
        value = t->value.kind == VALUE_INT ? (double)t->value.integer : t->value.real;
    }
    if (!isfinite(value)) {
        return wrong(r, key, "a finite number");
    }
    *ret = value;
    return ST_OK;
}

enum status config_bool(const struct config_reader *r, const char *key, bool fallback, bool *ret)
{
    const struct tree *t = tree_get(r->at, key);
    if (missing(t)) {
        *ret = fallback;
        return ST_OK;
    }
    if (t->kind != TREE_SCALAR || t->value.kind != VALUE_BOOL) {
        return wrong(r, key, "true or false");
    }
    *ret = t->value.boolean;
    return ST_OK;
}

static enum status positive(const struct config_reader *r, const char *key, double fallback,
                            double *ret)
{
    TRY(config_real(r, key, fallback, ret));
    return *ret > 0 ? ST_OK : wrong(r, key, "a number above 0");
}

static enum status rope_kind_of(const struct config_reader *r, struct rope_config *rope)
{
    static const char *const names[ROPE_KIND_COUNT] = {"default", "linear", "llama3", "yarn"};
    const char *name = tree_text(r->at, "rope_type", tree_text(r->at, "type", "default"));
    for (unsigned i = 0; i < ROPE_KIND_COUNT; i++) {
        if (strcmp(name, names[i]) == 0) {
            rope->kind = (enum rope_kind)i;
            return ST_OK;
        }
    }
    return err_set(
        r->err, ST_UNSUPPORTED,
        "%s: rope_type '%.40s' is not computed here; default, linear, llama3 and yarn are", r->name,
        name);
}

static double yarn_scale(double factor, double m)
{
    return factor <= 1 ? 1 : 0.1 * m * log(factor) + 1;
}

static enum status read_yarn(const struct config_reader *r, struct rope_config *rope,
                             double longest)
{
    double mscale = 0;
    double mscale_all = 0;
    TRY(positive(r, "original_max_position_embeddings", longest, &rope->original_length));
    TRY(positive(r, "factor", longest / rope->original_length, &rope->factor));
    TRY(positive(r, "beta_fast", 32, &rope->beta_fast));
    TRY(positive(r, "beta_slow", 1, &rope->beta_slow));
    TRY(config_bool(r, "truncate", true, &rope->truncate));
    TRY(config_real(r, "mscale", 0, &mscale));
    TRY(config_real(r, "mscale_all_dim", 0, &mscale_all));
    double inferred = mscale != 0 && mscale_all != 0
                          ? yarn_scale(rope->factor, mscale) / yarn_scale(rope->factor, mscale_all)
                          : yarn_scale(rope->factor, 1);
    return positive(r, "attention_factor", inferred, &rope->attention_factor);
}

/* transformers 5 has one object `rope_parameters`; 4 had `rope_theta` beside `rope_scaling`. */
static enum status read_rope(const struct config_reader *top, const struct family *family,
                             struct model_config *c)
{
    struct rope_config *rope = &c->rope;
    const struct tree *object = tree_get(top->at, "rope_parameters");
    object = missing(object) ? tree_get(top->at, "rope_scaling") : object;
    if (!missing(object) && object->kind != TREE_MAP) {
        return err_set(top->err, ST_FORMAT, "%s: the RoPE parameters are not an object", top->name);
    }
    struct config_reader r = {
        .name = top->name, .at = missing(object) ? NULL : object, .err = top->err};
    double longest = 0;
    double partial = family->family == FAMILY_QWEN3_5 ? 0.25 : 1;
    TRY(positive(top, "max_position_embeddings", 2048, &longest));
    TRY(positive(top, "rope_theta", family->theta, &rope->theta));
    TRY(positive(&r, "rope_theta", rope->theta, &rope->theta));
    TRY(positive(top, "partial_rotary_factor", partial, &partial));
    TRY(positive(&r, "partial_rotary_factor", partial, &partial));
    TRY(rope_kind_of(&r, rope));
    rope->attention_factor = 1;
    rope->dim = (size_t)((double)c->head_dim * partial);
    if (rope->dim < 2 || rope->dim > c->head_dim || rope->dim % 2 != 0) {
        return err_set(
            top->err, ST_FORMAT,
            "%s: RoPE would rotate %zu channels of heads of %zu: an even number up to the "
            "head's width was expected (head_dim, partial_rotary_factor)",
            top->name, rope->dim, c->head_dim);
    }
    switch (rope->kind) {
    case ROPE_LINEAR: return positive(&r, "factor", 0, &rope->factor);
    case ROPE_LLAMA3:
        TRY(positive(&r, "factor", 0, &rope->factor));
        TRY(positive(&r, "low_freq_factor", 0, &rope->low_freq_factor));
        TRY(positive(&r, "high_freq_factor", 0, &rope->high_freq_factor));
        if (!(rope->high_freq_factor > rope->low_freq_factor)) {
            return wrong(&r, "high_freq_factor", "a number above low_freq_factor");
        }
        return positive(&r, "original_max_position_embeddings", 0, &rope->original_length);
    case ROPE_YARN: return read_yarn(&r, rope, longest);
    default: return ST_OK;
    }
}

static enum status read_layer_kinds(const struct config_reader *r, struct arena *a,
                                    struct model_config *c)
{
    enum layer_kind *kinds = arena_array(a, c->layers, sizeof *kinds); /* all full attention */
    const struct tree *list = tree_get(r->at, "layer_types");
    c->layer_kind = kinds;
    if (missing(list)) {
        return ST_OK;
    }
    if (list->kind != TREE_LIST || list->count != c->layers) {
        return err_set(r->err, ST_FORMAT,
                       "%s: layer_types does not list one type for each of %zu layers", r->name,
                       c->layers);
    }
    size_t i = 0;
    for (const struct tree *t = list->child; t != NULL; t = t->next, i++) {
        if (t->text == NULL || strcmp(t->text, "full_attention") != 0) {
            return err_set(
                r->err, ST_UNSUPPORTED,
                "%s: layer %zu is of type '%.40s', which is not computed for model_type %s",
                r->name, i, t->text != NULL ? t->text : "?", c->model_type);
        }
    }
    return ST_OK;
}

/* What would change the result and is not computed here. */
static enum status refuse(const struct config_reader *r)
{
    const char *act = tree_text(r->at, "hidden_act", "silu");
    bool sliding = false;
    double dropout = 0;
    if (strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0) {
        return err_set(r->err, ST_UNSUPPORTED,
                       "%s: hidden_act '%.40s' is not computed here; silu is", r->name, act);
    }
    TRY(config_bool(r, "use_sliding_window", false, &sliding));
    TRY(config_real(r, "attention_dropout", 0, &dropout));
    if (sliding) {
        return err_set(
            r->err, ST_UNSUPPORTED,
            "%s: use_sliding_window is true; attention over a window is not computed here",
            r->name);
    }
    if (dropout != 0) {
        return err_set(
            r->err, ST_UNSUPPORTED,
            "%s: attention_dropout is %g; set it to 0, a reference has no random dropout", r->name,
            dropout);
    }
    return ST_OK;
}

static enum status read_sizes(const struct config_reader *r, const struct family *family,
                              struct model_config *c)
{
    TRY(config_size(r, "vocab_size", 0, &c->vocab));
    TRY(config_size(r, "hidden_size", 0, &c->hidden));
    TRY(config_size(r, "intermediate_size", 0, &c->intermediate));
    TRY(config_size(r, "num_hidden_layers", 0, &c->layers));
    TRY(config_size(r, "num_attention_heads", 0, &c->heads));
    TRY(config_size(r, "num_key_value_heads", c->heads, &c->kv_heads));
    if (c->heads == 0 || c->kv_heads == 0) {
        return wrong(r, "num_attention_heads", "a whole number");
    }
    TRY(config_size(r, "head_dim", family->head_dim ? family->head_dim : c->hidden / c->heads,
                    &c->head_dim));
    if (c->layers > CONFIG_LAYERS_MAX) {
        return wrong(r, "num_hidden_layers", "at most 10000");
    }
    if (c->heads % c->kv_heads != 0) {
        return err_set(
            r->err, ST_FORMAT,
            "%s: %zu query heads do not divide among %zu key heads (num_attention_heads, "
            "num_key_value_heads)",
            r->name, c->heads, c->kv_heads);
    }
    if (missing(tree_get(r->at, "head_dim")) && !family->head_dim && c->hidden % c->heads != 0) {
        return err_set(r->err, ST_FORMAT,
                       "%s: hidden_size %zu is no multiple of %zu heads, and head_dim is not given",
                       r->name, c->hidden, c->heads);
    }
    return c->heads * c->head_dim <= CONFIG_WIDTH_MAX ? ST_OK
                                                      : wrong(r, "head_dim", "a smaller number");
}

static enum status read_family(struct arena *a, const struct config_reader *root,
                               const struct family *family, struct model_config *c)
{
    const struct config_reader inner = {.name = root->name, .at = c->text, .err = root->err};
    const struct config_reader *r = &inner;
    bool bias = false;
    c->family = family->family;
    c->prefix = family->wrapper ? "model.language_model." : "model.";
    c->norm = family->family == FAMILY_QWEN3_5 ? NORM_ZERO_CENTRED : NORM_PLAIN;
    c->qk_norm = family->qk_norm;
    TRY(read_sizes(r, family, c));
    TRY(refuse(r));
    TRY(positive(r, "rms_norm_eps", 1e-6, &c->norm_eps));
    TRY(positive(r, "initializer_range", 0.02, &c->initializer_range));
    TRY(config_bool(root, "tie_word_embeddings", false, &c->tied)); /* the outermost counts */
    if (family->mlp_bias_key) {
        TRY(config_bool(r, "mlp_bias", false, &c->mlp_bias));
    }
    if (family->qkv_bias) {
        bias = true;
    } else {
        TRY(config_bool(r, "attention_bias", false, &bias));
        c->o_bias = bias;
    }
    c->qkv_bias = bias;
    TRY(read_rope(r, family, c));
    return family->qwen ? config_read_qwen(a, root, r, c) : read_layer_kinds(r, a, c);
}

static enum status unknown_family(const char *name, const char *type, struct err *err)
{
    return err_set(
        err, ST_UNSUPPORTED,
        "%s: model_type '%.60s' is not a family that is computed here; llama, qwen2, qwen3, qwen3_vl "
        "and qwen3_5 are",
        name, type);
}

/* Heads that predict no next token: scores and classes. */
static enum status check_class(const char *name, const struct tree *root, struct err *err)
{
    static const char *const other[] = {"ForSequenceClassification", "ForTokenClassification",
                                        "ForQuestionAnswering", "RewardModel"};
    const struct tree *list = tree_get(root, "architectures");
    const struct tree *class = list != NULL && list->kind == TREE_LIST ? list->child : NULL;
    for (size_t i = 0; class != NULL && class->text != NULL && i < ARRAY_LEN(other); i++) {
        if (str_ends(str_of(class->text), other[i])) {
            return err_set(err, ST_UNSUPPORTED,
                           "%s: the class %.80s predicts no next token; models ...ForCausalLM and "
                           "...ForConditionalGeneration are computed here",
                           name, class->text);
        }
    }
    return ST_OK;
}

enum status config_parse(struct arena *a, struct str text, const char *name,
                         struct model_config *ret_config, struct err *err)
{
    const struct tree *root = NULL;
    struct tree_limits limits = TREE_LIMITS_DEFAULT;
    limits.bytes = CONFIG_BYTES_MAX;
    TRY(tree_from_json(a, text, name, limits, &root, err));
    const char *type = tree_text(root, "model_type", NULL);
    if (type == NULL) {
        return err_set(err, ST_FORMAT, "%s: no model_type, so the family of the model is not known",
                       name);
    }
    TRY(check_class(name, root, err));
    struct model_config c = {.root = root, .text = root, .model_type = type};
    for (size_t i = 0; i < ARRAY_LEN(families); i++) {
        if (strcmp(type, families[i].model_type) == 0) {
            struct config_reader r = {.name = name, .at = root, .err = err};
            c.text = families[i].wrapper ? tree_get(root, "text_config") : root;
            if (!c.text || c.text->kind != TREE_MAP) {
                return err_set(err, ST_FORMAT, "%s: no object text_config, which a %s model has",
                               name, type);
            }
            TRY(read_family(a, &r, &families[i], &c));
            *ret_config = c;
            return ST_OK;
        }
    }
    return unknown_family(name, type, err);
}

enum status config_read(struct arena *a, const char *folder, struct model_config *ret_config,
                        struct err *err)
{
    static const struct fs live = {.prefix = ""};
    const char *path = arena_fmt(a, "%s/config.json", folder);
    struct str text;
    if (gguf_is_file(folder)) {
        TRY(model_gguf_read_config(a, folder, &text, err));
        return config_parse(a, text, folder, ret_config, err);
    }
    if (fs_exists(&live, a, folder) && !fs_is_dir(&live, a, folder)) {
        return err_set(err, ST_FORMAT, "'%s' is no model folder and no GGUF file", folder);
    }
    enum status status = fs_read(&live, a, path, CONFIG_BYTES_MAX, &text, err);
    if (status == ST_ABSENT) {
        return err_set(
            err, ST_ABSENT,
            "'%s' is no model folder: it holds no config.json; give a folder of Hugging Face "
            "form, with config.json and safetensors files, or a GGUF file",
            folder);
    }
    TRY(status);
    return config_parse(a, text, path, ret_config, err);
}
