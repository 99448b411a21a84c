// SPDX-License-Identifier: Apache-2.0
/*
 * RMSNorm in its three conventions, and LayerNorm.
 *
 * Bounds, first order, d the row length. The mean of squares is a sum of d positive terms: relative
 * error (d + 3) u_acc, halved by the root, and the root and quotient add 4 u_acc; so the factor r is
 * known to (d/2 + 6) u_acc. Magnitudes are those of the formulas with every term taken positive.
 * Products of two factors of the case's format that are stored in between cost u_mid each.
 */
#include <math.h>

#include "ops/op.h"
#include "ops/op_inside.h"
#include "ops/op_rows.h"

enum {
    NORM_X = 0,
    NORM_WEIGHT,
    NORM_BIAS
};

/* Where the weight's one is, and where the normalised value is rounded:
 * plain           y = cast(n w)         torch.nn.RMSNorm
 * zero_centred    y = cast(n (1 + w))   Qwen3-Next, Qwen3.5, Gemma
 * cast_first      y = w cast(n)         Llama, Qwen2, Qwen3 in transformers */
enum {
    CONVENTION_PLAIN = 0,
    CONVENTION_ZERO_CENTRED,
    CONVENTION_CAST_FIRST
};

static const char *const convention_names[] = {"plain", "zero_centred", "cast_first", NULL};

static const struct op_param rms_params[] = {
    {"rows", OP_PARAM_SIZE, 1, 1e9, 4, NULL, "tokens"},
    {"d", OP_PARAM_SIZE, 1, 1e9, 64, NULL, "width that is normalised"},
    {"eps", OP_PARAM_REAL, 0, 1, 1e-6, NULL, "added to the mean of squares"},
    {"convention", OP_PARAM_CHOICE, 0, 2, 0, convention_names,
     "cast(n w), cast(n (1 + w)), or w cast(n)"},
};

static const struct op_tensor norm_inputs[] = {
    {"x", "rows d", OP_DTYPE_CASE, true, NULL, "tokens"},
    {"weight", "d", OP_DTYPE_CASE, true, NULL, "one factor per channel"},
    {"bias", "d", OP_DTYPE_CASE, true, NULL, "one summand per channel (layer_norm)"},
};

static const struct op_tensor norm_outputs[] = {
    {"y", "rows d", OP_DTYPE_CASE, true, NULL, "result"},
};

struct norm {
    size_t rows, d;
    double eps, one; /* one: added to the weight */
    const double *x, *weight, *dy;
};

static struct norm norm_of(const struct op_problem *p)
{
    bool rms = p->c.op == &op_rms_norm;
    return (struct norm){
        .rows = (size_t)op_int(&p->c, "rows"),
        .d = (size_t)op_int(&p->c, "d"),
        .eps = op_get(&p->c, "eps"),
        .one = rms && op_int(&p->c, "convention") == CONVENTION_ZERO_CENTRED ? 1 : 0,
        .x = op_in(p, NORM_X),
        .weight = op_in(p, NORM_WEIGHT),
        .dy = op_dout(p, 0),
    };
}

static double mean_of_squares(const double *x, size_t d)
{
    double sum = 0;
    for (size_t i = 0; i < d; i++) {
        sum += x[i] * x[i];
    }
    return sum / (double)d;
}

/* x [rows, d], weight [d]: r = 1 / sqrt(mean(x^2) + eps), y = x r (one + weight) */
static void rms_forward(struct op_problem *p)
{
    struct norm n = norm_of(p);
    double *y = op_out(p, 0);
    for (size_t row = 0; row < n.rows; row++) {
        const double *x = n.x + row * n.d;
        double r = 1 / sqrt(mean_of_squares(x, n.d) + n.eps);
        for (size_t i = 0; i < n.d; i++) {
            y[row * n.d + i] = x[i] * r * (n.one + n.weight[i]);
        }
    }
}

/* u = dy (one + weight): dx = r u - x r^3 / d sum(u x); dweight = sum over rows of dy x r */
static void rms_backward(struct op_problem *p)
{
    struct norm n = norm_of(p);
    double *dx = op_grad(p, NORM_X), *dweight = op_grad(p, NORM_WEIGHT);
    for (size_t row = 0; row < n.rows; row++) {
        const double *x = n.x + row * n.d, *dy = n.dy + row * n.d;
        double r = 1 / sqrt(mean_of_squares(x, n.d) + n.eps), dot = 0;
        for (size_t i = 0; i < n.d; i++) {
            dot += dy[i] * (n.one + n.weight[i]) * x[i];
            dweight[i] += dy[i] * x[i] * r;
        }
        double along = r * r * r * dot / (double)n.d;
        for (size_t i = 0; i < n.d; i++) {
            dx[row * n.d + i] = r * dy[i] * (n.one + n.weight[i]) - x[i] * along;
        }
    }
}

