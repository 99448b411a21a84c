// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

#include "study/anomaly.h"
#include "study/anomaly_window.h"
#include "unit.h"

enum {
    FOUND_MAX = 64
};

struct bench {
    struct arena *arena;
    struct arena *scratch;
    struct anomaly_rules rules;
    struct anomaly_set *set;
    struct anomaly found[FOUND_MAX];
    size_t count;
    uint64_t seed;
};

static void on_found(void *ctx, const struct anomaly *a)
{
    struct bench *b = ctx;
    if (b->count < FOUND_MAX) {
        b->found[b->count++] = *a;
    }
}

static struct bench *bench_new(void)
{
    struct arena *a = arena_new(0);
    struct bench *b = arena_alloc(a, sizeof *b);
    b->arena = a;
    b->scratch = arena_new(0);
    b->seed = 12345;
    anomaly_rules_default(&b->rules);
    b->set = anomaly_set_new(a, b->scratch, &b->rules);
    anomaly_set_listen(b->set, on_found, b);
    return b;
}

static void bench_free(struct bench *b)
{
    arena_free(b->scratch);
    arena_free(b->arena);
}

static double uniform(struct bench *b)
{
    b->seed = b->seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(b->seed >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(struct bench *b)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        sum += uniform(b);
    }
    return sum;
}

static void add_rank(struct bench *b, const char *metric, int rank, int64_t step, double v)
{
    struct anomaly_sample s = {.metric = metric,
                               .rank = rank,
                               .step = step,
                               .value = v,
                               .time = NAN,
                               .file = "train.log",
                               .line = (uint64_t)step + 1};
    anomaly_add(b->set, &s);
}

static void add(struct bench *b, const char *metric, int64_t step, double v)
{
    add_rank(b, metric, -1, step, v);
}

