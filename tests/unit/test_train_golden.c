// SPDX-License-Identifier: Apache-2.0
/* Steps that transformers and peft computed (tests/full/train_oracle.py --golden): loss, logits and every
 * gradient, in float64 to many digits, in bfloat16 with the same rounding. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/tensor_file.h"
#include "train/oracle.h"
#include "unit.h"

#define GOLDEN_TRAIN GOLDEN "/train/"

struct golden {
    const char *model;
    const char *dump;    /* without ".<dtype>.safetensors" */
    const char *adapter; /* NULL: full training */
    size_t tensors;      /* compared, at least */
};

static const struct golden goldens[] = {
    {"llama", "llama", NULL, 23},
    {"llama_tied", "llama_tied", NULL, 36},
    {"qwen2", "qwen2", NULL, 28},
    {"qwen3", "qwen3", NULL, 27},
    {"llama", "llama_lora", "llama_adapter", 14},
    {"qwen3", "qwen3_lora", "qwen3_adapter", 30},
};

static struct oracle_report run(struct arena *a, const struct golden *g, const char *dtype,
                                struct model_options model)
{
    struct oracle_report r;
    struct err err = {0};
    model.lora.adapter = g->adapter != NULL ? arena_fmt(a, GOLDEN_TRAIN "%s", g->adapter) : NULL;
    const struct oracle_options o = {
        .folder = arena_fmt(a, GOLDEN_TRAIN "%s", g->model),
        .against = arena_fmt(a, GOLDEN_TRAIN "%s.%s.safetensors", g->dump, dtype),
        .model = model};
    enum status s = oracle_run(a, &o, &r, &err);
    if (s != ST_OK) {
        print_message("%s\n", err.text);
    }
    assert_int_equal(s, ST_OK);
    assert_true(r.rows.count >= g->tensors);
    assert_int_equal(r.strange, 0);
    return r;
}

static void check(const struct golden *g, struct model_options model)
{
    struct arena *a = arena_new(0);
    struct oracle_report r = run(a, g, "float64", model);
    for (size_t i = 0; i < r.rows.count; i++) {
        if (!(r.rows.items[i].error <= 1e-12)) {
            print_message("%s: %s: %g\n", g->dump, r.rows.items[i].name, r.rows.items[i].error);
        }
        assert_true(r.rows.items[i].error <= 1e-12);
    }
    assert_int_equal(r.wrong, 0);
    assert_true(fabs(r.loss - r.dump_loss) <= 1e-12 * r.loss);
    arena_free(a);
}

static void test_float64(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(goldens); i++) {
        check(&goldens[i], (struct model_options){.reference = true});
        check(&goldens[i], (struct model_options){.blas = "", .recompute = true});
    }
}

/* The rounding points are the framework's: its error is ours, tensor by tensor. */
static void test_bfloat16(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(goldens); i++) {
        struct arena *a = arena_new(0);
        struct oracle_report r = run(a, &goldens[i], "bfloat16",
                                     (struct model_options){.reference = true});
        assert_int_equal(r.precision, PRECISION_BF16);
        assert_int_equal(r.wrong, 0);
        for (size_t j = 0; j < r.rows.count; j++) {
            const struct oracle_row *row = &r.rows.items[j];
            assert_true(row->kind == CAPTURE_LOSS || row->error <= 1.5 * row->expected + 1e-3);
        }
        arena_free(a);
    }
}

/* A weight that is not the dump's: the oracle says so. */
static void test_other_weights_are_wrong(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct oracle_report r;
    struct err err = {0};
    const struct oracle_options o = {
        .folder = GOLDEN_TRAIN "qwen3",
        .against = GOLDEN_TRAIN "qwen3_lora.float64.safetensors",
        .model = {.lora = {.rank = 3, .alpha = 6, .targets = "all-linear"}}};
    assert_int_equal(oracle_run(a, &o, &r, &err), ST_OK);
    assert_true(r.wrong > 10);
    assert_true(r.first < r.rows.count && r.rows.items[r.first].wrong);
    arena_free(a);
}

static struct str read_all(struct arena *a, const char *path)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *bytes = arena_alloc(a, 1 << 20);
    size_t n = fread(bytes, 1, 1 << 20, f);
    fclose(f);
    return (struct str){bytes, n};
}

static void write_all(const char *path, struct str bytes)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes.p, 1, bytes.n, f), bytes.n);
    fclose(f);
}

