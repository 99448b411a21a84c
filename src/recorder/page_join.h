// SPDX-License-Identifier: Apache-2.0
/*
 * Joins the page that a GPU faulted on, as the logs tell it, to what the process was doing: the page to a recorded
 * block, and to an operand of a call that may still have been running. A GPU's fault comes without thread or call,
 * and by pages of 4 KiB: the address is that of the page, whatever byte was touched.
 */
#ifndef ASSAY_RECORDER_PAGE_JOIN_H
#define ASSAY_RECORDER_PAGE_JOIN_H

#include "base/arena.h"
#include "base/str.h"

#include "recorder/fault_join.h"
#include "recorder/record_reader.h"

enum {
    PAGE_BYTES = 4096,
    FAULT_PAGES_MAX = 16
};

/* A line of a log that tells an address. */
struct fault_page {
    uint64_t page;      /* the address, rounded down to PAGE_BYTES */
    uint64_t pid;       /* 0: not told */
    const char *source; /* name of the log in the run folder */
    const char *line;
    int write; /* 1, 0; -1: not told */
};

struct fault_pages {
    struct fault_page items[FAULT_PAGES_MAX];
    size_t count;
};

/*
 * The addresses that stdout.log, stderr.log and kernel.log of a run folder tell, those of the kernel first: lines
 * of amdgpu, ROCr, HIP and NVIDIA's Xid 31. Of long logs the last 4 MiB are read. A log that is missing or cannot be
 * read tells none.
 */
void fault_pages_read(struct arena *a, const char *folder, struct fault_pages *ret_pages);

/* The same from one text, appended. */
void fault_pages_scan(struct arena *a, struct str text, const char *source,
                      struct fault_pages *pages);

struct page_story {
    const struct record_alloc *block; /* that holds the page, or lies within 64 KiB of it; NULL */
    struct fault_place block_place;   /* of the page */
    const struct record_event *call;  /* launched since the last wait that was fine; NULL */
    const char *operand;              /* "operand B", "w", "destination", "argument 2" */
    char letter;                      /* as in struct fault_story; 0 for others */
    uint64_t operand_bytes;
    struct fault_place operand_place; /* of the page: never INSIDE, unless the block was freed */
    size_t calls;                     /* of such calls, those with an operand just as near */
};

/* False when neither a block nor an operand is near. */
bool page_join(struct arena *a, const struct record *r, uint64_t page,
               struct page_story *ret_story);

/* Index of the first event that may still have been running when the record ended: behind the last wait that was
 * fine, counted from `end`. */
size_t page_join_first_running(const struct record *r, size_t end);

#endif
