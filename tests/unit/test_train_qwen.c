// SPDX-License-Identifier: Apache-2.0
/* Whole models of the Qwen3.5 and Qwen3-VL families in miniature: every gradient against finite
 * differences, and the identities that hold whatever the weights. */
#define TRAIN_DOUBLE
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

#include "fd.h"
#include "temp_root.h"
#include "train/model.h"
#include "unit.h"

#define TEXT                                                                                      \
 "\"vocab_size\": 40, \"hidden_size\": 16, \"intermediate_size\": 12, \"num_hidden_layers\": 3, " \
 "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"rms_norm_eps\": 1e-4, "               \
 "\"initializer_range\": 0.3, "
#define DELTA                                                                                \
 "\"head_dim\": 16, \"linear_num_key_heads\": 2, \"linear_num_value_heads\": 4, "            \
 "\"linear_key_head_dim\": 6, \"linear_value_head_dim\": 5, \"linear_conv_kernel_dim\": 3, " \
 "\"layer_types\": [\"linear_attention\", \"full_attention\", \"linear_attention\"], "       \
 "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 100, "                   \
 "\"partial_rotary_factor\": 0.5, \"mrope_section\": [2, 1, 1], \"mrope_interleaved\": true}"
#define VISION                                                                             \
 "\"vision_config\": {\"depth\": 2, \"hidden_size\": 8, \"intermediate_size\": 10, "       \
 "\"num_heads\": 2, \"in_channels\": 3, \"patch_size\": 2, \"temporal_patch_size\": 2, "   \
 "\"spatial_merge_size\": 2, \"out_hidden_size\": 16, \"num_position_embeddings\": 9%s}, " \
 "\"image_token_id\": 38, \"video_token_id\": 39, \"tie_word_embeddings\": %s"

static const char qwen3_5_text[] = "{\"model_type\": \"qwen3_5_text\", " TEXT DELTA "}";
static const char qwen3_5[] = "{\"model_type\": \"qwen3_5\", \"text_config\": {" TEXT DELTA
                              "}, " VISION "}";
static const char qwen3_vl[] =
    "{\"model_type\": \"qwen3_vl\", \"text_config\": {" TEXT
    "\"head_dim\": 8, \"rope_scaling\": {\"rope_type\": \"default\", \"mrope_section\": [2, 1, 1], "
    "\"mrope_interleaved\": true}, \"rope_theta\": 100}, " VISION "}";

enum {
    TOKENS = 20,
    PATCHES = 24 + 8,
    PATCH_SIZE = 3 * 2 * 2 * 2
};

/* Sequences of 12 and 8; in the first a picture of 2 x 3 tokens, in the second one of 1 x 2. */
static const size_t starts[] = {0, 12, 20};
static const int32_t with_pictures[TOKENS] = {3, 7, 38, 38, 38, 38, 38, 38, 1,  9,
                                              2, 3, 5,  6,  38, 38, 4,  4,  11, 30};
static const int32_t grids[] = {1, 4, 6, 1, 2, 4};

struct bench {
    struct arena *a;
    struct train_model *m;
    struct train_batch batch;
    int32_t ids[TOKENS], labels[TOKENS];
    double pixels[PATCHES * PATCH_SIZE];
};

static void fill_batch(struct bench *b, bool pictures)
{
    memcpy(b->ids, with_pictures, sizeof b->ids);
    for (size_t t = 0; t < TOKENS; t++) {
        if (!pictures && b->ids[t] == 38) {
            b->ids[t] = (int32_t)(t + 10);
        }
    }
    for (size_t t = 0; t < TOKENS; t++) {
        bool last = t + 1 == starts[1] || t + 1 == TOKENS;
        b->labels[t] = last || b->ids[t + 1] == 38 ? LABEL_IGNORED : b->ids[t + 1];
    }
    fd_fill(b->pixels, PATCHES * PATCH_SIZE, 1);
    b->batch = (struct train_batch){
        .tokens = TOKENS, .sequences = 2, .ids = b->ids, .labels = b->labels, .start = starts};
    if (pictures) {
        b->batch.pixels = b->pixels;
        b->batch.patches = PATCHES;
        b->batch.grid = grids;
        b->batch.pictures = 2;
    }
}

