// SPDX-License-Identifier: Apache-2.0
/* Strings, numbers, versions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "base/version.h"

static void cut_line_drops_crlf(void **state)
{
    (void)state;
    struct str s = STR("a\r\nb");
    struct str line;
    assert_true(str_cut_line(&s, &line));
    assert_true(str_is(line, "a"));
    assert_true(str_cut_line(&s, &line));
    assert_true(str_is(line, "b"));
    assert_false(str_cut_line(&s, &line));
}

/* An empty view without a pointer handed to memmem or memcmp. */
static void empty_views_need_no_pointer(void **state)
{
    (void)state;
    struct str none = {0};
    assert_false(str_has(none, "x"));
    assert_int_equal(str_find(none, "", 0), 0);
    assert_true(str_starts(none, ""));
    assert_true(str_ends(none, ""));
    assert_false(str_ends(none, "x"));
    assert_int_equal(str_find(STR("abc"), "bc", 2), SIZE_MAX);
    assert_int_equal(str_find(STR("abc"), "bc", 1), 1);
}

static void numbers_refuse_trailing_text(void **state)
{
    (void)state;
    uint64_t u;
    assert_int_equal(str_to_u64(STR(" 42 "), 10, &u), ST_OK);
    assert_int_equal(u, 42);
    assert_int_equal(str_to_u64(STR("42k"), 10, &u), ST_FORMAT);
    assert_int_equal(str_to_u64(STR("-1"), 10, &u), ST_FORMAT);
    assert_int_equal(str_to_u64(STR("99999999999999999999999"), 10, &u), ST_FORMAT);
}

static void versions_ignore_the_local_part(void **state)
{
    (void)state;
    assert_int_equal(version_cmp(STR("2.12.0+rocm10.0"), STR("2.12.0+rocm7.0")), 0);
    assert_true(version_cmp(STR("6.14.0-24-generic"), STR("6.2")) > 0);
    assert_true(version_cmp(STR("2.10.0.dev20250929+rocm7.0"), STR("2.10.0")) < 0);
    assert_true(version_cmp(STR("7.10"), STR("7.2.1")) > 0);
    assert_int_equal(version_cmp(STR("6.4"), STR("6.4.0")), 0);
}

static void distance_counts_transposition_once(void **state)
{
    (void)state;
    assert_int_equal(str_distance(STR("lora_rnak"), STR("lora_rank"), 3), 1);
    assert_int_equal(str_distance(STR("a"), STR("a"), 3), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_line_drops_crlf),
        cmocka_unit_test(empty_views_need_no_pointer),
        cmocka_unit_test(numbers_refuse_trailing_text),
        cmocka_unit_test(versions_ignore_the_local_part),
        cmocka_unit_test(distance_counts_transposition_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
