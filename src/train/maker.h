// SPDX-License-Identifier: Apache-2.0
/*
 * Making a model: the parameters of its parts, declared in the order of the framework's parameters().
 * Nothing here computes; the records it fills (linear, norm) are what forward and backward of layer.h
 * are given.
 *
 * A new kind of layer has a declare function here (a row of maker_layers in maker.c) and its
 * arithmetic in layer.h.
 */
#ifndef ASSAY_TRAIN_MAKER_H
#define ASSAY_TRAIN_MAKER_H

#include "train/config.h"
#include "train/model.h"
#include "train/param.h"

/* y[n, out] = x[n, in] weight[out, in]^T + bias[out] + scale * (x A[r, in]^T) B[out, r]^T */
struct linear {
    const char *module; /* "model.layers.0.self_attn.q_proj" */
    size_t in, out;
    struct param *weight;
    struct param *bias;            /* NULL: none */
    struct param *lora_a, *lora_b; /* NULL: no adapter */
    double lora_scale;
};

struct norm {
    const char *module;
    enum norm_kind kind;
    size_t width;
    double eps;
    struct param *weight; /* [width] */
};

/* What a parameter holds before training, when no file says so. */
enum init {
    INIT_NORMAL = 0, /* N(0, initializer_range) */
    INIT_ZERO,
    INIT_ONE,
    INIT_KAIMING,     /* U(-1/sqrt(in), 1/sqrt(in)), in: the last dimension (LoRA's A) */
    INIT_LOG_UNIFORM, /* log U(0.01, 16) (A_log of Gated DeltaNet) */
    INIT_COUNT
};

struct maker {
    struct arena *arena;
    const struct model_config *config;
    const struct model_options *options;
    struct param_list *list; /* capacity is reserved: addresses of parameters stay */
    int layer;               /* of the parameters declared now; -1 outside the decoder layers */
    bool adapters;           /* linear layers declared now may get LoRA */
};

/* Reserves room for `capacity` parameters. */
void maker_init(struct maker *mk, struct arena *arena, const struct model_config *config,
                const struct model_options *options, struct param_list *list, size_t capacity);

/* A parameter with its memory: filled by `init` when the model is random or the parameter belongs to
 * an adapter, else zero until the weights are read. The name is copied. */
struct param *maker_param(struct maker *mk, const char *name, enum init init, size_t rank,
                          const size_t *dim) RETURNS_NONNULL;

/* `module`.weight [out, in], `module`.bias [out]; and LoRA's A and B where the targets name it. */
void maker_linear(struct maker *mk, struct linear *ret, const char *module, size_t out, size_t in,
                  bool bias);
void maker_norm(struct maker *mk, struct norm *ret, const char *module, enum norm_kind kind,
                size_t width);

/* Value `i` of a parameter, rounded to the list's precision. */
void param_set(const struct param_list *list, struct param *p, size_t i, double value);

/* Declares the token mixer of one decoder layer; `module` is the layer's path, "model.layers.0". The
 * result is handed to the forward and backward of layer.h. */
typedef void *maker_layer_fn(struct maker *mk, const char *module);

struct maker_layer {
    const char *name; /* as in layer_types of config.json */
    maker_layer_fn *declare;
};

extern const struct maker_layer maker_layers[LAYER_KIND_COUNT]; /* by enum layer_kind */

/* LAYER_FULL_ATTENTION without a gate. Order in the file: q, k, v, o, then q_norm, k_norm. */
struct attention {
    const char *module; /* "model.layers.0.self_attn" */
    struct linear q, k, v, o;
    struct norm q_norm, k_norm; /* weight NULL: none */
};

maker_layer_fn maker_attention;

#endif
