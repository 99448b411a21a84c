// SPDX-License-Identifier: Apache-2.0
/* The trainer's gradients against finite differences, and identities that need no other program. */
#include "device/library.h"
#include "model/safetensors_write.h"
#include "train_support.h"

static const size_t lengths[] = {7, 70, 1, 13};
#define SEQUENCES 4

static double loss_at(struct toy *t, const struct train_batch *b, struct param *p, const double *at,
                      const double *direction, double h)
{
    double *value = p->value;
    for (size_t i = 0; i < p->count; i++) {
        value[i] = at[i] + h * direction[i];
    }
    return toy_loss(t, b);
}

/* Slope along a unit direction by the fourth-order central difference: with h = 1e-3 both its own
 * error (h^4) and that of the losses' rounding (1e-16 / h) are far below 1e-7. */
static double slope(struct toy *t, const struct train_batch *b, struct param *p, const double *at,
                    const double *direction)
{
    const double h = 1e-3;
    double near = loss_at(t, b, p, at, direction, h) - loss_at(t, b, p, at, direction, -h);
    double far = loss_at(t, b, p, at, direction, 2 * h) - loss_at(t, b, p, at, direction, -2 * h);
    memcpy(p->value, at, p->count * sizeof(double));
    return (8 * near - far) / (12 * h);
}

static void check_tensor(struct toy *t, const struct train_batch *b, struct param *p,
                         uint64_t *state)
{
    double *at = calloc(p->count, sizeof *at);
    double *direction = calloc(p->count, sizeof *direction);
    const double *grad = p->grad;
    memcpy(at, p->value, p->count * sizeof *at);
    double length = 0;
    double norm = 0;
    for (size_t i = 0; i < p->count; i++) {
        direction[i] = toy_random(state);
        length += direction[i] * direction[i];
        norm += grad[i] * grad[i];
    }
    assert_true(norm > 0);
    /* A random direction, and half the gradient's own, so that the slope is not small by chance. */
    double expected = 0;
    for (size_t i = 0; i < p->count; i++) {
        direction[i] = 0.7 * direction[i] / sqrt(length) + 0.5 * grad[i] / sqrt(norm);
        expected += grad[i] * direction[i];
    }
    double got = slope(t, b, p, at, direction);
    if (!(fabs(got - expected) <= 1e-7 * sqrt(norm))) {
        print_message("%s: %.12g by differences, %.12g by backward (norm %g)\n", p->name, got,
                      expected, sqrt(norm));
    }
    assert_true(fabs(got - expected) <= 1e-7 * sqrt(norm));
    free(at);
    free(direction);
}

static void check_differences(const char *config, struct model_options options)
{
    options.precision = PRECISION_F64;
    struct toy t = toy_open(config, options, true);
    struct toy_batch b;
    toy_batch_make(&b, lengths, SEQUENCES, 5);
    toy_step(&t, &b.batch, 1);
    struct param_list *list = model_params(t.model);
    uint64_t state = 3;
    size_t checked = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].trainable) {
            check_tensor(&t, &b.batch, &list->items[i], &state);
            checked++;
        }
    }
    assert_true(checked >= 4);
    toy_close(&t);
}

static const struct lora_options some_lora = {
    .rank = 3, .alpha = 8, .targets = "q_proj, down_proj"};
static const struct lora_options all_lora = {
    .rank = 2, .alpha = 4, .rank_stabilised = true, .targets = "all-linear"};

static void test_differences(void **state)
{
    static const char *const toys[] = {TOY_LLAMA, TOY_LLAMA_TIED, TOY_QWEN2, TOY_QWEN3};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(toys); i++) {
        check_differences(toys[i], (struct model_options){.reference = true, .threads = 1});
        check_differences(toys[i], (struct model_options){.threads = 2, .blas = ""});
        check_differences(toys[i], (struct model_options){.reference = true, .lora = some_lora});
        check_differences(toys[i],
                          (struct model_options){.blas = "", .lora = all_lora, .recompute = true});
    }
}

