// SPDX-License-Identifier: Apache-2.0
/*
 * Parameters by name: the one list that the model, the optimizer, the checkpoint and the oracle share.
 * Names and shapes are those of the Hugging Face checkpoint of the family (PEFT's for LoRA), so that a
 * file written here loads there. Values are kept in the arithmetic's own format (real.h): double for
 * PRECISION_F64, else float; under PRECISION_BF16 each value is one that bfloat16 can hold.
 */
#ifndef ASSAY_TRAIN_PARAM_H
#define ASSAY_TRAIN_PARAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/map.h"

#include "train/real.h"

enum {
    PARAM_RANK_MAX = 5
};

struct param {
    const char *name; /* "model.layers.0.self_attn.q_proj.weight" */
    size_t rank;
    size_t dim[PARAM_RANK_MAX]; /* slowest first, as in the file */
    size_t count;               /* product of dim */
    bool trainable;             /* has a gradient and is given to the optimizer */
    bool decay;                 /* in the optimizer's group with weight decay */
    int layer;                  /* decoder layer it belongs to, -1 for none: metrics by layer */
    enum dtype file_dtype;      /* what it was stored as, and will be again */
    void *value;                /* count reals */
    void *grad;                 /* count reals, sum over the accumulation; NULL unless trainable */
};

/* In the order of the model's own definition, which is the order of the framework's parameters(). */
struct param_list {
    struct param *items;
    size_t count;
    size_t capacity;
    enum precision precision;
    struct map *by_name; /* name to struct param; made by param_list_index() */
};

/* Bytes of one real: 8 for PRECISION_F64, else 4. */
size_t precision_bytes(enum precision p);

void param_list_index(struct arena *a, struct param_list *list);
struct param *param_find(const struct param_list *list, const char *name); /* NULL: not there */

#endif
