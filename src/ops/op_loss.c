// SPDX-License-Identifier: Apache-2.0
/*
 * Softmax and cross-entropy.
 *
 * Bounds. With m the row's maximum, e = exp(x - m): the difference rounds by u_acc |x - m|, which the
 * exponential turns into a relative error of the same size; the exponential itself is allowed 4 ulp,
 * the sum of n positive terms n u_acc. So each probability has a relative error of at most
 * (n + 8 + |x - m| + M) u_acc with M = sum p |x - m|, the mean of the same thing in the denominator.
 */
#include <math.h>

#include "ops/op.h"
#include "ops/op_inside.h"
#include "ops/op_rows.h"

struct row {
    double max, sum; /* sum of exp(x - max) */
};

static struct row row_of(const double *x, size_t n)
{
    struct row r = {.max = -INFINITY};
    for (size_t i = 0; i < n; i++) {
        r.max = x[i] > r.max || isnan(x[i]) ? x[i] : r.max;
    }
    for (size_t i = 0; i < n; i++) {
        r.sum += exp(x[i] - r.max);
    }
    return r;
}

/* (n + 8 + |x - m| + M) u_acc without the part that depends on x. */
static double row_error(const struct op_problem *p, const double *x, size_t n, struct row r)
{
    double mean = 0;
    for (size_t i = 0; i < n; i++) {
        mean += exp(x[i] - r.max) / r.sum * fabs(x[i] - r.max);
    }
    return ((double)n + 8 + mean) * p->u_acc;
}

/* ---- softmax ---- */

static const struct op_param softmax_params[] = {
    {"rows", OP_PARAM_SIZE, 1, 1e9, 4, NULL, "independent distributions"},
    {"n", OP_PARAM_SIZE, 1, 1e9, 64, NULL, "classes"},
};

static const struct op_tensor softmax_inputs[] = {
    {"x", "rows n", OP_DTYPE_CASE, true, NULL, "logits"},
};

static const struct op_tensor softmax_outputs[] = {
    {"y", "rows n", OP_DTYPE_CASE, true, NULL, "probabilities"},
};

/* y = exp(x - max) / sum(exp(x - max)) over the last dimension */
static void softmax_forward(struct op_problem *p)
{
    size_t rows = (size_t)op_int(&p->c, "rows"), n = (size_t)op_int(&p->c, "n");
    for (size_t i = 0; i < rows; i++) {
        const double *x = op_in(p, 0) + i * n;
        struct row r = row_of(x, n);
        for (size_t j = 0; j < n; j++) {
            op_out(p, 0)[i * n + j] = exp(x[j] - r.max) / r.sum;
        }
    }
}

/* dx = y (dy - sum(y dy)) */
static void softmax_backward(struct op_problem *p)
{
    size_t rows = (size_t)op_int(&p->c, "rows"), n = (size_t)op_int(&p->c, "n");
    for (size_t i = 0; i < rows; i++) {
        const double *y = op_out(p, 0) + i * n, *dy = op_dout(p, 0) + i * n;
        double dot = 0;
        for (size_t j = 0; j < n; j++) {
            dot += y[j] * dy[j];
        }
        for (size_t j = 0; j < n; j++) {
            op_grad(p, 0)[i * n + j] = y[j] * (dy[j] - dot);
        }
    }
}

/* Backward works on y as it was stored, so every y carries u_mid: once outside, once in the dot. The
 * product y dy may be stored as well before it is summed, as PyTorch does on CUDA. */
