// SPDX-License-Identifier: Apache-2.0
/* GGUF files as models: names, order of rows, configuration and tokenizer; and files that lie. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"

#include "model/tok.h"
#include "train/config.h"
#include "train/model.h"
#include "train/model_gguf.h"
#include "train/save.h"
#include "unit.h"

static struct arena *arena;
static char folder[64];

static const struct model_options plain = {
    .precision = PRECISION_F32, .threads = 1, .reference = true, .blas = ""};

static struct train_model *opened(const char *path)
{
    struct train_model *m = NULL;
    struct err err = {0};
    if (model_open(arena, path, &plain, &m, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    return m;
}

static float value_at(struct train_model *m, const char *name, size_t i)
{
    const struct param *p = param_find(model_params(m), name);
    assert_non_null(p);
    return ((const float *)p->value)[i];
}

static void names_are_hugging_faces(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"token_embd.weight", "model.embed_tokens.weight"},
        {"output_norm.weight", "model.norm.weight"},
        {"output.weight", "lm_head.weight"},
        {"blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight"},
        {"blk.17.attn_k.bias", "model.layers.17.self_attn.k_proj.bias"},
        {"blk.3.attn_q_norm.weight", "model.layers.3.self_attn.q_norm.weight"},
        {"blk.3.attn_output.weight", "model.layers.3.self_attn.o_proj.weight"},
        {"blk.3.ffn_norm.weight", "model.layers.3.post_attention_layernorm.weight"},
        {"blk.3.ffn_down.weight", "model.layers.3.mlp.down_proj.weight"},
    };

    static const char *const unknown[] = {
        "",        "blk.",           "blk.x.attn_q.weight",  "blk.0",
        "blk.0.",  "blk.0.attn_q",   "blk.0.attn_q.scale",   "blk.0.attn_q.weight.weight",
        "output.", "attn_q.weight",  "blk.-1.attn_q.weight", "blk.99999.attn_q.weight",
        "output",  "output.weight2", "blk..attn_q.weight",
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_string_equal(model_gguf_name(arena, rows[i][0]), rows[i][1]);
    }
    for (size_t i = 0; i < ARRAY_LEN(unknown); i++) {
        assert_null(model_gguf_name(arena, unknown[i]));
    }
}

/* In each file row r of q_proj and k_proj of layer i is ((i + 1) * 1000 + r) / 65536 in Hugging Face's
 * order. */
static void rows_are_where_they_were_before_the_converter(void **state)
{
    (void)state;
    static const char *const files[] = {CORPUS "/model_llama", CORPUS "/model_qwen2",
                                        CORPUS "/model_qwen3"};
    for (size_t f = 0; f < ARRAY_LEN(files); f++) {
        struct train_model *m = opened(files[f]);
        for (size_t r = 0; r < 32; r++) {
            for (size_t c = 0; c < 32; c++) {
                assert_true(value_at(m, "model.layers.1.self_attn.q_proj.weight", r * 32 + c) ==
                            (float)(2000 + r) / 65536);
                assert_true(r >= 16 || value_at(m, "model.layers.0.self_attn.k_proj.weight",
                                                r * 32 + c) == (float)(1000 + r) / 65536);
            }
            assert_true(f != 1 ||
                        value_at(m, "model.layers.0.self_attn.q_proj.bias", r) == (float)r / 65536);
        }
        model_close(m);
    }
}

static void the_configuration_is_the_metadatas(void **state)
{
    (void)state;
    struct model_config c;
    struct err err;
    assert_int_equal(config_read(arena, CORPUS "/model_llama", &c, &err), ST_OK);
    assert_int_equal(c.family, FAMILY_LLAMA);
    assert_true(c.vocab == 272 && c.hidden == 32 && c.intermediate == 64 && c.layers == 2);
    assert_true(c.heads == 4 && c.kv_heads == 2 && c.head_dim == 8 && c.tied && !c.qkv_bias);
    assert_true(c.norm_eps == 1e-5); /* the file has float32 */
    assert_true(c.rope.theta == 10000 && c.rope.kind == ROPE_DEFAULT);
    assert_int_equal(config_read(arena, CORPUS "/model_qwen2", &c, &err), ST_OK);
    assert_true(c.family == FAMILY_QWEN2 && c.qkv_bias && !c.o_bias && c.tied);
    assert_int_equal(config_read(arena, CORPUS "/model_qwen3", &c, &err), ST_OK);
    assert_true(c.family == FAMILY_QWEN3 && c.qk_norm && !c.tied);
}

