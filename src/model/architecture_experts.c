// SPDX-License-Identifier: Apache-2.0
/* Models with experts, and the attention of DeepSeek: which layers have them, how many, and their tensors. */
#include "base/attr.h"
#include "base/str.h"

#include "model/architecture_parts.h"

enum {
    EXPERTS_MAX = 4096,
    EXPERT_TENSORS_MAX = 1000000 /* of a model */
};

static const struct row layer_rows[] = {
    {"self_attn.sinks", SINKS, {HEADS}},
    {"self_attn.q_proj.weight", LATENT | Q_DIRECT, {Q_UP, HIDDEN}},
    {"self_attn.q_a_proj.weight", LATENT | Q_LOW, {Q_RANK, HIDDEN}},
    {"self_attn.q_a_proj.bias", LATENT | Q_LOW | QKV_BIAS, {Q_RANK}},
    {"self_attn.q_a_layernorm.weight", LATENT | Q_LOW, {Q_RANK}},
    {"self_attn.q_b_proj.weight", LATENT | Q_LOW, {Q_UP, Q_RANK}},
    {"self_attn.kv_a_proj_with_mqa.weight", LATENT, {KV_DOWN, HIDDEN}},
    {"self_attn.kv_a_proj_with_mqa.bias", LATENT | QKV_BIAS, {KV_DOWN}},
    {"self_attn.kv_a_layernorm.weight", LATENT, {KV_RANK}},
    {"self_attn.kv_b_proj.weight", LATENT, {KV_UP, KV_RANK}},
    {"self_attn.o_proj.weight", LATENT, {HIDDEN, V_ALL}},
    {"self_attn.o_proj.bias", LATENT | O_BIAS, {HIDDEN}},
    {"mlp.gate.weight", ROUTER, {EXPERTS, HIDDEN}},
    {"mlp.gate.e_score_correction_bias", ROUTER | CORRECTED, {EXPERTS}},
    {"mlp.shared_expert.gate_proj.weight", SHARED_ONE, {SHARED_INNER, HIDDEN}},
    {"mlp.shared_expert.up_proj.weight", SHARED_ONE, {SHARED_INNER, HIDDEN}},
    {"mlp.shared_expert.down_proj.weight", SHARED_ONE, {HIDDEN, SHARED_INNER}},
    {"mlp.shared_expert_gate.weight", SHARED_ONE, {ONE, HIDDEN}},
    {"mlp.shared_experts.gate_proj.weight", SHARED_SOME, {SHARED_INNER, HIDDEN}},
    {"mlp.shared_experts.up_proj.weight", SHARED_SOME, {SHARED_INNER, HIDDEN}},
    {"mlp.shared_experts.down_proj.weight", SHARED_SOME, {HIDDEN, SHARED_INNER}},
    {"mlp.router.weight", FUSED, {EXPERTS, HIDDEN}},
    {"mlp.router.bias", FUSED, {EXPERTS}},
    {"mlp.experts.gate_up_proj", FUSED, {EXPERTS, HIDDEN, EXPERT_INNER_2}},
    {"mlp.experts.gate_up_proj_bias", FUSED, {EXPERTS, EXPERT_INNER_2}},
    {"mlp.experts.down_proj", FUSED, {EXPERTS, EXPERT_INNER, HIDDEN}},
    {"mlp.experts.down_proj_bias", FUSED, {EXPERTS, HIDDEN}},
};

static const struct row mixtral_router[] = {
    {"block_sparse_moe.gate.weight", ALWAYS, {EXPERTS, HIDDEN}},
};

static const struct row mixtral_expert[] = {
    {"w1.weight", ALWAYS, {EXPERT_INNER, HIDDEN}},
    {"w2.weight", ALWAYS, {HIDDEN, EXPERT_INNER}},
    {"w3.weight", ALWAYS, {EXPERT_INNER, HIDDEN}},
};

