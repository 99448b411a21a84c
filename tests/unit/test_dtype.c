// SPDX-License-Identifier: Apache-2.0
/* Number formats against their definitions: every 8- and 16-bit pattern, and the rounding borders. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"

/* Any pattern read and written again is itself; NaN stays NaN. */
static void every_pattern_survives(void **state)
{
    (void)state;
    for (int t = DTYPE_F16; t <= DTYPE_F8_E5M2FNUZ; t++) {
        unsigned size = dtype_info((enum dtype)t)->size;
        for (uint32_t bits = 0; bits < 1u << (8 * size); bits++) {
            double value = dtype_get((enum dtype)t, &bits);
            uint32_t back = 0;
            dtype_set((enum dtype)t, &back, value);
            if (isnan(value)) {
                assert_true(isnan(dtype_get((enum dtype)t, &back)));
            } else {
                assert_int_equal(back, bits);
            }
        }
    }
}

/* float32 to bfloat16 against the integer trick, over a spread of patterns. */
static void bfloat16_rounds_to_even(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 1u << 20; i++) {
        uint32_t bits = (uint32_t)(i * 4093u);
        float f;
        memcpy(&f, &bits, sizeof f);
        if (isnan(f)) {
            continue;
        }
        uint16_t want = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        uint16_t got = 0;
        dtype_set(DTYPE_BF16, &got, (double)f);
        assert_int_equal(got, want);
    }
}

static void borders(void **state)
{
    (void)state;
    assert_true(dtype_round(DTYPE_F16, 65519.0) == 65504.0);
    assert_true(isinf(dtype_round(DTYPE_F16, 65520.0)));
    assert_true(dtype_round(DTYPE_F16, 0x1p-25) == 0.0);
    assert_true(dtype_round(DTYPE_F16, 0x1.8p-25) == 0x1p-24);
    assert_true(dtype_round(DTYPE_F8_E4M3FN, 448.0) == 448.0);
    assert_true(dtype_round(DTYPE_F8_E4M3FN, 463.0) == 448.0);
    assert_true(isnan(dtype_round(DTYPE_F8_E4M3FN, 480.0)));
    assert_true(dtype_round(DTYPE_F8_E4M3FNUZ, 240.0) == 240.0);
    assert_true(isinf(dtype_round(DTYPE_F8_E5M2, 1e9)));
    assert_false(signbit(dtype_round(DTYPE_F8_E4M3FNUZ, -0.0)));
    assert_true(signbit(dtype_round(DTYPE_BF16, -0.0)));
    for (int t = 0; t <= DTYPE_F8_E5M2FNUZ; t++) {
        const struct dtype_info *info = dtype_info((enum dtype)t);
        assert_true(dtype_round((enum dtype)t, info->largest) == info->largest);
        assert_true(dtype_round((enum dtype)t, ldexp(1.0, info->min_exponent)) ==
                    ldexp(1.0, info->min_exponent));
    }
}

static void integers_saturate(void **state)
{
    (void)state;
    assert_true(dtype_round(DTYPE_I8, 300.0) == 127.0);
    assert_true(dtype_round(DTYPE_I8, -300.0) == -128.0);
    assert_true(dtype_round(DTYPE_U8, -1.0) == 0.0);
    assert_true(dtype_round(DTYPE_I32, (double)NAN) == 0.0);
    int64_t big = 0;
    dtype_set(DTYPE_I64, &big, 1e30);
    assert_true(big == INT64_MAX);
}

static void names(void **state)
{
    (void)state;
    enum dtype t = DTYPE_COUNT;
    assert_true(dtype_find(str_of("BF16"), &t) && t == DTYPE_BF16);
    assert_true(dtype_find(str_of("fp8_e5m2"), &t) && t == DTYPE_F8_E5M2);
    assert_false(dtype_find(str_of("F4"), &t));
    assert_false(dtype_find(str_of(""), &t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_survives),
        cmocka_unit_test(bfloat16_rounds_to_even),
        cmocka_unit_test(borders),
        cmocka_unit_test(integers_saturate),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
