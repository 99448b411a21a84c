// SPDX-License-Identifier: Apache-2.0
/*
 * Scaled dot-product attention: causal, grouped-query, masked, and what a row gives that may look
 * at nothing.
 *
 * Bounds, one query row at a time. A score s = scale q.k is off by
 *   ds = ((d + 3) u_acc + 2 u_in) scale sum|q||k| + u_mid (|s| + |mask|),
 * the second part for an implementation that stores scores in the format of the case (eager does). A
 * probability is then off by a relative D = 2 max(ds) + (keys + 8 + max|s - m|) u_acc, and by u_mid
 * once more when it is stored. Sums over keys follow op_inside.h. For the backward pass the row dot
 * delta = sum p dp may come from the stored output (flash) or from stored dp: u_mid each.
 */
#include <math.h>

#include "ops/op.h"
#include "ops/op_inside.h"
#include "ops/op_rows.h"

enum {
    IN_Q = 0,
    IN_K,
    IN_V,
    IN_MASK_BOOL,
    IN_MASK_ADD
};

static const char *const empty_names[] = {"zero", "uniform", "nan", NULL};

static const struct op_param attention_params[] = {
    {"batch", OP_PARAM_SIZE, 1, 65536, 1, NULL, "sequences"},
    {"heads", OP_PARAM_SIZE, 1, 65536, 2, NULL, "query heads"},
    {"kv_heads", OP_PARAM_SIZE, 1, 65536, 2, NULL,
     "key and value heads; query head h uses h / (heads / kv_heads)"},
    {"queries", OP_PARAM_SIZE, 1, 1e6, 16, NULL, "query positions"},
    {"keys", OP_PARAM_SIZE, 1, 1e6, 16, NULL, "key positions"},
    {"dim", OP_PARAM_SIZE, 1, 65536, 64, NULL, "width of a query or key"},
    {"dim_v", OP_PARAM_SIZE, 1, 65536, 64, NULL, "width of a value"},
    {"causal", OP_PARAM_FLAG, 0, 1, 0, NULL, "query i sees keys 0 to i"},
    {"scale", OP_PARAM_REAL, 0, 1e6, 0, NULL, "factor of the scores; 0 means 1/sqrt(dim)"},
    {"mask_bool", OP_PARAM_FLAG, 0, 1, 0, NULL, "a mask of booleans, true where a key is seen"},
    {"mask_add", OP_PARAM_FLAG, 0, 1, 0, NULL, "a mask that is added to the scores"},
    {"mask_shift", OP_PARAM_REAL, -1e4, 1e4, 0, NULL,
     "added to a generated mask_add for every fourth query: the softmax does not feel it, a kernel "
     "that exponentiates outside a row's maximum does"},
    {"empty_rows", OP_PARAM_INT, 0, 1e6, 0, NULL,
     "generated masks hide everything from so many last queries of each sequence"},
    {"empty", OP_PARAM_CHOICE, 0, 2, 0, empty_names,
     "what such a row gives: zero (flash, recent torch), the mean of all values (a large finite "
     "negative mask), or NaN (softmax of -inf)"},
};

static const struct op_tensor attention_inputs[] = {
    {"q", "batch heads queries dim", OP_DTYPE_CASE, true, NULL, "queries"},
    {"k", "batch kv_heads keys dim", OP_DTYPE_CASE, true, NULL, "keys"},
    {"v", "batch kv_heads keys dim_v", OP_DTYPE_CASE, true, NULL, "values"},
    {"mask_bool", "batch queries keys", OP_DTYPE_BOOL, false, "mask_bool", "true: seen"},
    {"mask_add", "batch queries keys", OP_DTYPE_CASE, false, "mask_add", "added; -inf hides"},
};

static const struct op_tensor attention_outputs[] = {
    {"y", "batch heads queries dim_v", OP_DTYPE_CASE, true, NULL, "weighted values"},
};

struct attention {
    size_t batch, heads, kv_heads, queries, keys, dim, dim_v;
    double scale;
    bool causal;
    int empty;
    const double *mask_bool, *mask_add;
};

