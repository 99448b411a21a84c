// SPDX-License-Identifier: Apache-2.0
/* How far each stream of a GPU came (record_format.h: record_mark): what the words in a live process say, put into
 * its record, and what a record says of a call. */
#ifndef ASSAY_RECORDER_MARKS_H
#define ASSAY_RECORDER_MARKS_H

#include "recorder/record_reader.h"

/* Reads the words of the process that writes the record at `path`, which must be ours or our child's, and keeps the
 * numbers in the record. Does nothing where the process is gone, or is another one by now. */
void marks_take(const char *path);

/* The row of a numbered call; NULL when it has none. */
const struct record_mark *marks_of(const struct record *r, const struct record_entry *e);

/* Whether the GPU is known to have done a numbered call. */
bool marks_is_done(const struct record *r, const struct record_entry *e);

#endif