static void a_saved_folder_is_the_same_model(void **state)
{
    (void)state;
    struct err err = {0};
    struct train_model *m = opened(CORPUS "/model_qwen3");
    struct save_target target = {.model_folder = CORPUS "/model_qwen3", .params = model_params(m)};
    const char *to = arena_fmt(arena, "%s/saved", folder);
    if (save_model(arena, to, &target, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    struct train_model *again = opened(to);
    struct param_list *a = model_params(m);
    struct param_list *b = model_params(again);
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        assert_string_equal(a->items[i].name, b->items[i].name);
        assert_memory_equal(a->items[i].value, b->items[i].value, a->items[i].count * 4);
    }
    model_close(again);
    model_close(m);
}

static void expect_ids(const char *path, const char *text, const uint32_t *ids, size_t n)
{
    const struct tokenizer *t;
    struct tok_ids got = {0};
    struct strbuf back;
    struct err err = {0};
    if (tok_open(arena, path, NULL, &t, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(tok_format_of(t), TOK_GGUF);
    struct tok_encoder *e = tok_encoder_new(t);
    assert_int_equal(tok_encode(e, arena, str_of(text), TOK_SPECIALS, &got, &err), ST_OK);
    assert_int_equal(got.count, n);
    assert_memory_equal(got.items, ids, n * sizeof *ids);
    strbuf_init(&back, arena, 1000);
    assert_int_equal(tok_decode(t, arena, got.items, got.count, true, &back, &err), ST_OK);
    assert_string_equal(back.p, text);
    tok_encoder_free(e);
    tok_close(t);
}

/* The ids that the tokenizers library gives for the tokenizer.json of --convert. */
static void texts_become_ids(void **state)
{
    (void)state;
    static const uint32_t ids[] = {1, 119, 259, 35, 52, 53, 52, 53, 35, 259, 117, 265};
    expect_ids(CORPUS "/model_llama", "the 1212 heron", ids, ARRAY_LEN(ids));
    expect_ids(CORPUS "/model_qwen2", "the 1212 heron", ids + 1, ARRAY_LEN(ids) - 1);
}

/* ---- files that lie ---- */

/* A copy of the file of `architecture` in which the first `from` is `to`, as many bytes, `skip` bytes behind
 * the place where `at` begins. */
static const char *altered(const char *architecture, const char *at, size_t skip, const void *to,
                           size_t n)
{
    static const struct fs live = {.prefix = ""};
    struct str bytes;
    struct err err;
    const char *path = arena_fmt(arena, "%s/altered.gguf", folder);
    assert_int_equal(fs_read(&live, arena, arena_fmt(arena, CORPUS "/model_%s", architecture),
                             1 << 20, &bytes, &err),
                     ST_OK);
    char *copy = arena_copy(arena, bytes.p, bytes.n);
    size_t place = str_find(bytes, at, 0);
    assert_true(place != SIZE_MAX);
    memcpy(copy + place + skip, to, n);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(copy, 1, bytes.n, f), bytes.n);
    assert_int_equal(fclose(f), 0);
    return path;
}

static void expect_refused(const char *path, enum status status, const char *says)
{
    struct train_model *m = NULL;
    struct err err = {0};
    enum status got = model_open(arena, path, &plain, &m, &err);
    if (got != status || strstr(err.text, says) == NULL) {
        fail_msg("status %d, '%s'; wanted %d, '%s'", (int)got, err.text, (int)status, says);
    }
}

static void numbers_that_lie_are_named(void **state)
{
    (void)state;

    /* Key, kind (4 bytes), number. */
    static const struct {
        const char *key;
        uint32_t value;
        enum status status;
        const char *says;
    } rows[] = {
        {"llama.block_count", 1000000, ST_FORMAT, "1000000 layers, and only"},
        {"llama.block_count", 3, ST_FORMAT, "of block 2 nothing is there"},
        {"llama.block_count", 1, ST_FORMAT, "'blk.1.attn_norm.weight'"},
        {"llama.block_count", 0, ST_UNSUPPORTED, "'llama.block_count'"},
        {"llama.embedding_length", 64, ST_FORMAT, "'token_embd.weight' is [272, 32]"},
        {"llama.embedding_length", 0xffffffff, ST_FORMAT, "embedding_length is 4294967295"},
        {"llama.feed_forward_length", 1 << 24, ST_FORMAT, "'blk.0.ffn_gate.weight'"},
        {"llama.attention.head_count", 3, ST_FORMAT, "do not divide"},
        {"llama.attention.head_count_kv", 4, ST_FORMAT, "self_attn.k_proj.weight"},
        {"llama.attention.layer_norm_rms_epsilon", 0x7fc00000, ST_FORMAT, "rms_epsilon"},
        {"llama.rope.freq_base", 0, ST_FORMAT, "'llama.rope.freq_base'"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *path = altered("llama", rows[i].key, strlen(rows[i].key) + 4, &rows[i].value,
                                   sizeof rows[i].value);
        expect_refused(path, rows[i].status, rows[i].says);
    }
}

static void texts_that_lie_are_named(void **state)
{
    (void)state;
    const struct tokenizer *t;
    struct err err = {0};
    /* Key, kind (4 bytes), length (8 bytes), text. */
    const size_t behind = strlen("general.architecture") + 12;
    expect_refused(altered("llama", "general.architecture", behind, "bloom", 5), ST_UNSUPPORTED,
                   "'bloom'");
    expect_refused(altered("llama", "blk.1.attn_v.weight", 0, "blk.1.attn_w.weight", 19), ST_FORMAT,
                   "'blk.1.attn_w.weight' is no parameter");
    expect_refused(altered("llama", "blk.1.attn_norm.weight", 0, "blk.1.attn_q.weight\0\0\0", 22),
                   ST_FORMAT, "UTF-8 text without NUL");
    expect_refused(altered("llama", "blk.1.attn_norm.weight", 0, "blk.0.attn_norm.weight", 22),
                   ST_FORMAT, "same name");
    const char *path = altered("llama", "tokenizer.ggml.pre", 18 + 12, "sm0llm", 6);
    assert_int_equal(tok_open(arena, path, NULL, &t, &err), ST_UNSUPPORTED);
    assert_non_null(strstr(err.text, "'sm0llm'"));
    path = altered("llama", "tokenizer.ggml.model", 20 + 12, "bert", 4);
    assert_int_equal(tok_open(arena, path, NULL, &t, &err), ST_UNSUPPORTED);
    assert_non_null(strstr(err.text, "kind 'bert'"));
    path = altered("llama", "h e", 0, "hxe", 3);
    assert_int_equal(tok_open(arena, path, NULL, &t, &err), ST_FORMAT);
    assert_non_null(strstr(err.text, "merge"));
}

static void a_cut_file_is_named(void **state)
{
    (void)state;
    const char *path = altered("llama", "GGUF", 0, "GGUF", 4);
    assert_int_equal(truncate(path, 30000), 0);
    expect_refused(path, ST_FORMAT, "cut off");
    assert_int_equal(truncate(path, 100), 0);
    expect_refused(path, ST_FORMAT, "ends inside its header");
}

static int setup(void **state)
{
    (void)state;
    arena = arena_new(0);
    str_print(folder, sizeof folder, "%s", "/tmp/assay-model-gguf-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int teardown(void **state)
{
    (void)state;
    struct err err;
    (void)!save_remove_folder(arena, arena_fmt(arena, "%s/saved", folder), &err);
    (void)!save_remove_folder(arena, folder, &err);
    arena_free(arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_hugging_faces),
        cmocka_unit_test(rows_are_where_they_were_before_the_converter),
        cmocka_unit_test(the_configuration_is_the_metadatas),
        cmocka_unit_test(a_saved_folder_is_the_same_model),
        cmocka_unit_test(texts_become_ids),
        cmocka_unit_test(numbers_that_lie_are_named),
        cmocka_unit_test(texts_that_lie_are_named),
        cmocka_unit_test(a_cut_file_is_named),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
