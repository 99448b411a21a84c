// SPDX-License-Identifier: Apache-2.0
/* See stack.h. */
#include "snapshot/stack.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

const char *stack_section_name(enum stack_section s)
{
    static const char *const names[STACK_SECTION_COUNT] = {
        [STACK_DRIVER] = "driver",       [STACK_FIRMWARE] = "firmware",
        [STACK_KERNEL] = "kernel",       [STACK_RUNTIME] = "runtime",
        [STACK_LIBRARY] = "library",     [STACK_FRAMEWORK] = "framework",
        [STACK_PYTHON] = "python",       [STACK_ENVIRONMENT] = "environment",
        [STACK_CONTAINER] = "container", [STACK_MACHINE] = "machine",
        [STACK_PACKAGE] = "package",
    };
    return names[s];
}

struct stack_item *stack_add(struct arena *a, struct stack *s, enum stack_section section,
                             const char *name, const char *version)
{
    struct stack_item *item = VEC_PUSH(a, &s->items);
    *item = (struct stack_item){.section = section,
                                .name = arena_strdup(a, name),
                                .version = version != NULL ? arena_strdup(a, version) : NULL};
    return item;
}

void stack_add_gap(struct arena *a, struct stack *s, enum stack_section section, const char *name,
                   const char *reason)
{
    *VEC_PUSH(a, &s->gaps) = (struct stack_gap){
        .section = section,
        .name = name != NULL ? arena_strdup(a, name) : NULL,
        .reason = arena_strdup(a, reason != NULL ? reason : "not readable")};
}

static int by_place(const void *pa, const void *pb)
{
    const struct stack_item *a = pa;
    const struct stack_item *b = pb;
    if (a->section != b->section) {
        return a->section < b->section ? -1 : 1;
    }
    return strcmp(a->name, b->name);
}

static int gap_by_place(const void *pa, const void *pb)
{
    const struct stack_gap *a = pa;
    const struct stack_gap *b = pb;
    if (a->section != b->section) {
        return a->section < b->section ? -1 : 1;
    }
    return strcmp(a->name != NULL ? a->name : "", b->name != NULL ? b->name : "");
}

void stack_sort(struct stack *s)
{
    if (s->items.count > 1) {
        qsort(s->items.items, s->items.count, sizeof *s->items.items, by_place);
    }
    if (s->gaps.count > 1) {
        qsort(s->gaps.items, s->gaps.count, sizeof *s->gaps.items, gap_by_place);
    }
}

const struct stack_item *stack_find(const struct stack *s, enum stack_section section,
                                    const char *name)
{
    if (s->items.count == 0) {
        return NULL;
    }
    struct stack_item key = {.section = section, .name = name};
    return bsearch(&key, s->items.items, s->items.count, sizeof *s->items.items, by_place);
}
