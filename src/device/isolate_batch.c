// SPDX-License-Identifier: Apache-2.0
/*
 * Many items in one child: a fault is jumped out of and noted in a ring that the parent reads; any
 * other end costs a fork, and the batch goes on with the next item.
 */
#include <errno.h>
#include <setjmp.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/syscall.h>

#include "device/isolate.h"
#include "device/isolate_child.h"

enum {
    DEFAULT_ITEM_MS = 60000,
    START_MS = 60000,
    DEFAULT_FAULTS = 1000,
    RING_ENTRIES = 1024,
    TICK_MS = 100,
    BAD_STARTS_MAX = 3
};

struct ring_entry {
    size_t index;
    struct isolate_end end;
};

/* Shared by parent and child. The child writes everything but `ring_read`. */
struct batch_page {
    struct isolate_page page;
    volatile size_t next; /* the item being run, or to be run next */
    volatile bool started;
    volatile size_t ring_written;
    volatile size_t ring_read;
    struct ring_entry ring[RING_ENTRIES];
};

struct batch_run {
    const struct isolate_batch *batch;
    struct batch_page *shared;
    struct isolate_summary summary;
    size_t from; /* first item of the next child */
    size_t end;  /* behind the last item */
    unsigned bad_starts;
};

/* --- in the child ------------------------------------------------------------------------------ */

static void note_fault(struct batch_page *shared, size_t index, const struct isolate_end *end)
{
    while (shared->ring_written - shared->ring_read >= RING_ENTRIES) {
        struct timespec moment = {.tv_nsec = 1000000};
        nanosleep(&moment, NULL);
    }
    struct ring_entry *entry = &shared->ring[shared->ring_written % RING_ENTRIES];
    entry->index = index;
    entry->end = *end;
    __atomic_store_n(&shared->ring_written, shared->ring_written + 1, __ATOMIC_RELEASE);
}

/* Runs one item; true when it faulted and was jumped out of. Alone, so that no local variable lives
 * across the jump. */
__attribute__((noinline)) static bool run_item(const struct isolate_batch *batch, size_t index,
                                               struct isolate_jump *jump)
{
    if (jump == NULL) {
        batch->item(batch->context, index);
        return false;
    }
    if (sigsetjmp(jump->where, 0) != 0) {
        return true;
    }
    jump->armed = true;
    batch->item(batch->context, index);
    jump->armed = false;
    return false;
}

static void run_child(const struct isolate_batch *batch, struct batch_page *shared, size_t end,
                      struct isolate_jump *jump)
{
    if (batch->start != NULL) {
        batch->start(batch->context);
    }
    shared->started = true;
    unsigned most = batch->faults_per_child != 0 ? batch->faults_per_child : DEFAULT_FAULTS;
    unsigned faults = 0;
    for (size_t i = shared->next; i < end && faults < most; i++) {
        if (run_item(batch, i, jump)) {
            faults++;
            struct isolate_end how = shared->page.end;
            if (batch->faulted != NULL) {
                batch->faulted(batch->context, i, &how);
            }
            note_fault(shared, i, &how);
        } else if (shared->page.reported) {
            return; /* the item called isolate_report(): its device is of no more use */
        }
        __atomic_store_n(&shared->next, i + 1, __ATOMIC_RELEASE);
    }
    shared->page.done = true;
}

/* --- in the parent ----------------------------------------------------------------------------- */

static void read_ring(struct batch_run *run)
{
    struct batch_page *shared = run->shared;
    size_t written = __atomic_load_n(&shared->ring_written, __ATOMIC_ACQUIRE);
    while (shared->ring_read != written) {
        const struct ring_entry *entry = &shared->ring[shared->ring_read % RING_ENTRIES];
        run->summary.faults++;
        if (run->batch->ended != NULL) {
            run->batch->ended(run->batch->context, entry->index, &entry->end);
        }
        shared->ring_read++;
    }
}

static bool tick(struct batch_run *run)
{
    read_ring(run);
    size_t done = run->shared->next - run->batch->first;
    if (run->batch->tick != NULL && !run->batch->tick(run->batch->context, done)) {
        run->summary.stopped = true;
        return false;
    }
    return true;
}

