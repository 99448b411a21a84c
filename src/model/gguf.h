// SPDX-License-Identifier: Apache-2.0
/*
 * GGUF 2 and 3: "GGUF", version, number of tensors, number of keys, the keys with typed values, the
 * tensors' names, shapes, types and offsets, padding to `general.alignment`, data. Little-endian; the
 * big-endian form, version 1 (32-bit sizes) and arrays of arrays are refused by name.
 *
 * As the reference reader does, tensors must lie one behind the other in the order they are listed,
 * each padded to the alignment. Dimensions stand fastest first in the file and are turned round here,
 * so that shapes read as PyTorch's.
 *
 * Values are those of the file. For the architecture "llama" the converter has reordered the rows of attn_q
 * and attn_k: within each head of width d, row 2 i + h of the file is row h d/2 + i of PyTorch's
 * (i < d/2, h < 2), because ggml rotates neighbours and transformers rotates halves.
 *
 * Source: ggml/docs/gguf.md; ggml/src/gguf.cpp (gguf_init_from_file_impl); llama.cpp,
 * convert_hf_to_gguf.py (LlamaModel.permute); transformers, modeling_gguf_pytorch_utils.py
 * (_reverse_permute_weights).
 */
#ifndef ASSAY_MODEL_GGUF_H
#define ASSAY_MODEL_GGUF_H

#include "model/tensor_file.h"

enum {
    GGUF_KEYS_MAX = 1000000,
    GGUF_KEY_BYTES_MAX = 65535,
    GGUF_ARRAY_MAX = 16777216,   /* elements of one array */
    GGUF_STRING_MAX = 268435456, /* bytes */
    GGUF_RANK_MAX = 4,
    GGUF_NAME_MAX = 63 /* bytes of a tensor's name */
};

/* Kinds of values; the numbers are those of the format. */
enum gguf_kind {
    GGUF_U8 = 0,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_KIND_COUNT
};

/* A scalar is an array of one element. */
struct gguf_value {
    const char *key;
    enum gguf_kind kind;
    enum gguf_kind element;    /* of an array; `kind` itself otherwise */
    uint64_t count;            /* elements */
    struct str bytes;          /* numbers and truth values, packed */
    const struct str *strings; /* of GGUF_STRING elements: `count` of them */
};

/* What stands in front of the tensors. Everything in it lives on the file's arena, so that it
 * outlives tensor_file_close(). */
struct gguf {
    uint32_t version;
    uint32_t alignment;
    struct gguf_value *values; /* in the order of the file */
    size_t count;
    struct map *by_key; /* key to struct gguf_value */
};

extern const struct tensor_format tensor_format_gguf;

/* True for a regular file that begins with "GGUF"; false for folders and what cannot be read. */
bool gguf_is_file(const char *path);

/* Maps and reads a file whose every tensor and key is to be used: unlike tensor_file_open() it fails when
 * anything in the header is wrong (a key or name twice, a tensor that is cut off). Close the file. */
enum status gguf_open(struct arena *a, const char *path, struct tensor_file **ret_file,
                      const struct gguf **ret_gguf, struct err *err) MUST_USE;

/* NULL when the file is of another format. */
const struct gguf *gguf_of(const struct tensor_file *f);

/* NULL when there is no such key. */
const struct gguf_value *gguf_find(const struct gguf *g, const char *key);

/* Element `index` of a value as what is asked for; false beyond its end or when it is of another
 * sort. An integer is any of the integer kinds that fits; a real is any number. */
bool gguf_integer_at(const struct gguf_value *v, uint64_t index, int64_t *ret_integer);
bool gguf_real_at(const struct gguf_value *v, uint64_t index, double *ret_real);
bool gguf_bool_at(const struct gguf_value *v, uint64_t index, bool *ret_bool);
bool gguf_text_at(const struct gguf_value *v, uint64_t index, struct str *ret_text);

/* A scalar by its key; false when it is missing, an array, or of another sort. */
bool gguf_integer(const struct gguf *g, const char *key, int64_t *ret_integer);
bool gguf_real(const struct gguf *g, const char *key, double *ret_real);
bool gguf_bool(const struct gguf *g, const char *key, bool *ret_bool);
bool gguf_text(const struct gguf *g, const char *key, struct str *ret_text);

/* What the keys declare (embedding_length, block_count, tokens) against the tensors. */
void gguf_check(const struct tensor_file *f, struct issues *issues);

/* "u32", "string", ... */
const char *gguf_kind_name(enum gguf_kind kind);

#endif
