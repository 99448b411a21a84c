// SPDX-License-Identifier: Apache-2.0
/* Marks in texts and in files of media that tell what went wrong with them before. */
#ifndef ASSAY_MODEL_DATA_MARKS_H
#define ASSAY_MODEL_DATA_MARKS_H

#include "model/tok.h"

/* A control token of a known template in the text, or a special token of `t` (which may be NULL); NULL when
 * there is none. Placeholders of media are none. */
const char *data_control_mark(struct arena *a, struct str text, const struct tokenizer *t);

/* True when UTF-8 was read as Latin-1 or Windows-1252 and written as UTF-8 again: "Ã©" for "é". */
bool data_is_mojibake(struct str text);

/* What a file is in whose place a picture, film or sound should be ("an HTML page"); NULL when it may be one.
 * Large files are not looked at: what stands in for others is small. */
const char *data_media_foreign(struct arena *a, const char *path);

#endif
