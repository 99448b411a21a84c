// SPDX-License-Identifier: Apache-2.0
/* Tracebacks, metrics, series and the end of a run, through whole logs. */
#include "diagnosis/metric_line.h"
#include "log_support.h"

static double metric(const char *line, const char *name)
{
    struct metric_line m;
    metric_line_parse(str_of(line), &m);
    for (size_t i = 0; i < m.count; i++) {
        if (strcmp(m.items[i].name, name) == 0) {
            return m.items[i].value;
        }
    }
    fail_msg("'%s' gives no %s", line, name);
    return 0;
}

static void assert_near(double have, double want)
{
    if (!(fabs(have - want) <= 1e-9 * fabs(want))) {
        fail_msg("%.17g, expected %.17g", have, want);
    }
}

static void metrics_of_many_frameworks_are_read(void **state)
{
    (void)state;
    assert_near(metric("{'loss': 1.2345, 'grad_norm': 0.873, 'epoch': 0.02}", "grad_norm"), 0.873);
    assert_near(metric("{'loss': '1.612', 'learning_rate': '0.0001'}", "lr"), 1e-4);
    assert_near(metric("{'loss': '1.612', 'learning_rate': '0.0001'}", "loss"), 1.612);
    assert_near(metric("{\"current_steps\": 5, \"total_steps\": 9, \"loss\": 0.5}", "step"), 5);
    assert_near(metric("x - INFO - callbacks - {'loss': 2.0, 'learning_rate': 3e-05}", "loss"), 2);
    assert_near(metric("steps: 2%|x| 4/9 [00:01<00:02, 1.2s/it, avr_loss=0.081]", "loss"), 0.081);
    assert_near(metric(" iteration      100/   10000 | consumed samples: 25600 | elapsed time per "
                       "iteration (ms): 815.8 | lm loss: 9.100000E+00 | grad norm: 1.900 |",
                       "step_time"),
                0.8158);
    assert_near(metric("iteration 100/ 10000 | lm loss: 9.1E+00 | grad norm: 1.900 |", "loss"),
                9.1);
    assert_near(metric("iteration 100/ 10000 | lm loss: 9.1E+00 | grad norm: 1.900 |", "step"),
                100);
    assert_near(metric("step:  5  loss:  7.02  grad_norm:  1.5  memory: 1.0GiB(2%)  tps: 1,234",
                       "tokens_per_s"),
                1234);
    assert_near(metric("step=40  loss=2.1   gnorm=0.7", "grad_norm"), 0.7);
    assert_near(metric("epoch 3 [D loss: 0.7, acc.: 50%] [G loss: 0.9]", "g_loss"), 0.9);
    assert_near(metric("{'eval_loss': 1.5, 'eval_runtime': 3.0}", "eval_loss"), 1.5);
    assert_true(isnan(metric("{'loss': nan, 'grad_norm': NaN}", "loss")));
    assert_true(isnan(metric("{'loss': nan, 'grad_norm': NaN}", "grad_norm")));
    assert_true(isinf(metric("loss: -Inf", "loss")));
    assert_near(metric("step 10 lm_loss 2.412 grad_norm 1.31 lr 2.0e-06", "loss"), 2.412);
    assert_near(metric("step 10 lm_loss 2.412 grad_norm 1.31 lr 2.0e-06", "grad_norm"), 1.31);
    assert_near(metric("step 10 lm_loss 2.412 grad_norm 1.31 lr 2.0e-06", "lr"), 2e-6);
    assert_near(metric("iter 40: loss 10.9331, time 512.12ms, mfu 31.02%", "loss"), 10.9331);
    assert_true(isnan(metric("I0806 01:12:01.118 step 310 loss nan mfu 0.41", "loss")));
    assert_near(metric("loss: tensor(2.5, device='cuda:0')", "loss"), 2.5);
}

