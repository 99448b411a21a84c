// SPDX-License-Identifier: Apache-2.0
/*
 * Element types over layers: the same weight in F32 in one layer and in F16 in another is what joining two saves,
 * or editing one, leaves. It loads; a note says so. Types of blocks and of eight bits differ on purpose.
 */
#include <string.h>

#include "base/map.h"

#include "model/checkpoint.h"

static bool is_common(const struct tensor *t)
{
    return t->role == TENSOR_WEIGHT && t->type->values == VALUES_PLAIN &&
           (t->type->dtype == DTYPE_F64 || t->type->dtype == DTYPE_F32 ||
            t->type->dtype == DTYPE_F16 || t->type->dtype == DTYPE_BF16);
}

/* "model.layers.#.mlp.up_proj.weight" of "model.layers.3.mlp.up_proj.weight"; false without a number. */
static bool pattern_of(struct arena *a, const char *name, const char **ret_pattern)
{
    struct strbuf out;
    bool numbered = false;
    strbuf_init(&out, a, strlen(name) + 1);
    for (const char *p = name; *p != '\0'; p++) {
        bool digit = *p >= '0' && *p <= '9';
        bool inside = digit && out.n > 0 && (out.p[out.n - 1] == '#' || out.p[out.n - 1] == '.');
        if (inside && out.p[out.n - 1] == '.') {
            strbuf_addc(&out, '#');
            numbered = true;
        } else if (!inside) {
            strbuf_addc(&out, *p);
        }
    }
    *ret_pattern = out.p;
    return numbered;
}

void checkpoint_check_types(struct checkpoint *c)
{
    struct map *first = map_new(c->arena); /* pattern to struct tensor */
    struct map *told = map_new(c->arena);
    const struct tensor *a = NULL;
    const struct tensor *b = NULL;
    for (size_t i = 0; i < c->files.count; i++) {
        const struct tensor_file *f = c->files.items[i].tensors;
        const char *slash = strrchr(c->files.items[i].path, '/');
        size_t folder = slash != NULL ? (size_t)(slash - c->files.items[i].path) : 0;
        for (size_t k = 0; f != NULL && k < f->count; k++) {
            const char *pattern;
            const struct tensor *t = &f->tensors[k];
            if (!is_common(t) || !pattern_of(c->arena, t->name, &pattern)) {
                continue;
            }
            const char *key = arena_fmt(c->arena, "%.*s %s", (int)folder, c->files.items[i].path,
                                        pattern);
            const struct tensor *other = map_get(first, str_of(key));
            if (other == NULL) {
                map_put(first, str_of(key), (void *)t);
            } else if (other->type != t->type && map_get(told, str_of(key)) == NULL) {
                map_put(told, str_of(key), c);
                a = a == NULL ? other : a;
                b = b == NULL ? t : b;
            }
        }
    }
    if (b != NULL) {
        issue_add(
            c->issues, SEVERITY_NOTE, "tensor-types-mixed", "layers are of different types",
            "%zu kinds of weights change their type from layer to layer, such as '%s' (%s) and "
            "'%s' (%s): two saves may have been joined.",
            map_count(told), issue_text(c->arena, str_of(a->name)), a->type->name,
            issue_text(c->arena, str_of(b->name)), b->type->name);
    }
}
