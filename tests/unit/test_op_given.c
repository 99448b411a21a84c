// SPDX-License-Identifier: Apache-2.0
/* Shapes and formats of foreign tensors: what is inferred, and what must be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ops/op_given.h"

static void add(struct op_given_list *l, const struct op *op, const char *name, enum dtype dtype,
                size_t rank, const int64_t *dim)
{
    struct op_given *g = &l->items[l->count++];
    struct err err = {0};
    if (op_given_name(op, str_of(name), &g->role, &g->position, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    g->dtype = dtype;
    g->rank = rank;
    memcpy(g->dim, dim, rank * sizeof *dim);
}

#define DIMS(...)                                                            \
 sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]) \
 {                                                                           \
  __VA_ARGS__                                                                \
 }

static void sizes_are_not_inferred(void **state)
{
    (void)state;
    struct op_given_list l = {.count = 0};
    struct op_case c;
    struct err err = {0};
    bool set[OP_PARAMS_MAX] = {false};
    const struct op *op = op_find(STR("rope"));
    op_case_init(&c, op, DTYPE_F32);
    add(&l, op, "input.x", DTYPE_BF16, DIMS(2, 3, 5, 32));
    add(&l, op, "input.cos", DTYPE_BF16, DIMS(5, 8));
    add(&l, op, "input.sin", DTYPE_BF16, DIMS(5, 8));
    add(&l, op, "output.y", DTYPE_BF16, DIMS(2, 3, 5, 32));
    assert_int_equal(op_given_case(&c, set, &l, &err), ST_OK);
    assert_int_equal(c.dtype, DTYPE_BF16);
    assert_int_equal(op_int(&c, "heads"), 3);
    assert_int_equal(op_int(&c, "rotary"), 16);
}

static void an_optional_tensor_is_overlooked(void **state)
{
    (void)state;
    struct op_given_list l = {.count = 0};
    struct op_case c;
    struct err err = {0};
    bool set[OP_PARAMS_MAX] = {false};
    const struct op *op = op_find(STR("gemm"));
    op_case_init(&c, op, DTYPE_F32);
    add(&l, op, "input.a", DTYPE_F32, DIMS(1, 4, 5));
    add(&l, op, "input.b", DTYPE_F32, DIMS(1, 5, 6));
    add(&l, op, "input.c", DTYPE_F32, DIMS(1, 4, 6));
    assert_int_equal(op_given_case(&c, set, &l, &err), ST_OK);
    assert_true(op_get(&c, "beta") == 1);
    assert_false(op_flag(&c, "bias"));
    op_case_init(&c, op, DTYPE_F32);
    set[5] = true; /* beta = 0, said by name */
    assert_string_equal(op->params[5].name, "beta");
    assert_int_equal(op_given_case(&c, set, &l, &err), ST_FORMAT);
}

/* One tensor of a good linear layer is replaced by something else. */
static void a_misfit_is_accepted(void **state)
{
    (void)state;

    static const struct {
        size_t item;
        enum dtype dtype;
        size_t rank;
        int64_t dim[OP_RANK_MAX];
        const char *said;
    } misfits[] = {
        {1, DTYPE_F32, 2, {5, 4}, "input.weight"},  /* transposed */
        {1, DTYPE_BF16, 2, {4, 5}, "input.weight"}, /* another format */
        {1, DTYPE_I64, 2, {4, 5}, "input.weight"},  /* no numbers of a layer */
        {2, DTYPE_F32, 2, {3, 5}, "output.y"},      /* too wide */
        {2, DTYPE_F32, 1, {12}, "output.y"},        /* flattened */
        {2, DTYPE_BF16, 2, {3, 4}, "output.y"},     /* narrower than the operands */
        {3, DTYPE_F32, 2, {3, 4}, "grad.x"},        /* shape of y */
        {3, DTYPE_F32, 2, {0, 5}, "grad.x"},        /* nothing */
    };

    for (size_t i = 0; i < ARRAY_LEN(misfits); i++) {
        struct op_given_list l = {.count = 0};
        struct op_case c;
        struct err err = {0};
        bool set[OP_PARAMS_MAX] = {false};
        const struct op *op = op_find(STR("linear"));
        op_case_init(&c, op, DTYPE_F32);
        add(&l, op, "input.x", DTYPE_F32, DIMS(3, 5));
        add(&l, op, "input.weight", DTYPE_F32, DIMS(4, 5));
        add(&l, op, "output.y", DTYPE_F32, DIMS(3, 4));
        add(&l, op, "grad.x", DTYPE_F32, DIMS(3, 5));
        assert_int_equal(op_given_case(&c, set, &l, &err), ST_OK);
        struct op_given *g = &l.items[misfits[i].item];
        g->dtype = misfits[i].dtype;
        g->rank = misfits[i].rank;
        memcpy(g->dim, misfits[i].dim, sizeof g->dim);
        op_case_init(&c, op, DTYPE_F32);
        assert_int_not_equal(op_given_case(&c, set, &l, &err), ST_OK);
        if (!strstr(err.text, misfits[i].said)) {
            fail_msg("misfit %zu: %s", i, err.text);
        }
    }
}

static void a_missing_operand_is_made_up(void **state)
{
    (void)state;
    struct op_given_list l = {.count = 0};
    struct op_case c;
    struct err err = {0};
    bool set[OP_PARAMS_MAX] = {false};
    const struct op *op = op_find(STR("linear"));
    op_case_init(&c, op, DTYPE_F32);
    add(&l, op, "input.x", DTYPE_F32, DIMS(3, 5));
    assert_int_equal(op_given_case(&c, set, &l, &err), ST_ABSENT);
    assert_non_null(strstr(err.text, "input.weight"));
}

static void an_unknown_name_is_taken(void **state)
{
    (void)state;
    static const char *const names[] = {"x", "input.",        "input.z",  "output.x", "grad.y",
                                        "",  "grad_output.x", "inputx.x", "input.xx"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        enum op_given_role role;
        size_t position;
        struct err err = {0};
        assert_int_equal(
            op_given_name(op_find(STR("linear")), str_of(names[i]), &role, &position, &err),
            ST_USAGE);
        assert_non_null(strstr(err.text, "grad_output.y"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_not_inferred),
        cmocka_unit_test(an_optional_tensor_is_overlooked),
        cmocka_unit_test(a_misfit_is_accepted),
        cmocka_unit_test(a_missing_operand_is_made_up),
        cmocka_unit_test(an_unknown_name_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