/* y: factor r (d/2 + 6), two products; cast_first rounds n once more, and so does an implementation
 * that stores n for the backward pass. dx: r to the third power and a sum of d terms: 3 (d/2 + 6) +
 * d + 6. dweight: rows + d/2 + 8. Backward passes may work on products stored in the format. */
static void rms_bound(struct op_problem *p)
{
    struct norm n = norm_of(p);
    bool cast_first = op_int(&p->c, "convention") == CONVENTION_CAST_FIRST;
    double root = (double)n.d / 2 + 6;
    double *sum_w = op_scratch(p, n.d);
    for (size_t row = 0; row < n.rows; row++) {
        const double *x = n.x + row * n.d, *dy = n.dy ? n.dy + row * n.d : NULL;
        double r = 1 / sqrt(mean_of_squares(x, n.d) + n.eps), dot = 0;
        for (size_t i = 0; i < n.d; i++) {
            double w = n.one + fabs(n.weight[i]);
            p->output[0].bound[row * n.d + i] = op_sum_error(p, root + 2, cast_first,
                                                             fabs(x[i]) * r * w);
            dot += dy ? fabs(dy[i]) * w * fabs(x[i]) : 0;
        }
        double along = r * r * r * dot / (double)n.d;
        for (size_t i = 0; dy && i < n.d; i++) {
            double w = n.one + fabs(n.weight[i]);
            double size = r * fabs(dy[i]) * w + fabs(x[i]) * along;
            p->grad[NORM_X].bound[row * n.d + i] = op_sum_error(p, 3 * root + (double)n.d + 6, 2,
                                                                size);
            sum_w[i] += fabs(dy[i] * x[i]) * r;
        }
    }
    for (size_t i = 0; n.dy && i < n.d; i++) {
        p->grad[NORM_WEIGHT].bound[i] = op_sum_error(p, (double)n.rows + root + 2, 2, sum_w[i]);
    }
}

const struct op op_rms_norm = {
    .name = "rms_norm",
    .what = "y = x / sqrt(mean(x^2) + eps) * weight",
    .params = rms_params,
    .param_count = ARRAY_LEN(rms_params),
    .inputs = norm_inputs,
    .input_count = 2,
    .outputs = norm_outputs,
    .output_count = ARRAY_LEN(norm_outputs),
    .forward = rms_forward,
    .backward = rms_backward,
    .bound = rms_bound,
};

/* ---- layer_norm ---- */

static const struct op_param layer_params[] = {
    {"rows", OP_PARAM_SIZE, 1, 1e9, 4, NULL, "tokens"},
    {"d", OP_PARAM_SIZE, 1, 1e9, 64, NULL, "width that is normalised"},
    {"eps", OP_PARAM_REAL, 0, 1, 1e-5, NULL, "added to the variance"},
};

struct moments {
    double mean, r; /* r = 1 / sqrt(variance + eps), variance over d, not d - 1 */
};

static struct moments moments_of(const double *x, size_t d, double eps)
{
    double mean = 0, variance = 0;
    for (size_t i = 0; i < d; i++) {
        mean += x[i];
    }
    mean /= (double)d;
    for (size_t i = 0; i < d; i++) {
        variance += (x[i] - mean) * (x[i] - mean);
    }
    return (struct moments){mean, 1 / sqrt(variance / (double)d + eps)};
}

/* y = (x - mean) r weight + bias */
static void layer_forward(struct op_problem *p)
{
    struct norm n = norm_of(p);
    double *y = op_out(p, 0);
    const double *bias = op_in(p, NORM_BIAS);
    for (size_t row = 0; row < n.rows; row++) {
        const double *x = n.x + row * n.d;
        struct moments m = moments_of(x, n.d, n.eps);
        for (size_t i = 0; i < n.d; i++) {
            y[row * n.d + i] = (x[i] - m.mean) * m.r * n.weight[i] + bias[i];
        }
    }
}

/* With n = (x - mean) r and u = dy weight: dx = r (u - mean(u) - n mean(u n)); dweight = sum of dy n
 * over rows, dbias = sum of dy over rows. */