/* The families against which the identities are held. */
static const char *const identity_toys[] = {TOY_LLAMA_TIED, TOY_QWEN3};

static const enum precision precisions[] = {PRECISION_F64, PRECISION_F32, PRECISION_BF16};

static double rounding(enum precision p)
{
    return p == PRECISION_F64 ? 1e-12 : p == PRECISION_F32 ? 2e-5 : 0.05;
}

/* Calls a check for each family and precision. */
static void each(void (*check)(const char *config, struct model_options options))
{
    for (size_t i = 0; i < ARRAY_LEN(identity_toys); i++) {
        for (size_t j = 0; j < ARRAY_LEN(precisions); j++) {
            check(identity_toys[i], (struct model_options){.precision = precisions[j], .blas = ""});
        }
    }
}

/* Several packed sequences at once, and one after the other with their gradients added. */
static void check_packed(const char *config, struct model_options options)
{
    struct toy together = toy_open(config, options, true);
    struct toy apart = toy_open(config, options, true);
    struct toy_batch b;
    toy_batch_make(&b, lengths, SEQUENCES, 7);
    double loss = toy_step(&together, &b.batch, 1);
    double sum = 0;
    model_zero_grad(apart.model);
    for (size_t s = 0; s < SEQUENCES; s++) {
        const size_t start[2] = {0, lengths[s]};
        const struct train_batch one = {.tokens = lengths[s],
                                        .sequences = 1,
                                        .ids = b.ids + b.start[s],
                                        .labels = b.labels + b.start[s],
                                        .start = start};
        sum += toy_loss(&apart, &one);
        model_backward(apart.model, 1);
    }
    assert_true(fabs(loss - sum) <= rounding(options.precision) * loss);
    assert_true(toy_grad_difference(&together, &apart) <= rounding(options.precision));
    toy_close(&together);
    toy_close(&apart);
}

static void test_packed_equals_separate(void **state)
{
    (void)state;
    each(check_packed);
}

/* The order of the sequences only changes the order of sums. */
static void check_order(const char *config, struct model_options options)
{
    struct toy a = toy_open(config, options, true);
    struct toy c = toy_open(config, options, true);
    struct toy_batch b;
    struct toy_batch turned;
    toy_batch_make(&b, lengths, SEQUENCES, 11);
    size_t n = 0;
    for (size_t s = SEQUENCES; s-- > 0;) {
        turned.start[SEQUENCES - 1 - s] = n;
        memcpy(turned.ids + n, b.ids + b.start[s], lengths[s] * sizeof *b.ids);
        memcpy(turned.labels + n, b.labels + b.start[s], lengths[s] * sizeof *b.ids);
        n += lengths[s];
    }
    turned.start[SEQUENCES] = n;
    turned.batch = b.batch;
    turned.batch.ids = turned.ids;
    turned.batch.labels = turned.labels;
    turned.batch.start = turned.start;
    double loss = toy_step(&a, &b.batch, 1);
    double other = toy_step(&c, &turned.batch, 1);
    assert_true(fabs(loss - other) <= rounding(options.precision) * loss);
    assert_true(toy_grad_difference(&a, &c) <= rounding(options.precision));
    toy_close(&a);
    toy_close(&c);
}

static void test_order_of_sequences(void **state)
{
    (void)state;
    each(check_order);
}

static void assert_same_bits(struct toy *a, struct toy *b)
{
    struct param_list *la = model_params(a->model);
    struct param_list *lb = model_params(b->model);
    for (size_t i = 0; i < la->count; i++) {
        if (la->items[i].grad != NULL) {
            assert_memory_equal(la->items[i].grad, lb->items[i].grad, toy_bytes(la, &la->items[i]));
        }
    }
}

