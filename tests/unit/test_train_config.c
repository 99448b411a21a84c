// SPDX-License-Identifier: Apache-2.0
/* config.json and weights that are wrong: each is named. */
#include "model/safetensors_write.h"
#include "train/config.h"
#include "train_support.h"

#define SIZES                                                                          \
 "\"vocab_size\":8,\"hidden_size\":8,\"intermediate_size\":8,\"num_hidden_layers\":1," \
 "\"num_attention_heads\":2"

static void test_configurations(void **state)
{
    static const struct {
        const char *text;
        enum status status;
        const char *says; /* NULL: fine */
    } cases[] = {
        {"{\"model_type\":\"llama\"," SIZES "}", ST_OK, NULL},
        {"{\"model_type\":\"llama\"," SIZES ",\"rope_scaling\":null,\"head_dim\":null}", ST_OK,
         NULL},
        {"", ST_FORMAT, "c.json"},
        {"[]", ST_FORMAT, "model_type"},
        {"{\"model_type\":\"bert\"}", ST_UNSUPPORTED, "'bert'"},
        {"{\"model_type\":\"llama\"," SIZES
         ",\"architectures\":[\"LlamaForSequenceClassification\"]}",
         ST_UNSUPPORTED, "LlamaForSequenceClassification"},
        {"{\"model_type\":\"llama\",\"vocab_size\":8}", ST_FORMAT, "'hidden_size' is missing"},
        {"{\"model_type\":\"llama\"," SIZES ",\"num_key_value_heads\":3}", ST_FORMAT,
         "2 query heads do not divide among 3 key heads"},
        {"{\"model_type\":\"llama\"," SIZES ",\"head_dim\":5}", ST_FORMAT, "5 channels"},
        {"{\"model_type\":\"llama\"," SIZES ",\"head_dim\":-4}", ST_FORMAT, "'head_dim' is -4"},
        {"{\"model_type\":\"llama\"," SIZES ",\"head_dim\":99999999999}", ST_FORMAT, "'head_dim'"},
        {"{\"model_type\":\"llama\"," SIZES ",\"hidden_act\":\"gelu\"}", ST_UNSUPPORTED, "'gelu'"},
        {"{\"model_type\":\"llama\"," SIZES ",\"attention_dropout\":0.1}", ST_UNSUPPORTED,
         "attention_dropout is 0.1"},
        {"{\"model_type\":\"qwen2\"," SIZES ",\"use_sliding_window\":true}", ST_UNSUPPORTED,
         "use_sliding_window"},
        {"{\"model_type\":\"llama\"," SIZES ",\"tie_word_embeddings\":1}", ST_FORMAT,
         "'tie_word_embeddings' is 1"},
        {"{\"model_type\":\"llama\"," SIZES ",\"rope_scaling\":{\"type\":\"longrope\"}}",
         ST_UNSUPPORTED, "'longrope'"},
        {"{\"model_type\":\"llama\"," SIZES ",\"rope_scaling\":{\"type\":\"linear\"}}", ST_FORMAT,
         "'factor' is missing"},
        {"{\"model_type\":\"llama\"," SIZES
         ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,"
         "\"high_freq_factor\":4,\"original_max_position_embeddings\":64}}",
         ST_FORMAT, "high_freq_factor"},
        {"{\"model_type\":\"llama\"," SIZES ",\"layer_types\":[\"full_attention\",\"x\"]}",
         ST_FORMAT, "layer_types"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct arena *a = arena_new(0);
        struct model_config c;
        struct err err = {0};
        enum status s = config_parse(a, str_of(cases[i].text), "c.json", &c, &err);
        bool fine = s == cases[i].status &&
                    (cases[i].says == NULL || strstr(err.text, cases[i].says) != NULL);
        if (!fine) {
            print_message("%s: status %d: %s\n", cases[i].text, (int)s, err.text);
        }
        assert_true(fine);
        arena_free(a);
    }
}

/* Both spellings of the rotary parameters mean the same. */
static void test_spellings(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct model_config old;
    struct model_config new;
    struct err err = {0};
    assert_int_equal(config_parse(a,
                                  STR("{\"model_type\":\"llama\"," SIZES ",\"rope_theta\":5e5,"
                                      "\"rope_scaling\":{\"type\":\"linear\",\"factor\":3}}"),
                                  "c.json", &old, &err),
                     ST_OK);
    assert_int_equal(
        config_parse(a,
                     STR("{\"model_type\":\"llama\"," SIZES
                         ",\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":3.0,"
                         "\"rope_theta\":500000}}"),
                     "c.json", &new, &err),
        ST_OK);
    assert_true(old.rope.kind == ROPE_LINEAR && new.rope.kind == ROPE_LINEAR);
    assert_true(old.rope.factor == 3 && new.rope.factor == 3);
    assert_true(old.rope.theta == 500000 && new.rope.theta == 500000);
    assert_int_equal(old.rope.dim, 4);
    arena_free(a);
}

/* Writes the toy's weights with one thing wrong, and opens them. */
enum damage {
    DAMAGE_NONE,
    DAMAGE_MISSING,
    DAMAGE_EXTRA,
    DAMAGE_SHAPE,
    DAMAGE_NAN,
    DAMAGE_INTEGERS,
    DAMAGE_COUNT
};

static enum status open_damaged(enum damage damage, struct err *err)
{
    struct toy t = toy_open(TOY_QWEN2, (struct model_options){.precision = PRECISION_F32}, false);
    struct param_list *list = model_params(t.model);
    struct safetensors_item *items = arena_array(t.arena, list->count + 1, sizeof *items);
    size_t n = 0;
    for (size_t i = 0; i < list->count; i++) {
        struct param *p = &list->items[i];
        items[n++] = (struct safetensors_item){p->name, DTYPE_F32, DTYPE_F32,
                                               p->rank, p->dim,    p->value};
    }
    const size_t turned[] = {items[1].shape[1], items[1].shape[0]};
    int32_t *whole = arena_array(t.arena, list->items[1].count, sizeof *whole);
    switch (damage) {
    case DAMAGE_MISSING: n--; break;
    case DAMAGE_EXTRA:
        items[n] = items[0];
        items[n++].name = "model.layers.9.self_attn.q_proj.weight";
        break;
    case DAMAGE_SHAPE: items[1].shape = turned; break;
    case DAMAGE_NAN: ((float *)list->items[1].value)[7] = NAN; break;
    case DAMAGE_INTEGERS:
        items[1].dtype = items[1].source = DTYPE_I32;
        items[1].values = whole;
        break;
    default: break;
    }
    char folder[] = "/tmp/assay-weights-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const char *config = arena_fmt(t.arena, "%s/config.json", folder);
    const char *weights = arena_fmt(t.arena, "%s/model.safetensors", folder);
    assert_int_equal(safe_file_write(t.arena, config, STR(TOY_QWEN2), err), ST_OK);
    assert_int_equal(safetensors_write(t.arena, weights, items, n, NULL, 0, err), ST_OK);
    struct train_model *m = NULL;
    const struct model_options options = {.precision = PRECISION_F64};
    enum status s = model_open(t.arena, folder, &options, &m, err);
    if (s == ST_OK) {
        struct param *p = param_find(model_params(m), list->items[1].name);
        assert_true(((double *)p->value)[3] == (double)((float *)list->items[1].value)[3]);
        model_close(m);
    }
    unlink(config);
    unlink(weights);
    rmdir(folder);
    toy_close(&t);
    return s;
}

static void test_weights(void **state)
{
    static const char *const says[DAMAGE_COUNT] = {
        [DAMAGE_MISSING] = "lack 'model.norm.weight'",
        [DAMAGE_EXTRA] = "'model.layers.9.self_attn.q_proj.weight' is no parameter",
        [DAMAGE_SHAPE] = "asks for",
        [DAMAGE_NAN] = "value 7 of 'model.layers.0.self_attn.q_proj.weight' is nan",
        [DAMAGE_INTEGERS] = "is of type I32"};
    (void)state;
    for (enum damage d = DAMAGE_NONE; d < DAMAGE_COUNT; d++) {
        struct err err = {0};
        enum status s = open_damaged(d, &err);
        assert_int_equal(s == ST_OK, d == DAMAGE_NONE);
        if (d != DAMAGE_NONE && strstr(err.text, says[d]) == NULL) {
            print_message("%s\n", err.text);
        }
        assert_true(d == DAMAGE_NONE || strstr(err.text, says[d]) != NULL);
    }
}

static void check_adapter(const char *text, const char *says)
{
    struct arena *a = arena_new(0);
    struct lora_options lora;
    struct err err = {0};
    char folder[] = "/tmp/assay-adapter-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const char *path = arena_fmt(a, "%s/adapter_config.json", folder);
    assert_int_equal(safe_file_write(a, path, str_of(text), &err), ST_OK);
    enum status s = lora_read_config(a, folder, &lora, &err);
    assert_int_equal(s == ST_OK, says == NULL);
    assert_true(says == NULL || strstr(err.text, says) != NULL);
    if (says == NULL) {
        assert_int_equal(lora.rank, 16);
        assert_true(lora.alpha == 32 && lora.rank_stabilised);
        assert_string_equal(lora.targets, "q_proj,v_proj");
    }
    unlink(path);
    rmdir(folder);
    arena_free(a);
}

static void test_adapters(void **state)
{
    (void)state;
    check_adapter(
        "{\"peft_type\":\"LORA\",\"r\":16,\"lora_alpha\":32,\"use_rslora\":true,"
        "\"target_modules\":[\"q_proj\",\"v_proj\"],\"bias\":\"none\",\"use_dora\":false}",
        NULL);
    check_adapter("{\"r\":16,\"target_modules\":[\"q_proj\"],\"use_dora\":true}", "'use_dora'");
    check_adapter("{\"r\":16,\"target_modules\":[\"q_proj\"],\"rank_pattern\":{\"x\":4}}",
                  "'rank_pattern'");
    check_adapter("{\"r\":16,\"target_modules\":[\"q_proj\"],\"bias\":\"all\"}", "bias 'all'");
    check_adapter("{\"r\":16,\"target_modules\":\".*q_proj\"}", "an expression");
    check_adapter("{\"r\":0,\"target_modules\":[\"q_proj\"]}", "'r' is 0");
    check_adapter("{\"r\":16,\"lora_dropout\":0.05,\"target_modules\":[\"q_proj\"]}",
                  "'lora_dropout'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_configurations),
        cmocka_unit_test(test_spellings),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_adapters),
    };
    return cmocka_run_group_tests_name("train_config", tests, NULL, NULL);
}
