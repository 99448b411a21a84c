// SPDX-License-Identifier: Apache-2.0
/*
 * Live guard on the CPU: blocks that end (or begin) at a hole. One stretch of address space is
 * reserved at the start; slots are cut from it, each some pages and one page that stays unmapped.
 * A slot is reused for blocks of its size without unmapping anything, so a training step costs no
 * system call once its sizes have been seen.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>

#include "preload/preload.h"
#include "preload/real.h"

enum {
    PAGE = 4096,
    CLASSES = 512,     /* slots of 1..CLASSES-1 pages have a list each; class 0 holds the rest */
    LARGER_TRIES = 16, /* slots looked at in the list of large ones */
    MAPPINGS_SPARE = 8192, /* of vm.max_map_count, left to the program */
    CANARY = 0xc5,
};

/* One row a page of the arena; only the row of a slot's first page is used. */
struct slot {
    uint64_t size;  /* asked for; 0: the slot is free */
    uint64_t start; /* what the program got */
    uint32_t pages;
    uint32_t next; /* in the free list: page number + 1 */
    uint32_t of;   /* for the page that holds `start`: first page of its slot + 1 */
};

static struct {
    char *base;
    uint64_t pages; /* of the arena */
    uint64_t used;  /* pages cut off so far; page 0 is a hole */
    uint32_t lists[CLASSES];
    struct slot *slots;
    uint32_t mappings, mappings_limit;
    _Atomic int lock;
    _Atomic unsigned count; /* of requests, for one in N */
    _Atomic int state;      /* enum record_guard_state */
} arena;

static void lock(void)
{
    int open = 0;
    while (!atomic_compare_exchange_weak(&arena.lock, &open, 1)) {
        open = 0;
        sched_yield();
    }
}

static void unlock(void)
{
    atomic_store(&arena.lock, 0);
}

void guard_after_fork(void)
{
    atomic_store(&arena.lock, 0);
}

void guard_describe(struct record_header *h)
{
    atomic_store(&h->guard, (uint32_t)atomic_load(&arena.state));
}

static void set_state(enum record_guard_state state)
{
    atomic_store(&arena.state, (int)state);
    struct record_header *h = record_file_now();
    if (h != NULL) {
        guard_describe(h);
    }
}

static uint32_t mappings_allowed(void)
{
    char digits[32] = "";
    int fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = read(fd, digits, sizeof digits - 1);
        digits[n > 0 ? n : 0] = '\0';
        close(fd);
    }
    uint32_t value = 0;
    for (const char *p = digits; *p >= '0' && *p <= '9' && value < 100000000; p++) {
        value = value * 10 + (uint32_t)(*p - '0');
    }
    return value > MAPPINGS_SPARE * 2 ? value - MAPPINGS_SPARE : value / 2;
}

/* A slot of at least `pages`, cut anew; page number, or 0 when the arena or the limit is reached. */
static uint32_t cut(uint64_t pages)
{
    if (arena.used + pages + 1 > arena.pages || arena.mappings + 2 > arena.mappings_limit) {
        return 0;
    }
    uint64_t first = arena.used;
    uint64_t open_pages = settings.guard_off_by_test ? pages + 1 : pages;
    if (mprotect(arena.base + first * PAGE, open_pages * PAGE, PROT_READ | PROT_WRITE) != 0) {
        return 0;
    }
    arena.used += pages + 1;
    arena.mappings += 2;
    arena.slots[first].pages = (uint32_t)pages;
    return (uint32_t)first;
}

/* Takes a free slot of the class off its list. */
static uint32_t pop(uint32_t class, uint64_t pages)
{
    uint32_t *link = &arena.lists[class];
    for (int i = 0; *link != 0 && i < LARGER_TRIES; i++) {
        uint32_t first = *link - 1;
        struct slot *s = &arena.slots[first];
        if (s->pages >= pages && s->pages <= 2 * pages) {
            *link = s->next;
            return first;
        }
        link = &s->next;
    }
    return 0;
}

static uint32_t find_slot(uint64_t pages)
{
    uint32_t first = pop(pages < CLASSES ? (uint32_t)pages : 0, pages);
    if (first == 0) {
        first = cut(pages);
    }
    /* At the limit a slot that is a little too long serves as well: its end is at a hole too. */
    for (uint64_t more = pages + 1; first == 0 && more <= 2 * pages && more < CLASSES; more++) {
        first = pop((uint32_t)more, pages);
    }
    return first;
}

static void *place(uint32_t first, size_t alignment, size_t size)
{
    struct slot *s = &arena.slots[first];
    char *from = arena.base + (uint64_t)first * PAGE;
    char *to = from + (uint64_t)s->pages * PAGE;
    char *p = from;
    if (!settings.guard_begin) {
        p = (char *)((uintptr_t)(to - size) & ~(uintptr_t)(alignment - 1));
        memset(p + size, CANARY, (size_t)(to - (p + size)));
    }
    s->size = size;
    s->start = (uint64_t)(uintptr_t)p;
    arena.slots[(uint64_t)(p - arena.base) / PAGE].of = first + 1;
    return p;
}

