// SPDX-License-Identifier: Apache-2.0
/*
 * A reader of MessagePack that builds nothing: a cursor over bytes, one item at a time. Enough for
 * tables of contents; hostile counts and depths cost no memory.
 * Source: https://github.com/msgpack/msgpack/blob/master/spec.md
 */
#ifndef ASSAY_FACTS_MSGPACK_H
#define ASSAY_FACTS_MSGPACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum msgpack_kind {
    MSGPACK_NIL = 0,
    MSGPACK_BOOL,
    MSGPACK_UNSIGNED,
    MSGPACK_NEGATIVE,
    MSGPACK_REAL,
    MSGPACK_STRING,
    MSGPACK_BINARY,
    MSGPACK_LIST,
    MSGPACK_MAP,
    MSGPACK_EXTENSION,
    MSGPACK_KIND_COUNT
};

struct msgpack_item {
    enum msgpack_kind kind;
    uint64_t number;  /* unsigned value, or bool; a negative's two's complement */
    uint64_t count;   /* of a list; pairs of a map */
    struct str bytes; /* of a string, binary or extension */
};

struct msgpack {
    struct str data;
    size_t at;
};

/* Reads one item; a container gives its count, its members follow. False at the end of the data,
 * on a reserved byte, or when the item claims more than the data holds. */
bool msgpack_next(struct msgpack *m, struct msgpack_item *ret_item);

/* Steps over one whole value with all its members. */
bool msgpack_skip(struct msgpack *m);

/* `m` stands at a map: sets *ret_value to the value of `key`. *m is not moved. */
bool msgpack_find(const struct msgpack *m, const char *key, struct msgpack *ret_value);

/* The string at *m, which is moved behind it. */
bool msgpack_string(struct msgpack *m, struct str *ret_text);

#endif
