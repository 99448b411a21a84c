// SPDX-License-Identifier: Apache-2.0
/*
 * The HIP back end, hipBLASLt and rocBLAS against the look-alikes of tests/fake, which the loader
 * finds through LD_LIBRARY_PATH: proof, fall-backs, and every planted fault under its name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"

#include "device/gemm.h"
#include "device/guard.h"
#include "device/isolate.h"

static struct guard_proof prove(const char *hip)
{
    struct guard_proof proof;
    struct err err;
    setenv("ASSAY_FAKE_HIP", hip, 1);
    assert_int_equal(guard_prove(DEVICE_HIP, 0, NULL, &proof, &err), ST_OK);
    setenv("ASSAY_FAKE_HIP", "", 1);
    return proof;
}

static void proof_holds_in_both_ways_of_reporting(void **state)
{
    (void)state;
    static const char *const ways[] = {"", "error700", "lost-stores"};
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        struct guard_proof proof = prove(ways[i]);
        assert_true(proof.reads_proven && proof.writes_proven);
        assert_string_equal(proof.path_name, "virtual memory");
    }
}

static void fault_that_never_reports_is_no_proof(void **state)
{
    (void)state;
    struct guard_proof proof = prove("silent");
    assert_false(proof.reads_proven);
    assert_true(proof.writes_proven); /* canaries */
    assert_non_null(strstr(proof.sentence, "not proven"));
}

static void hang_after_a_fault_is_no_proof(void **state)
{
    (void)state;
    struct guard_proof_options options = {.deadline_ms = 500};
    struct guard_proof proof;
    struct err err;
    setenv("ASSAY_FAKE_HIP", "hang", 1);
    assert_int_equal(guard_prove(DEVICE_HIP, 0, &options, &proof, &err), ST_OK);
    setenv("ASSAY_FAKE_HIP", "", 1);
    assert_false(proof.reads_proven);
    assert_non_null(strstr(proof.sentence, "not proven"));
}

static void virtual_memory_that_fails_falls_back(void **state)
{
    (void)state;
    struct guard_proof proof = prove("set-access-fails");
    assert_true(proof.reads_proven);
    assert_string_equal(proof.path_name, "registered host memory");
}

static void layout_of_an_older_version_is_not_guessed(void **state)
{
    (void)state;
    struct guard_proof proof = prove("old-version");
    assert_true(proof.reads_proven);
    assert_string_equal(proof.path_name, "registered host memory");
}

static void memory_that_loses_stores_is_refused(void **state)
{
    (void)state;
    struct guard_proof proof = prove("lost-stores-always");
    assert_false(proof.reads_proven);
    assert_false(proof.writes_proven);
}

static void absent_device_has_the_libraries_words(void **state)
{
    (void)state;
    struct guard_proof proof = prove("no-device");
    assert_false(proof.reads_proven);
    assert_non_null(strstr(proof.sentence, "hipErrorInvalidDevice"));
}

/* --- matrix products --------------------------------------------------------------------------- */

enum {
    M = 40,
    N = 16,
    K = 75
};

struct trial {
    const struct gemm_vendor *vendor;
    int64_t m, n, k;
    size_t choices;
    int64_t guilty; /* id of the choice being run */
    unsigned wrong;
    bool nan;
    struct err err;
};

static enum status run_trial(struct trial *t)
{
    struct arena *a = arena_new(0);
    struct device *device;
    struct guard *guard;
    struct gemm_library *library;
    struct guard_block block[3];
    TRY(device_open(a, DEVICE_HIP, 0, NULL, &device, &t->err));
    TRY(guard_open(a, device, &guard, &t->err));
    TRY(t->vendor->open(a, device, NULL, &library, &t->err));
    struct gemm_shape s = {.m = t->m,
                           .n = t->n,
                           .k = t->k,
                           .lda = t->m,
                           .ldb = t->k,
                           .ldc = t->m,
                           .batch = 1,
                           .dtype_ab = DTYPE_F32,
                           .dtype_c = DTYPE_F32,
                           .alpha = 1};
    const int64_t counts[] = {t->m * t->k, t->k * t->n, t->m * t->n};
    for (size_t i = 0; i < 3; i++) {
        TRY(guard_alloc(guard, (size_t)counts[i] * 4, GUARD_END, 4, &block[i], &t->err));
        TRY(device_fill(device, block[i].address, 0x3f800000, block[i].bytes, &t->err)); /* 1.0 */
    }
    struct gemm_choice choices[16];
    TRY(t->vendor->choices(library, &s, choices, 16, &t->choices, &t->err));
    struct gemm_operands o = {.a = block[0].address, .b = block[1].address, .c = block[2].address};
    float *c = arena_alloc(a, block[2].bytes);
    for (size_t i = 0; i < t->choices; i++) {
        t->guilty = choices[i].id;
        TRY(guard_poison(guard, &block[2], 0, &t->err));
        TRY(t->vendor->run(library, &s, &o, &choices[i], &t->err));
        TRY(device_read(device, c, block[2].address, block[2].bytes, &t->err));
        for (int64_t e = 0; e < counts[2]; e++) {
            if (!(c[e] == (float)t->k)) {
                t->wrong++;
                t->nan = c[e] != c[e];
                return ST_OK; /* t->guilty is the one */
            }
        }
    }
    t->guilty = -1;
    return ST_OK;
}

