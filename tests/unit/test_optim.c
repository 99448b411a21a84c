// SPDX-License-Identifier: Apache-2.0
/*
 * AdamW, learning-rate schedules and clipping. Numbers without a derivation beside them are those of PyTorch
 * 2.15 (torch.optim.AdamW, clip_grad_norm_) and transformers (get_*_schedule_with_warmup) in float64.
 */
#include <math.h>
#include <string.h>

#include "train/adamw.h"
#include "train/clip.h"
#include "train/optim.h"
#include "train/schedule.h"
#include "unit.h"

static struct arena *arena;

#define NEAR(a, b) assert_true(fabs((a) - (b)) <= 1e-12 * (1 + fabs(b)))

/* A parameter of `count` reals with its gradient. */
static struct param param_of(const char *name, size_t count, bool decay, size_t size)
{
    return (struct param){.name = name,
                          .rank = 1,
                          .dim = {count},
                          .count = count,
                          .trainable = true,
                          .decay = decay,
                          .layer = -1,
                          .value = arena_array(arena, count, size),
                          .grad = arena_array(arena, count, size)};
}

static void test_adamw_as_torch(void **state)
{
    (void)state;
    static const double want_w[5][4] = {
        {0.48950000165985114, -1.2387500005532839, 1.998, 0.00043077021615025245},
        {0.4800467312763298, -1.22773712116845, 1.996002, -0.0003191152985542098},
        {0.4701812734740286, -1.2168474863823868, 1.994005998, -0.0009959412070982708},
        {0.46023519195939555, -1.2064427593095615, 1.992011992002, -0.001569069268472586},
        {0.45031864042107667, -1.1965702816218493, 1.990019980009998, -0.002056325112806471}};
    static const double want_b[5][2] = {{0.24000000016598513, -0.7599999996680298},
                                        {0.23321352285926455, -0.7697741292092392},
                                        {0.2339547853063739, -0.7794360270450668},
                                        {0.23799835658795537, -0.7886239068153079},
                                        {0.24376930408676403, -0.7972899419370013}};
    static const double want_norm[5] = {1.161895003862225, 0.6164414002968976, 1.1958260743101399,
                                        2.1213203435596424, 3.096772513440404};
    struct param items[3] = {param_of("w", 4, true, 8), param_of("frozen", 2, true, 8),
                             param_of("b", 2, false, 8)};
    items[1].trainable = false;
    struct param_list list = {.items = items, .count = 3, .precision = PRECISION_F64};
    memcpy(items[0].value, (double[]){0.5, -1.25, 2.0, 1e-3}, 4 * sizeof(double));
    memcpy(items[1].value, (double[]){7, 8}, 2 * sizeof(double));
    memcpy(items[2].value, (double[]){0.25, -0.75}, 2 * sizeof(double));
    struct optim o;
    struct optim_options options = OPTIM_DEFAULTS;
    options.beta2 = 0.95;
    options.weight_decay = 0.1;
    struct clip clip = {.kind = CLIP_FIXED, .max_norm = 0.7};
    optim_init(arena, &list, &options, &o);
    assert_int_equal(optim_bytes(&list, &options), 6 * 16);
    for (int k = 0; k < 5; k++) {
        struct grad_stats stats[3];
        memcpy(items[0].grad, (double[]){0.1 * (k + 1), -0.3, 0.0, 1e-9}, 4 * sizeof(double));
        memcpy(items[2].grad, (double[]){1.0 - k, 0.5}, 2 * sizeof(double));
        grad_look(arena, &list, NULL, false, 1, stats);
        assert_int_equal(stats[0].zeros, 1);
        double norm = grad_norm(stats, 3);
        NEAR(norm, want_norm[k]);
        optim_step(&o, 1e-2, clip_factor(&clip, norm));
        for (int i = 0; i < 4; i++) {
            NEAR(((double *)items[0].value)[i], want_w[k][i]);
        }
        for (int i = 0; i < 2; i++) {
            NEAR(((double *)items[2].value)[i], want_b[k][i]);
        }
        assert_int_equal(o.change[0].changed, 4);
        assert_int_equal(o.change[1].changed, 0);
    }
    assert_true(((double *)items[1].value)[0] == 7);
}

