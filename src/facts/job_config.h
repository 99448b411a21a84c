// SPDX-License-Identifier: Apache-2.0
/*
 * A training configuration read as data: LLaMA-Factory or Transformers YAML/JSON, DeepSpeed JSON,
 * accelerate YAML. Every key is kept with its file and line, so that unknown keys, wrong spellings
 * and conflicts can be shown where they stand. A `deepspeed:` path in the configuration is followed
 * and its keys are appended.
 *
 * Nothing is executed and nothing is looked up in a hub: a model or data set that is not a local
 * folder gives no facts.
 */
#ifndef ASSAY_FACTS_JOB_CONFIG_H
#define ASSAY_FACTS_JOB_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/value.h"

struct facts;

/* Which program a file speaks to, told by the keys it has. */
enum job_kind {
    JOB_UNKNOWN = 0,
    JOB_LLAMAFACTORY, /* stage, finetuning_type, template, dataset_dir, cutoff_len … */
    JOB_TRANSFORMERS, /* Seq2SeqTrainingArguments alone */
    JOB_DEEPSPEED,
    JOB_ACCELERATE,
    JOB_KIND_COUNT
};

/* One key. Nested keys are dotted, list items indexed: "zero_optimization.offload_optimizer.device",
 * "betas[0]". A map or list that is empty has an entry of its own; other maps have none. */
struct job_entry {
    const char *key;
    struct value value; /* VALUE_NULL for null; VALUE_LIST for a list of scalars */
    const char *text;   /* scalar as written, "" for null */
    bool quoted;        /* written in quotes */
    const char *file;
    int line; /* 1-based; 0 when the format has no lines */
    enum job_kind kind;
};

struct job_config {
    const char *file;   /* the file asked for */
    enum job_kind kind; /* its kind */

    struct {
        struct job_entry *items; /* in file order, followed files after it */
        size_t count;
        size_t capacity;
    } entries;

    struct {
        const char **items; /* sentences about files that were named and could not be read */
        size_t count;
        size_t capacity;
    } problems;
};

/* "llamafactory", "deepspeed", … */
const char *job_kind_name(enum job_kind kind);

/* Kind of one document, given its top-level keys. */
struct tree;
enum job_kind job_kind_of(const struct tree *root);

/*
 * Reads `path` under `fs` and what it names. Fails only for the file itself; a DeepSpeed file that
 * is named and missing is a sentence in `problems`. Ceilings: 4 MiB a file, 20,000 keys, depth 64.
 */
enum status job_config_read(struct arena *a, const struct fs *fs, const char *path,
                            struct job_config *ret_config, struct err *err) MUST_USE;

/* The same from text already in memory; followed files are looked up under `fs` when not NULL. */
enum status job_config_parse(struct arena *a, const struct fs *fs, struct str text,
                             const char *path, struct job_config *ret_config,
                             struct err *err) MUST_USE;

/* First entry with that key, of that kind (JOB_UNKNOWN: any but DeepSpeed); NULL. */
const struct job_entry *job_config_get(const struct job_config *c, enum job_kind kind,
                                       const char *key);

/* A path written in the configuration: absolute, or relative to the working folder of the job, to
 * the folder of the file, or to one of its parents (as LLaMA-Factory's "data" is). NULL when there
 * is no such file or folder under the root. */
const char *job_config_find_path(struct arena *a, const struct fs *fs, const struct job_config *c,
                                 const char *cwd, const char *written);

/* config.*, and model.*, tokenizer.*, template.*, data.*, ckpt.* from the local folders it names. */
void job_config_facts(const struct job_config *c, const struct fs *fs, struct facts *facts,
                      struct arena *scratch);

#endif
