// SPDX-License-Identifier: Apache-2.0
/* Between data.c and data_chat.c: ids and labels of one record while it is written. */
#ifndef ASSAY_TRAIN_DATA_INSIDE_H
#define ASSAY_TRAIN_DATA_INSIDE_H

#include "base/tree.h"

#include "train/data.h"
#include "train/data_template.h"

struct data_writer {
    const struct data_options *options;
    struct arena *scratch; /* of this record alone */
    struct tok_encoder *encoder;
    const char *path;
    size_t line;
    const char *template_name; /* used for a conversation; NULL: none yet */
    VEC_OF(int32_t) ids;
    VEC_OF(int32_t) labels;
};

/* Appends the ids of a text; learned says whether their labels count. */
enum status data_write_text(struct data_writer *w, struct str text, unsigned flags, bool learned,
                            struct err *err) MUST_USE;
void data_write_id(struct data_writer *w, int32_t id, bool learned);

/* True when the record has one of the forms of a conversation. */
bool data_is_chat(const struct tree *record);

/* Writes it. ST_FORMAT says what of the record is not as it should be. */
enum status data_write_chat(struct data_writer *w, const struct tree *record,
                            struct err *err) MUST_USE;

#endif
