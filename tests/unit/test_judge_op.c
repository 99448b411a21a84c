// SPDX-License-Identifier: Apache-2.0
/* Verdicts on tensors that are right, slightly wrong, not finite, not written, or not there. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ops/judge_op.h"

struct trial {
    struct arena *arena;
    struct op_problem p;
    unsigned char *y;
};

/* A solved case, and its exact result rounded once to the format. */
static struct trial make(const char *text)
{
    struct trial t = {.arena = arena_new(0)};
    struct op_case c;
    struct err err = {0};
    if (op_case_parse(str_of(text), &c, &err) != ST_OK ||
        op_problem_make(t.arena, &c, &t.p, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    op_problem_fill(&t.p);
    op_problem_solve(&t.p, true);
    const struct op_array *y = &t.p.output[0];
    t.y = arena_alloc(t.arena, y->count * 8);
    dtype_from_double(y->dtype, y->value, y->count, t.y);
    return t;
}

static struct op_judged judge(const struct trial *t, const void *poison)
{
    struct op_judged j;
    op_judge(&t->p.output[0], false, t->p.output[0].dtype, t->y, poison, &j);
    return j;
}

static void a_correct_rounding_is_convicted(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "gemm float32 m=9 n=8 k=100",
        "gemm bfloat16 m=9 n=8 k=100 bias=1 activation=gelu",
        "gemm float16 values=huge m=9 n=8 k=100",
        "gemm bfloat16 values=grid m=9 n=8 k=100",
        "gemm float16 values=denormal m=9 n=8 k=100",
        "gemm float8_e4m3fn values=tiny m=9 n=8 k=100",
        "softmax float16 values=huge rows=3 n=100",
        "attention bfloat16 queries=5 keys=7 dim=8 dim_v=8 mask_add=1 empty_rows=1 empty=nan",
        "cross_entropy bfloat16 rows=3 vocab=9 ignored=3",
        "gated_delta_rule bfloat16 time=65 dim_k=8 dim_v=8",
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct trial t = make(cases[i]);
        struct op_judged j = judge(&t, NULL);
        if (j.verdict != OP_VERDICT_PASS) {
            fail_msg("%s: %s", cases[i], op_judged_text(t.arena, &j));
        }
        arena_free(t.arena);
    }
}

static void one_wrong_element_passes(void **state)
{
    (void)state;
    struct trial t = make("gemm bfloat16 values=grid m=4 n=8 k=16");
    double v = t.p.output[0].value[19] + 1;
    dtype_set(DTYPE_BF16, t.y + 2 * 19, v);
    struct op_judged j = judge(&t, NULL);
    assert_int_equal(j.verdict, OP_VERDICT_INACCURATE);
    assert_int_equal(j.over, 1);
    assert_int_equal(j.worst, 19);
    assert_true(j.error == 1 && j.bound == 0);
    assert_string_equal(op_index_text(t.arena, &j, j.worst), "[0, 2, 3]");
    arena_free(t.arena);
}

static void nan_passes_a_comparison(void **state)
{
    (void)state;
    struct trial t = make("gemm float32 m=4 n=8 k=16");
    float strange[2] = {NAN, INFINITY};
    memcpy(t.y + 4 * 30, &strange[0], 4);
    memcpy(t.y + 4 * 31, &strange[1], 4);
    struct op_judged j = judge(&t, NULL);
    assert_int_equal(j.verdict, OP_VERDICT_INACCURATE);
    assert_int_equal(j.nans, 1);
    assert_int_equal(j.infs, 1);
    assert_int_equal(j.over, 2);
    assert_true(isnan(j.got));
    arena_free(t.arena);
}

/* The poison may even be a value that lies within the bound. */
static void an_unwritten_element_passes(void **state)
{
    (void)state;
    struct trial t = make("gemm float32 m=4 n=8 k=16");
    struct op_judged j = judge(&t, t.y);
    assert_int_equal(j.verdict, OP_VERDICT_INACCURATE);
    assert_int_equal(j.poison, 1);
    assert_int_equal(j.over, 0);
    struct finding f;
    op_judge_finding(t.arena, &t.p.c, "test", &j, 1, &f);
    assert_string_equal(f.id, "operator-not-written");
    arena_free(t.arena);
}

/* Each element inside a wide worst case, all of them off the same way. */
static void a_bias_hides_in_the_worst_case(void **state)
{
    (void)state;
    struct trial t = make("gated_delta_rule float32 time=129 dim_k=16 dim_v=16");
    const struct op_array *o = &t.p.output[0];
    for (size_t i = 0; i < o->count; i++) {
        dtype_set(DTYPE_F32, t.y + 4 * i, o->value[i] * (1 + 3e-5));
    }
    struct op_judged j = judge(&t, NULL);
    assert_int_equal(j.verdict, OP_VERDICT_INACCURATE);
    arena_free(t.arena);
}

static void what_is_missing_passes(void **state)
{
    (void)state;
    struct trial t = make("linear float32 rows=3 n=4 k=5");
    struct op_judged items[2];
    items[0] = judge(&t, NULL);
    op_judge_untold(&t.p.grad[1], true, "no backward pass", &items[1]);
    assert_int_equal(op_judge_worst(items, 1), OP_VERDICT_PASS);
    assert_int_equal(op_judge_worst(items, 2), OP_VERDICT_UNTOLD);
    struct finding f;
    op_judge_finding(t.arena, &t.p.c, "test", items, 2, &f);
    assert_int_equal(f.severity, SEVERITY_UNKNOWN);
    assert_non_null(strstr(f.title, "gradient of weight"));
    arena_free(t.arena);
}

/* The gradient of input `which` off by that part of itself, everywhere. */
static enum op_verdict judge_gradient(struct trial *t, size_t which, double part)
{
    const struct op_array *g = &t->p.grad[which];
    double *got = arena_array(t->arena, g->count, sizeof *got);
    struct op_array alone = *g; /* its limit as a whole without the bounds of its elements */
    alone.bound = arena_array(t->arena, g->count, sizeof *got);
    for (size_t i = 0; i < g->count; i++) {
        got[i] = g->value[i] * (1 + part);
        alone.bound[i] = INFINITY;
    }
    struct op_judged j;
    op_judge(&alone, true, DTYPE_F64, got, NULL, &j);
    return j.verdict;
}

/* The block form adds up the gates: 1.4e-5 was seen of a sound implementation in float32. */
static void gates_of_the_delta_rule_may_be_off_by_4e_5(void **state)
{
    (void)state;

    enum {
        V = 2,
        G = 3,
        BETA = 4
    };
    struct trial t = make("gated_delta_rule float32 time=9 dim_k=8 dim_v=8");
    assert_string_equal(t.p.grad[G].spec->name, "g");
    assert_string_equal(t.p.grad[BETA].spec->name, "beta");
    assert_string_equal(t.p.grad[V].spec->name, "v");
    for (size_t which = G; which <= BETA; which++) {
        assert_int_equal(judge_gradient(&t, which, 3.9e-5), OP_VERDICT_PASS);
        assert_int_equal(judge_gradient(&t, which, 4.1e-5), OP_VERDICT_INACCURATE);
    }
    assert_int_equal(judge_gradient(&t, V, 0.9e-5), OP_VERDICT_PASS);
    assert_int_equal(judge_gradient(&t, V, 1.1e-5), OP_VERDICT_INACCURATE);
    arena_free(t.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_correct_rounding_is_convicted),
        cmocka_unit_test(one_wrong_element_passes),
        cmocka_unit_test(nan_passes_a_comparison),
        cmocka_unit_test(an_unwritten_element_passes),
        cmocka_unit_test(a_bias_hides_in_the_worst_case),
        cmocka_unit_test(what_is_missing_passes),
        cmocka_unit_test(gates_of_the_delta_rule_may_be_off_by_4e_5),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