static void check_recompute(const char *config, struct model_options options)
{
    struct toy kept = toy_open(config, options, true);
    options.recompute = true;
    struct toy again = toy_open(config, options, true);
    struct toy_batch b;
    toy_batch_make(&b, lengths, SEQUENCES, 13);
    double loss = toy_step(&kept, &b.batch, 0.25);
    double other = toy_step(&again, &b.batch, 0.25);
    assert_true(loss == other);
    assert_same_bits(&kept, &again);
    toy_close(&kept);
    toy_close(&again);
}

static void test_recompute_is_bit_identical(void **state)
{
    (void)state;
    each(check_recompute);
}

/* Own code gives the same bits on one thread and on three, and twice in a row. */
static void check_threads(const char *config, struct model_options options)
{
    options.threads = 1;
    struct toy one = toy_open(config, options, true);
    options.threads = 3;
    struct toy three = toy_open(config, options, true);
    struct toy_batch b;
    toy_batch_make(&b, lengths, SEQUENCES, 17);
    double loss = toy_step(&one, &b.batch, 1);
    assert_true(loss == toy_step(&three, &b.batch, 1));
    assert_same_bits(&one, &three);
    assert_true(loss == toy_step(&three, &b.batch, 1));
    assert_same_bits(&one, &three);
    toy_close(&one);
    toy_close(&three);
}

static void test_threads_do_not_matter(void **state)
{
    (void)state;
    each(check_threads);
}

/* Scaling the loss by a power of two scales every gradient exactly. */
static void check_scale(const char *config, struct model_options options)
{
    struct toy a = toy_open(config, options, true);
    struct toy c = toy_open(config, options, true);
    struct toy_batch b;
    toy_batch_make(&b, lengths, SEQUENCES, 19);
    toy_step(&a, &b.batch, 1);
    toy_step(&c, &b.batch, 0.125);
    struct param_list *la = model_params(a.model);
    struct param_list *lc = model_params(c.model);
    for (size_t i = 0; i < la->count; i++) {
        for (size_t j = 0; j < la->items[i].count; j++) {
            double x = toy_get(la, la->items[i].grad, j);
            assert_true(x * 0.125 == toy_get(lc, lc->items[i].grad, j));
        }
    }
    toy_close(&a);
    toy_close(&c);
}

static void test_scale_by_powers_of_two(void **state)
{
    (void)state;
    each(check_scale);
}

/* A fresh adapter changes nothing, and A has no gradient until B is not zero. */
static void check_lora_start(const char *config, struct model_options options)
{
    struct toy base = toy_open(config, options, false);
    options.lora = all_lora;
    struct toy lora = toy_open(config, options, false);
    struct toy_batch b;
    toy_batch_make(&b, lengths, SEQUENCES, 23);
    double loss = toy_loss(&base, &b.batch);
    assert_true(loss == toy_step(&lora, &b.batch, 1));
    struct param_list *list = model_params(lora.model);
    size_t a_count = 0;
    for (size_t i = 0; i < list->count; i++) {
        struct param *p = &list->items[i];
        bool is_a = strstr(p->name, ".lora_A.weight") != NULL;
        bool is_b = strstr(p->name, ".lora_B.weight") != NULL;
        double most = 0;
        assert_int_equal(p->trainable, is_a || is_b);
        for (size_t j = 0; p->grad != NULL && j < p->count; j++) {
            most = fmax(most, fabs(toy_get(list, p->grad, j)));
        }
        assert_true(!is_a || most == 0);
        assert_true(!is_b || most > 0);
        a_count += is_a;
    }
    assert_int_equal(a_count, 14); /* 7 linear layers in each of 2 */
    toy_close(&base);
    toy_close(&lora);
}

static void test_lora_begins_at_the_base_model(void **state)
{
    (void)state;
    each(check_lora_start);
}

