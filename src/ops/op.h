// SPDX-License-Identifier: Apache-2.0
/*
 * Operators as data: what each takes and gives, its definition in float64 forward and backward, and
 * how far a correct implementation in a smaller format may be off.
 *
 * Everything is dense and row-major (last dimension fastest); transposes, leading dimensions and
 * strides are a matter of who lays the operands out in memory, not of the operator. Tensors carry
 * doubles here; inputs have been rounded to the number format they are handed over in, so that the
 * reference and the implementation under trial start from the same numbers.
 *
 * Path of one probe: op_case_init, op_case_set..., op_case_check -> op_problem_make -> inputs by
 * op_problem_fill (or from a file) -> op_problem_solve -> the implementation's tensors go to
 * judge_op.h. Nothing here touches a device.
 */
#ifndef ASSAY_OPS_OP_H
#define ASSAY_OPS_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/err.h"
#include "base/str.h"

enum {
    OP_PARAMS_MAX = 24,
    OP_INPUTS_MAX = 8,
    OP_OUTPUTS_MAX = 4,
    OP_RANK_MAX = 5
};

enum op_param_kind {
    OP_PARAM_SIZE = 0, /* a positive integer that shapes are made of */
    OP_PARAM_INT,
    OP_PARAM_REAL,
    OP_PARAM_FLAG,   /* 0 or 1 */
    OP_PARAM_CHOICE, /* index into `choices` */
    OP_PARAM_KIND_COUNT
};

/* A size or an attribute. Integers are exact in a double up to 2^53. */
struct op_param {
    const char *name;
    enum op_param_kind kind;
    double min, max, fallback;
    const char *const *choices; /* OP_PARAM_CHOICE: names, NULL-terminated */
    const char *what;           /* half a sentence for help and documentation */
};

/* Which number format a tensor has, given the format of the case. */
enum op_dtype_role {
    OP_DTYPE_CASE = 0, /* the case's; outputs and gradients of an 8-bit case are bfloat16 */
    OP_DTYPE_WIDE,     /* float32, or float64 in a float64 case: gates, states, statistics */
    OP_DTYPE_INDEX,    /* int64 */
    OP_DTYPE_BOOL,
    OP_DTYPE_ROLE_COUNT
};

struct op_tensor {
    const char *name;
    const char *shape; /* "batch m k": one expression over sizes per dimension, with + - * / ( );
                        * "" is a scalar */
    enum op_dtype_role role;
    bool gradient;       /* inputs: has a gradient; outputs: is given one (grad_output) */
    const char *present; /* a parameter that must not be 0 for the tensor to exist; NULL: always */
    const char *what;
};

/* How inputs are made. */
enum op_values {
    OP_VALUES_RANDOM = 0, /* standard normal */
    OP_VALUES_ONE_SIGN,   /* |normal|: sums grow as far as they can */
    OP_VALUES_CANCEL,     /* neighbours nearly cancel: sums small beside their terms */
    OP_VALUES_DENORMAL,   /* below the smallest normal number of the format; may be flushed to 0 */
    OP_VALUES_HUGE,       /* products near the format's end, sums of products still finite */
    OP_VALUES_TINY,       /* largest magnitude a few steps above the smallest normal number */
    OP_VALUES_GRID,       /* small integers: the result is known bit for bit where exact_on_grid */
    OP_VALUES_COUNT
};

/* What the implementation may do inside. */
enum op_math {
    OP_MATH_DEFAULT =
        0,        /* accumulate formats of 16 bits and fewer in float32, others in themselves */
    OP_MATH_TF32, /* float32 operands of products rounded to 11 significant bits */
    OP_MATH_COUNT
};

struct op;

struct op_case {
    const struct op *op;
    enum dtype dtype;
    enum op_values values;
    enum op_math math;
    uint64_t seed;
    double value[OP_PARAMS_MAX]; /* by position in op->params */
};

/* A tensor of one problem. Absent ones have spec NULL and count 0. */
struct op_array {
    const struct op_tensor *spec;
    enum dtype dtype;
    size_t rank;
    int64_t dim[OP_RANK_MAX];
    size_t count; /* product of dim; 1 for a scalar */
    double *value;
    double *bound;    /* results: largest |error| allowed for each element; NULL for inputs */
    double rms_limit; /* results: largest RMS(error)/RMS(value); 0 when the operator sets none */
};