static void test_rate_zero_changes_nothing(void **state)
{
    (void)state;
    for (int p = 0; p < PRECISION_COUNT; p++) {
        size_t size = p == PRECISION_F64 ? 8 : 4;
        struct param item = param_of("w", 2, true, size);
        struct param_list list = {.items = &item, .count = 1, .precision = (enum precision)p};
        unsigned char before[16];
        if (p == PRECISION_F64) {
            memcpy(item.value, (double[]){-0.0, 3.25}, 16);
            memcpy(item.grad, (double[]){1e200, -1}, 16);
        } else {
            memcpy(item.value, (float[]){-0.0F, 3.25F}, 8);
            memcpy(item.grad, (float[]){1e30F, -1}, 8); /* whose square is infinite */
        }
        memcpy(before, item.value, 2 * size);
        struct optim o;
        struct optim_options options = OPTIM_DEFAULTS;
        options.weight_decay = 0.1;
        optim_init(arena, &list, &options, &o);
        optim_step(&o, 0, 1);
        assert_memory_equal(before, item.value, 2 * size);
        assert_int_equal(o.change[0].changed, 0);
        assert_int_equal(o.change[0].stagnated, 0);
    }
}

/* A step of 1e-3 on a weight of 1: bfloat16 has nothing between 1 - 2^-8 and 1 (and 1 - 1e-3 is nearer to
 * 1), so with pure bfloat16 it never moves; a float32 master moves on until the sum of steps shows. */
static void test_bf16_stagnates_without_a_master(void **state)
{
    (void)state;
    for (int pure = 0; pure < 2; pure++) {
        struct param item = param_of("w", 1, false, 4);
        struct param_list list = {.items = &item, .count = 1, .precision = PRECISION_BF16};
        *(float *)item.value = 1;
        *(float *)item.grad = 1;
        struct optim o;
        struct optim_options options = OPTIM_DEFAULTS;
        options.pure = pure != 0;
        optim_init(arena, &list, &options, &o);
        uint64_t stagnated = 0;
        for (int k = 0; k < 10; k++) {
            optim_step(&o, 1e-3, 1);
            stagnated += o.change[0].stagnated;
        }
        if (pure != 0) {
            assert_true(*(float *)item.value == 1);
            assert_int_equal(stagnated, 10);
        } else {
            assert_true(*(float *)item.value == 0.98828125F); /* bfloat16 next to 0.99 */
            assert_true(stagnated > 0 && stagnated < 10);
        }
    }
}

/* One rounding each, whatever the compiler would like to fuse. */
static double times(double a, double b)
{
    volatile double product = a * b;
    return product;
}

static double bf16(double x)
{
    return dtype_round(DTYPE_BF16, (double)(float)x);
}

static double stored(enum adamw_storage how, double x)
{
    return how == ADAMW_F64 ? x : how == ADAMW_PURE ? bf16(x) : (double)(float)x;
}

static double real_at(enum adamw_storage how, const void *p, size_t i)
{
    return how == ADAMW_F64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

static void real_set(enum adamw_storage how, void *p, size_t i, double x)
{
    if (how == ADAMW_F64) {
        ((double *)p)[i] = x;
    } else {
        ((float *)p)[i] = (float)x;
    }
}

enum {
    ADAMW_ELEMENTS = 3 * 256 + 13 /* chunks, groups of 8, and a rest */
};

/* grad, m, v, value, master: usual values, and among them zeros, the smallest, infinities and NaN. */
static void adamw_fill(enum adamw_storage how, struct adamw_part *p)
{
    static const double odd[] = {0.0, -0.0, 1e-45, -1e-40, 3e38, INFINITY, -INFINITY, NAN};
    void *lists[] = {(void *)(uintptr_t)p->grad, p->m, p->v, p->value, p->master};
    for (size_t l = 0; l < ARRAY_LEN(lists) && lists[l] != NULL; l++) {
        for (size_t i = 0; i < p->count; i++) {
            double x = sin((double)(i * (l + 3)) + 0.1 * (double)l);
            x = i % 37 == l ? odd[i / 37 % ARRAY_LEN(odd)] : x;
            real_set(how, lists[l], i, stored(how, l == 2 ? fabs(x) * 1e-3 : x));
        }
    }
}

static struct adamw_part adamw_part_of(enum adamw_storage how)
{
    size_t size = how == ADAMW_F64 ? 8 : 4;
    void *grad = arena_array(arena, ADAMW_ELEMENTS, size);
    struct adamw_part p = {.count = ADAMW_ELEMENTS,
                           .grad = grad,
                           .m = arena_array(arena, ADAMW_ELEMENTS, size),
                           .v = arena_array(arena, ADAMW_ELEMENTS, size),
                           .value = arena_array(arena, ADAMW_ELEMENTS, size)};
    p.master = how == ADAMW_MASTER ? arena_array(arena, ADAMW_ELEMENTS, size) : NULL;
    adamw_fill(how, &p);
    return p;
}

/* The definition in optim.h, one operation at a time. */
static void adamw_plain(enum adamw_storage how, const struct adamw_rates *r, struct adamw_part *p)
{
    void *weight = how == ADAMW_MASTER ? p->master : p->value;
    for (size_t i = 0; i < p->count; i++) {
        double g = times(real_at(how, p->grad, i), r->scale);
        double m = stored(how, times(real_at(how, p->m, i), r->beta1) + times(1 - r->beta1, g));
        double v = stored(how, times(real_at(how, p->v, i), r->beta2) +
                                   times(times(1 - r->beta2, g), g));
        double w = real_at(how, weight, i);
        double by = times(r->rate, m) / (sqrt(v) / r->root2 + r->eps);
        double after = stored(how, r->still ? w : w - times(r->decay, w) - by);
        real_set(how, p->m, i, m);
        real_set(how, p->v, i, v);
        real_set(how, weight, i, after);
        if (how == ADAMW_MASTER) {
            real_set(how, p->value, i, bf16(after));
        }
    }
}

static void same_bits(enum adamw_storage how, const void *x, const void *y)
{
    for (size_t i = 0; x != NULL && i < ADAMW_ELEMENTS; i++) {
        double a = real_at(how, x, i);
        double b = real_at(how, y, i);
        assert_true(isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b));
    }
}

