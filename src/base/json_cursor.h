// SPDX-License-Identifier: Apache-2.0
/*
 * A cursor over a large JSON text whose layout is known: the reader asks for what it expects, front
 * to back, and nothing is copied; for vocabularies with hundreds of thousands of entries, where
 * events (json_pull.h) cost more than the data. Lenient where JSON is strict (control bytes in
 * strings); UTF-8 is the caller's to check. What is not as asked sets `error` (a phrase with the
 * reason) and every later call fails. Depth is what the caller nests, and 256 in json_cursor_skip().
 */
#ifndef ASSAY_BASE_JSON_CURSOR_H
#define ASSAY_BASE_JSON_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct json_cursor {
    struct str text;
    size_t at;
    const char *error; /* NULL while all is well */
};

/* A string as it stands between its quotes. */
struct json_text {
    struct str raw;
    bool escaped; /* holds a backslash: see json_cursor_unescape() */
};

void json_cursor_init(struct json_cursor *j, struct str text);

/* First character of the next value ('{', '[', '"', 't', '-', ...), 0 at the end or after an error. */
char json_cursor_peek(struct json_cursor *j);

/* Enters an object ('{') or list ('['). */
bool json_cursor_enter(struct json_cursor *j, char open);

/* Inside an object: true and the key of the next member, false behind the last one (which leaves the
 * object) or on error. */
bool json_cursor_key(struct json_cursor *j, struct json_text *ret_key);

/* Inside a list: true when there is a further item, false behind the last one (which leaves it). */
bool json_cursor_item(struct json_cursor *j);

bool json_cursor_string(struct json_cursor *j, struct json_text *ret_text);
bool json_cursor_int(struct json_cursor *j, int64_t *ret_value);
bool json_cursor_real(struct json_cursor *j, double *ret_value);
bool json_cursor_bool(struct json_cursor *j, bool *ret_value);

/* Steps over a value of any kind; its text. */
bool json_cursor_skip(struct json_cursor *j, struct str *ret_value);

/* Nothing but white space is left. */
bool json_cursor_end(struct json_cursor *j);

bool json_cursor_fail(struct json_cursor *j, const char *reason);

/* Appends the text with its escapes resolved, as UTF-8; false when an escape is none or a surrogate
 * stands alone. The bytes between escapes are taken as they are. */
bool json_cursor_unescape(struct strbuf *out, struct str raw);

#endif
