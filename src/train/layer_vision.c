// SPDX-License-Identifier: Apache-2.0
#include "train/layer_vision.h"

#include "train/conv3d.h"
#include "train/frame_attention.h"
#include "train/gelu.h"
#include "train/norm_layer.h"
#include "train/patch_place.h"
#include "train/rows.h"

/* What backward needs of a block besides its input; [patches, ...]. */
struct block_kept {
    real *normed1, *qkv, *attended; /* qkv: turned */
    real *middle, *normed2, *inner, *active;
    void *in, *proj, *fc1, *fc2;
};

struct merger_kept {
    const real *x;
    real *normed, *inner, *active;
    void *fc1, *fc2;
};

struct kept {
    struct patch_places places;
    size_t *start; /* [frames + 1] */
    size_t frames;
    real *cos, *sin;
    real *pixels;
    real **x;                   /* [depth + 1]: input of each block; the last is the output */
    struct block_kept **blocks; /* [depth]; NULL where it is made again */
    struct merger_kept merger, *levels;
};

/* One walk through the tower. */
struct pass {
    const struct run *run;
    const struct vision *v;
    struct kept *k;
    size_t n; /* patches */
};

/* ---- parts ---- */

static void norm_forward(const struct run *run, const struct layer_norm *l, size_t rows,
                         const real *x, real *y)
{
    struct norm_layer n = {rows, l->width, 1e-6, run->precision};
    T(norm_layer_forward)(&n, x, l->weight->value, l->bias->value, y);
    T(watch)(run, l->module, "output", rows, l->width, y);
}

static void norm_backward(const struct run *run, const struct layer_norm *l, size_t rows,
                          const real *x, const real *dy, real *dx)
{
    struct norm_layer n = {rows, l->width, 1e-6, run->precision};
    struct tape_mark mark = tape_mark(run->scratch);
    T(watch)(run, l->module, "grad_output", rows, l->width, dy);
    real *dweight = T(take)(run->scratch, l->width), *dbias = T(take)(run->scratch, l->width);
    T(norm_layer_backward)(&n, x, l->weight->value, dy, dx, dweight, dbias);
    T(grad_add)(run, l->weight, dweight);
    T(grad_add)(run, l->bias, dbias);
    tape_rewind(run->scratch, mark);
}

static void activate(const struct run *run, enum gelu kind, size_t n, const real *x, real *y)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = gelu(kind, x[i]);
    }
    T(round_store)(run, y, n);
}

/* In place: d becomes the gradient of x. */
static void deactivate(const struct run *run, enum gelu kind, size_t n, const real *x, real *d)
{
    for (size_t i = 0; i < n; i++) {
        d[i] *= gelu_slope(kind, x[i]);
    }
    T(round_store)(run, d, n);
}

static enum gelu block_gelu(const struct vision *v)
{
    return v->config->exact_gelu ? GELU_EXACT : GELU_TANH;
}

static struct frame_attention attention_of(const struct pass *p)
{
    const struct vision_config *c = p->v->config;
    return (struct frame_attention){
        .heads = c->heads,
        .dim = c->hidden / c->heads,
        .start = p->k->start,
        .segments = p->k->frames,
        .precision = p->run->precision,
        .compute = p->run->compute,
    };
}

static void rotate(const struct pass *p, real direction, real *qkv)
{
    const struct vision_config *c = p->v->config;
    T(patch_rotate)
    (&p->k->places, p->n, c->heads, c->hidden / c->heads, p->k->cos, p->k->sin, direction, qkv);
}

/* ---- embedding ---- */

static struct conv3d conv_of(const struct pass *p)
{
    const struct vision_config *c = p->v->config;
    return (struct conv3d){.batch = p->n,
                           .in = c->channels,
                           .out = c->hidden,
                           .size = {c->temporal, c->patch, c->patch},
                           .kernel = {c->temporal, c->patch, c->patch},
                           .precision = p->run->precision};
}

