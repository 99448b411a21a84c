// SPDX-License-Identifier: Apache-2.0
/* Logs and run folders as they grow, are cut and are replaced. */
#include <math.h>
#include <string.h>

#include "study/anomaly_source.h"
#include "temp_root.h"
#include "unit.h"

enum {
    SAMPLES_MAX = 64
};

struct heard {
    struct anomaly_sample samples[SAMPLES_MAX];
    char metrics[SAMPLES_MAX][40];
    size_t count;
    double accumulation, epoch;
};

static void on_sample(void *ctx, const struct anomaly_sample *sample)
{
    struct heard *h = ctx;
    if (h->count < SAMPLES_MAX) {
        h->samples[h->count] = *sample;
        str_print(h->metrics[h->count++], 40, "%s", sample->metric);
    }
}

static void on_fact(void *ctx, const char *name, double value)
{
    struct heard *h = ctx;
    if (strcmp(name, "gradient accumulation") == 0) {
        h->accumulation = value;
    } else if (strcmp(name, "one epoch") == 0) {
        h->epoch = value;
    }
}

static const char *host_path(const char *name)
{
    static char path[200];
    str_print(path, sizeof path, "%s/%s", temp_root, name);
    return path;
}

static void put(const char *name, const char *mode, const char *text)
{
    FILE *f = fopen(host_path(name), mode);
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static struct anomaly_source *open_source(struct arena *a, struct heard *h, const char *name)
{
    const struct anomaly_sink sink = {.ctx = h, .sample = on_sample, .fact = on_fact};
    struct anomaly_source *s;
    struct err err = {0};
    *h = (struct heard){0};
    assert_int_equal(anomaly_source_open(a, host_path(name), NULL, &sink, &s, &err), ST_OK);
    return s;
}

static void poll_all(struct anomaly_source *s)
{
    bool more = true;
    for (int i = 0; i < 100 && more; i++) {
        struct err err = {0};
        assert_int_equal(anomaly_source_poll(s, &more, &err), ST_OK);
    }
    assert_false(more);
}

static void a_log_that_grows_is_cut_and_replaced(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct heard h;
    put("t.log", "w", "step: 1 loss: 2.5\nstep: 2 lo");
    struct anomaly_source *s = open_source(a, &h, "t.log");
    poll_all(s);
    assert_int_equal(h.count, 1); /* half a line is no line */
    put("t.log", "a", "ss: 2.25\n");
    poll_all(s);
    assert_int_equal(h.count, 2);
    assert_true(h.samples[1].value == 2.25);
    assert_int_equal(h.samples[1].step, 2);
    assert_int_equal(h.samples[1].line, 2);
    put("t.log", "w", "step: 3 loss: 9\n"); /* cut */
    poll_all(s);
    assert_int_equal(h.count, 3);
    assert_int_equal(h.samples[2].line, 1);
    char old[220];
    str_print(old, sizeof old, "%s.1", host_path("t.log"));
    assert_int_equal(rename(host_path("t.log"), old), 0); /* rotated */
    poll_all(s);
    put("t.log", "w", "step: 4 loss: 8\nstep: 5 loss: nan\n");
    poll_all(s);
    assert_int_equal(h.count, 5);
    assert_true(isnan(h.samples[4].value));
    struct anomaly_progress p = anomaly_source_progress(s);
    assert_int_equal(p.restarts, 2);
    assert_int_equal(p.step, 5);
    assert_false(p.ended);
    anomaly_source_close(s);
    arena_free(a);
}

static void the_trainer_of_transformers(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct heard h;
    put("hf.log", "w",
        "***** Running training *****\n  Num examples = 1,000\n"
        "  Total train batch size (w. parallel, distributed & accumulation) = 16\n"
        "  Gradient Accumulation steps = 8\n  Total optimization steps = 63\n"
        "\r  0%|          | 0/63 [00:00<?, ?it/s]\r 16%|#6   | 10/63 [00:20<01:46,  2.00s/it]\n"
        "{'loss': 1.5, 'grad_norm': 0.25, 'learning_rate': 1e-05, 'epoch': 0.16}\n"
        "{'eval_loss': 1.25, 'epoch': 0.16}\n"
        "{'train_runtime': 99.0, 'train_loss': 7.0, 'epoch': 1.0}\n");
    struct anomaly_source *s = open_source(a, &h, "hf.log");
    poll_all(s);
    assert_true(h.accumulation == 8);
    assert_true(h.epoch == 63);
    bool seen = false;
    for (size_t i = 0; i < h.count; i++) {
        assert_true(h.samples[i].value != 7.0); /* the average of the run is no step */
        if (strcmp(h.metrics[i], "loss") == 0) {
            assert_int_equal(h.samples[i].step, 10); /* of the bar before it */
            seen = true;
        }
    }
    assert_true(seen);
    assert_int_equal(anomaly_source_progress(s).total, 63);
    assert_true(anomaly_source_progress(s).ended);
    anomaly_source_close(s);
    arena_free(a);
}

/* A bar of an epoch, drawn often, with a loss that is new every other step: each value counts once, and
 * the second epoch counts on. */
static void bars_of_epochs(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct heard h;
    put("bar.log", "w",
        "\rEpoch 0:  50%|#####     | 1/2 [00:01<00:01,  1.00it/s, v_num=0, train_loss=2.50]"
        "\rEpoch 0:  50%|#####     | 1/2 [00:01<00:01,  1.00it/s, v_num=0, train_loss=2.50]"
        "\rEpoch 0: 100%|##########| 2/2 [00:02<00:00,  1.00it/s, v_num=0, train_loss=2.50]\n"
        "\rEpoch 1:  50%|#####     | 1/2 [00:01<00:01,  1.00it/s, v_num=0, train_loss=2.25]"
        "\rEpoch 1: 100%|##########| 2/2 [00:02<00:00,  1.00it/s, v_num=0, train_loss=2.25]\n");
    struct anomaly_source *s = open_source(a, &h, "bar.log");
    poll_all(s);
    int64_t steps[8];
    size_t losses = 0;
    for (size_t i = 0; i < h.count; i++) {
        if (strcmp(h.metrics[i], "loss") == 0 && losses < 8) {
            steps[losses++] = h.samples[i].step;
        }
    }
    assert_int_equal(losses, 2);
    assert_int_equal(steps[0], 1);
    assert_int_equal(steps[1], 3);
    assert_int_equal(anomaly_source_progress(s).step, 4);
    anomaly_source_close(s);
    arena_free(a);
}

static void memory_and_ranks(void **state)
{
    (void)state;

    static const struct {
        const char *line;
        double bytes;
        int rank;
    } rows[] = {
        {"[rank3]:[titan] step:  1  loss:  8.2  memory: 40.50GiB(42.63%)  tps: 1,234\n",
         40.5 * 1073741824.0, 3},
        {"[Rank 1] (after 10 iterations) memory (MB) | allocated: 3.0 | max allocated: 2048.0 | reserved: 9\n",
         2048.0 * 1048576.0, -2},
        {"{'loss': 1.0, 'memory/max_active (GiB)': 2.5}\n", 2.5 * 1073741824.0, -1},
        {"CPU memory: 40.5 percent\n", -1, -1},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct arena *a = arena_new(0);
        struct heard h;
        put("m.log", "w", rows[i].line);
        struct anomaly_source *s = open_source(a, &h, "m.log");
        poll_all(s);
        double bytes = -1;
        for (size_t k = 0; k < h.count; k++) {
            if (strcmp(h.metrics[k], "memory") == 0) {
                bytes = h.samples[k].value;
                assert_true(rows[i].rank == -2 || h.samples[k].rank == rows[i].rank);
            }
        }
        assert_true(fabs(bytes - rows[i].bytes) < 1e5);
        anomaly_source_close(s);
        arena_free(a);
    }
}

static void a_run_folder_to_its_end(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct heard h;
    temp_mkdir("/run");
    put("run/run.json", "w", "{\"ending\": \"running\"}\n");
    struct anomaly_source *s = open_source(a, &h, "run");
    poll_all(s); /* the logs are not there yet */
    put("run/stdout.log", "w",
        "{'loss': 1.5, 'grad_norm': 0.5}\n{'loss': 1.4, 'grad_norm': 0.5}\n");
    put("run/metrics.jsonl", "w",
        "{\"t\": 10.0, \"stream\": 1, \"loss\": 1.5}\n{\"t\": 12.5, \"stream\": 1, \"loss\": 1.4}\n");
    poll_all(s);
    assert_int_equal(h.count, 5);
    assert_string_equal(h.metrics[4], "step_time");
    assert_true(h.samples[4].value == 2.5);
    assert_false(anomaly_source_progress(s).ended);
    put("run/run.json", "w", "{\"ending\": \"exited\", \"status\": 3}\n");
    poll_all(s);
    assert_true(anomaly_source_progress(s).ended);
    assert_int_equal(anomaly_source_progress(s).exit_code, 3);
    anomaly_source_close(s);
    arena_free(a);
}

static void steps_that_begin_anew_in_each_epoch_go_on(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct heard h;
    put("e.log", "w",
        "{\"epoch\": 0, \"step\": 0, \"loss\": 3.0}\n{\"epoch\": 0, \"step\": 1, \"loss\": 2.5}\n"
        "{\"epoch\": 1, \"step\": 0, \"loss\": 2.0}\n{\"epoch\": 1, \"step\": 1, \"loss\": 1.5}\n"
        "{\"epoch\": 0, \"step\": 0, \"loss\": 3.0}\n");
    struct anomaly_source *s = open_source(a, &h, "e.log");
    poll_all(s);
    const int64_t steps[] = {0, 1, 2, 3, 0}; /* the last line is of another run */
    size_t losses = 0;
    for (size_t i = 0; i < h.count; i++) {
        if (strcmp(h.metrics[i], "loss") == 0) {
            assert_int_equal(h.samples[i].step, steps[losses++]);
        }
    }
    assert_int_equal(losses, 5);
    anomaly_source_close(s);
    put("k.log", "w",
        "Epoch 1/2\n90/90 - 1s - 8ms/step - loss: 3.0\nEpoch 2/2\n90/90 - 1s - 8ms/step - loss: 2.0\n");
    s = open_source(a, &h, "k.log");
    poll_all(s);
    assert_int_equal(h.samples[h.count - 1].step, 180);
    anomaly_source_close(s);
    put("h.log", "w", "Epoch 1/2\nstep 1 loss 3.0\nstep 2 loss 2.5\nEpoch 2/2\nstep 1 loss 2.0\n");
    s = open_source(a, &h, "h.log");
    poll_all(s);
    assert_int_equal(h.samples[h.count - 1].step, 3);
    anomaly_source_close(s);
    arena_free(a);
}

static void one_step_told_in_two_forms_is_one_value(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct heard h;
    put("two.log", "w",
        "steps: 1 loss: 3.9387 iter time (s): 0.5\n iteration        1/     400 | lm loss: 3.938654E+00 |\n"
        "steps: 2 loss: 3.9387 iter time (s): 0.5\n iteration        2/     400 | lm loss: 3.938654E+00 |\n"
        "step: 3 loss: 3.1\nstep: 3 loss: 3.2\n");
    struct anomaly_source *s = open_source(a, &h, "two.log");
    poll_all(s);
    size_t losses = 0;
    for (size_t i = 0; i < h.count; i++) {
        losses += strcmp(h.metrics[i], "loss") == 0;
    }
    assert_int_equal(losses, 4); /* micro steps with losses of their own stay */
    anomaly_source_close(s);
    arena_free(a);
}

static void what_cannot_be_followed(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct heard h = {0};
    const struct anomaly_sink sink = {.ctx = &h, .sample = on_sample, .fact = on_fact};
    struct anomaly_source *s;
    struct err err = {0};
    assert_int_equal(anomaly_source_open(a, host_path("nowhere"), NULL, &sink, &s, &err),
                     ST_ABSENT);
    temp_mkdir("/empty");
    assert_int_equal(anomaly_source_open(a, host_path("empty"), NULL, &sink, &s, &err), ST_FORMAT);
    assert_non_null(strstr(err.text, "run.json"));
    arena_free(a);
}

static int setup(void **state)
{
    (void)state;
    temp_root_make();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    temp_root_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_that_grows_is_cut_and_replaced),
        cmocka_unit_test(the_trainer_of_transformers),
        cmocka_unit_test(bars_of_epochs),
        cmocka_unit_test(memory_and_ranks),
        cmocka_unit_test(a_run_folder_to_its_end),
        cmocka_unit_test(steps_that_begin_anew_in_each_epoch_go_on),
        cmocka_unit_test(one_step_told_in_two_forms_is_one_value),
        cmocka_unit_test(what_cannot_be_followed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
