// SPDX-License-Identifier: Apache-2.0
/* Weights against config.json: a model made after the configuration passes, each departure is named. */
#include <inttypes.h>

#include "model/architecture.h"
#include "model/folder.h"
#include "model/optimizer_order.h"
#include "temp_root.h"
#include "unit.h"

static struct arena *arena;

#define SIZES                                                                              \
 "\"vocab_size\":10,\"hidden_size\":8,\"intermediate_size\":12,\"num_attention_heads\":2," \
 "\"num_key_value_heads\":1,\"num_hidden_layers\":2"
#define QWEN35                                                          \
 "\"head_dim\":4,\"linear_num_key_heads\":1,\"linear_key_head_dim\":2," \
 "\"linear_num_value_heads\":2,\"linear_value_head_dim\":2,\"full_attention_interval\":2"
#define VISION                                                                                \
 "\"vision_config\":{\"depth\":1,\"hidden_size\":4,\"intermediate_size\":6,\"patch_size\":2," \
 "\"out_hidden_size\":8,\"num_position_embeddings\":4,\"deepstack_visual_indexes\":[0]}"

#define LATENT                                                                        \
 "\"kv_lora_rank\":3,\"qk_nope_head_dim\":2,\"qk_rope_head_dim\":2,\"v_head_dim\":5," \
 "\"moe_intermediate_size\":3,\"n_shared_experts\":2,\"first_k_dense_replace\":1,"

static const char *const configs[] = {
    "{\"model_type\":\"llama\"," SIZES "}",
    "{\"model_type\":\"llama\",\"attention_bias\":true,\"mlp_bias\":true,\"head_dim\":6," SIZES "}",
    "{\"model_type\":\"llama\",\"architectures\":[\"LlamaModel\"]," SIZES "}",
    "{\"model_type\":\"qwen2\",\"tie_word_embeddings\":true," SIZES "}",
    "{\"model_type\":\"qwen3\",\"head_dim\":4," SIZES "}",
    "{\"model_type\":\"qwen3_5_text\"," SIZES "," QWEN35 "}",
    "{\"model_type\":\"qwen3_5\",\"text_config\":{" SIZES "," QWEN35 "}," VISION "}",
    "{\"model_type\":\"mixtral\",\"num_local_experts\":2," SIZES "}",
    "{\"model_type\":\"qwen2_moe\",\"moe_intermediate_size\":3,\"shared_expert_intermediate_size\":5,"
    "\"num_experts\":2,\"mlp_only_layers\":[0]," SIZES "}",
    "{\"model_type\":\"qwen3_moe\",\"head_dim\":4,\"moe_intermediate_size\":3,\"num_local_experts\":2,"
    "\"decoder_sparse_step\":2," SIZES "}",
    "{\"model_type\":\"deepseek_v2\",\"q_lora_rank\":null,\"n_routed_experts\":2," LATENT SIZES "}",
    "{\"model_type\":\"deepseek_v3\",\"q_lora_rank\":3,\"n_routed_experts\":2," LATENT SIZES "}",
    "{\"model_type\":\"gpt_oss\",\"head_dim\":4,\"num_local_experts\":2," SIZES "}",
    "{\"model_type\":\"qwen3_vl\",\"text_config\":{\"head_dim\":4," SIZES "}," VISION "}",
};

