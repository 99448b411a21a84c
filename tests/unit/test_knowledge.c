// SPDX-License-Identifier: Apache-2.0
/* The knowledge of this source tree, and what the loader says about knowledge that is wrong. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <hs.h>
#include <pcre2.h>

#include "knowledge/blob.h"
#include "knowledge/expr.h"
#include "knowledge/knowledge.h"
#include "temp_root.h"
#include "unit.h"

static const struct knowledge *source_knowledge(struct arena *a)
{
    const struct knowledge *k;
    struct text_list problems = {0};
    struct err err;
    assert_int_equal(knowledge_check_dir(a, KNOWLEDGE_DIR, &k, &problems, &err), ST_OK);
    for (size_t i = 0; i < problems.count; i++) {
        print_error("%s\n", problems.items[i]);
    }
    assert_int_equal(problems.count, 0);
    return k;
}

/* ---- patterns against their own examples ---- */

struct heard {
    bool *hit;
};

static int on_match(unsigned id, unsigned long long from, unsigned long long to, unsigned flags,
                    void *ctx)
{
    (void)from;
    (void)to;
    (void)flags;
    ((struct heard *)ctx)->hit[id] = true;
    return 0;
}

static hs_database_t *compile_all(struct arena *a, const struct knowledge *k)
{
    const char **regex = arena_array(a, k->patterns_count, sizeof *regex);
    unsigned *flags = arena_array(a, k->patterns_count, sizeof *flags);
    unsigned *ids = arena_array(a, k->patterns_count, sizeof *ids);
    for (size_t i = 0; i < k->patterns_count; i++) {
        regex[i] = k->patterns[i].regex;
        flags[i] = HS_FLAG_MULTILINE | HS_FLAG_SINGLEMATCH;
        ids[i] = (unsigned)i;
    }
    hs_database_t *db = NULL;
    hs_compile_error_t *error = NULL;
    if (hs_compile_multi(regex, flags, ids, (unsigned)k->patterns_count, HS_MODE_BLOCK, NULL, &db,
                         &error) != HS_SUCCESS) {
        fail_msg("%s: %s", error->expression >= 0 ? k->patterns[error->expression].where : "",
                 error->message);
    }
    return db;
}

static bool pcre_matches(const char *regex, const char *text)
{
    int error;
    PCRE2_SIZE at;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)regex, PCRE2_ZERO_TERMINATED,
                                     PCRE2_MULTILINE | PCRE2_DOLLAR_ENDONLY, &error, &at, NULL);
    assert_non_null(code);
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(code, NULL);
    bool yes = pcre2_match(code, (PCRE2_SPTR)text, strlen(text), 0, 0, data, NULL) >= 0;
    pcre2_match_data_free(data);
    pcre2_code_free(code);
    return yes;
}

/* A line counts when the scanner hits, the regex holds on the line alone, and the capture too. */
static bool recognises(const struct pattern *p, bool scanner_hit, const char *line)
{
    return scanner_hit && pcre_matches(p->regex, line) &&
           (p->capture == NULL || pcre_matches(p->capture, line));
}

static void test_every_pattern_keeps_its_examples(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    const struct knowledge *k = source_knowledge(a);
    hs_database_t *db = compile_all(a, k);
    hs_scratch_t *scratch = NULL;
    assert_int_equal(hs_alloc_scratch(db, &scratch), HS_SUCCESS);
    struct heard heard = {.hit = arena_array(a, k->patterns_count, sizeof(bool))};
    int wrong = 0;
    for (size_t i = 0; i < k->patterns_count; i++) {
        const struct pattern *p = &k->patterns[i];
        for (size_t j = 0; j < p->examples.count + p->negatives.count; j++) {
            bool want = j < p->examples.count;
            const char *line = want ? p->examples.items[j]
                                    : p->negatives.items[j - p->examples.count];
            heard.hit[i] = false;
            hs_scan(db, line, (unsigned)strlen(line), 0, scratch, on_match, &heard);
            if (recognises(p, heard.hit[i], line) != want) {
                print_error("%s: '%s' %s: %s\n", p->where, p->id,
                            want ? "does not match its example" : "matches what it should not",
                            line);
                wrong++;
            }
        }
    }
    hs_free_scratch(scratch);
    hs_free_database(db);
    arena_free(a);
    assert_int_equal(wrong, 0);
}

/* ---- the compiled-in copy ---- */