static const struct row expert[] = {
    {"gate_proj.weight", ALWAYS, {EXPERT_INNER, HIDDEN}},
    {"up_proj.weight", ALWAYS, {EXPERT_INNER, HIDDEN}},
    {"down_proj.weight", ALWAYS, {HIDDEN, EXPERT_INNER}},
};

static bool is_deepseek(const struct family *f)
{
    return f->experts == EXPERTS_DEEPSEEK_V2 || f->experts == EXPERTS_DEEPSEEK_V3;
}

/* One thing under several names; that of the family's own configuration is the last. */
static enum status number_of_experts(struct builder *b, const struct tree *t, uint64_t fallback,
                                     uint64_t *ret)
{
    static const char *const keys[] = {"n_routed_experts", "num_experts", "num_local_experts"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (tree_get(t, keys[i]) != NULL) {
            TRY(architecture_number(b, t, keys[i], 0, ret));
            return *ret <= EXPERTS_MAX
                       ? ST_OK
                       : err_set(b->err, ST_FORMAT, "%s of config.json is absurd", keys[i]);
        }
    }
    *ret = fallback;
    return ST_OK;
}

static enum status latent_sizes(struct builder *b, const struct tree *t)
{
    uint64_t *s = b->sizes;
    uint64_t plain;
    uint64_t rotated;
    uint64_t value;
    TRY(architecture_number(b, t, "kv_lora_rank", 512, &s[KV_RANK]));
    TRY(architecture_number(b, t, "qk_nope_head_dim", 128, &plain));
    TRY(architecture_number(b, t, "qk_rope_head_dim", 64, &rotated));
    TRY(architecture_number(b, t, "v_head_dim", 128, &value));
    const struct tree *rank = tree_get(t, "q_lora_rank");
    bool direct = rank != NULL && rank->kind == TREE_SCALAR && rank->value.kind == VALUE_NULL;
    if (!direct) {
        TRY(architecture_number(b, t, "q_lora_rank", 1536, &s[Q_RANK]));
    }
    b->facts |= direct ? Q_DIRECT : Q_LOW;
    s[KV_DOWN] = s[KV_RANK] + rotated;
    s[KV_UP] = s[HEADS] * (plain + value);
    s[Q_UP] = s[HEADS] * (plain + rotated);
    s[V_ALL] = s[HEADS] * value;
    return ST_OK;
}

enum status architecture_expert_sizes(struct builder *b, const struct tree *t)
{
    static const struct {
        uint64_t experts, inner, shared; /* of a config without the keys */
    } defaults[] = {
        [EXPERTS_MIXTRAL] = {8, 0, 0},          [EXPERTS_QWEN2] = {60, 1408, 5632},
        [EXPERTS_QWEN3] = {128, 768, 0},        [EXPERTS_DEEPSEEK_V2] = {64, 1407, 2},
        [EXPERTS_DEEPSEEK_V3] = {256, 2048, 1}, [EXPERTS_GPT_OSS] = {128, 0, 0},
    };
    enum experts kind = b->family->experts;
    uint64_t *s = b->sizes;
    TRY(number_of_experts(b, t, defaults[kind].experts, &s[EXPERTS]));
    s[EXPERT_INNER] = s[INNER];
    if (defaults[kind].inner != 0) {
        TRY(architecture_number(b, t, "moe_intermediate_size", defaults[kind].inner,
                                &s[EXPERT_INNER]));
    }
    s[EXPERT_INNER_2] = 2 * s[EXPERT_INNER];
    if (kind == EXPERTS_QWEN2) {
        TRY(architecture_number(b, t, "shared_expert_intermediate_size", defaults[kind].shared,
                                &s[SHARED_INNER]));
    }
    if (is_deepseek(b->family)) {
        uint64_t shared;
        TRY(architecture_number(b, t, "n_shared_experts", defaults[kind].shared, &shared));
        s[SHARED_INNER] = shared * s[EXPERT_INNER];
        TRY(latent_sizes(b, t));
    }
    return ST_OK;
}

