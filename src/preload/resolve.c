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
    BINDINGS = RECORD_BINDINGS, /* what a record has room for */
    ASKED_MAX = 4,
    SITES = 4096, /* a power of two */
    SITE_TRIES = 8,
};

/* What stands in the record: the calls of one object to one hook, and the function that served them. */
static struct binding {
    _Atomic uintptr_t low; /* of the calling object's segments; 0: free */
    uintptr_t high;
    void *real;
    uint32_t hook;
    bool told; /* stands in the record */
} bindings[BINDINGS];

/* Real functions that somebody looked up by name and got our hook for. Who asked decides between two: libcudnn.so has
 * the functions of its own name behind it in other libraries, and finds them so. */
static struct asked {
    _Atomic int taken;
    uintptr_t low, high; /* of the object that asked first */
    _Atomic(void *) real;
} asked[HOOK_COUNT][ASKED_MAX];

/* Answers by the instruction that called: a program may have hundreds of calling objects (Triton makes one for each
 * kind of kernel). An answer of NULL is one that must be found anew. */
static struct site {
    _Atomic uint64_t key; /* the address, and the hook in the upper 16 bits; 0: free */
    _Atomic(void *) real;
} sites[SITES];

static _Atomic int bindings_lock;
static _Atomic int kept_lock;

/* Counts what was forgotten: an answer that was read meanwhile is asked for again. */
static _Atomic unsigned forgotten;

/* Of this thread's latest hook: the function it calls, and who called the hook. */
static __thread void *latest_real __attribute__((tls_model("initial-exec")));
static __thread uint64_t latest_caller __attribute__((tls_model("initial-exec")));

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