/* Forms that print a value and its mean, a step "3/400", a name behind the word loss, or the loss of a library. */
static void losses_of_plain_scripts_are_read(void **state)
{
    (void)state;

    static const struct {
        const char *line;
        const char *name;
        double value;
    } rows[] = {
        {"Epoch: [0][  10/5005]\tTime  0.512 ( 0.611)\tData  0.002 ( 0.010)\tLoss 6.9123e+00 (6.9000e+00)\tAcc@1 "
         "  0.00 (  0.10)",
         "loss", 6.9123},
        {"Epoch: [0][  10/5005]\tTime  0.512 ( 0.611)\tData  0.002 ( 0.010)\tLoss 6.9123e+00 (6.9000e+00)",
         "step_time", 0.512},
        {"Train: [0/300][20/400]\teta 0:20:00 lr 0.000001\t wd 0.0500\ttime 0.5100 (0.5000)\tdata time 0.0006 "
         "(0.01)\tloss 6.9100 (6.9200)\tgrad_norm 1.2000 (1.3000)\tmem 8000MB",
         "loss", 6.91},
        {"Train: [0/300][20/400]\teta 0:20:00 lr 0.000001\ttime 0.5100 (0.5000)\tloss 6.9100 (6.9200)\tgrad_norm "
         "1.2000 (1.3000)",
         "grad_norm", 1.2},
        {"step   10/400 | loss 3.912345 (+1.20z)| norm 1.0 (-0.31z)| lr 6.00e-04 | 512.10 ms",
         "loss", 3.912345},
        {"step   10/400 | loss 3.912345 (+1.20z)| norm 1.0 (-0.31z)| lr 6.00e-04 | 512.10 ms",
         "step", 10},
        {"Loss at step 12: 2.5000", "loss", 2.5},
        {"Loss at step 12: 2.5000", "step", 12},
        {"\t Train loss/train/total: 3.9123", "loss", 3.9123},
        {"\t Eval loss/eval/total: 3.5", "eval_loss", 3.5},
        {"    train/CrossEntropyLoss=3.912", "loss", 3.912},
        {"    eval/books/CrossEntropyLoss=3.5", "eval_loss", 3.5},
        {"    optim/total_grad_norm=1.25", "grad_norm", 1.25},
        {"Epoch 1 | iter 3 step 3 | loss train: 3.912, val: n/a | iter time: 512.10 ms (step)",
         "loss", 3.912},
        {"Training epoch 0, iteration 3/9 | lr: 3e-05 | global_step: 3 | reduced_train_loss: 9.05",
         "loss", 9.05},
        {"|    loss                 | 0.512       |", "loss", 0.512},
        {"|    value_loss           | 7.5         |", "value_loss", 7.5},
        {"             Mean value_function loss: 0.0123", "value_function_loss", 0.0123},
        {"                  Mean surrogate loss: -0.0012", "surrogate_loss", -0.0012},
        {"policy loss: 0.25, value loss: 1.5", "value_loss", 1.5},
        {"Epoch[0] Batch [10-20]\tSpeed: 64 samples/sec\tcross-entropy=2.25", "loss", 2.25},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_near(metric(rows[i].line, rows[i].name), rows[i].value);
    }
    assert_true(isnan(metric("Epoch: [0][ 10/40]\tTime  0.5 ( 0.6)\tLoss nan (nan)", "loss")));
}

