// SPDX-License-Identifier: Apache-2.0
/*
 * Interpolation of images, nearest and bilinear, as torch.nn.functional.interpolate defines it for a
 * given output size.
 *
 *   nearest     source = floor(i in / out), in whole numbers
 *   bilinear    source = max(0, (i + 1/2) in / out - 1/2), or i (in - 1) / (out - 1) with
 *               align_corners (0 when out is 1); two taps a dimension, the second one clamped
 *
 * Bound: a source coordinate computed in float32 is off by 4 u_acc (source + 1), and so are both
 * weights; when it crosses a whole number the taps move by one with a weight of that size, so the
 * neighbours of the taps are charged too. The products may be stored between the dimensions: u_mid.
 */
#include <math.h>

#include "ops/op.h"
#include "ops/op_inside.h"
#include "ops/op_rows.h"

static const char *const mode_names[] = {"nearest", "bilinear", NULL};

static const struct op_param interpolate_params[] = {
    {"batch", OP_PARAM_SIZE, 1, 65536, 1, NULL, "images"},
    {"channels", OP_PARAM_SIZE, 1, 65536, 2, NULL, "channels"},
    {"height", OP_PARAM_SIZE, 1, 65536, 5, NULL, "rows"},
    {"width", OP_PARAM_SIZE, 1, 65536, 5, NULL, "columns"},
    {"out_height", OP_PARAM_SIZE, 1, 65536, 8, NULL, "rows of the result"},
    {"out_width", OP_PARAM_SIZE, 1, 65536, 8, NULL, "columns of the result"},
    {"mode", OP_PARAM_CHOICE, 0, 1, 1, mode_names, "the nearest pixel, or four of them"},
    {"align_corners", OP_PARAM_FLAG, 0, 1, 0, NULL, "corner pixels fall on corner pixels"},
};

static const struct op_tensor interpolate_inputs[] = {
    {"x", "batch channels height width", OP_DTYPE_CASE, true, NULL, "images"},
};

static const struct op_tensor interpolate_outputs[] = {
    {"y", "batch channels out_height out_width", OP_DTYPE_CASE, true, NULL, "result"},
};

static enum status interpolate_check(const struct op_case *c, struct err *err)
{
    if (op_int(c, "mode") == 0 && op_flag(c, "align_corners")) {
        return err_set(err, ST_USAGE, "interpolate: align_corners goes with bilinear only");
    }
    return ST_OK;
}

/* What one output coordinate reads in one dimension. */
struct taps {
    int64_t at[2];
    double weight[2];
    double error; /* of either weight */
};

static struct taps taps_of(const struct op_problem *p, int64_t i, int64_t in, int64_t out)
{
    if (op_int(&p->c, "mode") == 0) {
        return (struct taps){.at = {i * in / out, i * in / out}, .weight = {1, 0}};
    }
    double source = fmax(0, ((double)i + 0.5) * (double)in / (double)out - 0.5);
    if (op_flag(&p->c, "align_corners")) {
        source = out > 1 ? (double)i * (double)(in - 1) / (double)(out - 1) : 0;
    }
    int64_t first = (int64_t)source < in - 1 ? (int64_t)source : in - 1;
    double second = source - (double)first;
    return (struct taps){
        .at = {first, first + 1 < in ? first + 1 : first},
        .weight = {1 - second, second},
        .error = 4 * p->u_acc * (source + 1),
    };
}

/* The rows and columns that element i of the result reads, and the plane they are in. */
static void taps_of_element(const struct op_problem *p, size_t i, struct taps *y, struct taps *x,
                            size_t *plane)
{
    const int64_t *from = p->input[0].dim, *to = p->output[0].dim;
    int64_t column = (int64_t)i % to[3], row = (int64_t)i / to[3] % to[2];
    *y = taps_of(p, row, from[2], to[2]);
    *x = taps_of(p, column, from[3], to[3]);
    *plane = i / (size_t)(to[2] * to[3]) * (size_t)(from[2] * from[3]);
}

