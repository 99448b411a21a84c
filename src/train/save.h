// SPDX-License-Identifier: Apache-2.0
/*
 * Checkpoints of the trainer: a folder checkpoint-N that other programs load, and that a run resumes from
 * bit for bit.
 *
 *   config.json, generation_config.json, tokenizer files   copied from the model's folder
 *   model.safetensors                    every weight in the type it was read in (Hugging Face layout), or
 *   adapter_config.json, adapter_model.safetensors         of a LoRA run (PEFT layout)
 *   optimizer.safetensors                NAME.exp_avg and NAME.exp_avg_sq; NAME.master, the weight itself where
 *                                        the type of the model file cannot hold it exactly
 *   assay_state.json                     step, place in the data, ZClip's statistics, the settings
 *   assay-manifest.json                  hashes (model/manifest.h)
 *
 * A folder is written as checkpoint-N.part, brought to the disk, and renamed: killed at any instant, a
 * run leaves only whole checkpoints. Older ones beyond `keep` are renamed to *.old before they are deleted. The only
 * random numbers of training are the order of the samples, which follows from seed and epoch.
 */
#ifndef ASSAY_TRAIN_SAVE_H
#define ASSAY_TRAIN_SAVE_H

#include "train/clip.h"
#include "train/data_batch.h"
#include "train/model.h"
#include "train/optim.h"

enum {
    SAVE_WINDOW = 100 /* losses that mean and variance are taken over */
};

/* A setting that a resumed run must share: name of the option, and its value as text. */
struct save_setting {
    const char *name;
    const char *value;
};

struct save_state {
    uint64_t step; /* updates done */
    struct data_place place;
    uint64_t tokens; /* seen so far */
    uint64_t labels;
    uint64_t clipped; /* updates whose gradient was clipped */
    uint64_t data_hash;
    struct clip clip;
    double window[SAVE_WINDOW]; /* losses of the last updates, by step modulo SAVE_WINDOW */
    char products[80];          /* struct model_arithmetic; "": written before it was kept */
    uint64_t threads;
};

struct save_target {
    const char *output;       /* folder of the run; made when it is not there */
    const char *model_folder; /* where config.json and the tokenizer are copied from */
    const struct param_list *params;
    const struct optim *optim; /* NULL: the model alone (no optimizer, no state) */
    const struct lora_options *lora;
    const struct save_setting *settings;
    size_t setting_count;
    uint64_t keep; /* newest checkpoints that stay; 0: all */
};

/* Writes OUTPUT/checkpoint-<step>. A checkpoint of that step that is there is replaced. */
enum status save_checkpoint(struct arena *scratch, const struct save_target *target,
                            const struct save_state *state, const char **ret_path,
                            struct err *err) MUST_USE;

/* Writes a folder with the model alone (--shrink). ST_USAGE when it is there. */
enum status save_model(struct arena *scratch, const char *path, const struct save_target *target,
                       struct err *err) MUST_USE;

/* The newest checkpoint of a run; NULL when there is none. What a killed run left behind (*.part, *.old)
 * is removed. */
enum status save_latest(struct arena *a, const char *output, const char **ret_path,
                        struct err *err) MUST_USE;

/* Reads weights, moments and state back. Hashes are compared first; settings that differ are named. */
enum status save_load(struct arena *scratch, const char *path, const struct save_target *target,
                      struct optim *optim, struct save_state *ret_state, struct err *err) MUST_USE;

/* ---- parts ---- */

/* One that is there already is fine. */
enum status save_make_folder(const char *path, struct err *err) MUST_USE;
/* Removes a folder without sub-folders; one that is not there is fine. */
enum status save_remove_folder(struct arena *scratch, const char *path, struct err *err) MUST_USE;

/* Copies configuration and tokenizer files that are there, or writes what a GGUF file has of them;
 * `with_config` says whether config.json goes along. */
enum status save_copy_files(struct arena *scratch, const char *from, const char *to,
                            bool with_config, struct err *err) MUST_USE;

/* adapter_config.json of a LoRA run. */
enum status save_adapter_config(struct arena *scratch, const char *folder,
                                const struct save_target *target, struct err *err) MUST_USE;

/* assay_state.json. */
void save_state_text(const struct save_state *state, const struct save_target *target,
                     struct strbuf *out);
enum status save_state_read(struct arena *scratch, const char *path,
                            const struct save_target *target, struct save_state *ret_state,
                            struct err *err) MUST_USE;

#endif
