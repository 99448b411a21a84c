// SPDX-License-Identifier: Apache-2.0
/*
 * Algorithms of a device's library that run together: each is judged, a fault has the name of one, what
 * happens only together is told too, and the number of calls a run stays small. Against the look-alikes of
 * tests/fake.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../fake/fake_count.h"
#include "ops/gemm_plan.h"
#include "ops/gemm_trial.h"
#include "unit.h"

enum {
    SOLUTIONS = 5,
    GUILTY = 103,
    PROBES = 12
};

static struct gemm_result *result;
static struct gemm_probe probes[PROBES];

/* Products whose B a tile of 64 leaves, of 5 algorithms each. */
static void make_probes(enum dtype dtype)
{
    for (size_t i = 0; i < PROBES; i++) {
        struct gemm_probe *p = &probes[i];
        *p = (struct gemm_probe){.seed = i + 1, .choices = SOLUTIONS, .values = GEMM_VALUES_GRID};
        p->side = i % 2 == 0 ? GUARD_END : GUARD_BEGIN;
        struct gemm_shape *s = &p->shape;
        s->m = 16;
        s->n = 16;
        s->k = 32;
        s->batch = 1;
        s->alpha = 1;
        s->dtype_ab = dtype;
        s->dtype_c = dtype == DTYPE_F32 ? DTYPE_F32 : DTYPE_BF16;
        gemm_shape_pack(s, 0, 0, 0);
    }
}

static void run(const char *plant, size_t count,
                bool (*tick)(void *, const struct gemm_result *, size_t))
{
    const struct gemm_target target = {.vendor = &gemm_vendor_hipblaslt, .device_kind = DEVICE_HIP};
    struct gemm_probe_list list = {.items = probes, .count = count};
    const struct gemm_source source = gemm_source_of_list(&list);
    const struct gemm_trial_options options = {.tick = tick};
    struct err err;
    setenv("ASSAY_FAKE_BLAS", plant, 1);
    assert_int_equal(gemm_trial(&target, &source, &options, result, &err), ST_OK);
    setenv("ASSAY_FAKE_BLAS", "", 1);
    assert_true(result->opened);
}

static void each_algorithm_is_judged(void **state)
{
    (void)state;
    make_probes(DTYPE_F32);
    run("", PROBES, NULL);
    assert_int_equal(result->probes, PROBES * SOLUTIONS);
    assert_int_equal(result->faulty, 0);
    assert_int_equal(result->next, PROBES);
    run("splitk-nan", 1, NULL); /* wrong numbers of one do not touch the others */
    assert_int_equal(result->probes, SOLUTIONS);
    assert_int_equal(result->faulty, 0); /* k is too small for a split */
    probes[0].shape.k = 96;
    gemm_shape_pack(&probes[0].shape, 0, 0, 0);
    run("splitk-nan", 1, NULL);
    assert_int_equal(result->probes, SOLUTIONS);
    assert_int_equal(result->faulty, 1);
    assert_int_equal(result->faults[0].choice.id, GUILTY);
}

static void fault_has_the_name_of_one(void **state)
{
    (void)state;
    make_probes(DTYPE_F32);
    run("tile64", 2, NULL);
    assert_int_equal(result->probes, 2 * SOLUTIONS);
    assert_int_equal(result->faulty,
                     1); /* the second lies behind its hole: nothing is unmapped there */
    assert_int_equal(result->faults[0].index, 0);
    assert_int_equal(result->faults[0].choice.id, GUILTY);
    assert_int_equal(result->faults[0].operand, GEMM_OPERAND_B);
    assert_int_equal(result->next, 2);
}

static void all_that_are_guilty_are_named(void **state)
{
    (void)state;
    make_probes(DTYPE_F32);
    run("tile64-all", 1, NULL);
    assert_int_equal(result->probes, SOLUTIONS);
    assert_int_equal(result->faulty, SOLUTIONS);
    for (size_t i = 0; i < SOLUTIONS; i++) {
        assert_int_equal(result->faults[i].choice.id, 100 + (int64_t)i);
    }
}

static void crash_in_a_call_has_the_name_of_one(void **state)
{
    (void)state;
    make_probes(DTYPE_F32);
    run("crash", 1, NULL);
    assert_int_equal(result->probes, SOLUTIONS);
    assert_int_equal(result->faulty, 1);
    assert_int_equal(result->faults[0].choice.id, GUILTY);
}

static void what_happens_only_together_is_told(void **state)
{
    (void)state;
    make_probes(DTYPE_F32);
    run("crowd", 2, NULL);
    assert_int_equal(result->probes, 2 * SOLUTIONS);
    assert_int_equal(result->faulty, 1);
    assert_int_equal(result->faults[0].kind, GEMM_STRAYS);
    assert_non_null(strstr(result->faults[0].choice.name, "none of them did it alone"));
}