static void softmax_bound(struct op_problem *p)
{
    size_t rows = (size_t)op_int(&p->c, "rows"), n = (size_t)op_int(&p->c, "n");
    for (size_t i = 0; i < rows; i++) {
        const double *x = op_in(p, 0) + i * n, *y = op_out(p, 0) + i * n;
        struct row r = row_of(x, n);
        double common = row_error(p, x, n, r), dot = 0, dot_error = 0;
        for (size_t j = 0; j < n; j++) {
            double relative = common + fabs(x[j] - r.max) * p->u_acc;
            p->output[0].bound[i * n + j] = relative * y[j];
            double dy = op_dout(p, 0) ? fabs(op_dout(p, 0)[i * n + j]) : 0;
            dot += y[j] * dy;
            dot_error += y[j] * dy * (relative + 2 * p->u_mid + ((double)n + 2) * p->u_acc);
        }
        for (size_t j = 0; op_dout(p, 0) && j < n; j++) {
            double relative = common + fabs(x[j] - r.max) * p->u_acc + p->u_mid + 4 * p->u_acc;
            double dy = fabs(op_dout(p, 0)[i * n + j]), size = dy + dot;
            p->grad[0].bound[i * n + j] = y[j] * (relative * size + p->u_mid * dy + dot_error) +
                                          op_stored_loss(p) * (size + 1);
        }
    }
}

const struct op op_softmax = {
    .name = "softmax",
    .what = "y = exp(x) / sum(exp(x)) over the last dimension",
    .params = softmax_params,
    .param_count = ARRAY_LEN(softmax_params),
    .inputs = softmax_inputs,
    .input_count = ARRAY_LEN(softmax_inputs),
    .outputs = softmax_outputs,
    .output_count = ARRAY_LEN(softmax_outputs),
    .forward = softmax_forward,
    .backward = softmax_backward,
    .bound = softmax_bound,
};

/* ---- cross_entropy ---- */

static const char *const reduction_names[] = {"mean", "sum", NULL};

static const struct op_param entropy_params[] = {
    {"rows", OP_PARAM_SIZE, 1, 1e9, 8, NULL, "tokens"},
    {"vocab", OP_PARAM_SIZE, 1, 1e9, 64, NULL, "classes"},
    {"reduction", OP_PARAM_CHOICE, 0, 1, 0, reduction_names,
     "mean over the tokens that count (NaN when there is none), or sum"},
    {"ignore_index", OP_PARAM_INT, -1e9, 1e9, -100, NULL, "target of tokens that do not count"},
    {"ignored", OP_PARAM_INT, 0, 1e9, 1, NULL, "how many generated targets are ignore_index"},
};

static const struct op_tensor entropy_inputs[] = {
    {"logits", "rows vocab", OP_DTYPE_CASE, true, NULL, "one row per token"},
    {"target", "rows", OP_DTYPE_INDEX, false, NULL, "class of each token, or ignore_index"},
};

static const struct op_tensor entropy_outputs[] = {
    {"loss", "", OP_DTYPE_CASE, true, NULL, "scalar"},
};

struct entropy {
    size_t rows, vocab, counted;
    double ignore, weight; /* weight of each counted row */
    const double *logits, *target;
};

static struct entropy entropy_of(const struct op_problem *p)
{
    struct entropy e = {
        .rows = (size_t)op_int(&p->c, "rows"),
        .vocab = (size_t)op_int(&p->c, "vocab"),
        .ignore = op_get(&p->c, "ignore_index"),
        .logits = op_in(p, 0),
        .target = op_in(p, 1),
    };
    for (size_t i = 0; i < e.rows; i++) {
        e.counted += e.target[i] != e.ignore;
    }
    bool mean = op_int(&p->c, "reduction") == 0;
    e.weight = !mean ? 1 : e.counted ? 1 / (double)e.counted : NAN;
    return e;
}

/* Index of the row's class, or vocab when the row does not count (or the target is no class). */
static size_t class_of(const struct entropy *e, size_t row)
{
    double t = e->target[row];
    return t == e->ignore || !(t >= 0 && t < (double)e->vocab) ? e->vocab : (size_t)t;
}

static void entropy_fill(struct op_problem *p)
{
    size_t rows = (size_t)op_int(&p->c, "rows");
    int64_t vocab = op_int(&p->c, "vocab"), ignored = op_int(&p->c, "ignored");
    struct op_random r = op_random_of(&p->c, 50);
    for (size_t i = 0; i < rows; i++) {
        p->input[1].value[i] = (double)op_random_below(&r, vocab);
    }
    /* The first and last rows are the ones that kernels get wrong; spread the rest. */
    for (int64_t i = 0; i < ignored && i < (int64_t)rows; i++) {
        size_t at = i == 0 ? 0 : i == 1 ? rows - 1 : (size_t)op_random_below(&r, (int64_t)rows);
        p->input[1].value[at] = op_get(&p->c, "ignore_index");
    }
}

