// SPDX-License-Identifier: Apache-2.0
/* Pictures within the decoder: features of the vision tower in the place of embeddings, and added after
 * the first layers (deepstack). */
#include "train/layer_vision.h"
#include "train/model_inside.h"

/* What forward leaves for backward. */
struct pictures {
    size_t count; /* image tokens */
    size_t *row;  /* [count]: which tokens */
    real *features;
    real *deep, *ddeep; /* [levels, count, hidden] */
    void *tower;
};

static struct pictures *pictures_new(const struct train_model *m)
{
    const struct run *run = &m->run;
    const struct train_batch *b = run->batch;
    const struct vision_config *c = m->vision->config;
    size_t wide = b->patches / (c->merge * c->merge) * m->config.hidden;
    struct pictures *p = tape_take(run->kept, 1, sizeof *p);
    *p = (struct pictures){
        .row = tape_take(run->kept, b->tokens, sizeof *p->row),
        .features = T(take)(run->kept, wide),
        .deep = T(take)(run->kept, wide * c->levels),
        .ddeep = T(take)(run->kept, wide * c->levels),
    };
    for (size_t t = 0; t < b->tokens; t++) {
        if (vision_is_picture(c, b->ids[t])) {
            p->row[p->count++] = t;
        }
    }
    return p;
}

void T(pictures_forward)(struct train_model *m, real *x)
{
    size_t hidden = m->config.hidden;
    struct pictures *p = NULL;
    m->pictures = NULL;
    if (m->run.batch->pictures == 0) {
        return;
    }
    p = pictures_new(m);
    p->tower = T(vision_forward)(&m->run, m->vision, m->frames, m->options.recompute, p->features,
                                 p->deep);
    for (size_t i = 0; i < p->count; i++) {
        memcpy(x + p->row[i] * hidden, p->features + i * hidden, hidden * sizeof *x);
    }
    m->pictures = p;
}

void T(pictures_deepen)(const struct train_model *m, size_t layer, real *x)
{
    const struct pictures *p = m->pictures;
    size_t hidden = m->config.hidden;
    if (p == NULL || layer >= m->vision->config->levels) {
        return;
    }
    const real *deep = p->deep + layer * p->count * hidden;
    for (size_t i = 0; i < p->count; i++) {
        T(add_store)(&m->run, x + p->row[i] * hidden, deep + i * hidden, hidden);
    }
}

static void gather(const struct pictures *p, size_t hidden, const real *d, real *to)
{
    for (size_t i = 0; i < p->count; i++) {
        memcpy(to + i * hidden, d + p->row[i] * hidden, hidden * sizeof *to);
    }
}

void T(pictures_deepen_backward)(const struct train_model *m, size_t layer, const real *d)
{
    const struct pictures *p = m->pictures;
    size_t hidden = m->config.hidden;
    if (p != NULL && layer < m->vision->config->levels) {
        gather(p, hidden, d, p->ddeep + layer * p->count * hidden);
    }
}

void T(pictures_backward)(const struct train_model *m, real *d)
{
    const struct pictures *p = m->pictures;
    size_t hidden = m->config.hidden;
    if (p == NULL) {
        return;
    }
    struct tape_mark mark = tape_mark(&m->scratch);
    real *dfeatures = T(take)(m->run.scratch, p->count * hidden);
    gather(p, hidden, d, dfeatures);
    for (size_t i = 0; i < p->count; i++) {
        memset(d + p->row[i] * hidden, 0, hidden * sizeof *d);
    }
    T(vision_backward)(&m->run, m->vision, p->tower, dfeatures, p->ddeep);
    tape_rewind(m->run.scratch, mark);
}
