// SPDX-License-Identifier: Apache-2.0
/* JSON writer. */
#include "base/json_out.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/attr.h"
#include "base/utf8.h"

void json_init(struct json_out *j, struct strbuf *out)
{
    *j = (struct json_out){.out = out};
}

static void newline(struct json_out *j)
{
    strbuf_addc(j->out, '\n');
    for (int i = 0; i < j->depth; i++) {
        strbuf_addz(j->out, "  ");
    }
}

/* What stands before any value: a comma after a sibling, a new line inside a container. */
static void before_value(struct json_out *j)
{
    if (j->after_key) {
        j->after_key = false;
        return;
    }
    if (j->depth != 0) {
        if (j->has_items[j->depth]) {
            strbuf_addc(j->out, ',');
        }
        j->has_items[j->depth] = true;
        newline(j);
    }
}

static void open_container(struct json_out *j, char c)
{
    before_value(j);
    strbuf_addc(j->out, c);
    if (j->depth + 1 < (int)ARRAY_LEN(j->has_items)) {
        j->depth++;
    }
    j->has_items[j->depth] = false;
}

static void close_container(struct json_out *j, char c)
{
    bool had = j->has_items[j->depth];
    j->depth--;
    if (had) {
        newline(j);
    }
    strbuf_addc(j->out, c);
}

void json_object(struct json_out *j)
{
    open_container(j, '{');
}

void json_object_end(struct json_out *j)
{
    close_container(j, '}');
}

void json_list(struct json_out *j)
{
    open_container(j, '[');
}

void json_list_end(struct json_out *j)
{
    close_container(j, ']');
}

void json_key(struct json_out *j, const char *key)
{
    before_value(j);
    strbuf_addc(j->out, '"');
    json_escape(j->out, str_of(key));
    strbuf_addz(j->out, "\": ");
    j->after_key = true;
}

void json_null(struct json_out *j)
{
    before_value(j);
    strbuf_addz(j->out, "null");
}

void json_bool(struct json_out *j, bool b)
{
    before_value(j);
    strbuf_addz(j->out, b ? "true" : "false");
}

void json_int(struct json_out *j, int64_t i)
{
    before_value(j);
    strbuf_fmt(j->out, "%" PRId64, i);
}

void json_real(struct json_out *j, double r)
{
    before_value(j);
    if (isfinite(r)) {
        strbuf_fmt(j->out, "%.17g", r);
    } else {
        strbuf_addz(j->out, "null");
    }
}

void json_string(struct json_out *j, const char *s)
{
    if (s == NULL) {
        json_null(j);
        return;
    }
    before_value(j);
    strbuf_addc(j->out, '"');
    json_escape(j->out, str_of(s));
    strbuf_addc(j->out, '"');
}

void json_value(struct json_out *j, const struct value *v)
{
    switch (v->kind) {
    case VALUE_BOOL: json_bool(j, v->boolean); break;
    case VALUE_INT: json_int(j, v->integer); break;
    case VALUE_REAL: json_real(j, v->real); break;
    case VALUE_STRING: json_string(j, v->string); break;
    case VALUE_LIST:
        json_list(j);
        for (size_t i = 0; i < v->list.count; i++) {
            json_value(j, &v->list.items[i]);
        }
        json_list_end(j);
        break;
    case VALUE_NULL:
    case VALUE_KIND_COUNT: json_null(j); break;
    }
}

void json_field(struct json_out *j, const char *key, const char *s)
{
    if (s != NULL) {
        json_key(j, key);
        json_string(j, s);
    }
}

void json_escape(struct strbuf *out, struct str s)
{
    for (size_t i = 0; i < s.n;) {
        unsigned char c = (unsigned char)s.p[i];
        unsigned n;
        bool whole;
        (void)utf8_decode(s.p + i, s.p + s.n, &n, &whole);
        if (!whole) {
            strbuf_addz(out, "\xef\xbf\xbd");
            i++;
            continue;
        }
        if (c == '"' || c == '\\') {
            strbuf_addc(out, '\\');
            strbuf_addc(out, (char)c);
        } else if (c == '\n') {
            strbuf_addz(out, "\\n");
        } else if (c == '\t') {
            strbuf_addz(out, "\\t");
        } else if (c < 0x20 || c == 0x7f) {
            strbuf_fmt(out, "\\u%04x", c);
        } else {
            strbuf_add(out, (struct str){.p = s.p + i, .n = n});
        }
        i += n;
    }
}