static void trial_in_child(void *context)
{
    struct trial *t = context;
    if (run_trial(t) != ST_OK) {
        isolate_report(ENDING_DEVICE_LOST, 0, false, t->err.text);
    }
}

static struct trial *shared;

static enum ending try_fault(const struct gemm_vendor *vendor, const char *fault, int64_t m,
                             int64_t n, unsigned deadline_ms)
{
    struct isolate_options options = {.deadline_ms = deadline_ms};
    struct isolate_end end;
    struct err err;
    setenv("ASSAY_FAKE_BLAS", fault, 1);
    /* Large problems are about their borders, not about their depth. */
    *shared = (struct trial){.vendor = vendor, .m = m, .n = n, .k = m > 1000 ? 2 : K};
    assert_int_equal(isolate_run(&options, trial_in_child, shared, &end, &err), ST_OK);
    setenv("ASSAY_FAKE_BLAS", "", 1);
    return end.ending;
}

enum {
    GUILTY = 103,
    PATIENCE_MS = 30000
};
static const struct gemm_vendor *const vendors[] = {&gemm_vendor_hipblaslt, &gemm_vendor_rocblas};

static void sound_library_is_acquitted(void **state)
{
    (void)state;
    for (size_t v = 0; v < ARRAY_LEN(vendors); v++) {
        assert_int_equal(try_fault(vendors[v], "", M, N, PATIENCE_MS), ENDING_OK);
        assert_true(shared->choices >= 5);
        assert_int_equal(shared->wrong, 0);
        assert_int_equal(shared->guilty, -1);
    }
}

static void over_reads_are_found_in_the_guilty_solution(void **state)
{
    (void)state;
    for (size_t v = 0; v < ARRAY_LEN(vendors); v++) {
        assert_int_equal(try_fault(vendors[v], "tile64", M, N, PATIENCE_MS), ENDING_DEVICE_FAULT);
        assert_int_equal(shared->guilty, GUILTY);
        assert_int_equal(try_fault(vendors[v], "ktail", M, N, PATIENCE_MS), ENDING_DEVICE_FAULT);
        assert_int_equal(shared->guilty, GUILTY);
        /* The neighbour that fills its tile passes. */
        assert_int_equal(try_fault(vendors[v], "tile64", M, 64, PATIENCE_MS), ENDING_OK);
        assert_int_equal(shared->guilty, -1);
    }
}

static void output_that_was_not_zeroed_is_nan(void **state)
{
    (void)state;
    for (size_t v = 0; v < ARRAY_LEN(vendors); v++) {
        assert_int_equal(try_fault(vendors[v], "splitk-nan", M, N, PATIENCE_MS), ENDING_OK);
        assert_int_equal(shared->wrong, 1);
        assert_true(shared->nan);
        assert_int_equal(shared->guilty, GUILTY);
    }
}

static void rows_from_two_to_the_nineteen_are_wrong(void **state)
{
    (void)state;
    int64_t border = (int64_t)1 << 19;
    assert_int_equal(try_fault(&gemm_vendor_hipblaslt, "row19-all", border, 1, PATIENCE_MS),
                     ENDING_OK);
    assert_int_equal(shared->wrong, 0);
    assert_int_equal(try_fault(&gemm_vendor_hipblaslt, "row19-all", border + 1, 1, PATIENCE_MS),
                     ENDING_OK);
    assert_int_equal(shared->wrong, 1);
}

