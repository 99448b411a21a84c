// SPDX-License-Identifier: Apache-2.0
/*
 * Forward and backward of the whole model:
 *
 *   x = embed(ids);  each layer: h = x + mixer(norm(x)), x = h + mlp(norm(h));  loss(head(norm(x)))
 *
 * Features of pictures take the place of embeddings; what deepstack adds after a layer is no part of it.
 * Only tokens with a label go through the head. With `recompute` a layer keeps its input alone and is
 * run forward again before its backward: the same calls on the same numbers, so the same bits.
 */
#include "train/model_inside.h"

struct layer_kept {
    real *mixer_in;    /* [tokens, hidden]: norm(x) */
    real *h;           /* [tokens, hidden]: x + mixer(norm(x)) */
    real *mlp_in;      /* [tokens, hidden]: norm(h) */
    void *mixer, *mlp; /* what their backward needs */
};

struct state {
    real **x; /* [layers + 1][tokens, hidden]: input of each layer, then of the final norm */
    struct layer_kept **layer; /* [layers]; NULL where it is made again */
    real *normed;              /* [tokens, hidden] */
    size_t labels;             /* rows with a label */
    size_t *row;               /* [labels]: which */
    int32_t *label;            /* [labels] */
    struct loss_kept *loss;
};

/* x, y [tokens, hidden]: h = x + mixer(norm(x)); y = h + mlp(norm(h)) */
static struct layer_kept *layer_forward(const struct run *run, const struct decoder_layer *l,
                                        const real *x, real *y)
{
    size_t n = run->batch->tokens;
    size_t wide = n * run->config->hidden;
    struct layer_kept *s = tape_take(run->kept, 1, sizeof *s);
    s->mixer_in = T(take)(run->kept, wide);
    s->h = T(take)(run->kept, wide);
    s->mlp_in = T(take)(run->kept, wide);
    T(norm_forward)(run, &l->input_norm, n, x, s->mixer_in);
    s->mixer = T(layer_passes)[l->kind].forward(run, l->mixer, s->mixer_in, s->h);
    T(add_store)(run, s->h, x, wide);
    T(norm_forward)(run, &l->post_norm, n, s->h, s->mlp_in);
    s->mlp = T(mlp_forward)(run, &l->mlp, s->mlp_in, y);
    T(add_store)(run, y, s->h, wide);
    T(watch)(run, l->module, "output", n, run->config->hidden, y);
    return s;
}

/* d[tokens, hidden]: gradient of the layer's output, becomes that of its input. Each of the two sums hands d on
 * as it is, and adds what comes back through its other half. */
static void layer_backward(const struct run *run, const struct decoder_layer *l,
                           const struct layer_kept *s, const real *x, real *d)
{
    size_t n = run->batch->tokens;
    size_t wide = n * run->config->hidden;
    struct tape_mark mark = tape_mark(run->scratch);
    real *part = T(take)(run->scratch, wide);
    T(watch)(run, l->module, "grad_output", n, run->config->hidden, d);
    T(mlp_backward)(run, &l->mlp, s->mlp, s->mlp_in, d, part);
    T(norm_backward)(run, &l->post_norm, n, s->h, part, part);
    T(add_store)(run, d, part, wide);
    T(layer_passes)[l->kind].backward(run, l->mixer, s->mixer, s->mixer_in, d, part);
    T(norm_backward)(run, &l->input_norm, n, x, part, part);
    T(add_store)(run, d, part, wide);
    tape_rewind(run->scratch, mark);
}

/* Which tokens have a label, and what it is. */
static void gather_labels(struct state *s, const struct run *run)
{
    const struct train_batch *b = run->batch;
    s->row = tape_take(run->kept, b->tokens, sizeof *s->row);
    s->label = tape_take(run->kept, b->tokens, sizeof *s->label);
    for (size_t t = 0; t < b->tokens; t++) {
        if (b->labels[t] != LABEL_IGNORED) {
            s->row[s->labels] = t;
            s->label[s->labels++] = b->labels[t];
        }
    }
}

/* [labels, hidden]: rows of the normed output that have a label. */
static real *selected(const struct state *s, const struct run *run)
{
    size_t width = run->config->hidden;
    real *x = T(take)(run->scratch, s->labels * width);
    for (size_t i = 0; i < s->labels; i++) {
        memcpy(x + i * width, s->normed + s->row[i] * width, width * sizeof(real));
    }
    return x;
}

/* The loss computes the head in chunks: nobody is to take a chunk for the whole. */
static struct run unwatched(const struct run *run)
{
    struct run r = *run;
    r.watch = NULL;
    return r;
}

