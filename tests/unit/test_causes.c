// SPDX-License-Identifier: Apache-2.0
/* The cause model on events made by hand: each rule of docs/knowledge.md, "Causes", one test. */
#include <math.h>

#include "base/vec.h"

#include "diagnosis/causes.h"
#include "temp_root.h"
#include "unit.h"

static const char knowledge_text[] =
    "causes:\n"
    "  - class: base-fault\n"
    "    title: The base\n"
    "    because:\n"
    "      - {when: event(low), weight: 80, text: 'size {event(low).size}'}\n"
    "    explains: [high, late]\n"
    "    settle: [{when: not known(gpu.count), text: 'count the GPUs'}]\n"
    "    remedy: [always, {when: event(high), text: 'high one'}, {when: event(stray), text: 'stray "
    "one'}, {when: gpu.count > 4, text: 'many GPUs'}]\n"
    "  - class: top-fault\n"
    "    title: The top\n"
    "    because:\n"
    "      - {when: event(high), weight: 60}\n"
    "      - {when: gpu.count > 4, weight: 30, with_event: true}\n"
    "  - class: weak-fault\n"
    "    title: Weak\n"
    "    because: [{when: event(weak), weight: 40}, {when: gpu.count > 1, weight: 20}]\n"
    "    against: [{when: gpu.count > 6, weight: 30}]\n"
    "  - class: gated-fault\n"
    "    title: Gated\n"
    "    because: [{when: event(slow), weight: 70}]\n"
    "    requires: not run.completed\n"
    "  - class: metal-fault\n"
    "    title: Metal\n"
    "    because: [{when: event(tie), weight: 70}]\n"
    "  - class: data-fault\n"
    "    title: Data\n"
    "    because: [{when: event(tie), weight: 70}]\n"
    "  - class: beside-fault\n"
    "    title: Beside\n"
    "    because: [{when: gpu.count > 0, weight: 90, with_event: true}]\n";

#define PATTERN(id, kind) \
 "  - {id: " id ", regex: '" id "', kind: " kind ", source: x, examples: ['" id "']}\n"

static const char patterns_text[] =
    "patterns:\n"
    "  - {id: low, regex: low, capture: '(?<size>.*)', kind: fault, source: x, examples: [low]}\n" PATTERN(
        "high", "fault") PATTERN("late", "consequence") PATTERN("weak", "symptom")
        PATTERN("slow", "symptom") PATTERN("tie", "fault") PATTERN("stray", "fault");

static const char taxonomy_text[] = "slug\tlayer\td\tm\ts\n"
                                    "base-fault\truntime\t\t\t\n"
                                    "top-fault\tframework\t\t\t\n"
                                    "weak-fault\tframework\t\t\t\n"
                                    "gated-fault\tframework\t\t\t\n"
                                    "data-fault\tdata\t\t\t\n"
                                    "metal-fault\thardware\t\t\t\n"
                                    "beside-fault\tdata\t\t\t\n";

struct bench {
    struct arena *arena;
    const struct knowledge *k;
    struct log_facts log;
    struct facts *facts;
    struct diagnosis result;
};

static int set_up(void **state)
{
    temp_root_make();
    temp_write("/fact_keys.tsv", "key\ttype\tunit\twhere\tmeaning\ngpu.count\tint\t\t\t\n");
    temp_write("/taxonomy.tsv", taxonomy_text);
    temp_write("/patterns/x.yaml", patterns_text);
    temp_write("/causes/x.yaml", knowledge_text);
    struct arena *a = arena_new(0);
    struct bench *b = arena_alloc(a, sizeof *b);
    struct err err;
    b->arena = a;
    if (knowledge_from_dir(a, temp_root, NULL, &b->k, &err) != ST_OK) {
        print_error("%s\n", err.text);
        return 1;
    }
    temp_root_remove();
    b->log = (struct log_facts){.arena = a, .series = map_new(a), .has_train_log = true};
    b->facts = facts_new(a);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    arena_free(((struct bench *)*state)->arena);
    return 0;
}

static void see_at(struct bench *b, const char *id, uint64_t line)
{
    static const struct capture size[] = {{.name = "size", .value = "2 GiB"}};
    for (size_t i = 0; i < b->k->patterns_count; i++) {
        if (strcmp(b->k->patterns[i].id, id) == 0) {
            *VEC_PUSH(b->arena,
                      &b->log.events) = (struct event){.pattern = &b->k->patterns[i],
                                                       .source = "train.log",
                                                       .line = line,
                                                       .order = (int64_t)b->log.events.count,
                                                       .time = NAN,
                                                       .rank = -1,
                                                       .text = id,
                                                       .captures = size,
                                                       .capture_count = 1};
            return;
        }
    }
    fail_msg("no pattern %s", id);
}

static void see(struct bench *b, const char *id)
{
    see_at(b, id, b->log.events.count + 1);
}

static void judge(struct bench *b)
{
    diagnose(b->arena, b->k, b->facts, &b->log, &b->result);
}

static bool lists(const struct finding_list *list, const char *id)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].id, id) == 0) {
            return true;
        }
    }
    return false;
}

