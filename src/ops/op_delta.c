// SPDX-License-Identifier: Apache-2.0
/*
 * The gated delta rule as an operator: heads gathered and scattered, key normalisation, bounds.
 *
 * Bounds are norm-wise; component-wise ones grow exponentially with time although the recurrence
 * does not. The step S -> exp(g) (I - beta k k^T) S has the operator norm
 *   rho = exp(g) max(1, |1 - beta |k|^2|),
 * so an error E of the state (Frobenius) becomes rho E plus what the step itself adds:
 *   E' = rho E + eps (|P| + |k| |d|),
 * and the gradient of the state carries an error F backwards in the same way. eps is what one step
 * may lose: 8 u_mid for the matrices that chunked kernels store in the format of the case (q, k, W,
 * U, N, M, S as operands of products), (chunk + dim_k + 16) u_acc for their sums, and the rounding of
 * a running sum of g, chunk u_acc |g|. The gradient of g is a difference of sums over a block in the
 * chunked form, so it is charged with the magnitudes of its block.
 * Beside these worst cases stands the RMS limit that flash-linear-attention's own tests use for 16-bit
 * formats (tests/ops/test_gdn.py): 0.005 output and state, 0.008 dq dk dv dh0, 0.02 dg dbeta; float32
 * kernels that multiply in tf32 pass 0.005, float32 proper is held to 1e-5.
 */
#include "ops/op_delta.h"

#include <math.h>
#include <string.h>

#include "ops/op.h"
#include "ops/op_inside.h"
#include "ops/op_rows.h"

enum {
    IN_Q = 0,
    IN_K,
    IN_V,
    IN_G,
    IN_BETA,
    IN_STATE,
    BLOCK = 64 /* what implementations use; for bounds */
};

enum {
    OUT_O = 0,
    OUT_STATE
};

#define L2_EPS 1e-6 /* inside the root, beside the sum of squares */

static const char *const form_names[] = {"recurrent", "chunked", NULL};
static const char *const gate_names[] = {"mild", "model", "none", "strong", "mixed", NULL};

static const struct op_param delta_params[] = {
    {"batch", OP_PARAM_SIZE, 1, 65536, 1, NULL, "sequences"},
    {"time", OP_PARAM_SIZE, 1, 1e7, 65, NULL, "positions"},
    {"heads", OP_PARAM_SIZE, 1, 65536, 1, NULL, "query and key heads"},
    {"v_heads", OP_PARAM_SIZE, 1, 65536, 1, NULL,
     "value heads; value head h uses key head h / (v_heads / heads)"},
    {"dim_k", OP_PARAM_SIZE, 1, 1024, 32, NULL, "width of a key"},
    {"dim_v", OP_PARAM_SIZE, 1, 1024, 32, NULL, "width of a value"},
    {"scale", OP_PARAM_REAL, 0, 1e6, 0, NULL, "factor of q; 0 means 1/sqrt(dim_k)"},
    {"initial", OP_PARAM_FLAG, 0, 1, 1, NULL, "a state to start from"},
    {"l2norm", OP_PARAM_FLAG, 0, 1, 0, NULL, "q and k are divided by sqrt(sum of squares + 1e-6)"},
    {"form", OP_PARAM_CHOICE, 0, 1, 0, form_names, "step by step, or in blocks"},
    {"chunk", OP_PARAM_SIZE, 1, 256, 64, NULL, "steps of a block in the chunked form"},
    {"gate", OP_PARAM_CHOICE, 0, 4, 0, gate_names,
     "generated g: near 0, -exp(A) softplus(a) as models make it, 0, about -200, or all of these"},
};

static const struct op_tensor delta_inputs[] = {
    {"q", "batch time heads dim_k", OP_DTYPE_CASE, true, NULL, "queries"},
    {"k", "batch time heads dim_k", OP_DTYPE_CASE, true, NULL, "keys"},
    {"v", "batch time v_heads dim_v", OP_DTYPE_CASE, true, NULL, "values"},
    {"g", "batch time v_heads", OP_DTYPE_WIDE, true, NULL, "logarithm of the decay, at most 0"},
    {"beta", "batch time v_heads", OP_DTYPE_CASE, true, NULL, "write strength, 0 to 1"},
    {"state", "batch v_heads dim_k dim_v", OP_DTYPE_WIDE, true, "initial",
     "state before the start"},
};

static const struct op_tensor delta_outputs[] = {
    {"o", "batch time v_heads dim_v", OP_DTYPE_CASE, true, NULL, "outputs"},
    {"final_state", "batch v_heads dim_k dim_v", OP_DTYPE_WIDE, true, NULL, "state after the end"},
};

