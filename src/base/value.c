// SPDX-License-Identifier: Apache-2.0
/* Printing of values. */
#include "base/value.h"

#include <inttypes.h>

#include "base/str.h"

const char *value_kind_name(enum value_kind kind)
{
    static const char *const names[VALUE_KIND_COUNT] = {
        [VALUE_NULL] = "null", [VALUE_BOOL] = "bool",     [VALUE_INT] = "int",
        [VALUE_REAL] = "real", [VALUE_STRING] = "string", [VALUE_LIST] = "list",
    };
    return kind < VALUE_KIND_COUNT ? names[kind] : "?";
}

void value_print(struct strbuf *out, const struct value *v)
{
    switch (v->kind) {
    case VALUE_BOOL: strbuf_addz(out, v->boolean ? "true" : "false"); break;
    case VALUE_INT: strbuf_fmt(out, "%" PRId64, v->integer); break;
    case VALUE_REAL: strbuf_fmt(out, "%.12g", v->real); break;
    case VALUE_STRING: strbuf_addz(out, v->string); break;
    case VALUE_LIST:
        if (v->list.count == 0) {
            strbuf_addz(out, "(none)");
        }
        for (size_t i = 0; i < v->list.count; i++) {
            strbuf_addz(out, i != 0 ? ", " : "");
            value_print(out, &v->list.items[i]);
        }
        break;
    case VALUE_NULL:
    case VALUE_KIND_COUNT: strbuf_addz(out, "absent"); break;
    }
}
