// SPDX-License-Identifier: Apache-2.0
/*
 * Element types as files store them: those of base/dtype.h, sub-byte floats, and the block types of
 * GGUF, where a block of elements shares scales. A type is a row of a table; files point at rows.
 *
 * Sources: safetensors/src/tensor.rs (enum Dtype), ggml/include/ggml.h (enum ggml_type) and
 * ggml/src/ggml-common.h (block sizes), torch/storage.py (storage classes).
 */
#ifndef ASSAY_MODEL_TENSOR_TYPE_H
#define ASSAY_MODEL_TENSOR_TYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/str.h"

enum tensor_values {
    VALUES_PLAIN = 0, /* one of base/dtype.h: `dtype` is valid, values can be read */
    VALUES_OPAQUE,    /* size is known, values are not looked at */
    VALUES_BLOCKS,    /* quantised blocks with scales, or elements that are no whole bytes */
    VALUES_PAIRS      /* complex: two of `dtype`, read as a further dimension (tensor_parts()) */
};

/* Types of blocks that GGUF has no number for. */
enum tensor_small {
    TENSOR_SMALL_NONE = 0,
    TENSOR_SMALL_E8M0, /* powers of two that scale other tensors */
    TENSOR_SMALL_E2M1, /* two in a byte, the lower half first */
    TENSOR_SMALL_COUNT
};

struct tensor_type {
    const char *name;   /* "BF16", "F8_E4M3", "Q4_K" */
    uint32_t per_block; /* elements of the smallest addressable unit */
    uint32_t block_bytes;
    enum tensor_values values;
    enum dtype dtype; /* VALUES_PLAIN, VALUES_PAIRS */
    int ggml;         /* number in GGUF files, -1 when it has none */
    bool safetensors; /* the name is one of that format */
    enum tensor_small small;
};

/* By the name in safetensors files; NULL when that format has no such type. */
const struct tensor_type *tensor_type_safetensors(struct str name);

/* By the name of any row; NULL when there is none. */
const struct tensor_type *tensor_type_named(const char *name);

/* By the number in GGUF files; NULL for numbers that are unknown or were removed from the format. */
const struct tensor_type *tensor_type_ggml(uint32_t number);

/* The row of a plain type; never NULL for a value below DTYPE_COUNT. */
const struct tensor_type *tensor_type_plain(enum dtype t);

/* A row by index, for tests and tables; NULL behind the last. */
const struct tensor_type *tensor_type_at(size_t index);

/* Bytes of `elements` densely packed; false when they overflow or are no whole number of blocks. */
bool tensor_type_bytes(const struct tensor_type *t, uint64_t elements, uint64_t *ret_bytes);

#endif
