// SPDX-License-Identifier: Apache-2.0
/*
 * Operators that address by index: embedding, interpolation, scatter with reduction.
 *
 * Bounds. Copies are exact up to the last rounding. Sums of repeated contributions are sums (u_acc
 * per term; atomics may add in any order), and in the format of the case where kernels accumulate
 * there: torch's embedding and scatter gradients do, so each addition may round: terms u_mid.
 */
#include <math.h>

#include "ops/op.h"
#include "ops/op_inside.h"
#include "ops/op_rows.h"

/* ---- embedding ---- */

static const struct op_param embedding_params[] = {
    {"vocab", OP_PARAM_SIZE, 1, 1e8, 32, NULL, "rows of the table"},
    {"d", OP_PARAM_SIZE, 1, 1e6, 16, NULL, "width"},
    {"rows", OP_PARAM_SIZE, 1, 1e8, 24, NULL, "tokens"},
    {"padding_idx", OP_PARAM_INT, -1, 1e8, -1, NULL, "row without gradient; -1: none"},
};

static const struct op_tensor embedding_inputs[] = {
    {"weight", "vocab d", OP_DTYPE_CASE, true, NULL, "the table"},
    {"ids", "rows", OP_DTYPE_INDEX, false, NULL, "which row; repeated ones add their gradients"},
};

static const struct op_tensor embedding_outputs[] = {
    {"y", "rows d", OP_DTYPE_CASE, true, NULL, "rows of the table"},
};

/* Half of the ids are one and the same, so that gradients pile up. */
static void embedding_fill(struct op_problem *p)
{
    int64_t vocab = op_int(&p->c, "vocab");
    struct op_random r = op_random_of(&p->c, 80);
    int64_t often = op_random_below(&r, vocab);
    for (size_t i = 0; i < p->input[1].count; i++) {
        int64_t id = op_random_below(&r, vocab);
        p->input[1].value[i] = (double)(op_random_unit(&r) < 0.5 ? often : id);
    }
    if (op_int(&p->c, "padding_idx") >= 0 && op_int(&p->c, "padding_idx") < vocab) {
        p->input[1].value[0] = op_get(&p->c, "padding_idx");
    }
}

/* Ids outside the table give NaN and no gradient. */
static bool row_of_id(const struct op_problem *p, size_t i, size_t *ret_row)
{
    double id = op_in(p, 1)[i];
    if (!(id >= 0 && id < op_get(&p->c, "vocab"))) {
        return false;
    }
    *ret_row = (size_t)id;
    return true;
}

/* weight [vocab, d], ids [rows]: y[i] = weight[ids[i]] */
static void embedding_forward(struct op_problem *p)
{
    size_t d = (size_t)op_int(&p->c, "d"), row = 0;
    for (size_t i = 0; i < p->output[0].count; i++) {
        bool found = row_of_id(p, i / d, &row);
        op_out(p, 0)[i] = found ? op_in(p, 0)[row * d + i % d] : NAN;
    }
}

/* dweight[ids[i]] += dy[i], except at padding_idx; with magnitudes into `sum` when given */
static void embedding_add(const struct op_problem *p, double *dweight, double *sum, double *terms)
{
    size_t d = (size_t)op_int(&p->c, "d"), row = 0;
    for (size_t i = 0; i < p->output[0].count; i++) {
        if (!row_of_id(p, i / d, &row) || (double)row == op_get(&p->c, "padding_idx")) {
            continue;
        }
        size_t at = row * d + i % d;
        if (dweight) {
            dweight[at] += op_dout(p, 0)[i];
        } else {
            sum[at] += fabs(op_dout(p, 0)[i]);
            terms[at] += 1;
        }
    }
}

static void embedding_backward(struct op_problem *p)
{
    embedding_add(p, op_grad(p, 0), NULL, NULL);
}

static void embedding_bound(struct op_problem *p)
{
    for (size_t i = 0; i < p->output[0].count; i++) {
        p->output[0].bound[i] = OP_BOUND_EXACT;
    }
    if (!op_dout(p, 0)) {
        return;
    }
    double *sum = op_scratch(p, p->grad[0].count), *terms = op_scratch(p, p->grad[0].count);
    embedding_add(p, NULL, sum, terms);
    for (size_t i = 0; i < p->grad[0].count; i++) {
        double mid = terms[i] > 1 ? terms[i] - 1 : 0;
        op_bound_sum(p, &p->grad[0], i, terms[i], mid, sum[i], true);
        if (terms[i] <= 1) {
            p->grad[0].bound[i] = OP_BOUND_EXACT;
        }
    }
}

