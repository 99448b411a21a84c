// SPDX-License-Identifier: Apache-2.0
/*
 * Strict JSON (RFC 8259), read event by event without a document: for texts that are too large for
 * one, or where what a lenient reader would let pass is the question. UTF-8 is validated, unpaired
 * surrogates, leading zeros, trailing commas and control bytes in strings are errors. Duplicate keys
 * are the caller's to refuse.
 */
#ifndef ASSAY_BASE_JSON_PULL_H
#define ASSAY_BASE_JSON_PULL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/str.h"

enum json_event {
    JSON_PULL_ERROR = 0, /* `problem` says what; every further call answers the same */
    JSON_PULL_OBJECT,
    JSON_PULL_OBJECT_END,
    JSON_PULL_LIST,
    JSON_PULL_LIST_END,
    JSON_PULL_KEY,    /* text */
    JSON_PULL_STRING, /* text */
    JSON_PULL_NUMBER, /* text as written */
    JSON_PULL_TRUE,
    JSON_PULL_FALSE,
    JSON_PULL_NULL,
    JSON_PULL_END /* the value is complete and only white space follows */
};

enum {
    JSON_PULL_DEPTH = 128
};

struct json_pull {
    struct str source;
    size_t at;
    struct arena *arena; /* of unescaped strings; others are views into the source */
    struct str text;     /* of the last key, string or number; unescaped */
    const char *problem; /* after JSON_PULL_ERROR: "a comma or '}' is missing" */
    unsigned depth;
    unsigned char open[JSON_PULL_DEPTH]; /* '{' or '[' */
    unsigned char expect;                /* private */
};

/* Only strings are checked for being UTF-8, when they are read: where the order of complaints matters,
 * utf8_valid_prefix() over the whole text comes first. */
void json_pull_init(struct json_pull *j, struct str source, struct arena *arena);

enum json_event json_pull_next(struct json_pull *j) MUST_USE;

/* After an event that begins a value: reads on to its end. False on a broken text. */
bool json_pull_skip(struct json_pull *j, enum json_event began) MUST_USE;

#endif
