// SPDX-License-Identifier: Apache-2.0
/*
 * What a reader of model files noticed while it went on reading: a finding with its file as
 * evidence. Readers fail (enum status) only when nothing more can be read.
 */
#ifndef ASSAY_MODEL_ISSUE_H
#define ASSAY_MODEL_ISSUE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/finding.h"
#include "base/str.h"

/* Where issues go. More than `ISSUE_MAX` are counted, not kept. */
struct issues {
    struct arena *arena;
    const char *file; /* evidence of the next issue; may be changed between issues */
    struct finding_list list;
    size_t dropped;
};

enum {
    ISSUE_MAX = 1000,
    ISSUE_MAX_SAME = 20 /* of one id */
};

void issues_init(struct issues *issues, struct arena *arena, const char *file);

/* Adds a finding; `id` and `title` are literals, the rest is the claim. NULL issues is fine. */
void issue_add(struct issues *issues, enum severity severity, const char *id, const char *title,
               const char *fmt, ...) PRINTF_LIKE(5, 6);

/* The same of many files: where a finding with this id and claim is there, the file becomes further evidence of
 * it. `text` stands beside the file. */
void issue_join(struct issues *issues, enum severity severity, const char *id, const char *title,
                const char *text, const char *fmt, ...) PRINTF_LIKE(6, 7);

/* A remedy of the finding added last. */
void issue_remedy(struct issues *issues, const char *text);

/* Bytes of foreign text made printable for messages: at most 80 of them, quotes not added. */
const char *issue_text(struct arena *arena, struct str text);

/* True when an error or a warning is among the issues. */
bool issues_wrong(const struct issues *issues);

/* Number of issues of one id. */
size_t issues_count(const struct issues *issues, const char *id);

#endif