static void test_a_clean_log_is_silent(void **state)
{
    struct bench *b = *state;
    facts_int(b->facts, "gpu.count", 8, "test");
    judge(b);
    assert_int_equal(b->result.causes.count, 0);
    assert_int_equal(b->result.unknown.count, 0);
    assert_int_equal(b->result.secondary.count, 0);
}

static void test_a_cause_takes_what_it_explains(void **state)
{
    struct bench *b = *state;
    see(b, "low");
    see(b, "high");
    see(b, "late");
    judge(b);
    assert_int_equal(b->result.causes.count, 1);
    assert_string_equal(b->result.causes.items[0].id, "base-fault");
    assert_string_equal(b->result.causes.items[0].layer, "runtime");
    assert_true(lists(&b->result.secondary, "top-fault"));
    assert_true(lists(&b->result.secondary, "late"));
    assert_int_equal(b->result.unknown.count, 0);
}

static void test_evidence_and_texts_come_from_the_log(void **state)
{
    struct bench *b = *state;
    see_at(b, "low", 17);
    judge(b);
    const struct finding *f = &b->result.causes.items[0];
    assert_int_equal(f->evidence.count, 1);
    assert_string_equal(f->evidence.items[0].source, "train.log");
    assert_int_equal(f->evidence.items[0].line, 17);
    assert_non_null(strstr(f->claim, "Size 2 GiB"));
    assert_true(fabs(f->confidence - 0.8) < 1e-9);
    assert_int_equal(b->result.notes.count, 1);
    assert_non_null(strstr(b->result.notes.items[0], "count the GPUs"));
}

/* Advice for another machine, or for one that nobody read, is left out. */
static void test_a_remedy_stands_where_its_condition_holds(void **state)
{
    struct bench *b = *state;
    see(b, "low");
    judge(b);
    assert_int_equal(b->result.causes.items[0].remedy.count, 1);
    assert_string_equal(b->result.causes.items[0].remedy.items[0], "always");
    facts_int(b->facts, "gpu.count", 8, "test");
    judge(b);
    assert_int_equal(b->result.causes.items[0].remedy.count, 2);
    assert_string_equal(b->result.causes.items[0].remedy.items[1], "many GPUs");
    facts_int(b->facts, "gpu.count", 2, "test");
    see(b, "high");
    judge(b);
    assert_int_equal(b->result.causes.items[0].remedy.count, 2);
    assert_string_equal(b->result.causes.items[0].remedy.items[1], "high one");
}

static void test_facts_add_and_subtract(void **state)
{
    struct bench *b = *state;
    see(b, "weak");
    judge(b);
    assert_int_equal(b->result.causes.count, 0); /* 40 alone does not stand */
    facts_int(b->facts, "gpu.count", 2, "test");
    judge(b);
    assert_string_equal(b->result.causes.items[0].id, "weak-fault"); /* 60 */
    facts_int(b->facts, "gpu.count", 8, "test");
    judge(b);
    assert_int_equal(b->result.causes.count, 0); /* 60 - 30 */
}

static void test_a_fact_beside_no_event_counts_nothing(void **state)
{
    struct bench *b = *state;
    facts_int(b->facts, "gpu.count", 3, "test");
    see(b, "stray");
    judge(b);
    assert_false(lists(&b->result.causes, "beside-fault"));
    assert_true(lists(&b->result.unknown, "stray"));
}

static void test_a_finished_run_closes_the_gate(void **state)
{
    struct bench *b = *state;
    see(b, "slow");
    judge(b);
    assert_string_equal(b->result.causes.items[0].id, "gated-fault");
    b->log.run.completed = true;
    judge(b);
    assert_int_equal(b->result.causes.count, 0);
}

static void test_a_tie_goes_to_the_layer_nearer_to_the_metal(void **state)
{
    struct bench *b = *state;
    see(b, "tie");
    judge(b);
    assert_int_equal(b->result.causes.count, 2);
    assert_string_equal(b->result.causes.items[0].id, "metal-fault");
    assert_string_equal(b->result.causes.items[1].id, "data-fault");
    assert_true(b->result.notes.count > 0); /* both are named as open */
}

static void test_a_line_a_cause_rests_on_is_not_unknown(void **state)
{
    struct bench *b = *state;
    see_at(b, "low", 5);
    see_at(b, "stray", 5);
    judge(b);
    assert_int_equal(b->result.unknown.count, 0);
    see_at(b, "stray", 9);
    judge(b);
    assert_true(lists(&b->result.unknown, "stray"));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(test_a_clean_log_is_silent),
        CASE(test_a_cause_takes_what_it_explains),
        CASE(test_evidence_and_texts_come_from_the_log),
        CASE(test_a_remedy_stands_where_its_condition_holds),
        CASE(test_facts_add_and_subtract),
        CASE(test_a_fact_beside_no_event_counts_nothing),
        CASE(test_a_finished_run_closes_the_gate),
        CASE(test_a_tie_goes_to_the_layer_nearer_to_the_metal),
        CASE(test_a_line_a_cause_rests_on_is_not_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
