// SPDX-License-Identifier: Apache-2.0
/*
 * Values of the block types of GGUF: a block of 32 or 256 elements shares one or two float16 scales,
 * those of 256 have smaller scales inside. Values are computed as the reference does and rounded to
 * float32 once.
 *
 * Read: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ1_S to IQ4_XS, TQ1_0, TQ2_0, MXFP4, NVFP4. Not read: Q8_1 and
 * Q8_K (of activations, never in files), Q1_0 (no reference reader to compare with).
 *
 * Source: ggml/src/ggml-common.h (layouts), ggml/src/ggml-quants.c (dequantize_row_*).
 */
#ifndef ASSAY_MODEL_TENSOR_BLOCK_H
#define ASSAY_MODEL_TENSOR_BLOCK_H

#include <stdbool.h>
#include <stddef.h>

#include "model/tensor_type.h"

enum {
    TENSOR_BLOCK_MAX = 256 /* elements of the largest block */
};

/* True when tensor_block_values() knows the type. */
bool tensor_block_readable(const struct tensor_type *t);

/* One block at `p` (t->block_bytes of them) to t->per_block values. Only for readable types. */
void tensor_block_values(const struct tensor_type *t, const unsigned char *p,
                         float ret_values[TENSOR_BLOCK_MAX]);

#endif
