// SPDX-License-Identifier: Apache-2.0
/* Doctor's judge: rules, loops, what cannot be told, the score, and switches without effect. */
#include <math.h>

#include "diagnosis/judge.h"
#include "temp_root.h"
#include "unit.h"

static const char rules_text[] = "stage: host\n"
                                 "rules:\n"
                                 "  - id: no-gpu\n"
                                 "    severity: error\n"
                                 "    when: gpu.count == 0\n"
                                 "    needs: [gpu.count]\n"
                                 "    title: 'No GPU among {gpu.count}'\n"
                                 "    weight: 40\n"
                                 "  - id: narrow-link\n"
                                 "    severity: warning\n"
                                 "    for: 'gpu[*]'\n"
                                 "    when: $.pcie_width < 8\n"
                                 "    title: '{$.name} runs on {$.pcie_width} lanes'\n"
                                 "    evidence: [$.pcie_width]\n"
                                 "    remedy: ['reseat {$.name}']\n"
                                 "    weight: 10\n"
                                 "  - id: hint\n"
                                 "    severity: note\n"
                                 "    when: gpu.count > 0\n"
                                 "    title: 'There are GPUs'\n";

static const char keys_text[] = "key\ttype\tunit\twhere\tmeaning\n"
                                "gpu.count\tint\t\t\t\n"
                                "gpu[].name\tstring\t\t\t\n"
                                "gpu[].pcie_width\tint\t\t\t\n"
                                "env.<NAME>\tstring\t\t\t\n";

static const char switches_text[] =
    "switches:\n"
    "  - {name: HCC_DB, read_by: [], effect: none, says: gone, instead: AMD_LOG_LEVEL=3}\n"
    "  - {name: ROCBLAS_LAYER, read_by: [rocblas], effect: real, says: traces}\n"
    "  - {name: NCCL_DEBUG, read_by: [rccl], effect: real, says: logs}\n"
    "  - {name: MAX_JOBS, read_by: ['python:torch'], effect: build-time, says: compilers}\n";

struct bench {
    struct arena *arena;
    const struct knowledge *k;
    struct facts *facts;
    struct finding_list findings;
    struct health health;
};

static int set_up(void **state)
{
    temp_root_make();
    temp_write("/fact_keys.tsv", keys_text);
    temp_write("/taxonomy.tsv", "slug\tlayer\td\tm\ts\n");
    temp_write("/rules/x.yaml", rules_text);
    temp_write("/switches.yaml", switches_text);
    struct arena *a = arena_new(0);
    struct bench *b = arena_alloc(a, sizeof *b);
    struct err err;
    b->arena = a;
    if (knowledge_from_dir(a, temp_root, NULL, &b->k, &err) != ST_OK) {
        print_error("%s\n", err.text);
        return 1;
    }
    temp_root_remove();
    b->facts = facts_new(a);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    arena_free(((struct bench *)*state)->arena);
    return 0;
}

static void judge(struct bench *b, const char *stage)
{
    b->findings = (struct finding_list){0};
    doctor_judge(b->arena, b->k, b->facts, stage, &b->findings, &b->health);
}

static const struct finding *found(const struct bench *b, const char *id)
{
    for (size_t i = 0; i < b->findings.count; i++) {
        if (strcmp(b->findings.items[i].id, id) == 0) {
            return &b->findings.items[i];
        }
    }
    return NULL;
}

static void test_a_failing_rule_costs_its_weight(void **state)
{
    struct bench *b = *state;
    facts_int(b->facts, "gpu.count", 0, "/sys");
    judge(b, NULL);
    const struct finding *f = found(b, "no-gpu");
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_ERROR);
    assert_string_equal(f->title, "No GPU among 0");
    assert_string_equal(f->evidence.items[0].source, "/sys");
    assert_int_equal(b->health.score, 59); /* 60 are left, and an error leaves 59 at most */
    assert_true(fabs(b->health.confidence - 1) < 1e-9);
}

/* Score and verdict agree: below 60 exactly when there is an error. */
static void test_score_and_verdict_agree(void **state)
{
    struct health_row rows[8] = {{"a", SEVERITY_WARNING, 60, 0}};
    struct health h = {.items = rows, .count = 1};
    (void)state;
    for (size_t i = 0; i < 8; i++) {
        rows[i] = (struct health_row){"w", SEVERITY_WARNING, 60, health_lost(SEVERITY_WARNING, 60)};
    }
    assert_int_equal(rows[0].lost, 15);
    assert_int_equal(health_score(&h), 85);
    h.count = 8;
    assert_int_equal(health_score(&h), 60); /* never as low as with an error */
    rows[7] = (struct health_row){"e", SEVERITY_ERROR, 10, health_lost(SEVERITY_ERROR, 10)};
    assert_int_equal(health_score(&h), 0);
    rows[0] = rows[7];
    h.count = 1;
    assert_int_equal(health_score(&h), 59);
    rows[0] = (struct health_row){"u", SEVERITY_UNKNOWN, 40, health_lost(SEVERITY_UNKNOWN, 40)};
    assert_int_equal(health_score(&h), 100);
    rows[0] = (struct health_row){"n", SEVERITY_NOTE, 3, health_lost(SEVERITY_NOTE, 3)};
    assert_int_equal(health_score(&h), 99);
}

