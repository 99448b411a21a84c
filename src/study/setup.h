// SPDX-License-Identifier: Apache-2.0
/*
 * How a run was set up, as keys and values from its configuration files, its command line, and what it
 * printed; and where two set-ups differ. Names of one thing are one (per_device_train_batch_size,
 * micro_batch_size), what only says where results go is left out, and what the trained numbers or the
 * time of a step depend on is marked: a ratio of times over unlike work is no ratio.
 */
#ifndef ASSAY_STUDY_SETUP_H
#define ASSAY_STUDY_SETUP_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/finding.h"
#include "base/str.h"

#include "study/run_log.h"

enum {
    SETUP_SPEED = 1,  /* the work of a step depends on it */
    SETUP_LOSS = 2,   /* the losses depend on it */
    SETUP_INPUT = 4,  /* names a model or data: digests decide (inputs.h) */
    SETUP_HIDDEN = 8, /* where results go: no difference */
};

struct setup_entry {
    const char *name; /* one name for all spellings */
    const char *value;
    unsigned bits;
    bool printed; /* seen in the output: that the other run did not print it means nothing */
};

struct setup {
    struct setup_entry *items;
    size_t count;
    size_t capacity;
};

/* `key` in any spelling. */
void setup_add(struct arena *a, struct setup *s, const char *key, const char *value, bool printed);

/* YAML or JSON text: every scalar, nested keys by their last part when that is known, else dotted. */
enum status setup_add_config(struct arena *a, struct setup *s, struct str text, const char *name,
                             struct err *err) MUST_USE;

/* "--key value", "--key=value" and "key=value" of a command. */
void setup_add_command(struct arena *a, struct setup *s, const struct text_list *argv);

void setup_add_log(struct arena *a, struct setup *s, const struct run_log *log);

/* What a key means; bits 0 and the key itself when it is not known. */
const char *setup_name_of(struct str key, unsigned *ret_bits);

struct setup_difference {
    const char *name;
    const char *a, *b; /* "(not set)" */
    unsigned bits;
};

struct setup_differences {
    struct setup_difference *items;
    size_t count;
    size_t capacity;
};

/* Sorted by name. Numbers are equal by value, paths by their last part. */
void setup_compare(struct arena *arena, const struct setup *a, const struct setup *b,
                   struct setup_differences *ret_differences);

#endif