/* One query row: where its operands and results are, and its probabilities. */
struct attention_row {
    size_t query, at_q, at_k, at_v, at_y, at_mask; /* offsets of the row and its keys, values */
    size_t seen;                                   /* keys that are not hidden */
    double max;
    double *s, *p; /* [keys] */
};

static struct attention attention_of(const struct op_problem *p)
{
    const struct op_case *c = &p->c;
    double scale = op_get(c, "scale");
    return (struct attention){
        .batch = (size_t)op_int(c, "batch"),
        .heads = (size_t)op_int(c, "heads"),
        .kv_heads = (size_t)op_int(c, "kv_heads"),
        .queries = (size_t)op_int(c, "queries"),
        .keys = (size_t)op_int(c, "keys"),
        .dim = (size_t)op_int(c, "dim"),
        .dim_v = (size_t)op_int(c, "dim_v"),
        .scale = scale > 0 ? scale : 1 / sqrt(op_get(c, "dim")),
        .causal = op_flag(c, "causal"),
        .empty = (int)op_int(c, "empty"),
        .mask_bool = op_in(p, IN_MASK_BOOL),
        .mask_add = op_in(p, IN_MASK_ADD),
    };
}

static enum status attention_check(const struct op_case *c, struct err *err)
{
    if (op_int(c, "heads") % op_int(c, "kv_heads")) {
        return err_set(err, ST_USAGE, "attention: %lld heads cannot share %lld key heads evenly",
                       (long long)op_int(c, "heads"), (long long)op_int(c, "kv_heads"));
    }
    if (op_int(c, "empty_rows") && !op_flag(c, "mask_bool") && !op_flag(c, "mask_add")) {
        return err_set(err, ST_USAGE, "attention: empty_rows needs mask_bool or mask_add");
    }
    if (op_get(c, "mask_shift") != 0 && !op_flag(c, "mask_add")) {
        return err_set(err, ST_USAGE, "attention: mask_shift needs mask_add");
    }
    return ST_OK;
}

/* Masks hide about a quarter of the keys, never the first one, and all of them in the empty rows. */
static void attention_fill(struct op_problem *p)
{
    struct attention a = attention_of(p);
    size_t empty = (size_t)op_int(&p->c, "empty_rows");
    struct op_random r = op_random_of(&p->c, 60);
    for (size_t i = 0; i < a.batch * a.queries * a.keys; i++) {
        size_t query = i / a.keys % a.queries, key = i % a.keys;
        bool hidden = (key > 0 && op_random_unit(&r) < 0.25) || query + empty >= a.queries;
        if (a.mask_bool) {
            p->input[IN_MASK_BOOL].value[i] = !hidden;
        }
        if (a.mask_add) {
            double v = op_random_bell(&r) + (query % 4 == 1 ? op_get(&p->c, "mask_shift") : 0);
            v = hidden ? -INFINITY : v;
            p->input[IN_MASK_ADD].value[i] = dtype_round(p->input[IN_MASK_ADD].dtype, v);
        }
    }
}

static struct attention_row locate(const struct attention *a, size_t row, double *s, double *prob)
{
    size_t query = row % a->queries, head = row / a->queries % a->heads;
    size_t batch = row / a->queries / a->heads;
    size_t kv = batch * a->kv_heads + head / (a->heads / a->kv_heads);
    return (struct attention_row){
        .query = query,
        .at_q = row * a->dim,
        .at_k = kv * a->keys * a->dim,
        .at_v = kv * a->keys * a->dim_v,
        .at_y = row * a->dim_v,
        .at_mask = (batch * a->queries + query) * a->keys,
        .s = s,
        .p = prob,
    };
}

