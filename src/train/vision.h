// SPDX-License-Identifier: Apache-2.0
/*
 * The vision tower of Qwen3-VL and Qwen3.5: its configuration and parameters. Shapes: a batch has
 * `patches` patches of all its pictures; merge^2 of them become one feature, which takes the place of
 * an image token's embedding. Qwen3-VL adds, after each of its first decoder layers, further features
 * of the same number to the same tokens ("deepstack").
 *
 *   x = patch_embed(pixels) + table;  per block: x += proj(attention(norm1(x))), x += mlp(norm2(x))
 *   features = fc2(gelu(fc1(norm(x) seen as [patches / merge^2, merge^2 hidden])))
 *
 * Source: modeling_qwen3_vl.py and modeling_qwen3_5.py of huggingface/transformers.
 */
#ifndef ASSAY_TRAIN_VISION_H
#define ASSAY_TRAIN_VISION_H

#include "train/maker.h"

enum {
    VISION_LEVELS_MAX = 64
};

struct vision_config {
    size_t depth, hidden, intermediate, heads;
    size_t channels, temporal, patch; /* of a patch: colours, frames, pixels of a side */
    size_t merge;
    size_t out;      /* width of a feature */
    size_t side;     /* of the learned table, [side, side] */
    double theta;    /* of the rotation */
    bool exact_gelu; /* in the blocks; else the form with tanh */
    size_t levels;   /* deepstack: blocks whose output is merged too, in ascending order */
    size_t level_block[VISION_LEVELS_MAX];
    int32_t image_token, video_token;
};

struct layer_norm {
    const char *module;
    size_t width;
    struct param *weight, *bias;
};

struct vision_block {
    const char *module; /* "model.visual.blocks.0" */
    struct layer_norm norm1, norm2;
    struct linear qkv, proj, fc1, fc2;
};

struct vision_merger {
    const char *module;
    struct layer_norm norm; /* over hidden, or after the view over merge^2 hidden */
    struct linear fc1, fc2;
};

struct vision {
    const char *module; /* "model.visual" */
    const struct vision_config *config;
    struct linear patch; /* weight [hidden, channels, temporal, patch, patch]: a Conv3d's */
    struct param *table; /* [side^2, hidden] */
    struct vision_block *blocks;
    struct vision_merger merger;
    struct vision_merger *levels;
    bool trained; /* something in the tower has a gradient */
};

/* Reads vision_config and the token ids beside it. `layers` is the number of decoder layers;
 * `deepstack`: the family has it, else its key is passed over, as transformers does. */
enum status vision_config_read(struct arena *a, const struct config_reader *root, size_t layers,
                               bool deepstack, const struct vision_config **ret_config,
                               struct err *err) MUST_USE;

/* Whether a token stands for a feature of a picture or a video. */
static inline bool vision_is_picture(const struct vision_config *c, int32_t id)
{
    return id == c->image_token || id == c->video_token;
}

/* The number of parameters that vision_declare makes, adapters included. */
size_t vision_param_count(const struct vision_config *c);

struct vision *vision_declare(struct maker *mk, const struct vision_config *c, const char *module);

#endif