static void test_a_denied_fact_is_could_not_tell(void **state)
{
    struct bench *b = *state;
    facts_set_state(b->facts, "gpu.count", FACT_DENIED, "/sys", "permission denied");
    judge(b, NULL);
    const struct finding *f = found(b, "no-gpu");
    assert_non_null(f);
    assert_int_equal(f->severity, SEVERITY_UNKNOWN);
    assert_int_equal(b->health.score, 100);  /* unknown lowers confidence, not the score */
    assert_true(b->health.confidence < 0.1); /* rules for each GPU have not looked at one either */
}

static void test_a_loop_judges_each_gpu(void **state)
{
    struct bench *b = *state;
    facts_int(b->facts, "gpu.count", 3, "/sys");
    for (int i = 0; i < 3; i++) {
        facts_string(b->facts, arena_fmt(b->arena, "gpu[%d].name", i),
                     arena_fmt(b->arena, "card %d", i), "/sys");
        facts_int(b->facts, arena_fmt(b->arena, "gpu[%d].pcie_width", i), i == 1 ? 4 : 16, "/sys");
    }
    judge(b, NULL);
    const struct finding *f = found(b, "narrow-link");
    assert_non_null(f);
    assert_string_equal(f->title, "card 1 runs on 4 lanes");
    assert_string_equal(f->remedy.items[0], "reseat card 1");
    assert_string_equal(f->evidence.items[0].text, "gpu[1].pcie_width = 4");
    assert_int_equal(b->health.score, 97); /* a quarter of 10, rounded up */
    assert_int_equal(b->findings.items[0].severity, SEVERITY_WARNING); /* worst first */
}

static void test_a_switch_without_effect_is_said_so(void **state)
{
    struct bench *b = *state;
    static const char *const readers[] = {"librccl.so.1"};
    facts_string(b->facts, "env.HCC_DB", "1", "environment");
    facts_string(b->facts, "env.ROCBLAS_LAYER", "1", "environment");
    facts_string(b->facts, "env.NCCL_DEBUG", "INFO", "environment");
    facts_strings(b->facts, "switch.HCC_DB.read_by", NULL, 0, "libraries");
    facts_strings(b->facts, "switch.ROCBLAS_LAYER.read_by", NULL, 0, "libraries");
    facts_strings(b->facts, "switch.NCCL_DEBUG.read_by", readers, 1, "libraries");
    judge(b, NULL);
    bool hcc = false;
    bool rocblas = false;
    for (size_t i = 0; i < b->findings.count; i++) {
        const char *title = b->findings.items[i].title;
        hcc = hcc || strstr(title, "HCC_DB is set and does nothing") != NULL;
        rocblas = rocblas || strstr(title, "ROCBLAS_LAYER is set, and no library") != NULL;
        assert_null(strstr(title, "NCCL_DEBUG"));
    }
    assert_true(hcc);
    assert_true(rocblas);
}

/* Fault: a switch of the build is told as one that a running job ignores, as if it were folklore. */
static void test_a_build_time_switch_is_said_so(void **state)
{
    struct bench *b = *state;
    static const char *const readers[] = {"python:torch"};
    facts_string(b->facts, "env.MAX_JOBS", "4", "environment");
    facts_strings(b->facts, "switch.MAX_JOBS.read_by", readers, 1, "libraries");
    judge(b, "stack");
    assert_int_equal(b->findings.count, 1);
    assert_string_equal(b->findings.items[0].id, "switch-build-time");
    assert_int_equal(b->findings.items[0].severity, SEVERITY_NOTE);
    assert_non_null(
        strstr(b->findings.items[0].title, "MAX_JOBS is set: it is read when something is built"));
}

static void test_a_stage_asks_only_its_own_rules(void **state)
{
    struct bench *b = *state;
    facts_int(b->facts, "gpu.count", 0, "/sys");
    judge(b, "stack");
    assert_int_equal(b->findings.count, 0);
    judge(b, "host");
    assert_int_equal(b->findings.count, 1);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(test_a_failing_rule_costs_its_weight),    CASE(test_score_and_verdict_agree),
        CASE(test_a_denied_fact_is_could_not_tell),    CASE(test_a_loop_judges_each_gpu),
        CASE(test_a_switch_without_effect_is_said_so), CASE(test_a_stage_asks_only_its_own_rules),
        CASE(test_a_build_time_switch_is_said_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
