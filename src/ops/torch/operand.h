// SPDX-License-Identifier: Apache-2.0
/* Tensors in the file shared with Python: from doubles to a layout, and back from an answer. */
#ifndef ASSAY_OPS_TORCH_OPERAND_H
#define ASSAY_OPS_TORCH_OPERAND_H

#include <stdint.h>

#include "base/tree.h"

#include "ops/op.h"
#include "ops/torch/trial.h"

struct torch_operand {
    const char *name;
    enum dtype dtype;
    size_t rank;
    int64_t dim[OP_RANK_MAX], stride[OP_RANK_MAX]; /* elements */
    uint64_t offset;                               /* in the shared file */
    uint64_t bytes; /* from the first to the last element; gaps included */
};

/* Strides and extent of an array in a layout; nothing is written. */
void torch_operand_plan(const struct op_array *array, enum torch_layout layout, uint64_t offset,
                        struct torch_operand *ret_operand);

/* Writes the elements; every other byte of the extent becomes 0xff, a NaN in floating point. */
void torch_operand_write(const struct torch_operand *o, const struct op_array *array,
                         unsigned char *shared);

/* One entry of an answer's `results` ({dtype, shape, offset, bytes}) as doubles, or a sentence about
 * what does not fit `array`. `got` has array->count elements. */
const char *torch_result_read(struct torch_agent *agent, const struct tree *result,
                              const struct op_array *array, double *got);

#endif
