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

#endif
