// SPDX-License-Identifier: Apache-2.0
/* Looking into the values of a pickle. */
#include <string.h>

#include "model/pickle.h"

struct pickle_value *pickle_arg(const struct pickle_value *v, size_t i)
{
    if (v != NULL && v->kind == PICKLE_CALL) {
        v = v->call.args;
    }
    if (v == NULL || (v->kind != PICKLE_TUPLE && v->kind != PICKLE_LIST) || i >= v->count) {
        return NULL;
    }
    return v->items[i];
}

struct pickle_value *const *pickle_pairs(const struct pickle_value *v, size_t *ret_count)
{
    *ret_count = 0;
    if (v == NULL) {
        return NULL;
    }
    if (v->kind == PICKLE_DICT) {
        *ret_count = v->count / 2;
        return v->items;
    }
    if (v->kind == PICKLE_CALL && v->pairs) {
        *ret_count = v->count / 2;
        return v->call.items;
    }
    return NULL;
}

struct pickle_value *pickle_get(const struct pickle_value *dict, const char *key)
{
    size_t count;
    struct pickle_value *const *items = pickle_pairs(dict, &count);
    struct pickle_value *found = NULL;
    for (size_t i = 0; i < count; i++) {
        if (items[2 * i]->kind == PICKLE_TEXT && str_is(items[2 * i]->text, key)) {
            found = items[2 * i + 1]; /* the last one wins, as in Python */
        }
    }
    return found;
}

bool pickle_is_global(const struct pickle_value *v, const char *module, const char *name)
{
    return v != NULL && v->kind == PICKLE_GLOBAL && str_is(v->global->module, module) &&
           str_is(v->global->name, name);
}

bool pickle_int(const struct pickle_value *v, int64_t *ret_value)
{
    if (v == NULL || (v->kind != PICKLE_INT && v->kind != PICKLE_BOOL)) {
        return false;
    }
    *ret_value = v->integer;
    return true;
}
