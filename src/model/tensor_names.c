// SPDX-License-Identifier: Apache-2.0
/* Names are reduced to what the model's own modules are called, and looked up by that. */
#include "model/tensor_names.h"

#include <string.h>

static const char *const prefixes[] = {"module.", "_orig_mod.", "base_model.model.", "model.",
                                       "language_model."};

static const struct {
    const char *inner;
    const char *instead;
} inner_parts[] = {
    {"._orig_mod.", "."},
    {".base_layer.", "."},
    {".modules_to_save.default.", "."},
    {".original_module.", "."},
    {".lora_A.default.", ".lora_A."},
    {".lora_B.default.", ".lora_B."},
};

static struct str without_prefixes(struct str s)
{
    bool more = true;
    while (more) {
        more = false;
        for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
            if (str_starts(s, prefixes[i])) {
                s = str_slice(s, strlen(prefixes[i]), s.n);
                more = true;
            }
        }
    }
    return s;
}

struct str tensor_names_bare(struct arena *a, const char *name)
{
    struct str s = without_prefixes(str_of(name));
    for (size_t i = 0; i < ARRAY_LEN(inner_parts); i++) {
        size_t at = str_find(s, inner_parts[i].inner, 0);
        if (at != SIZE_MAX) {
            struct str behind = str_slice(s, at + strlen(inner_parts[i].inner), s.n);
            s = str_of(
                arena_fmt(a, "%.*s%s%.*s", (int)at, s.p, inner_parts[i].instead, STR_ARG(behind)));
        }
    }
    return s;
}

void tensor_names_list(struct checkpoint *c, struct tensor_names *ret_names)
{
    struct tensor_names n = {
        .arena = c->arena, .exact = map_new(c->arena), .bare = map_new(c->arena)};
    for (size_t i = 0; i < c->files.count; i++) {
        const struct tensor_file *f = c->files.items[i].tensors;
        for (size_t t = 0; f != NULL && t < f->count; t++) {
            struct tensor_place *p = arena_alloc(c->arena, sizeof *p);
            *p = (struct tensor_place){.file = f, .tensor = &f->tensors[t]};
            *VEC_PUSH(c->arena, &n.all) = p;
            map_put(n.exact, str_of(p->tensor->name), p);
            map_put(n.bare, tensor_names_bare(c->arena, p->tensor->name), p);
        }
    }
    *ret_names = n;
}

struct tensor_place *tensor_names_find(const struct tensor_names *n, const char *name)
{
    struct tensor_place *p = map_get(n->exact, str_of(name));
    return p != NULL ? p : map_get(n->bare, tensor_names_bare(n->arena, name));
}