static void interpolate_forward(struct op_problem *p)
{
    for (size_t i = 0; i < p->output[0].count; i++) {
        struct taps y, x;
        size_t plane;
        taps_of_element(p, i, &y, &x, &plane);
        for (int k = 0; k < 4; k++) {
            size_t at = plane + (size_t)(y.at[k / 2] * p->input[0].dim[3] + x.at[k % 2]);
            double weight = y.weight[k / 2] * x.weight[k % 2];
            op_out(p, 0)[i] += weight != 0 ? weight * op_in(p, 0)[at] : 0;
        }
    }
}

static void interpolate_backward(struct op_problem *p)
{
    for (size_t i = 0; i < p->output[0].count; i++) {
        struct taps y, x;
        size_t plane;
        taps_of_element(p, i, &y, &x, &plane);
        for (int k = 0; k < 4; k++) {
            size_t at = plane + (size_t)(y.at[k / 2] * p->input[0].dim[3] + x.at[k % 2]);
            op_grad(p, 0)[at] += y.weight[k / 2] * x.weight[k % 2] * op_dout(p, 0)[i];
        }
    }
}

/* The weight a correct implementation may put on a pixel of one dimension, at most, and its error. */
static double weight_of(const struct taps *t, int64_t at)
{
    double weight = 0;
    for (int k = 0; k < 2; k++) {
        weight += t->at[k] == at ? t->weight[k] : 0;
    }
    return weight;
}

/* What one element of the result adds to the bounds: its own, and those of the pixels around it. */
static void bound_element(struct op_problem *p, size_t i)
{
    struct taps y, x;
    size_t plane;
    taps_of_element(p, i, &y, &x, &plane);
    const int64_t *from = p->input[0].dim;
    double dy = op_dout(p, 0) ? fabs(op_dout(p, 0)[i]) : 0, error = 0;
    int64_t reach = y.error > 0 ? 1 : 0;
    for (int64_t row = y.at[0] - reach; row <= y.at[1] + reach; row++) {
        for (int64_t column = x.at[0] - reach; column <= x.at[1] + reach; column++) {
            if (row < 0 || row >= from[2] || column < 0 || column >= from[3]) {
                continue;
            }
            double wy = weight_of(&y, row), wx = weight_of(&x, column);
            double off = wy * x.error + wx * y.error + (8 * p->u_acc + p->u_mid) * wx * wy;
            off += x.error * y.error;
            size_t at = plane + (size_t)(row * from[3] + column);
            error += off * fabs(op_in(p, 0)[at]);
            if (p->grad[0].bound && dy > 0) {
                p->grad[0].bound[at] += off * dy + p->u_mid * wx * wy * dy;
            }
        }
    }
    p->output[0].bound[i] = error;
}

/* Gradients add up in the format of the case on some devices: reads of a pixel times u_mid. */
static void interpolate_bound(struct op_problem *p)
{
    const int64_t *from = p->input[0].dim, *to = p->output[0].dim;
    double reads = 4 * ceil((double)to[2] / (double)from[2]) *
                   ceil((double)to[3] / (double)from[3]);
    for (size_t i = 0; i < p->output[0].count; i++) {
        bound_element(p, i);
        if (op_int(&p->c, "mode") == 0) {
            p->output[0].bound[i] = OP_BOUND_EXACT;
        }
    }
    for (size_t i = 0; op_dout(p, 0) && i < p->grad[0].count; i++) {
        p->grad[0].bound[i] *= fmax(1, reads);
    }
}

const struct op op_interpolate = {
    .name = "interpolate",
    .what = "y = x resampled to out_height by out_width",
    .params = interpolate_params,
    .param_count = ARRAY_LEN(interpolate_params),
    .inputs = interpolate_inputs,
    .input_count = ARRAY_LEN(interpolate_inputs),
    .outputs = interpolate_outputs,
    .output_count = ARRAY_LEN(interpolate_outputs),
    .check = interpolate_check,
    .forward = interpolate_forward,
    .backward = interpolate_backward,
    .bound = interpolate_bound,
};
