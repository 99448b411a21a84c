// SPDX-License-Identifier: Apache-2.0
/*
 * Tensors that somebody else made for an operator: which of its tensors they are, the sizes that
 * their shapes imply, and whether shapes and number formats fit together. Bytes are not touched.
 */
#ifndef ASSAY_OPS_OP_GIVEN_H
#define ASSAY_OPS_OP_GIVEN_H

#include "base/err.h"
#include "base/str.h"

#include "ops/op.h"

enum op_given_role {
    OP_GIVEN_INPUT = 0,
    OP_GIVEN_OUTPUT,
    OP_GIVEN_GRAD,        /* gradient of an input: a result */
    OP_GIVEN_GRAD_OUTPUT, /* gradient of an output: given to the backward pass */
    OP_GIVEN_ROLE_COUNT
};

enum {
    OP_GIVEN_MAX = 2 * (OP_INPUTS_MAX + OP_OUTPUTS_MAX)
};

struct op_given {
    enum op_given_role role;
    size_t position; /* in op->inputs (input, grad) or op->outputs (output, grad_output) */
    enum dtype dtype;
    size_t rank;
    int64_t dim[OP_RANK_MAX];
    const void *bytes; /* for the caller */
};

struct op_given_list {
    struct op_given items[OP_GIVEN_MAX];
    size_t count;
};

/* "input.x", "output.y", "grad.x", "grad_output.y" to role and position. ST_USAGE with the names
 * that the operator has. */
enum status op_given_name(const struct op *op, struct str name, enum op_given_role *ret_role,
                          size_t *ret_position, struct err *err) MUST_USE;

/* That tensor, or NULL when it was not given. */
const struct op_given *op_given_find(const struct op_given_list *list, enum op_given_role role,
                                     size_t position);

/*
 * Completes a case whose attributes are set: its number format from the first input of that role,
 * parameters that stand for the presence of a tensor (1 where it is there and nothing else was set),
 * and all sizes from shapes. `set[i]`: parameter i was given by name. Then checks the case, and every
 * tensor's shape and format against it. ST_FORMAT with the tensor, what it is, what was expected.
 */
enum status op_given_case(struct op_case *c, const bool *set, const struct op_given_list *list,
                          struct err *err) MUST_USE;

#endif