/* One case with its numbers. The four lists have the positions of op->inputs and op->outputs. */
struct op_problem {
    struct op_case c;
    struct arena *arena; /* scratch of the references comes from here and is rewound */
    struct op_array input[OP_INPUTS_MAX];
    struct op_array output[OP_OUTPUTS_MAX];
    struct op_array grad_output[OP_OUTPUTS_MAX]; /* given, like the inputs */
    struct op_array grad[OP_INPUTS_MAX];         /* gradient of each input that has one */
    double u_acc;                                /* unit roundoff of accumulation */
    double u_mid; /* unit roundoff of intermediates that an implementation may store */
    double u_in;  /* of the operands of a product: 0, or 2^-11 under OP_MATH_TF32 */
};

/* Constraints between parameters: writes a sentence when a combination makes no sense. */
typedef enum status op_check_fn(const struct op_case *c, struct err *err);
typedef void op_step_fn(struct op_problem *p); /* results are zero before forward and backward */

struct op {
    const char *name; /* "rms_norm" */
    const char *what; /* its formula in one line */
    const struct op_param *params;
    size_t param_count;
    const struct op_tensor *inputs;
    size_t input_count;
    const struct op_tensor *outputs;
    size_t output_count;
    bool exact_on_grid; /* sums of products of inputs only: no division, no function */
    bool has_fp8;       /* defined for 8-bit operands */
    op_check_fn *check; /* may be NULL */
    op_step_fn *fill;   /* after the common filling: indices, masks, gates; may be NULL */
    op_step_fn *forward;
    op_step_fn *backward; /* NULL: the operator is not differentiated */
    op_step_fn *bound;    /* after both: fills `bound` of outputs and grads without the final
                           * rounding, which op_problem_solve adds */
};

/* All operators, sorted by family as in documentation; NULL-terminated. */
extern const struct op *const op_table[];

const struct op *op_find(struct str name); /* NULL when unknown */

/* ---- cases ---- */

void op_case_init(struct op_case *c, const struct op *op, enum dtype dtype);

/* Sets one parameter from text: a number, true/false, or a choice's name. ST_USAGE with the allowed
 * range, or with the operator's parameters when there is none of that name. */
enum status op_case_set(struct op_case *c, struct str name, struct str value,
                        struct err *err) MUST_USE;

/* The value of a parameter the operator has; the name must exist. */
double op_get(const struct op_case *c, const char *name);
int64_t op_int(const struct op_case *c, const char *name);
bool op_flag(const struct op_case *c, const char *name);

/* Ranges, the operator's own constraints, a format the operator is defined for, and at most
 * 2^31 elements in all tensors together. */
enum status op_case_check(const struct op_case *c, struct err *err) MUST_USE;

/* One line that op_case_parse reads back: "gemm bfloat16 values=huge seed=7 m=17 n=16 k=64".
 * Random values, seed 0 and parameters at their fallback are left out, except sizes. */
const char *op_case_text(struct arena *a, const struct op_case *c);
enum status op_case_parse(struct str text, struct op_case *ret_case, struct err *err) MUST_USE;

/* "random", "one_sign", ... */
const char *op_values_name(enum op_values v);
bool op_values_find(struct str name, enum op_values *ret_values);

/* ---- problems ---- */

/* Shape of one tensor of a checked case; absent tensors get spec NULL. No memory is taken. */
enum status op_array_shape(const struct op_case *c, const struct op_tensor *spec, bool is_result,
                           struct op_array *ret_array, struct err *err) MUST_USE;

/* Shapes and memory of all tensors, inputs zero, results unset. */
enum status op_problem_make(struct arena *a, const struct op_case *c,
                            struct op_problem *ret_problem, struct err *err) MUST_USE;

/* Inputs and grad_outputs from values and seed, each rounded to its format. The same case gives the
 * same numbers on every machine. */
void op_problem_fill(struct op_problem *p);

/* Runs forward, backward (where there is one and `with_gradients`) and the bounds. */
void op_problem_solve(struct op_problem *p, bool with_gradients);

/* By name among the inputs or outputs; NULL when absent. */
struct op_array *op_input(struct op_problem *p, const char *name);
struct op_array *op_output(struct op_problem *p, const char *name);

#endif