bool is_ours(const void *p)
{
    static _Atomic uintptr_t low;
    static _Atomic uintptr_t high;
    if (atomic_load_explicit(&high, memory_order_acquire) == 0) {
        struct object ours = {.address = (uintptr_t)&real_symbol};
        dl_iterate_phdr(find_object, &ours);
        atomic_store(&low, ours.low);
        atomic_store_explicit(&high, ours.high, memory_order_release);
    }
    return (uintptr_t)p >= low && (uintptr_t)p < high;
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

void *real_symbol_asked(enum hook hook, void *real, uint64_t asker)
{
    if (is_ours(real)) {
        return real;
    }
    bool known = false;
    for (int i = 0; i < ASKED_MAX && !known; i++) {
        struct asked *row = &asked[hook][i];
        int open = 0;
        known = atomic_load_explicit(&row->real, memory_order_acquire) == real;
        if (!known && atomic_compare_exchange_strong(&row->taken, &open, 1)) {
            struct object object = {.address = (uintptr_t)asker};
            dl_iterate_phdr(find_object, &object);
            row->low = object.low;
            row->high = object.high;
            atomic_store_explicit(&row->real, real, memory_order_release);
            known = true;
        }
    }
    void *handle = known ? dlopen(NULL, RTLD_LAZY) : NULL;
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
    int open = 0;
    if (atomic_compare_exchange_strong(&kept_lock, &open, 1)) {
        for (int i = 0; i < KEPT; i++) {
            if (atomic_load(&kept[i].name) == NULL) {
                kept[i].real = real;
                atomic_store_explicit(&kept[i].name, name, memory_order_release);
                break;
            }
        }
        atomic_store(&kept_lock, 0);
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
    for (int i = 0; i < BINDINGS; i++) {
        struct binding *b = &bindings[i];
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
        to[n].hook = b->hook;
        to[n].caller_low = low;
        to[n].caller_high = b->high;
        to[n].real = (uint64_t)(uintptr_t)b->real;
        b->told = true;
        atomic_store_explicit(&to[n].present, 1, memory_order_release);
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
    for (int i = 0; i < SITES; i++) {
        atomic_store_explicit(&sites[i].real, NULL, memory_order_relaxed);
    }
    for (int i = 0; i < BINDINGS; i++) {
        uintptr_t low = atomic_load(&bindings[i].low);
        if (low != 0 && (!is_loaded((const void *)low) || !is_loaded(bindings[i].real))) {
            bindings[i].told = false;
            atomic_store(&bindings[i].low, 0);
        }
    }
    for (int i = 0; i < HOOK_COUNT * ASKED_MAX; i++) {
        struct asked *row = &asked[i / ASKED_MAX][i % ASKED_MAX];
        void *real = atomic_load(&row->real);
        if (real != NULL && !is_loaded(real)) {
            atomic_store(&row->real, NULL);
            atomic_store(&row->taken, 0);
        }
    }
    for (int i = 0; i < KEPT; i++) {
        if (atomic_load(&kept[i].name) != NULL && !is_loaded(kept[i].real)) {
            atomic_store(&kept[i].name, NULL); /* also what was not found: it may come again */
        }
    }
    atomic_fetch_add(&forgotten, 1);
}

static bool lies_in(const struct object *o, const void *p)
{
    return (uintptr_t)p >= o->low && (uintptr_t)p < o->high;
}

/* What a call of `caller` means without us. `jumped`: it came by a jump at the end of another function, whose object
 * `caller` is as far as can be known; then what was looked up by name comes first, since the other way may lead back
 * into that function without end. */
static void *meaning(enum hook hook, const struct object *caller, bool jumped)
{
    void *by_it = NULL;
    void *by_others = NULL;
    for (int i = 0; i < ASKED_MAX; i++) {
        const struct asked *row = &asked[hook][i];
        void *real = atomic_load_explicit(&row->real, memory_order_acquire);
        if (real != NULL && row->low == caller->low && by_it == NULL) {
            by_it = real;
        } else if (real != NULL && by_others == NULL && !lies_in(caller, real)) {
            by_others = real;
        }
    }
    void *by_name = by_it != NULL ? by_it : by_others;
    void *bound = jumped && by_name != NULL ? NULL : look_up(hook_rows[hook].name, caller);
    /* A function of this name in the object that asks for the name elsewhere calls that one, not itself. */
    bool itself = bound != NULL && lies_in(caller, bound) && by_it != NULL;
    return bound != NULL && !itself ? bound : by_name;
}

static struct site *site_of(uint64_t key, bool make)
{
    uint64_t x = key * UINT64_C(0x9e3779b97f4a7c15);
    for (uint32_t i = 0; i < SITE_TRIES; i++) {
        struct site *s = &sites[((x >> 40) + i) & (SITES - 1)];
        uint64_t here = atomic_load_explicit(&s->key, memory_order_acquire);
        if (here == key) {
            return s;
        }
        if (here == 0 && !make) {
            return NULL;
        }
        if (here == 0 && (atomic_compare_exchange_strong(&s->key, &here, key) || here == key)) {
            return s;
        }
    }
    return NULL;
}

/* What was found for the object that the caller lies in; a new call in it costs no search. */
static void *known_to(enum hook hook, uint64_t caller)
{
    for (int i = 0; i < BINDINGS; i++) {
        const struct binding *b = &bindings[i];
        uintptr_t low = atomic_load_explicit(&b->low, memory_order_acquire);
        if (low != 0 && b->hook == hook && caller >= low && caller < b->high) {
            return b->real;
        }
    }
    return NULL;
}

/* A row for the record; false when another thread writes one just now: then the next call asks again. */
static bool bind(enum hook hook, const struct object *caller, void *real)
{
    int open = 0;
    if (caller->low == 0 || !atomic_compare_exchange_strong(&bindings_lock, &open, 1)) {
        return caller->low == 0;
    }
    for (int i = 0; i < BINDINGS; i++) {
        struct binding *b = &bindings[i];
        if (atomic_load(&b->low) == 0) {
            b->high = caller->high;
            b->real = real;
            b->hook = hook;
            b->told = false;
            atomic_store_explicit(&b->low, caller->low, memory_order_release);
            break;
        }
    }
    atomic_store(&bindings_lock, 0);
    return true;
}

/* *ret_told: it stands in the table, or cannot. */
static void *find_real(enum hook hook, uint64_t caller, bool jumped, bool *ret_told)
{
    int saved = errno;
    struct object object = {.address = (uintptr_t)caller};
    dl_iterate_phdr(find_object, &object);
    void *real = meaning(hook, &object, jumped);
    *ret_told = real != NULL && bind(hook, &object, real);
    struct record_header *h = real != NULL ? record_file() : NULL;
    if (h != NULL) {
        bindings_write(h);
        maps_write();
    }
    errno = saved;
    return real;
}

/* Another thread of the parent may have held them; it is not here to let go. */
void real_symbols_after_fork(void)
{
    atomic_store(&bindings_lock, 0);
    atomic_store(&kept_lock, 0);
}

uint64_t who_called(uint64_t caller)
{
    return is_ours((const void *)(uintptr_t)caller) ? latest_caller : caller;
}

void *real_symbol(enum hook hook, uint64_t caller)
{
    /* A function that ends in a jump to a hook leaves the return address of the hook that had called it. */
    bool jumped = is_ours((const void *)(uintptr_t)caller);
    if (jumped) {
        caller = (uint64_t)(uintptr_t)latest_real;
    }
    unsigned before = atomic_load_explicit(&forgotten, memory_order_acquire);
    uint64_t key = (uint64_t)hook << 48 | (caller & (UINT64_MAX >> 16));
    struct site *s = site_of(key, false);
    void *real = s != NULL ? atomic_load_explicit(&s->real, memory_order_acquire) : NULL;
    if (real == NULL || atomic_load_explicit(&forgotten, memory_order_acquire) != before) {
        real = known_to(hook, caller);
        bool told = true;
        if (real == NULL || atomic_load(&forgotten) != before) {
            real = find_real(hook, caller, jumped, &told);
        }
        s = real != NULL && told ? site_of(key, true) : NULL;
        if (s != NULL && atomic_load(&forgotten) == before) {
            atomic_store_explicit(&s->real, real, memory_order_release);
        }
    }
    latest_real = real;
    latest_caller = caller;
    return real;
}
