// SPDX-License-Identifier: Apache-2.0
/*
 * One sample of training data as turns, whatever its layout:
 *
 *   messages    {"messages": [{"role", "content"}]}, content a string or a list of parts (OpenAI, TRL)
 *   ShareGPT    {"conversations": [{"from", "value"}], "system", "tools"}
 *   Alpaca      {"instruction", "input", "output", "history": [[q, a]], "system"}
 *   prompt      {"prompt", "completion"} (TRL), strings or lists of messages
 *   text        {"text"}, or a string
 *
 * each also with "chosen" and "rejected", and with "images", "videos", "audios". Roles are named as
 * LLaMA-Factory, OpenAI and axolotl name them.
 *
 * Source: LLaMA-Factory, data/README.md; TRL, docs/source/dataset_formats.md.
 */
#ifndef ASSAY_MODEL_DATA_SAMPLE_H
#define ASSAY_MODEL_DATA_SAMPLE_H

#include "base/finding.h"
#include "base/tree.h"

enum data_layout {
    DATA_LAYOUT_UNKNOWN = 0,
    DATA_MESSAGES,
    DATA_SHAREGPT,
    DATA_ALPACA,
    DATA_PROMPT,
    DATA_PROMPT_ONLY, /* no answer: for reinforcement learning */
    DATA_STEPS,       /* completions with a label each */
    DATA_IDS,         /* input_ids, as a tokenizer left them */
    DATA_TEXT,
    DATA_LAYOUT_COUNT
};

enum data_role {
    DATA_ROLE_UNKNOWN = 0,
    DATA_SYSTEM,
    DATA_USER,
    DATA_ASSISTANT,
    DATA_TOOL,
    DATA_PLAIN, /* of text */
    DATA_ROLE_COUNT
};

enum data_media {
    DATA_IMAGE = 0,
    DATA_VIDEO,
    DATA_AUDIO,
    DATA_MEDIA_COUNT
};

struct data_turn {
    enum data_role role;
    const char *name; /* of the role, as written; NULL when there is none */
    struct str text;
    bool has_text; /* false: no content, and no tool call in its place */
    bool calls;    /* tool calls take the place of text */
    bool
        trained; /* its tokens are trained on: an assistant's, unless its weight is 0; all of text */
};

struct data_sample {
    enum data_layout layout;
    const char *missing; /* the first field that is not there, or of another kind; NULL */

    VEC_OF(struct data_turn) turns;

    bool preference; /* has chosen and rejected */
    bool implicit;   /* of text, with the prompt inside of both */
    uint64_t ids;    /* DATA_IDS: how many, ... */
    uint64_t trained_ids;
    uint64_t largest_id;
    struct str rejected;
    bool has_media[DATA_MEDIA_COUNT]; /* a list of them is there, even an empty one */
    size_t listed[DATA_MEDIA_COUNT];
    size_t placed[DATA_MEDIA_COUNT]; /* "<image>", or parts of a message without a path */
    struct text_list paths;          /* of media, as written */
};

const char *data_layout_name(enum data_layout layout);
const char *data_role_name(enum data_role role);
const char *data_media_name(enum data_media media); /* "image", ... */

/* Never fails: what is missing is in the record. Strings live in the tree. */
void data_sample_read(struct arena *a, const struct tree *record, struct data_sample *ret_sample);

/* A sample that is text itself. */
void data_sample_of_text(struct arena *a, struct str text, struct data_sample *ret_sample);

/* What is wrong with the order of roles; NULL when nothing is. */
const char *data_sample_order(const struct data_sample *s, size_t *ret_turn);

#endif
