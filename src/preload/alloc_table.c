// SPDX-License-Identifier: Apache-2.0
/*
 * Which blocks lived where: an open-addressed table in the record, by address. Slots are never
 * emptied; a freed block keeps its row, so that an access after free can be told, until the same
 * address is handed out again or the row is needed.
 */
#include <unistd.h>

#include <sys/syscall.h>

#include "preload/preload.h"
#include "preload/record_file.h"

enum {
    PROBE_MAX = 64
};

static uint32_t slot_of(uint64_t address, uint32_t slots)
{
    uint64_t x = address >> 4;
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    return (uint32_t)x & (slots - 1);
}

/* The row of `address`; NULL when it has none. ret_free: a row that may be taken for it. */
static struct record_alloc *find(struct record_header *h, uint64_t address,
                                 struct record_alloc **ret_free)
{
    struct record_alloc *rows = record_allocs(h);
    *ret_free = NULL;
    uint32_t at = slot_of(address, h->alloc_slots);
    for (int i = 0; i < PROBE_MAX; i++, at = (at + 1) & (h->alloc_slots - 1)) {
        uint64_t here = atomic_load_explicit(&rows[at].address, memory_order_acquire);
        if (here == address) {
            return &rows[at];
        }
        if (here == 0) {
            *ret_free = *ret_free != NULL ? *ret_free : &rows[at];
            return NULL;
        }
        /* The one freed longest ago makes room; its row is lost, and that is counted nowhere. */
        if (rows[at].freed_ns != 0 &&
            (*ret_free == NULL || rows[at].freed_ns < (*ret_free)->freed_ns)) {
            *ret_free = &rows[at];
        }
    }
    return NULL;
}

void alloc_note(uint64_t address, uint64_t size, uint32_t flags)
{
    struct record_header *h = record_file();
    if (h == NULL || address == 0) {
        return;
    }
    struct record_alloc *room = NULL;
    struct record_alloc *row = find(h, address, &room);
    if (row == NULL) {
        row = room;
        if (row == NULL) {
            atomic_fetch_add_explicit(&h->lost_allocs, 1, memory_order_relaxed);
            return;
        }
        uint64_t was = atomic_load(&row->address);
        if ((was != 0 && row->freed_ns == 0) ||
            !atomic_compare_exchange_strong(&row->address, &was, address)) {
            atomic_fetch_add_explicit(&h->lost_allocs, 1, memory_order_relaxed);
            return;
        }
    }
    row->size = size;
    row->begin_ns = clock_ns();
    row->freed_ns = 0;
    uint32_t ring = ring_index();
    row->tid = ring < h->ring_count ? (uint32_t)record_rings(h)[ring].tid : 0;
    row->flags = flags | RECORD_ALLOC_LIVE;
}

bool alloc_forget(uint64_t address)
{
    struct record_header *h = record_file_now();
    if (h == NULL) {
        return false;
    }
    struct record_alloc *room;
    struct record_alloc *row = find(h, address, &room);
    if (row == NULL || (row->flags & RECORD_ALLOC_LIVE) == 0) {
        return false;
    }
    row->flags &= ~(uint32_t)RECORD_ALLOC_LIVE;
    row->freed_ns = clock_ns();
    return true;
}