static const struct anomaly *find(const struct bench *b, enum anomaly_kind kind)
{
    for (size_t i = 0; i < b->count; i++) {
        if (b->found[i].kind == kind) {
            return &b->found[i];
        }
    }
    return NULL;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Against sorting everything, for windows of all fillings, with equal values among them. */
static void window_agrees_with_sorting(void **state)
{
    (void)state;
    struct bench *b = bench_new();
    struct anomaly_window w;
    double all[400];
    anomaly_window_init(&w, b->arena, 37);
    for (size_t i = 0; i < 400; i++) {
        all[i] = floor(20 * uniform(b));
        w.limit = i < 200 ? 11 + i / 20 : 37;
        anomaly_window_add(&w, all[i]);
        double sorted[64];
        double distance[64];
        size_t n = w.count;
        memcpy(sorted, all + i + 1 - n, n * sizeof *sorted);
        qsort(sorted, n, sizeof *sorted, compare);
        assert_memory_equal(sorted, w.sorted, n * sizeof *sorted);
        double median = n % 2 != 0 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
        assert_true(anomaly_window_quantile(&w, 0.5) == median);
        for (size_t k = 0; k < n; k++) {
            distance[k] = fabs(sorted[k] - median);
        }
        qsort(distance, n, sizeof *distance, compare);
        double mad = n % 2 != 0 ? distance[n / 2] : (distance[n / 2 - 1] + distance[n / 2]) / 2;
        assert_true(anomaly_window_mad(&w, median) == mad);
    }
    assert_int_equal(w.count, 37);
    anomaly_window_add(&w, NAN);
    assert_int_equal(w.count, 37);
    bench_free(b);
}

static void empty_window_is_nan(void **state)
{
    (void)state;
    struct bench *b = bench_new();
    struct anomaly_window w;
    anomaly_window_init(&w, b->arena, 5);
    assert_true(isnan(anomaly_window_quantile(&w, 0.5)));
    assert_true(isnan(anomaly_window_mad(&w, 0)));
    bench_free(b);
}

/* A falling loss with noise, and what `plant` makes of it. */
static void play_loss(struct bench *b, int64_t steps, double (*plant)(int64_t step, double v))
{
    for (int64_t t = 0; t < steps; t++) {
        double v = 1.5 + 2 * exp(-(double)t / 100) + 0.03 * normal(b);
        add(b, "loss", t, plant != NULL ? plant(t, v) : v);
    }
    anomaly_finish(b->set);
}

static void clean_loss_is_quiet(void **state)
{
    (void)state;
    struct bench *b = bench_new();
    play_loss(b, 5000, NULL);
    assert_int_equal(b->count, 0);
    bench_free(b);
}

static double spiked(int64_t t, double v)
{
    return t == 700 ? v + 0.6 : t == 900 ? v - 0.6 : v;
}

static void spike_and_drop_are_found_where_they_are(void **state)
{
    (void)state;
    struct bench *b = bench_new();
    play_loss(b, 1500, spiked);
    assert_int_equal(b->count, 2);
    assert_int_equal(b->found[0].kind, ANOMALY_SPIKE);
    assert_int_equal(b->found[0].step, 700);
    assert_true(b->found[0].value > b->found[0].high);
    assert_int_equal(b->found[1].kind, ANOMALY_DROP);
    assert_int_equal(b->found[1].step, 900);
    assert_true(b->found[1].value < b->found[1].low && b->found[1].low > 0);
    bench_free(b);
}

static double shifted(int64_t t, double v)
{
    return t >= 800 ? v + 1.5 : v;
}

static void shift_is_one_error_and_its_jump_one_spike(void **state)
{
    (void)state;
    struct bench *b = bench_new();
    play_loss(b, 1500, shifted);
    const struct anomaly *a = find(b, ANOMALY_SHIFT_UP);
    assert_non_null(a);
    assert_in_range(a->step, 800, 830);
    assert_int_equal(a->severity, SEVERITY_ERROR);
    assert_int_equal(anomaly_count(b->set, ANOMALY_SHIFT_UP), 1);
    assert_int_equal(anomaly_count(b->set, ANOMALY_SPIKE), 1);
    bench_free(b);
}

static double creeping(int64_t t, double v)
{
    return t >= 800 ? v + 0.0004 * (double)(t - 800) : v;
}

static void slow_rise_is_found(void **state)
{
    (void)state;
    struct bench *b = bench_new();
    play_loss(b, 1800, creeping);
    assert_non_null(find(b, ANOMALY_SHIFT_UP));
    bench_free(b);
}

static double broken(int64_t t, double v)
{
    return t >= 60 && t < 65 ? NAN : t == 100 ? INFINITY : v;
}

static void nan_is_one_error_at_its_first_step(void **state)
{
    (void)state;
    struct bench *b = bench_new();
    play_loss(b, 200, broken);
    assert_int_equal(b->count, 2);
    assert_int_equal(b->found[0].kind, ANOMALY_NOT_FINITE);
    assert_int_equal(b->found[0].severity, SEVERITY_ERROR);
    assert_int_equal(b->found[0].step, 60);
    assert_int_equal(b->found[1].step, 100);
    struct anomaly_view v = anomaly_series_view(b->set, 0);
    assert_int_equal(v.not_finite, 6);
    assert_true(isfinite(v.most));
    bench_free(b);
}

static void nan_of_the_first_value_is_found(void **state)
{
    (void)state;
    struct bench *b = bench_new();
    add(b, "loss", 0, NAN);
    assert_int_equal(b->count, 1);
    bench_free(b);
}

static double stuck(int64_t t, double v)
{
    return t >= 300 ? 1.53125 : v;
}

static void repeated_loss_is_one_error(void **state)
{
    (void)state;
    struct bench *b = bench_new();
    play_loss(b, 400, stuck);
    assert_int_equal(anomaly_count(b->set, ANOMALY_SAME), 1);
    const struct anomaly *a = find(b, ANOMALY_SAME);
    assert_in_range(a->step, 303, 308);
    bench_free(b);
}

static double coarse(int64_t t, double v)
{
    (void)t;
    return round(v * 20) / 20;
}

/* Numbers printed with few digits are often equal: that is no fault. */
static void coarse_numbers_may_repeat(void **state)
{
    (void)state;
    struct bench *b = bench_new();
    play_loss(b, 3000, coarse);
    assert_int_equal(anomaly_count(b->set, ANOMALY_SAME), 0);
    bench_free(b);
}

static void zero_norm_is_an_error(void **state)
{
    (void)state;
    struct bench *b = bench_new();
    for (int64_t t = 0; t < 100; t++) {
        add(b, "grad_norm", t, t < 50 ? 0.5 + 0.1 * uniform(b) : 0);
    }
    assert_int_equal(anomaly_count(b->set, ANOMALY_ZERO), 1);
    assert_int_equal(find(b, ANOMALY_ZERO)->step, 52);
    assert_int_equal(find(b, ANOMALY_ZERO)->severity, SEVERITY_ERROR);
    bench_free(b);
}

static void norm_is_judged_by_ratio(void **state)
{
    (void)state;
    struct bench *b = bench_new();
    for (int64_t t = 0; t < 600; t++) {
        double v = exp(0.2 * normal(b));
        add(b, "grad_norm", t, t == 400 ? 14 : t == 500 ? 0.02 : v);
    }
    assert_int_equal(anomaly_count(b->set, ANOMALY_SPIKE), 1);
    assert_int_equal(find(b, ANOMALY_SPIKE)->step, 400);
    assert_int_equal(anomaly_count(b->set, ANOMALY_DROP), 0);
    bench_free(b);
}

static void slower_steps_and_their_tail_are_found(void **state)
{
    (void)state;
    struct bench *b = bench_new();
    for (int64_t t = 0; t < 600; t++) {
        add(b, "step_time", t, (t < 300 ? 2 : 3) + 0.02 * normal(b));
    }
    assert_int_equal(anomaly_count(b->set, ANOMALY_SHIFT_UP), 1);
    assert_in_range(find(b, ANOMALY_SHIFT_UP)->step, 300, 320);
    bench_free(b);
    b = bench_new();
    for (int64_t t = 0; t < 600; t++) {
        add(b, "data_time", t, (uniform(b) < 0.1 ? 9 : 2) + 0.02 * normal(b));
    }
    assert_int_equal(anomaly_count(b->set, ANOMALY_TAIL), 1);
    bench_free(b);
}

static void steps_of_milliseconds_are_not_called_slow(void **state)
{
    (void)state;
    struct bench *b = bench_new();
    for (int64_t t = 0; t < 600; t++) {
        add(b, "step_time", t, (t < 300 ? 0.001 : 0.0016) + (uniform(b) < 0.1 ? 0.004 : 0));
    }
    assert_int_equal(anomaly_count(b->set, ANOMALY_SHIFT_UP), 0);
    assert_int_equal(anomaly_count(b->set, ANOMALY_TAIL), 0);
    bench_free(b);
    const double times[] = {0.001, 0.1};
    for (size_t i = 0; i < ARRAY_LEN(times); i++) {
        b = bench_new();
        for (int64_t t = 0; t < 600; t++) {
            add(b, "step_time", t, times[i] * (t % 12 == 0 ? 1.3 : 1 + 0.02 * uniform(b)));
        }
        anomaly_finish(b->set);
        assert_int_equal(anomaly_count(b->set, ANOMALY_PERIOD), i);
        bench_free(b);
    }
}

static void period_is_found_and_explained(void **state)
{
    (void)state;
    struct bench *b = bench_new();
    anomaly_fact(b->set, "save_steps", 250);
    anomaly_fact(b->set, "one epoch", 60);
    for (int64_t t = 0; t < 2000; t++) {
        add(b, "loss", 5 * t, 1.5 + 0.03 * normal(b) + 0.09 * sin(6.2831853 * (double)t / 12));
    }
    anomaly_finish(b->set);
    const struct anomaly *a = find(b, ANOMALY_PERIOD);
    assert_non_null(a);
    assert_true(fabs(a->extra - 60) < 1);
    assert_string_equal(a->source_name, "one epoch");
    assert_int_equal(a->times * 10 + a->of, 11);
    assert_int_equal(anomaly_count(b->set, ANOMALY_PERIOD), 1);
    bench_free(b);
}

static void slow_rank_and_heavy_rank_are_named_once(void **state)
{
    (void)state;
    struct bench *b = bench_new();
    for (int64_t t = 0; t < 200; t++) {
        for (int r = 0; r < 4; r++) {
            add_rank(b, "step_time", r, t, (r == 2 ? 1.4 : 1.0) * (1 + 0.01 * uniform(b)));
            add_rank(b, "memory", r, t, (r == 3 ? 70.0 : 40.0) * 1073741824.0);
            add_rank(b, "tokens_per_s", r, t, r == 1 ? 600 : 1000 + uniform(b));
        }
    }
    assert_int_equal(anomaly_count(b->set, ANOMALY_SLOW_RANK), 2);
    assert_int_equal(anomaly_count(b->set, ANOMALY_MEMORY), 1);
    assert_int_equal(find(b, ANOMALY_MEMORY)->rank, 3);
    for (size_t i = 0; i < b->count; i++) {
        if (b->found[i].kind == ANOMALY_SLOW_RANK) {
            int expected = strcmp(b->found[i].metric, "step_time") == 0 ? 2 : 1;
            assert_int_equal(b->found[i].rank, expected);
        }
    }
    bench_free(b);
}

static void hot_gpu_with_a_low_clock_is_throttled(void **state)
{
    (void)state;
    struct bench *b = bench_new();
    struct anomaly_gpu gpus[2] = {
        {.index = 0, .clock_mhz = 2400, .celsius = 70, .busy_percent = 99, .memory_bytes = NAN},
        {.index = 1, .clock_mhz = 2400, .celsius = 70, .busy_percent = 99, .memory_bytes = NAN}};
    anomaly_gpus(b->set, gpus, 2, 0);
    gpus[0].clock_mhz = 500; /* low, but cool: idle or capped by choice */
    gpus[1].clock_mhz = 1500;
    gpus[1].celsius = 97;
    for (int i = 0; i < 5; i++) {
        anomaly_gpus(b->set, gpus, 2, i);
    }
    assert_int_equal(b->count, 1);
    assert_int_equal(b->found[0].kind, ANOMALY_THROTTLED);
    assert_int_equal(b->found[0].rank, 1);
    bench_free(b);
}

static void uneven_gpus_and_idle_ones(void **state)
{
    (void)state;
    struct bench *b = bench_new();
    double gib = 1073741824.0;
    struct anomaly_gpu gpus[3] = {{.index = 0, .memory_bytes = 60 * gib},
                                  {.index = 1, .memory_bytes = 0.1 * gib},
                                  {.index = 2, .memory_bytes = 0.1 * gib}};
    anomaly_gpus(b->set, gpus, 3, 0);
    assert_int_equal(b->count, 0); /* one job on one GPU */
    gpus[1].memory_bytes = gpus[2].memory_bytes = 40 * gib;
    anomaly_gpus(b->set, gpus, 3, 1);
    anomaly_gpus(b->set, gpus, 3, 2);
    assert_int_equal(b->count, 1);
    assert_int_equal(b->found[0].kind, ANOMALY_MEMORY);
    bench_free(b);
}

static void silence_is_a_stall_once(void **state)
{
    (void)state;
    struct bench *b = bench_new();
    anomaly_silence(b->set, 30, 1, 0);
    assert_int_equal(b->count, 0);
    anomaly_silence(b->set, 61, 1, 0);
    anomaly_silence(b->set, 90, 1, 0);
    assert_int_equal(b->count, 1);
    add(b, "loss", 1, 1);
    anomaly_silence(b->set, 61, 10, 0); /* steps of ten seconds: 200 s is the limit */
    assert_int_equal(b->count, 1);
    bench_free(b);
}

static void guessing_needs_a_vocabulary(void **state)
{
    (void)state;
    struct bench *b = bench_new();
    anomaly_fact(b->set, "vocabulary", 1000);
    for (int64_t t = 0; t < 100; t++) {
        add(b, "loss", t, 9 + 0.01 * normal(b));
    }
    assert_int_equal(anomaly_count(b->set, ANOMALY_GUESSING), 1);
    bench_free(b);
}

/* A second run in the same log begins with a high loss: that is no spike. */
static void steps_that_go_back_begin_anew(void **state)
{
    (void)state;
    struct bench *b = bench_new();
    play_loss(b, 500, NULL);
    play_loss(b, 500, NULL);
    assert_int_equal(b->count, 0);
    bench_free(b);
}

static void series_are_bounded(void **state)
{
    (void)state;
    struct bench *b = bench_new();
    for (int r = 0; r < ANOMALY_SERIES_MAX + 10; r++) {
        add_rank(b, "lr", r, 0, 1e-4);
    }
    assert_int_equal(anomaly_series_count(b->set), ANOMALY_SERIES_MAX);
    assert_int_equal(anomaly_dropped(b->set), 10);
    bench_free(b);
}

static void limits_by_name(void **state)
{
    (void)state;
    struct anomaly_rules r;
    struct err err = {0};
    anomaly_rules_default(&r);
    assert_true(r.spike_sigma == 6);
    assert_int_equal(anomaly_rules_set(&r, "spike.sigma=8.5", &err), ST_OK);
    assert_true(r.spike_sigma == 8.5);
    assert_int_equal(anomaly_rules_set(&r, "spike.sgma=8", &err), ST_USAGE);
    assert_non_null(strstr(err.text, "spike.sigma"));
    static const char *const bad[] = {"spike.sigma",
                                      "spike.sigma=",
                                      "spike.sigma=x",
                                      "spike.sigma=nan",
                                      "spike.sigma=-1",
                                      "=3",
                                      ""};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(anomaly_rules_set(&r, bad[i], &err), ST_USAGE);
    }
    assert_true(r.spike_sigma == 8.5);
}