static void test_the_built_in_copy_is_the_source_tree(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    const struct knowledge *source = source_knowledge(a);
    const struct knowledge *built;
    struct err err;
    assert_int_equal(knowledge_builtin(a, NULL, &built, &err), ST_OK);
    assert_int_equal(built->patterns_count, source->patterns_count);
    assert_int_equal(built->causes_count, source->causes_count);
    assert_int_equal(built->rules_count, source->rules_count);
    assert_int_equal(built->switches_count, source->switches_count);
    for (size_t i = 0; i < built->causes_count; i++) {
        const struct cause *x = &built->causes[i];
        const struct cause *y = &source->causes[i];
        assert_string_equal(x->class_slug, y->class_slug);
        assert_string_equal(x->layer, y->layer);
        assert_int_equal(x->because.count, y->because.count);
        for (size_t j = 0; j < x->because.count; j++) {
            assert_int_equal(x->because.items[j].weight, y->because.items[j].weight);
            assert_string_equal(expr_source(x->because.items[j].when),
                                expr_source(y->because.items[j].when));
            assert_int_equal(expr_has_event(x->because.items[j].when),
                             expr_has_event(y->because.items[j].when));
        }
    }
    arena_free(a);
}

static void test_a_damaged_block_is_an_error_not_a_crash(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct str blob = knowledge_blob_write(a, source_knowledge(a));
    struct err err;
    const struct knowledge *k;
    for (size_t n = 0; n < blob.n; n += 1 + blob.n / 97) {
        struct arena_mark mark = arena_mark(a);
        assert_int_equal(knowledge_blob_read(a, str_slice(blob, 0, n), NULL, &k, &err), ST_FORMAT);
        arena_rewind(a, mark);
    }
    /* Any byte of the tables may lie: the answer may be wrong, but every access stays inside. */
    char *bytes = arena_copy(a, blob.p, blob.n);
    uint32_t tables;
    memcpy(&tables, bytes + 12, sizeof tables);
    for (size_t at = 32; at < 32 + (size_t)tables; at += 1 + tables / 499) {
        struct arena_mark mark = arena_mark(a);
        char kept = bytes[at];
        bytes[at] = (char)(kept ^ 0x81);
        (void)!knowledge_blob_read(a, (struct str){.p = bytes, .n = blob.n}, NULL, &k, &err);
        bytes[at] = kept;
        arena_rewind(a, mark);
    }
    arena_free(a);
}

/* ---- what the loader says ---- */

static const char fact_keys[] = "key\ttype\tunit\twhere\tmeaning\n"
                                "gpu.count\tint\t\tx\tx\n"
                                "gpu[].gfx\tstring\t\tx\tx\n"
                                "lib.<name>.version\tversion\t\tx\tx\n";
static const char taxonomy[] = "slug\tlayer\tdefinition\tmistaken_for\tstandard_fix\n"
                               "oom-true\tapplication-config\tx\tx\tx\n";
static const char pattern_oom[] = "patterns:\n"
                                  "  - id: hip-oom\n"
                                  "    regex: 'HIP out of memory'\n"
                                  "    kind: fault\n"
                                  "    source: x\n"
                                  "    examples: ['HIP out of memory.']\n";

static void make_folder(void)
{
    temp_root_make();
    temp_write("/fact_keys.tsv", fact_keys);
    temp_write("/taxonomy.tsv", taxonomy);
    temp_write("/patterns/oom.yaml", pattern_oom);
}

#define CAUSE "causes:\n  - class: oom-true\n    title: Out of memory\n    because:\n"
#define RULE  "rules:\n  - id: r\n    severity: error\n    title: T\n"

