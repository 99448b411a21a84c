// SPDX-License-Identifier: Apache-2.0
/*
 * Matrix products: gemm with everything a vendor's call can do, and the linear layer.
 *
 * Bound of each sum over k: (k + 2) u_acc sum|a||b| (op_inside.h), times |alpha|; beta c and the bias
 * are two more terms of the same sum. A bias or activation that is not fused rounds the sum to the
 * format of the case first, and the sum once more before an activation: u_mid of their magnitudes; an
 * activation f passes an error e of its argument on as at most 1.13 e (largest slope of gelu; relu: 1).
 */
#include <math.h>

#include "ops/op.h"
#include "ops/op_inside.h"
#include "ops/op_rows.h"

/* A sum of products seen as c[i][j] += sum over t of a(i,t) b(t,j), each operand with its strides. */
struct product {
    const double *a, *b;
    size_t m, n, k;
    size_t a_row, a_col, b_row, b_col;
};

/* c is m x n, dense, and is added to. */
static void multiply(const struct product *x, double *c)
{
    for (size_t i = 0; i < x->m; i++) {
        for (size_t t = 0; t < x->k; t++) {
            double a = x->a[i * x->a_row + t * x->a_col];
            const double *b = x->b + t * x->b_row;
            for (size_t j = 0; j < x->n; j++) {
                c[i * x->n + j] += a * b[j * x->b_col];
            }
        }
    }
}

/* The same with magnitudes. */
static void multiply_magnitudes(const struct product *x, double *c)
{
    for (size_t i = 0; i < x->m; i++) {
        for (size_t t = 0; t < x->k; t++) {
            double a = fabs(x->a[i * x->a_row + t * x->a_col]);
            const double *b = x->b + t * x->b_row;
            for (size_t j = 0; j < x->n; j++) {
                c[i * x->n + j] += a * fabs(b[j * x->b_col]);
            }
        }
    }
}

/* ---- gemm ---- */

enum {
    GEMM_A = 0,
    GEMM_B,
    GEMM_C,
    GEMM_BIAS
};

enum {
    ACTIVATION_NONE = 0,
    ACTIVATION_RELU,
    ACTIVATION_GELU_TANH,
    ACTIVATION_GELU
};

static const char *const activation_names[] = {"none", "relu", "gelu_tanh", "gelu", NULL};

static const struct op_param gemm_params[] = {
    {"batch", OP_PARAM_SIZE, 1, 65536, 1, NULL, "independent products"},
    {"m", OP_PARAM_SIZE, 1, 1e9, 16, NULL, "rows of a and y"},
    {"n", OP_PARAM_SIZE, 1, 1e9, 16, NULL, "columns of b and y"},
    {"k", OP_PARAM_SIZE, 1, 1e9, 16, NULL, "terms of each sum"},
    {"alpha", OP_PARAM_REAL, -1e6, 1e6, 1, NULL, "factor of the product"},
    {"beta", OP_PARAM_REAL, -1e6, 1e6, 0, NULL, "factor of c; 0: c is not there"},
    {"bias", OP_PARAM_FLAG, 0, 1, 0, NULL, "adds one number per column"},
    {"activation", OP_PARAM_CHOICE, 0, 3, 0, activation_names, "applied last"},
};

static const struct op_tensor gemm_inputs[] = {
    {"a", "batch m k", OP_DTYPE_CASE, true, NULL, "left operand"},
    {"b", "batch k n", OP_DTYPE_CASE, true, NULL, "right operand"},
    {"c", "batch m n", OP_DTYPE_CASE, true, "beta", "added, times beta"},
    {"bias", "n", OP_DTYPE_CASE, true, "bias", "added to every row"},
};

static const struct op_tensor gemm_outputs[] = {
    {"y", "batch m n", OP_DTYPE_CASE, true, NULL, "result"},
};

struct gemm_sizes {
    size_t batch, m, n, k;
    double alpha, beta;
    int activation;
};

static struct gemm_sizes gemm_sizes(const struct op_problem *p)
{
    const struct op_case *c = &p->c;
    return (struct gemm_sizes){
        (size_t)op_int(c, "batch"),   (size_t)op_int(c, "m"), (size_t)op_int(c, "n"),
        (size_t)op_int(c, "k"),       op_get(c, "alpha"),     op_get(c, "beta"),
        (int)op_int(c, "activation"),
    };
}

#define SQRT_2_OVER_PI 0.79788456080286535588
#define SQRT_HALF      0.70710678118654752440
#define GELU_CUBIC     0.044715