/* The folder of a model in which one byte of a tensor is another. */
static void change_weight(struct arena *a, const char *from, const char *to, const char *tensor)
{
    struct tensor_file *f;
    struct err err;
    const char *path = arena_fmt(a, "%s/model.safetensors", from);
    assert_int_equal(tensor_file_open(a, path, NULL, &f, &err), ST_OK);
    const struct tensor *t = tensor_find(f, tensor);
    assert_non_null(t);
    struct str bytes = read_all(a, path);
    char *at = (char *)bytes.p + t->offset + 5; /* upper byte of a bfloat16: its exponent */
    *at = (char)(*at ^ 4);
    write_all(arena_fmt(a, "%s/model.safetensors", to), bytes);
    write_all(arena_fmt(a, "%s/config.json", to),
              read_all(a, arena_fmt(a, "%s/config.json", from)));
    tensor_file_close(f);
}

/* A stack in which one layer computes something else: its own dump, against the right weights, names
 * that layer and operator. */
static void test_planted_fault(void **state)
{
    static const struct {
        const char *weight, *first;
    } faults[] = {
        {"model.layers.1.self_attn.k_proj.weight", "output of model.layers.1.self_attn.k_proj"},
        {"model.layers.0.mlp.up_proj.weight", "output of model.layers.0.mlp.up_proj"},
        {"model.layers.1.self_attn.q_norm.weight", "output of model.layers.1.self_attn.q_norm"},
    };

    (void)state;
    int32_t ids[] = {5, 9, 60, 0, 33, 7, 7};
    int32_t labels[] = {9, 60, 0, 33, 7, 7, LABEL_IGNORED};
    const size_t start[] = {0, 7};
    const struct train_batch b = {
        .tokens = 7, .sequences = 1, .ids = ids, .labels = labels, .start = start};
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        struct arena *a = arena_new(0);
        struct oracle_report r;
        struct err err = {0};
        char folder[] = "/tmp/assay-fault-XXXXXX";
        assert_non_null(mkdtemp(folder));
        const char *out = arena_fmt(a, "%s/dump.safetensors", folder);
        change_weight(a, GOLDEN_TRAIN "qwen3", folder, faults[i].weight);
        struct oracle_options o = {.folder = folder, .out = out, .batch = &b};
        o.model.precision = i == 1 ? PRECISION_F32 : PRECISION_F64;
        assert_int_equal(oracle_run(a, &o, &r, &err), ST_OK);
        o = (struct oracle_options){.folder = GOLDEN_TRAIN "qwen3", .against = out, .batch = &b};
        assert_int_equal(oracle_run(a, &o, &r, &err), ST_OK);
        assert_true(r.wrong > 3 && r.wrong < r.rows.count);
        assert_string_equal(oracle_place(a, &r.rows.items[r.first]), faults[i].first);
        unlink(out);
        unlink(arena_fmt(a, "%s/model.safetensors", folder));
        unlink(arena_fmt(a, "%s/config.json", folder));
        rmdir(folder);
        arena_free(a);
    }
}

/* What the oracle writes it can read, and finds equal to itself. */
static void test_own_dump(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct oracle_report r;
    struct err err = {0};
    char out[] = "/tmp/assay-oracle-XXXXXX";
    int fd = mkstemp(out);
    assert_true(fd >= 0);
    close(fd);
    int32_t ids[] = {5, 9, 60, 0, 33};
    int32_t labels[] = {9, 60, 0, 33, LABEL_IGNORED};
    const size_t start[] = {0, 5};
    const struct train_batch b = {
        .tokens = 5, .sequences = 1, .ids = ids, .labels = labels, .start = start};
    struct oracle_options o = {.folder = GOLDEN_TRAIN "llama", .out = out, .batch = &b};
    assert_int_equal(oracle_run(a, &o, &r, &err), ST_OK);
    assert_int_equal(r.labels, 4);
    o.out = NULL;
    o.against = out;
    assert_int_equal(oracle_run(a, &o, &r, &err), ST_OK);
    assert_int_equal(r.wrong, 0);
    assert_int_equal(r.rows.count, r.tensors);
    unlink(out);
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_float64),
        cmocka_unit_test(test_bfloat16),
        cmocka_unit_test(test_other_weights_are_wrong),
        cmocka_unit_test(test_planted_fault),
        cmocka_unit_test(test_own_dump),
    };
    return cmocka_run_group_tests_name("train_golden", tests, NULL, NULL);
}