static void embed_forward(const struct pass *p, real *x)
{
    const struct vision *v = p->v;
    const struct vision_config *c = v->config;
    struct kept *k = p->k;
    for (size_t i = 0; i < p->n * v->patch.in; i++) {
        k->pixels[i] = (real)p->run->batch->pixels[i];
    }
    T(round_store)(p->run, k->pixels, p->n * v->patch.in);
    if (p->run->compute->reference) {
        struct conv3d conv = conv_of(p);
        T(conv3d_forward)(&conv, k->pixels, v->patch.weight->value, v->patch.bias->value, x);
        T(watch)(p->run, v->patch.module, "output", p->n, c->hidden, x);
    } else {
        (void)T(linear_forward)(p->run, &v->patch, p->n, k->pixels,
                                x); /* no adapter: nothing kept */
    }
    T(patch_table_forward)(&k->places, c->side, c->hidden, v->table->value, x);
    T(patch_angles)(&k->places, c->hidden / c->heads, c->theta, k->cos, k->sin);
}

static void embed_backward(const struct pass *p, real *dx)
{
    const struct vision *v = p->v;
    const struct vision_config *c = v->config;
    const struct run *run = p->run;
    struct tape_mark mark = tape_mark(run->scratch);
    real *dtable = T(take)(run->scratch, v->table->count);
    T(patch_table_backward)(&p->k->places, c->side, c->hidden, dx, dtable);
    T(grad_add)(run, v->table, dtable);
    if (run->compute->reference) {
        struct conv3d conv = conv_of(p);
        real *dweight = T(take)(run->scratch, v->patch.weight->count);
        real *dbias = T(take)(run->scratch, c->hidden);
        T(conv3d_backward)(&conv, p->k->pixels, v->patch.weight->value, dx, NULL, dweight, dbias);
        T(grad_add)(run, v->patch.weight, dweight);
        T(grad_add)(run, v->patch.bias, dbias);
    } else {
        T(linear_backward)(run, &v->patch, p->n, NULL, p->k->pixels, dx, NULL, GRADIENT_SET);
    }
    tape_rewind(run->scratch, mark);
}

/* ---- blocks ---- */

static struct block_kept *block_new(const struct pass *p)
{
    const struct run *run = p->run;
    const struct vision_config *c = p->v->config;
    struct block_kept *k = tape_take(run->kept, 1, sizeof *k);
    *k = (struct block_kept){
        .normed1 = T(take)(run->kept, p->n * c->hidden),
        .qkv = T(take)(run->kept, p->n * 3 * c->hidden),
        .attended = T(take)(run->kept, p->n * c->hidden),
        .middle = T(take)(run->kept, p->n * c->hidden),
        .normed2 = T(take)(run->kept, p->n * c->hidden),
        .inner = T(take)(run->kept, p->n * c->intermediate),
        .active = T(take)(run->kept, p->n * c->intermediate),
    };
    return k;
}

static struct block_kept *block_forward(const struct pass *p, const struct vision_block *b,
                                        const real *x, real *y)
{
    const struct run *run = p->run;
    size_t n = p->n, hidden = p->v->config->hidden;
    struct frame_attention f = attention_of(p);
    struct block_kept *k = block_new(p);
    struct tape_mark mark = tape_mark(run->scratch);
    real *t = T(take)(run->scratch, n * hidden);
    norm_forward(run, &b->norm1, n, x, k->normed1);
    k->in = T(linear_forward)(run, &b->qkv, n, k->normed1, k->qkv);
    rotate(p, 1, k->qkv);
    T(frame_attention_forward)(&f, k->qkv, k->attended);
    k->proj = T(linear_forward)(run, &b->proj, n, k->attended, t);
    memcpy(k->middle, x, n * hidden * sizeof(real));
    T(add_store)(run, k->middle, t, n * hidden);
    norm_forward(run, &b->norm2, n, k->middle, k->normed2);
    k->fc1 = T(linear_forward)(run, &b->fc1, n, k->normed2, k->inner);
    activate(run, block_gelu(p->v), n * b->fc1.out, k->inner, k->active);
    k->fc2 = T(linear_forward)(run, &b->fc2, n, k->active, t);
    memcpy(y, k->middle, n * hidden * sizeof(real));
    T(add_store)(run, y, t, n * hidden);
    T(watch)(run, b->module, "output", n, hidden, y);
    tape_rewind(run->scratch, mark);
    return k;
}

