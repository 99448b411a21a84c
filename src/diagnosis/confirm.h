// SPDX-License-Identifier: Apache-2.0
/*
 * Confirming a hit on its line, and taking captures from it: PCRE2, compiled when first needed and
 * just-in-time compiled when needed often.
 */
#ifndef ASSAY_DIAGNOSIS_CONFIRM_H
#define ASSAY_DIAGNOSIS_CONFIRM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/str.h"

#include "diagnosis/events.h"
#include "knowledge/knowledge.h"

struct confirm;

struct confirm *confirm_new(struct arena *a, const struct pattern *patterns,
                            size_t count) MUST_USE RETURNS_NONNULL;
void confirm_free(struct confirm *c); /* NULL is fine */

/*
 * True when the pattern's own expression, and its `capture` when it has one, match the text. Where
 * PCRE2 gives up on a hostile line, vectorscan answers for the expression; a capture that gives up
 * confirms nothing.
 */
bool confirm_line(struct confirm *c, size_t index, struct str text);

/* Named captures of the pattern's `capture` in the text, copied to the arena; 0 without any. */
size_t confirm_captures(struct confirm *c, size_t index, struct str text, struct arena *a,
                        const struct capture **ret_captures);

#endif