static void layer_backward(struct op_problem *p)
{
    struct norm n = norm_of(p);
    double *dx = op_grad(p, NORM_X), *dweight = op_grad(p, NORM_WEIGHT);
    double *dbias = op_grad(p, NORM_BIAS);
    for (size_t row = 0; row < n.rows; row++) {
        const double *x = n.x + row * n.d, *dy = n.dy + row * n.d;
        struct moments m = moments_of(x, n.d, n.eps);
        double mean_u = 0, mean_un = 0;
        for (size_t i = 0; i < n.d; i++) {
            double at = (x[i] - m.mean) * m.r;
            mean_u += dy[i] * n.weight[i] / (double)n.d;
            mean_un += dy[i] * n.weight[i] * at / (double)n.d;
            dweight[i] += dy[i] * at;
            dbias[i] += dy[i];
        }
        for (size_t i = 0; i < n.d; i++) {
            double at = (x[i] - m.mean) * m.r;
            dx[row * n.d + i] = m.r * (dy[i] * n.weight[i] - mean_u - at * mean_un);
        }
    }
}

/* The mean is off by at most d u_acc mean|x| and so is every x - mean; implementations that take
 * E[x^2] - mean^2 instead are off by (d + 3) u_acc mean(x^2) in the variance, which reaches r as
 * half of that times r^2. Both are allowed: relative error of r at most
 * lambda = (d/2 + 6) u_acc (1 + 2 mean(x^2) r^2), while that is small. */
static void layer_row_bound(struct op_problem *p, const struct norm *n, size_t row, double *sum_w)
{
    const double *x = n->x + row * n->d, *dy = n->dy ? n->dy + row * n->d : NULL;
    const double *bias = op_in(p, NORM_BIAS);
    struct moments m = moments_of(x, n->d, n->eps);
    double d = (double)n->d, mean_abs = 0, mean_u = 0, mean_un = 0;
    double lambda = (d / 2 + 6) * p->u_acc * (1 + 2 * mean_of_squares(x, n->d) * m.r * m.r);
    for (size_t i = 0; i < n->d; i++) {
        mean_abs += fabs(x[i]) / d;
    }
    double shift = (d + 2) * p->u_acc * mean_abs * m.r; /* error of n from the mean */
    for (size_t i = 0; i < n->d; i++) {
        double at = fabs(x[i] - m.mean) * m.r, w = fabs(n->weight[i]);
        double error_n = shift + (lambda + 4 * p->u_acc) * at + p->u_acc * fabs(x[i]) * m.r;
        p->output[0].bound[row * n->d + i] = error_n * w + 4 * p->u_acc * (at * w + fabs(bias[i]));
        if (dy) {
            mean_u += fabs(dy[i]) * w / d;
            mean_un += fabs(dy[i]) * w * (at + error_n) / d;
            sum_w[i] += fabs(dy[i]) *
                        (error_n + (p->u_mid + ((double)n->rows + 4) * p->u_acc) * at);
        }
    }
    for (size_t i = 0; dy && i < n->d; i++) {
        double at = fabs(x[i] - m.mean) * m.r, w = fabs(n->weight[i]);
        double error_n = shift + lambda * at;
        double size = m.r * (fabs(dy[i]) * w + mean_u + at * mean_un);
        double mean_error = m.r * mean_u * (error_n + at * shift);
        p->grad[NORM_X].bound[row * n->d + i] = op_sum_error(p, d + 8, 2, size) +
                                                3 * lambda * size + m.r * error_n * mean_un +
                                                2 * mean_error;
    }
}

static void layer_bound(struct op_problem *p)
{
    struct norm n = norm_of(p);
    double *sum_w = op_scratch(p, n.d), *sum_b = op_scratch(p, n.d);
    for (size_t row = 0; row < n.rows; row++) {
        layer_row_bound(p, &n, row, sum_w);
        for (size_t i = 0; n.dy && i < n.d; i++) {
            sum_b[i] += fabs(n.dy[row * n.d + i]);
        }
    }
    for (size_t i = 0; n.dy && i < n.d; i++) {
        p->grad[NORM_WEIGHT].bound[i] = sum_w[i];
        op_bound_sum(p, &p->grad[NORM_BIAS], i, (double)n.rows, 0, sum_b[i], true);
    }
}

const struct op op_layer_norm = {
    .name = "layer_norm",
    .what = "y = (x - mean) / sqrt(variance + eps) * weight + bias",
    .params = layer_params,
    .param_count = ARRAY_LEN(layer_params),
    .inputs = norm_inputs,
    .input_count = ARRAY_LEN(norm_inputs),
    .outputs = norm_outputs,
    .output_count = ARRAY_LEN(norm_outputs),
    .forward = layer_forward,
    .backward = layer_backward,
    .bound = layer_bound,
};
