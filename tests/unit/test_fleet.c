// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "snapshot/fleet.h"
#include "unit.h"

#define HEAD "kind\tkey\tcompare\twith\tclass\tseverity\twhy\n"

static const char table[] = HEAD
    "facts\tgpu.count\texact\t\tdevices\twarning\tw\n"
    "facts\tgpu[].ecc\tis\t0\tdevices\twarning\tw\n"
    "facts\tgpu[].clock\tlow\t10%\tclocks\twarning\tw\n"
    "facts\tused\thigh\t50% 1000\tmemory\twarning\tw\n"
    "facts\ttotal\tnumber\t2%\tmemory\twarning\tw\n"
    "facts\tenv.NCCL_*\texact\t\tenvironment\twarning\tw\n"
    "facts\tdriver\texact\t\tdriver\twarning\tw\n"
    "stack\tkernel/command-line\twords\troot= ip=\tkernel\twarning\tw\n";

struct world {
    struct arena *a;
    struct arena *scratch;
    struct fleet_rules rules;
    struct fleet f;
    struct fleet_result r;
};

static void begin(struct world *w)
{
    w->a = arena_new(0);
    w->scratch = arena_new(0);
    struct err err;
    assert_int_equal(fleet_rules_read(w->a, str_of(table), "t", &w->rules, &err), ST_OK);
    fleet_init(w->a, &w->rules, &w->f);
}

static void end(struct world *w)
{
    arena_free(w->a);
    arena_free(w->scratch);
}

static void say(struct world *w, const char *node, const char *text)
{
    struct err err;
    const char *file = arena_fmt(w->a, "%s.json", node);
    assert_int_equal(fleet_add(&w->f, w->scratch, node, file, str_of(text), &err), ST_OK);
}

/* One known fact of a node, a number or a quoted text. */
static void say_fact(struct world *w, const char *node, const char *key, const char *value)
{
    say(w, node,
        arena_fmt(w->a,
                  "{\"facts\": {\"env.read\": {\"state\": \"known\", \"value\": true}, \"%s\": "
                  "{\"state\": \"known\", \"value\": %s}}}",
                  key, value));
}

/* Names of the nodes that differ, in order, as one text. */
static const char *odd_nodes(struct world *w)
{
    struct strbuf out;
    strbuf_init(&out, w->a, 1 << 16);
    fleet_compare(w->a, &w->f, &w->r);
    for (size_t i = 0; i < w->r.differences.count; i++) {
        strbuf_fmt(&out, "%s ", w->f.nodes.items[w->r.differences.items[i].node].name);
    }
    return out.p;
}

static const char *odd_of(const char *key, const char *const *values, size_t count)
{
    static char result[400];
    struct world w;
    begin(&w);
    for (size_t i = 0; i < count; i++) {
        say_fact(&w, arena_fmt(w.a, "n%zu", i), key, values[i]);
    }
    snprintf(result, sizeof result, "%s", odd_nodes(&w));
    end(&w);
    return result;
}