/* What a step took, in each unit; what has passed since the start is no step's time. */
static void step_times_are_read_in_their_units(void **state)
{
    (void)state;

    static const struct {
        const char *line;
        double value;
    } rows[] = {
        {"iter 100: loss 2.5, time 512.10ms, mfu 32.10%", 0.5121},
        {"iter_dt 512.10ms; iter 3: train loss 2.5", 0.5121},
        {"step 00010/00400 (2.50%) | loss: 3.9 | dt: 512.10ms | tok/sec: 1,024,000", 0.5121},
        {"step:10/400 train_loss:3.9 train_time:51210ms step_avg:512.10ms", 0.5121},
        {"steps: 10 loss: 3.9 iter time (s): 0.512 samples/sec: 62.5", 0.512},
        {"Epoch 1 | iter 3 step 3 | loss train: 3.9, val: n/a | iter time: 512.00 ms (step)",
         0.512},
        {"iteration: 3 / 9 | elapsed_time_per_iteration_ms: 512 | lm_loss: 3.9", 0.512},
        {"global_step: 3 | reduced_train_loss: 9.05 | train_step_timing in s: 0.512", 0.512},
        {"Epoch(train) [1][10/40] lr: 1.0e-02  eta: 1:20:10  time: 0.512  data_time: 0.0052  loss: 3.9",
         0.512},
        {"Epoch: [0]  [10/40]  eta: 0:10:01  lr: 0.1  loss: 3.9 (3.9)  time: 0.512  data: 0.0003  max mem: 15",
         0.512},
        {"step: 10  loss: 3.9  step_time: 512 ms", 0.512},
        {" 12/90 ━━━━━━━━ 4s 512ms/step - loss: 5.7601", 0.512},
        {"90/90 - 46s - 512ms/step - loss: 5.7601 - val_loss: 5.1", 0.512},
        {"90/90 [==============================] - 1s 2s/step - loss: 5.76", 2},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_near(metric(rows[i].line, "step_time"), rows[i].value);
    }
    assert_near(metric(" 12/90 ━━━━━━━━ 4s 512ms/step - loss: 5.7601", "step"), 12);
    static const char *const others[] = {
        "step 10 loss: 2.5 time: 813.2", "step 10 loss: 2.5, total time: 900ms",
        "step 10 loss: 2.5 elapsed time: 12ms", "train_time: 12345ms loss: 2"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        struct metric_line m;
        metric_line_parse(str_of(others[i]), &m);
        for (size_t k = 0; k < m.count; k++) {
            assert_string_not_equal(m.items[k].name, "step_time");
        }
    }
    assert_near(
        metric("step 00010/00400 | loss: 3.9 | tok/sec: 1,024,000 | mfu: 47", "tokens_per_s"),
        1024000);
    assert_near(metric("iteration: 3 / 9 | tokens_per_sec: 40.5K | lm_loss: 3.9", "tokens_per_s"),
                40500);
}

static void prose_about_losses_is_no_metric(void **state)
{
    (void)state;
    static const char *const lines[] = {"the loss 3.5 is high", "step 300 best loss 1.2",
                                        "loss 1.2 at step 300", "epoch 3 loss 2x"};
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        struct metric_line m;
        metric_line_parse(str_of(lines[i]), &m);
        for (size_t k = 0; k < m.count; k++) {
            assert_string_not_equal(m.items[k].name, "loss");
        }
    }
}

static void the_header_of_a_training_is_no_step(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "[INFO|trainer.py:1471] 2026-11-29 22:16:24,687 >>   Num Epochs = 1",
        "[INFO|trainer.py:1472] 2026-11-29 22:16:24,687 >>   Num update steps per epoch = 50",
        "  Gradient Accumulation steps = 2",
        "[INFO|trainer.py:1478] 2026-11-29 22:16:24,687 >>   Total optimization steps = 40"};
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        struct metric_line m;
        metric_line_parse(str_of(lines[i]), &m);
        assert_int_equal(m.count, 0);
        assert_int_equal(m.step, -1);
    }
}

static void numbers_are_read_exactly_enough(void **state)
{
    (void)state;

    static const struct {
        const char *text;
        double value;
    } rows[] = {{"0", 0},
                {"-1.5e-7", -1.5e-7},
                {"4294967296", 4294967296.0},
                {".5", .5},
                {"1e400", INFINITY},
                {"1e-500", 0},
                {"2.", 2},
                {"+3", 3}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t n;
        double v = metric_number(str_of(rows[i].text), &n);
        assert_int_equal(n, strlen(rows[i].text));
        if (!(v == rows[i].value || fabs(v - rows[i].value) < 1e-15 * fabs(v))) {
            fail_msg("%s is %.17g", rows[i].text, v);
        }
    }
    size_t n;
    (void)metric_number(STR("nanny"), &n);
    assert_int_equal(n, 0);
}

