// SPDX-License-Identifier: Apache-2.0
/* SwiGLU: y = down(silu(gate(x)) * up(x)), silu(g) = g / (1 + exp(-g)); silu and product are stored. */
#include "train/layer_parts.h"

struct kept {
    real *gate, *up; /* [tokens, intermediate] */
    real *product;   /* [tokens, intermediate]: silu(gate) * up */
    void *gate_low, *up_low, *down_low;
};

struct swiglu {
    const struct run *run;
    const real *gate, *up, *dproduct;
    real *product, *dgate, *dup;
};

/* product = silu(gate) * up, elements from .. to - 1 */
static void forward_part(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct swiglu *c = ctx;
    (void)lane;
    real e[256];
    for (size_t i = from; i < to; i += 256) {
        size_t n = to - i < 256 ? to - i : 256;
        T(exp_negative)(c->run->compute, c->gate + i, n, e);
        for (size_t j = 0; j < n; j++) {
            real s = T(store)(c->run, c->gate[i + j] / (1 + e[j]));
            c->product[i + j] = T(store)(c->run, s * c->up[i + j]);
        }
    }
}

/* dup = dp silu(g); dgate = dp up sigmoid(g) (1 + g (1 - sigmoid(g))) */
static void backward_part(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct swiglu *c = ctx;
    const struct run *run = c->run;
    (void)lane;
    real e[256];
    for (size_t i = from; i < to; i += 256) {
        size_t n = to - i < 256 ? to - i : 256;
        T(exp_negative)(run->compute, c->gate + i, n, e);
        for (size_t j = 0; j < n; j++) {
            real g = c->gate[i + j];
            real sigmoid = 1 / (1 + e[j]);
            real s = T(store)(run, g / (1 + e[j]));
            real ds = T(store)(run, c->dproduct[i + j] * c->up[i + j]);
            c->dup[i + j] = T(store)(run, c->dproduct[i + j] * s);
            c->dgate[i + j] = T(store)(run, ds * sigmoid * (1 + g * (1 - sigmoid)));
        }
    }
}

/* x, y [tokens, hidden] */
void *T(mlp_forward)(const struct run *run, const struct mlp *l, const real *x, real *y)
{
    size_t n = run->batch->tokens;
    size_t wide = n * l->gate.out;
    struct kept *s = tape_take(run->kept, 1, sizeof *s);
    s->gate = T(take)(run->kept, wide);
    s->up = T(take)(run->kept, wide);
    s->product = T(take)(run->kept, wide);
    s->gate_low = T(linear_forward)(run, &l->gate, n, x, s->gate);
    s->up_low = T(linear_forward)(run, &l->up, n, x, s->up);
    struct swiglu c = {.run = run, .gate = s->gate, .up = s->up, .product = s->product};
    compute_parts(run->compute, wide, PART_ELEMENTS, forward_part, &c);
    T(watch)(run, l->module, "product", n, l->gate.out, s->product);
    s->down_low = T(linear_forward)(run, &l->down, n, s->product, y);
    return s;
}

/* dproduct = dy W_down, then both halves of it; dx = dup W_up + dgate W_gate. Gradients of the three weights
 * are added on the way. */
void T(mlp_backward)(const struct run *run, const struct mlp *l, const void *kept, const real *x,
                     const real *dy, real *dx)
{
    const struct kept *s = kept;
    size_t n = run->batch->tokens;
    size_t wide = n * l->gate.out;
    struct tape_mark mark = tape_mark(run->scratch);
    struct swiglu c = {.run = run, .gate = s->gate, .up = s->up};
    real *dproduct = T(take)(run->scratch, wide);
    c.dproduct = dproduct;
    c.dgate = T(take)(run->scratch, wide);
    c.dup = T(take)(run->scratch, wide);
    T(linear_backward)(run, &l->down, n, s->down_low, s->product, dy, dproduct, GRADIENT_SET);
    compute_parts(run->compute, wide, PART_ELEMENTS, backward_part, &c);
    T(linear_backward)(run, &l->up, n, s->up_low, x, c.dup, dx, GRADIENT_SET);
    T(linear_backward)(run, &l->gate, n, s->gate_low, x, c.dgate, dx, GRADIENT_ADD);
    tape_rewind(run->scratch, mark);
}
