// SPDX-License-Identifier: Apache-2.0
/* See inputs.h. */
#include "study/inputs.h"

#include <string.h>

#include "base/vec.h"

enum {
    SENTENCES_MAX = 12
};

void inputs_from_run(struct arena *a, const struct tree *run, struct run_inputs *ret_inputs)
{
    struct run_inputs out = {0};
    const struct tree *list = tree_get(run, "inputs");
    for (const struct tree *t = list != NULL ? list->child : NULL; t != NULL; t = t->next) {
        *VEC_PUSH(a, &out) = (struct run_input){.role = tree_text(t, "role", ""),
                                                .name = tree_text(t, "name", ""),
                                                .digest = tree_text(t, "digest", NULL),
                                                .method = tree_text(t, "method", ""),
                                                .reason = tree_text(t, "reason", "no digest")};
    }
    *ret_inputs = out;
}

static const struct run_input *find(const struct run_inputs *in, const struct run_input *like)
{
    for (size_t i = 0; i < in->count; i++) {
        if (strcmp(in->items[i].role, like->role) == 0 &&
            strcmp(in->items[i].name, like->name) == 0) {
            return &in->items[i];
        }
    }
    /* The same bytes under another name are the same input. */
    for (size_t i = 0; like->digest != NULL && i < in->count; i++) {
        if (strcmp(in->items[i].role, like->role) == 0 && in->items[i].digest != NULL &&
            strcmp(in->items[i].digest, like->digest) == 0) {
            return &in->items[i];
        }
    }
    return NULL;
}

static void say(struct arena *a, struct text_list *to, const char *text)
{
    if (to->count < SENTENCES_MAX) {
        *VEC_PUSH(a, to) = text;
    }
}

static void compare_one(struct arena *arena, const struct run_input *i, const struct run_input *o,
                        struct inputs_comparison *c)
{
    if (i->digest == NULL || o->digest == NULL) {
        const struct run_input *bad = i->digest == NULL ? i : o;
        say(arena, &c->unknown,
            arena_fmt(arena, "%s '%s' cannot be proven equal: %s", bad->role, bad->name,
                      bad->reason));
    } else if (strcmp(i->method, o->method) != 0) {
        say(arena, &c->unknown,
            arena_fmt(arena, "%s '%s' was digested in two ways: %s and %s", i->role, i->name,
                      i->method, o->method));
    } else if (strcmp(i->digest, o->digest) != 0) {
        say(arena, &c->differ,
            arena_fmt(arena, "%s '%s' differs: %.12s and %.12s (%s)", i->role, i->name, i->digest,
                      o->digest, i->method));
    } else {
        c->proven++;
    }
}

void inputs_compare(struct arena *arena, const struct run_inputs *a, const struct run_inputs *b,
                    struct inputs_comparison *ret_comparison)
{
    struct inputs_comparison c = {0};
    for (int side = 0; side < 2; side++) {
        const struct run_inputs *from = side == 0 ? a : b;
        const struct run_inputs *other = side == 0 ? b : a;
        for (size_t i = 0; i < from->count; i++) {
            const struct run_input *o = find(other, &from->items[i]);
            if (o != NULL && side == 0) {
                compare_one(arena, &from->items[i], o, &c);
            } else if (o == NULL && strcmp(from->items[i].role, INPUT_OPENED) != 0) {
                say(arena, &c.differ,
                    arena_fmt(arena, "%s '%s' is an input of %s only", from->items[i].role,
                              from->items[i].name, side == 0 ? "A" : "B"));
            }
        }
    }
    if (c.differ.count > 0) {
        c.verdict = INPUTS_DIFFER;
    } else if (c.unknown.count > 0 || c.proven == 0) {
        c.verdict = INPUTS_UNPROVEN;
    }
    if (c.verdict == INPUTS_UNPROVEN && c.unknown.count == 0) {
        say(arena, &c.unknown,
            "no digest of any input is on record: run both with 'assay run', which digests the "
            "scripts, models and data that the command line and its configuration files name");
    }
    *ret_comparison = c;
}
