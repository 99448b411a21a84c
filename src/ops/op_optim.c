// SPDX-License-Identifier: Apache-2.0
/*
 * One step of AdamW (decoupled weight decay, bias correction, eps outside the root), and clipping by
 * the global norm, as torch.optim.AdamW and torch.nn.utils.clip_grad_norm_ define them.
 *
 * Bounds. Every line of the formulas is charged with u = u_acc + u_mid per operation, because states
 * in the format of the case round at each of them when nothing is fused. The root halves the relative
 * error of v. A beta may be rounded to the format of the arithmetic, as torch's fused step on CUDA
 * does: then 1 - beta is off by u_acc beta. 1 - beta^t is exact: an implementation that forms it in
 * float32 loses u_acc / (1 - beta^t) and is told so.
 */
#include <math.h>

#include "ops/op.h"
#include "ops/op_inside.h"
#include "ops/op_rows.h"

/* ---- adamw ---- */

static const struct op_param adamw_params[] = {
    {"n", OP_PARAM_SIZE, 1, 1e9, 64, NULL, "parameters"},
    {"step", OP_PARAM_INT, 1, 1e9, 1, NULL, "number of this step, from 1"},
    {"lr", OP_PARAM_REAL, 0, 1e3, 1e-3, NULL, "learning rate"},
    {"beta1", OP_PARAM_REAL, 0, 0.9999999, 0.9, NULL, "memory of the gradient"},
    {"beta2", OP_PARAM_REAL, 0, 0.9999999, 0.999, NULL, "memory of its square"},
    {"eps", OP_PARAM_REAL, 0, 1, 1e-8, NULL, "added to the root"},
    {"weight_decay", OP_PARAM_REAL, 0, 1e3, 0.01, NULL, "decoupled: times lr"},
};

static const struct op_tensor adamw_inputs[] = {
    {"param", "n", OP_DTYPE_CASE, false, NULL, "parameters before the step"},
    {"grad", "n", OP_DTYPE_CASE, false, NULL, "their gradient"},
    {"exp_avg", "n", OP_DTYPE_CASE, false, NULL, "running mean of the gradient"},
    {"exp_avg_sq", "n", OP_DTYPE_CASE, false, NULL, "running mean of its square"},
};

static const struct op_tensor adamw_outputs[] = {
    {"new_param", "n", OP_DTYPE_CASE, false, NULL, "parameters after the step"},
    {"new_exp_avg", "n", OP_DTYPE_CASE, false, NULL, "running mean after the step"},
    {"new_exp_avg_sq", "n", OP_DTYPE_CASE, false, NULL, "mean of squares after the step"},
};

/* The mean of squares is no less than the square of the mean; from zero before the first step. */
static void adamw_fill(struct op_problem *p)
{
    bool first = op_int(&p->c, "step") == 1;
    for (size_t i = 0; i < p->input[0].count; i++) {
        double m = p->input[2].value[i];
        p->input[3].value[i] = first ? 0 : m * m + p->input[3].value[i] * p->input[3].value[i];
        p->input[2].value[i] = first ? 0 : m;
    }
    op_array_round(&p->input[3]);
}

struct adamw {
    double lr, beta1, beta2, eps, decay, bias1, bias2;
};

static struct adamw adamw_of(const struct op_problem *p)
{
    const struct op_case *c = &p->c;
    double step = op_get(c, "step");
    struct adamw a = {op_get(c, "lr"),
                      op_get(c, "beta1"),
                      op_get(c, "beta2"),
                      op_get(c, "eps"),
                      op_get(c, "weight_decay"),
                      0,
                      0};
    a.bias1 = 1 - pow(a.beta1, step);
    a.bias2 = 1 - pow(a.beta2, step);
    return a;
}

/* m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
 * w = w (1 - lr decay) - lr / bias1 m / (sqrt(v / bias2) + eps), bias = 1 - beta^step */
static void adamw_forward(struct op_problem *p)
{
    struct adamw a = adamw_of(p);
    for (size_t i = 0; i < p->input[0].count; i++) {
        double g = op_in(p, 1)[i];
        double m = a.beta1 * op_in(p, 2)[i] + (1 - a.beta1) * g;
        double v = a.beta2 * op_in(p, 3)[i] + (1 - a.beta2) * g * g;
        double update = m / a.bias1 / (sqrt(v / a.bias2) + a.eps);
        op_out(p, 0)[i] = op_in(p, 0)[i] * (1 - a.lr * a.decay) - a.lr * update;
        op_out(p, 1)[i] = m;
        op_out(p, 2)[i] = v;
    }
}

