// SPDX-License-Identifier: Apache-2.0
/*
 * Children that fault, abort, hang and leave: each end must come back under its own name, and a
 * batch must go on behind it.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sys/mman.h>

#include "device/isolate.h"

static struct isolate_end run(void (*work)(void *), void *context, unsigned deadline_ms)
{
    struct isolate_options options = {.deadline_ms = deadline_ms};
    struct isolate_end end;
    struct err err;
    assert_int_equal(isolate_run(&options, work, context, &end, &err), ST_OK);
    return end;
}

static void work_well(void *context)
{
    *(int *)context = 42;
}

static void work_read(void *context)
{
    (void)*(volatile char *)context;
}

static void work_write(void *context)
{
    *(volatile char *)context = 1;
}

static void work_abort(void *context)
{
    (void)context;
    fprintf(stderr, "first words\nMemory pressure: giving up\n");
    abort();
}

static void work_gpu_abort(void *context)
{
    (void)context;
    fprintf(stderr, "Memory access fault by GPU node-1 (Agent handle: 0x55d) on address "
                    "0x7f0000200000. Reason: Page not present or supervisor privilege.\n");
    abort();
}

static void work_hang(void *context)
{
    (void)context;
    for (;;) {
        pause();
    }
}

static void work_leave(void *context)
{
    (void)context;
    _exit(7);
}

static void work_illegal(void *context)
{
    (void)context;
    raise(SIGILL);
}

static void work_report(void *context)
{
    (void)context;
    isolate_report(ENDING_DEVICE_LOST, 0, false, "error 719");
}

static void result_comes_back(void **state)
{
    (void)state;
    int *shared = isolate_shared(sizeof *shared);
    assert_non_null(shared);
    struct isolate_end end = run(work_well, shared, 10000);
    assert_int_equal(end.ending, ENDING_OK);
    assert_int_equal(*shared, 42);
    isolate_shared_free(shared, sizeof *shared);
}

static void fault_has_address_and_direction(void **state)
{
    (void)state;
    char *closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(closed != MAP_FAILED);
    struct isolate_end end = run(work_read, closed + 40, 10000);
    assert_int_equal(end.ending, ENDING_MEMORY_FAULT);
    assert_int_equal(end.signal, SIGSEGV);
    assert_true(end.address_known);
    assert_int_equal(end.address, (uintptr_t)closed + 40);
#if defined(__x86_64__)
    assert_true(end.direction_known);
    assert_false(end.is_write);
    end = run(work_write, closed + 4, 10000);
    assert_true(end.is_write);
#endif
    munmap(closed, 4096);
}

static void every_end_has_its_name(void **state)
{
    (void)state;
    struct isolate_end end = run(work_abort, NULL, 10000);
    assert_int_equal(end.ending, ENDING_ABORT);
    assert_non_null(strstr(end.text, "giving up"));
    end = run(work_leave, NULL, 10000);
    assert_int_equal(end.ending, ENDING_EXIT);
    assert_int_equal(end.exit_status, 7);
    end = run(work_illegal, NULL, 10000);
    assert_int_equal(end.ending, ENDING_ILLEGAL);
    end = run(work_hang, NULL, 100);
    assert_int_equal(end.ending, ENDING_HANG);
    end = run(work_report, NULL, 10000);
    assert_int_equal(end.ending, ENDING_DEVICE_LOST);
    assert_string_equal(end.text, "error 719");
}

static void abort_of_a_gpu_runtime_is_a_device_fault(void **state)
{
    (void)state;
    struct isolate_end end = run(work_gpu_abort, NULL, 10000);
    assert_int_equal(end.ending, ENDING_DEVICE_FAULT);
    assert_true(end.address_known);
    assert_true(end.address == 0x7f0000200000);
}

/* --- batches ----------------------------------------------------------------------------------- */

enum {
    ITEMS = 5000
};

struct campaign {
    volatile unsigned char *ran; /* shared: how often each item was run */
    char *closed;
    size_t faults;
    size_t last_bad;
    enum ending endings[ENDING_COUNT];
    size_t by_ending[ENDING_COUNT];
    bool in_order;
};