static void test_adamw_has_the_same_bits_in_vectors_of_any_width(void **state)
{
    (void)state;
    size_t kernels = 0;
    for (; adamw_kernel_at(kernels) != NULL; kernels++) {
        for (int how = 0; how < ADAMW_STORAGE_COUNT; how++) {
            for (int still = 0; still < 2; still++) {
                struct adamw_rates r = {.scale = 0.7,
                                        .beta1 = 0.9,
                                        .beta2 = 0.999,
                                        .eps = 1e-8,
                                        .decay = still ? 0 : 1e-4,
                                        .rate = still ? 0 : 3e-3,
                                        .root2 = 0.3,
                                        .still = still != 0};
                struct adamw_part got = adamw_part_of(how);
                struct adamw_part want = adamw_part_of(how);
                struct optim_change change;
                adamw_kernel_at(kernels)->update[how](&r, &got, &change);
                adamw_plain(how, &r, &want);
                same_bits(how, got.m, want.m);
                same_bits(how, got.v, want.v);
                same_bits(how, got.value, want.value);
                same_bits(how, got.master, want.master);
                if (still && how != ADAMW_MASTER) { /* whose weight follows its master */
                    assert_int_equal(change.stagnated, 0);
                }
            }
        }
    }
    assert_true(kernels >= 1);
}

static void test_threads_do_not_matter(void **state)
{
    (void)state;

    enum {
        N = 100000
    };

    float first[2];
    double norms[2];
    for (int round = 0; round < 2; round++) {
        struct param item = param_of("w", N, true, 4);
        struct param_list list = {.items = &item, .count = 1, .precision = PRECISION_F32};
        for (int i = 0; i < N; i++) {
            ((float *)item.value)[i] = sinf((float)i);
            ((float *)item.grad)[i] = cosf(3.0F * (float)i);
        }
        struct optim o;
        struct grad_stats stats;
        struct optim_options options = OPTIM_DEFAULTS;
        options.threads = round == 0 ? 1 : 4;
        optim_init(arena, &list, &options, &o);
        grad_look(arena, &list, NULL, false, options.threads, &stats);
        optim_step(&o, 1e-3, 1);
        first[round] = ((float *)item.value)[N - 1];
        norms[round] = stats.sum_sq + o.change[0].change_sq;
    }
    assert_true(first[0] == first[1]);
    assert_true(norms[0] == norms[1]);
}

