// SPDX-License-Identifier: Apache-2.0
/* src/study: statistics against tables, logs of every form, times, set-ups, inputs, judgements. */
#include <string.h>

#include "base/tree.h"

#include "study/bisect.h"
#include "study/contrast.h"
#include "study/inputs.h"
#include "study/loss_judge.h"
#include "study/plan.h"
#include "study/setup.h"
#include "study/step_time.h"
#include "study_support.h"
#include "unit.h"

static struct arena *arena;

static int begin(void **state)
{
    (void)state;
    arena = arena_new(0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

/* ---- statistics; the values R gives: qt, qnorm, binom.wilson, fisher.test ---- */

static void test_tables(void **state)
{
    (void)state;
    double low;
    double high;
    near_to(stats_normal_quantile(0.975), 1.959963984540054, 1e-9);
    near_to(stats_normal_quantile(0.001), -3.090232306167813, 1e-9);
    near_to(stats_t_quantile(0.975, 2), 4.302652729696142, 1e-8);
    near_to(stats_t_quantile(0.975, 10), 2.2281388519649385, 1e-8);
    near_to(stats_t_quantile(0.995, 5), 4.032142983557536, 1e-8);
    near_to(stats_t_quantile(0.025, 10), -2.2281388519649385, 1e-8);
    near_to(stats_t_quantile(0.975, 1e9), 1.959963984540054, 1e-6);
    stats_wilson(3, 10, 0.95, &low, &high);
    near_to(low, 0.10779126740630081, 1e-9);
    near_to(high, 0.6032218525388546, 1e-9);
    stats_wilson(0, 10, 0.95, &low, &high);
    assert_true(low == 0);
    near_to(high, 0.2775327998628892, 1e-9);
    stats_wilson(10, 10, 0.95, &low, &high);
    near_to(low, 0.7224672001371107, 1e-9);
    assert_true(high == 1);
    near_to(stats_fisher(3, 0, 0, 3), 0.1, 1e-9);
    near_to(stats_fisher(8, 2, 1, 5), 0.034965034965034965, 1e-9);
    near_to(stats_fisher(10, 0, 7, 3), 0.21052631578947367, 1e-9);
    near_to(stats_fisher(0, 0, 7, 3), 1, 0);
    near_to(stats_zero_bound(100, 0.95), 0.029513, 1e-6);
    near_to(stats_zero_bound(0, 0.95), 1, 0);
    assert_int_equal(stats_trials_for(0.1, 0.95), 29);
    assert_int_equal(stats_trials_for(0.5, 0.95), 5);
}

static void test_location(void **state)
{
    (void)state;
    const double v[] = {3, 1, 4, 1, 5, 9, 2, 6};
    near_to(stats_mean(v, 8), 3.875, 1e-12);
    near_to(stats_sd(v, 8), 2.748376143938713, 1e-12);
    near_to(stats_quantile(arena, v, 8, 0.1), 1, 1e-12);
    near_to(stats_median(arena, v, 8), 3.5, 1e-12);
    near_to(stats_quantile(arena, v, 8, 0.95), 7.95, 1e-12);
    near_to(stats_robust_sd(arena, v, 8), 1.4826 * 2, 1e-12);
    assert_true(isnan(stats_sd(v, 1)));
    assert_true(isnan(stats_median(arena, v, 0)));
    const double holed[] = {1, NAN, 2};
    assert_true(isnan(stats_median(arena, holed, 3)));
}

/* ---- logs ---- */

static struct run_log parse(const char *text)
{
    struct run_log log;
    struct err err = {0};
    if (run_log_parse(arena, str_of(text), "test", &log, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    return log;
}

static void test_hf_console(void **state)
{
    (void)state;
    /* Version 5 prints texts; no steps, an evaluation after two values, a bar that tells the steps. */
    struct run_log l = parse(
        "***** Running training *****\n"
        "  Num examples = 1,000\n"
        "  Instantaneous batch size per device = 2\n"
        "  Total optimization steps = 40\n"
        "{'loss': '1.612', 'grad_norm': '6.343', 'learning_rate': '0.0001', 'epoch': '0.1'}\n"
        " 25%|##5       | 10/40 [00:10<00:30,  1.00s/it]\r"
        "{'loss': '1.5', 'grad_norm': '6', 'learning_rate': '0.0001', 'epoch': '0.2'}\n"
        "{'eval_loss': '1.4', 'eval_runtime': '2.0', 'epoch': '0.2'}\n"
        "{'loss': 'nan', 'grad_norm': '6', 'learning_rate': '0.0001', 'epoch': '0.3'}\n"
        "{'loss': '1.3', 'grad_norm': '6', 'learning_rate': '0.0001', 'epoch': '0.4'}\n"
        "100%|##########| 40/40 [00:40<00:00,  1.00s/it]\n"
        "{'train_runtime': '40.5', 'train_loss': '1.45', 'epoch': '0.4'}\n"
        /* log_metrics() repeats the means of the run: no step, and no other run time. */
        "***** train metrics *****\n"
        "  epoch                    =        0.4\n"
        "  train_loss               =       1.45\n"
        "  train_runtime            = 0:00:40.50\n");
    assert_int_equal(l.steps_from, RUN_LOG_STEPS_COUNTED);
    assert_int_equal(l.loss.count, 4);
    assert_int_equal(l.loss.items[0].step, 10);
    assert_int_equal(l.loss.items[3].step, 40);
    assert_int_equal(l.not_finite, 1);
    assert_int_equal(l.eval_loss.items[0].step, 20);
    assert_true(l.finished);
    near_to(l.train_loss, 1.45, 1e-12);
    near_to(l.train_runtime_s, 40.5, 1e-12);
    assert_int_equal(l.total_steps, 40);
    assert_int_equal(l.said.count, 2);
    assert_string_equal(l.said.items[0].value, "1,000");
}

static void test_trainer_state(void **state)
{
    (void)state;
    struct run_log l = parse(
        "{\n \"best_metric\": null,\n \"global_step\": 3,\n \"log_history\": [\n"
        "  {\n   \"epoch\": 0.1,\n   \"grad_norm\": NaN,\n   \"loss\": 2.5,\n   \"step\": 1\n  },\n"
        "  {\n   \"epoch\": 0.2,\n   \"loss\": Infinity,\n   \"step\": 2\n  },\n"
        "  {\n   \"epoch\": 0.2,\n   \"eval_loss\": 2.25,\n   \"step\": 2\n  },\n"
        "  {\n   \"epoch\": 0.3,\n   \"loss\": 2.0,\n   \"step\": 3\n  }\n ],\n"
        " \"max_steps\": 3,\n \"train_batch_size\": 4\n}\n");
    assert_int_equal(l.kind, RUN_LOG_TRAINER_STATE);
    assert_int_equal(l.loss.count, 3);
    assert_int_equal(l.not_finite, 1);
    assert_int_equal(l.eval_loss.count, 1);
    assert_int_equal(l.last_step, 3);
    assert_true(l.finished);
    assert_string_equal(l.said.items[0].name, "batch per device");
}

static void test_json_lines(void **state)
{
    (void)state;
    struct run_log l = parse(
        "{\"current_steps\": 5, \"total_steps\": 20, \"loss\": 1.5, \"elapsed_time\": \"0:00:10\", "
        "\"vram_reserved\": 12.5}\n"
        "{\"current_steps\": 10, \"total_steps\": 20, \"loss\": 1.4, \"elapsed_time\": \"1:00:20\"}\n"
        "{\"current_steps\": 15, \"total_steps\": 20, \"loss\": 1.3, \"elapsed_time\": \"1 day, 0:00:30\"}\n");
    assert_int_equal(l.loss.count, 3);
    assert_int_equal(l.loss.items[1].step, 10);
    near_to(l.loss.items[0].time, 10, 0);
    near_to(l.loss.items[1].time, 3620, 0);
    near_to(l.loss.items[2].time, 86430, 0);
    near_to(l.gpu_memory_bytes, 12.5 * (1 << 30), 1);
    /* A run that was resumed prints steps again. */
    l = parse("{\"step\": 1, \"loss\": 3}\n{\"step\": 2, \"loss\": 2}\n{\"step\": 3, \"loss\": 9}\n"
              "{\"step\": 2, \"loss\": 2.5}\n{\"step\": 3, \"loss\": 1}\n");
    assert_int_equal(l.loss.count, 3);
    near_to(l.loss.items[1].value, 2.5, 0);
    near_to(l.loss.items[2].value, 1, 0);
}

static void test_not_training(void **state)
{
    (void)state;
    struct run_log log;
    struct err err = {0};
    static const char *const texts[] = {"", "hello\n", "{\"log_history\": ", "\0\1\2",
                                        "{\"a\": 1}"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        assert_int_equal(run_log_parse(arena, str_of(texts[i]), "x", &log, &err), ST_FORMAT);
    }
}

/* ---- times ---- */

static void test_times(void **state)
{
    (void)state;
    struct run_log log;
    struct made_run m = MADE_RUN;
    make_run(arena, &m, 1, &log);
    double t = 7;
    for (size_t i = 0; i < log.loss.count; i++) {
        log.loss.items[i].time = t;
        t += i < 3 ? 4.0 : 0.5 + 0.01 * (double)(i % 3); /* three slow steps: compilation */
        t += (i + 1) % 20 == 0 ? 2 : 0;                  /* an evaluation after steps 20, 40 … */
        t += i == 49 ? 6 : 0;                            /* a loader that stands after step 50 */
        if (i == 29) { /* a checkpoint after step 30 that the log tells of */
            *VEC_PUSH(arena, &log.save_times) = t - 0.2;
            t += 3;
        }
    }
    struct step_time s;
    step_time_of(arena, &log, &s);
    assert_int_equal(s.source, STEP_TIME_STAMPS);
    near_to(s.seconds, 0.51, 0.002);
    near_to(s.start_s, 7, 0);
    assert_int_equal(s.warmup_steps, 3);
    near_to(s.warmup_s, 10.5, 0.1);
    assert_int_equal(s.evals, 4);
    near_to(s.eval_s, 8, 0.1);
    assert_int_equal(s.pauses, 1);
    near_to(s.pause_s, 6, 0.1);
    assert_int_equal(s.saves, 1);
    near_to(s.save_s, 3, 0.1);
}

static void test_times_without_stamps(void **state)
{
    (void)state;
    struct run_log log;
    struct made_run m = MADE_RUN;
    make_run(arena, &m, 1, &log);
    for (size_t i = 0; i < log.loss.count; i++) {
        log.loss.items[i].time = NAN;
    }
    struct step_time s;
    step_time_of(arena, &log, &s);
    assert_int_equal(s.source, STEP_TIME_NONE);
    assert_true(isnan(s.seconds));
    log.train_runtime_s = 2377;
    step_time_of(arena, &log, &s);
    assert_int_equal(s.source, STEP_TIME_RUNTIME);
    near_to(s.seconds, 23.77, 1e-9);
}

/* ---- set-ups and inputs ---- */

static void test_setups(void **state)
{
    (void)state;
    struct setup a = {0};
    struct setup b = {0};
    struct err err = {0};
    struct setup_differences d;
    assert_int_equal(
        setup_add_config(
            arena, &a,
            STR("per_device_train_batch_size: 2\nlearning_rate: 1.0e-4\n"
                "bf16: true\nfp16: false\noutput_dir: one\nmodel_name_or_path: /x/m\n"),
            "a.yaml", &err),
        ST_OK);
    assert_int_equal(
        setup_add_config(
            arena, &b,
            STR("{\"micro_batch_size\": 4, \"learning_rate\": 0.0001, \"bf16\": \"True\", "
                "\"output_dir\": \"two\", \"model_name_or_path\": \"/y/m\", \"flash_attn\": \"sdpa\"}"),
            "b.json", &err),
        ST_OK);
    setup_compare(arena, &a, &b, &d);
    assert_int_equal(d.count, 2);
    assert_string_equal(d.items[0].name, "batch per device");
    assert_string_equal(d.items[0].b, "4");
    assert_true((d.items[0].bits & SETUP_SPEED) != 0);
    assert_string_equal(d.items[1].name, "flash_attn");
    assert_int_equal(d.items[1].bits, 0);
    const char *words[] = {"torchrun", "--nproc-per-node", "2",     "train.py",
                           "--seed=7", "cutoff_len=512",   "--bf16"};
    struct text_list argv = {.items = words, .count = ARRAY_LEN(words)};
    struct setup c = {0};
    setup_add_command(arena, &c, &argv);
    assert_int_equal(c.count, 4);
    assert_string_equal(c.items[0].name, "GPU count");
    assert_string_equal(c.items[3].value, "true");
}

static struct run_inputs inputs_of(const char *json)
{
    const struct tree *t;
    struct run_inputs in;
    struct err err = {0};
    assert_int_equal(tree_from_json(arena, str_of(json), "run.json", TREE_LIMITS_DEFAULT, &t, &err),
                     ST_OK);
    inputs_from_run(arena, t, &in);
    return in;
}

static void test_inputs(void **state)
{
    (void)state;
    const char *one =
        "{\"inputs\": [{\"role\": \"data\", \"name\": \"d\", \"digest\": \"aa\", \"method\": \"sha256\"}]}";
    const char *other =
        "{\"inputs\": [{\"role\": \"data\", \"name\": \"d\", \"digest\": \"ab\", \"method\": \"sha256\"}]}";
    const char *more =
        "{\"inputs\": [{\"role\": \"data\", \"name\": \"d\", \"digest\": \"aa\", \"method\": \"sha256\"},"
        "{\"role\": \"model\", \"name\": \"m\", \"reason\": \"no file\"}]}";
    struct run_inputs a = inputs_of(one);
    struct run_inputs b = inputs_of(other);
    struct run_inputs c = inputs_of(more);
    struct run_inputs none = inputs_of("{}");
    struct inputs_comparison r;
    inputs_compare(arena, &a, &a, &r);
    assert_int_equal(r.verdict, INPUTS_SAME);
    assert_int_equal(r.proven, 1);
    inputs_compare(arena, &a, &b, &r);
    assert_int_equal(r.verdict, INPUTS_DIFFER);
    inputs_compare(arena, &a, &c, &r);
    assert_int_equal(r.verdict, INPUTS_DIFFER);
    inputs_compare(arena, &c, &c, &r);
    assert_int_equal(r.verdict, INPUTS_UNPROVEN);
    inputs_compare(arena, &none, &none, &r);
    assert_int_equal(r.verdict, INPUTS_UNPROVEN);
}

/* ---- judgements ---- */

static struct loss_judgement judge(const struct made_run *a, const struct made_run *b)
{
    static struct run_log logs[2];
    const struct run_log *pa = &logs[0];
    const struct run_log *pb = &logs[1];
    struct loss_judgement j;
    make_run(arena, a, 1, &logs[0]);
    make_run(arena, b, 1, &logs[1]);
    loss_judge(arena, &pa, 1, &pb, 1, &j);
    return j;
}

static void test_judgements(void **state)
{
    (void)state;
    struct made_run m = MADE_RUN;
    struct loss_judgement j = judge(&m, &m);
    assert_true(j.equal);
    assert_int_equal(j.grade, LOSS_SAME);
    assert_int_equal(j.first_difference, -1);
    struct made_run b = m;
    b.parts_at = 30;
    b.scale = 1.1;
    struct made_run a = m;
    a.parts_at = 30;
    j = judge(&a, &b);
    assert_int_equal(j.grade, LOSS_DIFFERENT);
    assert_int_equal(j.first_difference, 30);
    assert_int_equal(j.parted, 30);
    assert_int_equal(j.level_b, LOSS_SAME);
    b = m;
    b.steps = 4;
    j = judge(&m, &b);
    assert_int_equal(j.grade, LOSS_SAME); /* four values, all equal */
    b.first = 1.002;
    j = judge(&m, &b);
    assert_int_equal(j.level_b, LOSS_OPEN);
    assert_int_equal(j.grade, LOSS_OPEN);
}

/* A first step between the limits, and paths that part: settled only where runs of A part as well. */
static void test_open_first_step(void **state)
{
    (void)state;
    for (int parts = 0; parts < 2; parts++) {
        struct run_log logs[4];
        const struct run_log *runs[4];
        struct made_run a = MADE_RUN;
        a.path = parts ? 6e-3 : 0;
        struct made_run b = a;
        b.first = 1.002;
        b.path = 6e-3;
        for (uint64_t i = 0; i < 4; i++) {
            make_run(arena, i < 3 ? &a : &b, 40 + i, &logs[i]);
            runs[i] = &logs[i];
        }
        struct loss_judgement j;
        loss_judge(arena, runs, 3, runs + 3, 1, &j);
        assert_int_equal(j.level_b, LOSS_OPEN);
        assert_true(j.parted > 0);
        assert_int_equal(j.a_parts, parts);
        assert_int_equal(j.unsettled, !parts);
        assert_true(parts ? j.grade == LOSS_SAME : j.grade != LOSS_SAME);
    }
}

/* The two stacks of the field report: 1.0896 and 1.0899, evaluations apart by up to 0.57 %. */
static void test_field_report(void **state)
{
    (void)state;
    struct run_log logs[2] = {0};
    static const double evals[2][5] = {{1.64, 1.45, 1.5, 1.58, 1.6506},
                                       {1.641, 1.453, 1.504, 1.584, 1.66}};
    for (int r = 0; r < 2; r++) {
        struct made_run m = MADE_RUN;
        m.path = 0;
        make_run(arena, &m, 1, &logs[r]);
        for (size_t i = 0; i < 5; i++) {
            logs[r].eval_loss.items[i].value = evals[r][i];
        }
        for (size_t i = 0; i < logs[r].loss.count; i++) {
            logs[r].loss.items[i].value *= r == 1 ? 1 + 2.8e-4 : 1;
        }
    }
    const struct run_log *a = &logs[0];
    const struct run_log *b = &logs[1];
    struct loss_judgement j;
    loss_judge(arena, &a, 1, &b, 1, &j);
    assert_int_equal(j.grade, LOSS_SAME);
    struct over_fitting o;
    loss_over_fitting(arena, &logs[0], &o);
    assert_true(o.present);
    assert_int_equal(o.best_step, 40);
}

static void test_nan_is_never_same(void **state)
{
    (void)state;
    struct run_log logs[2];
    struct made_run m = MADE_RUN;
    for (int r = 0; r < 2; r++) {
        make_run(arena, &m, 1, &logs[r]);
    }
    logs[1].loss.items[60].value = INFINITY;
    logs[1].not_finite = 1;
    const struct run_log *a = &logs[0];
    const struct run_log *b = &logs[1];
    struct loss_judgement j;
    loss_judge(arena, &a, 1, &b, 1, &j);
    assert_int_equal(j.grade, LOSS_DIFFERENT);
    loss_judge(arena, &b, 1, &b, 1, &j);
    assert_int_equal(j.grade, LOSS_OPEN);
}

static void test_over_fitting_needs_falling_loss(void **state)
{
    (void)state;
    struct run_log log;
    struct over_fitting o;
    struct made_run m = MADE_RUN;
    make_run(arena, &m, 1, &log);
    loss_over_fitting(arena, &log, &o);
    assert_false(o.present);
    m.eval_rise = 0.3;
    make_run(arena, &m, 1, &log);
    loss_over_fitting(arena, &log, &o);
    assert_true(o.present);
}

/* ---- plans, contrasts, searches ---- */

static void test_plan(void **state)
{
    (void)state;
    const struct plan *p;
    struct err err = {0};
    struct str text = STR("command: [prog]\nenvironment: {X: 1}\nrepeats: 7\nbase: b\nroutes:\n"
                          "  a: {environment: {Y: 2}, arguments: [--a]}\n"
                          "  b: {environment: {Z: 3}, library_path: [/l], expect: [\"yes:x\"]}\n"
                          "factors: {n: {values: [1, 2], arguments: [\"n={value}\"]}}\n");
    assert_int_equal(plan_parse(arena, text, "p", NULL, &p, &err), ST_OK);
    assert_int_equal(p->repeats, 7);
    assert_int_equal(p->routes.count, 4);
    assert_int_equal(p->base, 1);
    /* Every route is the base and its own change. */
    const struct plan_route *a = &p->routes.items[0];
    assert_int_equal(a->environment.count, 4);
    assert_string_equal(a->environment.items[0], "X=1");
    assert_string_equal(a->environment.items[1], "Z=3");
    assert_string_equal(a->environment.items[2], "Y=2");
    assert_string_equal(a->environment.items[3], "LD_LIBRARY_PATH=/l");
    assert_int_equal(a->command.count, 2);
    assert_int_equal(a->expect.count, 0);
    assert_int_equal(p->routes.items[1].expect.count, 1);
    assert_string_equal(p->routes.items[3].name, "n=2");
    assert_string_equal(p->routes.items[3].command.items[1], "n=2");
    assert_int_equal(p->routes.items[3].command.count, 2);
    /* The loader takes the first library that it finds: a route's comes before the base's. */
    struct str libraries = STR("command: [prog]\nlibrary_path: [/plan]\npreload: [p.so]\nroutes:\n"
                               "  base: {library_path: [/base]}\n"
                               "  other: {library_path: [/x, /y], preload: [o.so]}\n");
    const struct plan *q;
    assert_int_equal(plan_parse(arena, libraries, "q", NULL, &q, &err), ST_OK);
    assert_string_equal(q->routes.items[1].environment.items[0], "LD_PRELOAD=o.so:p.so");
    assert_string_equal(q->routes.items[1].environment.items[1],
                        "LD_LIBRARY_PATH=/x:/y:/base:/plan");
    const char *words[] = {"other", "word"};
    struct text_list command = {.items = words, .count = 2};
    assert_int_equal(plan_parse(arena, text, "p", &command, &p, &err), ST_OK);
    assert_string_equal(p->routes.items[0].command.items[1], "word");
}

static void test_contrast(void **state)
{
    (void)state;
    struct contrast c;
    contrast_of(5, 5, 0, 5, &c);
    assert_int_equal(c.outcome, CONTRAST_PASSES);
    contrast_of(3, 3, 0, 3, &c);
    assert_int_equal(c.outcome, CONTRAST_UNTOLD);
    assert_int_equal(c.more, 4);
    contrast_of(5, 5, 4, 5, &c);
    assert_int_equal(c.outcome, CONTRAST_FAILS_TOO);
    contrast_of(0, 5, 0, 5, &c);
    assert_int_equal(c.outcome, CONTRAST_BASE_FINE);
    contrast_of(0, 5, 5, 5, &c);
    assert_int_equal(c.outcome, CONTRAST_WORSE);
    contrast_of(0, 0, 0, 5, &c);
    assert_int_equal(c.outcome, CONTRAST_UNTOLD);
    assert_string_equal(contrast_rate_text(arena, 0, 12),
                        "0 of 12 failed: failure rate below 22 % at 95 %");
}

static void test_search_ends(void **state)
{
    (void)state;
    struct bisect b;
    size_t at;
    bisect_begin(arena, 2, 1, &b);
    assert_int_equal(bisect_next(&b, &at), BISECT_GOING);
    assert_int_equal(at, 1);
    bisect_take(&b, 1, false);
    assert_int_equal(bisect_next(&b, &at), BISECT_GOING);
    assert_int_equal(at, 0);
    bisect_take(&b, 0, true);
    assert_int_equal(bisect_next(&b, &at), BISECT_FOUND); /* the fault ends */
    assert_true(b.low == 0 && b.high == 1);
    bisect_begin(arena, 3, 2, &b);
    while (bisect_next(&b, &at) == BISECT_GOING) {
        bisect_take(&b, at, true);
    }
    assert_int_equal(bisect_next(&b, &at), BISECT_ENDS_ALIKE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tables, begin, end),
        cmocka_unit_test_setup_teardown(test_location, begin, end),
        cmocka_unit_test_setup_teardown(test_hf_console, begin, end),
        cmocka_unit_test_setup_teardown(test_trainer_state, begin, end),
        cmocka_unit_test_setup_teardown(test_json_lines, begin, end),
        cmocka_unit_test_setup_teardown(test_not_training, begin, end),
        cmocka_unit_test_setup_teardown(test_times, begin, end),
        cmocka_unit_test_setup_teardown(test_times_without_stamps, begin, end),
        cmocka_unit_test_setup_teardown(test_setups, begin, end),
        cmocka_unit_test_setup_teardown(test_inputs, begin, end),
        cmocka_unit_test_setup_teardown(test_judgements, begin, end),
        cmocka_unit_test_setup_teardown(test_open_first_step, begin, end),
        cmocka_unit_test_setup_teardown(test_field_report, begin, end),
        cmocka_unit_test_setup_teardown(test_nan_is_never_same, begin, end),
        cmocka_unit_test_setup_teardown(test_over_fitting_needs_falling_loss, begin, end),
        cmocka_unit_test_setup_teardown(test_plan, begin, end),
        cmocka_unit_test_setup_teardown(test_contrast, begin, end),
        cmocka_unit_test_setup_teardown(test_search_ends, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
