// SPDX-License-Identifier: Apache-2.0
/*
 * A GGUF file in place of a model's folder: its metadata as config.json, its tensors under the names and in
 * the order of rows that Hugging Face has, its values dequantised, its tokenizer's files.
 *
 * Architectures llama, qwen2 and qwen3, dense, with whole-width RoPE. What the metadata say beyond
 * that and would change the result (experts, sliding windows, frequency factors, ...) is refused by name.
 *
 * Source: llama.cpp convert_hf_to_gguf.py and gguf-py/gguf/tensor_mapping.py (what becomes of a Hugging
 * Face model), ggml/docs/gguf.md (keys).
 */
#ifndef ASSAY_TRAIN_MODEL_GGUF_H
#define ASSAY_TRAIN_MODEL_GGUF_H

#include "model/gguf.h"
#include "train/param.h"

struct model_config;

/* config.json of an open file. `path` is used in messages. */
enum status model_gguf_config(struct arena *a, const struct tensor_file *f, const char *path,
                              struct str *ret_text, struct err *err) MUST_USE;

/* The same of a file by its path. */
enum status model_gguf_read_config(struct arena *a, const char *path, struct str *ret_text,
                                   struct err *err) MUST_USE;

/* The Hugging Face name of a tensor, on `a`; NULL: it has none that is known. */
const char *model_gguf_name(struct arena *a, const char *name);

/* Fills parameters from the file and puts their names into `seen`, as params_read_file(). */
enum status model_gguf_load(struct param_list *list, const struct model_config *config,
                            const char *path, struct map *seen, struct err *err) MUST_USE;

/* Writes config.json (if asked for), and tokenizer.json and tokenizer_config.json where the file has a
 * tokenizer, into a folder. */
enum status model_gguf_write_files(struct arena *scratch, const char *path, const char *folder,
                                   bool with_config, struct err *err) MUST_USE;

#endif
