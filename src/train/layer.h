// SPDX-License-Identifier: Apache-2.0
/*
 * The arithmetic of layers: part of train_math, compiled for float and for double.
 *
 * Shapes: activations are row-major [tokens, width], all sequences of the batch end to end. forward
 * and backward stand side by side; backward *adds* to the gradients of trainable parameters and *sets*
 * the gradient of its input. Memory: what backward needs is taken from run->kept, the rest from
 * run->scratch between a mark and a rewind. Loops over rows or columns are cut into fixed parts, each
 * sum is made by one thread in one order, so results do not depend on the number of threads.
 *
 * Rounding points: in PRECISION_BF16 every tensor that an eager framework would store is passed
 * through T(round_store); in the other precisions that does nothing.
 *
 * A new token mixer: a maker_layer (maker.h) for its parameters, and a row of T(layer_passes).
 */
#ifndef ASSAY_TRAIN_LAYER_H
#define ASSAY_TRAIN_LAYER_H

#include "train/compute.h"
#include "train/maker.h"
#include "train/real.h"
#include "train/tape.h"

/* One forward and its backward. */
struct run {
    const struct model_config *config;
    const struct train_batch *batch;
    enum precision precision;
    bool float_loss;               /* of struct model_options */
    const struct compute *compute; /* threads and matrix product */
    struct tape *kept;             /* until backward has passed */
    struct tape *scratch;          /* within one function */
    const void *cos, *sin;         /* reals [tokens, rope.dim / 2] */
    model_watch_fn *watch;         /* NULL: nobody looks */
    void *watch_ctx;
};

/*
 * A token mixer. y[tokens, hidden] = mixer(x[tokens, hidden]). `layer` is what its maker_layer
 * returned. forward returns what its backward needs (may be NULL); x stays as it is until then.
 * backward sets dx[tokens, hidden] from dy[tokens, hidden].
 */
struct T(layer_pass) {
    void *(*forward)(const struct run *run, const void *layer, const real *x, real *y);
    void (*backward)(const struct run *run, const void *layer, const void *kept, const real *x,
                     const real *dy, real *dx);
};

extern const struct T(layer_pass) T(layer_passes)[LAYER_KIND_COUNT]; /* by enum layer_kind */

/* ---- parts for the passes ---- */

/* n reals from a tape. */
real *T(take)(struct tape *t, size_t n) RETURNS_NONNULL;

/* Rounds to bfloat16 when the run's precision says so: the point at which a framework stores. */
void T(round_store)(const struct run *run, real *x, size_t n);

/* x += y, stored. */
void T(add_store)(const struct run *run, real *x, const real *y, size_t n);

/* Gradient of a parameter: grad += g, stored; g may be overwritten. Nothing when it is not trained. */
void T(grad_add)(const struct run *run, struct param *p, real *g);

/* Shows a tensor to whoever watches: "<module>.<what>". */
void T(watch)(const struct run *run, const char *module, const char *what, size_t rows,
              size_t width, const real *values);

enum gradient {
    GRADIENT_SET = 0,
    GRADIENT_ADD
};

/* y[n, out] = x[n, in] W^T + b (+ adapter). Returns what backward needs: x A^T, or NULL. */
void *T(linear_forward)(const struct run *run, const struct linear *l, size_t n, const real *x,
                        real *y);

/* Gradients of W, b, A, B from dy[n, out]; dx[n, in] set or added to; dx NULL: not wanted. */
void T(linear_backward)(const struct run *run, const struct linear *l, size_t n, const void *kept,
                        const real *x, const real *dy, real *dx, enum gradient how);

/* Rows of `width`: y = norm(x), see enum norm_kind. Backward computes 1/rms again. y may not be x. */
void T(norm_forward)(const struct run *run, const struct norm *l, size_t rows, const real *x,
                     real *y);
/* dx may be dy. */
void T(norm_backward)(const struct run *run, const struct norm *l, size_t rows, const real *x,
                      const real *dy, real *dx);

/* cos and sin of every token, [tokens, rope.dim / 2], on the tape; positions from the batch. */
void T(rope_table)(const struct run *run, struct tape *t, real **ret_cos, real **ret_sin);

/* Rotates the first rope.dim channels of each of `heads` heads of head_dim in x[tokens, heads *
 * head_dim], in place; backward is the rotation by the negative angle. */
void T(rope_forward)(const struct run *run, size_t heads, real *x);
void T(rope_backward)(const struct run *run, size_t heads, real *dx);

/*
 * Causal attention within each sequence, scale head_dim^-0.5; query head h reads key head
 * h / (heads / kv_heads). q, y: [tokens, heads * head_dim], k, v: [tokens, kv_heads * head_dim].
 * Probabilities are computed again in backward. Who watches is shown "<module>.entropy" [tokens, heads].
 */
void T(attention_forward)(const struct run *run, const char *module, const real *q, const real *k,
                          const real *v, real *y);
void T(attention_backward)(const struct run *run, const real *q, const real *k, const real *v,
                           const real *dy, real *dq, real *dk, real *dv);

#endif