/* Random weights, and no value left that a mistake could hide behind: norms are not 0 or 1. */
static void open_model(struct bench *b, const char *config, struct model_options o, bool pictures)
{
    struct err err;
    temp_root_make();
    temp_write("/config.json", config);
    b->a = arena_new(0);
    o.random = true;
    o.seed = 7;
    o.threads = o.threads ? o.threads : 1;
    o.blas = "";
    if (model_open(b->a, temp_root, &o, &b->m, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    temp_root_remove();
    struct param_list *l = model_params(b->m);
    uint64_t seed = 99;
    for (size_t i = 0; i < l->count; i++) {
        for (size_t j = 0; j < l->items[i].count; j++) {
            ((double *)l->items[i].value)[j] += 0.1 * fd_random(&seed);
        }
    }
    fill_batch(b, pictures);
}

static void close_model(struct bench *b)
{
    model_close(b->m);
    arena_free(b->a);
}

static double loss_of(void *ctx)
{
    struct bench *b = ctx;
    double loss = 0;
    size_t labels = 0;
    struct err err;
    if (model_forward(b->m, &b->batch, &loss, &labels, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    return loss;
}

static void check_gradients(const char *config, struct model_options o, bool pictures)
{
    static struct bench b;
    open_model(&b, config, o, pictures);
    struct param_list *l = model_params(b.m);
    struct fd_tensor *t = arena_array(b.a, l->count, sizeof *t);
    size_t n = 0;
    loss_of(&b);
    model_zero_grad(b.m);
    model_backward(b.m, 1);
    for (size_t i = 0; i < l->count; i++) {
        struct param *p = &l->items[i];
        if (p->trainable) {
            t[n++] = (struct fd_tensor){p->name, p->value, p->grad, p->count};
        }
    }
    fd_check(t, n, 8, 1e-7, loss_of, &b);
    close_model(&b);
}

static const char *wrapper(const char *format, const char *more, bool tied)
{
    static char text[4000];
    snprintf(text, sizeof text, format, more, tied ? "true" : "false");
    return text;
}

static const char deepstack[] = ", \"deepstack_visual_indexes\": [0, 1]";

static void qwen3_5_text_gradients(void **state)
{
    (void)state;
    check_gradients(qwen3_5_text, (struct model_options){.threads = 2}, false);
    check_gradients(qwen3_5_text, (struct model_options){.reference = true}, false);
    check_gradients(qwen3_5_text, (struct model_options){.recompute = true}, false);
}

static void qwen3_5_gradients_with_pictures(void **state)
{
    (void)state;
    check_gradients(wrapper(qwen3_5, "", false), (struct model_options){0}, true);
    check_gradients(wrapper(qwen3_5, "", true), (struct model_options){.reference = true}, true);
}

static void qwen3_vl_gradients_with_pictures(void **state)
{
    (void)state;
    check_gradients(wrapper(qwen3_vl, deepstack, false), (struct model_options){0}, true);
    check_gradients(wrapper(qwen3_vl, deepstack, true), (struct model_options){.recompute = true},
                    true);
}

static void adapter_gradients(void **state)
{
    (void)state;
    struct model_options o = {.lora = {.rank = 2, .alpha = 4, .targets = "all-linear"}};
    check_gradients(wrapper(qwen3_5, "", false), o, true);
    check_gradients(wrapper(qwen3_vl, deepstack, false), o, true);
}

/* Losses and gradients of two ways to the same thing. */
static void assert_same(struct bench *x, struct bench *y, double tolerance)
{
    struct param_list *a = model_params(x->m), *b = model_params(y->m);
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        fd_assert_close(a->items[i].name, b->items[i].grad, a->items[i].grad, a->items[i].count,
                        tolerance);
    }
}

static double both(struct bench *b)
{
    double loss = loss_of(b);
    model_backward(b->m, 1);
    return loss;
}

/* Plain loops, steps and Conv3d against products, blocks and the linear layer. */
static void reference_equals_fast(void **state)
{
    (void)state;
    static struct bench a, b;
    open_model(&a, wrapper(qwen3_5, "", false), (struct model_options){.reference = true}, true);
    open_model(&b, wrapper(qwen3_5, "", false), (struct model_options){.threads = 3}, true);
    double one = both(&a), other = both(&b);
    assert_true(fabs(one - other) < 1e-12 * one);
    assert_same(&a, &b, 1e-11);
    close_model(&a);
    close_model(&b);
}

static void recomputed_equals_kept(void **state)
{
    (void)state;
    static struct bench a, b;
    open_model(&a, wrapper(qwen3_vl, deepstack, false), (struct model_options){0}, true);
    open_model(&b, wrapper(qwen3_vl, deepstack, false), (struct model_options){.recompute = true},
               true);
    assert_true(both(&a) == both(&b));
    assert_same(&a, &b, 0);
    close_model(&a);
    close_model(&b);
}

/* A packed batch is its sequences: nothing crosses a border, gradients add up. */
static void packed_equals_separate(void **state)
{
    (void)state;
    static struct bench a, b;
    static const size_t first[] = {0, 12}, second[] = {0, 8};
    open_model(&a, wrapper(qwen3_5, "", false), (struct model_options){0}, true);
    open_model(&b, wrapper(qwen3_5, "", false), (struct model_options){0}, true);
    double together = both(&a), apart = 0;
    b.batch = (struct train_batch){12, 1, b.ids, b.labels, first, NULL, b.pixels, 24, grids, 1};
    apart += both(&b);
    b.batch = (struct train_batch){
        8, 1, b.ids + 12, b.labels + 12, second, NULL, b.pixels + 24 * PATCH_SIZE, 8, grids + 3, 1};
    apart += both(&b);
    assert_true(fabs(together - apart) < 1e-13 * together);
    assert_same(&a, &b, 1e-12);
    close_model(&a);
    close_model(&b);
}

/* M-RoPE with the three streams equal is RoPE; with pictures it is not. */
static void equal_streams_are_rope(void **state)
{
    (void)state;
    static struct bench b;
    static int32_t positions[3 * TOKENS];
    open_model(&b, wrapper(qwen3_vl, deepstack, false), (struct model_options){0}, false);
    for (size_t i = 0; i < 3 * TOKENS; i++) {
        size_t t = i % TOKENS;
        positions[i] = (int32_t)(t < 12 ? t : t - 12);
    }
    double plain = loss_of(&b);
    b.batch.positions = positions;
    assert_true(loss_of(&b) == plain);
    fill_batch(&b, true);
    double own = loss_of(&b);
    b.batch.positions = positions;
    assert_true(fabs(loss_of(&b) - own) > 1e-6 * own);
    close_model(&b);
}

static void wrong_batches_are_refused(void **state)
{
    (void)state;
    static struct bench b;
    double loss = 0;
    size_t labels = 0;
    struct err err;
    open_model(&b, wrapper(qwen3_5, "", false), (struct model_options){0}, true);
    b.ids[0] = 38;
    assert_int_equal(model_forward(b.m, &b.batch, &loss, &labels, &err), ST_FORMAT);
    assert_non_null(strstr(err.text, "9 tokens for pictures"));
    fill_batch(&b, true);
    b.batch.pictures = 0;
    b.batch.patches = 0;
    assert_int_equal(model_forward(b.m, &b.batch, &loss, &labels, &err), ST_FORMAT);
    fill_batch(&b, true);
    b.ids[2] = 4; /* one token of the first picture is in the second's run */
    b.ids[16] = 38;
    assert_int_equal(model_forward(b.m, &b.batch, &loss, &labels, &err), ST_FORMAT);
    close_model(&b);
    open_model(&b, qwen3_5_text, (struct model_options){0}, true);
    assert_int_equal(model_forward(b.m, &b.batch, &loss, &labels, &err), ST_USAGE);
    assert_non_null(strstr(err.text, "no vision tower"));
    close_model(&b);
}

static void wrong_configs_are_refused(void **state)
{
    (void)state;

    static const struct {
        const char *text, *says;
    } bad[] = {
        {"{\"model_type\": \"qwen3_5\"}", "text_config"},
        {"{\"model_type\": \"qwen3_5\", \"text_config\": {" TEXT DELTA "}}", "vision_config"},
        {"{\"model_type\": \"qwen3_5_text\", " TEXT "\"layer_types\": [\"full_attention\"]}",
         "3 layers"},
        {"{\"model_type\": \"qwen3_5_text\", " TEXT
         "\"layer_types\": [\"full_attention\", \"mamba\", \"full_attention\"]}",
         "mamba"},
        {"{\"model_type\": \"qwen3_5_text\", " TEXT "\"linear_num_key_heads\": 3, "
         "\"linear_num_value_heads\": 4}",
         "4 value heads"},
        {"{\"model_type\": \"qwen3_5_text\", " TEXT "\"rope_parameters\": {\"mrope_section\": 3}}",
         "mrope_section"},
        {"{\"model_type\": \"qwen3_5_text\", " TEXT
         "\"rope_parameters\": {\"mrope_interleaved\": false}}",
         "mrope_interleaved"},
        {"{\"model_type\": \"qwen3_5_text\", \"attn_output_gate\": false, " TEXT DELTA "}",
         "attn_output_gate"},
        {"{\"model_type\": \"qwen3_vl\", \"text_config\": {" TEXT "\"head_dim\": 8}, "
         "\"image_token_id\": 38, \"video_token_id\": 39, \"vision_config\": {\"depth\": 2, "
         "\"out_hidden_size\": 16, \"deepstack_visual_indexes\": [1, 0]}}",
         "ascending"},
        {"{\"model_type\": \"qwen3_vl\", \"text_config\": {" TEXT "\"head_dim\": 8}, "
         "\"image_token_id\": 38, \"video_token_id\": 39, \"vision_config\": {\"depth\": 2, "
         "\"out_hidden_size\": 16}}",
         "numbers of the 2 blocks"},
        {"{\"model_type\": \"qwen3_5\", \"text_config\": {" TEXT DELTA "}, "
         "\"image_token_id\": 38, \"video_token_id\": 39, \"vision_config\": {\"depth\": 2, "
         "\"out_hidden_size\": 20}}",
         "width 20"},
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct model_options o = {.random = true};
        struct train_model *m = NULL;
        struct err err;
        struct arena *a = arena_new(0);
        temp_root_make();
        temp_write("/config.json", bad[i].text);
        assert_int_not_equal(model_open(a, temp_root, &o, &m, &err), ST_OK);
        if (!strstr(err.text, bad[i].says)) {
            fail_msg("'%s' does not mention '%s'", err.text, bad[i].says);
        }
        temp_root_remove();
        arena_free(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qwen3_5_text_gradients),
        cmocka_unit_test(qwen3_5_gradients_with_pictures),
        cmocka_unit_test(qwen3_vl_gradients_with_pictures),
        cmocka_unit_test(adapter_gradients),
        cmocka_unit_test(reference_equals_fast),
        cmocka_unit_test(recomputed_equals_kept),
        cmocka_unit_test(packed_equals_separate),
        cmocka_unit_test(equal_streams_are_rope),
        cmocka_unit_test(wrong_batches_are_refused),
        cmocka_unit_test(wrong_configs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