/* The deadline is one product's: five that take 0.3 s each are no hang of 1 s. */
static void slow_together_is_no_hang(void **state)
{
    (void)state;
    make_probes(DTYPE_F32);
    const struct gemm_target target = {.vendor = &gemm_vendor_hipblaslt, .device_kind = DEVICE_HIP};
    struct gemm_probe_list list = {.items = probes, .count = 1};
    const struct gemm_source source = gemm_source_of_list(&list);
    const struct gemm_trial_options options = {.deadline_ms = 1000};
    struct err err;
    setenv("ASSAY_FAKE_BLAS", "slow", 1);
    assert_int_equal(gemm_trial(&target, &source, &options, result, &err), ST_OK);
    setenv("ASSAY_FAKE_BLAS", "hang", 1);
    assert_int_equal(result->probes, SOLUTIONS);
    assert_int_equal(result->faulty, 0);
    assert_int_equal(gemm_trial(&target, &source, &options, result, &err), ST_OK);
    setenv("ASSAY_FAKE_BLAS", "", 1);
    assert_int_equal(result->probes, SOLUTIONS);
    assert_int_equal(result->faulty, 1);
    assert_int_equal(result->faults[0].kind, GEMM_HANGS);
    assert_int_equal(result->faults[0].choice.id, GUILTY);
}

static void scale_that_is_ignored_is_seen(void **state)
{
    (void)state;
    static const double scales[][2] = {{0x1p-20, 0x1p-17}, {0.0371, 1.93}};
    make_probes(DTYPE_F8_E4M3FN);
    for (size_t i = 0; i < ARRAY_LEN(scales); i++) {
        for (int other = 0; other < 2; other++) {
            struct gemm_shape *s = &probes[0].shape;
            s->scale_a = scales[i][0];
            s->scale_b = scales[i][1];
            s->other_fp8_b = other != 0;
            s->transpose_a = true;
            gemm_shape_pack(s, 0, 16, 16);
            run("", 1, NULL);
            assert_int_equal(result->probes, SOLUTIONS);
            assert_int_equal(result->faulty, 0);
            run("no-scale", 1, NULL);
            assert_int_equal(result->faulty, 1);
            assert_int_equal(result->faults[0].kind, GEMM_INACCURATE);
            assert_int_equal(result->faults[0].choice.id, GUILTY);
        }
    }
}

static bool stop_at_once(void *context, const struct gemm_result *so_far, size_t done)
{
    (void)context;
    (void)so_far;
    (void)done;
    return false;
}

static void stop_counts_exactly_what_was_done(void **state)
{
    (void)state;
    static struct gemm_probe many[4000];
    make_probes(DTYPE_F32);
    for (size_t i = 0; i < ARRAY_LEN(many); i++) {
        many[i] = probes[i % PROBES];
    }
    const struct gemm_target target = {.vendor = &gemm_vendor_hipblaslt, .device_kind = DEVICE_HIP};
    struct gemm_probe_list list = {.items = many, .count = ARRAY_LEN(many)};
    const struct gemm_source source = gemm_source_of_list(&list);
    const struct gemm_trial_options options = {.tick = stop_at_once};
    struct err err;
    assert_int_equal(gemm_trial(&target, &source, &options, result, &err), ST_OK);
    assert_true(result->stopped);
    assert_true(result->next < ARRAY_LEN(many));
    assert_int_equal(result->probes, result->next * SOLUTIONS);
}

static void calls_a_run_are_few(void **state)
{
    (void)state;
    char path[] = "/tmp/assay-calls-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    uint64_t calls[FAKE_CALL_COUNT];
    make_probes(DTYPE_F32);
    setenv("ASSAY_FAKE_COUNT", path, 1);
    run("", PROBES, NULL);
    unsetenv("ASSAY_FAKE_COUNT");
    assert_int_equal(pread(fd, calls, sizeof calls, 0), sizeof calls);
    close(fd);
    unlink(path);
    uint64_t runs = result->probes;
    assert_int_equal(calls[FAKE_CALL_KERNEL], runs);
    /* An output goes over and comes back; A, B and their canaries are shared by five. */
    assert_true(calls[FAKE_CALL_QUEUED] <= 2 * runs + 4 * PROBES);
    /* One wait a product; the rest belongs to the 8 or so mappings that are made once. */
    uint64_t waits = calls[FAKE_CALL_SYNC] + calls[FAKE_CALL_TO_HOST] + calls[FAKE_CALL_TO_DEVICE];
    assert_true(waits <= PROBES + 10 * (uint64_t)calls[FAKE_CALL_MEMORY]);
    print_message("%.2f calls a run, %.2f of them waits, mappings included\n",
                  (double)(calls[FAKE_CALL_QUEUED] + calls[FAKE_CALL_KERNEL] + waits) /
                      (double)runs,
                  (double)waits / (double)runs);
}

int main(void)
{
    result = calloc(1, sizeof *result);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_algorithm_is_judged),
        cmocka_unit_test(fault_has_the_name_of_one),
        cmocka_unit_test(all_that_are_guilty_are_named),
        cmocka_unit_test(crash_in_a_call_has_the_name_of_one),
        cmocka_unit_test(what_happens_only_together_is_told),
        cmocka_unit_test(slow_together_is_no_hang),
        cmocka_unit_test(scale_that_is_ignored_is_seen),
        cmocka_unit_test(stop_counts_exactly_what_was_done),
        cmocka_unit_test(calls_a_run_are_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
