// SPDX-License-Identifier: Apache-2.0
/*
 * SwiGLU and rotary position embedding.
 *
 * Bounds. SwiGLU: the sigmoid of g is allowed 6 u_acc relative plus u_acc |g| (rounding of the
 * argument); silu(g) and its products may be stored in the format of the case, u_mid each. RoPE: two
 * products and a sum; an implementation that works in the format of the case rounds both products
 * and casts, 2 u_mid of the magnitudes.
 */
#include <math.h>

#include "ops/op.h"
#include "ops/op_inside.h"
#include "ops/op_rows.h"

/* ---- swiglu ---- */

static const struct op_param swiglu_params[] = {
    {"rows", OP_PARAM_SIZE, 1, 1e9, 4, NULL, "tokens"},
    {"d", OP_PARAM_SIZE, 1, 1e9, 64, NULL, "channels"},
};

static const struct op_tensor swiglu_inputs[] = {
    {"gate", "rows d", OP_DTYPE_CASE, true, NULL, "goes through silu"},
    {"up", "rows d", OP_DTYPE_CASE, true, NULL, "multiplied"},
};

static const struct op_tensor swiglu_outputs[] = {
    {"y", "rows d", OP_DTYPE_CASE, true, NULL, "result"},
};

/* y = gate sigmoid(gate) up */
static void swiglu_forward(struct op_problem *p)
{
    for (size_t i = 0; i < p->output[0].count; i++) {
        op_out(p, 0)[i] = op_silu(op_in(p, 0)[i]) * op_in(p, 1)[i];
    }
}

/* dgate = dy up silu'(gate); dup = dy silu(gate) */
static void swiglu_backward(struct op_problem *p)
{
    for (size_t i = 0; i < p->output[0].count; i++) {
        double dy = op_dout(p, 0)[i], gate = op_in(p, 0)[i];
        op_grad(p, 0)[i] = dy * op_in(p, 1)[i] * op_silu_slope(gate);
        op_grad(p, 1)[i] = dy * op_silu(gate);
    }
}

/* The slope s (1 + g (1 - s)) cancels near its zero at g = -1.28: magnitudes s (1 + |g| (1 - s)). */
static void swiglu_bound(struct op_problem *p)
{
    for (size_t i = 0; i < p->output[0].count; i++) {
        double gate = op_in(p, 0)[i], up = fabs(op_in(p, 1)[i]), s = op_sigmoid(gate);
        double relative = (8 + fabs(gate)) * p->u_acc + 2 * p->u_mid;
        double silu = fabs(gate) * s;
        p->output[0].bound[i] = relative * silu * up;
        if (op_dout(p, 0)) {
            double dy = fabs(op_dout(p, 0)[i]);
            double slope = s * (1 + fabs(gate) * (1 - s));
            p->grad[0].bound[i] = (2 * relative + 8 * p->u_acc) * dy * up * slope;
            p->grad[1].bound[i] = relative * dy * silu;
        }
    }
}

const struct op op_swiglu = {
    .name = "swiglu",
    .what = "y = gate sigmoid(gate) up",
    .params = swiglu_params,
    .param_count = ARRAY_LEN(swiglu_params),
    .inputs = swiglu_inputs,
    .input_count = ARRAY_LEN(swiglu_inputs),
    .outputs = swiglu_outputs,
    .output_count = ARRAY_LEN(swiglu_outputs),
    .forward = swiglu_forward,
    .backward = swiglu_backward,
    .bound = swiglu_bound,
};

/* ---- rope ---- */

static const char *const layout_names[] = {"half", "interleaved", NULL};

static const struct op_param rope_params[] = {
    {"batch", OP_PARAM_SIZE, 1, 65536, 1, NULL, "sequences"},
    {"time", OP_PARAM_SIZE, 1, 1e9, 16, NULL, "positions"},
    {"heads", OP_PARAM_SIZE, 1, 65536, 2, NULL, "heads"},
    {"dim", OP_PARAM_SIZE, 2, 65536, 64, NULL, "width of a head"},
    {"rotary", OP_PARAM_SIZE, 2, 65536, 64, NULL, "leading channels that turn; the rest pass"},
    {"layout", OP_PARAM_CHOICE, 0, 1, 0, layout_names,
     "channel i turns with i + rotary/2 (transformers), or 2i with 2i + 1 (original Llama)"},
    {"theta", OP_PARAM_REAL, 1, 1e12, 10000, NULL, "base of the generated angles"},
    {"offset", OP_PARAM_INT, 0, 1e9, 0, NULL, "first generated position"},
};