/* Scores, -inf where hidden, and probabilities; a row without keys gets what `empty` says. */
static void solve_row(const struct op_problem *p, const struct attention *a,
                      struct attention_row *r)
{
    const double *q = op_in(p, IN_Q) + r->at_q, *k = op_in(p, IN_K) + r->at_k;
    double sum = 0;
    r->max = -INFINITY;
    r->seen = 0;
    for (size_t j = 0; j < a->keys; j++) {
        double dot = 0;
        for (size_t i = 0; i < a->dim; i++) {
            dot += q[i] * k[j * a->dim + i];
        }
        double s = a->scale * dot + (a->mask_add ? a->mask_add[r->at_mask + j] : 0);
        bool hidden = (a->causal && j > r->query) ||
                      (a->mask_bool && a->mask_bool[r->at_mask + j] == 0) || s == -INFINITY;
        r->s[j] = hidden ? -INFINITY : s;
        r->seen += !hidden;
        r->max = r->s[j] > r->max || isnan(r->s[j]) ? r->s[j] : r->max;
    }
    for (size_t j = 0; j < a->keys; j++) {
        r->p[j] = r->s[j] == -INFINITY ? 0 : exp(r->s[j] - r->max);
        sum += r->p[j];
    }
    double nothing = a->empty == 0 ? 0 : a->empty == 1 ? 1 / (double)a->keys : NAN;
    for (size_t j = 0; j < a->keys; j++) {
        r->p[j] = r->seen ? r->p[j] / sum : nothing;
    }
}

/* q [batch, heads, queries, dim], k [batch, kv_heads, keys, dim], v [batch, kv_heads, keys, dim_v]:
 * y = softmax(scale q k^T + mask) v */
static void attention_forward(struct op_problem *p)
{
    struct attention a = attention_of(p);
    double *s = op_scratch(p, a.keys), *prob = op_scratch(p, a.keys);
    for (size_t row = 0; row < a.batch * a.heads * a.queries; row++) {
        struct attention_row r = locate(&a, row, s, prob);
        solve_row(p, &a, &r);
        double *y = op_out(p, 0) + r.at_y;
        const double *v = op_in(p, IN_V) + r.at_v;
        for (size_t j = 0; j < a.keys; j++) {
            for (size_t i = 0; prob[j] != 0 && i < a.dim_v; i++) {
                y[i] += prob[j] * v[j * a.dim_v + i];
            }
        }
    }
}

/* dv += p dy; dp = dy.v; ds = p (dp - sum(p dp)); dq = scale ds k; dk += scale ds q. A row without
 * keys passes a gradient to v alone (uniform), to nothing (zero), or NaN to all (nan). */
static void attention_backward(struct op_problem *p)
{
    struct attention a = attention_of(p);
    double *s = op_scratch(p, a.keys), *prob = op_scratch(p, a.keys);
    double *dp = op_scratch(p, a.keys);
    for (size_t row = 0; row < a.batch * a.heads * a.queries; row++) {
        struct attention_row r = locate(&a, row, s, prob);
        solve_row(p, &a, &r);
        const double *dy = op_dout(p, 0) + r.at_y, *v = op_in(p, IN_V) + r.at_v;
        const double *q = op_in(p, IN_Q) + r.at_q, *k = op_in(p, IN_K) + r.at_k;
        double *dq = op_grad(p, IN_Q) + r.at_q, *dk = op_grad(p, IN_K) + r.at_k;
        double *dv = op_grad(p, IN_V) + r.at_v, delta = 0;
        for (size_t j = 0; j < a.keys; j++) {
            dp[j] = 0;
            for (size_t i = 0; prob[j] != 0 && i < a.dim_v; i++) {
                dp[j] += dy[i] * v[j * a.dim_v + i];
                dv[j * a.dim_v + i] += prob[j] * dy[i];
            }
            delta += prob[j] * dp[j];
        }
        bool frozen = r.seen == 0 && a.empty == 1;
        for (size_t j = 0; !frozen && j < a.keys; j++) {
            double ds = prob[j] * (dp[j] - delta) * a.scale;
            for (size_t i = 0; prob[j] != 0 && i < a.dim; i++) {
                dq[i] += ds * k[j * a.dim + i];
                dk[j * a.dim + i] += ds * q[i];
            }
        }
    }
}