struct delta {
    size_t batch, time, heads, v_heads, dim_k, dim_v, chunk;
    double scale;
    bool l2norm, chunked;
};

static struct delta delta_of(const struct op_problem *p)
{
    const struct op_case *c = &p->c;
    double scale = op_get(c, "scale");
    return (struct delta){
        .batch = (size_t)op_int(c, "batch"),
        .time = (size_t)op_int(c, "time"),
        .heads = (size_t)op_int(c, "heads"),
        .v_heads = (size_t)op_int(c, "v_heads"),
        .dim_k = (size_t)op_int(c, "dim_k"),
        .dim_v = (size_t)op_int(c, "dim_v"),
        .chunk = (size_t)op_int(c, "chunk"),
        .scale = scale > 0 ? scale : 1 / sqrt(op_get(c, "dim_k")),
        .l2norm = op_flag(c, "l2norm"),
        .chunked = op_int(c, "form") == 1,
    };
}

static enum status delta_check(const struct op_case *c, struct err *err)
{
    if (op_int(c, "v_heads") % op_int(c, "heads")) {
        return err_set(err, ST_USAGE,
                       "gated_delta_rule: %lld value heads cannot share %lld key "
                       "heads evenly",
                       (long long)op_int(c, "v_heads"), (long long)op_int(c, "heads"));
    }
    return ST_OK;
}

/* ---- inputs ---- */

static double gate_value(int kind, struct op_random *r)
{
    if (kind == 4) {
        kind = (int)op_random_below(r, 4);
    }
    double a = op_random_bell(r), u = op_random_unit(r);
    switch (kind) {
    case 1: return -16 * u * log1p(exp(a + 1)); /* A in (0, 16), dt_bias 1 */
    case 2: return 0;
    case 3: return -200 * (0.5 + u);
    default: return -0.1 * u;
    }
}

/* Keys that are not normalised inside are of length 1 or a little less from the start, as models
 * give them; longer ones make the recurrence grow without bound. */
static void shorten(struct op_array *x, size_t width)
{
    for (size_t i = 0; i < x->count; i += width) {
        double sum = L2_EPS;
        for (size_t j = 0; j < width; j++) {
            sum += x->value[i + j] * x->value[i + j];
        }
        for (size_t j = 0; j < width; j++) {
            x->value[i + j] /= sqrt(sum) * 1.01;
        }
    }
}

static void delta_fill(struct op_problem *p)
{
    struct op_random r = op_random_of(&p->c, 70);
    int gate = (int)op_int(&p->c, "gate");
    size_t width = (size_t)op_int(&p->c, "dim_k");
    for (size_t i = 0; i < p->input[IN_G].count; i++) {
        p->input[IN_G].value[i] = gate_value(gate, &r);
        p->input[IN_BETA].value[i] = op_sigmoid(2 * op_random_bell(&r));
    }
    if (!op_flag(&p->c, "l2norm")) {
        shorten(&p->input[IN_Q], width);
        shorten(&p->input[IN_K], width);
    }
    for (size_t i = IN_Q; i <= IN_BETA; i++) {
        op_array_round(&p->input[i]);
    }
}

/* ---- heads ---- */

/* Copies the rows of one head, `heads` of them interleaved, and back. */
static void gather(const double *from, size_t heads, size_t head, size_t time, size_t width,
                   double *to)
{
    for (size_t t = 0; t < time; t++) {
        memcpy(to + t * width, from + (t * heads + head) * width, width * sizeof *to);
    }
}

static void scatter(const double *from, size_t heads, size_t head, size_t time, size_t width,
                    double *to)
{
    for (size_t t = 0; t < time; t++) {
        for (size_t i = 0; i < width; i++) {
            to[(t * heads + head) * width + i] += from[t * width + i];
        }
    }
}

static double inverse_length(const double *x, size_t width)
{
    double sum = L2_EPS;
    for (size_t i = 0; i < width; i++) {
        sum += x[i] * x[i];
    }
    return 1 / sqrt(sum);
}

static void normalise(double *x, size_t time, size_t width)
{
    for (size_t t = 0; t < time; t++) {
        double r = inverse_length(x + t * width, width);
        for (size_t i = 0; i < width; i++) {
            x[t * width + i] *= r;
        }
    }
}

