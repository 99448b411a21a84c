// SPDX-License-Identifier: Apache-2.0
/*
 * Which kind of value each field of a file's records has. Arrow, which datasets.load_dataset("json") reads with,
 * gives a column one type: where a field is a string in one record and a number, list or object in another it
 * stops ("Column(/score) changed from number to string"). null goes with everything.
 */
#ifndef ASSAY_MODEL_DATA_COLUMNS_H
#define ASSAY_MODEL_DATA_COLUMNS_H

#include "base/arena.h"
#include "base/tree.h"

struct data_columns;

struct data_clash {
    const char *path; /* as Arrow writes it: "/messages/[]/content" */
    const char *now;  /* "string" */
    const char *before;
    uint64_t line;   /* of the record that had the other kind first */
    bool is_content; /* of a message: OpenAI's form allows a string or parts */
};

/* Lives on the arena, as what it remembers does. */
struct data_columns *data_columns_new(struct arena *a);

/* The first field of the record that is of another kind than before and was not told yet; false when there
 * is none. */
bool data_columns_clash(struct data_columns *c, const struct tree *record, uint64_t line,
                        struct data_clash *ret_clash);

#endif