/* loss = weight sum over counted rows of (log(sum(exp(x - max))) + max - x[target]) */
static void entropy_forward(struct op_problem *p)
{
    struct entropy e = entropy_of(p);
    double sum = 0;
    for (size_t i = 0; i < e.rows; i++) {
        size_t target = class_of(&e, i);
        const double *x = e.logits + i * e.vocab;
        if (target < e.vocab) {
            struct row r = row_of(x, e.vocab);
            sum += log(r.sum) + (r.max - x[target]);
        }
    }
    op_out(p, 0)[0] = e.weight * sum;
}

/* dlogits = dloss weight (softmax - one at the target) on counted rows, 0 elsewhere */
static void entropy_backward(struct op_problem *p)
{
    struct entropy e = entropy_of(p);
    double dloss = op_dout(p, 0)[0];
    for (size_t i = 0; i < e.rows; i++) {
        size_t target = class_of(&e, i);
        const double *x = e.logits + i * e.vocab;
        if (target == e.vocab) {
            continue;
        }
        struct row r = row_of(x, e.vocab);
        for (size_t j = 0; j < e.vocab; j++) {
            double p_j = exp(x[j] - r.max) / r.sum;
            op_grad(p, 0)[i * e.vocab + j] = dloss * e.weight * (p_j - (j == target));
        }
    }
}

/* Each row: log of the sum is off by its relative error, the difference by 3 u_acc of its size, and a
 * log-softmax stored in the format of the case by u_mid of the row's loss; then a sum over rows. The
 * logarithm of the sum may be stored in that format on the way (torch does so on the CPU), which moves
 * every entry of the row by u_mid of its size. The gradient goes through exp of the stored log-softmax:
 * an absolute error d there is a relative one of exp(d) - 1. 1 / count, when stored, is u_mid more. */
static void entropy_bound(struct op_problem *p)
{
    struct entropy e = entropy_of(p);
    double error = 0, sum = 0;
    for (size_t i = 0; i < e.rows; i++) {
        size_t target = class_of(&e, i);
        const double *x = e.logits + i * e.vocab;
        if (target == e.vocab) {
            continue;
        }
        struct row r = row_of(x, e.vocab);
        double common = row_error(p, x, e.vocab, r), log_sum = fabs(log(r.sum));
        double size = log_sum + fabs(r.max) + fabs(x[target]);
        double own = fabs(log(r.sum) + r.max - x[target]);
        error += common + 6 * p->u_acc * size + p->u_mid * (own + log_sum);
        sum += own;
        for (size_t j = 0; op_dout(p, 0) && j < e.vocab; j++) {
            double distance = fabs(x[j] - r.max) + log_sum;
            double p_j = exp(x[j] - r.max) / r.sum;
            double moved = common + distance * (2 * p->u_acc + p->u_mid) + p->u_mid * log_sum +
                           6 * p->u_acc * (fabs(r.max) + log_sum + 1);
            double relative = expm1(moved);
            double rest = (2 * p->u_mid + 8 * p->u_acc) * (p_j + (j == target));
            p->grad[0].bound[i * e.vocab + j] = fabs(op_dout(p, 0)[0] * e.weight) *
                                                (p_j * relative + rest);
        }
    }
    double mean_error = error + ((double)e.rows + 4) * p->u_acc * sum;
    p->output[0].bound[0] = fabs(e.weight) * mean_error;
}

const struct op op_cross_entropy = {
    .name = "cross_entropy",
    .what = "loss = -log softmax(logits)[target], mean or sum over the tokens that count",
    .params = entropy_params,
    .param_count = ARRAY_LEN(entropy_params),
    .inputs = entropy_inputs,
    .input_count = ARRAY_LEN(entropy_inputs),
    .outputs = entropy_outputs,
    .output_count = ARRAY_LEN(entropy_outputs),
    .fill = entropy_fill,
    .forward = entropy_forward,
    .backward = entropy_backward,
    .bound = entropy_bound,
};
