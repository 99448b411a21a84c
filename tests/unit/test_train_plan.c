// SPDX-License-Identifier: Apache-2.0
/* The plan counts what the model really declares, for every family; a shrunk configuration is one of its family. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/safetensors_write.h"
#include "train/plan.h"
#include "train/shrink.h"
#include "unit.h"

static struct arena *arena;

static const struct {
    const char *name;
    const char *config;
    const char *targets;
} models[] = {
    {"Llama with biases, grouped heads, own head",
     "{\"model_type\": \"llama\", \"vocab_size\": 40, \"hidden_size\": 64, \"intermediate_size\": 96,"
     "\"num_hidden_layers\": 5, \"num_attention_heads\": 8, \"num_key_value_heads\": 4, \"rms_norm_eps\": 1e-5,"
     "\"attention_bias\": true, \"mlp_bias\": true, \"tie_word_embeddings\": false}",
     "all-linear"},
    {"Qwen2, tied",
     "{\"model_type\": \"qwen2\", \"vocab_size\": 40, \"hidden_size\": 64, \"intermediate_size\": 96,"
     "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
     "\"tie_word_embeddings\": true}",
     "q_proj,down_proj"},
    {"Qwen3, head wider than hidden / heads",
     "{\"model_type\": \"qwen3\", \"vocab_size\": 40, \"hidden_size\": 64, \"intermediate_size\": 96,"
     "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 32,"
     "\"tie_word_embeddings\": true}",
     "self_attn.v_proj"},
    {"Qwen3.5 with its vision tower",
     "{\"model_type\": \"qwen3_5\", \"image_token_id\": 36, \"video_token_id\": 37, \"vision_start_token_id\": 35,"
     "\"tie_word_embeddings\": true, \"text_config\": {\"model_type\": \"qwen3_5_text\", \"vocab_size\": 40,"
     "\"hidden_size\": 64, \"intermediate_size\": 96, \"num_hidden_layers\": 8, \"num_attention_heads\": 4,"
     "\"num_key_value_heads\": 2, \"head_dim\": 32, \"rms_norm_eps\": 1e-6, \"attn_output_gate\": true,"
     "\"full_attention_interval\": 4, \"linear_conv_kernel_dim\": 4, \"linear_key_head_dim\": 16,"
     "\"linear_value_head_dim\": 16, \"linear_num_key_heads\": 2, \"linear_num_value_heads\": 4,"
     "\"tie_word_embeddings\": true, \"rope_parameters\": {\"mrope_interleaved\": true, \"mrope_section\": [2, 1, 1],"
     "\"rope_theta\": 10000, \"rope_type\": \"default\", \"partial_rotary_factor\": 0.25}},"
     "\"vision_config\": {\"model_type\": \"qwen3_5\", \"depth\": 4, \"hidden_size\": 32, \"num_heads\": 4,"
     "\"intermediate_size\": 64, \"hidden_act\": \"gelu_pytorch_tanh\", \"in_channels\": 3, \"patch_size\": 4,"
     "\"temporal_patch_size\": 2, \"spatial_merge_size\": 2, \"out_hidden_size\": 64, \"num_position_embeddings\": 16,"
     "\"deepstack_visual_indexes\": []}}",
     "all-linear"},
};

static uint64_t elements(const char *config, const char *targets, bool trained)
{
    char folder[] = "/tmp/assay-plan-XXXXXX";
    struct err err = {0};
    struct train_model *m;
    struct model_options options = {.random = true, .threads = 1, .blas = ""};
    options.lora = (struct lora_options){
        .rank = targets != NULL ? 4 : 0, .alpha = 8, .targets = targets};
    assert_non_null(mkdtemp(folder));
    const char *path = arena_fmt(arena, "%s/config.json", folder);
    assert_int_equal(safe_file_write(arena, path, str_of(config), &err), ST_OK);
    enum status status = model_open(arena, folder, &options, &m, &err);
    (void)unlink(path);
    (void)rmdir(folder);
    if (status != ST_OK) {
        fail_msg("%s", err.text);
    }
    uint64_t n = 0;
    const struct param_list *list = model_params(m);
    for (size_t i = 0; i < list->count; i++) {
        n += trained && !list->items[i].trainable ? 0 : list->items[i].count;
    }
    model_close(m);
    return n;
}

static void test_counts_are_the_models(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(models); i++) {
        struct model_config c;
        struct err err = {0};
        struct plan_counts counts;
        if (config_parse(arena, str_of(models[i].config), models[i].name, &c, &err) != ST_OK) {
            fail_msg("%s", err.text);
        }
        struct lora_options lora = {.rank = 4, .targets = models[i].targets};
        plan_count(&c, &lora, &counts);
        assert_int_equal(counts.weights, elements(models[i].config, NULL, false));
        assert_int_equal(counts.adapters, elements(models[i].config, models[i].targets, true));
    }
}

static void test_shrunk_is_of_the_family(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(models); i++) {
        struct model_config c;
        struct model_config small;
        struct err err = {0};
        struct plan_counts counts;
        const char *text;
        uint64_t params;
        assert_int_equal(config_parse(arena, str_of(models[i].config), models[i].name, &c, &err),
                         ST_OK);
        plan_count(&c, NULL, &counts);
        assert_int_equal(shrink_config(arena, &c, counts.weights / 2, &text, &params, &err), ST_OK);
        assert_int_equal(config_parse(arena, str_of(text), "small", &small, &err), ST_OK);
        assert_int_equal(params, elements(text, NULL, false));
        assert_true(params < counts.weights * 3 / 4 && params > counts.weights / 4);
        assert_int_equal(small.vocab, c.vocab);
        assert_int_equal(small.head_dim, c.head_dim);
        assert_int_equal(small.heads / small.kv_heads, c.heads / c.kv_heads);
        for (size_t k = 0; k < small.layers; k++) {
            assert_int_equal(small.layer_kind[k], c.layer_kind[k]);
        }
        assert_int_equal(shrink_config(arena, &c, counts.weights, &text, &params, &err), ST_USAGE);
        assert_int_equal(shrink_config(arena, &c, 10, &text, &params, &err), ST_USAGE);
    }
}

static void test_what_costs_what(void **state)
{
    (void)state;
    struct model_config c;
    struct err err;
    struct plan p;
    struct plan half;
    struct model_options model = {.precision = PRECISION_F32};
    struct optim_options optim = OPTIM_DEFAULTS;
    assert_int_equal(config_parse(arena, str_of(models[0].config), "llama", &c, &err), ST_OK);
    struct plan_wish wish = {.config = &c,
                             .model = &model,
                             .optim = &optim,
                             .tokens = 20000,
                             .longest = 100,
                             .threads = 2};
    plan_make(&wish, &p);
    assert_int_equal(p.optimizer, 2 * p.weights);
    assert_int_equal(p.gradients, p.weights);
    wish.tokens = 10000;
    plan_make(&wish, &half);
    assert_true(half.activations < p.activations * 6 / 10);
    wish.tokens = 20000;
    model.recompute = true;
    plan_make(&wish, &half);
    assert_true(half.activations < p.activations * 6 / 10);
    model.precision = PRECISION_BF16;
    plan_make(&wish, &half);
    assert_int_equal(half.optimizer, 3 * half.weights);
    optim.pure = true;
    wish.brief = true;
    plan_make(&wish, &half);
    assert_int_equal(half.optimizer, 2 * half.weights);
    assert_int_equal(half.gradients_before, 0);
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
        cmocka_unit_test(test_counts_are_the_models),
        cmocka_unit_test(test_shrunk_is_of_the_family),
        cmocka_unit_test(test_what_costs_what),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