#define ODD(key, ...)                              \
 odd_of((key), (const char *const[]){__VA_ARGS__}, \
        sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static void texts_by_majority(void **state)
{
    (void)state;
    assert_string_equal(ODD("driver", "\"a\"", "\"a\"", "\"a\""), "");
    assert_string_equal(ODD("driver", "\"a\"", "\"b\"", "\"a\""), "n1 ");
    /* Two against two: nobody is right, all are named. */
    assert_string_equal(ODD("driver", "\"a\"", "\"b\"", "\"a\"", "\"b\""), "n0 n1 n2 n3 ");
    /* What must be so is not put to the vote. */
    assert_string_equal(ODD("gpu[2].ecc", "3", "3", "0"), "n0 n1 ");
    /* No rule, no comparison. */
    assert_string_equal(ODD("proc.cwd", "\"a\"", "\"b\"", "\"a\""), "");
}

static void numbers_by_median(void **state)
{
    (void)state;
    assert_string_equal(ODD("gpu[0].clock", "1000", "1010", "990", "700", "1001"), "n3 ");
    /* Faster is not slower. */
    assert_string_equal(ODD("gpu[0].clock", "1000", "1010", "990", "1700", "1001"), "");
    assert_string_equal(ODD("total", "100", "100", "101", "150"), "n3 ");
    assert_string_equal(ODD("total", "100", "100", "101", "50"), "n3 ");
    /* Within 10 %. */
    assert_string_equal(ODD("gpu[0].clock", "1000", "1000", "1000", "905"), "");
    /* The least distance: 900 above nothing is nothing, 1100 is something. */
    assert_string_equal(ODD("used", "0", "0", "900"), "");
    assert_string_equal(ODD("used", "0", "0", "1100"), "n2 ");
    /* Half and half, and two that are far apart: no band has a majority. */
    assert_string_equal(ODD("total", "100", "100", "200", "200"), "n0 n1 n2 n3 ");
    assert_string_equal(ODD("total", "100", "200"), "n0 n1 ");
    assert_string_equal(ODD("total", "100", "101"), "");
    /* A text where a number belongs is not compared, and not passed over either. */
    struct world w;
    begin(&w);
    say_fact(&w, "a", "total", "100");
    say_fact(&w, "b", "total", "\"many\"");
    assert_string_equal(odd_nodes(&w), "");
    assert_int_equal(w.r.gaps.count, 1);
    end(&w);
}

static void what_a_node_does_not_say(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    /* A variable is not set where the environment was read, and unknown where it was not. */
    say_fact(&w, "a", "env.NCCL_ALGO", "\"Ring\"");
    say_fact(&w, "b", "env.NCCL_ALGO", "\"Ring\"");
    say_fact(&w, "c", "driver", "\"1\"");
    say(&w, "d", "{\"facts\": {\"driver\": {\"state\": \"known\", \"value\": \"1\"}}}");
    fleet_compare(w.a, &w.f, &w.r);
    bool told = false;
    for (size_t i = 0; i < w.r.differences.count; i++) {
        const struct fleet_difference *d = &w.r.differences.items[i];
        if (strcmp(d->item->key, "env.NCCL_ALGO") == 0) {
            assert_int_equal(d->node, 2);
            assert_string_equal(d->value, FLEET_ABSENT);
            assert_string_equal(d->usual, "Ring");
            told = true;
        }
    }
    assert_true(told);
    assert_int_equal(w.r.gaps.count, 1);
    assert_int_equal(w.r.gaps.items[0].node, 3);
    end(&w);
}

static void a_lost_gpu_is_told_once(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    static const char text[] =
        "{\"facts\": {\"gpu.count\": {\"state\": \"known\", \"value\": %d}, \"gpu[0].clock\": "
        "{\"state\": \"known\", \"value\": 5}%s}}";
    static const char second[] = ", \"gpu[1].clock\": {\"state\": \"known\", \"value\": 5}";
    say(&w, "a", arena_fmt(w.a, text, 2, second));
    say(&w, "b", arena_fmt(w.a, text, 2, second));
    say(&w, "c", arena_fmt(w.a, text, 1, ""));
    assert_string_equal(odd_nodes(&w), "c ");
    assert_string_equal(w.r.differences.items[0].item->key, "gpu.count");
    assert_int_equal(w.r.gaps.count, 0);
    end(&w);
}

static void broken_files(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        " \n",
        "{",
        "[]",
        "{\"a\": 1}",
        "{\"facts\": {}}",
        "{\"facts\": 7}",
        "{\"facts\": {\"driver\": {\"state\": \"dreamt\"}}}",
        "{\"command\": \"qualify\"}",
        "{\"stack\": 3}",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct world w;
        begin(&w);
        say(&w, "a", texts[i]);
        assert_int_equal(w.f.broken.count, 1);
        assert_false(fleet_node_usable(&w.f.nodes.items[0]));
        end(&w);
    }
    struct world w;
    begin(&w);
    say_fact(&w, "a", "driver", "\"1\"");
    say_fact(&w, "a", "driver", "\"2\""); /* the same node twice */
    assert_int_equal(w.f.broken.count, 1);
    assert_int_equal(w.f.nodes.count, 1);
    assert_string_equal(odd_nodes(&w), "");
    end(&w);
}

