// SPDX-License-Identifier: Apache-2.0
/*
 * What tensors a model must have, from its config.json: names, shapes and order of the parameters as
 * transformers declares them; of models with experts as it saves them. Families: llama, mistral, qwen2, qwen3,
 * qwen3_5 (text, and with its vision tower), qwen3_vl; with experts mixtral, qwen2_moe, qwen3_moe, deepseek_v2,
 * deepseek_v3, gpt_oss.
 *
 * Source: transformers, modeling_<family>.py and configuration_<family>.py (defaults of absent keys).
 */
#ifndef ASSAY_MODEL_ARCHITECTURE_H
#define ASSAY_MODEL_ARCHITECTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "base/tree.h"
#include "base/vec.h"

enum {
    ARCHITECTURE_RANK = 5,
    ARCHITECTURE_LAYERS_MAX = 4096
};

struct architecture_tensor {
    const char *name;
    uint64_t shape[ARCHITECTURE_RANK];
    uint32_t rank;
    bool optional; /* lm_head.weight of a model that ties it to its embeddings */
};

struct architecture {
    const char *family; /* model_type */
    bool tied;
    bool whole; /* every tensor of the class is in the list: others are out of place */
    uint64_t vocab_size;
    uint64_t hidden_size;
    uint64_t layers; /* of text */
    bool
        in_modules_order; /* the list's order is that of parameters(): not of experts, which are saved apart */
    const char *embedding; /* name of its tensor */

    VEC_OF(struct architecture_tensor) tensors;

    struct map *by_name; /* to struct architecture_tensor */
};

/*
 * ST_UNSUPPORTED: a family that is not known here (err names it), or weights that are quantised.
 * ST_FORMAT: a key is missing, or is no number that a model can have (err names it).
 */
enum status architecture_read(struct arena *a, const struct tree *config,
                              struct architecture *ret_architecture, struct err *err) MUST_USE;

/* Buffers that old versions saved, and heads that loading ignores: in a file without harm. */
bool architecture_ignores(const struct architecture *m, const char *name);

#endif
