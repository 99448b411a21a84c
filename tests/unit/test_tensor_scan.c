// SPDX-License-Identifier: Apache-2.0
/* The vector scan against the plain loop, over random bits, every type, length and alignment. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/tensor_scan.h"

static uint64_t state_of_random = 88172645463325252u;

static uint64_t next_random(void)
{
    state_of_random ^= state_of_random << 13;
    state_of_random ^= state_of_random >> 7;
    state_of_random ^= state_of_random << 17;
    return state_of_random;
}

static void compare(enum dtype t, const unsigned char *p, uint64_t count, uint64_t place)
{
    struct tensor_stats fast = tensor_stats_none();
    struct tensor_stats plain = tensor_stats_none();
    tensor_scan(t, p, count, place, 7, &fast);
    tensor_scan_plain(t, p, count, 7, &plain);
    assert_int_equal(fast.elements, plain.elements);
    assert_int_equal(fast.nan, plain.nan);
    assert_int_equal(fast.inf, plain.inf);
    assert_int_equal(fast.zero, plain.zero);
    assert_int_equal(fast.denormal, plain.denormal);
    assert_int_equal(fast.first_bad, plain.first_bad);
    assert_true(fast.abs_max == plain.abs_max);
    double off = fabs(fast.sum_squares - plain.sum_squares);
    if (isfinite(plain.sum_squares)) {
        assert_true(off <= 1e-5 * plain.sum_squares);
    }
}

static void vectors_count_what_the_plain_loop_counts(void **state)
{
    (void)state;
    static unsigned char buffer[40000];
    for (int round = 0; round < 60; round++) {
        for (size_t i = 0; i + 8 <= sizeof buffer; i += 8) {
            uint64_t r = next_random();
            memcpy(buffer + i, &r, 8);
        }
        if (round % 3 == 1) { /* zeros between */
            memset(buffer + next_random() % 9000, 0, 20000);
        }
        for (int t = 0; t < DTYPE_COUNT; t++) {
            unsigned size = dtype_info((enum dtype)t)->size;
            uint64_t count = next_random() % (30000 / size);
            compare((enum dtype)t, buffer + next_random() % 64, count, next_random() % 10000);
        }
    }
}

/* Ordinary weights, so that the vector path is the one that runs, then one value planted. */
static void one_bad_value_among_many_is_found(void **state)
{
    (void)state;

    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16,       DTYPE_BF16,
                                       DTYPE_F64, DTYPE_F8_E4M3FN, DTYPE_F8_E5M2};

    static double values[5000];
    static unsigned char bytes[5000 * 8];
    for (size_t t = 0; t < 6; t++) {
        unsigned size = dtype_info(types[t])->size;
        for (size_t i = 0; i < 5000; i++) {
            values[i] = ((double)(next_random() % 2001) - 1000) / 500;
        }
        dtype_from_double(types[t], values, 5000, bytes);
        compare(types[t], bytes, 5000, 0);
        struct tensor_stats s = tensor_stats_none();
        tensor_scan(types[t], bytes, 5000, 100, 0, &s);
        assert_int_equal(s.nan + s.inf, 0);
        for (size_t at = 0; at < 5000; at += 613) {
            unsigned char saved[8];
            memcpy(saved, bytes + at * size, size);
            dtype_set(types[t], bytes + at * size, NAN);
            s = tensor_stats_none();
            tensor_scan(types[t], bytes, 5000, 100, 0, &s);
            assert_int_equal(s.nan, 1);
            assert_int_equal(s.first_bad, at);
            memcpy(bytes + at * size, saved, size);
        }
    }
}

static void tiny_and_huge_values_keep_their_norm(void **state)
{
    (void)state;
    static double values[2048];
    static unsigned char bytes[2048 * 4];
    static const double sizes[] = {1e-37, 1e-25, 1e-18, 1e17, 1e30};

    static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16};

    for (size_t k = 0; k < 5; k++) {
        for (size_t i = 0; i < 2048; i++) {
            values[i] = sizes[k];
        }
        for (size_t t = 0; t < 2; t++) {
            dtype_from_double(types[t], values, 2048, bytes);
            compare(types[t], bytes, 2048, 0);
            struct tensor_stats s = tensor_stats_none();
            tensor_scan(types[t], bytes, 2048, 0, 0, &s);
            assert_true(fabs(tensor_stats_rms(&s) / sizes[k] - 1) < 0.01);
        }
    }
}

static void pages_of_zeros_are_counted_where_the_file_has_them(void **state)
{
    (void)state;
    static unsigned char bytes[5 * SCAN_PAGE];
    memset(bytes, 0x3c, sizeof bytes);
    struct tensor_stats s = tensor_stats_none();
    /* The tensor begins 1000 bytes into a page; its third page is zero. */
    memset(bytes + 2 * SCAN_PAGE - 1000, 0, SCAN_PAGE);
    tensor_scan(DTYPE_BF16, bytes, sizeof bytes / 2, 1000, 0, &s);
    assert_int_equal(s.zero_pages, 1);
    s = tensor_stats_none();
    tensor_scan(DTYPE_BF16, bytes, sizeof bytes / 2, 0, 0, &s);
    assert_int_equal(s.zero_pages, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_count_what_the_plain_loop_counts),
        cmocka_unit_test(one_bad_value_among_many_is_found),
        cmocka_unit_test(tiny_and_huge_values_keep_their_norm),
        cmocka_unit_test(pages_of_zeros_are_counted_where_the_file_has_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
