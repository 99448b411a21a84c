// SPDX-License-Identifier: Apache-2.0
/* Conditions: any text compiles or is refused, and what compiles can be evaluated and explained. */
#include <stdint.h>
#include <string.h>

#include "knowledge/expr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A world that answers everything, so that every operator meets every kind of value. */
static enum lookup_state answer(const char *name, struct value *ret_value)
{
    static const struct value items[] = {{.kind = VALUE_STRING, .string = "gfx11-generic"},
                                         {.kind = VALUE_INT, .integer = 7},
                                         {.kind = VALUE_NULL}};
    unsigned sum = 0;
    for (const char *p = name; *p != '\0'; p++) {
        sum = sum * 31 + (unsigned char)*p;
    }
    switch (sum % 9) {
    case 0: *ret_value = value_bool(true); return LOOKUP_KNOWN;
    case 1: *ret_value = value_int(INT64_MIN); return LOOKUP_KNOWN;
    case 2: *ret_value = value_real(0.0 / 1.0); return LOOKUP_KNOWN;
    case 3: *ret_value = value_string("2.9.0+rocm6.4"); return LOOKUP_KNOWN;
    case 4: *ret_value = value_string("1,234 GiB"); return LOOKUP_KNOWN;
    case 5:
        *ret_value = (struct value){.kind = VALUE_LIST, .list = {.items = items, .count = 3}};
        return LOOKUP_KNOWN;
    case 6: return LOOKUP_ABSENT;
    case 7: return LOOKUP_DENIED;
    default: return LOOKUP_UNKNOWN;
    }
}

static enum lookup_state on_fact(void *ctx, const char *key, struct value *ret_value)
{
    (void)ctx;
    return answer(key, ret_value);
}

static enum lookup_state on_series(void *ctx, const char *name, const char *field,
                                   struct value *ret_value)
{
    (void)ctx;
    return answer(name[0] > 'm' ? name : field, ret_value);
}

static void on_each_key(void *ctx, const char *glob, void (*visit)(void *ctx2, const char *key),
                        void *ctx2)
{
    (void)ctx;
    static const char *const keys[] = {"gpu[0].gfx",    "gpu[1].gfx", "gpu[10].x",
                                       "lib.a.version", "a",          "file./a/b.present"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (key_glob_match(glob, keys[i], NULL)) {
            visit(ctx2, keys[i]);
        }
    }
}

static int64_t on_count(void *ctx, const char *id)
{
    (void)ctx;
    return (int64_t)(strlen(id) % 4) - 1;
}

static const char *on_capture(void *ctx, const char *id, int64_t index, const char *name)
{
    (void)ctx;
    return strlen(id) % 2 == 0 ? name : index == 0 ? "0x1f" : "2.00 GiB";
}

static int64_t on_order(void *ctx, const char *id)
{
    (void)ctx;
    return id[0];
}

static void on_name(void *ctx, const char *name)
{
    *(size_t *)ctx += strlen(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new((size_t)256 << 20);
    struct err err;
    const struct expr *e;
    size_t total = 0;
    const char *text = arena_copy(a, data, size);
    if (expr_compile(a, text, "input:1", &e, &err) == ST_OK) {
        struct expr_scope scope = {.ctx = &total,
                                   .fact = on_fact,
                                   .each_key = on_each_key,
                                   .event_count = on_count,
                                   .event_capture = on_capture,
                                   .event_order = on_order,
                                   .series = on_series,
                                   .run = on_fact,
                                   .used_fact = on_name,
                                   .used_event = on_name,
                                   .dollar = size % 2 == 0 ? "gpu[1]" : NULL};
        enum truth t = expr_truth(e, &scope, a);
        struct value v;
        (void)expr_value(e, &scope, a, &v);
        if (t == TRUTH_TRUE) {
            expr_explain(e, &scope, a);
        }
        expr_each_event(e, on_name, &total);
        expr_each_fact(e, on_name, &total);
    }
    arena_free(a);
    return 0;
}
