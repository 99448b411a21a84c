// SPDX-License-Identifier: Apache-2.0
#include "train/capture.h"

#include <string.h>

#include "model/safetensors_write.h"

static void keep(struct capture *c, const char *name, enum capture_kind kind, size_t rank,
                 const size_t *shape, const double *values)
{
    struct captured *t = VEC_PUSH(c->arena, &c->list);
    *t = (struct captured){.name = name, .kind = kind, .rank = rank, .count = 1, .values = values};
    for (size_t i = 0; i < rank; i++) {
        t->shape[i] = shape[i];
        t->count *= shape[i];
    }
}

static double *copy(struct arena *a, enum precision p, const void *values, size_t n)
{
    double *to = arena_array(a, n, sizeof *to);
    for (size_t i = 0; i < n; i++) {
        to[i] = p == PRECISION_F64 ? ((const double *)values)[i] : ((const float *)values)[i];
    }
    return to;
}

struct watcher {
    struct capture *capture;
    enum precision precision;
};

static void on_tensor(void *ctx, const char *name, size_t rows, size_t width, const void *values)
{
    const struct watcher *w = ctx;
    struct arena *a = w->capture->arena;
    bool back = str_ends(str_of(name), ".grad_output");
    if (str_ends(str_of(name), ".entropy")) {
        return; /* a figure of ours, no tensor of the step */
    }
    keep(w->capture, arena_fmt(a, "act.%s", name), back ? CAPTURE_BACKWARD : CAPTURE_FORWARD, 2,
         (const size_t[]){rows, width}, copy(a, w->precision, values, rows * width));
}

static void round_weights(struct param_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        struct param *p = &list->items[i];
        for (size_t j = 0; j < p->count; j++) {
            if (list->precision == PRECISION_F64) {
                double *v = p->value;
                v[j] = dtype_round(DTYPE_BF16, v[j]);
            } else {
                float *v = p->value;
                v[j] = (float)dtype_round(DTYPE_BF16, (double)v[j]);
            }
        }
    }
}

static void keep_logits(struct capture *c, struct train_model *m, const struct capture_rows *rows)
{
    size_t vocab = model_vocab(m);
    double *values = arena_array(c->arena, rows->count * vocab, sizeof *values);
    for (size_t i = 0; i < rows->count; i++) {
        model_logits(m, rows->at[i], 1, values + i * vocab);
    }
    keep(c, "logits", CAPTURE_LOGITS, 2, (const size_t[]){rows->count, vocab}, values);
}

static enum status take_step(struct capture *c, struct train_model *m,
                             const struct model_options *options, const struct train_batch *batch,
                             const struct capture_rows *rows, struct err *err)
{
    struct param_list *params = model_params(m);
    struct watcher w = {.capture = c, .precision = options->precision};
    double *loss = arena_array(c->arena, 1, sizeof *loss);
    keep(c, "loss", CAPTURE_LOSS, 0, NULL, loss);
    model_watch(m, on_tensor, &w);
    TRY(model_forward(m, batch, &c->loss, &c->labels, err));
    if (c->labels == 0) {
        return err_set(err, ST_FORMAT, "the batch has no label, so there is no loss to compare");
    }
    c->loss /= (double)c->labels;
    *loss = c->loss;
    if (rows->count != 0) {
        keep_logits(c, m, rows);
    }
    model_zero_grad(m);
    model_backward(m, 1 / (double)c->labels);
    for (size_t i = 0; i < params->count; i++) {
        const struct param *p = &params->items[i];
        if (p->trainable) {
            keep(c, arena_fmt(c->arena, "grad.%s", p->name), CAPTURE_GRADIENT, p->rank, p->dim,
                 copy(c->arena, options->precision, p->grad, p->count));
            c->parameters++;
        }
    }
    return ST_OK;
}

enum status capture_step(struct arena *a, const char *folder, const struct model_options *options,
                         bool rounded, const struct train_batch *batch,
                         const struct capture_rows *rows, struct capture *ret_capture,
                         struct err *err)
{
    struct train_model *m = NULL;
    struct capture c = {.arena = a};
    TRY(model_open(a, folder, options, &m, err));
    if (rounded) {
        round_weights(model_params(m));
    }
    enum status s = take_step(&c, m, options, batch, rows, err);
    model_close(m);
    *ret_capture = c;
    return s;
}

enum status capture_write(const struct capture *c, const char *path, enum precision precision,
                          const struct capture_rows *rows, struct err *err)
{
    struct arena *a = arena_new(0);
    size_t n = c->list.count;
    struct safetensors_item *items = arena_array(a, n + 1, sizeof *items);
    enum dtype t = precision == PRECISION_F64 ? DTYPE_F64 : DTYPE_F32;
    for (size_t i = 0; i < n; i++) {
        const struct captured *x = &c->list.items[i];
        items[i] = (struct safetensors_item){.name = x->name,
                                             .dtype = x->kind == CAPTURE_LOSS ? DTYPE_F64 : t,
                                             .source = DTYPE_F64,
                                             .rank = x->rank,
                                             .shape = x->shape,
                                             .values = x->values};
    }
    int64_t *at = arena_array(a, rows->count, sizeof *at);
    for (size_t i = 0; i < rows->count; i++) {
        at[i] = (int64_t)rows->at[i];
    }
    if (rows->count != 0) {
        items[n++] = (struct safetensors_item){.name = "logits.rows",
                                               .dtype = DTYPE_I64,
                                               .source = DTYPE_I64,
                                               .rank = 1,
                                               .shape = &rows->count,
                                               .values = at};
    }
    const struct safetensors_pair pair = {"source", "assay"};
    enum status s = safetensors_write(a, path, items, n, &pair, 1, err);
    arena_free(a);
    return s;
}