static double activate(int activation, double x)
{
    switch (activation) {
    case ACTIVATION_RELU: return x > 0 ? x : 0 * x; /* NaN stays NaN */
    case ACTIVATION_GELU_TANH:
        return 0.5 * x * (1 + tanh(SQRT_2_OVER_PI * (x + GELU_CUBIC * x * x * x)));
    case ACTIVATION_GELU: return 0.5 * x * erfc(-x * SQRT_HALF);
    default: return x;
    }
}

static double activation_slope(int activation, double x)
{
    if (activation == ACTIVATION_RELU) {
        return x > 0 ? 1 : 0;
    }
    if (activation == ACTIVATION_GELU) {
        return 0.5 * erfc(-x * SQRT_HALF) + x * exp(-0.5 * x * x) * SQRT_HALF * 0.56418958354775629;
    }
    if (activation == ACTIVATION_GELU_TANH) {
        double t = tanh(SQRT_2_OVER_PI * (x + GELU_CUBIC * x * x * x));
        double inner = SQRT_2_OVER_PI * (1 + 3 * GELU_CUBIC * x * x);
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner;
    }
    return 1;
}

/* alpha a b + beta c + bias, before the activation. */
static void gemm_sum(const struct op_problem *p, const struct gemm_sizes *s, size_t batch,
                     double *z)
{
    const double *a = op_in(p, GEMM_A) + batch * s->m * s->k;
    const double *b = op_in(p, GEMM_B) + batch * s->k * s->n;
    const double *c = op_in(p, GEMM_C), *bias = op_in(p, GEMM_BIAS);
    size_t count = s->m * s->n;
    for (size_t i = 0; i < count; i++) {
        z[i] = 0;
    }
    multiply(&(struct product){a, b, s->m, s->n, s->k, s->k, 1, s->n, 1}, z);
    for (size_t i = 0; i < count; i++) {
        z[i] *= s->alpha;
        z[i] += c ? s->beta * c[batch * count + i] : 0;
        z[i] += bias ? bias[i % s->n] : 0;
    }
}

/* y[batch][i][j] = f(alpha sum_t a[i][t] b[t][j] + beta c[i][j] + bias[j]) */
static void gemm_forward(struct op_problem *p)
{
    struct gemm_sizes s = gemm_sizes(p);
    size_t count = s.m * s.n;
    for (size_t batch = 0; batch < s.batch; batch++) {
        double *y = op_out(p, 0) + batch * count;
        gemm_sum(p, &s, batch, y);
        for (size_t i = 0; s.activation && i < count; i++) {
            y[i] = activate(s.activation, y[i]);
        }
    }
}

/* dz = dy f'(z); da = alpha dz b^T; db = alpha a^T dz; dc = beta dz; dbias = column sums of dz */
static void gemm_backward(struct op_problem *p)
{
    struct gemm_sizes s = gemm_sizes(p);
    size_t count = s.m * s.n;
    double *z = op_scratch(p, count), *dz = op_scratch(p, count);
    double *dc = op_grad(p, GEMM_C), *dbias = op_grad(p, GEMM_BIAS);
    for (size_t batch = 0; batch < s.batch; batch++) {
        const double *dy = op_dout(p, 0) + batch * count;
        if (s.activation) {
            gemm_sum(p, &s, batch, z);
        }
        for (size_t i = 0; i < count; i++) {
            double d = dy[i] * activation_slope(s.activation, z[i]);
            dz[i] = s.alpha * d;
            if (dc) {
                dc[batch * count + i] = s.beta * d;
            }
            if (dbias) {
                dbias[i % s.n] += d;
            }
        }
        const double *a = op_in(p, GEMM_A) + batch * s.m * s.k;
        const double *b = op_in(p, GEMM_B) + batch * s.k * s.n;
        double *da = op_grad(p, GEMM_A) + batch * s.m * s.k;
        double *db = op_grad(p, GEMM_B) + batch * s.k * s.n;
        multiply(&(struct product){dz, b, s.m, s.k, s.n, s.n, 1, 1, s.n}, da);
        multiply(&(struct product){a, dz, s.k, s.n, s.m, 1, s.k, s.n, 1}, db);
    }
}