/* One file that is wrong, and what the message must name. */
static const struct {
    const char *file;
    const char *text;
    const char *says;
} wrong_files[] = {
    {"causes/x.yaml", "causes:\n  - clas: oom-true\n",
     "causes/x.yaml:2: unknown key 'clas'; did you mean 'class'?"},
    {"causes/x.yaml", CAUSE "      - when: event(hip-oon)\n        weight: 60\n",
     "causes/x.yaml:5: there is no pattern 'hip-oon'; did you mean 'hip-oom'?"},
    {"causes/x.yaml", CAUSE "      - when: gpu.cnt > 0\n        weight: 60\n",
     "there is no fact key 'gpu.cnt'"},
    {"causes/x.yaml", CAUSE "      - when: event(hip-oom\n        weight: 60\n",
     "causes/x.yaml:5: column 14"},
    {"causes/x.yaml", CAUSE "      - when: event(hip-oom)\n", "'weight' is missing"},
    {"causes/x.yaml", CAUSE "      - when: event(hip-oom)\n        weight: 160\n", "from 1 to 100"},
    {"causes/x.yaml",
     CAUSE "      - {when: event(hip-oom), weight: 60}\n    explains: [nothing-here]\n",
     "there is no pattern 'nothing-here'"},
    {"causes/x.yaml",
     "causes:\n  - class: oom-tru\n    title: x\n    because: [{when: event(hip-oom), weight: 60}]\n",
     "there is no class 'oom-tru'"},
    {"causes/x.yaml", CAUSE "      - {when: event(hip-oom), weight: 60, text: 'of {gpu.cuont}'}\n",
     "there is no fact key 'gpu.cuont'"},
    {"causes/x.yaml",
     CAUSE "      - {when: event(hip-oom), weight: 60}\n"
           "  - class: oom-true\n    title: b\n    because: [{when: event(hip-oom), weight: 60}]\n",
     "causes/x.yaml:6: the cause 'oom-true' is already defined at causes/x.yaml:2"},
    {"causes/x.yaml", CAUSE "      - {when: event(hip-oom).size > 1, weight: 60}\n",
     "the pattern 'hip-oom' (patterns/oom.yaml:2) captures no 'size'"},
    {"causes/x.yaml", CAUSE "      - {when: event(nvidia-xid).number == 79, weight: 60}\n",
     "'nvidia-xid' has no capture 'number'"},
    {"patterns/x.yaml", "patterns:\n  - {id: a, regex: '(', kind: fault, examples: ['(']}\n",
     "patterns/x.yaml:2: 'regex' is not what the scanner takes"},
    {"patterns/x.yaml", "patterns:\n  - {id: a, regex: 'x*', kind: fault, examples: ['x']}\n",
     "matches the empty text"},
    {"patterns/x.yaml",
     "patterns:\n  - {id: a, regex: 'x', capture: '(?<n', kind: fault, examples: ['x']}\n",
     "'capture' is no regular expression"},
    {"patterns/x.yaml", "patterns:\n  - {id: a, regex: 'x(?=y)', kind: fault, examples: ['xy']}\n",
     "not what the scanner takes"},
    {"patterns/x.yaml", "patterns:\n  - {id: a, regex: 'x', kind: guilt, examples: ['x']}\n",
     "it should be one of: fault"},
    {"patterns/x.yaml", "patterns:\n  - {id: a, regex: 'x', kind: fault}\n", "has no examples"},
    {"patterns/x.yaml", "patterns:\n  - {id: hip-oom, regex: 'x', kind: fault, examples: ['x']}\n",
     "already defined at patterns/oom.yaml:2"},
    {"patterns/x.yaml", "patterns: &a\n  - *a\n", "patterns/x.yaml"},
    {"rules/x.yaml", RULE "    when: $.gfx == \"x\"\n",
     "uses '$', which only a rule with 'for' has"},
    {"rules/x.yaml", RULE "    when: $.gfy == \"x\"\n    for: 'gpu[*]'\n",
     "there is no fact key 'gpu[*].gfy'"},
    {"rules/x.yaml", RULE "    when: event(hip-oom)\n", "there is no log"},
    {"rules/x.yaml", RULE "    when: gpu.count > 0\n    needs: [gpu.county]\n", "'gpu.county'"},
    {"rules/x.yaml", RULE "    when: gpu.count > 0\n    weight: heavy\n", "a whole number"},
    {"rules/x.yaml", "stage: moon\nrules: []\n", "it should be one of: host, stack"},
    {"switches.yaml", "switches:\n  - {name: X, effect: magic, says: x}\n",
     "switches.yaml:2: 'effect' is 'magic'"},
    {"texts/zh.yaml", "causes.oom-true.titel: x\n", "translates no text"},
    {"fact_keys.tsv", "key\ttype\tunit\twhere\tmeaning\ngpu.count\tint\n",
     "fact_keys.tsv:2: the row has 2 columns"},
    {"fact_keys.tsv", "key\ttype\tunit\twhere\tmeaning\na.b\tnumber\t\tx\tx\n",
     "'number' is no type"},
    {"taxonomy.tsv", "slug\tlayer\td\tm\ts\nx\tmoon\t\t\t\n", "'moon' is no layer"},
};

static void test_each_problem_names_its_file_and_line(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    for (size_t i = 0; i < ARRAY_LEN(wrong_files); i++) {
        make_folder();
        temp_write(arena_fmt(a, "/%s", wrong_files[i].file), wrong_files[i].text);
        const struct knowledge *k;
        struct text_list problems = {0};
        struct err err = {0};
        assert_int_equal(knowledge_check_dir(a, temp_root, &k, &problems, &err), ST_OK);
        bool found = false;
        for (size_t j = 0; j < problems.count; j++) {
            found = found || strstr(problems.items[j], wrong_files[i].says) != NULL;
        }
        if (!found) {
            fail_msg("'%s' expected, got %zu problems, first: %s", wrong_files[i].says,
                     problems.count, problems.count != 0 ? problems.items[0] : "");
        }
        assert_int_equal(knowledge_from_dir(a, temp_root, NULL, &k, &err), ST_FORMAT);
        temp_root_remove();
    }
    arena_free(a);
}

