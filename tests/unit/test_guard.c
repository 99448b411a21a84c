// SPDX-License-Identifier: Apache-2.0
/*
 * Guard memory on the CPU: every side, size and alignment; canaries; the pool; the limit; and the
 * proof, which must fail where the guard is off.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"

#include "device/guard.h"
#include "device/isolate.h"

static struct arena *arena;
static struct device *device;
static struct guard *guard;

static int set_up(void **state)
{
    (void)state;
    arena = arena_new(0);
    if (device_open(arena, DEVICE_CPU, 0, NULL, &device, NULL) != ST_OK) {
        return 1;
    }
    return guard_open(arena, device, &guard, NULL) == ST_OK ? 0 : 1;
}

static int tear_down(void **state)
{
    (void)state;
    guard_close(guard);
    device_close(device);
    arena_free(arena);
    return 0;
}

struct touch {
    char *at;
    bool write;
};

static void touch(void *context)
{
    struct touch *t = context;
    if (t->write) {
        *(volatile char *)t->at = 1;
    } else {
        (void)*(volatile char *)t->at;
    }
}

static void assert_fault(const void *at, bool write, bool expected)
{
    struct touch t = {.at = (char *)(uintptr_t)at, .write = write};
    struct isolate_end end;
    struct err err;
    assert_int_equal(isolate_run(NULL, touch, &t, &end, &err), ST_OK);
    assert_int_equal(end.ending, expected ? ENDING_MEMORY_FAULT : ENDING_OK);
}

static void first_byte_past_each_side_faults(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 2, 3, 4095, 4096, 4097, 12345};
    static const size_t alignments[] = {1, 2, 4, 16, 64, 256};
    struct err err;
    for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
        for (size_t a = 0; a < ARRAY_LEN(alignments); a++) {
            struct guard_block end;
            struct guard_block begin;
            assert_int_equal(guard_alloc(guard, sizes[s], GUARD_END, alignments[a], &end, &err),
                             ST_OK);
            assert_int_equal(guard_alloc(guard, sizes[s], GUARD_BEGIN, alignments[a], &begin, &err),
                             ST_OK);
            assert_int_equal((uintptr_t)end.address % alignments[a], 0);
            assert_int_equal((uintptr_t)begin.address % alignments[a], 0);
            assert_true(end.slack < alignments[a]);
            assert_int_equal(begin.slack, 0);
            memset(end.address, 1, end.bytes);
            memset(begin.address, 1, begin.bytes);
            if (a == 0 || a == 5) { /* a child each; the arithmetic is the same in between */
                assert_fault((char *)end.address + end.bytes + end.slack, false, true);
                assert_fault((char *)begin.address - 1, true, true);
            }
            guard_free(guard, &end);
            guard_free(guard, &begin);
        }
    }
}

static void write_into_the_slack_is_seen(void **state)
{
    (void)state;
    struct err err;
    struct guard_block block;
    struct guard_damage damage;
    assert_int_equal(guard_alloc(guard, 1003, GUARD_END, 64, &block, &err), ST_OK);
    assert_int_equal(block.slack, 21);
    assert_int_equal(guard_check(guard, &block, &damage, &err), ST_OK);
    assert_false(damage.damaged);
    ((volatile char *)block.address)[1003 + 5] ^= 1;
    assert_int_equal(guard_check(guard, &block, &damage, &err), ST_OK);
    assert_true(damage.damaged);
    assert_int_equal(damage.side, GUARD_END);
    assert_int_equal(damage.distance, 5);
    assert_int_equal(damage.count, 1);
    ((volatile char *)block.address)[-1] ^= 1; /* the mapped side has canaries as well */
    assert_int_equal(guard_check(guard, &block, &damage, &err), ST_OK);
    assert_int_equal(damage.side, GUARD_BEGIN);
    assert_int_equal(damage.distance, 0);
    guard_free(guard, &block);
}

static void pool_reuses_mappings_and_holes_stay(void **state)
{
    (void)state;
    struct err err;
    size_t before;
    size_t after;
    size_t limit;
    struct guard_block block;
    assert_int_equal(guard_alloc(guard, 5000, GUARD_END, 1, &block, &err), ST_OK);
    guard_free(guard, &block);
    guard_count(guard, &before, &limit);
    for (size_t i = 0; i < 1000; i++) {
        assert_int_equal(
            guard_alloc(guard, 5000 + i, i % 2 == 0 ? GUARD_END : GUARD_BEGIN, 4, &block, &err),
            ST_OK);
        guard_free(guard, &block);
    }
    guard_count(guard, &after, &limit);
    assert_int_equal(before, after);
    assert_true(limit > after);
    assert_fault((char *)block.address - 1, false, true);
}

/* In a child, whose address space goes with it. 0: as it should be. */
static void use_up_mappings(void *context)
{
    int *verdict = context;
    struct err err;
    enum status st = ST_OK;
    while (st == ST_OK) {
        struct guard_block block;
        st = guard_alloc(guard, 1, GUARD_END, 1, &block, &err);
    }
    void *other;
    if (st != ST_LIMIT || strstr(err.text, "vm.max_map_count") == NULL) {
        *verdict = 1;
    } else if (device_alloc(device, 1 << 20, &other, &err) != ST_OK) {
        *verdict = 2; /* others in the process must still be able to map */
    } else {
        *verdict = 0;
    }
}

