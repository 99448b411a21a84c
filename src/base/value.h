// SPDX-License-Identifier: Apache-2.0
/*
 * A value as facts, YAML, JSON and expressions share it. A plain struct, copied freely; strings and
 * items are borrowed from the arena they were made on.
 */
#ifndef ASSAY_BASE_VALUE_H
#define ASSAY_BASE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum value_kind {
    VALUE_NULL = 0,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_REAL,
    VALUE_STRING,
    VALUE_LIST,
    VALUE_KIND_COUNT
};

struct value {
    enum value_kind kind;

    union {
        bool boolean;
        int64_t integer;
        double real;
        const char *string; /* NUL-terminated UTF-8 */

        struct {
            const struct value *items;
            size_t count;
        } list;
    };
};

static inline struct value value_bool(bool b)
{
    return (struct value){.kind = VALUE_BOOL, .boolean = b};
}

static inline struct value value_int(int64_t i)
{
    return (struct value){.kind = VALUE_INT, .integer = i};
}

static inline struct value value_real(double r)
{
    return (struct value){.kind = VALUE_REAL, .real = r};
}

static inline struct value value_string(const char *s)
{
    return (struct value){.kind = VALUE_STRING, .string = s};
}

/* "bool", "int", ... for messages. */
const char *value_kind_name(enum value_kind kind);

struct strbuf;
/* Human form: strings bare, lists comma separated, null as "absent". */
void value_print(struct strbuf *out, const struct value *v);

#endif
