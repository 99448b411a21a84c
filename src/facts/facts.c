// SPDX-License-Identifier: Apache-2.0
/* The fact store. Collectors are in the other files of this folder, one per source. */
#include "facts/facts.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"

struct facts {
    struct arena *arena;
    struct map *by_key; /* key -> struct fact */
};

struct facts *facts_new(struct arena *arena)
{
    struct facts *f = arena_alloc(arena, sizeof *f);
    f->arena = arena;
    f->by_key = map_new(arena);
    return f;
}

struct arena *facts_arena(const struct facts *f)
{
    return f->arena;
}

static struct value copy_value(struct arena *a, struct value v)
{
    if (v.kind == VALUE_STRING) {
        return value_string(arena_strdup(a, v.string != NULL ? v.string : ""));
    }
    if (v.kind != VALUE_LIST) {
        return v;
    }
    struct value *items = arena_array(a, v.list.count + 1, sizeof *items);
    for (size_t i = 0; i < v.list.count; i++) {
        items[i] = copy_value(a, v.list.items[i]);
    }
    return (struct value){.kind = VALUE_LIST, .list = {.items = items, .count = v.list.count}};
}

static struct fact *slot(struct facts *f, const char *key)
{
    struct fact *fact = map_get(f->by_key, str_of(key));
    if (fact == NULL) {
        fact = arena_alloc(f->arena, sizeof *fact);
        fact->key = arena_strdup(f->arena, key);
        map_put(f->by_key, str_of(key), fact);
    }
    return fact;
}

void facts_set(struct facts *f, const char *key, struct value value, const char *source)
{
    struct fact *fact = slot(f, key);
    fact->state = FACT_KNOWN;
    fact->value = copy_value(f->arena, value);
    fact->source = arena_strdup(f->arena, source);
    fact->reason = NULL;
}

void facts_set_state(struct facts *f, const char *key, enum fact_state state, const char *source,
                     const char *reason)
{
    struct fact *fact = slot(f, key);
    fact->state = state;
    fact->value = (struct value){0};
    fact->source = arena_strdup(f->arena, source);
    fact->reason = reason != NULL ? arena_strdup(f->arena, reason) : NULL;
}

void facts_set_error(struct facts *f, const char *key, const char *source, const struct err *err)
{
    enum fact_state state = err->status == ST_ABSENT   ? FACT_ABSENT
                            : err->status == ST_DENIED ? FACT_DENIED
                                                       : FACT_UNREADABLE;
    facts_set_state(f, key, state, source, err->text);
}

void facts_bool(struct facts *f, const char *key, bool b, const char *source)
{
    facts_set(f, key, value_bool(b), source);
}

void facts_int(struct facts *f, const char *key, int64_t i, const char *source)
{
    facts_set(f, key, value_int(i), source);
}

void facts_string(struct facts *f, const char *key, const char *s, const char *source)
{
    facts_set(f, key, value_string(s), source);
}

void facts_strings(struct facts *f, const char *key, const char *const *items, size_t count,
                   const char *source)
{
    struct value *values = arena_array(f->arena, count + 1, sizeof *values);
    for (size_t i = 0; i < count; i++) {
        values[i] = value_string(items[i]);
    }
    struct value list = {.kind = VALUE_LIST, .list = {.items = values, .count = count}};
    facts_set(f, key, list, source);
}

const struct fact *facts_get(const struct facts *f, const char *key)
{
    return map_get(f->by_key, str_of(key));
}

const char *facts_get_string(const struct facts *f, const char *key, const char *fallback)
{
    const struct fact *fact = facts_get(f, key);
    return fact != NULL && fact->value.kind == VALUE_STRING ? fact->value.string : fallback;
}

int64_t facts_get_int(const struct facts *f, const char *key, int64_t fallback)
{
    const struct fact *fact = facts_get(f, key);
    return fact != NULL && fact->value.kind == VALUE_INT ? fact->value.integer : fallback;
}

bool facts_get_bool(const struct facts *f, const char *key, bool fallback)
{
    const struct fact *fact = facts_get(f, key);
    return fact != NULL && fact->value.kind == VALUE_BOOL ? fact->value.boolean : fallback;
}

static int by_key(const void *a, const void *b)
{
    return strverscmp((*(const struct fact *const *)a)->key, (*(const struct fact *const *)b)->key);
}

const struct fact *const *facts_sorted(const struct facts *f, struct arena *arena,
                                       size_t *ret_count)
{
    size_t n = map_count(f->by_key);
    const struct fact **all = arena_array(arena, n + 1, sizeof *all);
    for (size_t i = 0; i < n; i++) {
        all[i] = map_value(f->by_key, i);
    }
    qsort(all, n, sizeof *all, by_key);
    *ret_count = n;
    return all;
}

const char *fact_state_name(enum fact_state s)
{
    static const char *const names[FACT_STATE_COUNT] = {
        [FACT_KNOWN] = "known",
        [FACT_ABSENT] = "absent",
        [FACT_DENIED] = "denied",
        [FACT_UNREADABLE] = "unreadable",
        [FACT_NOT_APPLICABLE] = "not applicable",
    };
    return s < FACT_STATE_COUNT ? names[s] : "?";
}
