// SPDX-License-Identifier: Apache-2.0
/* Every operator of the table: gradients against finite differences, exactness on the grid. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ops/op.h"

/* Small cases, at least one for every operator, that together use every parameter. */
static const char *const cases[] = {
    "gemm float64 seed=1 m=4 n=3 k=5",
    "gemm float64 seed=2 batch=2 m=3 n=4 k=2 alpha=0.5 beta=-1.5 bias=1",
    "gemm float64 seed=3 m=5 n=4 k=3 bias=1 activation=relu",
    "gemm float64 seed=4 batch=2 m=2 n=3 k=4 alpha=2 beta=1 activation=gelu_tanh",
    "gemm float64 seed=5 m=3 n=3 k=3 bias=1 activation=gelu",
    "linear float64 seed=6 rows=3 n=4 k=5",
    "linear float64 seed=7 rows=1 n=1 k=1 bias=0",
    "rms_norm float64 seed=8 rows=3 d=7",
    "rms_norm float64 seed=9 rows=2 d=5 eps=0.1 convention=zero_centred",
    "rms_norm float64 seed=10 rows=2 d=1 eps=0.5 convention=cast_first",
    "layer_norm float64 seed=11 rows=3 d=7",
    "layer_norm float64 seed=12 rows=2 d=4 eps=0.1",
    "softmax float64 seed=13 rows=3 n=5",
    "cross_entropy float64 seed=14 rows=5 vocab=7 ignored=2",
    "cross_entropy float64 seed=15 rows=4 vocab=3 ignored=1 reduction=sum ignore_index=1",
    "rope float64 seed=16 batch=2 time=3 heads=2 dim=6 rotary=4 offset=7",
    "rope float64 seed=17 time=4 heads=1 dim=6 rotary=6 layout=interleaved theta=100",
    "swiglu float64 seed=18 rows=3 d=5",
};

static void make(struct arena *a, const char *text, struct op_problem *ret_problem)
{
    struct op_case c;
    struct err err = {0};
    if (op_case_parse(str_of(text), &c, &err) != ST_OK ||
        op_problem_make(a, &c, ret_problem, &err) != ST_OK) {
        fail_msg("%s: %s", text, err.text);
    }
    op_problem_fill(ret_problem);
}

/* What the gradients are gradients of: the sum of each output times its grad_output. */
static double loss(struct op_problem *p)
{
    double sum = 0;
    op_problem_solve(p, false);
    for (size_t o = 0; o < p->c.op->output_count; o++) {
        for (size_t i = 0; p->grad_output[o].spec && i < p->output[o].count; i++) {
            sum += p->grad_output[o].value[i] * p->output[o].value[i];
        }
    }
    return sum;
}

/* Fourth-order central difference: the error is about h^4 times the fifth derivative. */
static double difference(struct op_problem *p, double *x)
{
    const double h = 0x1p-10;
    double at = *x, f[4];
    const double step[4] = {-2 * h, -h, h, 2 * h};
    for (int i = 0; i < 4; i++) {
        *x = at + step[i];
        f[i] = loss(p);
    }
    *x = at;
    return (8 * (f[2] - f[1]) - (f[3] - f[0])) / (12 * h);
}

static void check_gradients(struct arena *a, const char *text)
{
    struct op_problem p;
    make(a, text, &p);
    for (size_t k = 0; k < p.c.op->input_count; k++) {
        if (!p.grad[k].spec) {
            continue;
        }
        op_problem_solve(&p, true);
        double *want = arena_array(a, p.grad[k].count, sizeof(double));
        memcpy(want, p.grad[k].value, p.grad[k].count * sizeof(double));
        double largest = 1e-3;
        for (size_t i = 0; i < p.grad[k].count; i++) {
            largest = fmax(largest, fabs(want[i]));
        }
        for (size_t i = 0; i < p.grad[k].count; i++) {
            double got = difference(&p, &p.input[k].value[i]);
            if (!(fabs(got - want[i]) <= 1e-8 * largest)) {
                fail_msg("%s: gradient of %s[%zu] is %.12g, differences give %.12g", text,
                         p.grad[k].spec->name, i, want[i], got);
            }
        }
    }
}

static void a_gradient_is_not_the_derivative(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct arena *a = arena_new(0);
        check_gradients(a, cases[i]);
        arena_free(a);
    }
}

static void an_operator_has_no_case_here(void **state)
{
    (void)state;
    for (size_t o = 0; op_table[o]; o++) {
        bool found = false;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
            struct str rest = str_of(cases[i]), word;
            found |= str_cut(&rest, ' ', &word) && str_is(word, op_table[o]->name);
        }
        if (!found) {
            fail_msg("no case for %s", op_table[o]->name);
        }
    }
}

/* A case written as a line is the same case when read back. */
static void a_line_does_not_read_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct arena *a = arena_new(0);
        struct op_case c, d;
        struct err err = {0};
        assert_int_equal(op_case_parse(str_of(cases[i]), &c, &err), ST_OK);
        c.values = OP_VALUES_HUGE;
        c.seed = UINT64_MAX;
        assert_int_equal(op_case_parse(str_of(op_case_text(a, &c)), &d, &err), ST_OK);
        assert_memory_equal(&c.value, &d.value, sizeof c.value);
        assert_int_equal(c.values, d.values);
        assert_true(c.seed == d.seed && c.op == d.op && c.dtype == d.dtype);
        arena_free(a);
    }
}