/* A BLAS library in the place of own code changes the rounding and nothing else. */
static void test_blas(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct model_options options = {
        .precision = PRECISION_F64, .threads = 2, .blas = "libopenblas.so.0"};
    struct library library;
    if (library_open(a, options.blas, NULL, &library, NULL) != ST_OK) {
        arena_free(a);
        skip();
    }
    arena_free(a);
    for (size_t i = 0; i < 2; i++) {
        options.precision = precisions[i];
        options.blas = "libopenblas.so.0";
        struct toy blas = toy_open(TOY_QWEN3, options, true);
        options.blas = "";
        struct toy own = toy_open(TOY_QWEN3, options, true);
        struct toy_batch b;
        toy_batch_make(&b, lengths, SEQUENCES, 41);
        double loss = toy_step(&blas, &b.batch, 1);
        assert_true(fabs(loss - toy_step(&own, &b.batch, 1)) <= rounding(precisions[i]) * loss);
        double off = toy_grad_difference(&blas, &own);
        assert_true(off <= rounding(precisions[i]) && off > 0);
        toy_close(&blas);
        toy_close(&own);
    }
}

/* A library that is asked for and not there is an error, not a silent change of plan. */
static void test_missing_blas(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct train_model *m = NULL;
    struct err err = {0};
    const struct model_options options = {
        .precision = PRECISION_F32, .random = true, .blas = "/nonexistent/libblas.so"};
    char folder[] = "/tmp/assay-toy-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const char *path = arena_fmt(a, "%s/config.json", folder);
    assert_int_equal(safe_file_write(a, path, STR(TOY_LLAMA), &err), ST_OK);
    assert_int_not_equal(model_open(a, folder, &options, &m, &err), ST_OK);
    assert_non_null(strstr(err.text, "/nonexistent/libblas.so"));
    unlink(path);
    rmdir(folder);
    arena_free(a);
}

/* A model of zeros says 1/vocab of everything. */
static void test_uniform_loss(void **state)
{
    (void)state;
    struct toy t = toy_open(TOY_LLAMA, (struct model_options){.precision = PRECISION_F64}, false);
    struct param *head = param_find(model_params(t.model), "lm_head.weight");
    assert_non_null(head);
    memset(head->value, 0, head->count * sizeof(double));
    struct toy_batch b;
    toy_batch_make(&b, lengths, SEQUENCES, 29);
    double loss = 0;
    size_t labels = 0;
    struct err err;
    assert_int_equal(model_forward(t.model, &b.batch, &loss, &labels, &err), ST_OK);
    size_t expected = 0;
    for (size_t i = 0; i < b.batch.tokens; i++) {
        expected += b.labels[i] != LABEL_IGNORED;
    }
    assert_int_equal(labels, expected);
    assert_true(fabs(loss - (double)labels * log(53)) <= 1e-12 * loss);
    toy_close(&t);
}

static void sees_entropy(void *ctx, const char *name, size_t rows, size_t width, const void *values)
{
    size_t *seen = ctx;
    const double *h = values;
    if (!str_ends(str_of(name), "self_attn.entropy")) {
        return;
    }
    assert_int_equal(width, 4);
    for (size_t s = 0, t = 0; s < SEQUENCES; s++) {
        for (size_t i = 0; i < lengths[s]; i++, t++) {
            for (size_t head = 0; head < 4; head++) {
                assert_true(fabs(h[t * 4 + head] - log((double)i + 1)) <= 1e-13 * (double)(i + 1));
            }
        }
    }
    *seen += rows;
}

/* Queries of zeros look at all their keys alike. */
static void test_entropy_of_even_attention(void **state)
{
    (void)state;
    struct toy t = toy_open(TOY_LLAMA, (struct model_options){.precision = PRECISION_F64}, true);
    for (int layer = 0; layer < 2; layer++) {
        char name[64];
        snprintf(name, sizeof name, "model.layers.%d.self_attn.q_proj.weight", layer);
        struct param *q = param_find(model_params(t.model), name);
        assert_non_null(q);
        memset(q->value, 0, q->count * sizeof(double));
    }
    struct toy_batch b;
    toy_batch_make(&b, lengths, SEQUENCES, 31);
    size_t seen = 0;
    model_watch(t.model, sees_entropy, &seen);
    (void)toy_loss(&t, &b.batch);
    assert_int_equal(seen, 2 * b.batch.tokens);
    toy_close(&t);
}

