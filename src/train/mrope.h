// SPDX-License-Identifier: Apache-2.0
/*
 * Positions of text with pictures for M-RoPE (Qwen3-VL, Qwen3.5): three numbers per token, time, height
 * and width. Text counts all three up. A picture that begins at position p gives its merged patch
 * (row, column) the positions p, p + row, p + column, and text goes on at p + max(rows, columns). The
 * frames of a video are pictures of their own, between which the text names the time.
 *
 * Source: get_rope_index of Qwen3VLModel and Qwen3_5Model of huggingface/transformers.
 */
#ifndef ASSAY_TRAIN_MROPE_H
#define ASSAY_TRAIN_MROPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#include "train/model.h"

struct mrope_tokens {
    int32_t image;
    int32_t video; /* -1: none */
    size_t merge;
};

/* From ids, start and grid of the batch into ret_positions[3, tokens]. A run of image or video tokens
 * belongs to the next picture (of a video: to its next frame) and must have as many tokens as it has
 * merge blocks; every picture must be used. */
enum status mrope_positions(const struct train_batch *batch, const struct mrope_tokens *tokens,
                            int32_t *ret_positions, struct err *err) MUST_USE;

#endif
