// SPDX-License-Identifier: Apache-2.0
/*
 * CPU allocations behind tensors: frameworks take them with posix_memalign, aligned_alloc or memalign.
 * malloc is left alone. free, realloc and malloc_usable_size are hooked for the blocks of the guard
 * and to note what is freed; for all others they cost one look at a table.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "preload/preload.h"

enum {
    NOTED_MIN = 64
}; /* bytes: smaller blocks are no tensors worth a row */

typedef int (*posix_memalign_function)(void **, size_t, size_t);
typedef void *(*memalign_function)(size_t, size_t);
typedef void (*free_function)(void *);
typedef void *(*realloc_function)(void *, size_t);
typedef size_t (*usable_function)(void *);

/* Looked up without our table: these are called before the first constructor runs. */
static void *next(_Atomic(void *) *slot, const char *name)
{
    void *f = atomic_load_explicit(slot, memory_order_relaxed);
    if (f == NULL) {
        static __thread bool busy __attribute__((tls_model("initial-exec")));
        if (busy) {
            return NULL; /* the look-up itself frees something: let it leak */
        }
        busy = true;
        f = raw_dlsym(RTLD_NEXT, name);
        busy = false;
        atomic_store_explicit(slot, f, memory_order_relaxed);
    }
    return f;
}

static void note(enum hook hook, void *p, size_t alignment, size_t size, uint64_t caller,
                 bool guarded)
{
    struct record_entry *e = record_begin(hook, RECORD_ALLOC, caller);
    if (e == NULL) {
        return;
    }
    e->u.memory = (struct record_memory){
        .address = (uint64_t)(uintptr_t)p, .size = size, .source = alignment, .guarded = guarded};
    record_open(e);
    alloc_note((uint64_t)(uintptr_t)p, size,
               RECORD_ALLOC_HOST | (guarded ? (uint32_t)RECORD_ALLOC_GUARDED : 0));
    record_close(e, 0);
}

EXPORT int posix_memalign(void **ret, size_t alignment, size_t size)
{
    static _Atomic(void *) real;
    bool sane = alignment >= sizeof(void *) && (alignment & (alignment - 1)) == 0;
    void *p = settings.on && sane ? guard_take(alignment, size) : NULL;
    bool guarded = p != NULL;
    if (guarded) {
        *ret = p;
    } else {
        posix_memalign_function f = (posix_memalign_function)next(&real, "posix_memalign");
        int rc = f != NULL ? f(ret, alignment, size) : ENOMEM;
        if (rc != 0) {
            return rc;
        }
    }
    if (settings.on && size >= NOTED_MIN) {
        note(HOOK_POSIX_MEMALIGN, *ret, alignment, size, CALLER(), guarded);
    }
    return 0;
}

static void *aligned(enum hook hook, _Atomic(void *) *slot, size_t alignment, size_t size,
                     uint64_t caller)
{
    bool sane = alignment != 0 && (alignment & (alignment - 1)) == 0;
    void *p = settings.on && sane ? guard_take(alignment, size) : NULL;
    bool guarded = p != NULL;
    if (!guarded) {
        memalign_function f = (memalign_function)next(slot, hook_rows[hook].name);
        p = f != NULL ? f(alignment, size) : NULL;
    }
    if (settings.on && p != NULL && size >= NOTED_MIN) {
        note(hook, p, alignment, size, caller, guarded);
    }
    return p;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
    static _Atomic(void *) real;
    return aligned(HOOK_ALIGNED_ALLOC, &real, alignment, size, CALLER());
}

EXPORT void *memalign(size_t alignment, size_t size)
{
    static _Atomic(void *) real;
    return aligned(HOOK_MEMALIGN, &real, alignment, size, CALLER());
}

static atomic_bool asked; /* free(NULL) came here */

bool free_leads_here(void *function)
{
    atomic_store(&asked, false);
    ((free_function)function)(NULL);
    return atomic_load(&asked);
}

EXPORT void free(void *p)
{
    static _Atomic(void *) real;
    if (p == NULL) {
        atomic_store(&asked, true);
        return;
    }
    if (settings.on) {
        alloc_forget((uint64_t)(uintptr_t)p);
        if (guard_give_back(p)) {
            return;
        }
    }
    free_function f = (free_function)next(&real, "free");
    if (f != NULL) {
        f(p);
    }
}

EXPORT void *realloc(void *p, size_t size)
{
    static _Atomic(void *) real;
    size_t had = settings.on && p != NULL ? guard_size(p) : 0;
    if (had != 0) {
        void *q = malloc(size);
        if (q != NULL) {
            memcpy(q, p, had < size ? had : size);
            free(p);
        }
        return q;
    }
    realloc_function f = (realloc_function)next(&real, "realloc");
    if (f == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    if (settings.on && p != NULL) {
        alloc_forget((uint64_t)(uintptr_t)p);
    }
    return f(p, size);
}

EXPORT size_t malloc_usable_size(void *p)
{
    static _Atomic(void *) real;
    size_t guarded = settings.on && p != NULL ? guard_size(p) : 0;
    if (guarded != 0) {
        return guarded;
    }
    usable_function f = (usable_function)next(&real, "malloc_usable_size");
    return f != NULL ? f(p) : 0;
}