static struct architecture expect_of(const char *text)
{
    const struct tree *config;
    struct architecture m;
    struct err err = {0};
    assert_int_equal(
        tree_from_json(arena, str_of(text), "config.json", TREE_LIMITS_DEFAULT, &config, &err),
        ST_OK);
    if (architecture_read(arena, config, &m, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    return m;
}

/* What to do otherwise than the configuration says. */
struct fault {
    const char *leave_out;
    const char *reshape; /* one element more in its first dimension */
    const char *add;     /* a tensor [1] */
    const char *prefix;
    bool head; /* store lm_head.weight, of other values, though it is tied */
};

static void add_tensor(struct strbuf *header, uint64_t *at, const char *name, const uint64_t *shape,
                       uint32_t rank)
{
    uint64_t n = 4;
    strbuf_fmt(header, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[", header->n > 1 ? "," : "", name);
    for (uint32_t i = 0; i < rank; i++) {
        strbuf_fmt(header, "%s%" PRIu64, i != 0 ? "," : "", shape[i]);
        n *= shape[i];
    }
    strbuf_fmt(header, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", *at, *at + n);
    *at += n;
}

static bool is(const char *a, const char *b)
{
    return a != NULL && strcmp(a, b) == 0;
}

/* Ids of the issues of such a folder, one after the other. */
static const char *issues_of(const char *config, const struct fault *fault)
{
    struct architecture m = expect_of(config);
    struct strbuf header;
    uint64_t at = 0;
    strbuf_init(&header, arena, 1 << 20);
    strbuf_addc(&header, '{');
    for (size_t i = 0; i < m.tensors.count; i++) {
        struct architecture_tensor t = m.tensors.items[i];
        if (is(fault->leave_out, t.name) || (t.optional && !fault->head)) {
            continue;
        }
        t.shape[0] += is(fault->reshape, t.name);
        const char *name = arena_fmt(arena, "%s%s", fault->prefix != NULL ? fault->prefix : "",
                                     t.name);
        add_tensor(&header, &at, name, t.shape, t.rank);
    }
    if (fault->add != NULL) {
        static const uint64_t one = 1;
        add_tensor(&header, &at, fault->add, &one, 1);
    }
    strbuf_addc(&header, '}');
    unsigned char *bytes = arena_alloc(arena, 8 + header.n + (size_t)at);
    for (size_t i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)((uint64_t)header.n >> (8 * i));
    }
    memcpy(bytes + 8, header.p, header.n);
    for (uint64_t i = 0; i < at; i++) {
        bytes[8 + header.n + i] = (unsigned char)(1 + i % 100);
    }
    temp_write_bytes("/m/model.safetensors", bytes, 8 + header.n + (size_t)at);
    temp_write("/m/config.json", config);

    struct issues issues;
    struct text_list kinds = {0};
    struct strbuf ids;
    const char *path = arena_fmt(arena, "%s/m", temp_root);
    issues_init(&issues, arena, path);
    assert_int_equal(folder_check(arena, path, &issues, &kinds, NULL), ST_OK);
    assert_int_equal(kinds.count, 1);
    strbuf_init(&ids, arena, 10000);
    for (size_t i = 0; i < issues.list.count; i++) {
        strbuf_fmt(&ids, "%s ", issues.list.items[i].id);
    }
    return ids.p;
}

static void a_model_after_its_config_passes(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(configs); i++) {
        assert_string_equal(issues_of(configs[i], &(struct fault){0}), "");
    }
}

/* Every tensor of every family: without it, and in another shape. */
static void each_departure_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(configs); i++) {
        struct architecture m = expect_of(configs[i]);
        for (size_t t = 0; t < m.tensors.count; t++) {
            const char *name = m.tensors.items[t].name;
            if (m.tensors.items[t].optional) {
                continue;
            }
            assert_string_equal(issues_of(configs[i], &(struct fault){.leave_out = name}),
                                "config-tensor-missing ");
            assert_string_equal(issues_of(configs[i], &(struct fault){.reshape = name}),
                                "config-shape ");
        }
        assert_string_equal(issues_of(configs[i], &(struct fault){.add = "model.extra"}),
                            "config-tensor-unexpected ");
        assert_string_equal(issues_of(configs[i], &(struct fault){.prefix = "_orig_mod."}),
                            "config-names-prefixed ");
    }
}

static void tied_heads_and_ignored_tensors_are_known(void **state)
{
    (void)state;
    assert_string_equal(issues_of(configs[3], &(struct fault){.head = true}),
                        "config-tied-differs ");
    assert_string_equal(issues_of(configs[5], &(struct fault){.add = "mtp.fc.weight"}), "");
    assert_string_equal(
        issues_of(configs[11], &(struct fault){.add = "model.layers.2.eh_proj.weight"}), "");
    assert_string_equal(
        issues_of(configs[11], &(struct fault){.add = "model.layers.1.eh_proj.weight"}),
        "config-tensor-unexpected ");
    assert_string_equal(
        issues_of(configs[0],
                  &(struct fault){.add = "model.layers.0.self_attn.rotary_emb.inv_freq"}),
        "");
}

static void a_tokenizer_with_more_ids_than_rows_is_named(void **state)
{
    (void)state;
    temp_write("/m/tokenizer.json",
               "{\"added_tokens\":[],\"normalizer\":null,\"pre_tokenizer\":null,"
               "\"post_processor\":null,\"decoder\":null,\"model\":{\"type\":\"WordLevel\","
               "\"vocab\":{\"a\":0,\"b\":10},\"unk_token\":\"a\"}}");
    assert_string_equal(issues_of(configs[0], &(struct fault){0}), "config-vocabulary ");
    temp_write("/m/tokenizer.json",
               "{\"added_tokens\":[],\"normalizer\":null,\"pre_tokenizer\":null,"
               "\"post_processor\":null,\"decoder\":null,\"model\":{\"type\":\"WordLevel\","
               "\"vocab\":{\"a\":0,\"b\":9},\"unk_token\":\"a\"}}");
    assert_string_equal(issues_of(configs[0], &(struct fault){0}), "");
    unlink(arena_fmt(arena, "%s/m/tokenizer.json", temp_root));
}

static void configs_that_do_not_describe_a_model_are_refused(void **state)
{
    (void)state;

    static const struct {
        const char *text;
        enum status status;
    } rows[] = {
        {"{\"model_type\":\"nothing\"}", ST_UNSUPPORTED},
        {"{}", ST_UNSUPPORTED},
        {"[]", ST_UNSUPPORTED},
        {"{\"model_type\":\"llama\",\"quantization_config\":{}," SIZES "}", ST_UNSUPPORTED},
        {"{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLMEagle\"]," SIZES "}",
         ST_UNSUPPORTED},
        {"{\"model_type\":\"llama\"}", ST_FORMAT},
        {"{\"model_type\":\"llama\",\"head_dim\":-1," SIZES "}", ST_FORMAT},
        {"{\"model_type\":\"llama\",\"head_dim\":\"x\"," SIZES "}", ST_FORMAT},
        {"{\"model_type\":\"llama\",\"head_dim\":4000000000," SIZES "}", ST_FORMAT},
        {"{\"model_type\":\"mixtral\",\"num_local_experts\":5000," SIZES "}", ST_FORMAT},
        {"{\"model_type\":\"deepseek_v3\",\"n_routed_experts\":\"x\"," SIZES "}", ST_FORMAT},
        {"{\"model_type\":\"qwen3_5\"," SIZES "}", ST_FORMAT},
        {"{\"model_type\":\"qwen3_5_text\",\"layer_types\":[\"full_attention\"]," SIZES "}",
         ST_FORMAT},
        {"{\"model_type\":\"qwen3_5_text\",\"layer_types\":[\"a\",\"b\"]," SIZES "}", ST_FORMAT},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct tree *config;
        struct architecture m;
        struct err err = {0};
        assert_int_equal(tree_from_json(arena, str_of(rows[i].text), "config.json",
                                        TREE_LIMITS_DEFAULT, &config, &err),
                         ST_OK);
        assert_int_equal(architecture_read(arena, config, &m, &err), rows[i].status);
    }
}

/* Shapes in the Trainer's order pass; the same shapes in another order do not. */
static void an_optimizer_in_another_order_is_named(void **state)
{
    (void)state;
    const char *config = configs[0];
    struct architecture m = expect_of(config);
    const char **shapes = arena_array(arena, m.tensors.count, sizeof *shapes);
    size_t n = 0;
    size_t decayed = 0;
    for (int group = 0; group < 2; group++) {
        for (size_t i = 0; i < m.tensors.count; i++) {
            const struct architecture_tensor *t = &m.tensors.items[i];
            if ((t->rank == 2) == (group == 0)) {
                shapes[n++] = tensor_shape_text(arena, t->shape, t->rank);
            }
        }
        decayed = group == 0 ? n : decayed;
    }
    struct issues issues;
    struct folder f;
    (void)issues_of(config, &(struct fault){0});
    const char *path = arena_fmt(arena, "%s/m", temp_root);
    issues_init(&issues, arena, path);
    assert_true(folder_open(arena, path, &issues, &f, NULL));
    optimizer_order_check(&f, shapes, n, decayed);
    assert_int_equal(issues.list.count, 0);
    const char *first = shapes[1];
    shapes[1] = shapes[2];
    shapes[2] = first;
    optimizer_order_check(&f, shapes, n, decayed);
    assert_int_equal(issues_count(&issues, "trainer-optimizer-order"), 1);
    optimizer_order_check(&f, shapes, n - 1, decayed); /* a part: nothing to say */
    assert_int_equal(issues.list.count, 1);
}

static int setup(void **state)
{
    (void)state;
    arena = arena_new(0);
    temp_root_make();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    temp_root_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_after_its_config_passes),
        cmocka_unit_test(each_departure_is_named),
        cmocka_unit_test(tied_heads_and_ignored_tensors_are_known),
        cmocka_unit_test(a_tokenizer_with_more_ids_than_rows_is_named),
        cmocka_unit_test(configs_that_do_not_describe_a_model_are_refused),
        cmocka_unit_test(an_optimizer_in_another_order_is_named),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
