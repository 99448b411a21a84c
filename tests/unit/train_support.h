// SPDX-License-Identifier: Apache-2.0
/* Toy models and batches for the tests of the trainer's arithmetic. */
#ifndef ASSAY_TESTS_TRAIN_SUPPORT_H
#define ASSAY_TESTS_TRAIN_SUPPORT_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/model.h"
#include "unit.h"

/* Sizes common to the toys; heads of 8. */
#define TOY_SIZES                                                                         \
 "\"vocab_size\":53,\"hidden_size\":24,\"intermediate_size\":40,\"num_hidden_layers\":2," \
 "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"max_position_embeddings\":256,\"head_dim\":8,"

#define TOY_LLAMA                                                                         \
 "{\"model_type\":\"llama\"," TOY_SIZES "\"rms_norm_eps\":1e-5,\"rope_theta\":500000,"    \
 "\"tie_word_embeddings\":false,\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8," \
 "\"low_freq_factor\":1,\"high_freq_factor\":4,\"original_max_position_embeddings\":64}}"

#define TOY_LLAMA_TIED                                                                   \
 "{\"model_type\":\"llama\"," TOY_SIZES "\"rms_norm_eps\":1e-5,\"attention_bias\":true," \
 "\"mlp_bias\":true,\"tie_word_embeddings\":true,"                                       \
 "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.0}}"

#define TOY_QWEN2                                                                             \
 "{\"model_type\":\"qwen2\"," TOY_SIZES "\"rms_norm_eps\":1e-6,\"tie_word_embeddings\":true," \
 "\"rope_parameters\":{\"rope_type\":\"yarn\",\"rope_theta\":1000000.0,\"factor\":4.0,"       \
 "\"original_max_position_embeddings\":64}}"

/* 4 heads of 8 beside a hidden width of 24. */
#define TOY_QWEN3 \
 "{\"model_type\":\"qwen3\"," TOY_SIZES "\"rms_norm_eps\":1e-6,\"tie_word_embeddings\":false}"

struct toy {
    struct arena *arena;
    struct train_model *model;
};

static inline double toy_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53 * 2 - 1;
}

static inline double toy_get(const struct param_list *list, const void *values, size_t i)
{
    return list->precision == PRECISION_F64 ? ((const double *)values)[i]
                                            : (double)((const float *)values)[i];
}

static inline void toy_set(const struct param_list *list, void *values, size_t i, double v)
{
    if (list->precision == PRECISION_F64) {
        ((double *)values)[i] = v;
    } else {
        ((float *)values)[i] = list->precision == PRECISION_BF16 ? (float)dtype_round(DTYPE_BF16, v)
                                                                 : (float)v;
    }
}

/* Opens a model of that configuration with random weights; norms, biases and adapters are moved away
 * from 1 and 0, so that every parameter matters. */
static inline struct toy toy_open(const char *config, struct model_options options, bool shake)
{
    struct toy t = {.arena = arena_new(0)};
    struct err err = {0};
    char folder[] = "/tmp/assay-toy-XXXXXX";
    assert_non_null(mkdtemp(folder));
    char path[100];
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(config, f);
    fclose(f);
    options.random = true;
    enum status s = model_open(t.arena, folder, &options, &t.model, &err);
    unlink(path);
    rmdir(folder);
    if (s != ST_OK) {
        print_message("%s\n", err.text);
    }
    assert_int_equal(s, ST_OK);
    struct param_list *list = model_params(t.model);
    uint64_t state = 99;
    for (size_t i = 0; shake && i < list->count; i++) {
        struct param *p = &list->items[i];
        for (size_t j = 0; j < p->count; j++) {
            toy_set(list, p->value, j, toy_get(list, p->value, j) + 0.2 * toy_random(&state));
        }
    }
    return t;
}

static inline void toy_close(struct toy *t)
{
    model_close(t->model);
    arena_free(t->arena);
}

/* A batch of `sequences` given lengths; about a quarter of the labels are ignored. */
struct toy_batch {
    struct train_batch batch;
    int32_t ids[512], labels[512];
    size_t start[16];
};

static inline void toy_batch_make(struct toy_batch *b, const size_t *lengths, size_t sequences,
                                  uint64_t seed)
{
    size_t n = 0;
    uint64_t state = seed;
    for (size_t s = 0; s < sequences; s++) {
        b->start[s] = n;
        size_t first = n;
        for (size_t i = 0; i < lengths[s]; i++, n++) {
            b->ids[n] = (int32_t)((toy_random(&state) + 1) * 26.4);
        }
        for (size_t i = first; i < n; i++) {
            bool last = i + 1 == n;
            b->labels[i] = last || toy_random(&state) < -0.5 ? LABEL_IGNORED : b->ids[i + 1];
        }
    }
    b->start[sequences] = n;
    b->batch = (struct train_batch){
        .tokens = n, .sequences = sequences, .ids = b->ids, .labels = b->labels, .start = b->start};
}

static inline double toy_loss(struct toy *t, const struct train_batch *b)
{
    double loss = 0;
    size_t labels = 0;
    struct err err = {0};
    assert_int_equal(model_forward(t->model, b, &loss, &labels, &err), ST_OK);
    return loss;
}

/* Forward and backward from zeroed gradients; returns the loss. */
static inline double toy_step(struct toy *t, const struct train_batch *b, double scale)
{
    double loss = toy_loss(t, b);
    model_zero_grad(t->model);
    model_backward(t->model, scale);
    return loss;
}

static inline size_t toy_bytes(const struct param_list *list, const struct param *p)
{
    return p->count * precision_bytes(list->precision);
}

/* Largest difference of any gradient, relative to the largest entry of its tensor. */
static inline double toy_grad_difference(struct toy *a, struct toy *b)
{
    struct param_list *la = model_params(a->model);
    struct param_list *lb = model_params(b->model);
    double worst = 0;
    assert_int_equal(la->count, lb->count);
    for (size_t i = 0; i < la->count; i++) {
        if (la->items[i].grad == NULL) {
            continue;
        }
        double most = 1e-30;
        double off = 0;
        for (size_t j = 0; j < la->items[i].count; j++) {
            double x = toy_get(la, la->items[i].grad, j);
            double y = toy_get(lb, lb->items[i].grad, j);
            most = fmax(most, fabs(x));
            off = fmax(off, fabs(x - y));
            if (isnan(x - y)) {
                return NAN;
            }
        }
        worst = fmax(worst, off / most);
    }
    return worst;
}

#endif