/* Magnitude of the sum behind each z, and with it the error of z. */
static void gemm_magnitudes(const struct op_problem *p, const struct gemm_sizes *s, size_t batch,
                            double *sum)
{
    const double *a = op_in(p, GEMM_A) + batch * s->m * s->k;
    const double *b = op_in(p, GEMM_B) + batch * s->k * s->n;
    const double *c = op_in(p, GEMM_C), *bias = op_in(p, GEMM_BIAS);
    size_t count = s->m * s->n;
    for (size_t i = 0; i < count; i++) {
        sum[i] = 0;
    }
    multiply_magnitudes(&(struct product){a, b, s->m, s->n, s->k, s->k, 1, s->n, 1}, sum);
    for (size_t i = 0; i < count; i++) {
        sum[i] *= fabs(s->alpha);
        sum[i] += c ? fabs(s->beta * c[batch * count + i]) : 0;
        sum[i] += bias ? fabs(bias[i % s->n]) : 0;
    }
}

/* Magnitude of what is added to the product of element `i`: an implementation that adds it apart has
 * rounded the product, which is at most this and the sum's own magnitude. */
static double beside(const struct op_problem *p, const struct gemm_sizes *s, size_t batch, size_t i)
{
    const double *c = op_in(p, GEMM_C), *bias = op_in(p, GEMM_BIAS);
    double sum = c ? fabs(s->beta * c[batch * s->m * s->n + i]) : 0;
    return sum + (bias ? fabs(bias[i % s->n]) : 0);
}

/* Adds the errors of one batch entry's gradients. `dz` holds magnitudes, `e` errors of them. */
static void gemm_gradient_bounds(struct op_problem *p, const struct gemm_sizes *s, size_t batch,
                                 const double *dz, const double *e, bool whole)
{
    size_t count = s->m * s->n;
    double mid = s->activation ? 1 : 0, alpha = fabs(s->alpha), beta = fabs(s->beta);
    const double *a = op_in(p, GEMM_A) + batch * s->m * s->k;
    const double *b = op_in(p, GEMM_B) + batch * s->k * s->n;
    struct op_array da = p->grad[GEMM_A], db = p->grad[GEMM_B], dc = p->grad[GEMM_C];
    size_t sizes = s->m * s->k > s->k * s->n ? s->m * s->k : s->k * s->n;
    double *sum = op_scratch(p, sizes), *extra = op_scratch(p, sizes);
    da.bound += batch * s->m * s->k;
    multiply_magnitudes(&(struct product){dz, b, s->m, s->k, s->n, s->n, 1, 1, s->n}, sum);
    multiply_magnitudes(&(struct product){e, b, s->m, s->k, s->n, s->n, 1, 1, s->n}, extra);
    for (size_t i = 0; i < s->m * s->k; i++) {
        op_bound_sum(p, &da, i, (double)s->n + 1, mid, alpha * sum[i], whole);
        da.bound[i] += da.bound[i] == OP_BOUND_EXACT ? 0 : alpha * extra[i];
    }
    for (size_t i = 0; i < sizes; i++) {
        sum[i] = extra[i] = 0;
    }
    db.bound += batch * s->k * s->n;
    multiply_magnitudes(&(struct product){a, dz, s->k, s->n, s->m, 1, s->k, s->n, 1}, sum);
    multiply_magnitudes(&(struct product){a, e, s->k, s->n, s->m, 1, s->k, s->n, 1}, extra);
    for (size_t i = 0; i < s->k * s->n; i++) {
        op_bound_sum(p, &db, i, (double)s->m + 1, mid, alpha * sum[i], whole);
        db.bound[i] += db.bound[i] == OP_BOUND_EXACT ? 0 : alpha * extra[i];
    }
    for (size_t i = 0; dc.value && i < count; i++) {
        dc.bound[batch * count + i] = beta * (op_sum_error(p, 1, mid, dz[i]) + e[i]);
    }
}

/* The bias sums over batches and rows; bound holds what the errors of dz add up to. */
static void gemm_bias_bound(struct op_problem *p, const struct gemm_sizes *s, double slope)
{
    struct op_array *r = &p->grad[GEMM_BIAS];
    const double *dy = op_dout(p, 0);
    double *sum = op_scratch(p, s->n);
    size_t rows = s->batch * s->m;
    for (size_t i = 0; i < rows * s->n; i++) {
        sum[i % s->n] += fabs(dy[i]);
    }
    for (size_t j = 0; j < s->n; j++) {
        double errors = r->bound[j];
        op_bound_sum(p, r, j, (double)rows, s->activation ? 1 : 0, slope * sum[j],
                     s->activation <= ACTIVATION_RELU && errors == 0);
        r->bound[j] += r->bound[j] == OP_BOUND_EXACT ? 0 : errors;
    }
}