/* One value head, its operands gathered (all arrays scratch). */
static struct delta_head head_of(struct op_problem *p, const struct delta *d, size_t batch,
                                 size_t vh)
{
    size_t qh = vh / (d->v_heads / d->heads), K = d->dim_k, V = d->dim_v;
    size_t at_q = batch * d->time * d->heads, at_v = batch * d->time * d->v_heads;
    double *q = op_scratch(p, d->time * K), *k = op_scratch(p, d->time * K);
    double *v = op_scratch(p, d->time * V), *g = op_scratch(p, d->time);
    double *beta = op_scratch(p, d->time);
    gather(op_in(p, IN_Q) + at_q * K, d->heads, qh, d->time, K, q);
    gather(op_in(p, IN_K) + at_q * K, d->heads, qh, d->time, K, k);
    gather(op_in(p, IN_V) + at_v * V, d->v_heads, vh, d->time, V, v);
    gather(op_in(p, IN_G) + at_v, d->v_heads, vh, d->time, 1, g);
    gather(op_in(p, IN_BETA) + at_v, d->v_heads, vh, d->time, 1, beta);
    if (d->l2norm) {
        normalise(q, d->time, K);
        normalise(k, d->time, K);
    }
    size_t state = (batch * d->v_heads + vh) * K * V;
    return (struct delta_head){
        .time = d->time,
        .dim_k = K,
        .dim_v = V,
        .scale = d->scale,
        .q = q,
        .k = k,
        .v = v,
        .g = g,
        .beta = beta,
        .h0 = op_in(p, IN_STATE) ? op_in(p, IN_STATE) + state : NULL,
        .o = op_scratch(p, d->time * V),
        .last = op_out(p, OUT_STATE) + state,
    };
}

/* q, k [batch, time, heads, dim_k], v [batch, time, v_heads, dim_v], g, beta [batch, time, v_heads],
 * states [batch, v_heads, dim_k, dim_v]; the rule itself is in op_delta.h. */
static void delta_forward(struct op_problem *p)
{
    struct delta d = delta_of(p);
    for (size_t i = 0; i < d.batch * d.v_heads; i++) {
        struct arena_mark mark = arena_mark(p->arena);
        size_t batch = i / d.v_heads, vh = i % d.v_heads;
        struct delta_head h = head_of(p, &d, batch, vh);
        if (d.chunked) {
            delta_chunked_forward(&h, d.chunk, p->arena);
        } else {
            delta_recurrent_forward(&h, p->arena);
        }
        scatter(h.o, d.v_heads, vh, d.time, d.dim_v,
                op_out(p, OUT_O) + batch * d.time * d.v_heads * d.dim_v);
        arena_rewind(p->arena, mark);
    }
}

/* Gradient of x from that of y = x r, r = 1/sqrt(sum x^2 + eps): dx = r (dy - y (y.dy)) */
static void unnormalise(const double *x, size_t heads, size_t head, size_t time, size_t width,
                        double *dy)
{
    for (size_t t = 0; t < time; t++) {
        const double *row = x + (t * heads + head) * width;
        double r = inverse_length(row, width), along = 0;
        for (size_t i = 0; i < width; i++) {
            along += row[i] * r * dy[t * width + i];
        }
        for (size_t i = 0; i < width; i++) {
            dy[t * width + i] = r * (dy[t * width + i] - row[i] * r * along);
        }
    }
}

static void head_gradients(struct op_problem *p, const struct delta *d, struct delta_head *h,
                           size_t batch, size_t vh)
{
    size_t state = (batch * d->v_heads + vh) * d->dim_k * d->dim_v;
    double *d_o = op_scratch(p, d->time * d->dim_v);
    gather(op_dout(p, OUT_O) + batch * d->time * d->v_heads * d->dim_v, d->v_heads, vh, d->time,
           d->dim_v, d_o);
    h->d_o = d_o;
    h->d_last = op_dout(p, OUT_STATE) + state;
    h->dq = op_scratch(p, d->time * d->dim_k);
    h->dk = op_scratch(p, d->time * d->dim_k);
    h->dv = op_scratch(p, d->time * d->dim_v);
    h->dg = op_scratch(p, d->time);
    h->dbeta = op_scratch(p, d->time);
    h->dh0 = op_grad(p, IN_STATE) ? op_grad(p, IN_STATE) + state
                                  : op_scratch(p, d->dim_k * d->dim_v);
}

