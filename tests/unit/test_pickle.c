// SPDX-License-Identifier: Apache-2.0
/* Pickles read as data: each test is a way to get code past a reader, or a value torch writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/pickle.h"

struct run {
    struct arena *arena;
    struct issues issues;
    struct pickle pickle;
    struct err err;
    enum status status;
};

static struct run run_limits(struct str bytes, struct pickle_limits limits)
{
    struct run r = {.arena = arena_new(0)};
    issues_init(&r.issues, r.arena, "test");
    r.status = pickle_read(r.arena, bytes, "test", limits, &r.issues, &r.pickle, &r.err);
    return r;
}

static struct run run(struct str bytes)
{
    return run_limits(bytes, PICKLE_LIMITS_DEFAULT);
}

static void expect_issue(struct str bytes, const char *id)
{
    struct run r = run(bytes);
    if (issues_count(&r.issues, id) == 0) {
        for (size_t i = 0; i < r.issues.list.count; i++) {
            print_message("%s: %s\n", r.issues.list.items[i].id, r.issues.list.items[i].claim);
        }
        fail_msg("no issue %s (status %d: %s)", id, (int)r.status, r.err.text);
    }
    arena_free(r.arena);
}

static void expect_clean(struct str bytes)
{
    struct run r = run(bytes);
    assert_int_equal(r.status, ST_OK);
    assert_int_equal(r.issues.list.count, 0);
    arena_free(r.arena);
}

static void test_reduce_of_system_is_named(void **state)
{
    (void)state;
    expect_issue(STR("\x80\x02"
                     "cposix\nsystem\nX\x02\0\0\0id\x85R."),
                 "pickle-dangerous-global");
    expect_issue(STR("cos\nsystem\n(S'id'\ntR."), "pickle-dangerous-global");
    expect_issue(STR("(S'id'\nios\nsystem\n."), "pickle-dangerous-global");
    expect_issue(STR("(cos\nsystem\nS'id'\no."), "pickle-dangerous-global");
}

static void test_stack_global_through_the_memo_is_followed(void **state)
{
    (void)state;
    /* "os" and "system" stored, popped, fetched in the other order, with harmless texts between */
    expect_issue(STR("\x80\x04\x8c\x06system\x94\x30\x8c\x02os\x94\x30\x8c\x0b"
                     "collections0h\x01h\x00\x93\x8c\x02id\x85R."),
                 "pickle-dangerous-global");
    /* memo entry 0 written again after a harmless first value */
    expect_issue(STR("\x80\x04\x8c\x0b"
                     "collectionsq\x00"
                     "0\x8c\x02osq\x00"
                     "0h\x00\x8c\x06system\x93."),
                 "pickle-dangerous-global");
    /* an entry far away */
    expect_issue(STR("\x80\x04\x8c\x02osr\xff\xff\xff\xff"
                     "0j\xff\xff\xff\xff\x8c\x06system\x93."),
                 "pickle-dangerous-global");
}

static void test_memoize_counts_distinct_entries(void **state)
{
    (void)state;
    /* PUT 5, then MEMOIZE: CPython stores under 1, not under 6 */
    expect_issue(STR("\x80\x04\x8c\x01xq\x05"
                     "0\x8c\x02os\x94"
                     "0h\x01\x8c\x06system\x93."),
                 "pickle-dangerous-global");
}

static void test_escaped_names_are_decoded(void **state)
{
    (void)state;
    expect_issue(STR("V\\u006fs\nV\\u0073ystem\n\x93."), "pickle-dangerous-global");
    expect_issue(STR("S'\\x6fs'\nS\"s\\171stem\"\n\x93."), "pickle-dangerous-global");
}

static void test_computed_names_are_outside(void **state)
{
    (void)state;
    expect_issue(STR("\x80\x04K\x01K\x02\x93."), "pickle-computed-name");
    /* calling the result of a call */
    expect_issue(STR("\x80\x02"
                     "ccollections\nOrderedDict\n)R)R."),
                 "pickle-computed-name");
}