const struct op op_embedding = {
    .name = "embedding",
    .what = "y[i] = weight[ids[i]]",
    .params = embedding_params,
    .param_count = ARRAY_LEN(embedding_params),
    .inputs = embedding_inputs,
    .input_count = ARRAY_LEN(embedding_inputs),
    .outputs = embedding_outputs,
    .output_count = ARRAY_LEN(embedding_outputs),
    .exact_on_grid = true,
    .fill = embedding_fill,
    .forward = embedding_forward,
    .backward = embedding_backward,
    .bound = embedding_bound,
};

/* ---- scatter_reduce ---- */

enum {
    REDUCE_SUM = 0,
    REDUCE_MEAN,
    REDUCE_AMAX,
    REDUCE_AMIN
};

static const char *const reduce_names[] = {"sum", "mean", "amax", "amin", NULL};

static const struct op_param scatter_params[] = {
    {"rows", OP_PARAM_SIZE, 1, 1e8, 8, NULL, "rows of x"},
    {"cols", OP_PARAM_SIZE, 1, 1e6, 8, NULL, "columns of x, index and src"},
    {"n", OP_PARAM_SIZE, 1, 1e8, 16, NULL, "rows of index and src"},
    {"reduce", OP_PARAM_CHOICE, 0, 3, 0, reduce_names, "what happens to values of one place"},
    {"include_self", OP_PARAM_FLAG, 0, 1, 1, NULL, "x takes part where something is scattered"},
};

static const struct op_tensor scatter_inputs[] = {
    {"x", "rows cols", OP_DTYPE_CASE, true, NULL, "scattered into"},
    {"index", "n cols", OP_DTYPE_INDEX, false, NULL, "row of x for each element of src"},
    {"src", "n cols", OP_DTYPE_CASE, true, NULL, "scattered"},
};

static const struct op_tensor scatter_outputs[] = {
    {"y", "rows cols", OP_DTYPE_CASE, true, NULL, "result"},
};

static void scatter_fill(struct op_problem *p)
{
    struct op_random r = op_random_of(&p->c, 81);
    for (size_t i = 0; i < p->input[1].count; i++) {
        p->input[1].value[i] = (double)op_random_below(&r, op_int(&p->c, "rows"));
    }
}

/* Position in x of element i of src; false when the index is no row. */
static bool place_of(const struct op_problem *p, size_t i, size_t *ret_place)
{
    size_t cols = (size_t)op_int(&p->c, "cols");
    double row = op_in(p, 1)[i];
    if (!(row >= 0 && row < op_get(&p->c, "rows"))) {
        return false;
    }
    *ret_place = (size_t)row * cols + i % cols;
    return true;
}

/* How many elements of src land on each place. */
static double *hits_of(struct op_problem *p)
{
    double *hits = op_scratch(p, p->output[0].count);
    for (size_t i = 0, at = 0; i < p->input[2].count; i++) {
        if (place_of(p, i, &at)) {
            hits[at]++;
        }
    }
    return hits;
}

/* x [rows, cols], index and src [n, cols]: y[index[i][j]][j] reduces src[i][j], and x[..][j] where
 * include_self; places that nothing lands on keep x. */
static void scatter_forward(struct op_problem *p)
{
    int reduce = (int)op_int(&p->c, "reduce");
    bool self = op_flag(&p->c, "include_self");
    double *hits = hits_of(p), *y = op_out(p, 0);
    double start = reduce == REDUCE_AMAX ? -INFINITY : reduce == REDUCE_AMIN ? INFINITY : 0;
    for (size_t i = 0; i < p->output[0].count; i++) {
        y[i] = hits[i] == 0 || self ? op_in(p, 0)[i] : start;
    }
    for (size_t i = 0, at = 0; i < p->input[2].count; i++) {
        double v = op_in(p, 2)[i];
        if (!place_of(p, i, &at)) {
            continue;
        }
        bool better = reduce == REDUCE_AMAX ? !(v <= y[at]) : !(v >= y[at]);
        y[at] = reduce <= REDUCE_MEAN ? y[at] + v : better && !isnan(y[at]) ? v : y[at];
    }
    for (size_t i = 0; reduce == REDUCE_MEAN && i < p->output[0].count; i++) {
        y[i] /= hits[i] > 0 ? hits[i] + self : 1;
    }
}

