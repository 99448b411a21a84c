// SPDX-License-Identifier: Apache-2.0
/*
 * The lint of training configurations: knowledge/lint names the keys each program takes, with type,
 * default and allowed values, and the wrong names that people write; rules of stage "config" judge
 * combinations. The lint adds what the files say as facts, so that those rules are ordinary rules:
 *
 *   setting.KEY    a key of the trainer (LLaMA-Factory, Transformers), with its default when it is
 *                  not written
 *   written.KEY    true when the trainer's file writes it and its value is not null
 *   deepspeed.KEY, accelerate.KEY   as written; "auto" counts as not applicable
 *
 * The source of each is FILE:LINE.
 */
#ifndef ASSAY_DIAGNOSIS_LINT_H
#define ASSAY_DIAGNOSIS_LINT_H

#include "base/finding.h"

#include "facts/facts.h"
#include "facts/job_config.h"
#include "knowledge/knowledge.h"

/* Adds the facts above. Nothing is added for kinds that the configuration does not have. */
void lint_facts(struct arena *arena, const struct knowledge *k, const struct job_config *c,
                struct facts *facts);

/* Appends what is wrong with single keys: unknown (with the nearest right one), of the wrong type,
 * not among the allowed values, known by another name; and files that were named and not read. */
void lint_keys(struct arena *arena, const struct knowledge *k, const struct job_config *c,
               struct finding_list *findings);

#endif
