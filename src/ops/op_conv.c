// SPDX-License-Identifier: Apache-2.0
/*
 * Convolutions of language and vision models: Conv3d, the patch embedding (Conv3d whose kernel is its
 * stride over inputs of one kernel cell, which is a linear layer over the same parameter), and the
 * causal depthwise Conv1d in front of a gated delta rule.
 *
 * Bounds: sums of products (op_inside.h), for algorithms that form these products: direct, implicit
 * or explicit matrix products. Winograd and FFT convolutions satisfy only norm-wise bounds and may
 * be convicted; none applies when the kernel is the stride.
 */
#include <math.h>

#include "ops/op.h"
#include "ops/op_inside.h"
#include "ops/op_rows.h"

enum {
    CONV_X = 0,
    CONV_WEIGHT,
    CONV_BIAS
};

/* ---- conv3d ---- */

static const struct op_param conv3d_params[] = {
    {"batch", OP_PARAM_SIZE, 1, 1e6, 1, NULL, "volumes"},
    {"cin", OP_PARAM_SIZE, 1, 65536, 3, NULL, "input channels"},
    {"cout", OP_PARAM_SIZE, 1, 65536, 8, NULL, "output channels"},
    {"depth", OP_PARAM_SIZE, 1, 65536, 2, NULL, "frames"},
    {"height", OP_PARAM_SIZE, 1, 65536, 8, NULL, "rows"},
    {"width", OP_PARAM_SIZE, 1, 65536, 8, NULL, "columns"},
    {"kernel_d", OP_PARAM_SIZE, 1, 64, 2, NULL, "kernel in frames"},
    {"kernel_h", OP_PARAM_SIZE, 1, 64, 4, NULL, "kernel in rows"},
    {"kernel_w", OP_PARAM_SIZE, 1, 64, 4, NULL, "kernel in columns"},
    {"stride_d", OP_PARAM_SIZE, 1, 64, 2, NULL, "step in frames"},
    {"stride_h", OP_PARAM_SIZE, 1, 64, 4, NULL, "step in rows"},
    {"stride_w", OP_PARAM_SIZE, 1, 64, 4, NULL, "step in columns"},
    {"pad_d", OP_PARAM_INT, 0, 64, 0, NULL, "zero frames on both sides"},
    {"pad_h", OP_PARAM_INT, 0, 64, 0, NULL, "zero rows on both sides"},
    {"pad_w", OP_PARAM_INT, 0, 64, 0, NULL, "zero columns on both sides"},
    {"bias", OP_PARAM_FLAG, 0, 1, 1, NULL, "adds one number per output channel"},
};

static const struct op_tensor conv3d_inputs[] = {
    {"x", "batch cin depth height width", OP_DTYPE_CASE, true, NULL, "volumes"},
    {"weight", "cout cin kernel_d kernel_h kernel_w", OP_DTYPE_CASE, true, NULL, "kernels"},
    {"bias", "cout", OP_DTYPE_CASE, true, "bias", "added to every position"},
};

static const struct op_tensor conv3d_outputs[] = {
    {"y",
     "batch cout (depth+2*pad_d-kernel_d)/stride_d+1 (height+2*pad_h-kernel_h)/stride_h+1 "
     "(width+2*pad_w-kernel_w)/stride_w+1",
     OP_DTYPE_CASE, true, NULL, "result"},
};

struct conv3d {
    int64_t in[3], kernel[3], stride[3], pad[3], out[3];
    int64_t batch, cin, cout;
};

static struct conv3d conv3d_of(const struct op_problem *p)
{
    const struct op_case *c = &p->c;
    struct conv3d v = {
        .in = {op_int(c, "depth"), op_int(c, "height"), op_int(c, "width")},
        .kernel = {op_int(c, "kernel_d"), op_int(c, "kernel_h"), op_int(c, "kernel_w")},
        .stride = {op_int(c, "stride_d"), op_int(c, "stride_h"), op_int(c, "stride_w")},
        .pad = {op_int(c, "pad_d"), op_int(c, "pad_h"), op_int(c, "pad_w")},
        .batch = op_int(c, "batch"),
        .cin = op_int(c, "cin"),
        .cout = op_int(c, "cout"),
    };
    for (int i = 0; i < 3; i++) {
        v.out[i] = p->output[0].dim[2 + i];
    }
    return v;
}