static void mappings_end_before_the_system_refuses(void **state)
{
    (void)state;
    size_t held;
    size_t limit;
    guard_count(guard, &held, &limit);
    if (limit > 300000) {
        skip(); /* this machine allows millions: the test would take minutes */
    }
    int *verdict = isolate_shared(sizeof *verdict);
    *verdict = -1;
    struct isolate_end end;
    struct err err;
    assert_int_equal(isolate_run(NULL, use_up_mappings, verdict, &end, &err), ST_OK);
    assert_int_equal(end.ending, ENDING_OK);
    assert_int_equal(*verdict, 0);
    isolate_shared_free(verdict, sizeof *verdict);
}

static void absurd_sizes_and_alignments_are_refused(void **state)
{
    (void)state;
    struct err err;
    struct guard_block block;
    assert_int_equal(guard_alloc(guard, SIZE_MAX, GUARD_END, 1, &block, &err), ST_LIMIT);
    assert_int_equal(guard_alloc(guard, (size_t)1 << 50, GUARD_END, 1, &block, &err), ST_LIMIT);
    assert_int_equal(guard_alloc(guard, 8, GUARD_END, 3, &block, &err), ST_USAGE);
    assert_int_equal(guard_alloc(guard, 8, GUARD_END, 0, &block, &err), ST_USAGE);
    assert_int_equal(guard_alloc(guard, 8, GUARD_END, 1 << 20, &block, &err), ST_USAGE);
}

static void poison_is_nan_in_every_format(void **state)
{
    (void)state;

    static const enum dtype types[] = {DTYPE_F64,  DTYPE_F32,       DTYPE_F16,
                                       DTYPE_BF16, DTYPE_F8_E4M3FN, DTYPE_F8_E5M2};
    struct err err;
    struct guard_block block;
    assert_int_equal(guard_alloc(guard, 64, GUARD_END, 1, &block, &err), ST_OK);
    for (unsigned which = 0; which < GUARD_POISON_COUNT; which++) {
        assert_int_equal(guard_poison(guard, &block, which, &err), ST_OK);
        for (size_t t = 0; t < ARRAY_LEN(types); t++) {
            size_t size = dtype_info(types[t])->size;
            for (size_t at = 0; at < 64; at += size) {
                double value = dtype_get(types[t], (char *)block.address + at);
                assert_true(value != value);
            }
        }
    }
    guard_free(guard, &block);
}

static void distance_counts_from_the_edge(void **state)
{
    (void)state;
    struct guard_block block = {.address = (void *)0x100000, .bytes = 100};
    int64_t distance;
    assert_true(guard_distance(&block, 0x100000 + 100, 4096, &distance));
    assert_int_equal(distance, 0);
    assert_true(guard_distance(&block, 0x100000 + 132, 4096, &distance));
    assert_int_equal(distance, 32);
    assert_true(guard_distance(&block, 0x100000 - 4, 4096, &distance));
    assert_int_equal(distance, -4);
    assert_false(guard_distance(&block, 0x100000 + 99, 4096, &distance));
    assert_false(guard_distance(&block, 0x100000 + 100 + 4096, 4096, &distance));
}

static void proof_holds_on_the_cpu(void **state)
{
    (void)state;
    struct guard_proof proof;
    struct err err;
    assert_int_equal(guard_prove(DEVICE_CPU, 0, NULL, &proof, &err), ST_OK);
    for (size_t i = 0; i < GUARD_PROOF_CASE_COUNT; i++) {
        if (!proof.cases[i].caught) {
            fail_msg("%s: %s", guard_proof_case_name((enum guard_proof_case)i), proof.cases[i].how);
        }
    }
    assert_true(proof.reads_proven);
    assert_true(proof.writes_proven);
    assert_int_equal(proof.strength, GUARD_FAULT);
}

static void proof_fails_with_the_guard_off(void **state)
{
    (void)state;
    struct guard_proof_options options = {.force_strength = true, .strength = GUARD_CANARY};
    struct guard_proof proof;
    struct err err;
    assert_int_equal(guard_prove(DEVICE_CPU, 0, &options, &proof, &err), ST_OK);
    assert_false(proof.reads_proven);
    assert_true(proof.writes_proven); /* by canaries */
    assert_non_null(strstr(proof.sentence, "not proven"));
    options.strength = GUARD_NONE;
    assert_int_equal(guard_prove(DEVICE_CPU, 0, &options, &proof, &err), ST_OK);
    assert_false(proof.reads_proven);
    assert_false(proof.writes_proven);
}

static void proof_without_a_device_proves_nothing(void **state)
{
    (void)state;
    struct guard_proof proof;
    struct err err;
    assert_int_equal(guard_prove(DEVICE_CPU, 5, NULL, &proof, &err), ST_OK);
    assert_false(proof.reads_proven);
    assert_non_null(strstr(proof.sentence, "cpu:5"));
}

#define GUARD_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(first_byte_past_each_side_faults),
        GUARD_TEST(write_into_the_slack_is_seen),
        GUARD_TEST(pool_reuses_mappings_and_holes_stay),
        GUARD_TEST(mappings_end_before_the_system_refuses),
        GUARD_TEST(absurd_sizes_and_alignments_are_refused),
        GUARD_TEST(poison_is_nan_in_every_format),
        GUARD_TEST(distance_counts_from_the_edge),
        cmocka_unit_test(proof_holds_on_the_cpu),
        cmocka_unit_test(proof_fails_with_the_guard_off),
        cmocka_unit_test(proof_without_a_device_proves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
