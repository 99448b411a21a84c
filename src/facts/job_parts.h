// SPDX-License-Identifier: Apache-2.0
/*
 * The parts behind job_config_facts(): one function per group of keys. Private to job_*.c.
 */
#ifndef ASSAY_FACTS_JOB_PARTS_H
#define ASSAY_FACTS_JOB_PARTS_H

#include "facts/facts.h"
#include "facts/job_config.h"

struct job {
    const struct job_config *config;
    const struct fs *fs;
    struct facts *facts;
    struct arena *arena; /* scratch */
    const char *cwd;     /* of the job, or NULL */
};

/* "FILE:LINE" of an entry, for a fact's source. */
const char *job_where(const struct job *j, const struct job_entry *e);

/* The folder or file that `key` names, or NULL. */
const char *job_path(const struct job *j, const char *key);

/* true/false of a scalar, the YAML 1.1 words included; -1 for anything else. */
int job_bool(const struct job_entry *e);

void job_model_facts(const struct job *j);      /* model.* from the model's folder */
void job_tokenizer_facts(const struct job *j);  /* tokenizer.*, template.*, model.eos_token */
void job_data_facts(const struct job *j);       /* data.* */
void job_checkpoint_facts(const struct job *j); /* ckpt.* */

/* model.quant_blocksize, .vocab_rows, weights: from the files of `folder`. */
void job_weights_facts(const struct job *j, const char *folder);

#endif