/* Slopes of the activations change by at most 1.13 per unit (gelu: |f''| <= 0.8, rounded up). */
static void gemm_bound(struct op_problem *p)
{
    struct gemm_sizes s = gemm_sizes(p);
    size_t count = s.m * s.n;
    bool whole = s.alpha == floor(s.alpha) && s.beta == floor(s.beta);
    bool smooth = s.activation > ACTIVATION_RELU;
    double slope = smooth ? 1.13 : 1;
    double unfused = op_in(p, GEMM_C) || op_in(p, GEMM_BIAS) || s.activation ? 1 : 0;
    double *sum = op_scratch(p, count), *z = op_scratch(p, count);
    double *dz = op_scratch(p, count), *e = op_scratch(p, count);
    struct op_array bias = p->grad[GEMM_BIAS];
    for (size_t batch = 0; batch < s.batch; batch++) {
        struct op_array y = p->output[0];
        y.bound += batch * count;
        gemm_sum(p, &s, batch, z);
        gemm_magnitudes(p, &s, batch, sum);
        for (size_t i = 0; i < count; i++) {
            op_bound_sum(p, &y, i, (double)s.k + 2, 0, slope * sum[i], whole && !smooth);
            if (y.bound[i] != OP_BOUND_EXACT) {
                double apart = 2 * fabs(z[i]) + beside(p, &s, batch, i);
                y.bound[i] += slope * (unfused * p->u_mid + 8 * p->u_acc) * apart;
            }
        }
        const double *dy = op_dout(p, 0);
        if (!dy) {
            continue;
        }
        /* |error of dz| <= |dy| (error of the slope, rounding); a relu near 0 may go either way. */
        for (size_t i = 0; i < count; i++) {
            bool exact = y.bound[i] == OP_BOUND_EXACT;
            double error_z = exact ? 0 : op_sum_error(p, (double)s.k + 2, unfused, sum[i]);
            double d = fabs(dy[batch * count + i]);
            bool edge = s.activation == ACTIVATION_RELU && fabs(z[i]) < error_z;
            dz[i] = d * slope;
            e[i] = edge ? d : 0;
            if (smooth) {
                e[i] = dz[i] * (fmin(error_z, 1.0) + 2 * p->u_mid + 16 * p->u_acc);
            }
            if (bias.bound) {
                bias.bound[i % s.n] += e[i];
            }
        }
        gemm_gradient_bounds(p, &s, batch, dz, e, whole && !smooth);
    }
    if (op_grad(p, GEMM_BIAS)) {
        gemm_bias_bound(p, &s, slope);
    }
}

const struct op op_gemm = {
    .name = "gemm",
    .what = "y = activation(alpha a b + beta c + bias)",
    .params = gemm_params,
    .param_count = ARRAY_LEN(gemm_params),
    .inputs = gemm_inputs,
    .input_count = ARRAY_LEN(gemm_inputs),
    .outputs = gemm_outputs,
    .output_count = ARRAY_LEN(gemm_outputs),
    .exact_on_grid = true,
    .has_fp8 = true,
    .forward = gemm_forward,
    .backward = gemm_backward,
    .bound = gemm_bound,
};

/* ---- linear ---- */

enum {
    LINEAR_X = 0,
    LINEAR_WEIGHT,
    LINEAR_BIAS
};

static const struct op_param linear_params[] = {
    {"rows", OP_PARAM_SIZE, 1, 1e9, 16, NULL, "tokens"},
    {"n", OP_PARAM_SIZE, 1, 1e9, 16, NULL, "output features"},
    {"k", OP_PARAM_SIZE, 1, 1e9, 16, NULL, "input features"},
    {"bias", OP_PARAM_FLAG, 0, 1, 1, NULL, "adds one number per feature"},
};

static const struct op_tensor linear_inputs[] = {
    {"x", "rows k", OP_DTYPE_CASE, true, NULL, "tokens"},
    {"weight", "n k", OP_DTYPE_CASE, true, NULL, "one row per output feature"},
    {"bias", "n", OP_DTYPE_CASE, true, "bias", "added to every row"},
};

static const struct op_tensor linear_outputs[] = {
    {"y", "rows n", OP_DTYPE_CASE, true, NULL, "result"},
};

struct op_linear_view op_linear_view(const struct op_problem *p, size_t rows, size_t n, size_t k)
{
    return (struct op_linear_view){
        .rows = rows,
        .n = n,
        .k = k,
        .x = op_in(p, LINEAR_X),
        .weight = op_in(p, LINEAR_WEIGHT),
        .bias = op_in(p, LINEAR_BIAS),
        .dy = op_dout(p, 0),
    };
}

