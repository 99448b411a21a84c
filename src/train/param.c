// SPDX-License-Identifier: Apache-2.0
#include "train/param.h"

size_t precision_bytes(enum precision p)
{
    return p == PRECISION_F64 ? sizeof(double) : sizeof(float);
}

void param_list_index(struct arena *a, struct param_list *list)
{
    list->by_name = map_new(a);
    for (size_t i = 0; i < list->count; i++) {
        map_put(list->by_name, str_of(list->items[i].name), &list->items[i]);
    }
}

struct param *param_find(const struct param_list *list, const char *name)
{
    return list->by_name != NULL ? map_get(list->by_name, str_of(name)) : NULL;
}
