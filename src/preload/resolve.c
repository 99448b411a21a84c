// SPDX-License-Identifier: Apache-2.0
/*
 * The real functions. Two libraries of one process may each bring a cblas_sgemm, so the answer depends
 * on who asks: what the calling object would have bound to without us. The dynamic loader searches the
 * global scope first (RTLD_NEXT gives that), then the caller's own dependencies (a library that Python
 * loaded with RTLD_LOCAL).
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>

#include "preload/preload.h"
#include "preload/record_file.h"

enum {
    CALLERS_MAX = 6
};

struct binding {
    _Atomic uintptr_t low; /* of the calling object's segments; 0: free */
    uintptr_t high;
    void *real;
    bool told; /* stands in the record */
};

static struct binding bindings[HOOK_COUNT][CALLERS_MAX];

/* Counts what was forgotten: an answer that was read meanwhile is asked for again. */
static _Atomic unsigned forgotten;

/* For code that looked a function up by name; one a hook, the first. */
static _Atomic(void *) fallbacks[HOOK_COUNT];

struct object {
    uintptr_t address; /* asked for */
    uintptr_t low, high;
    char path[1024];
};

static int find_object(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct object *o = data;
    uintptr_t low = UINTPTR_MAX;
    uintptr_t high = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD) {
            uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            uintptr_t to = from + info->dlpi_phdr[i].p_memsz;
            low = from < low ? from : low;
            high = to > high ? to : high;
        }
    }
    if (o->address < low || o->address >= high) {
        return 0;
    }
    o->low = low;
    o->high = high;
    const char *name = info->dlpi_name != NULL ? info->dlpi_name : "";
    if (strlen(name) < sizeof o->path) {
        memcpy(o->path, name, strlen(name) + 1);
    }
    return 1;
}

/* Found by the address of one of our own functions. */
bool is_ours(const void *p)
{
    struct object ours = {.address = (uintptr_t)&real_symbol};
    dl_iterate_phdr(find_object, &ours);
    return (uintptr_t)p >= ours.low && (uintptr_t)p < ours.high;
}

static void *look_up(const char *symbol, const struct object *caller)
{
    void *p = raw_dlsym(RTLD_NEXT, symbol);
    if (p != NULL && !is_ours(p)) {
        return p;
    }
    if (caller->path[0] == '\0') {
        return NULL;
    }
    void *handle = dlopen(caller->path, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == NULL) {
        return NULL;
    }
    p = raw_dlsym(handle, symbol);
    dlclose(handle); /* only the count that NOLOAD added */
    return p != NULL && !is_ours(p) ? p : NULL;
}

void *real_symbol_fallback(enum hook hook, void *real)
{
    if (is_ours(real)) {
        return real;
    }
    void *none = NULL;
    atomic_compare_exchange_strong(&fallbacks[hook], &none, real);
    void *handle = dlopen(NULL, RTLD_LAZY);
    if (handle == NULL) {
        return NULL;
    }
    /* Preloaded, our name comes first in the global scope. */
    void *ours = raw_dlsym(handle, hook_rows[hook].name);
    dlclose(handle);
    return ours != NULL && is_ours(ours) ? ours : NULL;
}

enum {
    KEPT = 64
};

/* Answers of optional_symbol(). */
static struct {
    _Atomic(const char *) name; /* string literals: compared by address */
    void *real;
} kept[KEPT];

void *optional_symbol(const char *name, uint64_t caller)
{
    unsigned before = atomic_load(&forgotten);
    for (int i = 0; i < KEPT; i++) {
        if (atomic_load_explicit(&kept[i].name, memory_order_acquire) == name) {
            void *real = kept[i].real;
            if (atomic_load(&forgotten) == before) {
                return real;
            }
        }
    }
    int saved = errno;
    struct object object = {.address = (uintptr_t)caller};
    dl_iterate_phdr(find_object, &object);
    void *real = look_up(name, &object);
    static _Atomic int lock;
    int open = 0;
    if (atomic_compare_exchange_strong(&lock, &open, 1)) {
        for (int i = 0; i < KEPT; i++) {
            if (atomic_load(&kept[i].name) == NULL) {
                kept[i].real = real;
                atomic_store_explicit(&kept[i].name, name, memory_order_release);
                break;
            }
        }
        atomic_store(&lock, 0);
    }
    errno = saved;
    return real;
}

