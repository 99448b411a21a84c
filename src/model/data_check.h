// SPDX-License-Identifier: Apache-2.0
/*
 * Files of training data, sample by sample: structure, roles, empty and oversized samples, duplicates,
 * samples that training and evaluation share, media that are not there, lengths in tokens. One pass, memory
 * bounded by DATA_SEEN_MAX and one record.
 *
 * Lengths are those of the turns' contents. What a chat template adds (a few tokens a turn) is not
 * counted: templates are programs, and none is run.
 */
#ifndef ASSAY_MODEL_DATA_CHECK_H
#define ASSAY_MODEL_DATA_CHECK_H

#include "model/data_sample.h"
#include "model/dataset.h"
#include "model/issue.h"
#include "model/tok.h"

enum {
    DATA_LENGTH_MAX = 1 << 20 /* tokens told apart; longer samples count as this long */
};

struct data_options {
    const struct tokenizer *tokenizer;                          /* NULL: no tokens are counted */
    uint64_t max_length;                                        /* tokens; 0: none */
    const char *media_folder;                                   /* NULL: that of the file */
    void (*progress)(void *ctx, uint64_t done, uint64_t total); /* bytes; may be NULL */
    void *ctx;
};

/* What was counted in a file. */
struct data_file {
    const char *path;
    bool is_eval;
    bool opened;
    enum dataset_form form;
    uint64_t bytes;
    uint64_t samples;
    uint64_t layouts[DATA_LAYOUT_COUNT];
    uint64_t turns;
    uint64_t unread;     /* records that are no sample */
    uint64_t duplicates; /* of a sample before */
    uint64_t shared;     /* eval: samples that are in the training data */
    uint64_t shared_prompts;
    uint64_t too_long;   /* beyond max_length */
    uint64_t text_bytes; /* of contents */
    uint64_t trained_bytes;
    uint64_t tokens;
    uint64_t trained_tokens;
    uint64_t longest;
    uint64_t longest_line;
    uint32_t
        *lengths; /* how many samples have so many tokens, DATA_LENGTH_MAX + 1 of them; or NULL */
};

/* A kind of fault and how often it was met; issues list only the first of each. */
struct data_kind {
    const char *id;
    uint64_t count;
    const char *file;
    uint64_t line; /* of the first */
};

struct data_check {
    struct data_file *files; /* training data first */
    size_t count;
    struct data_kind kinds[32];
    size_t kind_count;
    bool forgot; /* more samples than are remembered: duplicates are incomplete */
};

/* Checks `train`, then `eval`, which is held against it. Files that cannot be read become issues. */
void data_check(struct arena *a, const struct text_list *train, const struct text_list *eval,
                const struct data_options *options, struct issues *issues,
                struct data_check *ret_check);

/* The length that `share` of a file's samples do not exceed; 0 without tokens. */
uint64_t data_quantile(const struct data_file *f, double share);

/* Sample number `number` (1-based) of a file. ST_ABSENT when it has fewer. */
enum status data_sample_at(struct arena *a, const char *path, uint64_t number,
                           struct data_sample *ret_sample, uint64_t *ret_line,
                           struct err *err) MUST_USE;

#endif