static void test_attribute_paths_are_outside(void **state)
{
    (void)state;
    expect_issue(STR("\x80\x04\x8c\x0b"
                     "collections\x8c\x14OrderedDict.__init__\x93."),
                 "pickle-unknown-global");
}

static void test_payload_before_a_broken_opcode_is_named(void **state)
{
    (void)state;
    struct run r = run(STR("cos\nsystem\n(S'id'\ntR\xff\xff\xff"));
    assert_int_equal(r.status, ST_FORMAT);
    assert_int_equal(issues_count(&r.issues, "pickle-dangerous-global"), 1);
    assert_int_equal(r.pickle.bytes_not_understood, 3);
    arena_free(r.arena);
}

static void test_registry_codes_are_outside(void **state)
{
    (void)state;
    expect_issue(STR("\x80\x02\x82\x01."), "pickle-extension");
    expect_issue(STR("\x80\x02\x84\x01\x02\x03\x04."), "pickle-extension");
}

static void test_allowed_callable_with_odd_arguments(void **state)
{
    (void)state;
    /* bytearray(2**40): memory */
    expect_issue(STR("\x80\x02"
                     "c__builtin__\nbytearray\n\x8a\x06\0\0\0\0\0\1\x85R."),
                 "pickle-odd-arguments");
    /* a storage class called */
    expect_issue(STR("\x80\x02"
                     "ctorch\nFloatStorage\nK\x01\x85R."),
                 "pickle-odd-arguments");
    /* another codec than latin1 */
    expect_issue(STR("\x80\x02"
                     "c_codecs\nencode\nX\x01\0\0\0xX\x05\0\0\0rot13\x86R."),
                 "pickle-odd-arguments");
}

static void test_build_on_a_class_or_with_methods(void **state)
{
    (void)state;
    expect_issue(STR("\x80\x02"
                     "ccollections\nOrderedDict\n}b."),
                 "pickle-odd-build");
    expect_issue(STR("\x80\x02"
                     "ccollections\nOrderedDict\n)R}X\x0c\0\0\0__setstate__Nsb."),
                 "pickle-odd-build");
}

static void test_lying_frames(void **state)
{
    (void)state;
    expect_issue(STR("\x80\x04\x95\xff\0\0\0\0\0\0\0N."), "pickle-frame");
    expect_issue(STR("\x80\x04\x95\x03\0\0\0\0\0\0\0\x8c\x05hello."), "pickle-frame");
    expect_clean(STR("\x80\x04\x95\x02\0\0\0\0\0\0\0N."));
}

static void test_dropped_calls(void **state)
{
    (void)state;
    expect_issue(STR("\x80\x02"
                     "ccollections\nOrderedDict\n)R0N."),
                 "pickle-values-dropped");
    expect_issue(STR("\x80\x02NN."), "pickle-values-dropped");
}

static void test_odd_persistent_id(void **state)
{
    (void)state;
    expect_issue(STR("Phttp://example.org\n."), "pickle-persistent-id");
}

static void test_cut_and_empty(void **state)
{
    (void)state;
    const struct str whole = STR("\x80\x02}q\x00X\x01\0\0\0aK\x01s.");
    for (size_t n = 0; n < whole.n; n++) {
        struct run r = run(str_slice(whole, 0, n));
        assert_int_equal(r.status, ST_FORMAT);
        arena_free(r.arena);
    }
    expect_clean(whole);
}

static void test_numbers(void **state)
{
    (void)state;
    struct run r = run(STR("\x80\x02(J\xff\xff\xff\xff\x8a\x01\xfeK\xffM\x01\x01"
                           "G?\xf8\0\0\0\0\0\0\x8a\x0a"
                           "0123456789I01\nL-7L\nt."));
    assert_int_equal(r.status, ST_OK);
    const struct pickle_value *t = r.pickle.root;
    assert_int_equal(t->count, 8);
    assert_int_equal(t->items[0]->integer, -1);
    assert_int_equal(t->items[1]->integer, -2);
    assert_int_equal(t->items[2]->integer, 255);
    assert_int_equal(t->items[3]->integer, 257);
    assert_true(t->items[4]->real == 1.5);
    assert_int_equal(t->items[5]->kind, PICKLE_LONG);
    assert_int_equal(t->items[6]->kind, PICKLE_BOOL);
    assert_int_equal(t->items[7]->integer, -7);
    arena_free(r.arena);
}