static enum status conv3d_check(const struct op_case *c, struct err *err)
{
    static const char *const names[3][3] = {{"depth", "pad_d", "kernel_d"},
                                            {"height", "pad_h", "kernel_h"},
                                            {"width", "pad_w", "kernel_w"}};
    for (int i = 0; i < 3; i++) {
        if (op_int(c, names[i][0]) + 2 * op_int(c, names[i][1]) < op_int(c, names[i][2])) {
            return err_set(err, ST_USAGE, "conv3d: %s is larger than the padded %s", names[i][2],
                           names[i][0]);
        }
    }
    return ST_OK;
}

/* Visits every product of one output position: calls `each` with the offsets in x and weight. */
struct tap {
    size_t x, weight, y;
};

typedef void tap_fn(struct op_problem *p, const struct tap *t);

static void taps_of_position(struct op_problem *p, const struct conv3d *v, const int64_t at[5],
                             size_t y, tap_fn *each)
{
    int64_t per_channel = v->kernel[0] * v->kernel[1] * v->kernel[2];
    for (int64_t i = 0; i < v->cin * per_channel; i++) {
        int64_t ci = i / per_channel, rest = i % per_channel;
        int64_t kw = rest % v->kernel[2], kh = rest / v->kernel[2] % v->kernel[1];
        int64_t kd = rest / v->kernel[2] / v->kernel[1];
        int64_t d = at[2] * v->stride[0] - v->pad[0] + kd;
        int64_t h = at[3] * v->stride[1] - v->pad[1] + kh;
        int64_t w = at[4] * v->stride[2] - v->pad[2] + kw;
        if (d < 0 || d >= v->in[0] || h < 0 || h >= v->in[1] || w < 0 || w >= v->in[2]) {
            continue;
        }
        int64_t x = (((at[0] * v->cin + ci) * v->in[0] + d) * v->in[1] + h) * v->in[2] + w;
        struct tap t = {(size_t)x, (size_t)(at[1] * v->cin * per_channel + i), y};
        each(p, &t);
    }
}

static void each_tap(struct op_problem *p, tap_fn *each)
{
    struct conv3d v = conv3d_of(p);
    for (size_t y = 0; y < p->output[0].count; y++) {
        int64_t at[5], rest = (int64_t)y;
        for (int i = 4; i >= 0; i--) {
            at[i] = rest % p->output[0].dim[i];
            rest /= p->output[0].dim[i];
        }
        taps_of_position(p, &v, at, y, each);
    }
}

static void forward_tap(struct op_problem *p, const struct tap *t)
{
    op_out(p, 0)[t->y] += op_in(p, CONV_X)[t->x] * op_in(p, CONV_WEIGHT)[t->weight];
}

static void backward_tap(struct op_problem *p, const struct tap *t)
{
    double dy = op_dout(p, 0)[t->y];
    op_grad(p, CONV_X)[t->x] += dy * op_in(p, CONV_WEIGHT)[t->weight];
    op_grad(p, CONV_WEIGHT)[t->weight] += dy * op_in(p, CONV_X)[t->x];
}

static void bound_tap(struct op_problem *p, const struct tap *t)
{
    double x = fabs(op_in(p, CONV_X)[t->x]), w = fabs(op_in(p, CONV_WEIGHT)[t->weight]);
    p->output[0].bound[t->y] += x * w;
    if (op_dout(p, 0)) {
        double dy = fabs(op_dout(p, 0)[t->y]);
        p->grad[CONV_X].bound[t->x] += dy * w;
        p->grad[CONV_WEIGHT].bound[t->weight] += dy * x;
    }
}

static size_t channel_of(const struct op_problem *p, size_t y)
{
    const int64_t *dim = p->output[0].dim;
    return y / (size_t)(dim[2] * dim[3] * dim[4]) % (size_t)dim[1];
}