static void test_gradient_cosine(void **state)
{
    (void)state;
    struct param item = param_of("w", 2, true, 8);
    struct param_list list = {.items = &item, .count = 1, .precision = PRECISION_F64};
    float before[2];
    float *rows[1] = {before};
    struct grad_stats stats;
    memcpy(item.grad, (double[]){3, 4}, 16);
    grad_look(arena, &list, rows, false, 1, &stats);
    assert_true(stats.dot == 0 && stats.before_sq == 0);
    memcpy(item.grad, (double[]){4, 3}, 16);
    grad_look(arena, &list, rows, true, 1, &stats);
    assert_true(stats.dot == 24 && stats.before_sq == 25 && stats.sum_sq == 25);
    memcpy(item.grad, (double[]){NAN, INFINITY}, 16);
    grad_look(arena, &list, NULL, false, 1, &stats);
    assert_int_equal(stats.nonfinite, 2);
}

static void test_schedules(void **state)
{
    (void)state;
    static const uint64_t at[] = {0, 1, 9, 10, 11, 60, 109, 110, 500};
    static const double cosine[] = {
        0, 3e-5, 2.7e-4, 3e-4, 0.0002999259840548597, 1.5e-4, 7.401594514025999e-08, 0, 0};
    static const double linear[] = {0, 3e-5, 2.7e-4, 3e-4, 2.97e-4, 1.5e-4, 3e-6, 0, 0};
    struct schedule s = {.lr = 3e-4, .warmup = 10, .steps = 110};
    for (size_t i = 0; i < ARRAY_LEN(at); i++) {
        s.kind = SCHEDULE_COSINE;
        NEAR(schedule_lr(&s, at[i]), cosine[i]);
        s.kind = SCHEDULE_LINEAR;
        NEAR(schedule_lr(&s, at[i]), linear[i]);
        s.kind = SCHEDULE_CONSTANT;
        NEAR(schedule_lr(&s, at[i]), at[i] < 10 ? 3e-5 * (double)at[i] : 3e-4);
    }
    struct schedule t = {
        .kind = SCHEDULE_THREE_STAGE, .lr = 6e-5, .minimum = 1e-6, .warmup = 500, .hold = 5000};
    NEAR(schedule_lr(&t, 0), 1e-6);
    NEAR(schedule_lr(&t, 250), 30.5e-6);
    NEAR(schedule_lr(&t, 500), 6e-5);
    NEAR(schedule_lr(&t, 5999), 6e-5);
    NEAR(schedule_lr(&t, 6000), 6e-5 * 0.98);
    NEAR(schedule_lr(&t, 8500), 6e-5 * 0.98 * 0.98 * 0.98);
    enum schedule_kind kind;
    assert_true(schedule_find(STR("three-stage"), &kind) && kind == SCHEDULE_THREE_STAGE);
    assert_false(schedule_find(STR("polynomial"), &kind));
}

static void test_zclip(void **state)
{
    (void)state;
    struct clip c = {.kind = CLIP_ZCLIP, .max_norm = 100};
    for (int i = 0; i < ZCLIP_WARMUP; i++) {
        assert_true(clip_factor(&c, i % 2 == 0 ? 1.0 : 3.0) == 1); /* 13 times 1, 12 times 3 */
    }
    double mean = (13 + 36) / 25.0;
    double variance = (13 * (1 - mean) * (1 - mean) + 12 * (3 - mean) * (3 - mean)) / 25;
    NEAR(c.mean, mean);
    NEAR(c.variance, variance);
    /* Within 2.5 deviations: taken as it is. */
    assert_true(clip_factor(&c, 3) == 1);
    mean = 0.97 * mean + 0.03 * 3;
    variance = 0.97 * variance + 0.03 * (3 - mean) * (3 - mean);
    NEAR(c.mean, mean);
    /* A spike: cut to mean + 2.5 sigma / (z / 2.5), which is what the mean then sees. */
    double sigma = sqrt(variance);
    double z = (50 - mean) / (sigma + 1e-6);
    double taken = mean + 2.5 * sigma / (z / 2.5);
    NEAR(clip_factor(&c, 50), taken / (50 + 1e-6));
    NEAR(c.mean, 0.97 * mean + 0.03 * taken);
    assert_true(clip_factor(&(struct clip){.kind = CLIP_NONE}, 1e9) == 1);
}

static int setup(void **state)
{
    (void)state;
    arena = arena_new(0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adamw_as_torch),
        cmocka_unit_test(test_adamw_has_the_same_bits_in_vectors_of_any_width),
        cmocka_unit_test(test_rate_zero_changes_nothing),
        cmocka_unit_test(test_bf16_stagnates_without_a_master),
        cmocka_unit_test(test_threads_do_not_matter),
        cmocka_unit_test(test_gradient_cosine),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_zclip),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