static bool is_listed(const struct tree *list, uint64_t layer)
{
    for (const struct tree *e = list != NULL ? list->child : NULL; e != NULL; e = e->next) {
        if (e->value.kind == VALUE_INT && (uint64_t)e->value.integer == layer) {
            return true;
        }
    }
    return false;
}

/* Every decoder_sparse_step-th layer but those of mlp_only_layers; from first_k_dense_replace on. */
static enum status is_sparse(struct builder *b, const struct tree *t, uint64_t layer, bool *ret)
{
    uint64_t step;
    *ret = true;
    if (b->family->experts == EXPERTS_QWEN2 || b->family->experts == EXPERTS_QWEN3) {
        TRY(architecture_number(b, t, "decoder_sparse_step", 1, &step));
        *ret = (layer + 1) % step == 0 && !is_listed(tree_get(t, "mlp_only_layers"), layer);
    }
    if (is_deepseek(b->family)) {
        const struct tree *first = tree_get(t, "first_k_dense_replace");
        uint64_t dense = b->family->experts == EXPERTS_DEEPSEEK_V3 ? 3 : 0;
        if (first != NULL && first->value.kind == VALUE_INT && first->value.integer >= 0) {
            dense = (uint64_t)first->value.integer;
        }
        *ret = layer >= dense;
    }
    return ST_OK;
}

enum status architecture_expert_facts(struct builder *b, const struct tree *t, uint64_t layer,
                                      unsigned *facts)
{
    static const unsigned instead[] = {
        [EXPERTS_MIXTRAL] = 0,
        [EXPERTS_QWEN2] = ROUTER | SHARED_ONE,
        [EXPERTS_QWEN3] = ROUTER,
        [EXPERTS_DEEPSEEK_V2] = ROUTER | SHARED_SOME,
        [EXPERTS_DEEPSEEK_V3] = ROUTER | CORRECTED | SHARED_SOME,
        [EXPERTS_GPT_OSS] = FUSED,
    };
    bool sparse;
    TRY(is_sparse(b, t, layer, &sparse));
    if (is_deepseek(b->family)) {
        *facts = (*facts & ~(unsigned)(FULL | ATTENDS)) | LATENT;
    }
    *facts |= b->family->experts == EXPERTS_GPT_OSS ? SINKS : 0U;
    if (sparse) {
        *facts = (*facts & ~(unsigned)DENSE) | instead[b->family->experts];
    }
    if (b->model->tensors.count + b->sizes[EXPERTS] * 3 > EXPERT_TENSORS_MAX) {
        return err_set(b->err, ST_FORMAT, "config.json describes more than %d tensors of experts",
                       EXPERT_TENSORS_MAX);
    }
    return ST_OK;
}

void architecture_expert_rows(struct builder *b, const char *prefix, unsigned facts)
{
    bool mixtral = b->family->experts == EXPERTS_MIXTRAL;
    if (b->family->experts == EXPERTS_NONE) {
        return;
    }
    architecture_add_rows(b, prefix, layer_rows, ARRAY_LEN(layer_rows), facts);
    if (mixtral) {
        architecture_add_rows(b, prefix, mixtral_router, ARRAY_LEN(mixtral_router), facts);
    }
    bool apart = mixtral || (facts & ROUTER) != 0;
    for (uint64_t i = 0; apart && i < b->sizes[EXPERTS]; i++) {
        const char *in = arena_fmt(b->arena, "%s%s.experts.%d.", prefix,
                                   mixtral ? "block_sparse_moe" : "mlp", (int)i);
        architecture_add_rows(b, in, mixtral ? mixtral_expert : expert,
                              mixtral ? ARRAY_LEN(mixtral_expert) : ARRAY_LEN(expert), facts);
    }
}
