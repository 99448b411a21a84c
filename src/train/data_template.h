// SPDX-License-Identifier: Apache-2.0
/*
 * Conversations as text, the way each family of models was taught: what stands before and behind the
 * words of a role. Chat templates of tokenizer_config.json are programs (Jinja) and are not run; these
 * rows give the same text for plain conversations of user, assistant and an optional system prompt.
 *
 * Sources: LLaMA-Factory src/llamafactory/data/template.py (llama2, llama3, qwen, alpaca).
 */
#ifndef ASSAY_TRAIN_DATA_TEMPLATE_H
#define ASSAY_TRAIN_DATA_TEMPLATE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#include "model/tok.h"

struct chat_template {
    const char *name;
    const char *mark; /* a token of the tokenizers it belongs to; NULL: for any */
    const char *system_before;
    const char *system_after;
    const char *user_before;
    const char *user_after; /* with what opens the assistant's turn */
    const char *
        reply_after; /* learned: how the model says that it is done; NULL: the end-of-sequence id */
    const char *between;   /* not learned, between two rounds */
    bool bos;              /* the sequence begins with what the tokenizer puts in front */
    bool bos_each_round;   /* and so does every further round */
    bool system_inside;    /* the system prompt stands inside the first user's turn */
    const char *no_system; /* system prompt where the conversation has none; NULL: none */
};

/* By name, or for a tokenizer when `name` is NULL. NULL: there is no template of that name. */
const struct chat_template *chat_template_find(const struct tokenizer *t, const char *name);

/* "llama2, llama3, ..." for messages. */
const char *chat_template_names(struct arena *a);

#endif