static void test_lists_may_be_written_short(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    make_folder();
    temp_write("/causes/x.yaml", CAUSE "      - {when: event(hip-oom), weight: 60}\n"
                                       "    requires: [gpu.count > 0, not run.completed]\n"
                                       "    settle: ['df -h', {when: gpu.count > 1, text: b}]\n"
                                       "    remedy: buy memory\n");
    temp_write("/rules/x.yaml", "stage: host\n" RULE "    when: '$.gfx == \"x\"'\n"
                                "    for: 'gpu[*]'\n    evidence: [$.gfx, 'gpu[*].gfx']\n");
    const struct knowledge *k;
    struct err err = {0};
    if (knowledge_from_dir(a, temp_root, NULL, &k, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(k->causes[0].remedy.count, 1);
    assert_null(k->causes[0].settle.items[0].when);
    assert_non_null(k->causes[0].settle.items[1].when);
    assert_string_equal(expr_source(k->causes[0].require),
                        "(gpu.count > 0) and (not run.completed)");
    assert_string_equal(k->rules[0].stage, "host");
    assert_int_equal(k->rules[0].weight, 20);
    temp_root_remove();
    arena_free(a);
}

static void test_a_language_lies_over_the_english_texts(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    make_folder();
    temp_write("/causes/x.yaml", CAUSE "      - {when: event(hip-oom), weight: 60, text: e1}\n"
                                       "    remedy: [r1, r2]\n");
    temp_write("/texts/zh.yaml", "causes:\n  oom-true:\n    title: 显存不足\n    remedy: [z1, z2]\n"
                                 "causes.oom-true.because: [z3]\n");
    const struct knowledge *k;
    struct err err = {0};
    if (knowledge_from_dir(a, temp_root, "zh_CN.UTF-8", &k, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    assert_string_equal(k->causes[0].title, "显存不足");
    assert_string_equal(k->causes[0].remedy.items[1].text, "z2");
    assert_string_equal(k->causes[0].because.items[0].text, "z3");
    assert_int_equal(knowledge_from_dir(a, temp_root, "fr", &k, &err), ST_OK);
    assert_string_equal(k->causes[0].title, "Out of memory");
    assert_string_equal(k->causes[0].remedy.items[1].text, "r2");
    temp_root_remove();
    arena_free(a);
}

static void test_the_nearest_row_names_a_key(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    const struct knowledge *k = source_knowledge(a);
    assert_string_equal(knowledge_fact_key(k, "gpu[12].gfx")->pattern, "gpu[].gfx");
    assert_string_equal(knowledge_fact_key(k, "gpu[*].gfx")->pattern, "gpu[].gfx");
    assert_string_equal(knowledge_fact_key(k, "lib.rocblas.version")->type, "version");
    assert_string_equal(knowledge_fact_key(k, "env.worker.HSA_XNACK")->pattern,
                        "env.worker.<NAME>");
    assert_string_equal(knowledge_fact_key(k, "env.HSA_XNACK")->pattern, "env.<NAME>");
    assert_string_equal(knowledge_fact_key(k, "file./opt/rocm/lib/x.so.present")->type, "bool");
    assert_null(knowledge_fact_key(k, "gpu[x].gfx"));
    assert_null(knowledge_fact_key(k, "gpu[].gfx.more"));
    assert_null(knowledge_fact_key(k, ""));
    arena_free(a);
}

static void test_a_folder_that_is_none_is_said_so(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    const struct knowledge *k;
    struct err err = {0};
    assert_int_equal(knowledge_from_dir(a, "/nonexistent/knowledge", NULL, &k, &err), ST_ABSENT);
    assert_non_null(strstr(err.text, "/nonexistent/knowledge"));
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pattern_keeps_its_examples),
        cmocka_unit_test(test_the_built_in_copy_is_the_source_tree),
        cmocka_unit_test(test_a_damaged_block_is_an_error_not_a_crash),
        cmocka_unit_test(test_each_problem_names_its_file_and_line),
        cmocka_unit_test(test_lists_may_be_written_short),
        cmocka_unit_test(test_a_language_lies_over_the_english_texts),
        cmocka_unit_test(test_the_nearest_row_names_a_key),
        cmocka_unit_test(test_a_folder_that_is_none_is_said_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
