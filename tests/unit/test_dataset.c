// SPDX-License-Identifier: Apache-2.0
/* Records and their lines in every form, the set of what was seen, and the order of roles. */
#include <inttypes.h>

#include "model/data_check.h"
#include "model/data_seen.h"
#include "temp_root.h"
#include "unit.h"

static struct arena *arena;

/* Lines and texts of all records: "1:{...} 3:{...} "; what stopped it in the end. */
static const char *records_of(enum dataset_form form, const char *text)
{
    struct dataset d = {.form = form, .line = 1};
    struct dataset_record r;
    struct strbuf out;
    struct err err = {0};
    bool any = true;
    enum status status;
    d.map = file_map_of_bytes("x", str_of(text));
    strbuf_init(&out, arena, 10000);
    while ((status = dataset_next(&d, arena, &r, &any, &err)) == ST_OK && any) {
        strbuf_fmt(&out, "%" PRIu64 ":%.*s ", r.line, STR_ARG(r.text));
    }
    strbuf_addz(&out, status == ST_OK ? "end" : err.text);
    return out.p;
}

static void records_begin_on_their_lines(void **state)
{
    (void)state;
    assert_string_equal(records_of(DATASET_LINES, "{}\n\n {\"a\":1} \r\n7"),
                        "1:{} 3:{\"a\":1} 4:7 end");
    assert_string_equal(records_of(DATASET_LINES, ""), "end");
    assert_string_equal(
        records_of(DATASET_ARRAY, "[{},\n\n {\"a\":\n1}, 5 ,\n\"x\\\"]\", [1], null]\n"),
        "1:{} 3:{\"a\":\n1} 4:5 5:\"x\\\"]\" 5:[1] 5:null end");
    assert_string_equal(records_of(DATASET_ARRAY, "[]"), "end");
    assert_string_equal(records_of(DATASET_TEXT, "one\n\ntwo\n"), "1:one 3:two end");
}

static void an_array_that_breaks_off_says_where(void **state)
{
    (void)state;
    static const char *const texts[] = {"[{},\n{", "[{}\n", "[{}\n,", "[\n\n", "[{} {}]",
                                        "[1]\n]",  "{}",    "[01]",   "["};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        const char *got = records_of(DATASET_ARRAY, texts[i]);
        assert_non_null(strstr(got, "Line "));
    }
    assert_non_null(strstr(records_of(DATASET_ARRAY, "[{},\n{"), "Line 2"));
}

static void what_was_seen_is_remembered_while_the_set_grows(void **state)
{
    (void)state;

    enum {
        COUNT = 200000
    };
    struct data_seen *s = data_seen_new();
    struct data_place p;
    for (uint64_t i = 0; i < COUNT; i++) {
        assert_false(data_seen_find(s, i * 0x9E3779B97F4A7C15u, &p));
        assert_true(data_seen_add(s, i * 0x9E3779B97F4A7C15u,
                                  (struct data_place){.file = 3, .line = (uint32_t)i}));
    }
    for (uint64_t i = 0; i < COUNT; i++) {
        assert_true(data_seen_find(s, i * 0x9E3779B97F4A7C15u, &p));
        assert_int_equal(p.line, i);
        assert_int_equal(p.file, 3);
    }
    data_seen_free(s);
    data_seen_free(NULL);
}

