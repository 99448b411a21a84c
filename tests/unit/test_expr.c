// SPDX-License-Identifier: Apache-2.0
/* The condition language: what compiles, what the messages point at, and three-valued answers. */
#include <string.h>

#include "knowledge/expr.h"
#include "knowledge/knowledge.h"
#include "unit.h"

/* ---- a small world to evaluate in ---- */

struct world_fact {
    const char *key;
    enum lookup_state state;
    struct value value;
};

static const struct value arch_items[] = {
    {.kind = VALUE_STRING, .string = "gfx90a:xnack-"},
    {.kind = VALUE_STRING, .string = "gfx1100"},
    {.kind = VALUE_STRING, .string = "gfx12-generic"},
};

#define TEXT(t)                       \
 {                                    \
  .kind = VALUE_STRING, .string = (t) \
 }
#define INT(i)                      \
 {                                  \
  .kind = VALUE_INT, .integer = (i) \
 }
#define BOOL(b)                      \
 {                                   \
  .kind = VALUE_BOOL, .boolean = (b) \
 }

static const struct world_fact world[] = {
    {"torch.build", LOOKUP_KNOWN, TEXT("cpu")},
    {"torch.version", LOOKUP_KNOWN, TEXT("2.10.0+rocm6.4")},
    {"torch.arch_list", LOOKUP_KNOWN, {.kind = VALUE_LIST, .list = {arch_items, 3}}},
    {"gpu.count", LOOKUP_KNOWN, INT(2)},
    {"gpu[0].gfx", LOOKUP_KNOWN, TEXT("gfx1201")},
    {"gpu[0].integrated", LOOKUP_KNOWN, BOOL(false)},
    {"gpu[1].gfx", LOOKUP_KNOWN, TEXT("gfx1036")},
    {"gpu[1].integrated", LOOKUP_KNOWN, BOOL(true)},
    {"gpu[10].gfx", LOOKUP_KNOWN, TEXT("gfx942")},
    {"shm.size_bytes", LOOKUP_KNOWN, INT(67108864)},
    {"config.learning_rate", LOOKUP_KNOWN, TEXT("0.05")},
    {"env.HSA_XNACK", LOOKUP_KNOWN, TEXT("1")},
    {"rocm.path", LOOKUP_ABSENT, {0}},
    {"dev.kfd.mode", LOOKUP_DENIED, {0}},
    {"lib.rocblas.covers_gpu", LOOKUP_KNOWN, BOOL(true)},
    {"lib.miopen.covers_gpu", LOOKUP_KNOWN, BOOL(false)},
    {"file./opt/rocm/lib/libMIOpen.so.1.present", LOOKUP_KNOWN, BOOL(true)},
};

static enum lookup_state world_fact(void *ctx, const char *key, struct value *ret_value)
{
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(world); i++) {
        if (strcmp(world[i].key, key) == 0) {
            *ret_value = world[i].value;
            return world[i].state;
        }
    }
    return LOOKUP_UNKNOWN;
}

static void world_each_key(void *ctx, const char *glob, void (*visit)(void *ctx2, const char *key),
                           void *ctx2)
{
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(world); i++) {
        if (key_glob_match(glob, world[i].key, NULL)) {
            visit(ctx2, world[i].key);
        }
    }
}

static int64_t world_count(void *ctx, const char *id)
{
    (void)ctx;
    return strcmp(id, "hip-oom") == 0 ? 2 : strcmp(id, "late-event") == 0 ? 1 : 0;
}

static const char *world_capture(void *ctx, const char *id, int64_t index, const char *name)
{
    (void)ctx;
    if (strcmp(id, "hip-oom") == 0 && strcmp(name, "size") == 0) {
        return index == 0 ? "2.00 GiB" : "512.00 MiB";
    }
    return strcmp(id, "hip-oom") == 0 && strcmp(name, "step") == 0 && index == 1 ? "1,200" : NULL;
}

