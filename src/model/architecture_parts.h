// SPDX-License-Identifier: Apache-2.0
/*
 * Inside of architecture.c, shared with architecture_experts.c and nobody else: sizes are read from config.json
 * into a table, tensors are rows whose dimensions name sizes.
 */
#ifndef ASSAY_MODEL_ARCHITECTURE_PARTS_H
#define ASSAY_MODEL_ARCHITECTURE_PARTS_H

#include "model/architecture.h"

/* Sizes that shapes are made of. */
enum size {
    NO_SIZE = 0,
    ONE,
    VOCAB,
    HIDDEN,
    INNER,    /* intermediate_size */
    QUERY,    /* heads * head_dim */
    QUERY_2,  /* twice that: query and gate */
    KV,       /* key-value heads * head_dim */
    HEAD_DIM, /* of one head */
    DELTA_QKV,
    DELTA_V,
    DELTA_HEADS, /* value heads */
    DELTA_HEAD_DIM,
    KERNEL,
    V_HIDDEN,
    V_HIDDEN_3,
    V_INNER,
    V_MERGED, /* hidden * merge size squared */
    V_OUT,
    V_PLACES,
    V_CHANNELS,
    V_TIME,
    V_PATCH,
    EXPERTS,
    HEADS,
    EXPERT_INNER,   /* moe_intermediate_size */
    EXPERT_INNER_2, /* gate and up in one */
    SHARED_INNER,
    Q_RANK,  /* q_lora_rank */
    KV_RANK, /* kv_lora_rank */
    KV_DOWN, /* that and the rotated part of a key */
    KV_UP,   /* heads * (unrotated part of a key + value) */
    Q_UP,    /* heads * (unrotated + rotated part of a query) */
    V_ALL,   /* heads * v_head_dim */
    SIZE_COUNT
};

/* When a row is there; a bit set of facts about the family, the config and the layer. */
enum {
    ALWAYS = 0,
    QKV_BIAS = 1 << 0,
    O_BIAS = 1 << 1,
    MLP_BIAS = 1 << 2,
    QK_NORM = 1 << 3,
    FULL = 1 << 4,    /* a layer of softmax attention without a gate */
    GATED = 1 << 5,   /* ... with an output gate in q_proj */
    DELTA = 1 << 6,   /* a layer of gated delta rule */
    ATTENDS = 1 << 7, /* FULL or GATED */
    HEAD = 1 << 8,
    DENSE = 1 << 9, /* the layer's mlp is one, not experts */
    SINKS = 1 << 10,
    LATENT = 1 << 11, /* keys and values through a low rank */
    Q_DIRECT = 1 << 12,
    Q_LOW = 1 << 13, /* queries too */
    ROUTER = 1 << 14,
    CORRECTED = 1 << 15, /* a bias of the routing scores */
    SHARED_ONE = 1 << 16,
    SHARED_SOME = 1 << 17,
    FUSED = 1 << 18 /* all experts of a layer in one tensor */
};

struct row {
    const char *name;
    unsigned when; /* all of these bits */
    enum size dims[ARCHITECTURE_RANK];
};

/* Where a bias comes from. */
enum bias {
    BIAS_NEVER = 0,
    BIAS_ALWAYS,
    BIAS_BY_KEY, /* attention_bias, mlp_bias: false where it is absent */
    BIAS_UNLESS  /* the same, true where it is absent; qkv_bias of Qwen2-MoE */
};

/* How a family names the experts of a layer. */
enum experts {
    EXPERTS_NONE = 0,
    EXPERTS_MIXTRAL,
    EXPERTS_QWEN2,
    EXPERTS_QWEN3,
    EXPERTS_DEEPSEEK_V2,
    EXPERTS_DEEPSEEK_V3,
    EXPERTS_GPT_OSS
};

struct family {
    const char *model_type;
    bool wrapper; /* text_config and vision_config inside */
    enum bias qkv;
    enum bias o;
    enum bias mlp;
    bool qk_norm;
    bool gated;        /* gated attention among layers of the delta rule */
    bool deepstack;    /* more mergers, deepstack_visual_indexes */
    uint64_t kv_heads; /* of a config without the key; 0: as many as heads */
    uint64_t head_dim; /* of a config without the key; 0: hidden_size / heads */
    enum experts experts;
    const char *qkv_key; /* of the bias; NULL: attention_bias */
};

struct builder {
    struct arena *arena;
    const struct family *family;
    struct architecture *model;
    uint64_t sizes[SIZE_COUNT];
    unsigned facts;
    struct err *err;
};

/* A key that is missing or null gives `fallback`; 0 as fallback means that it must be there. */
enum status architecture_number(struct builder *b, const struct tree *t, const char *key,
                                uint64_t fallback, uint64_t *ret) MUST_USE;

/* Those of `count` rows whose bits are all in `facts`, `prefix` in front of their names. */
void architecture_add_rows(struct builder *b, const char *prefix, const struct row *rows,
                           size_t count, unsigned facts);

/* Sizes of experts and of attention through a low rank. */
enum status architecture_expert_sizes(struct builder *b, const struct tree *t) MUST_USE;

/* Takes DENSE out of *facts of a layer with experts and puts in what it has instead. */
enum status architecture_expert_facts(struct builder *b, const struct tree *t, uint64_t layer,
                                      unsigned *facts) MUST_USE;

/* Tensors that only families with experts have, of one layer. */
void architecture_expert_rows(struct builder *b, const char *prefix, unsigned facts);

#endif
