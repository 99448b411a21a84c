// SPDX-License-Identifier: Apache-2.0
/*
 * config.json of a Hugging Face folder as the trainer needs it: one record for all families, in which
 * what a family hard-wires (the biases of Qwen2, the head norms of Qwen3) is written out.
 *
 * Both spellings are read: `rope_theta` + `rope_scaling` of transformers 4 and `rope_parameters` of 5.
 * A family or an option that is not computed here is an error that names it, never a silent default.
 *
 * Source: configuration_{llama,qwen2,qwen3,qwen3_vl,qwen3_5}.py and modeling_rope_utils.py of huggingface/transformers.
 */
#ifndef ASSAY_TRAIN_CONFIG_H
#define ASSAY_TRAIN_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/tree.h"

enum model_family {
    FAMILY_LLAMA = 0,
    FAMILY_QWEN2,
    FAMILY_QWEN3,
    FAMILY_QWEN3_VL, /* text model of Qwen3-VL; with a vision tower when the file is the wrapper's */
    FAMILY_QWEN3_5,  /* the same of Qwen3.5 */
    FAMILY_COUNT
};

/* What mixes tokens in a decoder layer: the key of the tables of layer kinds (layer.h, maker.h). */
enum layer_kind {
    LAYER_FULL_ATTENTION = 0,
    LAYER_LINEAR_ATTENTION, /* Gated DeltaNet */
    LAYER_GATED_ATTENTION,  /* what "full_attention" means in Qwen3.5 */
    LAYER_KIND_COUNT
};

enum norm_kind {
    NORM_PLAIN = 0,    /* y = w * store(x / rms): Llama, Qwen2, Qwen3 */
    NORM_ZERO_CENTRED, /* y = store((1 + w) * x / rms): Qwen3.5 */
    NORM_KIND_COUNT
};

enum rope_kind {
    ROPE_DEFAULT = 0,
    ROPE_LINEAR,
    ROPE_LLAMA3,
    ROPE_YARN,
    ROPE_KIND_COUNT
};

struct rope_config {
    enum rope_kind kind;
    double theta;
    size_t dim; /* channels of a head that rotate: the first ones; even */
    double factor;
    double low_freq_factor, high_freq_factor; /* llama3 */
    double original_length;                   /* llama3 and yarn: positions it was trained on */
    double beta_fast, beta_slow;              /* yarn */
    bool truncate;                            /* yarn: whole numbers as borders of the ramp */
    double attention_factor;                  /* yarn: multiplies cos and sin */
    size_t section[3]; /* M-RoPE, interleaved: frequencies of time, height, width; 0: none */
};

/* Gated DeltaNet layers; all 0 where there are none. */
struct linear_attention_config {
    size_t heads;   /* of queries and keys */
    size_t v_heads; /* a multiple of heads */
    size_t dim_k, dim_v;
    size_t taps; /* of the convolution */
};

struct vision_config; /* vision.h */

struct model_config {
    enum model_family family;
    const char *model_type; /* as written */
    const char *prefix;     /* of the text model's tensors: "model." */
    size_t vocab;
    size_t hidden;
    size_t intermediate; /* width inside the MLP */
    size_t layers;
    size_t heads;
    size_t kv_heads;
    size_t head_dim;
    double norm_eps;
    enum norm_kind norm;
    bool tied; /* lm_head shares the embedding's tensor */
    bool qkv_bias;
    bool o_bias;
    bool mlp_bias;
    bool qk_norm; /* RMSNorm of each query and key head, before RoPE */
    double initializer_range;
    struct rope_config rope;
    const enum layer_kind *layer_kind; /* [layers] */
    struct linear_attention_config linear_attention;
    const struct vision_config *vision; /* NULL: text alone */
    const struct tree *text; /* the object that holds these keys, for what only one family has */
    const struct tree *root; /* the whole file */
};

enum {
    CONFIG_BYTES_MAX = 16 << 20,
    CONFIG_LAYERS_MAX = 10000,
    CONFIG_WIDTH_MAX = 1 << 24 /* of any dimension */
};

/* Reads `folder`/config.json, or what stands for it in a GGUF file of that name. The record lives in `a`. */
enum status config_read(struct arena *a, const char *folder, struct model_config *ret_config,
                        struct err *err) MUST_USE;

/* The same from text; `name` is used in messages. */
enum status config_parse(struct arena *a, struct str text, const char *name,
                         struct model_config *ret_config, struct err *err) MUST_USE;

/* ---- for the readers of families ---- */

struct config_reader {
    const char *name; /* of the file */
    const struct tree *at;
    struct err *err;
};

/* A whole number from 1 to CONFIG_WIDTH_MAX; `fallback` when the key is missing or null, and an error
 * when that is 0. */
enum status config_size(const struct config_reader *r, const char *key, size_t fallback,
                        size_t *ret) MUST_USE;
enum status config_real(const struct config_reader *r, const char *key, double fallback,
                        double *ret) MUST_USE;
enum status config_bool(const struct config_reader *r, const char *key, bool fallback,
                        bool *ret) MUST_USE;

/* What the Qwen3-VL and Qwen3.5 families have beside the shared keys (config_qwen.c): layer_types and
 * the sizes of Gated DeltaNet, M-RoPE, the vision tower. `root` reads the whole file, `text` the object
 * of the text model. */
enum status config_read_qwen(struct arena *a, const struct config_reader *root,
                             const struct config_reader *text, struct model_config *c) MUST_USE;

#endif