/* A finding says step, value, expectation, meaning and remedy, for every kind. */
static void every_kind_has_words(void **state)
{
    (void)state;
    struct bench *b = bench_new();
    static const char *const metrics[] = {"loss",   "grad_norm", "step_time", "tokens_per_s",
                                          "memory", "gpu_clock", "progress",  "mfu"};
    for (int k = 0; k < ANOMALY_KIND_COUNT; k++) {
        for (size_t m = 0; m < ARRAY_LEN(metrics); m++) {
            struct anomaly a = {.kind = (enum anomaly_kind)k,
                                .severity = SEVERITY_WARNING,
                                .metric = metrics[m],
                                .rank = 3,
                                .step = 77,
                                .value = 2.5,
                                .low = 1,
                                .high = 2,
                                .extra = 4,
                                .file = "x.log",
                                .line = 9};
            struct finding f;
            struct strbuf line;
            strbuf_init(&line, b->arena, 2000);
            anomaly_line(&line, &a);
            anomaly_finding(b->arena, &a, &f);
            assert_non_null(strstr(line.p, "77"));
            assert_non_null(strstr(f.title, "77"));
            assert_string_equal(f.id, anomaly_kind_name(a.kind));
            assert_true(strlen(f.claim) > 40);
            assert_true(f.remedy.count >= 1);
            assert_int_equal(f.evidence.items[0].line, 9);
        }
    }
    bench_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(window_agrees_with_sorting),
        cmocka_unit_test(empty_window_is_nan),
        cmocka_unit_test(clean_loss_is_quiet),
        cmocka_unit_test(spike_and_drop_are_found_where_they_are),
        cmocka_unit_test(shift_is_one_error_and_its_jump_one_spike),
        cmocka_unit_test(slow_rise_is_found),
        cmocka_unit_test(nan_is_one_error_at_its_first_step),
        cmocka_unit_test(nan_of_the_first_value_is_found),
        cmocka_unit_test(repeated_loss_is_one_error),
        cmocka_unit_test(coarse_numbers_may_repeat),
        cmocka_unit_test(zero_norm_is_an_error),
        cmocka_unit_test(norm_is_judged_by_ratio),
        cmocka_unit_test(slower_steps_and_their_tail_are_found),
        cmocka_unit_test(steps_of_milliseconds_are_not_called_slow),
        cmocka_unit_test(period_is_found_and_explained),
        cmocka_unit_test(slow_rank_and_heavy_rank_are_named_once),
        cmocka_unit_test(hot_gpu_with_a_low_clock_is_throttled),
        cmocka_unit_test(uneven_gpus_and_idle_ones),
        cmocka_unit_test(silence_is_a_stall_once),
        cmocka_unit_test(guessing_needs_a_vocabulary),
        cmocka_unit_test(steps_that_go_back_begin_anew),
        cmocka_unit_test(series_are_bounded),
        cmocka_unit_test(limits_by_name),
        cmocka_unit_test(every_kind_has_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