static void test_ordered_dict_is_a_dict(void **state)
{
    (void)state;
    struct run r = run(STR("\x80\x02"
                           "ccollections\nOrderedDict\n)R(X\x01\0\0\0aK\x05X\x01\0\0\0bK\x06u."));
    assert_int_equal(r.status, ST_OK);
    int64_t n = 0;
    assert_true(pickle_int(pickle_get(r.pickle.root, "b"), &n));
    assert_int_equal(n, 6);
    assert_null(pickle_get(r.pickle.root, "c"));
    assert_int_equal(r.issues.list.count, 0);
    arena_free(r.arena);
}

static void test_ceilings_hold(void **state)
{
    (void)state;
    char many[1000];
    memset(many, 'N', sizeof many);
    struct pickle_limits few = {.values = 100, .memo = 100, .stack = 100};
    struct run r = run_limits((struct str){.p = many, .n = sizeof many}, few);
    assert_int_equal(r.status, ST_LIMIT);
    arena_free(r.arena);
    memset(many, ']', sizeof many);
    r = run_limits((struct str){.p = many, .n = sizeof many}, few);
    assert_int_equal(r.status, ST_LIMIT);
    arena_free(r.arena);
    memset(many, '(', sizeof many);
    r = run_limits((struct str){.p = many, .n = sizeof many}, few);
    assert_int_equal(r.status, ST_LIMIT);
    arena_free(r.arena);
}

static void test_known_class_with_constructor(void **state)
{
    (void)state;
    /* made without its constructor, and an enum member: known, no issue */
    expect_clean(STR("\x80\x02"
                     "ctransformers.training_args\nTrainingArguments\n)\x81}b."));
    expect_clean(STR("\x80\x02"
                     "ctransformers.trainer_utils\nIntervalStrategy\nX\x02\0\0\0no\x85R."));
    expect_issue(STR("\x80\x02"
                     "ctransformers.integrations.deepspeed\nHfDeepSpeedConfig\n}\x85R."),
                 "pickle-odd-arguments");
    /* a function of a module whose classes are known */
    expect_issue(STR("\x80\x02"
                     "ctransformers.trainer_utils\nspeed_metrics\n."),
                 "pickle-unknown-global");
}

static void test_looks_like(void **state)
{
    (void)state;
    assert_true(pickle_looks_like(STR("\x80\x02N.")));
    assert_true(pickle_looks_like(STR("cos\nsystem\n(S'id'\ntR.")));
    assert_false(pickle_looks_like(STR("{\"a\": 1}")));
    assert_false(pickle_looks_like(STR("version https://git-lfs.github.com/spec/v1\n")));
    assert_false(pickle_looks_like(STR("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reduce_of_system_is_named),
        cmocka_unit_test(test_stack_global_through_the_memo_is_followed),
        cmocka_unit_test(test_memoize_counts_distinct_entries),
        cmocka_unit_test(test_escaped_names_are_decoded),
        cmocka_unit_test(test_computed_names_are_outside),
        cmocka_unit_test(test_attribute_paths_are_outside),
        cmocka_unit_test(test_payload_before_a_broken_opcode_is_named),
        cmocka_unit_test(test_registry_codes_are_outside),
        cmocka_unit_test(test_allowed_callable_with_odd_arguments),
        cmocka_unit_test(test_build_on_a_class_or_with_methods),
        cmocka_unit_test(test_lying_frames),
        cmocka_unit_test(test_dropped_calls),
        cmocka_unit_test(test_odd_persistent_id),
        cmocka_unit_test(test_cut_and_empty),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_ordered_dict_is_a_dict),
        cmocka_unit_test(test_ceilings_hold),
        cmocka_unit_test(test_known_class_with_constructor),
        cmocka_unit_test(test_looks_like),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