static int64_t world_order(void *ctx, const char *id)
{
    (void)ctx;
    return strcmp(id, "hip-oom") == 0 ? 3 : strcmp(id, "late-event") == 0 ? 9 : -1;
}

static enum lookup_state world_run(void *ctx, const char *field, struct value *ret_value)
{
    (void)ctx;
    if (strcmp(field, "steps") == 0) {
        *ret_value = value_int(40);
        return LOOKUP_KNOWN;
    }
    return LOOKUP_UNKNOWN;
}

static struct fact_key key_rows[] = {
    {.pattern = "torch.version", .type = "version"},
    {.pattern = "gpu[].gfx", .type = "string"},
};
static struct knowledge key_table = {.fact_keys = key_rows, .fact_keys_count = 2};

static struct expr_scope scope_of_world(void)
{
    return (struct expr_scope){.fact = world_fact,
                               .each_key = world_each_key,
                               .event_count = world_count,
                               .event_capture = world_capture,
                               .event_order = world_order,
                               .run = world_run,
                               .dollar = "gpu[1]",
                               .knowledge = &key_table};
}

static void check(struct arena *a, const char *text, enum truth want)
{
    const struct expr *e;
    struct err err = {0};
    if (expr_compile(a, text, "test:1", &e, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    struct expr_scope scope = scope_of_world();
    enum truth got = expr_truth(e, &scope, a);
    if (got != want) {
        fail_msg("'%s' is %d, expected %d", text, got, want);
    }
}

#define YES  TRUTH_TRUE
#define NO   TRUTH_FALSE
#define OPEN TRUTH_UNKNOWN

struct claim {
    const char *text;
    enum truth want;
};

static void check_all(const struct claim *claims, size_t count)
{
    struct arena *a = arena_new(0);
    for (size_t i = 0; i < count; i++) {
        check(a, claims[i].text, claims[i].want);
    }
    arena_free(a);
}

static void test_comparisons_follow_the_document(void **state)
{
    (void)state;
    static const struct claim claims[] = {
        {"torch.build == \"cpu\"", YES},
        {"torch.build != 'cpu'", NO},
        {"torch.version >= \"2.9\"", YES},
        {"torch.version < \"2.9\"", NO},
        {"torch.version == \"2.10\"", YES},
        {"torch.version >= 2", YES},
        {"shm.size_bytes <= 1 GiB", YES},
        {"shm.size_bytes == 64 MiB", YES},
        {"config.learning_rate > 1e-3", YES},
        {"config.learning_rate < 0.01", NO},
        {"env.HSA_XNACK == 1", YES},
        {"env.HSA_XNACK == true", YES},
        {"torch.build in [\"cpu\", \"cu121\"]", YES},
        {"torch.build not in [\"cu118\"]", YES},
        {"\"rocm\" in torch.version", YES},
        {"\"gfx1100\" in torch.arch_list", YES},
        {"torch.version matches \"\\+rocm\\d\"", YES},
        {"torch.arch_list matches \"^gfx90a\"", YES},
        {"len(torch.arch_list) == 3", YES},
        {"major(torch.version) == 2 and minor(torch.version) == 10", YES},
        {"gpu.count + 1 == 3", YES},
        {"gpu.count * 2 - 1 == 3", YES},
        {"gpu.count / 0 == 1", OPEN},
        {"-1 < gpu.count", YES},
        {"30 min == 1800", YES},
    };
    check_all(claims, ARRAY_LEN(claims));
}

static void test_an_unread_fact_is_never_true(void **state)
{
    (void)state;
    static const struct claim claims[] = {
        {"nobody.read == 1", OPEN},
        {"not nobody.read == 1", OPEN},
        {"nobody.read != 1", OPEN},
        {"nobody.read == 1 and torch.build == \"cuda\"", NO},
        {"nobody.read == 1 or torch.build == \"cpu\"", YES},
        {"known(nobody.read)", NO},
        {"not known(nobody.read)", YES},
        {"absent(rocm.path)", YES},
        {"absent(nobody.read)", OPEN},
        {"rocm.path == null", YES},
        {"rocm.path == \"/opt/rocm\"", NO},
        {"torch.build != null", YES},
        {"denied(dev.kfd.mode)", YES},
        {"dev.kfd.mode == \"660\"", OPEN},
        {"torch.build > \"x\"", OPEN},
        {"torch.build", OPEN},
        {"gpu.count", YES},
    };
    check_all(claims, ARRAY_LEN(claims));
}

static void test_globs_share_one_index(void **state)
{
    (void)state;
    static const struct claim claims[] = {
        {"any(gpu[*].gfx == \"gfx1036\" and gpu[*].integrated)", YES},
        {"any(gpu[*].gfx == \"gfx1201\" and gpu[*].integrated)", NO},
        {"any(gpu[*].gfx == \"gfx942\" and gpu[*].integrated)", OPEN}, /* gpu[10]: unread */
        {"any(gpu[*].integrated == true)", YES},
        {"all(gpu[*].gfx matches \"^gfx\")", YES},
        {"all(gpu[*].integrated == true)", NO},
        {"count(gpu[*].integrated == true) == 1", YES},
        {"count(gpu[*].gfx != \"\") == 3", YES},
        {"any(lib.*.covers_gpu == false)", YES},
        {"any(fact(\"file.*libMIOpen*.present\") == true)", YES},
        {"any(fact(\"file.*librccl*.present\") == true)", OPEN},
        {"any(net.port.*.owner == \"x\")", OPEN},
        {"any(covers(torch.arch_list, gpu[*].gfx))", YES},
        {"all(covers(torch.arch_list, gpu[*].gfx))", NO},
        {"$.integrated", YES},
        {"$.gfx == \"gfx1036\" and any(gpu[*].gfx == \"gfx1201\")", YES},
    };
    check_all(claims, ARRAY_LEN(claims));
}

static void test_targets_cover_as_llvm_says(void **state)
{
    (void)state;
    static const struct claim claims[] = {
        {"covers(torch.arch_list, gpu[0].gfx)", YES},
        {"gfx_covers(torch.arch_list, \"gfx90a\")", YES},
        {"covers(torch.arch_list, \"gfx1101\")", NO},
        {"covers(torch.arch_list, \"gfx1250\")", NO},
        {"covers(\"gfx12-5-generic\", \"gfx1250\")", YES},
        {"covers(\"gfx9-4-generic\", \"gfx942\")", YES},
        {"covers(\"gfx9-generic\", \"gfx90a\")", NO},
        {"covers(\"gfx10-1-generic\", \"gfx1012\")", YES},
        {"covers(\"gfx10-3-generic\", \"gfx1036\")", YES},
        {"covers(\"gfx11-generic\", \"gfx1151\")", YES},
        {"covers(torch.arch_list, nobody.read)", OPEN},
        {"same_family(\"gfx1030\", gpu[1].gfx)", YES},
        {"same_family(\"gfx1100\", gpu[1].gfx)", NO},
    };
    check_all(claims, ARRAY_LEN(claims));
}

static void test_events_and_their_captures(void **state)
{
    (void)state;
    static const struct claim claims[] = {
        {"event(hip-oom)", YES},
        {"event(never-seen)", NO},
        {"event(hip-oom).size == 2 GiB", YES},
        {"last(hip-oom).size < 1 GiB", YES},
        {"event(hip-oom).step == 1200", YES}, /* the first that has the capture */
        {"event(hip-oom).other == 1", OPEN},
        {"max(hip-oom.size) == 2 GiB", YES},
        {"min(hip-oom.size) == 512 MiB", YES},
        {"count(hip-oom) >= 2", YES},
        {"before(hip-oom, late-event)", YES},
        {"before(late-event, hip-oom)", NO},
        {"before(hip-oom, never-seen)", NO},
        {"run.steps > 10", YES},
        {"run.completed", OPEN},
        {"series(loss).nan_count > 0", OPEN},
    };
    check_all(claims, ARRAY_LEN(claims));
}

static void test_messages_point_at_the_column(void **state)
{
    (void)state;

    static const struct {
        const char *text;
        const char *says;
    } bad[] = {
        {"torch.build = \"cpu\"", "column 13"},
        {"torch.build == ", "column 16"},
        {"foo(1)", "no function 'foo'"},
        {"gpu[*].gfx == \"x\"", "any("},
        {"a == 1 b", "column 8"},
        {"torch.version >= 6.4.1", "in quotes"},
        {"x matches \"(\"", "bad regular expression"},
        {"a < b < c", "chain"},
        {"event()", "a pattern id"},
        {"run.colour", "there is no run.colour"},
        {"series(loss).colour", "no field 'colour'"},
        {"\"abc", "no closing"},
        {"", "column 1"},
        {"gpu[x].gfx == 1", "holds a number"},
        {"99999999999999999999 > 1", "64 bits"},
    };
    struct arena *a = arena_new(0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        const struct expr *e;
        struct err err = {0};
        assert_int_equal(expr_compile(a, bad[i].text, "causes/x.yaml:3", &e, &err), ST_FORMAT);
        if (strstr(err.text, bad[i].says) == NULL || strstr(err.text, "causes/x.yaml:3") == NULL) {
            fail_msg("'%s' says: %s", bad[i].text, err.text);
        }
    }
    arena_free(a);
}

static void test_depth_and_size_have_ceilings(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct strbuf deep;
    strbuf_init(&deep, a, 100000);
    for (int i = 0; i < 3000; i++) {
        strbuf_addc(&deep, '(');
    }
    const struct expr *e;
    struct err err = {0};
    assert_int_equal(expr_compile(a, deep.p, "x:1", &e, &err), ST_FORMAT);
    assert_non_null(strstr(err.text, "nested deeper"));
    strbuf_clear(&deep);
    strbuf_addz(&deep, "1");
    for (int i = 0; i < 2040; i++) {
        strbuf_addz(&deep, "+1");
    }
    assert_int_equal(expr_compile(a, deep.p, "x:1", &e, &err), ST_FORMAT);
    strbuf_clear(&deep);
    for (int i = 0; i < 2500; i++) {
        strbuf_addz(&deep, "not ");
    }
    assert_int_not_equal(expr_compile(a, deep.p, "x:1", &e, &err), ST_OK);
    arena_free(a);
}

static void on_used(void *ctx, const char *name)
{
    strbuf_addz(ctx, name);
    strbuf_addc(ctx, ' ');
}

static void test_evidence_is_what_made_it_true(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct strbuf heard;
    strbuf_init(&heard, a, 10000);
    struct expr_scope scope = scope_of_world();
    scope.ctx = &heard;
    scope.used_fact = on_used;
    scope.used_event = on_used;
    const struct expr *e;
    struct err err = {0};
    assert_int_equal(expr_compile(a,
                                  "(event(never-seen) or event(hip-oom)) and "
                                  "any(gpu[*].gfx == \"gfx1036\") and not env.HSA_XNACK == 0",
                                  "x:1", &e, &err),
                     ST_OK);
    assert_int_equal(expr_truth(e, &scope, a), TRUTH_TRUE);
    expr_explain(e, &scope, a);
    assert_string_equal(heard.p, "hip-oom gpu[1].gfx env.HSA_XNACK ");
    assert_true(expr_has_event(e));
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comparisons_follow_the_document),
        cmocka_unit_test(test_an_unread_fact_is_never_true),
        cmocka_unit_test(test_globs_share_one_index),
        cmocka_unit_test(test_targets_cover_as_llvm_says),
        cmocka_unit_test(test_events_and_their_captures),
        cmocka_unit_test(test_messages_point_at_the_column),
        cmocka_unit_test(test_depth_and_size_have_ceilings),
        cmocka_unit_test(test_evidence_is_what_made_it_true),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