static void crash_hang_and_wrong_code_have_names(void **state)
{
    (void)state;
    for (size_t v = 0; v < ARRAY_LEN(vendors); v++) {
        assert_int_equal(try_fault(vendors[v], "crash", M, N, PATIENCE_MS), ENDING_MEMORY_FAULT);
        assert_int_equal(try_fault(vendors[v], "illegal", M, N, PATIENCE_MS), ENDING_ILLEGAL);
        assert_int_equal(try_fault(vendors[v], "hang", M, N, 700), ENDING_HANG);
        assert_int_equal(shared->guilty, GUILTY);
    }
    assert_int_equal(try_fault(&gemm_vendor_hipblaslt, "heuristic-crash", M, N, PATIENCE_MS),
                     ENDING_MEMORY_FAULT);
}

/* --- the list ---------------------------------------------------------------------------------- */

static const struct device_feature *row(const struct device_feature_list *list, const char *backend,
                                        const char *feature)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].backend, backend) == 0 &&
            strcmp(list->items[i].feature, feature) == 0) {
            return &list->items[i];
        }
    }
    return NULL;
}

static void list_names_devices_libraries_and_reasons(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct device_info_list devices;
    struct device_feature_list why;
    struct err err;
    assert_int_equal(device_list(a, NULL, &devices, &why, &err), ST_OK);
    const struct device_info *hip = NULL;
    for (size_t i = 0; i < devices.count; i++) {
        hip = devices.items[i].kind == DEVICE_HIP ? &devices.items[i] : hip;
    }
    assert_non_null(hip);
    assert_string_equal(hip->name, "Fake Radeon");
    assert_string_equal(hip->arch, "gfx1201");
    assert_string_equal(hip->driver, "7.2.53211");
    assert_int_equal(hip->compute_units, 32);
    assert_int_equal(row(&why, "hip", "guard memory")->state, FEATURE_READY);
    assert_string_equal(row(&why, "hipblaslt", "matrix products")->version, "1.2.2");
    assert_int_equal(row(&why, "rocblas", "matrix products")->state, FEATURE_READY);
    const struct device_feature *cuda = row(&why, "cuda", "memory");
    assert_non_null(cuda); /* missing, unless this machine has a card */
    assert_true(cuda->reason[0] != '\0');
    arena_free(a);
}

static void missing_symbol_is_named(void **state)
{
    (void)state;
    struct device_options options = {.library = FAKE_NO_VMM};
    struct arena *a = arena_new(0);
    struct device_info_list devices;
    struct device_feature_list why;
    struct err err;
    assert_int_equal(device_list(a, &options, &devices, &why, &err), ST_OK);
    const struct device_feature *guard = row(&why, "hip", "guard memory");
    assert_int_equal(guard->state, FEATURE_MISSING);
    assert_non_null(strstr(guard->reason, "hipMemGetAllocationGranularity"));
    struct guard_proof_options with = {.device_options = &options};
    struct guard_proof proof;
    assert_int_equal(guard_prove(DEVICE_HIP, 0, &with, &proof, &err), ST_OK);
    assert_string_equal(proof.path_name, "registered host memory");
    assert_true(proof.reads_proven);
    arena_free(a);
}

int main(void)
{
    shared = isolate_shared(sizeof *shared);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proof_holds_in_both_ways_of_reporting),
        cmocka_unit_test(fault_that_never_reports_is_no_proof),
        cmocka_unit_test(hang_after_a_fault_is_no_proof),
        cmocka_unit_test(virtual_memory_that_fails_falls_back),
        cmocka_unit_test(layout_of_an_older_version_is_not_guessed),
        cmocka_unit_test(memory_that_loses_stores_is_refused),
        cmocka_unit_test(absent_device_has_the_libraries_words),
        cmocka_unit_test(sound_library_is_acquitted),
        cmocka_unit_test(over_reads_are_found_in_the_guilty_solution),
        cmocka_unit_test(output_that_was_not_zeroed_is_nan),
        cmocka_unit_test(rows_from_two_to_the_nineteen_are_wrong),
        cmocka_unit_test(crash_hang_and_wrong_code_have_names),
        cmocka_unit_test(list_names_devices_libraries_and_reasons),
        cmocka_unit_test(missing_symbol_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