static void bars_of_training_are_told_from_others(void **state)
{
    (void)state;
    struct progress_bar b;
    assert_true(progress_bar_parse(STR(" 14%|#   | 85/600 [03:24<20:36,  2.40s/it]"), &b));
    assert_true(b.training);
    assert_int_equal(b.done, 85);
    assert_int_equal(b.total, 600);
    assert_near(b.seconds_per_step, 2.4);
    assert_true(progress_bar_parse(STR("Steps: 50%|#| 5/10 [00:01<00:01, 4.00it/s, loss=1]"), &b));
    assert_near(b.seconds_per_step, 0.25);
    assert_true(progress_bar_parse(
        STR("Loading checkpoint shards: 50%|#| 2/4 [00:04<00:04, 1.9s/it]"), &b));
    assert_false(b.training);
    assert_true(progress_bar_parse(STR("Map: 50%|#| 200/400 [00:04<00:04, 100 examples/s]"), &b));
    assert_false(b.training);
    assert_true(progress_bar_parse(STR("  0%|  | 0/4 [00:00<?, ?it/s]"), &b));
    assert_true(isnan(b.seconds_per_step));
    assert_false(progress_bar_parse(STR("compiled 3/4 [x]"), &b));
}

/* Work that is no training step, by what a bar's label says. */
static void bars_of_other_work_are_no_training(void **state)
{
    (void)state;
    static const char *const labels[] = {"Loading checkpoint shards",
                                         "Map (num_proc=8)",
                                         "Tokenizing train",
                                         "Converting format",
                                         "Dropping Long",
                                         "Downloading shards",
                                         "Fetching 4 files",
                                         "Generating train split",
                                         "Filtering",
                                         "Resolving data files",
                                         "Saving the dataset",
                                         "Processed prompts",
                                         "Capturing CUDA graph shapes",
                                         "Evaluation",
                                         "Validation DataLoader 0",
                                         "Sanity Checking",
                                         "Packing",
                                         "Grouping texts",
                                         "Preparing batches",
                                         "Uploading files",
                                         "Extracting prompt",
                                         "Quantizing weights",
                                         "Prediction",
                                         "Predicting DataLoader 0",
                                         "Testing DataLoader 0",
                                         "Casting the dataset",
                                         "caching latents",
                                         "Caching",
                                         "Merging",
                                         "Sampling",
                                         "Truncating examples"};
    for (size_t i = 0; i < ARRAY_LEN(labels); i++) {
        char line[200];
        struct progress_bar b;
        snprintf(line, sizeof line, "%s:  50%%|#| 5/10 [00:01<00:01,  4.00it/s]", labels[i]);
        assert_true(progress_bar_parse(str_of(line), &b));
        if (b.training || b.loading != (strstr(labels[i], "oading") != NULL)) {
            fail_msg("the bar '%s' was taken for another", line);
        }
    }
    struct progress_bar b;
    assert_true(progress_bar_parse(STR("Epoch 3:  50%|#| 5/10 [00:01<00:01,  4.00it/s]"), &b));
    assert_true(b.training);
    assert_true(progress_bar_parse(STR("  50%|#| 5/10 [00:01<00:01,  4.00it/s, examples=3]"), &b));
    assert_false(b.training);
}

static void first_exception_of_a_chain_is_the_root(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(
        arena, "Traceback (most recent call last):\n"
               "  File \"/v/site-packages/torch/x.py\", line 1, in inner\n    x()\n"
               "torch.OutOfMemoryError: HIP out of memory. Tried\n\n"
               "The above exception was the direct cause of the following exception:\n\n"
               "Traceback (most recent call last):\n"
               "  File \"/home/u/t.py\", line 1, in <module>\n    y()\n"
               "RuntimeError: wrapped\n");
    assert_int_equal(log_facts_count(lf, "python-exception"), 1);
    const struct event *e = event_of_id(lf, "python-exception", 0);
    assert_capture(e, "type", "torch.OutOfMemoryError");
    assert_capture(e, "message", "HIP out of memory. Tried");
    assert_capture(e, "module", "torch");
    assert_capture(e, "function", "inner");
    assert_capture(e, "final", "RuntimeError");
    assert_true(lf->run.died);
    assert_string_equal(lf->run.exception, "torch.OutOfMemoryError");
}