static void delta_backward(struct op_problem *p)
{
    struct delta d = delta_of(p);
    for (size_t i = 0; i < d.batch * d.v_heads; i++) {
        struct arena_mark mark = arena_mark(p->arena);
        size_t batch = i / d.v_heads, vh = i % d.v_heads, qh = vh / (d.v_heads / d.heads);
        size_t at_q = batch * d.time * d.heads, at_v = batch * d.time * d.v_heads;
        struct delta_head h = head_of(p, &d, batch, vh);
        head_gradients(p, &d, &h, batch, vh);
        if (d.chunked) {
            delta_chunked_backward(&h, d.chunk, p->arena);
        } else {
            delta_recurrent_backward(&h, p->arena);
        }
        if (d.l2norm) {
            unnormalise(op_in(p, IN_Q) + at_q * d.dim_k, d.heads, qh, d.time, d.dim_k, h.dq);
            unnormalise(op_in(p, IN_K) + at_q * d.dim_k, d.heads, qh, d.time, d.dim_k, h.dk);
        }
        scatter(h.dq, d.heads, qh, d.time, d.dim_k, op_grad(p, IN_Q) + at_q * d.dim_k);
        scatter(h.dk, d.heads, qh, d.time, d.dim_k, op_grad(p, IN_K) + at_q * d.dim_k);
        scatter(h.dv, d.v_heads, vh, d.time, d.dim_v, op_grad(p, IN_V) + at_v * d.dim_v);
        scatter(h.dg, d.v_heads, vh, d.time, 1, op_grad(p, IN_G) + at_v);
        scatter(h.dbeta, d.v_heads, vh, d.time, 1, op_grad(p, IN_BETA) + at_v);
        arena_rewind(p->arena, mark);
    }
}

/* ---- bounds ---- */

static double length(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += x[i] * x[i];
    }
    return sqrt(sum);
}

/* Errors of one head, per step. */
struct head_errors {
    double *state, *o, *dq, *dk, *dv, *dg, *dbeta;
    double first; /* of dh0 */
};

static double step_loss(const struct op_problem *p, const struct delta_head *h, size_t t)
{
    double sums = BLOCK + (double)h->dim_k + 16;
    return 8 * p->u_mid + 4 * p->u_in + (sums + BLOCK * fabs(h->g[t])) * p->u_acc;
}

static double growth(const struct delta_head *h, size_t t)
{
    double k = length(h->k + t * h->dim_k, h->dim_k);
    return exp(h->g[t]) * fmax(1, fabs(1 - h->beta[t] * k * k));
}

static void forward_errors(const struct op_problem *p, const struct delta_head *h,
                           struct head_errors *e)
{
    double error = 0;
    for (size_t t = 0; t < h->time; t++) {
        const struct delta_norms *n = &h->norms[t];
        double eps = step_loss(p, h, t), k = length(h->k + t * h->dim_k, h->dim_k);
        error = growth(h, t) * error + eps * (n->P + k * (n->d + h->beta[t] * n->r));
        e->state[t] = error;
        e->o[t] = h->scale * length(h->q + t * h->dim_k, h->dim_k) * (error + eps * n->S);
    }
}

static void backward_errors(const struct op_problem *p, const struct delta_head *h,
                            struct head_errors *e)
{
    double error = 0, block = 0;
    for (size_t t = h->time; t-- > 0;) {
        const struct delta_norms *n = &h->norms[t];
        double eps = step_loss(p, h, t), k = length(h->k + t * h->dim_k, h->dim_k);
        double q = length(h->q + t * h->dim_k, h->dim_k), beta = fabs(h->beta[t]);
        double d_o = length(h->d_o + t * h->dim_v, h->dim_v);
        double v = length(h->v + t * h->dim_v, h->dim_v) + n->r;
        error += eps * (h->scale * q * d_o + n->dS);
        double S = e->state[t] + eps * n->S;           /* error of the state as it is read */
        double dd = k * (error + eps * n->dS);         /* of the gradient of d */
        double d = beta * (k * e->state[t] + eps * v); /* of d itself */
        e->dq[t] = h->scale * d_o * S;
        e->dv[t] = beta * (dd + eps * n->dd);
        e->dbeta[t] = dd * v + n->dd * (k * S + eps * v);
        e->dk[t] = error * n->d + n->dS * (d + eps * n->d) + beta * (n->dd * S + n->P * dd);
        block = t % BLOCK == BLOCK - 1 ? 0 : block;
        double dP = n->dS + k * beta * n->dd;
        block += eps * n->P * dP;
        e->dg[t] = n->P * error + e->state[t] * dP + block;
        error *= growth(h, t);
    }
    e->first = error;
}

/* Adds `each[t]` times the largest factor of the normalisation to the bounds of a head's rows. */
static void spread(const double *each, size_t heads, size_t head, size_t time, size_t width,
                   const double *normalised, double *bound)
{
    for (size_t t = 0; t < time; t++) {
        const double *x = normalised ? normalised + (t * heads + head) * width : NULL;
        double factor = x ? 2 * inverse_length(x, width) : 1;
        for (size_t i = 0; i < width; i++) {
            bound[(t * heads + head) * width + i] += factor * each[t];
        }
    }
}

