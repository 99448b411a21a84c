// SPDX-License-Identifier: Apache-2.0
/*
 * Inside the recorder that lives in other people's processes. Rules of the house: libc only; nothing
 * is allocated after start-up, nothing printed, errno is kept, and where anything is odd the hook
 * steps aside: it calls the real function and records nothing.
 *
 * It is switched on by ASSAY_RECORD_DIR, the folder that receives record.<pid>.bin. The file is
 * made at the first recorded call, so that the helpers of a job (sh, sed) leave none.
 */
#ifndef ASSAY_PRELOAD_PRELOAD_H
#define ASSAY_PRELOAD_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recorder/record_format.h"

#define EXPORT   __attribute__((visibility("default")))
#define CALLER() ((uint64_t)(uintptr_t)__builtin_return_address(0))

/* Hooks by row of hooks.def. */
enum hook {
#define HOOK(id, symbol, library) HOOK_##id,
#include "preload/hooks.def"
#undef HOOK
    HOOK_COUNT
};

_Static_assert((int)HOOK_COUNT <= (int)RECORD_HOOKS_MAX, "the record has a counter for each hook");

extern const struct record_hook hook_rows[HOOK_COUNT];

/* ---- settings, read once from the environment (start.c) ---- */

struct settings {
    bool on;
    char folder[3500];
    unsigned guard_every;   /* 0: no guard; 1: every block; N: one in N */
    size_t guard_min;       /* bytes: smaller blocks stay plain */
    bool guard_begin;       /* the hole lies before the block instead of after it */
    bool quarantine;        /* freed blocks become holes: use after free is seen */
    bool gpu_guard;         /* proven on this device by whoever started us */
    uint64_t gpu_alignment; /* of guarded device blocks; a power of two */
    int rank, local_rank;   /* -1: the environment does not tell */
    bool is_python;         /* the program is an interpreter of Python */
    unsigned marks;         /* calls from progress mark to progress mark; 0: none */
    bool guard_off_by_test; /* a test plants a guard that does not work */
};
extern struct settings settings;

/* The header of this process's record, made on first use; NULL when there is none to be had. */
struct record_header *record_file(void);
/* The same, without making it. Safe in a signal handler. */
struct record_header *record_file_now(void);

/* Whether the limit on file sizes (ulimit -f) lets a file grow so far: beyond it the program would get SIGXFSZ. */
bool file_size_allowed(uint64_t bytes);

/* ---- entries (ring.c) ---- */

/* Begins an entry of this thread: times it, counts it. NULL: record nothing. The caller fills
 * ret->u, calls record_open(), the real function, record_close(). */
struct record_entry *record_begin(enum hook hook, enum record_kind kind, uint64_t caller);
void record_open(struct record_entry *e);
void record_close(struct record_entry *e, int64_t result);

/* Index of this thread's ring, UINT32_MAX when it has none. */
uint32_t ring_index(void);

/* Leaves the rings to the parent: the child of a fork starts its own record. */
void ring_forget(void);

/* ---- real functions (resolve.c) ---- */

/* dlsym without our hook of it; RTLD_NEXT means "behind the recorder". */
void *raw_dlsym(void *handle, const char *name);

/* What `symbol` would have meant to the code at `caller` without us: looked up once for each calling
 * object. NULL when no loaded library has it. */
void *real_symbol(enum hook hook, uint64_t caller);

/* Whether an address lies in the recorder: a symbol that leads back to us is none. */
bool is_ours(const void *p);

/* Whether a function that a program calls free ends in ours; it is called with NULL (hooks_memory.c). */
bool free_leads_here(void *function);

/* Who called the hook whose real function was asked for last on this thread: `caller`, or, where that is an address of
 * ours, the function that jumped there. */
uint64_t who_called(uint64_t caller);

/* Remembers `real`, which the code at `asker` looked up by name, for callers whose own scope does not have it, and
 * returns our function for the hook; NULL when it cannot take its place. */
void *real_symbol_asked(enum hook hook, void *real, uint64_t asker);

/* A function that is not hooked, by name, as the code at `caller` would find it; NULL when there is none.
 * The answer is kept for the process. */
void *optional_symbol(const char *name, uint64_t caller);

/* After a library was unloaded: forgets what was found in it and for it, before another takes its addresses. */
void real_symbols_after_unload(void);

/* The child of a fork: nobody else holds the locks. */
void real_symbols_after_fork(void);

/* Writes what was looked up since the last time into the record. */
void bindings_write(struct record_header *h);

/* ---- allocations (alloc_table.c) ---- */

void alloc_note(uint64_t address, uint64_t size, uint32_t flags);
/* Marks it freed; false when the address is none of ours. */
bool alloc_forget(uint64_t address);

/* ---- guard memory on the CPU (guard.c) ---- */

/* Reserves address space and proves that an over-read of one byte faults. */
void guard_start(void);
/* A block whose end lies at a hole; NULL: serve it the plain way. */
void *guard_take(size_t alignment, size_t size);
/* True when `p` was guarded and has been given back. */
bool guard_give_back(void *p);
/* Size the caller asked for; 0 when `p` is not guarded. */
size_t guard_size(const void *p);
/* Writes the guard's state into a new record. */
void guard_describe(struct record_header *h);
/* The child of a fork: nobody else holds the lock. */
void guard_after_fork(void);
void gpu_guard_after_fork(void);
void gpu_marks_after_fork(void);

/* Writes into the record how far each stream came; safe in a signal handler. */
void gpu_marks_look(void);

/* ---- fatal signals (fault.c) ---- */

void fault_start(void);
void fault_after_fork(void);
/* Loads what the stack walk needs: done when a record is made, so that the helpers of a job pay nothing. */
void fault_warm_up(void);

/* ---- lines of output (output.c) ---- */

void output_start(void);
void output_after_fork(void);

/* ---- which library an address belongs to (maps.c) ---- */

void maps_write(void);
/* Takes the list away: the process has nothing to tell. */
void maps_forget(void);

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t clock_ns(void);

#endif