/* As a framework's float32 makes it: near, and in double the same to its own rounding. */
static void test_loss_as_frameworks_sum_it(void **state)
{
    (void)state;
    struct toy_batch b;
    double loss[2][2];
    toy_batch_make(&b, lengths, SEQUENCES, 33);
    for (int precision = 0; precision < 2; precision++) {
        for (int as = 0; as < 2; as++) {
            struct toy t = toy_open(TOY_LLAMA,
                                    (struct model_options){.precision = (enum precision)precision,
                                                           .float_loss = as != 0},
                                    true);
            loss[precision][as] = toy_loss(&t, &b.batch);
            toy_close(&t);
        }
    }
    assert_true(fabs(loss[0][0] - loss[0][1]) <= 1e-13 * loss[0][0]);
    assert_true(loss[1][0] != loss[1][1]);
    assert_true(fabs(loss[1][0] - loss[1][1]) <= 1e-6 * loss[1][0]);
}

/* float32 and bfloat16 are near float64, and not equal to it. */
static void test_precisions_agree(void **state)
{
    (void)state;
    double loss[3];
    for (size_t i = 0; i < 3; i++) {
        struct toy t = toy_open(
            TOY_QWEN3, (struct model_options){.precision = precisions[i], .blas = ""}, true);
        struct toy_batch b;
        toy_batch_make(&b, lengths, SEQUENCES, 31);
        loss[i] = toy_loss(&t, &b.batch);
        toy_close(&t);
    }
    assert_true(fabs(loss[1] - loss[0]) <= 1e-5 * loss[0]);
    assert_true(fabs(loss[2] - loss[0]) <= 2e-2 * loss[0]);
    assert_true(loss[1] != loss[0] && loss[2] != loss[1]);
}

static void test_bad_batches(void **state)
{
    (void)state;
    struct toy t = toy_open(TOY_LLAMA, (struct model_options){.precision = PRECISION_F32}, false);
    struct toy_batch b;
    double loss;
    size_t labels;
    struct err err;
    toy_batch_make(&b, lengths, SEQUENCES, 37);
    b.ids[3] = 53;
    assert_int_equal(model_forward(t.model, &b.batch, &loss, &labels, &err), ST_FORMAT);
    assert_non_null(strstr(err.text, "token 3 of the batch has id 53"));
    b.ids[3] = 1;
    b.labels[4] = -5;
    assert_int_equal(model_forward(t.model, &b.batch, &loss, &labels, &err), ST_FORMAT);
    b.labels[4] = LABEL_IGNORED;
    b.start[1] = 0;
    assert_int_equal(model_forward(t.model, &b.batch, &loss, &labels, &err), ST_USAGE);
    toy_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_differences),
        cmocka_unit_test(test_packed_equals_separate),
        cmocka_unit_test(test_order_of_sequences),
        cmocka_unit_test(test_recompute_is_bit_identical),
        cmocka_unit_test(test_threads_do_not_matter),
        cmocka_unit_test(test_scale_by_powers_of_two),
        cmocka_unit_test(test_lora_begins_at_the_base_model),
        cmocka_unit_test(test_blas),
        cmocka_unit_test(test_missing_blas),
        cmocka_unit_test(test_uniform_loss),
        cmocka_unit_test(test_entropy_of_even_attention),
        cmocka_unit_test(test_loss_as_frameworks_sum_it),
        cmocka_unit_test(test_precisions_agree),
        cmocka_unit_test(test_bad_batches),
    };
    return cmocka_run_group_tests_name("train_model", tests, NULL, NULL);
}