static void item(void *context, size_t index)
{
    struct campaign *c = context;
    c->ran[index]++;
    if (index % 100 == 7) {
        (void)*(volatile char *)(c->closed + index % 4096);
    }
    if (index == 1500) {
        abort();
    }
    if (index == 2500) {
        _exit(3);
    }
    if (index == 3500) {
        work_hang(NULL);
    }
    if (index == 4500) {
        isolate_report(ENDING_DEVICE_FAULT, 0, false, "error 700");
    }
}

static void ended(void *context, size_t index, const struct isolate_end *end)
{
    struct campaign *c = context;
    c->in_order = c->in_order && (c->faults == 0 || index > c->last_bad);
    c->faults++;
    c->last_bad = index;
    c->by_ending[end->ending]++;
    if (end->ending == ENDING_MEMORY_FAULT) {
        assert_int_equal(end->address, (uintptr_t)(c->closed + index % 4096));
    }
}

static void batch_goes_on_after_every_kind_of_end(void **state)
{
    (void)state;
    struct campaign c = {.ran = isolate_shared(ITEMS), .in_order = true};
    c.closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_non_null((void *)c.ran);
    struct isolate_batch batch = {
        .count = ITEMS,
        .context = &c,
        .item = item,
        .ended = ended,
        .item_deadline_ms = 300,
        .faults_per_child = 13,
    };
    struct isolate_summary summary;
    struct err err;
    assert_int_equal(isolate_batch(&batch, &summary, &err), ST_OK);
    for (size_t i = 0; i < ITEMS; i++) {
        assert_int_equal(c.ran[i], 1);
    }
    assert_int_equal(summary.done, ITEMS);
    assert_int_equal(summary.faults, 54);
    assert_int_equal(c.by_ending[ENDING_MEMORY_FAULT], 50);
    assert_int_equal(c.by_ending[ENDING_ABORT], 1);
    assert_int_equal(c.by_ending[ENDING_EXIT], 1);
    assert_int_equal(c.by_ending[ENDING_HANG], 1);
    assert_int_equal(c.by_ending[ENDING_DEVICE_FAULT], 1);
    assert_true(c.in_order);
    assert_true(summary.children >= 5);
    munmap(c.closed, 4096);
    isolate_shared_free((void *)c.ran, ITEMS);
}

static void bad_start(void *context)
{
    (void)context;
    fprintf(stderr, "no such library\n");
    _exit(1);
}

static void batch_that_cannot_start_says_why(void **state)
{
    (void)state;
    struct campaign c = {0};
    struct isolate_batch batch = {
        .count = 10, .context = &c, .start = bad_start, .item = item, .ended = ended};
    struct isolate_summary summary;
    struct err err;
    assert_int_not_equal(isolate_batch(&batch, &summary, &err), ST_OK);
    assert_non_null(strstr(err.text, "no such library"));
    assert_int_equal(c.faults, 0);
}

static bool stop_at_once(void *context, size_t done)
{
    (void)context;
    (void)done;
    return false;
}

static void slow_item(void *context, size_t index)
{
    (void)context;
    (void)index;
    usleep(20000);
}

static void batch_can_be_stopped(void **state)
{
    (void)state;
    struct isolate_batch batch = {.count = 1000, .item = slow_item, .tick = stop_at_once};
    struct isolate_summary summary;
    struct err err;
    assert_int_equal(isolate_batch(&batch, &summary, &err), ST_OK);
    assert_true(summary.stopped);
    assert_true(summary.done < 1000);
    assert_int_equal(summary.faults, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(result_comes_back),
        cmocka_unit_test(fault_has_address_and_direction),
        cmocka_unit_test(every_end_has_its_name),
        cmocka_unit_test(abort_of_a_gpu_runtime_is_a_device_fault),
        cmocka_unit_test(batch_goes_on_after_every_kind_of_end),
        cmocka_unit_test(batch_that_cannot_start_says_why),
        cmocka_unit_test(batch_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
