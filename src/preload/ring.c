// SPDX-License-Identifier: Apache-2.0
/*
 * One ring of entries a thread. A thread takes a free ring at its first recorded call and gives it
 * back when it ends; what it wrote stays until another thread overwrites it. No locks: a ring has one
 * writer.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/prctl.h>
#include <sys/syscall.h>

#include "preload/preload.h"
#include "preload/record_file.h"

enum ring_attempt {
    RING_UNTRIED = 0,
    RING_TAKEN,
    RING_REFUSED,
};

struct thread {
    struct record_ring *ring;
    struct record_entry *entries;
    uint32_t index;
    enum ring_attempt attempt;
    uint32_t depth;
    bool busy; /* inside our own code: calls from here are not recorded */
};

static __thread struct thread self __attribute__((tls_model("initial-exec")));
static pthread_key_t end_key;
static pthread_once_t end_once = PTHREAD_ONCE_INIT;
static _Atomic bool end_key_made;

uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void thread_ended(void *ring)
{
    atomic_store_explicit(&((struct record_ring *)ring)->in_use, 0, memory_order_release);
    self.ring = NULL;
    self.attempt = RING_REFUSED;
}

static void make_end_key(void)
{
    end_key_made = pthread_key_create(&end_key, thread_ended) == 0;
}

static bool take(struct record_header *h, uint32_t i)
{
    struct record_ring *ring = record_rings(h) + i;
    uint32_t free_mark = 0;
    if (!atomic_compare_exchange_strong(&ring->in_use, &free_mark, 1)) {
        return false;
    }
    if (!record_file_reserve(h, i)) {
        atomic_store(&ring->in_use, 0);
        return false;
    }
    atomic_store(&ring->tid, (int32_t)syscall(SYS_gettid));
    prctl(PR_GET_NAME, ring->thread_name);
    self.ring = ring;
    self.entries = record_entries(h) + (size_t)i * h->ring_entries;
    self.index = i;
    return true;
}

/* Rings that nobody used come first, so that what ended threads wrote is kept as long as can be. */
static void attach(void)
{
    int kept = errno;
    self.busy = true;
    self.attempt = RING_REFUSED;
    struct record_header *h = record_file();
    for (int used = 0; h != NULL && used < 2 && self.ring == NULL; used++) {
        for (uint32_t i = 0; i < h->ring_count && self.ring == NULL; i++) {
            if ((record_rings(h)[i].tid != 0) == (used != 0)) {
                take(h, i);
            }
        }
    }
    if (self.ring != NULL) {
        self.attempt = RING_TAKEN;
        pthread_once(&end_once, make_end_key);
        if (end_key_made) {
            pthread_setspecific(end_key, self.ring);
        }
    } else if (h != NULL) {
        atomic_fetch_add(&h->lost_threads, 1);
    }
    self.busy = false;
    errno = kept;
}

uint32_t ring_index(void)
{
    return self.ring != NULL ? self.index : UINT32_MAX;
}

void ring_forget(void)
{
    memset(&self, 0, sizeof self);
    if (end_key_made) {
        pthread_setspecific(end_key, NULL);
    }
}

struct record_entry *record_begin(enum hook hook, enum record_kind kind, uint64_t caller)
{
    if (!settings.on || self.busy) {
        return NULL;
    }
    if (self.ring == NULL) {
        if (self.attempt == RING_UNTRIED) {
            attach();
        }
        if (self.ring == NULL) {
            return NULL;
        }
    }
    uint64_t number = atomic_load_explicit(&self.ring->written, memory_order_relaxed);
    struct record_entry *e = &self.entries[number & (RECORD_RING_ENTRIES - 1)];
    /* Emptied before it is counted: an entry half written is never taken for a whole one. */
    atomic_store_explicit(&e->state, RECORD_EMPTY, memory_order_release);
    atomic_store_explicit(&self.ring->written, number + 1, memory_order_release);
    atomic_store_explicit(&self.ring->counts[hook],
                          atomic_load_explicit(&self.ring->counts[hook], memory_order_relaxed) + 1,
                          memory_order_relaxed);
    e->hook = (uint16_t)hook;
    e->kind = (uint8_t)kind;
    e->depth = (uint8_t)(self.depth < 255 ? self.depth : 255);
    e->end_ns = 0;
    e->stream_number = 0;
    e->result = 0;
    e->caller = who_called(caller);
    e->begin_ns = clock_ns();
    self.depth++;
    return e;
}

void record_open(struct record_entry *e)
{
    if (e != NULL) {
        atomic_store_explicit(&e->state, RECORD_OPEN, memory_order_release);
    }
}

void record_close(struct record_entry *e, int64_t result)
{
    if (e == NULL) {
        return;
    }
    self.depth--;
    /* A call that lasted longer than the ring is long finds its entry overwritten: leave it. */
    e->end_ns = clock_ns();
    e->result = result;
    if (self.ring != NULL) {
        self.ring->nanoseconds[e->hook] += e->end_ns - e->begin_ns;
    }
    atomic_store_explicit(&e->state, RECORD_CLOSED, memory_order_release);
}
