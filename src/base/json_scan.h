// SPDX-License-Identifier: Apache-2.0
/*
 * Walking through a large JSON text without building a document: members of an object and items of
 * a list as views into the text. Only the outline is checked (brackets and quotes match); give a
 * view to tree_from_json() when its content is wanted.
 */
#ifndef ASSAY_BASE_JSON_SCAN_H
#define ASSAY_BASE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct json_scan {
    struct str text;
    size_t at;
    char close;  /* '}' or ']' */
    bool broken; /* the text ended, or its brackets do not match */
};

/* Starts inside the object or list that `text` begins with; false when it begins with neither. */
bool json_scan_open(struct json_scan *s, struct str text);

/* The next member or item; false at the end, or when broken. `ret_key` is the raw text between the
 * quotes (escapes as written), empty in a list; `ret_value` the whole value. */
bool json_scan_next(struct json_scan *s, struct str *ret_key, struct str *ret_value);

/* Where the value that starts at `at` ends, or SIZE_MAX when its brackets or quotes do not match. */
size_t json_scan_value_end(struct str text, size_t at);

/* Number of members or items, or SIZE_MAX when broken or neither. */
size_t json_scan_count(struct str text);

#endif