void bindings_write(struct record_header *h)
{
    static _Atomic(struct record_header *) told_to;
    struct record_binding *to = record_bindings(h);
    bool anew = atomic_exchange(&told_to, h) != h;
    uint32_t n = 0;
    for (uint32_t hook = 0; hook < HOOK_COUNT; hook++) {
        for (int i = 0; i < CALLERS_MAX; i++) {
            struct binding *b = &bindings[hook][i];
            uintptr_t low = atomic_load_explicit(&b->low, memory_order_acquire);
            if (low == 0 || (b->told && !anew)) {
                continue;
            }
            /* Rows of libraries that are gone stay: earlier calls are theirs. */
            while (n < h->binding_slots && atomic_load(&to[n].present) != 0) {
                n++;
            }
            if (n == h->binding_slots) {
                return;
            }
            to[n].hook = hook;
            to[n].caller_low = low;
            to[n].caller_high = b->high;
            to[n].real = (uint64_t)(uintptr_t)b->real;
            b->told = true;
            atomic_store_explicit(&to[n].present, 1, memory_order_release);
        }
    }
}

static bool is_loaded(const void *p)
{
    struct object object = {.address = (uintptr_t)p};
    return dl_iterate_phdr(find_object, &object) != 0;
}

static int count_unloads(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    *(unsigned long long *)data = info->dlpi_subs;
    return 1;
}

void real_symbols_after_unload(void)
{
    static _Atomic unsigned long long seen;
    unsigned long long unloads = 0;
    dl_iterate_phdr(count_unloads, &unloads);
    if (atomic_exchange(&seen, unloads) == unloads) {
        return;
    }
    atomic_fetch_add(&forgotten, 1);
    for (uint32_t hook = 0; hook < HOOK_COUNT; hook++) {
        for (int i = 0; i < CALLERS_MAX; i++) {
            struct binding *b = &bindings[hook][i];
            uintptr_t low = atomic_load(&b->low);
            if (low != 0 && (!is_loaded((const void *)low) || !is_loaded(b->real))) {
                b->told = false;
                atomic_store(&b->low, 0);
            }
        }
        void *f = atomic_load(&fallbacks[hook]);
        if (f != NULL && !is_loaded(f)) {
            atomic_store(&fallbacks[hook], NULL);
        }
    }
    for (int i = 0; i < KEPT; i++) {
        if (atomic_load(&kept[i].name) != NULL && !is_loaded(kept[i].real)) {
            atomic_store(&kept[i].name, NULL); /* also what was not found: it may come again */
        }
    }
    atomic_fetch_add(&forgotten, 1);
}

void *real_symbol(enum hook hook, uint64_t caller)
{
    struct binding *row = bindings[hook];
    uintptr_t from = (uintptr_t)caller;
    unsigned before = atomic_load_explicit(&forgotten, memory_order_acquire);
    for (int i = 0; i < CALLERS_MAX; i++) {
        uintptr_t low = atomic_load_explicit(&row[i].low, memory_order_acquire);
        if (low != 0 && from >= low && from < row[i].high) {
            void *real = row[i].real;
            if (atomic_load_explicit(&forgotten, memory_order_acquire) == before) {
                return real;
            }
        }
    }
    int saved = errno;
    struct object object = {.address = from};
    dl_iterate_phdr(find_object, &object);
    void *real = look_up(hook_rows[hook].name, &object);
    if (real == NULL) {
        real = atomic_load(&fallbacks[hook]);
    }
    static _Atomic int lock;
    int open = 0;
    if (real != NULL && object.low != 0 && atomic_compare_exchange_strong(&lock, &open, 1)) {
        for (int i = 0; i < CALLERS_MAX; i++) {
            if (atomic_load(&row[i].low) == 0) {
                row[i].high = object.high;
                row[i].real = real;
                row[i].told = false;
                atomic_store_explicit(&row[i].low, object.low, memory_order_release);
                break;
            }
        }
        atomic_store(&lock, 0);
    }
    struct record_header *h = real != NULL ? record_file() : NULL;
    if (h != NULL) {
        bindings_write(h);
        maps_write();
    }
    errno = saved;
    return real;
}
