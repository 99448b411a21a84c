// SPDX-License-Identifier: Apache-2.0
/*
 * A language model as the trainer sees it: a list of parameters, and a loss with its gradient.
 *
 * A batch is packed: the tokens of all its sequences lie end to end, and attention, convolution and
 * recurrence never cross a border. There is no padding; a padded batch of a framework is the same
 * sequences without it. A label belongs to the position that predicts it: `labels[t]` is what the
 * model should say after reading ids[t], so the shift is made by whoever makes the batch, and the last
 * token of a sequence has LABEL_IGNORED.
 */
#ifndef ASSAY_TRAIN_MODEL_H
#define ASSAY_TRAIN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

#include "train/param.h"

enum {
    LABEL_IGNORED = -100
};

struct train_batch {
    size_t tokens;
    size_t sequences;
    const int32_t *ids;    /* [tokens] */
    const int32_t *labels; /* [tokens], LABEL_IGNORED where there is no loss */
    const size_t *start;   /* [sequences + 1]: sequence i is tokens start[i] .. start[i + 1] - 1 */
    /* [3, tokens]: time, height, width for M-RoPE; NULL: the place within the sequence. */
    const int32_t *positions;
    /* Pictures: pixels [patches, channels * temporal * patch * patch] as reals' doubles, in the order
     * of merge blocks; grid [pictures, 3]: t, h, w in patches. Their merged features replace the
     * embeddings where ids[t] is the model's image token. NULL and 0 without a picture. */
    const double *pixels;
    size_t patches;
    const int32_t *grid;
    size_t pictures;
};

struct train_model;

struct lora_options {
    size_t rank;  /* 0: no LoRA, all parameters are trained */
    double alpha; /* scale is alpha / rank, or alpha / sqrt(rank) when rank_stabilised */
    bool rank_stabilised;
    const char *targets; /* "q_proj,v_proj", "all-linear" */
    /* A PEFT folder to start from: its configuration replaces the members above. NULL: a new adapter,
     * A at random and B zero. */
    const char *adapter;
};

struct model_options {
    enum precision precision;
    unsigned threads; /* 0: pool_cores() */
    bool reference;   /* own plain loops only, no BLAS, sums in a fixed order */
    bool recompute;   /* keep only each layer's input, compute the rest again for backward */
    bool float_loss;  /* log-sum-exp of the loss as frameworks' vector code makes it, see loss.c */
    bool random;      /* weights from `seed` instead of the folder's files */
    uint64_t seed;
    const char *blas; /* path of a BLAS library, NULL: looked for, "": own code */
    struct lora_options lora;
};

/* What `blas` should be for speed: "" where own code is ahead of the libraries, else NULL. */
const char *model_fastest_blas(void);

/* The options that a PEFT folder's adapter_config.json stands for; `adapter` is the folder. What would
 * change the model and is not computed here (DoRA, patterns of ranks, dropout, ...) is refused. */
enum status lora_read_config(struct arena *a, const char *folder, struct lora_options *ret_lora,
                             struct err *err) MUST_USE;

/* Reads config.json and the weights of a Hugging Face folder or a GGUF file (or makes them up, options->random). What
 * is missing, has another shape or is not finite is named. The model lives in `a`. */
enum status model_open(struct arena *a, const char *folder, const struct model_options *options,
                       struct train_model **ret_model, struct err *err) MUST_USE;
void model_close(struct train_model *m);

struct param_list *model_params(struct train_model *m);

/* Sum of the losses of all labels (natural logarithm), and how many there were. Keeps what backward
 * needs until the next call. Ids outside the vocabulary and a wrong number of image tokens fail. */
enum status model_forward(struct train_model *m, const struct train_batch *batch,
                          double *ret_loss_sum, size_t *ret_labels, struct err *err) MUST_USE;

/* Adds scale * d(loss sum)/d(parameter) to the gradient of every trainable parameter, of the batch of
 * the last model_forward(), which must live until then. Once after each forward: it uses up what that kept. */
void model_backward(struct train_model *m, double scale);

void model_zero_grad(struct train_model *m);

/* [tokens, vocab] of the last forward, made on demand, valid until the next: logits as doubles for
 * rows first .. first + count - 1, into ret_rows[count, vocab]. */
void model_logits(struct train_model *m, size_t first, size_t count, double *ret_rows);
size_t model_vocab(const struct train_model *m);
size_t model_layers(const struct train_model *m);

/* Who computes: "openblas 0.3.21" or the own kernel ("avx512"). The order of a product's sums depends on it, and
 * with a library on the threads too; nothing else in a step does. */
struct model_arithmetic {
    const char *products;
    unsigned threads;
    bool library; /* products by a BLAS library */
};

struct model_arithmetic model_arithmetic(const struct train_model *m);

/* Bytes taken so far for activations, logits and buffers; they are used again and never given back. */
uint64_t model_activation_bytes(const struct train_model *m);

/* A tensor that forward or backward passed through, by layer and operator, for comparison with a dump:
 * "layers.3.self_attn.o_proj.output". Called during forward and backward when set; values are the
 * arithmetic's reals. Besides, attention shows "layers.3.self_attn.entropy" [tokens, heads]: that of the
 * probabilities of each token's keys, in nats. */
typedef void model_watch_fn(void *ctx, const char *name, size_t rows, size_t width,
                            const void *values);
void model_watch(struct train_model *m, model_watch_fn *fn, void *ctx);

#endif