void *guard_take(size_t alignment, size_t size)
{
    int state = atomic_load_explicit(&arena.state, memory_order_acquire);
    if ((state != RECORD_GUARD_PROVEN && state != RECORD_GUARD_FULL) || size < settings.guard_min ||
        size == 0 || alignment > PAGE || size > (UINT64_C(1) << 36)) {
        return NULL;
    }
    if (settings.guard_every > 1 && atomic_fetch_add(&arena.count, 1) % settings.guard_every != 0) {
        return NULL;
    }
    int kept = errno;
    lock();
    uint32_t first = find_slot((size + PAGE - 1) / PAGE);
    void *p = first != 0 ? place(first, alignment, size) : NULL;
    uint64_t used = arena.used * PAGE;
    uint32_t mappings = arena.mappings;
    unlock();
    struct record_header *h = record_file();
    if (p == NULL) {
        set_state(RECORD_GUARD_FULL);
    } else if (h != NULL) {
        atomic_fetch_add(&h->guarded_blocks, 1);
        atomic_store(&h->guarded_bytes, used);
        atomic_store(&h->guard_mappings, mappings);
    }
    errno = kept;
    return p;
}

static struct slot *slot_at(const void *p)
{
    const char *c = p;
    if (arena.base == NULL || c < arena.base || c >= arena.base + arena.pages * PAGE) {
        return NULL;
    }
    uint32_t of = arena.slots[(uint64_t)(c - arena.base) / PAGE].of;
    if (of == 0) {
        return NULL;
    }
    struct slot *s = &arena.slots[of - 1];
    return s->size != 0 && s->start == (uint64_t)(uintptr_t)p ? s : NULL;
}

size_t guard_size(const void *p)
{
    const struct slot *s = slot_at(p);
    return s != NULL ? (size_t)s->size : 0;
}

static void check_canary(const struct slot *s, const char *end)
{
    for (const char *p = (const char *)(uintptr_t)s->start + s->size; p < end; p++) {
        if ((unsigned char)*p != CANARY) {
            struct record_header *h = record_file();
            if (h != NULL && atomic_fetch_add(&h->canary_hits, 1) == 0) {
                h->canary_address = (uint64_t)(uintptr_t)p;
            }
            return;
        }
    }
}

bool guard_give_back(void *p)
{
    struct slot *s = slot_at(p);
    if (s == NULL) {
        return false;
    }
    int kept = errno;
    uint32_t first = (uint32_t)(s - arena.slots);
    char *from = arena.base + (uint64_t)first * PAGE;
    if (!settings.guard_begin) {
        check_canary(s, from + (uint64_t)s->pages * PAGE);
    }
    if (settings.quarantine) {
        /* The memory goes back to the system, the addresses stay a hole for good. */
        madvise(from, (size_t)s->pages * PAGE, MADV_DONTNEED);
        mprotect(from, (size_t)s->pages * PAGE, PROT_NONE);
        s->size = 0;
    } else {
        lock();
        uint32_t class = s->pages < CLASSES ? s->pages : 0;
        s->size = 0;
        s->next = arena.lists[class];
        arena.lists[class] = first + 1;
        unlock();
    }
    errno = kept;
    return true;
}

/* ---- start-up proof ---- */

static sigjmp_buf proof_jump;

static void proof_handler(int signal)
{
    (void)signal;
    siglongjmp(proof_jump, 1);
}

/* One byte beyond the block (before it, when the hole is there) is read, then written. */
static bool faults(volatile char *p, bool write)
{
    if (sigsetjmp(proof_jump, 1) != 0) {
        return true;
    }
    if (write) {
        *p = 1;
    } else {
        (void)*p;
    }
    return false;
}

static bool prove(void)
{
    char *block = guard_take(16, 64);
    if (block == NULL) {
        return false;
    }
    volatile char *beyond = settings.guard_begin ? block - 1 : block + 64;
    struct sigaction ours = {.sa_handler = proof_handler};
    struct sigaction segv;
    struct sigaction bus;
    if (real_sigaction(SIGSEGV, &ours, &segv) != 0 || real_sigaction(SIGBUS, &ours, &bus) != 0) {
        return false;
    }
    bool seen = faults(beyond, false) && faults(beyond, true);
    real_sigaction(SIGSEGV, &segv, NULL);
    real_sigaction(SIGBUS, &bus, NULL);
    guard_give_back(block);
    return seen;
}

/* A program that defines free itself (a static jemalloc, a sanitizer) would be given blocks that it does not
 * know. In a program at fixed addresses that takes the address of free, such as Debian's python3, the name
 * leads to a stub in the program, and the stub to us. */
static bool frees_through_us(void)
{
    void *first = raw_dlsym(RTLD_DEFAULT, "free");
    return first == NULL || is_ours(first) || free_leads_here(first);
}

void guard_start(void)
{
    if (!frees_through_us()) {
        set_state(RECORD_GUARD_FOREIGN);
        return;
    }
    uint64_t bytes = UINT64_C(1) << 40;
    for (; bytes >= UINT64_C(1) << 30; bytes >>= 2) {
        void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) {
            continue;
        }
        uint64_t rows = bytes / PAGE * sizeof(struct slot);
        void *table = mmap(NULL, rows, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (table == MAP_FAILED) {
            munmap(p, bytes);
            continue;
        }
        arena.base = p;
        arena.slots = table;
        arena.pages = bytes / PAGE;
        arena.used = 1; /* the first page is the hole before the first block */
        break;
    }
    arena.mappings_limit = mappings_allowed();
    size_t least = settings.guard_min;
    unsigned every = settings.guard_every;
    settings.guard_min = 1;
    settings.guard_every = 1;
    atomic_store(&arena.state, RECORD_GUARD_PROVEN);
    bool proven = arena.base != NULL && prove();
    settings.guard_min = least;
    settings.guard_every = every;
    set_state(proven ? RECORD_GUARD_PROVEN : RECORD_GUARD_UNPROVEN);
}