static void words_of_one_node(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    static const char text[] =
        "{\"schema_version\": 1, \"command\": \"snapshot\", \"stack\": {\"kernel\": "
        "{\"command-line\": {\"version\": \"%s\"}}}, \"unread\": []}";
    say(&w, "a", arena_fmt(w.a, text, "root=/dev/sda1 iommu=pt quiet"));
    say(&w, "b", arena_fmt(w.a, text, "root=/dev/sdb1 iommu=pt quiet"));
    say(&w, "c", arena_fmt(w.a, text, "iommu=off quiet ip=10.0.0.3"));
    assert_int_equal(w.f.broken.count, 0);
    assert_string_equal(odd_nodes(&w), "c ");
    assert_string_equal(w.r.differences.items[0].usual, "iommu=pt quiet");
    end(&w);
}

/* Two search paths that differ behind their first thousands of bytes once counted as the same. */
static void long_texts(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    char *text = arena_alloc(w.a, 10002);
    memset(text, 'a', 10000);
    for (int i = 0; i < 3; i++) {
        text[10000] = i == 2 ? 'b' : 'a';
        say_fact(&w, arena_fmt(w.a, "n%d", i), "driver", arena_fmt(w.a, "\"%s\"", text));
    }
    assert_string_equal(odd_nodes(&w), "n2 ");
    assert_true(strlen(w.r.differences.items[0].value) < 2100);
    end(&w);
}

static void tables_that_are_wrong(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        HEAD,
        HEAD "facts\tx\texact\t\tdriver\twarning\n",
        HEAD "fact\tx\texact\t\tdriver\twarning\tw\n",
        HEAD "facts\tx\tlike\t\tdriver\twarning\tw\n",
        HEAD "facts\tx\tnumber\tten\tdriver\twarning\tw\n",
        HEAD "facts\tx\tnumber\t10% far\tdriver\twarning\tw\n",
        HEAD "facts\tx\texact\t\tdriver\tfatal\tw\n",
    };
    struct arena *a = arena_new(0);
    struct fleet_rules rules;
    struct err err;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        assert_int_equal(fleet_rules_read(a, str_of(texts[i]), "t", &rules, &err), ST_FORMAT);
    }
    arena_free(a);
}

static const char *hosts_of(struct arena *a, const char *text)
{
    struct text_list hosts;
    struct err err;
    if (fleet_hosts_read(a, str_of(text), "t", &hosts, &err) != ST_OK) {
        return "refused";
    }
    struct strbuf out;
    strbuf_init(&out, a, 1 << 16);
    for (size_t i = 0; i < hosts.count; i++) {
        strbuf_fmt(&out, "%s ", hosts.items[i]);
    }
    return out.p;
}

static void lists_of_hosts(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    assert_string_equal(hosts_of(a, "n1,n2"), "n1 n2 ");
    assert_string_equal(hosts_of(a, "gpu[08-10,3]-ib,login"),
                        "gpu08-ib gpu09-ib gpu10-ib gpu3-ib login ");
    assert_string_equal(hosts_of(a, "# all\nn1 slots=8\n\nn2\tmax_slots=2 # x\n"), "n1 n2 ");
    static const char *const bad[] = {"",     "# none", "n[1-",     "n[2-1]",         "n[]",
                                      "n]1",  "n[a-b]", "n[1]x[2]", "n[1-999999999]", "n[1--2]",
                                      "n[-1]"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_string_equal(hosts_of(a, bad[i]), "refused");
    }
    assert_true(fleet_same_host("n1", "n1.cluster"));
    assert_true(fleet_same_host("n1.a", "n1.a"));
    assert_false(fleet_same_host("n1.a", "n1.b"));
    assert_false(fleet_same_host("n1", "n10"));
    arena_free(a);
}

static void names_of_nodes(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    assert_string_equal(fleet_node_name(a, "run/n07.json"), "n07");
    assert_string_equal(fleet_node_name(a, "n07.qualify.json"), "n07");
    assert_string_equal(fleet_node_name(a, "n07.cluster.org.lock"), "n07.cluster.org");
    assert_string_equal(fleet_node_name(a, ".json"), ".json");
    assert_string_equal(fleet_node_name(a, "a\033[1m"), "a?[1m");
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_by_majority),
        cmocka_unit_test(numbers_by_median),
        cmocka_unit_test(what_a_node_does_not_say),
        cmocka_unit_test(a_lost_gpu_is_told_once),
        cmocka_unit_test(broken_files),
        cmocka_unit_test(words_of_one_node),
        cmocka_unit_test(tables_that_are_wrong),
        cmocka_unit_test(lists_of_hosts),
        cmocka_unit_test(names_of_nodes),
        cmocka_unit_test(long_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
