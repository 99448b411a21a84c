// SPDX-License-Identifier: Apache-2.0
/* The rows of op_table[], each defined in the file of its family. */
#ifndef ASSAY_OPS_OP_ROWS_H
#define ASSAY_OPS_OP_ROWS_H

#include "ops/op.h"

/* op_gemm.c */
extern const struct op op_gemm;
extern const struct op op_linear;
/* op_norm.c */
extern const struct op op_rms_norm;
extern const struct op op_layer_norm;
/* op_loss.c */
extern const struct op op_softmax;
extern const struct op op_cross_entropy;
/* op_pointwise.c */
extern const struct op op_swiglu;
extern const struct op op_rope;
extern const struct op op_attention;        /* op_attention.c */
extern const struct op op_gated_delta_rule; /* op_delta.c */
/* op_conv.c */
extern const struct op op_conv3d;
extern const struct op op_patch_embed;
extern const struct op op_causal_conv1d;
/* op_index.c, op_interpolate.c */
extern const struct op op_embedding;
extern const struct op op_scatter_reduce;
extern const struct op op_interpolate;
/* op_optim.c */
extern const struct op op_adamw;
extern const struct op op_clip_grad_norm;

#endif