static void set_limits(struct op_problem *p)
{
    bool small = dtype_info(p->c.dtype)->size < 4, tf32 = p->c.math == OP_MATH_TF32;
    double output = small || tf32 ? 0.005 : p->c.dtype == DTYPE_F32 ? 1e-5 : 1e-12;
    double gradient = small ? 0.008 : output;
    /* The block form adds up g before it subtracts: its gradients, and those of beta, lose more. In
     * float32 1.4e-5 was seen of a sound implementation. The ratio is that of the 16-bit formats. */
    double gate = small ? 0.02 : tf32 ? 0.01 : 4 * output;
    p->output[OUT_O].rms_limit = p->output[OUT_STATE].rms_limit = output;
    for (size_t i = IN_Q; i <= IN_STATE; i++) {
        p->grad[i].rms_limit = i == IN_G || i == IN_BETA ? gate : gradient;
    }
}

static void bound_head(struct op_problem *p, const struct delta *d, size_t batch, size_t vh)
{
    size_t qh = vh / (d->v_heads / d->heads), at_q = batch * d->time * d->heads;
    size_t at_v = batch * d->time * d->v_heads, size = d->dim_k * d->dim_v;
    size_t state = (batch * d->v_heads + vh) * size;
    struct delta_head h = head_of(p, d, batch, vh);
    struct head_errors e = {op_scratch(p, d->time), op_scratch(p, d->time),
                            op_scratch(p, d->time), op_scratch(p, d->time),
                            op_scratch(p, d->time), op_scratch(p, d->time),
                            op_scratch(p, d->time), 0};
    h.last = op_scratch(p, size);
    h.norms = arena_array(p->arena, d->time, sizeof *h.norms);
    if (op_dout(p, OUT_O)) {
        head_gradients(p, d, &h, batch, vh);
        h.dh0 = op_scratch(p, size);
        delta_recurrent_backward(&h, p->arena);
        forward_errors(p, &h, &e);
        backward_errors(p, &h, &e);
    } else {
        delta_recurrent_forward(&h, p->arena);
        forward_errors(p, &h, &e);
    }
    spread(e.o, d->v_heads, vh, d->time, d->dim_v, NULL, p->output[OUT_O].bound + at_v * d->dim_v);
    for (size_t i = 0; i < size; i++) {
        p->output[OUT_STATE].bound[state + i] = e.state[d->time - 1];
    }
    if (!op_dout(p, OUT_O)) {
        return;
    }
    const double *q = d->l2norm ? op_in(p, IN_Q) + at_q * d->dim_k : NULL;
    const double *k = d->l2norm ? op_in(p, IN_K) + at_q * d->dim_k : NULL;
    spread(e.dq, d->heads, qh, d->time, d->dim_k, q, p->grad[IN_Q].bound + at_q * d->dim_k);
    spread(e.dk, d->heads, qh, d->time, d->dim_k, k, p->grad[IN_K].bound + at_q * d->dim_k);
    spread(e.dv, d->v_heads, vh, d->time, d->dim_v, NULL, p->grad[IN_V].bound + at_v * d->dim_v);
    spread(e.dg, d->v_heads, vh, d->time, 1, NULL, p->grad[IN_G].bound + at_v);
    spread(e.dbeta, d->v_heads, vh, d->time, 1, NULL, p->grad[IN_BETA].bound + at_v);
    for (size_t i = 0; p->grad[IN_STATE].bound && i < size; i++) {
        p->grad[IN_STATE].bound[state + i] = e.first;
    }
}

static void delta_bound(struct op_problem *p)
{
    struct delta d = delta_of(p);
    set_limits(p);
    for (size_t i = 0; i < d.batch * d.v_heads; i++) {
        struct arena_mark mark = arena_mark(p->arena);
        bound_head(p, &d, i / d.v_heads, i % d.v_heads);
        arena_rewind(p->arena, mark);
    }
}

const struct op op_gated_delta_rule = {
    .name = "gated_delta_rule",
    .what = "S = exp(g) S; S += k beta (v - S^T k)^T; o = scale S^T q",
    .params = delta_params,
    .param_count = ARRAY_LEN(delta_params),
    .inputs = delta_inputs,
    .input_count = ARRAY_LEN(delta_inputs),
    .outputs = delta_outputs,
    .output_count = ARRAY_LEN(delta_outputs),
    .check = delta_check,
    .fill = delta_fill,
    .forward = delta_forward,
    .backward = delta_backward,
    .bound = delta_bound,
};
