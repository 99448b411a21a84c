// SPDX-License-Identifier: Apache-2.0
/*
 * Hash map from string to pointer, on an arena. Keys are copied. Iteration is by index in order of
 * insertion (map_key/map_value), or sorted with map_sorted_keys().
 */
#ifndef ASSAY_BASE_MAP_H
#define ASSAY_BASE_MAP_H

#include <stddef.h>

#include "base/arena.h"
#include "base/str.h"

struct map;

struct map *map_new(struct arena *arena) MUST_USE RETURNS_NONNULL;
void *map_get(const struct map *m, struct str key); /* NULL when it is not there */
void map_put(struct map *m, struct str key, void *value);
size_t map_count(const struct map *m);
const char *map_key(const struct map *m, size_t index);
void *map_value(const struct map *m, size_t index);

/* Indexes in byte order of their keys; an array of map_count() on the arena. */
const size_t *map_sorted(const struct map *m, struct arena *arena) MUST_USE;

#endif
