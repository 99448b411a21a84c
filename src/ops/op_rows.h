// SPDX-License-Identifier: Apache-2.0
/* The rows of op_table[], each defined in the file of its family. */
#ifndef ASSAY_OPS_OP_ROWS_H
#define ASSAY_OPS_OP_ROWS_H

#include "ops/op.h"

extern const struct op op_gemm;   /* op_gemm.c */
extern const struct op op_linear; /* op_gemm.c */

#endif