void T(run_forward)(struct train_model *m, double *ret_loss, size_t *ret_labels)
{
    struct run *run = &m->run;
    size_t layers = m->config.layers;
    size_t tokens = run->batch->tokens;
    size_t wide = tokens * m->config.hidden;
    real *cos = NULL;
    real *sin = NULL;
    T(rope_table)(run, run->kept, &cos, &sin);
    run->cos = cos;
    run->sin = sin;
    struct state *s = tape_take(run->kept, 1, sizeof *s);
    *s = (struct state){0};
    s->x = tape_take(run->kept, layers + 1, sizeof *s->x);
    s->layer = tape_take(run->kept, layers, sizeof *s->layer);
    for (size_t i = 0; i <= layers; i++) {
        s->x[i] = T(take)(run->kept, wide);
    }
    s->normed = T(take)(run->kept, wide);
    T(embed_forward)(run, m->embed, s->x[0]);
    T(watch)(run, m->embed_module, "output", tokens, m->config.hidden, s->x[0]);
    T(pictures_forward)(m, s->x[0]);
    for (size_t i = 0; i < layers; i++) {
        struct tape_mark mark = tape_mark(run->kept);
        s->layer[i] = layer_forward(run, &m->layers[i], s->x[i], s->x[i + 1]);
        if (m->options.recompute) {
            tape_rewind(run->kept, mark);
            s->layer[i] = NULL;
        }
        T(pictures_deepen)(m, i, s->x[i + 1]);
    }
    T(norm_forward)(run, &m->final_norm, tokens, s->x[layers], s->normed);
    gather_labels(s, run);
    struct tape_mark mark = tape_mark(run->scratch);
    struct run quiet = unwatched(run);
    *ret_loss = T(loss_forward)(&quiet, &m->head, s->labels, selected(s, run), s->label, &s->loss);
    *ret_labels = s->labels;
    tape_rewind(run->scratch, mark);
    m->state = s;
}

/* d[tokens, hidden]: gradient of the final norm's output; 0 where there is no label. */
static void head_backward(struct train_model *m, const struct state *s, double scale, real *d)
{
    const struct run *run = &m->run;
    size_t width = m->config.hidden;
    struct tape_mark mark = tape_mark(run->scratch);
    struct run quiet = unwatched(run);
    real *x = selected(s, run);
    real *dx = T(take)(run->scratch, s->labels * width);
    T(loss_backward)(&quiet, &m->head, s->labels, x, s->label, s->loss, (real)scale, dx);
    memset(d, 0, run->batch->tokens * width * sizeof(real));
    for (size_t i = 0; i < s->labels; i++) {
        memcpy(d + s->row[i] * width, dx + i * width, width * sizeof(real));
    }
    tape_rewind(run->scratch, mark);
}

void T(run_backward)(struct train_model *m, double scale)
{
    const struct run *run = &m->run;
    const struct run quiet = unwatched(run);
    const struct state *s = m->state;
    size_t tokens = run->batch->tokens;
    struct tape_mark mark = tape_mark(run->scratch);
    real *d = T(take)(run->scratch, tokens * m->config.hidden);
    head_backward(m, s, scale, d);
    T(norm_backward)(run, &m->final_norm, tokens, s->x[m->config.layers], d, d);
    for (size_t i = m->config.layers; i-- > 0;) {
        struct tape_mark kept = tape_mark(run->kept);
        const struct layer_kept *layer = s->layer[i];
        T(pictures_deepen_backward)(m, i, d);
        if (layer == NULL) {
            struct tape_mark again = tape_mark(run->scratch);
            real *y = T(take)(run->scratch, tokens * m->config.hidden);
            layer = layer_forward(&quiet, &m->layers[i], s->x[i], y);
            tape_rewind(run->scratch, again);
        }
        layer_backward(run, &m->layers[i], layer, s->x[i], d);
        tape_rewind(run->kept, kept);
    }
    T(pictures_backward)(m, d);
    T(watch)(run, m->embed_module, "grad_output", tokens, m->config.hidden, d);
    T(embed_backward)(run, m->embed, d);
    tape_rewind(run->scratch, mark);
}

void T(run_logits)(struct train_model *m, size_t first, size_t count, double *ret_rows)
{
    struct run quiet = unwatched(&m->run);
    const struct state *s = m->state;
    size_t vocab = m->config.vocab;
    struct tape_mark scratch = tape_mark(&m->scratch);
    struct tape_mark kept = tape_mark(&m->kept);
    real *logits = T(take)(&m->scratch, vocab);
    for (size_t i = 0; i < count; i++) {
        T(linear_forward)(&quiet, &m->head, 1, s->normed + (first + i) * m->config.hidden, logits);
        for (size_t j = 0; j < vocab; j++) {
            ret_rows[i * vocab + j] = (double)logits[j];
        }
        tape_rewind(&m->kept, kept);
    }
    tape_rewind(&m->scratch, scratch);
}
