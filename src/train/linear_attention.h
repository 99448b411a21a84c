// SPDX-License-Identifier: Apache-2.0
/*
 * The two token mixers of Qwen3.5: Gated DeltaNet ("linear_attention") and attention whose output is
 * gated ("full_attention" of that family). Parameters and their order are those of
 * modeling_qwen3_5.py of huggingface/transformers.
 */
#ifndef ASSAY_TRAIN_LINEAR_ATTENTION_H
#define ASSAY_TRAIN_LINEAR_ATTENTION_H

#include "train/maker.h"

/*
 *   q, k, v = silu(conv1d(in_proj_qkv(x)));  z = in_proj_z(x)
 *   beta = sigmoid(in_proj_b(x));  g = -exp(A_log) softplus(in_proj_a(x) + dt_bias)
 *   y = out_proj(norm(gated_delta_rule(q, k, v, g, beta), z))
 */
struct linear_attention {
    const char *module;            /* "model.layers.0.linear_attn" */
    struct param *dt_bias, *a_log; /* [v_heads] */
    struct param *conv;            /* [channels, 1, taps] */
    struct param *norm;            /* [dim_v] */
    struct linear out, qkv, z, b, a;
};

maker_layer_fn maker_linear_attention;

/*
 * q_proj has 2 heads head_dim rows: for each head its query, then its gate.
 *   y = o_proj(attention(rope(norm(q)), rope(norm(k)), v) sigmoid(gate))
 */
maker_layer_fn maker_gated_attention; /* makes a struct attention whose q is that wide */

#endif
