// SPDX-License-Identifier: Apache-2.0
/* Walking through JSON without building it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json_scan.h"

static void members_come_as_views(void **state)
{
    (void)state;
    struct json_scan s;
    struct str key;
    struct str value;
    assert_true(
        json_scan_open(&s, STR(" {\"a\": [1, {\"x\": \"]\"}], \"b\\\"\":true , \"c\":{}}")));
    assert_true(json_scan_next(&s, &key, &value));
    assert_true(str_is(key, "a"));
    assert_true(str_is(value, "[1, {\"x\": \"]\"}]"));
    assert_true(json_scan_next(&s, &key, &value));
    assert_true(str_is(value, "true"));
    assert_true(json_scan_next(&s, &key, &value));
    assert_true(str_is(value, "{}"));
    assert_false(json_scan_next(&s, &key, &value));
    assert_false(s.broken);
}

static void counts_refuse_a_cut_text(void **state)
{
    (void)state;
    assert_int_equal(json_scan_count(STR("[]")), 0);
    assert_int_equal(json_scan_count(STR("[1,2,[3,4]]")), 3);
    assert_int_equal(json_scan_count(STR("{\"a\":1,\"b\":\"\\\\\"}")), 2);
    assert_int_equal(json_scan_count(STR("[1,2")), SIZE_MAX);
    assert_int_equal(json_scan_count(STR("[1,\"2")), SIZE_MAX);
    assert_int_equal(json_scan_count(STR("[{]}")), SIZE_MAX);
    assert_int_equal(json_scan_count(STR("7")), SIZE_MAX);
    assert_int_equal(json_scan_count(STR("")), SIZE_MAX);
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    static char deep[4000];
    for (size_t i = 0; i < sizeof deep; i++) {
        deep[i] = '[';
    }
    assert_int_equal(json_scan_count((struct str){deep, sizeof deep}), SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_come_as_views),
        cmocka_unit_test(counts_refuse_a_cut_text),
        cmocka_unit_test(deep_nesting_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