/* y[b][co][position] = bias[co] + sum over ci and the kernel of x weight, zero outside */
static void conv3d_forward(struct op_problem *p)
{
    each_tap(p, forward_tap);
    for (size_t y = 0; op_in(p, CONV_BIAS) && y < p->output[0].count; y++) {
        op_out(p, 0)[y] += op_in(p, CONV_BIAS)[channel_of(p, y)];
    }
}

static void conv3d_backward(struct op_problem *p)
{
    each_tap(p, backward_tap);
    for (size_t y = 0; op_in(p, CONV_BIAS) && y < p->output[0].count; y++) {
        op_grad(p, CONV_BIAS)[channel_of(p, y)] += op_dout(p, 0)[y];
    }
}

/* Sums of at most cin kernel + 1, cout kernel, and batch positions terms. */
static void conv3d_bound(struct op_problem *p)
{
    struct conv3d v = conv3d_of(p);
    double kernel = (double)(v.kernel[0] * v.kernel[1] * v.kernel[2]);
    double positions = (double)p->output[0].count / (double)v.cout;
    const double *bias = op_in(p, CONV_BIAS), *dy = op_dout(p, 0);
    each_tap(p, bound_tap);
    for (size_t y = 0; y < p->output[0].count; y++) {
        double b = bias ? fabs(bias[channel_of(p, y)]) : 0;
        double apart = bias ? p->u_mid * (fabs(op_out(p, 0)[y]) + b) : 0;
        op_bound_sum(p, &p->output[0], y, (double)v.cin * kernel + 1, 0, p->output[0].bound[y] + b,
                     true);
        p->output[0].bound[y] += p->output[0].bound[y] == OP_BOUND_EXACT ? 0 : apart;
        if (bias && dy) {
            p->grad[CONV_BIAS].bound[channel_of(p, y)] += fabs(dy[y]);
        }
    }
    const double terms[3] = {(double)v.cout * kernel, positions, positions};
    for (size_t g = 0; dy && g < 3; g++) {
        struct op_array *r = &p->grad[g];
        for (size_t i = 0; i < r->count; i++) {
            op_bound_sum(p, r, i, terms[g], 0, r->bound[i], true);
        }
    }
}

const struct op op_conv3d = {
    .name = "conv3d",
    .what = "y = weight * x + bias (cross-correlation over depth, height, width)",
    .params = conv3d_params,
    .param_count = ARRAY_LEN(conv3d_params),
    .inputs = conv3d_inputs,
    .input_count = ARRAY_LEN(conv3d_inputs),
    .outputs = conv3d_outputs,
    .output_count = ARRAY_LEN(conv3d_outputs),
    .exact_on_grid = true,
    .check = conv3d_check,
    .forward = conv3d_forward,
    .backward = conv3d_backward,
    .bound = conv3d_bound,
};

/* ---- patch_embed ---- */

static const struct op_param patch_params[] = {
    {"patches", OP_PARAM_SIZE, 1, 1e8, 16, NULL, "patches of all images"},
    {"hidden", OP_PARAM_SIZE, 1, 65536, 32, NULL, "output features"},
    {"cin", OP_PARAM_SIZE, 1, 1024, 3, NULL, "colours"},
    {"temporal", OP_PARAM_SIZE, 1, 64, 2, NULL, "frames of a patch"},
    {"patch", OP_PARAM_SIZE, 1, 256, 4, NULL, "rows and columns of a patch"},
};

static const struct op_tensor patch_inputs[] = {
    {"x", "patches cin temporal patch patch", OP_DTYPE_CASE, true, NULL, "one patch per row"},
    {"weight", "hidden cin temporal patch patch", OP_DTYPE_CASE, true, NULL,
     "the Conv3d parameter, five dimensions"},
    {"bias", "hidden", OP_DTYPE_CASE, true, NULL, "added to every patch"},
};

static const struct op_tensor patch_outputs[] = {
    {"y", "patches hidden", OP_DTYPE_CASE, true, NULL, "result"},
};

/* Row-major order makes both views free: x is [patches, k], weight [hidden, k]. */
static struct op_linear_view patch_view(const struct op_problem *p)
{
    size_t patches = (size_t)op_int(&p->c, "patches");
    return op_linear_view(p, patches, (size_t)op_int(&p->c, "hidden"), p->input[0].count / patches);
}

