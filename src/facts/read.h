// SPDX-License-Identifier: Apache-2.0
/* Short forms for collectors: one file, one fact. What cannot be read is recorded with its state. */
#ifndef ASSAY_FACTS_READ_H
#define ASSAY_FACTS_READ_H

#include "facts/collect.h"

/* Trimmed content of a small file as a string fact; false when it is not known then. */
bool read_string_fact(struct collect *c, const char *key, const char *path);

/* The same for a number (decimal, or hexadecimal with 0x); `scale` multiplies it. */
bool read_int_fact(struct collect *c, const char *key, const char *path, int64_t scale);

/* The number in a file, without making a fact. */
enum status read_int(struct collect *c, const char *path, int64_t *ret_value,
                     struct err *err) MUST_USE;

/* Value of "KEY: value" or "key value" lines of a text; the empty view when there is none. */
struct str read_line_value(struct str text, const char *key, const char *separators);

/* The same state for several keys. */
void read_set_states(struct collect *c, const char *const *keys, size_t count,
                     enum fact_state state, const char *source, const char *reason);

#endif