static void a_wrong_case_is_accepted(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "gemm",
        "gem float32",
        "gemm float33",
        "gemm int32",
        "gemm float32 m",
        "gemm float32 q=1",
        "gemm float32 m=0",
        "gemm float32 m=-1",
        "gemm float32 m=1.5",
        "gemm float32 m=nan",
        "gemm float32 m=9e99",
        "gemm float32 m=1e9 n=1e9 k=1",
        "gemm float32 activation=swish",
        "gemm float32 values=odd",
        "gemm bfloat16 math=tf32",
        "gemm float32 seed=-1",
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct op_case c;
        struct err err = {0};
        assert_int_not_equal(op_case_parse(str_of(wrong[i]), &c, &err), ST_OK);
        assert_true(err.text[0] != '\0');
    }
}

/* On the grid a product sums whole numbers; every order gives the same bits, so the bound is 0. */
static void the_grid_is_not_exact(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct op_problem p;
    make(a, "gemm bfloat16 values=grid seed=3 m=17 n=33 k=1000 bias=1", &p);
    op_problem_solve(&p, true);
    const struct op_array *y = op_output(&p, "y");
    size_t exact = 0;
    for (size_t i = 0; i < y->count; i++) {
        assert_true(y->value[i] == floor(y->value[i]));
        exact += y->bound[i] == 0;
    }
    assert_true(exact > y->count * 9 / 10);
    arena_free(a);
}

/* Forward sums in float32 stay inside their bound, and a dropped last term does not. */
static void the_bound_is_too_small_or_too_large(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct op_problem p;
    make(a, "linear float32 seed=9 rows=9 n=11 k=777", &p);
    op_problem_solve(&p, true);
    const double *x = p.input[0].value, *w = p.input[1].value, *b = p.input[2].value;
    const struct op_array *y = op_output(&p, "y");
    for (size_t i = 0; i < y->count; i++) {
        float sum = 0, last = 0;
        for (size_t t = 0; t < 777; t++) {
            last = (float)x[i / 11 * 777 + t] * (float)w[i % 11 * 777 + t];
            sum += last;
        }
        double error = fabs((double)(sum + (float)b[i % 11]) - y->value[i]);
        assert_true(error <= y->bound[i]);
        assert_true(fabs(last) < 0.1 || fabs(last) > y->bound[i]);
    }
    arena_free(a);
}

/* Probabilities sum to 1, and the gradient of logits sums to 0 in every row. */
static void softmax_loses_mass(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct op_problem p;
    make(a, "softmax float64 values=huge rows=7 n=100", &p);
    op_problem_solve(&p, true);
    for (size_t row = 0; row < 7; row++) {
        double sum = 0, slope = 0;
        for (size_t i = 0; i < 100; i++) {
            sum += p.output[0].value[row * 100 + i];
            slope += p.grad[0].value[row * 100 + i];
        }
        assert_true(fabs(sum - 1) <= 1e-13);
        assert_true(fabs(slope) <= 1e-13);
    }
    arena_free(a);
}

/* A rotation keeps lengths, and the channels beyond `rotary` as they are. */
static void rope_is_no_rotation(void **state)
{
    (void)state;
    static const char *const layouts[] = {
        "rope float64 time=9 heads=3 dim=20 rotary=12 offset=1000",
        "rope float64 time=9 heads=3 dim=20 rotary=12 offset=1000 layout=interleaved",
    };
    for (size_t k = 0; k < 2; k++) {
        struct arena *a = arena_new(0);
        struct op_problem p;
        make(a, layouts[k], &p);
        op_problem_solve(&p, true);
        const double *x = p.input[0].value, *y = p.output[0].value;
        for (size_t v = 0; v < 27; v++, x += 20, y += 20) {
            double before = 0, after = 0;
            for (size_t i = 0; i < 20; i++) {
                before += x[i] * x[i];
                after += y[i] * y[i];
                assert_true(i < 12 || x[i] == y[i]);
            }
            assert_true(fabs(before - after) <= 1e-13 * before);
        }
        arena_free(a);
    }
}

/* No token counts: the mean is 0/0, and the sum is 0. */
static void nothing_but_ignored_tokens(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct op_problem p;
    make(a, "cross_entropy float64 rows=2 vocab=5 ignored=2", &p);
    op_problem_solve(&p, true);
    assert_true(isnan(p.output[0].value[0]));
    make(a, "cross_entropy float64 rows=2 vocab=5 ignored=2 reduction=sum", &p);
    op_problem_solve(&p, true);
    assert_true(p.output[0].value[0] == 0);
    assert_true(p.grad[0].value[0] == 0);
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gradient_is_not_the_derivative),
        cmocka_unit_test(an_operator_has_no_case_here),
        cmocka_unit_test(a_line_does_not_read_back),
        cmocka_unit_test(a_wrong_case_is_accepted),
        cmocka_unit_test(the_grid_is_not_exact),
        cmocka_unit_test(the_bound_is_too_small_or_too_large),
        cmocka_unit_test(softmax_loses_mass),
        cmocka_unit_test(rope_is_no_rotation),
        cmocka_unit_test(nothing_but_ignored_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