enum child_fate {
    CHILD_ENDED,
    CHILD_HUNG,
    CHILD_STOPPED
};

static enum child_fate watch(struct batch_run *run, struct isolate_child *child, int *ret_status)
{
    unsigned deadline = run->batch->item_deadline_ms;
    deadline = deadline != 0 ? deadline : DEFAULT_ITEM_MS;
    size_t seen = run->shared->next;
    unsigned alive = run->shared->page.alive;
    bool started = false;
    int64_t since = isolate_now_ms();
    while (!isolate_wait(child, TICK_MS, ret_status)) {
        if (!tick(run)) {
            return CHILD_STOPPED;
        }
        int64_t now = isolate_now_ms();
        if (run->shared->next != seen || run->shared->started != started ||
            run->shared->page.alive != alive) {
            seen = run->shared->next;
            alive = run->shared->page.alive;
            started = run->shared->started;
            since = now;
        } else if (now - since > (started ? (int64_t)deadline : START_MS)) {
            return CHILD_HUNG;
        }
    }
    return CHILD_ENDED;
}

/* The item at which the child ended does not run again. */
static enum status count_end(struct batch_run *run, const struct isolate_end *end, struct err *err)
{
    if (!run->shared->started) {
        run->bad_starts++;
        if (run->bad_starts >= BAD_STARTS_MAX) {
            return err_set(err, ST_IO,
                           "%d child processes in a row ended before their first item (%s%s%s)",
                           BAD_STARTS_MAX, ending_name(end->ending),
                           end->text[0] != '\0' ? ": " : "", end->text);
        }
        return ST_OK;
    }
    run->bad_starts = 0;
    run->summary.faults++;
    if (run->batch->ended != NULL) {
        run->batch->ended(run->batch->context, run->shared->next, end);
    }
    bool again = run->batch->again != NULL &&
                 run->batch->again(run->batch->context, run->shared->next);
    run->from = run->shared->next + (again ? 0 : 1);
    return ST_OK;
}

static enum status one_child(struct batch_run *run, struct err *err)
{
    struct batch_page *shared = run->shared;
    shared->page = (struct isolate_page){0};
    shared->next = run->from;
    shared->started = false;
    shared->ring_written = 0;
    shared->ring_read = 0;
    struct isolate_jump jump = {0};
    struct isolate_jump *may = run->batch->no_jumps ? NULL : &jump;
    struct isolate_child child;
    TRY(isolate_fork(run->batch->keep_stderr, &shared->page, may, &child, err));
    if (child.pid == 0) {
        jump.thread = (pid_t)syscall(SYS_gettid);
        run_child(run->batch, shared, run->end, may);
        _exit(0);
    }
    run->summary.children++;
    int status = 0;
    struct isolate_end end = {0};
    enum child_fate fate = watch(run, &child, &status);
    if (fate == CHILD_ENDED) {
        isolate_judge(&child, &shared->page, status, &end);
    } else {
        isolate_kill(&child);
        end.ending = ENDING_HANG;
        isolate_last_words(&child, end.text, sizeof end.text);
    }
    isolate_release(&child);
    read_ring(run);
    run->from = shared->next;
    enum status st = ST_OK;
    if (fate != CHILD_STOPPED && end.ending != ENDING_OK) {
        st = count_end(run, &end, err);
    }
    run->summary.done = run->from - run->batch->first;
    return st;
}

enum status isolate_batch(const struct isolate_batch *batch, struct isolate_summary *ret_summary,
                          struct err *err)
{
    struct batch_run run = {
        .batch = batch,
        .shared = isolate_shared(sizeof *run.shared),
        .from = batch->first,
        .end = batch->first + batch->count,
    };
    if (run.shared == NULL) {
        return err_sys(err, errno, "cannot share %zu bytes with a child process",
                       sizeof *run.shared);
    }
    enum status st = ST_OK;
    while (st == ST_OK && run.from < run.end && !run.summary.stopped) {
        st = one_child(&run, err);
    }
    isolate_shared_free(run.shared, sizeof *run.shared);
    TRY(st);
    *ret_summary = run.summary;
    return ST_OK;
}
