// SPDX-License-Identifier: Apache-2.0
/*
 * Streaming JSON writer into a strbuf: two-space indentation, keys in the order written, bytes that
 * are not UTF-8 replaced by U+FFFD, NaN and infinities written as null.
 */
#ifndef ASSAY_BASE_JSON_OUT_H
#define ASSAY_BASE_JSON_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "base/value.h"

/* jansson, which reads JSON for json_in.c, exports functions of these names. */
#define json_null   json_out_null
#define json_object json_out_object
#define json_real   json_out_real
#define json_string json_out_string

struct json_out {
    struct strbuf *out;
    int depth;
    bool has_items[64];
    bool after_key;
};

void json_init(struct json_out *j, struct strbuf *out);
void json_object(struct json_out *j); /* { */
void json_object_end(struct json_out *j);
void json_list(struct json_out *j); /* [ */
void json_list_end(struct json_out *j);
void json_key(struct json_out *j, const char *key);

void json_null(struct json_out *j);
void json_bool(struct json_out *j, bool b);
void json_int(struct json_out *j, int64_t i);
void json_real(struct json_out *j, double r);
void json_string(struct json_out *j, const char *s); /* NULL writes null */
void json_value(struct json_out *j, const struct value *v);

/* key and string in one; skipped when s is NULL. */
void json_field(struct json_out *j, const char *key, const char *s);

/* Text made safe for a JSON string, without the quotes. */
void json_escape(struct strbuf *out, struct str s);

#endif