/* Relative error of the probabilities of a row, D of the head of this file. */
static double row_relative(const struct op_problem *p, const struct attention *a,
                           const struct attention_row *r)
{
    const double *q = op_in(p, IN_Q) + r->at_q, *k = op_in(p, IN_K) + r->at_k;
    double worst = 0, farthest = 0;
    for (size_t j = 0; j < a->keys; j++) {
        /* Keys with no weight left do not move the others. */
        if (!(r->p[j] > 1e-12)) {
            continue;
        }
        double size = 0, mask = a->mask_add ? fabs(a->mask_add[r->at_mask + j]) : 0;
        for (size_t i = 0; i < a->dim; i++) {
            size += fabs(q[i] * k[j * a->dim + i]);
        }
        double stored = p->u_mid * (2 * fabs(r->s[j]) + mask);
        worst = fmax(worst, op_sum_error(p, (double)a->dim + 1, 0, a->scale * size) + stored);
        farthest = fmax(farthest, fabs(r->s[j] - r->max));
    }
    return expm1(fmin(2 * worst, 40)) + ((double)a->keys + 8 + farthest) * p->u_acc;
}

/* What one row adds to the errors of its results. */
static void bound_row(struct op_problem *p, const struct attention *a,
                      const struct attention_row *r, double *dp)
{
    const double *v = op_in(p, IN_V) + r->at_v, *q = op_in(p, IN_Q) + r->at_q;
    const double *k = op_in(p, IN_K) + r->at_k;
    const double *dy = op_dout(p, 0) ? op_dout(p, 0) + r->at_y : NULL;
    double keys = (double)a->keys, relative = row_relative(p, a, r), delta = 0;
    double lost = op_stored_loss(p);
    double unit = relative + (keys + 4) * p->u_acc + 2 * p->u_in + p->u_mid;
    for (size_t j = 0; j < a->keys; j++) {
        dp[j] = 0;
        for (size_t i = 0; r->p[j] != 0 && i < a->dim_v; i++) {
            p->output[0].bound[r->at_y + i] += (unit * r->p[j] + lost) * fabs(v[j * a->dim_v + i]);
            dp[j] += dy ? fabs(dy[i] * v[j * a->dim_v + i]) : 0;
        }
        delta += r->p[j] * dp[j];
    }
    size_t group = a->heads / a->kv_heads; /* query heads that share one key head: a whole number */
    double rows = (double)(a->queries * group);
    double back = relative + ((double)a->dim_v + keys + rows + 16) * p->u_acc + 4 * p->u_in +
                  3 * p->u_mid;
    for (size_t j = 0; dy && j < a->keys; j++) {
        double ds = r->p[j] * ((back + relative) * dp[j] + (2 * back + relative) * delta) *
                    a->scale;
        for (size_t i = 0; r->p[j] != 0 && i < a->dim; i++) {
            p->grad[IN_Q].bound[r->at_q + i] += ds * fabs(k[j * a->dim + i]);
            p->grad[IN_K].bound[r->at_k + j * a->dim + i] += ds * fabs(q[i]);
        }
        for (size_t i = 0; r->p[j] != 0 && i < a->dim_v; i++) {
            p->grad[IN_V].bound[r->at_v + j * a->dim_v + i] += (back * r->p[j] + lost) *
                                                               fabs(dy[i]);
        }
    }
}

static void attention_bound(struct op_problem *p)
{
    struct attention a = attention_of(p);
    double *s = op_scratch(p, a.keys), *prob = op_scratch(p, a.keys);
    double *dp = op_scratch(p, a.keys);
    for (size_t row = 0; row < a.batch * a.heads * a.queries; row++) {
        struct attention_row r = locate(&a, row, s, prob);
        solve_row(p, &a, &r);
        bound_row(p, &a, &r, dp);
    }
}

const struct op op_attention = {
    .name = "attention",
    .what = "y = softmax(scale q k^T + mask) v",
    .params = attention_params,
    .param_count = ARRAY_LEN(attention_params),
    .inputs = attention_inputs,
    .input_count = ARRAY_LEN(attention_inputs),
    .outputs = attention_outputs,
    .output_count = ARRAY_LEN(attention_outputs),
    .check = attention_check,
    .fill = attention_fill,
    .forward = attention_forward,
    .backward = attention_backward,
    .bound = attention_bound,
};