static void expected_lookup_is_not_the_root(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(
        arena, "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n"
               "KeyError: 'x'\n\n"
               "During handling of the above exception, another exception occurred:\n\n"
               "Traceback (most recent call last):\n  File \"b.py\", line 2, in g\n"
               "RuntimeError: \n        no such backend\n");
    const struct event *e = event_of_id(lf, "python-exception", 0);
    assert_int_equal(log_facts_count(lf, "python-exception"), 1);
    assert_capture(e, "type", "RuntimeError");
    assert_capture(e, "message", "no such backend");
}

static void exception_that_training_survives_is_no_death(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(
        arena, "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n"
               "ImportError: optional\n"
               "{'loss': 3.0}\n{'loss': 2.0}\n{'loss': 1.5}\n{'loss': 1.4}\n");
    assert_false(lf->run.died);
    assert_capture(event_of_id(lf, "python-exception", 0), "recovered", "yes");
    assert_int_equal(event_of_id(lf, "python-exception", 0)->pattern->kind, PATTERN_SYMPTOM);
    assert_null(lf->run.exception);
}

static void torchrun_table_names_the_rank_that_failed_first(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(
        arena, "[rank1]: RuntimeError: secondary\n[rank3]: ValueError: primary\n"
               "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
               "============\ntrain.py FAILED\n------------\nFailures:\n[1]:\n"
               "  time      : 2025-05-05_10:00:01\n  rank      : 1 (local_rank: 1)\n"
               "  exitcode  : 1 (pid: 5)\n------------\n"
               "Root Cause (first observed failure):\n[0]:\n  time      : 2025-05-05_10:00:00\n"
               "  host      : n1\n  rank      : 3 (local_rank: 3)\n  exitcode  : -9 (pid: 4)\n"
               "  error_file: <N/A>\n  traceback : Signal 9 (SIGKILL) received by PID 4\n");
    assert_string_equal(lf->run.first_failed_rank, "3");
    assert_string_equal(lf->run.exception, "ValueError");
    assert_int_equal(lf->run.killed_signal, 9);
    assert_true(lf->run.died);
}

static void run_that_ends_well_is_completed(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(
        arena, "***** Running training *****\n  Total optimization steps = 1,200\n"
               " 50%|#| 600/1200 [03:24<20:36,  2.40s/it]\n{'loss': 1.0}\n"
               "100%|#| 1200/1200 [03:24<00:00,  2.40s/it]\n"
               "{'train_runtime': 1440.0, 'train_loss': 1.31, 'epoch': 3.0}\n"
               "Saving model checkpoint to out\n");
    assert_true(lf->run.completed);
    assert_false(lf->run.died);
    assert_int_equal(lf->run.steps, 1200);
    assert_int_equal(lf->run.total_steps, 1200);
    assert_string_equal(lf->run.phase, "save");
    assert_false(lf->run.last_line_is_progress);
    assert_int_equal(series_of(lf, "loss")->stats.count, 1); /* train_loss is no step */
}

static void abort_after_the_end_is_not_completed(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(
        arena, "{'loss': 1.0}\n{'train_runtime': 1440.0, 'train_loss': 1.31}\n"
               "Segmentation fault (core dumped)\n");
    assert_false(lf->run.completed);
    assert_true(lf->run.died);
    assert_int_equal(lf->run.killed_signal, 11);
}

static void log_that_ends_in_a_bar_is_seen(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(arena, " 1%|#| 6/1200 [03:24<20:36,  2.40s/it]\r"
                                               " 2%|#| 12/1200 [03:24<20:36,  2.40s/it]\r\n");
    assert_true(lf->run.last_line_is_progress);
    assert_false(lf->run.completed);
    assert_int_equal(lf->run.steps, 12);
    assert_string_equal(lf->run.phase, "train");
}