static const struct {
    const char *json;
    enum data_layout layout;
    size_t turns;
    const char *missing;
    bool in_order;
} samples[] = {
    {"{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"a\"}]}",
     DATA_MESSAGES, 2, NULL, true},
    {"{\"conversations\":[{\"from\":\"human\",\"value\":\"q\"},{\"from\":\"gpt\",\"value\":\"a\"}],"
     "\"system\":\"s\"}",
     DATA_SHAREGPT, 3, NULL, true},
    {"{\"conversations\":[{\"from\":\"human\",\"value\":7}]}", DATA_SHAREGPT, 1, "content", false},
    {"{\"instruction\":\"i\",\"input\":\"x\",\"output\":\"o\"}", DATA_ALPACA, 2, NULL, true},
    {"{\"instruction\":\"i\"}", DATA_ALPACA, 2, "output", true},
    {"{\"prompt\":\"p\",\"completion\":\"c\"}", DATA_PROMPT, 2, NULL, true},
    {"{\"prompt\":\"p\"}", DATA_PROMPT_ONLY, 1, NULL, true},
    {"{\"input_ids\":[1,2],\"labels\":[-100,2]}", DATA_IDS, 0, NULL, true},
    {"{\"prompt\":\"p\",\"completions\":[\"a\"],\"labels\":[true]}", DATA_STEPS, 2, NULL, true},
    {"{\"chosen\":\"p a\",\"rejected\":\"p b\"}", DATA_PROMPT, 1, NULL, true},
    {"{\"prompt\":\"p\",\"chosen\":\"a\",\"rejected\":\"b\"}", DATA_PROMPT, 2, NULL, true},
    {"{\"text\":[]}", DATA_TEXT, 1, "text", true},
    {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"audio\"},{\"type\":\"odd\"}]}]}",
     DATA_MESSAGES, 1, "text of a part", false},
    {"[]", DATA_MESSAGES, 0, NULL, true},
    {"{\"messages\":null,\"text\":\"t\"}", DATA_TEXT, 1, NULL, true},
};

static void layouts_are_told_by_their_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
        const struct tree *t;
        struct data_sample s;
        size_t turn;
        assert_int_equal(
            tree_from_json(arena, str_of(samples[i].json), "x", TREE_LIMITS_DEFAULT, &t, NULL),
            ST_OK);
        data_sample_read(arena, t, &s);
        assert_int_equal(s.layout, samples[i].layout);
        assert_int_equal(s.turns.count, samples[i].turns);
        assert_string_equal(s.missing != NULL ? s.missing : "",
                            samples[i].missing != NULL ? samples[i].missing : "");
        assert_int_equal(data_sample_order(&s, &turn) == NULL, samples[i].in_order);
    }
}

static void quantiles_are_those_of_the_sorted_lengths(void **state)
{
    (void)state;
    struct data_file f = {.samples = 100};
    assert_int_equal(data_quantile(&f, .5), 0);
    f.lengths = arena_array(arena, DATA_LENGTH_MAX + 1, sizeof *f.lengths);
    for (size_t i = 1; i <= 100; i++) {
        f.lengths[i] = 1;
    }
    assert_int_equal(data_quantile(&f, .5), 50);
    assert_int_equal(data_quantile(&f, .99), 99);
    assert_int_equal(data_quantile(&f, 1), 100);
}

/* A file that shrinks under the mapping is an error, not a signal. */
static void a_file_that_shrinks_is_named(void **state)
{
    (void)state;
    struct dataset d;
    struct dataset_record r;
    struct err err = {0};
    bool any = true;

    enum {
        SIZE = 12 << 20
    };

    char *bytes = arena_alloc(arena, SIZE);
    memset(bytes, 'x', SIZE);
    for (size_t i = 99; i < SIZE; i += 100) {
        bytes[i] = '\n';
    }
    temp_write_bytes("/a.txt", bytes, SIZE);
    const char *path = arena_fmt(arena, "%s/a.txt", temp_root);
    assert_int_equal(dataset_open(path, &d, &err), ST_OK);
    assert_int_equal(dataset_next(&d, arena, &r, &any, &err), ST_OK);
    assert_int_equal(truncate(path, 5 << 20), 0);
    enum status status;
    while ((status = dataset_next(&d, arena, &r, &any, &err)) == ST_OK && any) {
        assert_int_equal(r.text.n, 99);
    }
    assert_int_equal(status, ST_IO);
    dataset_close(&d);
}

static int setup(void **state)
{
    (void)state;
    arena = arena_new(0);
    temp_root_make();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    temp_root_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_begin_on_their_lines),
        cmocka_unit_test(an_array_that_breaks_off_says_where),
        cmocka_unit_test(what_was_seen_is_remembered_while_the_set_grows),
        cmocka_unit_test(layouts_are_told_by_their_keys),
        cmocka_unit_test(quantiles_are_those_of_the_sorted_lengths),
        cmocka_unit_test(a_file_that_shrinks_is_named),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