static const struct op_tensor rope_inputs[] = {
    {"x", "batch heads time dim", OP_DTYPE_CASE, true, NULL, "queries or keys"},
    {"cos", "time rotary/2", OP_DTYPE_CASE, false, NULL, "cosine of each angle"},
    {"sin", "time rotary/2", OP_DTYPE_CASE, false, NULL, "sine of each angle"},
};

static const struct op_tensor rope_outputs[] = {
    {"y", "batch heads time dim", OP_DTYPE_CASE, true, NULL, "turned"},
};

static enum status rope_check(const struct op_case *c, struct err *err)
{
    if (op_int(c, "rotary") > op_int(c, "dim") || op_int(c, "rotary") % 2) {
        return err_set(err, ST_USAGE,
                       "rope: rotary is %lld, expected an even number up to dim, %lld",
                       (long long)op_int(c, "rotary"), (long long)op_int(c, "dim"));
    }
    return ST_OK;
}

/* angle = position theta^(-2i/rotary) */
static void rope_fill(struct op_problem *p)
{
    size_t time = (size_t)op_int(&p->c, "time"), half = (size_t)op_int(&p->c, "rotary") / 2;
    for (size_t i = 0; i < time * half; i++) {
        size_t step = i / half;
        double position = (double)step + op_get(&p->c, "offset");
        double angle = position * pow(op_get(&p->c, "theta"), -(double)(i % half) / (double)half);
        p->input[1].value[i] = cos(angle);
        p->input[2].value[i] = sin(angle);
    }
    op_array_round(&p->input[1]);
    op_array_round(&p->input[2]);
}

/* y1 = x1 cos - x2 sin; y2 = x2 cos + x1 sin over the pairs of the layout. `sign` -1 turns back,
 * `magnitude` adds what it would subtract and takes every factor positive. */
static void turn(const struct op_problem *p, const double *x, double sign, bool magnitude,
                 double *y)
{
    size_t time = (size_t)op_int(&p->c, "time"), dim = (size_t)op_int(&p->c, "dim");
    size_t half = (size_t)op_int(&p->c, "rotary") / 2, vectors = p->output[0].count / dim;
    bool interleaved = op_int(&p->c, "layout") == 1;
    for (size_t v = 0; v < vectors; v++, x += dim, y += dim) {
        const double *c = op_in(p, 1) + v % time * half, *s = op_in(p, 2) + v % time * half;
        for (size_t i = 0; i < half; i++) {
            size_t a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + half;
            if (magnitude) {
                y[a] = fabs(x[a] * c[i]) + fabs(x[b] * s[i]);
                y[b] = fabs(x[b] * c[i]) + fabs(x[a] * s[i]);
            } else {
                y[a] = x[a] * c[i] - sign * x[b] * s[i];
                y[b] = x[b] * c[i] + sign * x[a] * s[i];
            }
        }
        for (size_t i = 2 * half; i < dim; i++) {
            y[i] = magnitude ? 0 : x[i];
        }
    }
}

static void rope_forward(struct op_problem *p)
{
    turn(p, op_in(p, 0), 1, false, op_out(p, 0));
}

/* The transpose: a turn by the opposite angle. */
static void rope_backward(struct op_problem *p)
{
    turn(p, op_dout(p, 0), -1, false, op_grad(p, 0));
}

static void rope_bound(struct op_problem *p)
{
    double relative = 4 * p->u_acc + 2 * p->u_mid;
    turn(p, op_in(p, 0), 1, true, p->output[0].bound);
    for (size_t i = 0; i < p->output[0].count; i++) {
        p->output[0].bound[i] *= relative;
    }
    if (op_dout(p, 0)) {
        turn(p, op_dout(p, 0), 1, true, p->grad[0].bound);
        for (size_t i = 0; i < p->grad[0].count; i++) {
            p->grad[0].bound[i] *= relative;
        }
    }
}

const struct op op_rope = {
    .name = "rope",
    .what = "(y1, y2) = (x1 cos - x2 sin, x2 cos + x1 sin)",
    .params = rope_params,
    .param_count = ARRAY_LEN(rope_params),
    .inputs = rope_inputs,
    .input_count = ARRAY_LEN(rope_inputs),
    .outputs = rope_outputs,
    .output_count = ARRAY_LEN(rope_outputs),
    .check = rope_check,
    .fill = rope_fill,
    .forward = rope_forward,
    .backward = rope_backward,
    .bound = rope_bound,
};
