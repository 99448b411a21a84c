// SPDX-License-Identifier: Apache-2.0
/*
 * The tokenizer in the metadata of a GGUF file, written as the tokenizer.json and tokenizer_config.json of
 * Hugging Face: one reader (tok_json.c) follows both forms, and a model saved from a GGUF file has files
 * that other programs load.
 *
 * tokenizer.ggml.model "gpt2" alone, which is byte-level BPE: the expression that cuts text is not in the
 * file, tokenizer.ggml.pre names it. A name that is not in the table is refused, as are SentencePiece
 * ("llama"), WordPiece ("bert") and the rest.
 *
 * Source: ggml/docs/gguf.md (keys); llama.cpp src/llama-vocab.cpp (names of pre-tokenizers, what they stand
 * for, and whether a beginning is added where tokenizer.ggml.add_bos_token is missing).
 */
#ifndef ASSAY_MODEL_GGUF_TOKENIZER_H
#define ASSAY_MODEL_GGUF_TOKENIZER_H

#include "model/gguf.h"

/* True when the file brings a tokenizer, readable or not. */
bool gguf_has_tokenizer(const struct gguf *g);

/* tokenizer.json; `path` is used in messages. Errors: ST_ABSENT without a tokenizer, ST_FORMAT,
 * ST_UNSUPPORTED. Whether merges fit the tokens is for the reader of the text to find. */
enum status gguf_tokenizer_json(struct arena *a, const struct gguf *g, const char *path,
                                struct str *ret_text, struct err *err) MUST_USE;

/* tokenizer_config.json: names of the special tokens, the chat template. */
struct str gguf_tokenizer_config(struct arena *a, const struct gguf *g);

#endif