static void adamw_bound(struct op_problem *p)
{
    struct adamw a = adamw_of(p);
    double u = p->u_acc + p->u_mid, least = ldexp(1.0, dtype_info(p->c.dtype)->min_exponent);
    for (size_t i = 0; i < p->input[0].count; i++) {
        double g = fabs(op_in(p, 1)[i]), v = op_out(p, 2)[i];
        double m_size = a.beta1 * fabs(op_in(p, 2)[i]) + (1 - a.beta1) * g;
        double m_error = 3 * u * m_size + p->u_acc * a.beta1 * g + least;
        double v_error = 4 * u * v + p->u_acc * a.beta2 * g * g + least;
        double root = sqrt(v / a.bias2), scale = a.lr / a.bias1 / (root + a.eps);
        /* The root of v that is all rounding may be anything from 0 up. */
        double worst = a.lr / a.bias1 / (sqrt(fmax(0, v - v_error) / a.bias2) + a.eps);
        double update = fabs(op_out(p, 1)[i]);
        double v_part = v > 0 ? fmax(0, worst - scale) * update : 0;
        p->output[0].bound[i] = 2 * u * fabs(op_in(p, 0)[i]) + scale * (m_error + 8 * u * update) +
                                v_part;
        p->output[1].bound[i] = m_error;
        p->output[2].bound[i] = v_error;
    }
}

const struct op op_adamw = {
    .name = "adamw",
    .what = "w = w (1 - lr decay) - lr m / bias1 / (sqrt(v / bias2) + eps)",
    .params = adamw_params,
    .param_count = ARRAY_LEN(adamw_params),
    .inputs = adamw_inputs,
    .input_count = ARRAY_LEN(adamw_inputs),
    .outputs = adamw_outputs,
    .output_count = ARRAY_LEN(adamw_outputs),
    .fill = adamw_fill,
    .forward = adamw_forward,
    .bound = adamw_bound,
};

/* ---- clip_grad_norm ---- */

static const struct op_param clip_params[] = {
    {"n0", OP_PARAM_SIZE, 1, 1e9, 64, NULL, "elements of the first gradient"},
    {"n1", OP_PARAM_SIZE, 1, 1e9, 48, NULL, "elements of the second"},
    {"max_norm", OP_PARAM_REAL, 0, 1e30, 1, NULL, "longest that both together may be"},
};

static const struct op_tensor clip_inputs[] = {
    {"g0", "n0", OP_DTYPE_CASE, false, NULL, "gradient of one parameter"},
    {"g1", "n1", OP_DTYPE_CASE, false, NULL, "gradient of another"},
};

static const struct op_tensor clip_outputs[] = {
    {"norm", "", OP_DTYPE_CASE, false, NULL, "length of both together, before"},
    {"clipped0", "n0", OP_DTYPE_CASE, false, NULL, "first gradient, after"},
    {"clipped1", "n1", OP_DTYPE_CASE, false, NULL, "second gradient, after"},
};

#define CLIP_EPS 1e-6

/* norm = sqrt(sum of all squares); each gradient times min(1, max_norm / (norm + 1e-6)) */
static void clip_forward(struct op_problem *p)
{
    double sum = 0;
    for (size_t g = 0; g < 2; g++) {
        for (size_t i = 0; i < p->input[g].count; i++) {
            sum += op_in(p, g)[i] * op_in(p, g)[i];
        }
    }
    double norm = sqrt(sum), factor = fmin(1, op_get(&p->c, "max_norm") / (norm + CLIP_EPS));
    op_out(p, 0)[0] = norm;
    for (size_t g = 0; g < 2; g++) {
        for (size_t i = 0; i < p->input[g].count; i++) {
            op_out(p, 1 + g)[i] = factor * op_in(p, g)[i];
        }
    }
}

/* The root of a sum of n squares: (n/2 + 4) u_acc; norms of single gradients, their norm and the
 * factor may be stored: u_mid each. A factor that could be 1 may round either way, within this. */
static void clip_bound(struct op_problem *p)
{
    double n = (double)(p->input[0].count + p->input[1].count);
    double relative = (n / 2 + 4) * p->u_acc + 2 * p->u_mid;
    p->output[0].bound[0] = relative * op_out(p, 0)[0];
    for (size_t g = 0; g < 2; g++) {
        for (size_t i = 0; i < p->input[g].count; i++) {
            p->output[1 + g].bound[i] = (relative + 3 * p->u_mid + 4 * p->u_acc) *
                                        fabs(op_out(p, 1 + g)[i]);
        }
    }
}

const struct op op_clip_grad_norm = {
    .name = "clip_grad_norm",
    .what = "g = g min(1, max_norm / (norm + 1e-6))",
    .params = clip_params,
    .param_count = ARRAY_LEN(clip_params),
    .inputs = clip_inputs,
    .input_count = ARRAY_LEN(clip_inputs),
    .outputs = clip_outputs,
    .output_count = ARRAY_LEN(clip_outputs),
    .forward = clip_forward,
    .bound = clip_bound,
};