/* d: gradient of the block's output, becomes that of its input. */
static void block_backward(const struct pass *p, const struct vision_block *b,
                           const struct block_kept *k, const real *x, real *d)
{
    const struct run *run = p->run;
    size_t n = p->n, hidden = p->v->config->hidden;
    struct frame_attention f = attention_of(p);
    struct tape_mark mark = tape_mark(run->scratch);
    real *t = T(take)(run->scratch, n * hidden), *u = T(take)(run->scratch, n * hidden);
    real *dinner = T(take)(run->scratch, n * b->fc1.out);
    real *dqkv = T(take)(run->scratch, n * 3 * hidden);
    T(watch)(run, b->module, "grad_output", n, hidden, d);
    T(linear_backward)(run, &b->fc2, n, k->fc2, k->active, d, dinner, GRADIENT_SET);
    deactivate(run, block_gelu(p->v), n * b->fc1.out, k->inner, dinner);
    T(linear_backward)(run, &b->fc1, n, k->fc1, k->normed2, dinner, t, GRADIENT_SET);
    norm_backward(run, &b->norm2, n, k->middle, t, u);
    T(add_store)(run, d, u, n * hidden);
    T(linear_backward)(run, &b->proj, n, k->proj, k->attended, d, t, GRADIENT_SET);
    T(frame_attention_backward)(&f, k->qkv, t, dqkv);
    rotate(p, -1, dqkv);
    T(linear_backward)(run, &b->qkv, n, k->in, k->normed1, dqkv, t, GRADIENT_SET);
    norm_backward(run, &b->norm1, n, x, t, u);
    T(add_store)(run, d, u, n * hidden);
    tape_rewind(run->scratch, mark);
}

/* ---- mergers ---- */

static void merger_forward(const struct pass *p, const struct vision_merger *m,
                           struct merger_kept *k, const real *x, real *y)
{
    const struct run *run = p->run;
    size_t hidden = p->v->config->hidden, rows = p->n * hidden / m->fc1.in;
    k->x = x;
    k->normed = T(take)(run->kept, p->n * hidden);
    k->inner = T(take)(run->kept, p->n * hidden);
    k->active = T(take)(run->kept, p->n * hidden);
    norm_forward(run, &m->norm, p->n * hidden / m->norm.width, x, k->normed);
    k->fc1 = T(linear_forward)(run, &m->fc1, rows, k->normed, k->inner);
    activate(run, GELU_EXACT, p->n * hidden, k->inner, k->active);
    k->fc2 = T(linear_forward)(run, &m->fc2, rows, k->active, y);
    T(watch)(run, m->module, "output", rows, m->fc2.out, y);
}

/* Sets dx. */
static void merger_backward(const struct pass *p, const struct vision_merger *m,
                            const struct merger_kept *k, const real *dy, real *dx)
{
    const struct run *run = p->run;
    size_t hidden = p->v->config->hidden, rows = p->n * hidden / m->fc1.in;
    struct tape_mark mark = tape_mark(run->scratch);
    real *d = T(take)(run->scratch, p->n * hidden), *t = T(take)(run->scratch, p->n * hidden);
    T(watch)(run, m->module, "grad_output", rows, m->fc2.out, dy);
    T(linear_backward)(run, &m->fc2, rows, k->fc2, k->active, dy, d, GRADIENT_SET);
    deactivate(run, GELU_EXACT, p->n * hidden, k->inner, d);
    T(linear_backward)(run, &m->fc1, rows, k->fc1, k->normed, d, t, GRADIENT_SET);
    norm_backward(run, &m->norm, p->n * hidden / m->norm.width, k->x, t, dx);
    tape_rewind(run->scratch, mark);
}

/* ---- the tower ---- */

