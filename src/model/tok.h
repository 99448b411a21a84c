// SPDX-License-Identifier: Apache-2.0
/*
 * Tokenizers: text to token ids and back, from four kinds of files.
 *
 *   tokenizer.json   Hugging Face "tokenizers" library: normalizer, pre-tokenizer, model,
 *                    post-processor, decoder, added tokens
 *   *.model          SentencePiece ModelProto (protobuf), unigram and BPE
 *   *.tiktoken       lines of base64 bytes and rank; the splitting expression is not in the file
 *   *.gguf           byte-level BPE in the metadata of a model (gguf_tokenizer.h)
 *
 * What is read is followed exactly; what is not understood is refused by name, never skipped.
 * `truncation` and `padding` of tokenizer.json are ignored: a check wants all ids.
 *
 * A tokenizer is read-only after tok_open() and may be shared; every thread has its own encoder.
 */
#ifndef ASSAY_MODEL_TOK_H
#define ASSAY_MODEL_TOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum {
    TOK_MAX_IDS = 1 << 22,   /* ids of a vocabulary */
    TOK_MAX_PIECE = 1 << 16, /* bytes of a piece */
    TOK_NO_ID = INT32_MAX    /* no such token */
};

#define TOK_MAX_FILE ((size_t)512 << 20)
#define TOK_MAX_TEXT ((size_t)1 << 30) /* bytes of one text to encode */

enum tok_format {
    TOK_JSON = 0,
    TOK_SENTENCEPIECE,
    TOK_TIKTOKEN,
    TOK_GGUF,
    TOK_FORMAT_COUNT
};

enum tok_model {
    TOK_BPE = 0,
    TOK_UNIGRAM,
    TOK_WORDPIECE,
    TOK_WORDLEVEL,
    TOK_MODEL_COUNT
};

/* A token that is found in the text before the model sees it. */
struct tok_added {
    struct str content;
    uint32_t id;
    bool special;     /* left out by a decoder that skips special tokens */
    bool single_word; /* not between word characters */
    bool lstrip;      /* swallows white space before it */
    bool rstrip;      /* and behind it */
    bool normalized;  /* found in the normalised text, else in the raw one */
};

struct tok_ids {
    uint32_t *items;
    size_t count;
    size_t capacity;
};

struct tokenizer; /* see tok_parts.h */
struct tok_encoder;

struct tok_options {
    const char *pattern; /* tiktoken: name of the encoding; NULL: told by the file's name */
};

/*
 * `path` is a file, or a folder with tokenizer.json, tokenizer.model or *.tiktoken (in this order).
 * Errors: ST_ABSENT, ST_FORMAT (says where), ST_UNSUPPORTED (names the part), ST_LIMIT.
 */
enum status tok_open(struct arena *a, const char *path, const struct tok_options *options,
                     const struct tokenizer **ret_tokenizer, struct err *err) MUST_USE;

/* Frees what lives outside the arena (compiled expressions). NULL is fine. */
void tok_close(const struct tokenizer *t);

/* Holds scratch memory and a bounded cache of pieces; free with tok_encoder_free(). */
struct tok_encoder *tok_encoder_new(const struct tokenizer *t) MUST_USE RETURNS_NONNULL;
void tok_encoder_free(struct tok_encoder *e);

enum tok_flags {
    TOK_SPECIALS = 1,       /* add what the post-processor adds (BOS, EOS, [CLS], ...) */
    TOK_PLAIN_SPECIALS = 2, /* special tokens written in the text are text (split_special_tokens) */
};

/*
 * Appends the ids of `text` to ids, which lives on `a`. Bytes that are not UTF-8 become U+FFFD first.
 * Errors: ST_LIMIT for a text beyond TOK_MAX_TEXT or an expression that gave up.
 */
enum status tok_encode(struct tok_encoder *e, struct arena *a, struct str text, unsigned flags,
                       struct tok_ids *ids, struct err *err) MUST_USE;

/*
 * Appends the text of ids. Errors: ST_USAGE for an id that does not exist, ST_UNSUPPORTED for a
 * decoder that only speech models use.
 */
enum status tok_decode(const struct tokenizer *t, struct arena *a, const uint32_t *ids,
                       size_t count, bool skip_special, struct strbuf *out,
                       struct err *err) MUST_USE;

/* "tokenizer.json", "SentencePiece", "tiktoken", "GGUF" */
const char *tok_format_name(enum tok_format f);
const char *tok_model_name(enum tok_model m); /* "BPE", "Unigram", "WordPiece", "WordLevel" */
enum tok_format tok_format_of(const struct tokenizer *t);
enum tok_model tok_model_of(const struct tokenizer *t);

const char *tok_path(const struct tokenizer *t);

/* One more than the largest id. */
uint32_t tok_id_end(const struct tokenizer *t);
/* How many ids have a token. */
size_t tok_count(const struct tokenizer *t);

/* Sorted by id. */
const struct tok_added *tok_added_list(const struct tokenizer *t, size_t *ret_count);
const struct tok_added *tok_added_find(const struct tokenizer *t, uint32_t id); /* or NULL */

/* The token of an id as the file writes it (byte-level alphabets and U+2581 as they stand); false
 * when the id has none. */
bool tok_piece(const struct tokenizer *t, struct arena *a, uint32_t id, struct str *ret_piece);

/* Id of an added token or a piece by the text of tok_piece(); TOK_NO_ID when there is none. */
uint32_t tok_find(const struct tokenizer *t, struct str piece);

/* Ids that TOK_SPECIALS puts in front and behind. */
void tok_specials(const struct tokenizer *t, const uint32_t **ret_before, size_t *ret_before_count,
                  const uint32_t **ret_after, size_t *ret_after_count);

/* One line on how text is cut and changed: "NFC, split(qwen2), byte-level". */
const char *tok_pipeline(const struct tokenizer *t, struct arena *a);

#endif