/* y[i][j] = sum_t x[i][t] weight[j][t] + bias[j] */
void op_linear_forward(const struct op_linear_view *v, double *y)
{
    for (size_t i = 0; i < v->rows * v->n; i++) {
        const double *x = v->x + i / v->n * v->k, *w = v->weight + i % v->n * v->k;
        double sum = 0;
        for (size_t t = 0; t < v->k; t++) {
            sum += x[t] * w[t];
        }
        y[i] = sum + (v->bias ? v->bias[i % v->n] : 0);
    }
}

/* dx = dy weight; dweight = dy^T x; dbias = column sums of dy. Results are zero before. */
void op_linear_backward(const struct op_linear_view *v, double *dx, double *dweight, double *dbias)
{
    multiply(&(struct product){v->dy, v->weight, v->rows, v->k, v->n, v->n, 1, v->k, 1}, dx);
    multiply(&(struct product){v->dy, v->x, v->n, v->k, v->rows, 1, v->n, v->k, 1}, dweight);
    for (size_t i = 0; dbias && i < v->rows * v->n; i++) {
        dbias[i % v->n] += v->dy[i];
    }
}

/* Sums of k + 1, n, rows and rows terms; a bias added apart rounds the product first. */
void op_linear_bound(struct op_problem *p, const struct op_linear_view *v)
{
    for (size_t i = 0; i < v->rows * v->n; i++) {
        const double *x = v->x + i / v->n * v->k, *w = v->weight + i % v->n * v->k;
        double sum = v->bias ? fabs(v->bias[i % v->n]) : 0;
        for (size_t t = 0; t < v->k; t++) {
            sum += fabs(x[t] * w[t]);
        }
        op_bound_sum(p, &p->output[0], i, (double)v->k + 1, 0, sum, true);
        double apart = v->bias ? fabs(p->output[0].value[i]) + fabs(v->bias[i % v->n]) : 0;
        p->output[0].bound[i] += p->output[0].bound[i] == OP_BOUND_EXACT ? 0 : p->u_mid * apart;
    }
    if (!v->dy) {
        return;
    }
    size_t nx = v->rows * v->k, nw = v->n * v->k;
    double *sum = op_scratch(p, nx > nw ? nx : nw);
    multiply_magnitudes(&(struct product){v->dy, v->weight, v->rows, v->k, v->n, v->n, 1, v->k, 1},
                        sum);
    for (size_t i = 0; i < nx; i++) {
        op_bound_sum(p, &p->grad[LINEAR_X], i, (double)v->n, 0, sum[i], true);
    }
    double *sum_w = op_scratch(p, nw), *sum_b = op_scratch(p, v->n);
    multiply_magnitudes(&(struct product){v->dy, v->x, v->n, v->k, v->rows, 1, v->n, v->k, 1},
                        sum_w);
    for (size_t i = 0; i < nw; i++) {
        op_bound_sum(p, &p->grad[LINEAR_WEIGHT], i, (double)v->rows, 0, sum_w[i], true);
    }
    for (size_t i = 0; i < v->rows; i++) {
        for (size_t j = 0; j < v->n; j++) {
            sum_b[j] += fabs(v->dy[i * v->n + j]);
        }
    }
    for (size_t j = 0; v->bias && j < v->n; j++) {
        op_bound_sum(p, &p->grad[LINEAR_BIAS], j, (double)v->rows, 0, sum_b[j], true);
    }
}

static struct op_linear_view linear_view(const struct op_problem *p)
{
    return op_linear_view(p, (size_t)op_int(&p->c, "rows"), (size_t)op_int(&p->c, "n"),
                          (size_t)op_int(&p->c, "k"));
}

static void linear_forward(struct op_problem *p)
{
    struct op_linear_view v = linear_view(p);
    op_linear_forward(&v, op_out(p, 0));
}

static void linear_backward(struct op_problem *p)
{
    struct op_linear_view v = linear_view(p);
    op_linear_backward(&v, op_grad(p, LINEAR_X), op_grad(p, LINEAR_WEIGHT),
                       op_grad(p, LINEAR_BIAS));
}

static void linear_bound(struct op_problem *p)
{
    struct op_linear_view v = linear_view(p);
    op_linear_bound(p, &v);
}

const struct op op_linear = {
    .name = "linear",
    .what = "y = x weight^T + bias",
    .params = linear_params,
    .param_count = ARRAY_LEN(linear_params),
    .inputs = linear_inputs,
    .input_count = ARRAY_LEN(linear_inputs),
    .outputs = linear_outputs,
    .output_count = ARRAY_LEN(linear_outputs),
    .exact_on_grid = true,
    .has_fp8 = true,
    .forward = linear_forward,
    .backward = linear_backward,
    .bound = linear_bound,
};