/* Sum and mean: dy, over the count. Extremes: shared evenly by everything that attains them. */
static void scatter_backward(struct op_problem *p)
{
    int reduce = (int)op_int(&p->c, "reduce");
    bool self = op_flag(&p->c, "include_self");
    double *hits = hits_of(p), *winners = op_scratch(p, p->output[0].count);
    const double *x = op_in(p, 0), *src = op_in(p, 2), *y = op_out(p, 0), *dy = op_dout(p, 0);
    bool extreme = reduce >= REDUCE_AMAX;
    for (size_t i = 0; i < p->output[0].count; i++) {
        winners[i] = self && x[i] == y[i];
    }
    for (size_t i = 0, at = 0; i < p->input[2].count; i++) {
        if (place_of(p, i, &at)) {
            winners[at] += src[i] == y[at];
        }
    }
    for (size_t i = 0, at = 0; i < p->input[2].count; i++) {
        if (place_of(p, i, &at)) {
            double share = extreme                 ? (src[i] == y[at]) / winners[at]
                           : reduce == REDUCE_MEAN ? 1 / (hits[at] + self)
                                                   : 1;
            op_grad(p, 2)[i] = dy[at] * share;
        }
    }
    for (size_t i = 0; i < p->output[0].count; i++) {
        double share = extreme                 ? (x[i] == y[i]) / fmax(winners[i], 1)
                       : reduce == REDUCE_MEAN ? 1 / (hits[i] + 1)
                                               : 1;
        op_grad(p, 0)[i] = hits[i] == 0 ? dy[i] : self ? dy[i] * share : 0;
    }
}

static void scatter_bound(struct op_problem *p)
{
    int reduce = (int)op_int(&p->c, "reduce");
    bool self = op_flag(&p->c, "include_self");
    double *hits = hits_of(p), *sum = op_scratch(p, p->output[0].count);
    for (size_t i = 0; i < p->output[0].count; i++) {
        sum[i] = hits[i] == 0 || self ? fabs(op_in(p, 0)[i]) : 0;
    }
    for (size_t i = 0, at = 0; i < p->input[2].count; i++) {
        if (place_of(p, i, &at)) {
            sum[at] += fabs(op_in(p, 2)[i]);
        }
    }
    for (size_t i = 0; i < p->output[0].count; i++) {
        double count = reduce == REDUCE_MEAN && hits[i] > 0 ? hits[i] + self : 1;
        double mid = hits[i] + (reduce == REDUCE_MEAN);
        op_bound_sum(p, &p->output[0], i, hits[i] + 2, mid, sum[i] / count, reduce == REDUCE_SUM);
        if (reduce >= REDUCE_AMAX || hits[i] == 0) {
            p->output[0].bound[i] = OP_BOUND_EXACT;
        }
    }
    for (size_t i = 0; op_dout(p, 0) && i < p->grad[0].count; i++) {
        p->grad[0].bound[i] = (2 * p->u_acc + p->u_mid) * fabs(op_grad(p, 0)[i]);
    }
    for (size_t i = 0; op_dout(p, 0) && i < p->grad[2].count; i++) {
        p->grad[2].bound[i] = (2 * p->u_acc + p->u_mid) * fabs(op_grad(p, 2)[i]);
    }
}

const struct op op_scatter_reduce = {
    .name = "scatter_reduce",
    .what = "y[index[i][j]][j] = reduce(src[i][j], ...)",
    .params = scatter_params,
    .param_count = ARRAY_LEN(scatter_params),
    .inputs = scatter_inputs,
    .input_count = ARRAY_LEN(scatter_inputs),
    .outputs = scatter_outputs,
    .output_count = ARRAY_LEN(scatter_outputs),
    .exact_on_grid = true,
    .fill = scatter_fill,
    .forward = scatter_forward,
    .backward = scatter_backward,
    .bound = scatter_bound,
};
