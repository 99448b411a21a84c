// SPDX-License-Identifier: Apache-2.0
/*
 * Tensors of a checkpoint by name, found across what wrappers put in front of names (module.,
 * _orig_mod., base_model.model., model., language_model.) and what an adapter puts into them
 * (.base_layer, .default of lora_A.default, modules_to_save.default).
 */
#ifndef ASSAY_MODEL_TENSOR_NAMES_H
#define ASSAY_MODEL_TENSOR_NAMES_H

#include "model/checkpoint.h"

struct tensor_place {
    const struct tensor_file *file;
    const struct tensor *tensor;
    bool taken; /* for the caller */
};

struct tensor_names {
    struct arena *arena;
    struct map *exact; /* to struct tensor_place */
    struct map *bare;

    VEC_OF(struct tensor_place *) all; /* in the order of files and tensors */
};

/* All tensors of all files that could be read. */
void tensor_names_list(struct checkpoint *c, struct tensor_names *ret_names);

/* The tensor of that name, else that of the same bare name; NULL when there is none. */
struct tensor_place *tensor_names_find(const struct tensor_names *n, const char *name);

/* A name without wrappers: "layers.0.self_attn.q_proj.weight". */
struct str tensor_names_bare(struct arena *a, const char *name);

#endif