static void patch_forward(struct op_problem *p)
{
    struct op_linear_view v = patch_view(p);
    op_linear_forward(&v, op_out(p, 0));
}

static void patch_backward(struct op_problem *p)
{
    struct op_linear_view v = patch_view(p);
    op_linear_backward(&v, op_grad(p, 0), op_grad(p, 1), op_grad(p, 2));
}

static void patch_bound(struct op_problem *p)
{
    struct op_linear_view v = patch_view(p);
    op_linear_bound(p, &v);
}

const struct op op_patch_embed = {
    .name = "patch_embed",
    .what = "y = x weight^T + bias over flattened patches: Conv3d with kernel = stride",
    .params = patch_params,
    .param_count = ARRAY_LEN(patch_params),
    .inputs = patch_inputs,
    .input_count = ARRAY_LEN(patch_inputs),
    .outputs = patch_outputs,
    .output_count = ARRAY_LEN(patch_outputs),
    .exact_on_grid = true,
    .forward = patch_forward,
    .backward = patch_backward,
    .bound = patch_bound,
};

/* ---- causal_conv1d ---- */

static const char *const conv_activation_names[] = {"none", "silu", NULL};

static const struct op_param causal_params[] = {
    {"batch", OP_PARAM_SIZE, 1, 65536, 1, NULL, "sequences"},
    {"channels", OP_PARAM_SIZE, 1, 1e6, 8, NULL, "channels, each with its own kernel"},
    {"time", OP_PARAM_SIZE, 1, 1e8, 16, NULL, "positions"},
    {"kernel", OP_PARAM_SIZE, 1, 64, 4, NULL, "taps; the last one is the current position"},
    {"bias", OP_PARAM_FLAG, 0, 1, 0, NULL, "adds one number per channel"},
    {"activation", OP_PARAM_CHOICE, 0, 1, 1, conv_activation_names, "applied last"},
};

static const struct op_tensor causal_inputs[] = {
    {"x", "batch channels time", OP_DTYPE_CASE, true, NULL, "sequences, zero before their start"},
    {"weight", "channels kernel", OP_DTYPE_CASE, true, NULL, "one kernel per channel"},
    {"bias", "channels", OP_DTYPE_CASE, true, "bias", "added to every position"},
};

static const struct op_tensor causal_outputs[] = {
    {"y", "batch channels time", OP_DTYPE_CASE, true, NULL, "result"},
};

struct causal {
    size_t rows, channels, time, kernel;
    bool silu;
};

static struct causal causal_of(const struct op_problem *p)
{
    size_t channels = (size_t)op_int(&p->c, "channels");
    return (struct causal){
        .rows = (size_t)op_int(&p->c, "batch") * channels,
        .channels = channels,
        .time = (size_t)op_int(&p->c, "time"),
        .kernel = (size_t)op_int(&p->c, "kernel"),
        .silu = op_int(&p->c, "activation") == 1,
    };
}

/* z[t] = bias + sum over j of weight[j] x[t - (kernel - 1) + j]; magnitudes when asked. */
static double causal_sum(const struct op_problem *p, const struct causal *v, size_t row, size_t t,
                         bool magnitude)
{
    size_t channel = row % v->channels;
    const double *x = op_in(p, CONV_X) + row * v->time;
    const double *w = op_in(p, CONV_WEIGHT) + channel * v->kernel;
    double sum = op_in(p, CONV_BIAS) ? op_in(p, CONV_BIAS)[channel] : 0;
    sum = magnitude ? fabs(sum) : sum;
    for (size_t j = 0; j < v->kernel; j++) {
        if (t + j + 1 >= v->kernel) {
            double term = w[j] * x[t + j + 1 - v->kernel];
            sum += magnitude ? fabs(term) : term;
        }
    }
    return sum;
}

static void causal_forward(struct op_problem *p)
{
    struct causal v = causal_of(p);
    for (size_t i = 0; i < v.rows * v.time; i++) {
        double z = causal_sum(p, &v, i / v.time, i % v.time, false);
        op_out(p, 0)[i] = v.silu ? op_silu(z) : z;
    }
}

