// SPDX-License-Identifier: Apache-2.0
/*
 * A model folder's tokenizer against what lies beside it: config.json, generation_config.json,
 * tokenizer_config.json, special_tokens_map.json, added_tokens.json, the chat template and the rows of
 * the embedding. Then a round trip over text of many scripts, and a comparison of two tokenizers.
 *
 * Source: transformers, tokenization_utils_base.py (which file says what, and which one wins).
 */
#ifndef ASSAY_MODEL_TOK_CHECK_H
#define ASSAY_MODEL_TOK_CHECK_H

#include "model/folder.h"
#include "model/tok.h"

enum tok_special_kind {
    TOK_BOS = 0,
    TOK_EOS,
    TOK_PAD,
    TOK_UNK,
    TOK_SPECIAL_COUNT
};

struct tok_special {
    const char *text; /* NULL when none is named */
    uint32_t id;      /* TOK_NO_ID when the tokenizer has no such token */
};

/* What was found; strings live on the arena. */
struct tok_check {
    const struct tokenizer *tokenizer;
    struct folder folder; /* count 0 when a file was given */
    uint32_t id_end;      /* with tokens that only the files beside it add */
    uint64_t vocab_size;  /* of config.json; 0 when it is not there */
    uint64_t rows;        /* of the embedding; 0 when no weights are there */
    struct tok_special special[TOK_SPECIAL_COUNT];
    const char *template_file; /* NULL when there is no chat template */
    struct str template_text;
    const char *template_name; /* "ChatML", ...; "another" */
};

/* "bos", "eos", "pad", "unk" */
const char *tok_special_name(enum tok_special_kind kind);

/* Checks; findings become issues. Errors are those of tok_open(). Free with tok_close(). */
enum status tok_check(struct arena *a, const char *path, const struct tok_options *options,
                      struct issues *issues, struct tok_check *ret_check, struct err *err) MUST_USE;

/* Two that should be the same: pieces by id, added tokens, special tokens, template, the way text is
 * cut, and the ids of the built-in text. Issues go to the list, with b's path as evidence. */
void tok_check_against(const struct tok_check *a, const struct tok_check *b, struct issues *issues);

/* Encodes each line of the built-in text and decodes it again. */
void tok_check_round_trip(const struct tokenizer *t, struct issues *issues);

/* Line `index` of the built-in text, one script or kind of text each; NULL behind the last. */
const char *tok_sample(size_t index, const char **ret_name);

#endif
