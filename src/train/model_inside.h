// SPDX-License-Identifier: Apache-2.0
/* What the files of the model share: the record behind struct train_model. Not for other modules. */
#ifndef ASSAY_TRAIN_MODEL_INSIDE_H
#define ASSAY_TRAIN_MODEL_INSIDE_H

#include "train/layer_parts.h"
#include "train/vision.h"

struct decoder_layer {
    const char *module; /* "model.layers.0" */
    enum layer_kind kind;
    void *mixer; /* what the kind's maker_layer returned */
    struct mlp mlp;
    struct norm input_norm, post_norm; /* before the mixer, before the MLP */
};

struct train_model {
    struct arena *memory; /* own: parameters and activations; its ceiling is the machine's memory */
    struct model_config config;
    struct model_options options;
    struct compute compute;
    struct param_list params;

    struct param *embed; /* [vocab, hidden] */
    const char *embed_module;
    struct decoder_layer *layers; /* [config.layers] */
    struct norm final_norm;
    struct linear head; /* its weight is `embed` when tied */

    struct vision *vision; /* NULL: text alone */

    struct tape kept, scratch;
    struct run run;           /* of the last forward */
    struct train_batch batch; /* the caller's, with the positions that its pictures ask for */
    size_t frames;            /* of its pictures */
    void *pictures;           /* model_pictures.c; NULL: none in the batch */
    void *state;              /* what it keeps, model_run.c; NULL before the first */
};

/* Declares all parameters of m->config in m->params. */
void model_declare(struct train_model *m);

/* Fills all parameters that are no adapter's from the folder's safetensors files. */
enum status model_load(struct train_model *m, const char *folder, struct err *err) MUST_USE;

/* The parameter that a tensor's name stands for, NULL: leave it out. */
typedef const char *param_name_fn(void *ctx, const char *name);

/* Reads the tensors of one file into parameters and puts their names into `seen`. A tensor that is no
 * parameter, has another shape or is not finite is an error. */
enum status params_read_file(struct param_list *list, const char *path, param_name_fn *name_of,
                             void *ctx, struct map *seen, struct err *err) MUST_USE;

/* The values of a PEFT folder's adapter. */
enum status lora_load(struct train_model *m, const char *folder, struct err *err) MUST_USE;

/* Opens threads and BLAS as the options say; `a` must outlive the record. */
enum status compute_open(struct arena *a, const struct model_options *options, struct compute *ret,
                         struct err *err) MUST_USE;

/* ---- model_run.c and loss.c, for both formats ---- */

#define MODEL_RUN(f)                                                                \
 void run_forward_##f(struct train_model *m, double *ret_loss, size_t *ret_labels); \
 void run_backward_##f(struct train_model *m, double scale);                        \
 void run_logits_##f(struct train_model *m, size_t first, size_t count, double *ret_rows);
MODEL_RUN(f64)
MODEL_RUN(f32)

/* Puts the features of the batch's pictures into the embeddings x[tokens, hidden]. */
void T(pictures_forward)(struct train_model *m, real *x);
/* Adds those that belong after decoder layer `layer` to its output x. */
void T(pictures_deepen)(const struct train_model *m, size_t layer, real *x);
/* The backward of both: d is the gradient of x. The second also takes it away where embeddings were
 * replaced. All four do nothing without pictures. */
void T(pictures_deepen_backward)(const struct train_model *m, size_t layer, const real *d);
void T(pictures_backward)(const struct train_model *m, real *d);

struct loss_kept; /* loss.c */

/* Sum over rows of -log softmax(head(x))[label]; x[rows, hidden]. What it leaves for
 * backward is on run->kept, and used up there: backward may be called once. */
double T(loss_forward)(const struct run *run, const struct linear *head, size_t rows, const real *x,
                       const int32_t *labels, struct loss_kept **ret_kept);
/* dx[rows, hidden] = scale * gradient of that sum; adds to the head's gradients. */
void T(loss_backward)(const struct run *run, const struct linear *head, size_t rows, const real *x,
                      const int32_t *labels, const struct loss_kept *kept, real scale, real *dx);

#endif