/* dz = dy silu'(z); dx[s] += weight[j] dz[t]; dweight[j] += x[s] dz[t]; dbias += dz[t] */
static void causal_backward(struct op_problem *p)
{
    struct causal v = causal_of(p);
    for (size_t i = 0; i < v.rows * v.time; i++) {
        size_t row = i / v.time, t = i % v.time, channel = row % v.channels;
        double dz = op_dout(p, 0)[i];
        dz *= v.silu ? op_silu_slope(causal_sum(p, &v, row, t, false)) : 1;
        for (size_t j = 0; j < v.kernel; j++) {
            if (t + j + 1 >= v.kernel) {
                size_t at = row * v.time + t + j + 1 - v.kernel, w = channel * v.kernel + j;
                op_grad(p, CONV_X)[at] += op_in(p, CONV_WEIGHT)[w] * dz;
                op_grad(p, CONV_WEIGHT)[w] += op_in(p, CONV_X)[at] * dz;
            }
        }
        if (op_grad(p, CONV_BIAS)) {
            op_grad(p, CONV_BIAS)[channel] += dz;
        }
    }
}

/* z may be stored in the format of the case before silu: error e = (kernel + 3) u_acc sum|w||x| +
 * u_mid |z|; silu has slope at most 1.1 and curvature at most 0.5. */
static void causal_bound(struct op_problem *p)
{
    struct causal v = causal_of(p);
    const double *dy = op_dout(p, 0);
    size_t batch = v.rows / v.channels; /* a whole number */
    double terms = (double)(batch * v.time);
    for (size_t i = 0; i < v.rows * v.time; i++) {
        size_t row = i / v.time, t = i % v.time, channel = row % v.channels;
        double z = causal_sum(p, &v, row, t, false), sum = causal_sum(p, &v, row, t, true);
        double e = op_sum_error(p, (double)v.kernel + 1, 0, sum);
        double mid = v.silu || op_in(p, CONV_BIAS) ? p->u_mid * fabs(z) : 0;
        double rest = v.silu ? (8 + fabs(z)) * p->u_acc * fabs(z) * op_sigmoid(z) : 0;
        op_bound_sum(p, &p->output[0], i, (double)v.kernel + 1, 0, sum, !v.silu);
        if (p->output[0].bound[i] != OP_BOUND_EXACT) {
            p->output[0].bound[i] = (v.silu ? 1.1 : 1) * (e + mid) + rest;
        }
        if (!dy) {
            continue;
        }
        double slope = v.silu ? 1.1 : 1, dz = fabs(dy[i]) * slope;
        double dz_error = v.silu ? fabs(dy[i]) * (0.5 * (e + mid) + p->u_mid + 16 * p->u_acc) : 0;
        for (size_t j = 0; j < v.kernel; j++) {
            if (t + j + 1 >= v.kernel) {
                size_t at = row * v.time + t + j + 1 - v.kernel, w = channel * v.kernel + j;
                double wj = fabs(op_in(p, CONV_WEIGHT)[w]), xj = fabs(op_in(p, CONV_X)[at]);
                p->grad[CONV_X].bound[at] += wj *
                                             (dz_error + op_sum_error(p, (double)v.kernel, 0, dz));
                p->grad[CONV_WEIGHT].bound[w] += xj * (dz_error + op_sum_error(p, terms, 0, dz));
            }
        }
        if (op_grad(p, CONV_BIAS)) {
            p->grad[CONV_BIAS].bound[channel] += dz_error + op_sum_error(p, terms, 0, dz);
        }
    }
}

const struct op op_causal_conv1d = {
    .name = "causal_conv1d",
    .what = "y[t] = activation(bias + sum weight[j] x[t - kernel + 1 + j]), one kernel per channel",
    .params = causal_params,
    .param_count = ARRAY_LEN(causal_params),
    .inputs = causal_inputs,
    .input_count = ARRAY_LEN(causal_inputs),
    .outputs = causal_outputs,
    .output_count = ARRAY_LEN(causal_outputs),
    .forward = causal_forward,
    .backward = causal_backward,
    .bound = causal_bound,
};
