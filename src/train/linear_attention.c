// SPDX-License-Identifier: Apache-2.0
#include "train/linear_attention.h"

void *maker_linear_attention(struct maker *mk, const char *module)
{
    const struct linear_attention_config *c = &mk->config->linear_attention;
    struct arena *a = mk->arena;
    struct linear_attention *l = arena_alloc(a, sizeof *l);
    size_t hidden = mk->config->hidden, v_width = c->v_heads * c->dim_v;
    size_t channels = 2 * c->heads * c->dim_k + v_width;
    l->module = arena_fmt(a, "%s.linear_attn", module);
    l->dt_bias = maker_param(mk, arena_fmt(a, "%s.dt_bias", l->module), INIT_ONE, 1, &c->v_heads);
    l->a_log = maker_param(mk, arena_fmt(a, "%s.A_log", l->module), INIT_LOG_UNIFORM, 1,
                           &c->v_heads);
    l->conv = maker_param(mk, arena_fmt(a, "%s.conv1d.weight", l->module), INIT_NORMAL, 3,
                          (const size_t[]){channels, 1, c->taps});
    l->norm = maker_param(mk, arena_fmt(a, "%s.norm.weight", l->module), INIT_ONE, 1, &c->dim_v);
    maker_linear(mk, &l->out, arena_fmt(a, "%s.out_proj", l->module), hidden, v_width, false);
    maker_linear(mk, &l->qkv, arena_fmt(a, "%s.in_proj_qkv", l->module), channels, hidden, false);
    maker_linear(mk, &l->z, arena_fmt(a, "%s.in_proj_z", l->module), v_width, hidden, false);
    maker_linear(mk, &l->b, arena_fmt(a, "%s.in_proj_b", l->module), c->v_heads, hidden, false);
    maker_linear(mk, &l->a, arena_fmt(a, "%s.in_proj_a", l->module), c->v_heads, hidden, false);
    return l;
}

void *maker_gated_attention(struct maker *mk, const char *module)
{
    const struct model_config *c = mk->config;
    struct arena *a = mk->arena;
    struct attention *l = arena_alloc(a, sizeof *l);
    size_t q_width = c->heads * c->head_dim, kv_width = c->kv_heads * c->head_dim;
    l->module = arena_fmt(a, "%s.self_attn", module);
    maker_linear(mk, &l->q, arena_fmt(a, "%s.q_proj", l->module), 2 * q_width, c->hidden,
                 c->qkv_bias);
    maker_linear(mk, &l->k, arena_fmt(a, "%s.k_proj", l->module), kv_width, c->hidden, c->qkv_bias);
    maker_linear(mk, &l->v, arena_fmt(a, "%s.v_proj", l->module), kv_width, c->hidden, c->qkv_bias);
    maker_linear(mk, &l->o, arena_fmt(a, "%s.o_proj", l->module), c->hidden, q_width, c->o_bias);
    maker_norm(mk, &l->q_norm, arena_fmt(a, "%s.q_norm", l->module), c->norm, c->head_dim);
    maker_norm(mk, &l->k_norm, arena_fmt(a, "%s.k_norm", l->module), c->norm, c->head_dim);
    return l;
}
