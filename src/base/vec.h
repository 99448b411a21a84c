// SPDX-License-Identifier: Apache-2.0
/*
 * A growing array on an arena: any struct with the members `items`, `count` and `capacity` is one.
 *
 *     struct { struct event *items; size_t count, capacity; } v = {0};
 *     *VEC_PUSH(arena, &v) = event;
 */
#ifndef ASSAY_BASE_VEC_H
#define ASSAY_BASE_VEC_H

#include "base/arena.h"

/* Declares such a struct type member list. */
#define VEC_OF(type) \
 struct {            \
  type *items;       \
  size_t count;      \
  size_t capacity;   \
 }

/* Pointer to a new zeroed element at the end. */
#define VEC_PUSH(arena, v)                                                                       \
 ((v)->items = vec_reserve((arena), (v)->items, (v)->count, &(v)->capacity, sizeof *(v)->items), \
  &(v)->items[(v)->count++])

/* Used by VEC_PUSH: makes room for one more element. */
static inline void *vec_reserve(struct arena *a, void *items, size_t count, size_t *capacity,
                                size_t size)
{
    if (count < *capacity) {
        return items;
    }
    size_t more = *capacity < 8 ? 8 : *capacity * 2;
    void *grown = arena_grow(a, items, *capacity * size, more * size);
    *capacity = more;
    return grown;
}

#endif