static void series_numbers_are_right(void **state)
{
    (void)state;
    struct strbuf b;
    strbuf_init(&b, arena, 1 << 20);
    for (int i = 0; i < 40; i++) {
        strbuf_fmt(&b, "{'loss': %s, 'grad_norm': %d.0}\n",
                   i == 20   ? "9.0"
                   : i == 30 ? "nan"
                             : "2.0",
                   i < 35);
    }
    const struct series_stats *s = &series_of(log_of(arena, b.p), "loss")->stats;
    assert_int_equal(s->count, 40);
    assert_int_equal(s->nan_count, 1);
    assert_int_equal(s->first_nan_index, 30);
    assert_near(s->before_nan, 2);
    assert_near(s->spike_ratio, 4.5);
    assert_true(s->spike_recovered);
    assert_false(s->flat);
    assert_false(s->rising);
    assert_near(s->median, 2);
    s = &series_of(log_of(arena, b.p), "grad_norm")->stats;
    assert_int_equal(s->zero_tail, 5);
    assert_int_equal(s->zero_count, 5);
}

static void long_series_is_thinned_and_its_numbers_stay_exact(void **state)
{
    (void)state;
    struct strbuf b;
    strbuf_init(&b, arena, 8 << 20);
    for (int i = 0; i < 200000; i++) {
        strbuf_fmt(&b, "loss=%d\n", i);
    }
    const struct series *s = series_of(log_of(arena, b.p), "loss");
    assert_int_equal(s->stats.count, 200000);
    assert_true(s->count <= 65536);
    assert_near(s->stats.max, 199999);
    assert_near(s->values[1] - s->values[0], (double)s->stride);
    assert_true(s->stats.rising);
}

static void two_ranks_make_two_series(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(
        arena, "[rank0]: loss: 1.0\n[rank1]: loss: 5.0\n[rank0]: loss: 2.0\n"
               "[rank1]: loss: nan\n[rank0]: loss: 3.0\n");
    const struct series *s = series_of(lf, "loss");
    assert_int_equal(s->rank, 0);
    assert_int_equal(s->stats.count, 3);
    assert_int_equal(s->nan_all_ranks, 1);
}

static void signals_that_ray_can_think_of_are_no_signal(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(
        arena, "(raylet) A worker died. There are some potential root causes. (1) The "
               "process is killed by SIGKILL by OOM killer due to high memory usage.\n");
    assert_int_equal(lf->run.killed_signal, 0);
    lf = log_of(arena, "worker 3 was killed by SIGKILL\n");
    assert_int_equal(lf->run.killed_signal, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bars_of_other_work_are_no_training),
        cmocka_unit_test(metrics_of_many_frameworks_are_read),
        cmocka_unit_test(losses_of_plain_scripts_are_read),
        cmocka_unit_test(step_times_are_read_in_their_units),
        cmocka_unit_test(prose_about_losses_is_no_metric),
        cmocka_unit_test(the_header_of_a_training_is_no_step),
        cmocka_unit_test(numbers_are_read_exactly_enough),
        cmocka_unit_test(bars_of_training_are_told_from_others),
        cmocka_unit_test(first_exception_of_a_chain_is_the_root),
        cmocka_unit_test(expected_lookup_is_not_the_root),
        cmocka_unit_test(exception_that_training_survives_is_no_death),
        cmocka_unit_test(torchrun_table_names_the_rank_that_failed_first),
        cmocka_unit_test(run_that_ends_well_is_completed),
        cmocka_unit_test(abort_after_the_end_is_not_completed),
        cmocka_unit_test(log_that_ends_in_a_bar_is_seen),
        cmocka_unit_test(series_numbers_are_right),
        cmocka_unit_test(long_series_is_thinned_and_its_numbers_stay_exact),
        cmocka_unit_test(two_ranks_make_two_series),
        cmocka_unit_test(signals_that_ray_can_think_of_are_no_signal),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
