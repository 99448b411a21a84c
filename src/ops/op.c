// SPDX-License-Identifier: Apache-2.0
/* The table of operators, and the frame around their references: memory, final rounding. */
#include "ops/op.h"

#include <math.h>

#include "ops/op_inside.h"
#include "ops/op_rows.h"

/* clang-format off */
const struct op *const op_table[] = {
    &op_gemm,
    &op_linear,
    &op_rms_norm,
    &op_layer_norm,
    &op_softmax,
    &op_cross_entropy,
    &op_rope,
    &op_swiglu,
    &op_attention,
    &op_gated_delta_rule,
    &op_conv3d,
    &op_patch_embed,
    &op_causal_conv1d,
    &op_embedding,
    &op_scatter_reduce,
    &op_interpolate,
    &op_adamw,
    &op_clip_grad_norm,
    NULL,
};

/* clang-format on */

const struct op *op_find(struct str name)
{
    for (size_t i = 0; op_table[i]; i++) {
        if (str_is(name, op_table[i]->name)) {
            return op_table[i];
        }
    }
    return NULL;
}

static struct op_array *find_array(struct op_array *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i].spec && str_is(str_of(name), list[i].spec->name)) {
            return &list[i];
        }
    }
    return NULL;
}

struct op_array *op_input(struct op_problem *p, const char *name)
{
    return find_array(p->input, p->c.op->input_count, name);
}

struct op_array *op_output(struct op_problem *p, const char *name)
{
    return find_array(p->output, p->c.op->output_count, name);
}

static void take_memory(struct arena *a, struct op_array *array, bool is_result)
{
    if (!array->spec) {
        return;
    }
    array->value = arena_array(a, array->count, sizeof(double));
    if (is_result) {
        array->bound = arena_array(a, array->count, sizeof(double));
    }
}

static void set_roundoffs(struct op_problem *p)
{
    const struct dtype_info *info = dtype_info(p->c.dtype);
    p->u_acc = dtype_unit_roundoff(info->size < 4 ? DTYPE_F32 : p->c.dtype);
    p->u_mid = dtype_unit_roundoff(info->size == 1 ? DTYPE_BF16 : p->c.dtype);
    p->u_in = p->c.math == OP_MATH_TF32 ? 0x1p-11 : 0.0;
}

enum status op_problem_make(struct arena *a, const struct op_case *c,
                            struct op_problem *ret_problem, struct err *err)
{
    const struct op *op = c->op;
    TRY(op_case_check(c, err));
    *ret_problem = (struct op_problem){.c = *c, .arena = a};
    struct op_problem *p = ret_problem;
    set_roundoffs(p);
    for (size_t i = 0; i < op->input_count; i++) {
        TRY(op_array_shape(c, &op->inputs[i], false, &p->input[i], err));
        take_memory(a, &p->input[i], false);
        if (op->backward && op->inputs[i].gradient) {
            TRY(op_array_shape(c, &op->inputs[i], true, &p->grad[i], err));
            take_memory(a, &p->grad[i], true);
        }
    }
    for (size_t i = 0; i < op->output_count; i++) {
        TRY(op_array_shape(c, &op->outputs[i], true, &p->output[i], err));
        take_memory(a, &p->output[i], true);
        if (op->backward && op->outputs[i].gradient) {
            TRY(op_array_shape(c, &op->outputs[i], true, &p->grad_output[i], err));
            take_memory(a, &p->grad_output[i], false);
        }
    }
    return ST_OK;
}

double op_sum_error(const struct op_problem *p, double terms, double mid, double sum)
{
    return ((terms + 2) * p->u_acc + 2 * p->u_in + mid * p->u_mid) * sum;
}

void op_bound_sum(const struct op_problem *p, struct op_array *r, size_t i, double terms,
                  double mid, double sum, bool integers)
{
    const struct dtype_info *from = dtype_info(p->c.dtype), *to = dtype_info(r->dtype);
    unsigned bits = from->size > 1 && from->mantissa_bits < to->mantissa_bits ? from->mantissa_bits
                                                                              : to->mantissa_bits;
    if (p->c.values == OP_VALUES_GRID && integers && sum <= ldexp(1.0, (int)bits + 1)) {
        r->bound[i] = OP_BOUND_EXACT;
        return;
    }
    r->bound[i] = op_sum_error(p, terms, mid, sum);
}

double op_stored_loss(const struct op_problem *p)
{
    return p->u_mid * ldexp(1.0, dtype_info(p->c.dtype)->min_exponent);
}

double *op_scratch(struct op_problem *p, size_t count)
{
    return arena_array(p->arena, count, sizeof(double));
}

const double *op_in(const struct op_problem *p, size_t position)
{
    return p->input[position].value;
}

double *op_out(struct op_problem *p, size_t position)
{
    return p->output[position].value;
}

const double *op_dout(const struct op_problem *p, size_t position)
{
    return p->grad_output[position].value;
}

double *op_grad(struct op_problem *p, size_t position)
{
    return p->grad[position].value;
}

double op_sigmoid(double x)
{
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

double op_silu(double x)
{
    return x * op_sigmoid(x);
}

double op_silu_slope(double x)
{
    double s = op_sigmoid(x);
    return s * (1 + x * (1 - s));
}

/* Largest error that the last rounding adds, and what underflow inside may add. */
static void round_last(const struct op_problem *p, struct op_array *r)
{
    if (!r->spec || !dtype_info(r->dtype)->is_float) {
        return;
    }
    const struct dtype_info *info = dtype_info(r->dtype);
    double u = dtype_unit_roundoff(r->dtype);
    double normal = ldexp(1.0, info->min_exponent);
    /* A subnormal result is rounded by half its spacing; float32 and bfloat16 units may flush it. */
    double tiny = r->dtype == DTYPE_F16 ? u * normal : normal;
    double largest = 0;
    bool vague = p->c.values == OP_VALUES_DENORMAL;
    for (size_t i = 0; i < r->count; i++) {
        largest = fmax(largest, fabs(r->value[i]));
    }
    double terms = p->c.values == OP_VALUES_TINY ? 0x1p20 : 1.0;
    for (size_t i = 0; i < r->count; i++) {
        if (r->bound[i] == OP_BOUND_EXACT) {
            r->bound[i] = 0;
            continue;
        }
        double bound = r->bound[i] * (1 + u) + u * fabs(r->value[i]) + tiny * terms;
        bound += vague ? largest : 0.0;
        r->bound[i] = r->dtype == DTYPE_F64 ? 2 * bound : bound;
    }
}

static void clear_array(struct op_array *r)
{
    for (size_t i = 0; i < r->count; i++) {
        r->value[i] = r->bound[i] = 0;
    }
}

static void clear_results(struct op_problem *p)
{
    for (size_t i = 0; i < OP_OUTPUTS_MAX; i++) {
        clear_array(&p->output[i]);
    }
    for (size_t i = 0; i < OP_INPUTS_MAX; i++) {
        clear_array(&p->grad[i]);
    }
}

void op_problem_solve(struct op_problem *p, bool with_gradients)
{
    const struct op *op = p->c.op;
    struct arena_mark mark = arena_mark(p->arena);
    clear_results(p);
    op->forward(p);
    bool backward = with_gradients && op->backward;
    if (backward) {
        op->backward(p);
    }
    if (op->bound) {
        op->bound(p);
    }
    arena_rewind(p->arena, mark);
    for (size_t i = 0; i < op->output_count; i++) {
        round_last(p, &p->output[i]);
    }
    for (size_t i = 0; backward && i < op->input_count; i++) {
        round_last(p, &p->grad[i]);
    }
}
