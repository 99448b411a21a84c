// SPDX-License-Identifier: Apache-2.0
/*
 * Arena of malloc'd blocks in a list, newest first. In a build with AddressSanitizer what was not handed out is
 * poisoned, with a red zone behind each piece: one that is written or read beyond its end is found like one of malloc.
 */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) /* gcc */
# define SANITIZED 1
#elif defined(__has_feature) /* clang */
# if __has_feature(address_sanitizer)
#  define SANITIZED 1
# endif
#endif
#if defined(SANITIZED)
# include <sanitizer/asan_interface.h>
# define RED_ZONE 16
#else
# define RED_ZONE                              0
# define ASAN_POISON_MEMORY_REGION(at, size)   ((void)(at), (void)(size))
# define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

enum {
    ALIGN = 16,
    FIRST_BLOCK = 64 * 1024,
    MAX_BLOCK = 8 * 1024 * 1024
};

#define DEFAULT_CEILING ((size_t)4 << 30)

struct block {
    struct block *older;
    size_t size; /* of data */
    size_t used;
    size_t pad; /* keeps data on a 16-byte border */
    unsigned char data[];
};

struct arena {
    struct block *top;
    size_t ceiling;
    size_t reserved;
    size_t next_block;
};

/* The one writable global of base/: who to tell when memory gives out. Set once at start. */
static void (*exhausted_handler)(const char *what);

void arena_on_exhausted(void (*handler)(const char *what))
{
    exhausted_handler = handler;
}

_Noreturn void arena_exhausted(const char *what)
{
    if (exhausted_handler != NULL) {
        exhausted_handler(what);
    }
    abort();
}

struct arena *arena_new(size_t ceiling)
{
    struct arena *a = calloc(1, sizeof *a);
    if (a == NULL) {
        arena_exhausted("out of memory: the system gave none for a new arena");
    }
    a->ceiling = ceiling != 0 ? ceiling : DEFAULT_CEILING;
    a->next_block = FIRST_BLOCK;
    return a;
}

void arena_free(struct arena *a)
{
    if (a == NULL) {
        return;
    }
    while (a->top != NULL) {
        struct block *older = a->top->older;
        free(a->top);
        a->top = older;
    }
    free(a);
}

static struct block *block_push(struct arena *a, size_t need)
{
    size_t size = need > a->next_block ? need : a->next_block;
    if (size > a->ceiling - a->reserved) {
        size = need;
        if (need > a->ceiling - a->reserved) {
            arena_exhausted("out of memory: this command's memory ceiling was reached");
        }
    }
    struct block *b = malloc(sizeof *b + size);
    if (b == NULL) {
        arena_exhausted("out of memory: the system gave no more");
    }
    b->older = a->top;
    b->size = size;
    b->used = 0;
    ASAN_POISON_MEMORY_REGION(b->data, size);
    a->top = b;
    a->reserved += size;
    if (a->next_block < MAX_BLOCK) {
        a->next_block *= 2;
    }
    return b;
}

/* What a piece of this size takes of its block. */
static size_t need_of(size_t size)
{
    return ((size + ALIGN - 1) & ~(size_t)(ALIGN - 1)) + RED_ZONE;
}

void *arena_alloc(struct arena *a, size_t size)
{
    if (size > SIZE_MAX - ALIGN - RED_ZONE) {
        arena_exhausted("out of memory: a size does not fit in the address space");
    }
    size_t need = need_of(size);
    struct block *b = a->top;
    if (b == NULL || need > b->size - b->used) {
        b = block_push(a, need);
    }
    void *p = b->data + b->used;
    b->used += need;
    ASAN_UNPOISON_MEMORY_REGION(p, size);
    memset(p, 0, size);
    return p;
}

void *arena_array(struct arena *a, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total)) {
        arena_exhausted("out of memory: a size does not fit in the address space");
    }
    return arena_alloc(a, total);
}

char *arena_copy(struct arena *a, const void *bytes, size_t n)
{
    char *p = arena_alloc(a, n + 1);
    if (n != 0) {
        memcpy(p, bytes, n);
    }
    return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return arena_copy(a, s, strlen(s));
}

char *arena_fmt(struct arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = arena_alloc(a, (size_t)(n < 0 ? 0 : n) + 1);
    if (n > 0) {
        vsnprintf(p, (size_t)n + 1, fmt, again);
    }
    va_end(again);
    return p;
}

void *arena_grow(struct arena *a, void *old, size_t old_size, size_t new_size)
{
    struct block *b = a->top;
    size_t old_need = need_of(old_size);
    if (old != NULL && b != NULL && (unsigned char *)old + old_need == b->data + b->used &&
        new_size >= old_size && new_size - old_size <= b->size - b->used) {
        size_t new_need = need_of(new_size);
        if (new_need - old_need <= b->size - b->used) {
            b->used += new_need - old_need;
            ASAN_UNPOISON_MEMORY_REGION(old, new_size);
            memset((unsigned char *)old + old_size, 0, new_size - old_size);
            return old;
        }
    }
    void *p = arena_alloc(a, new_size);
    if (old_size != 0) {
        memcpy(p, old, old_size < new_size ? old_size : new_size);
    }
    return p;
}

struct arena_mark arena_mark(struct arena *a)
{
    return (struct arena_mark){.block = a->top, .used = a->top != NULL ? a->top->used : 0};
}

void arena_rewind(struct arena *a, struct arena_mark mark)
{
    while (a->top != mark.block) {
        struct block *older = a->top->older;
        a->reserved -= a->top->size;
        free(a->top);
        a->top = older;
    }
    if (a->top != NULL) {
        a->top->used = mark.used;
        ASAN_POISON_MEMORY_REGION(a->top->data + mark.used, a->top->size - mark.used);
    }
}

size_t arena_used(const struct arena *a)
{
    size_t sum = 0;
    for (const struct block *b = a->top; b != NULL; b = b->older) {
        sum += b->used;
    }
    return sum;
}