static struct kept *kept_new(const struct run *run, const struct vision *v, size_t frames)
{
    const struct train_batch *batch = run->batch;
    const struct vision_config *c = v->config;
    size_t n = batch->patches;
    struct kept *k = tape_take(run->kept, 1, sizeof *k);
    struct picture_grid *grids = tape_take(run->kept, batch->pictures, sizeof *grids);
    *k = (struct kept){
        .places = {grids, batch->pictures, c->merge, run->precision},
        .start = tape_take(run->kept, frames + 1, sizeof *k->start),
        .frames = frames,
        .cos = T(take)(run->kept, n * c->hidden / c->heads / 2),
        .sin = T(take)(run->kept, n * c->hidden / c->heads / 2),
        .pixels = T(take)(run->kept, n * v->patch.in),
        .x = tape_take(run->kept, c->depth + 1, sizeof *k->x),
        .blocks = tape_take(run->kept, c->depth, sizeof *k->blocks),
        .levels = tape_take(run->kept, c->levels + 1, sizeof *k->levels),
    };
    picture_frames(batch->grid, batch->pictures, grids, k->start);
    for (size_t i = 0; i <= c->depth; i++) {
        k->x[i] = T(take)(run->kept, n * c->hidden);
    }
    return k;
}

void *T(vision_forward)(const struct run *run, const struct vision *v, size_t frames,
                        bool recompute, real *features, real *deep)
{
    const struct vision_config *c = v->config;
    struct kept *k = kept_new(run, v, frames);
    struct pass p = {run, v, k, run->batch->patches};
    size_t level = 0, size = p.n / (c->merge * c->merge) * c->out;
    embed_forward(&p, k->x[0]);
    for (size_t i = 0; i < c->depth; i++) {
        struct tape_mark mark = tape_mark(run->kept);
        real *y = k->x[i + 1];
        k->blocks[i] = block_forward(&p, &v->blocks[i], k->x[i], y);
        if (recompute) {
            tape_rewind(run->kept, mark);
            k->blocks[i] = NULL;
        }
        if (level < c->levels && c->level_block[level] == i) {
            merger_forward(&p, &v->levels[level], &k->levels[level], y, deep + level * size);
            level++;
        }
    }
    merger_forward(&p, &v->merger, &k->merger, k->x[c->depth], features);
    return k;
}

/* d as of block_backward(); the block is run forward again when it kept nothing. */
static void block_again(const struct pass *p, size_t i, real *d)
{
    const struct run *run = p->run;
    const struct block_kept *k = p->k->blocks[i];
    struct tape_mark mark = tape_mark(run->kept), scratch = tape_mark(run->scratch);
    if (!k) {
        struct run quiet = *run;
        quiet.watch = NULL;
        struct pass again = {&quiet, p->v, p->k, p->n};
        real *y = T(take)(run->scratch, p->n * p->v->config->hidden);
        k = block_forward(&again, &p->v->blocks[i], p->k->x[i], y);
    }
    block_backward(p, &p->v->blocks[i], k, p->k->x[i], d);
    tape_rewind(run->scratch, scratch);
    tape_rewind(run->kept, mark);
}

void T(vision_backward)(const struct run *run, const struct vision *v, const void *kept,
                        real *dfeatures, real *ddeep)
{
    const struct vision_config *c = v->config;
    struct kept k = *(const struct kept *)kept;
    struct pass p = {run, v, &k, run->batch->patches};
    size_t level = c->levels, size = p.n / (c->merge * c->merge) * c->out;
    if (!v->trained) {
        return;
    }
    struct tape_mark mark = tape_mark(run->scratch);
    real *d = T(take)(run->scratch, p.n * c->hidden), *t = T(take)(run->scratch, p.n * c->hidden);
    merger_backward(&p, &v->merger, &k.merger, dfeatures, d);
    for (size_t i = c->depth; i-- > 0;) {
        if (level && c->level_block[level - 1] == i) {
            level--;
            merger_backward(&p, &v->levels[level], &k.levels[level], ddeep + level * size, t);
            T(add_store)(run, d, t, p.n * c->hidden);
        }
        block_again(&p, i, d);
    }
    embed_backward(&p, d);
    tape_rewind(run->scratch, mark);
}
