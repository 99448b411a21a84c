// SPDX-License-Identifier: Apache-2.0
/*
 * Memory: one arena per command, one scratch arena per task that is rewound. Results live in the
 * arena the caller passed; nothing is freed alone. This is the only module that calls malloc.
 *
 * Allocation never returns NULL: when the system or the arena's ceiling gives out, the handler set
 * by arena_on_exhausted() is called and must not return (cli/ prints one sentence and exits 2).
 * Code that reads hostile sizes checks them against its own ceiling first.
 */
#ifndef ASSAY_BASE_ARENA_H
#define ASSAY_BASE_ARENA_H

#include <stddef.h>

#include "base/attr.h"

struct arena;

/* A mark to rewind to; see arena_mark(). */
struct arena_mark {
    void *block;
    size_t used;
};

/* `ceiling` bytes at most over the arena's life; 0 means the default of 4 GiB. */
struct arena *arena_new(size_t ceiling) MUST_USE RETURNS_NONNULL;

/* Frees everything. NULL is fine. */
void arena_free(struct arena *a);

/* Zeroed memory, aligned to 16 bytes. size 0 gives a valid pointer. */
void *arena_alloc(struct arena *a, size_t size) MUST_USE RETURNS_NONNULL;

/* `count` zeroed elements; the product is checked. */
void *arena_array(struct arena *a, size_t count, size_t size) MUST_USE RETURNS_NONNULL;

/* Copies `n` bytes and adds a NUL. */
char *arena_copy(struct arena *a, const void *bytes, size_t n) MUST_USE RETURNS_NONNULL;
char *arena_strdup(struct arena *a, const char *s) MUST_USE RETURNS_NONNULL;
char *arena_fmt(struct arena *a, const char *fmt, ...) MUST_USE PRINTF_LIKE(2, 3);

/* Grows an array whose last block is `old` (old_size bytes); copies when it cannot extend. */
void *arena_grow(struct arena *a, void *old, size_t old_size, size_t new_size) MUST_USE;

/* Rewinding frees what was allocated after the mark. */
struct arena_mark arena_mark(struct arena *a);
void arena_rewind(struct arena *a, struct arena_mark mark);

/* Bytes handed out so far. */
size_t arena_used(const struct arena *a);

/* Calls the handler: for code that gets memory from a library and is refused. Does not return. */
_Noreturn void arena_exhausted(const char *what);

/* The handler for exhaustion, one per process. `what` is a full sentence. Must not return. */
void arena_on_exhausted(void (*handler)(const char *what));

#endif
