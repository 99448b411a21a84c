// SPDX-License-Identifier: Apache-2.0
/* Verdicts on what came back from a PyTorch, and the findings that are made of them. */
#include <math.h>
#include <string.h>

#include "base/vec.h"

#include "cli/probe/torch.h"
#include "unit.h"

enum {
    COUNT = 100
};

/* ---- a tensor as a whole ---- */

static struct op_array ones(struct arena *a, double rms_limit)
{
    struct op_array array = {.rank = 1, .dim = {COUNT}, .count = COUNT, .rms_limit = rms_limit};
    array.value = arena_array(a, COUNT, sizeof *array.value);
    array.bound = arena_array(a, COUNT, sizeof *array.bound);
    for (size_t i = 0; i < COUNT; i++) {
        array.value[i] = 1;
        array.bound[i] = 0.1; /* loose, as bounds of long recurrences are */
    }
    return array;
}

/* All elements off by `error`. */
static enum torch_verdict judge(struct arena *a, const struct op_array *array, double error,
                                struct torch_worst *ret_worst)
{
    double *got = arena_array(a, COUNT, sizeof *got);
    for (size_t i = 0; i < COUNT; i++) {
        got[i] = array->value[i] + error;
    }
    *ret_worst = (struct torch_worst){0};
    return torch_judge(a, "o", array, got, ret_worst);
}

static void tensor_as_a_whole_may_be_off(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct torch_worst worst;
    struct op_array limited = ones(a, 0.01);
    struct op_array free_of_it = ones(a, 0);
    /* Each element is within its bound, together they are not. */
    assert_int_equal(judge(a, &limited, 0.02, &worst), TORCH_INACCURATE);
    assert_true(worst.whole);
    assert_true(fabs(worst.error - 0.02) < 1e-12 && worst.bound == 0.01);
    assert_true(fabs(worst.ratio - 2) < 1e-9);
    assert_int_equal(judge(a, &limited, 0.009, &worst), TORCH_OK);
    assert_false(worst.whole);
    assert_int_equal(judge(a, &free_of_it, 0.02, &worst), TORCH_OK);
    /* An element beyond its bound by more than the whole is what is told. */
    assert_int_equal(judge(a, &limited, 0.5, &worst), TORCH_INACCURATE);
    assert_true(worst.whole); /* 50 times its limit; an element only 5 times */
    limited.rms_limit = 0.4;
    assert_int_equal(judge(a, &limited, 0.5, &worst), TORCH_INACCURATE);
    assert_false(worst.whole);
    arena_free(a);
}

/* ---- findings ---- */

struct desk {
    struct arena *arena;
    struct cli cli;
    struct torch_campaign_result result;
    struct finding_list findings;
};

/* A campaign of one row whose backward pass is off by `ratio` bounds. Two roundings of the tensor's largest
 * element, which 16-bit sums explain, are 16.1 bounds. */
static const struct finding *finding_of(struct desk *d, const char *op, enum dtype dtype,
                                        const char *device, double ratio, bool whole)
{
    static const struct torch_hello hello = {.torch = "2.11.0", .proven = true};
    d->cli = (struct cli){.arena = d->arena};
    d->result = (struct torch_campaign_result){0};
    d->findings = (struct finding_list){0};
    struct torch_row *row = VEC_PUSH(d->arena, &d->result.rows);
    *row = (struct torch_row){.op = op, .way = "F.linear", .dtype = dtype, .layout = TORCH_ROW_ALL};
    row->forward = (struct torch_cell){.verdict = TORCH_OK, .probes = 4};
    row->backward = (struct torch_cell){.verdict = TORCH_INACCURATE, .probes = 4, .bad = 1};
    row->backward.case_text = "linear bfloat16 rows=17 seed=1";
    row->backward.message = "";
    row->backward.worst = (struct torch_worst){.tensor = "dx",
                                               .index = whole ? "" : "0,1",
                                               .got = 1 + ratio / 100,
                                               .wanted = 1,
                                               .error = ratio / 100,
                                               .bound = 0.01,
                                               .largest = 0.0805 / dtype_unit_roundoff(dtype),
                                               .ratio = ratio,
                                               .whole = whole};
    probe_torch_findings(&d->cli, &hello, "python3", device, &d->result, &d->findings);
    assert_int_equal(d->findings.count, 1);
    return &d->findings.items[0];
}

static bool names_the_switch(const struct finding *f, const char *name)
{
    bool named = false;
    for (size_t i = 0; i < f->remedy.count; i++) {
        named = named || strstr(f->remedy.items[i], name) != NULL;
    }
    return named;
}

static void sums_in_16_bits_are_a_warning(void **state)
{
    (void)state;
    struct desk d = {.arena = arena_new(0)};
    const struct finding *f = finding_of(&d, "linear", DTYPE_BF16, "cuda", 4, false);
    assert_int_equal(f->severity, SEVERITY_WARNING);
    assert_non_null(strstr(f->claim, "partial sums in 16 bits"));
    assert_true(names_the_switch(f, "allow_bf16_reduced_precision_reduction = False"));
    f = finding_of(&d, "gemm", DTYPE_F16, "cuda:1", 16, false);
    assert_int_equal(f->severity, SEVERITY_WARNING);
    assert_true(names_the_switch(f, "allow_fp16_reduced_precision_reduction = False"));
    arena_free(d.arena);
}

static void what_the_switch_does_not_explain_is_an_error(void **state)
{
    (void)state;

    static const struct {
        const char *op, *device;
        enum dtype dtype;
        double ratio;
    } rows[] = {
        {"linear", "cpu", DTYPE_BF16, 4},   /* it is a switch of GPUs */
        {"linear", "cuda", DTYPE_F32, 4},   /* and of 16-bit products */
        {"softmax", "cuda", DTYPE_BF16, 4}, /* and of products */
        {"linear", "cuda", DTYPE_BF16, 17}, /* farther off than 16-bit sums come */
        {"linear", "cuda", DTYPE_BF16, INFINITY}, {"linear", "cuda", DTYPE_BF16, NAN},
    };
    struct desk d = {.arena = arena_new(0)};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct finding *f = finding_of(&d, rows[i].op, rows[i].dtype, rows[i].device,
                                             rows[i].ratio, false);
        assert_int_equal(f->severity, SEVERITY_ERROR);
        assert_false(names_the_switch(f, "reduced_precision"));
    }
    arena_free(d.arena);
}

static void whole_tensor_is_told_as_such(void **state)
{
    (void)state;
    struct desk d = {.arena = arena_new(0)};
    const struct finding *f = finding_of(&d, "gated_delta_rule", DTYPE_F32, "cuda", 3, true);
    assert_non_null(strstr(f->claim,
                           "dx as a whole is off: its RMS error is 0.03 of its RMS value, "
                           "3 times what is allowed (0.01)"));
    f = finding_of(&d, "gated_delta_rule", DTYPE_F32, "cuda", 3, false);
    assert_null(strstr(f->claim, "as a whole"));
    assert_non_null(strstr(f->claim, "The worst element, dx[0,1]"));
    arena_free(d.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensor_as_a_whole_may_be_off),
        cmocka_unit_test(sums_in_16_bits_are_a_warning),
        cmocka_unit_test(what_the_switch_does_not_explain_is_an_error),
        cmocka_unit_test(whole_tensor_is_told_as_such),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
