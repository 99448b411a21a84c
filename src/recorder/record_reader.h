// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the record of one process (record_format.h). The file is foreign: it may be cut off, may come
 * from another version, may still be written. Everything is copied out and checked; nothing points into
 * the file after record_reader_load() returns.
 */
#ifndef ASSAY_RECORDER_RECORD_READER_H
#define ASSAY_RECORDER_RECORD_READER_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

#include "recorder/record_format.h"

/* A call, with what the file says around it. */
struct record_event {
    struct record_entry entry; /* state OPEN or CLOSED */
    uint32_t ring;
    uint64_t number; /* of the calls of this ring, from 0 */
};

struct record_thread {
    int32_t tid;
    const char *name;
    bool ended;
    uint64_t written; /* calls in all; those before `written - kept` were overwritten */
    uint64_t kept;
    const uint64_t *counts; /* by hook, hook_count of them */
    const uint64_t *nanoseconds;
};

struct record {
    struct record_header head; /* texts are NUL-terminated */
    const struct record_hook *hooks;
    struct record_thread *threads; /* rings that were used */
    const uint32_t *ring_of_thread;
    size_t thread_count;
    struct record_event *events; /* oldest first, by begin_ns */
    size_t event_count;
    struct record_alloc *allocs; /* live and freed, by address */
    size_t alloc_count;
    struct record_name *names;
    size_t name_count;
    struct record_binding *bindings;
    size_t binding_count;
    size_t torn; /* entries that were being written when the process ended */
};

/* Loads the file at `path`. ST_FORMAT: not a record, of another version, or cut off before its tables
 * end; a file cut off inside the entries gives what is whole. */
enum status record_reader_load(struct arena *a, const char *path, struct record *ret_record,
                               struct err *err) MUST_USE;

/* The same from bytes, for tests. */
enum status record_reader_parse(struct arena *a, struct str bytes, const char *name,
                                struct record *ret_record, struct err *err) MUST_USE;

/* Calls begun so far by all threads of a record that is still written; 0 when it cannot be read. */
uint64_t record_reader_progress(const char *path);

/* The block that holds `address`, or the nearest one that ends at most `slack` bytes before it or
 * begins at most `slack` after it; blocks that hold it win, then live ones, then the nearer. NULL when
 * there is none. */
const struct record_alloc *record_alloc_near(const struct record *r, uint64_t address,
                                             uint64_t slack);

/* Whether the program held the block: when the first fault of the GPU was seen, where there was one (what is given back
 * after it is the program cleaning up), else when the record ended. */
bool record_alloc_is_live(const struct record *r, const struct record_alloc *block);

/* NULL when nobody told the kernel's name. */
const char *record_name_of(const struct record *r, uint64_t key);

#endif
