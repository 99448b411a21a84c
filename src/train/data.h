// SPDX-License-Identifier: Apache-2.0
/*
 * Training data, read whole: samples of token ids with a label for each token.
 *
 * Read are (told apart by content, each record on its own):
 *
 *   {"text": ...}                                  pre-training: every token is learned, the end of
 *                                                  sequence is appended, long texts are cut into pieces
 *   {"instruction", "input", "output", "system", "history"}   Alpaca
 *   {"messages" or "conversations": [{"role"|"from", "content"|"value"}]}   OpenAI and ShareGPT
 *   {"input_ids": [...], "labels": [...]}          tokenised elsewhere; labels as Hugging Face has them,
 *                                                  unshifted, -100 where there is no loss
 *
 * as lines (JSONL), as one JSON list, or a safetensors file with input_ids [n, length] and optionally
 * labels, attention_mask and pictures (data_pictures.h); a file *.txt is one text. A conversation is
 * written with the chat template of the tokenizer's family (data_template.h); only what the assistant
 * says is learned unless the options say otherwise.
 *
 * Foreign bytes: ceilings on file, record and ids; every complaint names file and line.
 */
#ifndef ASSAY_TRAIN_DATA_H
#define ASSAY_TRAIN_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/vec.h"

#include "model/tok.h"

enum {
    DATA_SAMPLES_MAX = 100000000,
    DATA_NO_ID = -1
};

struct vision_config; /* vision.h */

struct sample {
    const int32_t *ids;
    const int32_t
        *labels; /* unshifted: labels[i] is what ids[i] should be, LABEL_IGNORED for no loss */
    size_t count;
    size_t line; /* of the file it came from, 1-based; row + 1 of a safetensors file */
    /* Pictures in the order of the text, as in struct train_batch; NULL and 0 without. */
    const double *pixels;
    size_t patches;
    size_t patch_values;
    const int32_t *grid;
    size_t pictures;
};

struct dataset {
    VEC_OF(struct sample) samples;
    uint64_t tokens;
    uint64_t labels;    /* that a loss will be taken of: shifted, last token of each sample aside */
    uint64_t truncated; /* samples that were cut to the length */
    uint64_t dropped;   /* samples without a label that counts */
    size_t dropped_line;       /* the first of them */
    const char *template_name; /* that conversations were written with; NULL: there were none */
};

struct data_options {
    const struct tokenizer *tokenizer;  /* NULL: only data that is tokenised already */
    size_t vocab;                       /* of the model: larger ids are refused */
    size_t length;                      /* tokens of a sample at most, at least 2 */
    int32_t eos;                        /* appended to texts; DATA_NO_ID: nothing */
    const char *template_name;          /* NULL: chosen by the tokenizer's tokens */
    const struct vision_config *vision; /* NULL: pictures are refused */
    bool learn_prompt;                  /* take the loss of every token of a conversation */
};

/* Adds the samples of a file. ST_FORMAT with file and line for what cannot be read, for ids beyond the
 * vocabulary, for a file without a sample, and for one where no label is left. */
enum status data_read(struct arena *a, const char *path, const struct data_options *options,
                      struct dataset *d, struct err *err) MUST_USE;

/* The same for JSON lines, a JSON list or a text in memory; `name` stands for the path. */
enum status data_read_bytes(struct arena *a, const char *name, struct str bytes,
                            const struct data_options *options, struct dataset *d,
                            struct err *err) MUST_USE;

/* Moves `share` (0..1) of the samples, drawn with `seed`, into `ret_eval`; at least one stays on either
 * side. */
enum status data_split(struct arena *a, struct dataset *d, double share, uint64_t seed,
                       struct dataset *ret_eval, struct err *err) MUST_USE;

/* A hash of all samples in order (FNV-1a, 64 bits): a resumed run wants the data it began with. */
uint64_t data_hash(const struct dataset *d);

/* ---- for the readers ---- */

/* Adds ids with labels (NULL: the ids themselves) as one sample, cut to the length; of no use without a
 * label behind the first token, and then counted. */
enum status data_add(struct arena *a, struct dataset *d, const struct data_options *options,
                     const char *path, size_t line, const int32_t *ids, const int32_t *labels,
                     size_t count, struct err *err) MUST_USE;

/* input_ids, labels, attention_mask and pictures of a safetensors file. */
enum status data_read_tensors(struct arena *a, const char *path, const struct data_options *options,
                              struct dataset *d, struct err *err) MUST_USE;

#endif
