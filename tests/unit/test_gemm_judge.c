// SPDX-License-Identifier: Apache-2.0
/* The judgement of a product: right results pass; one wrong cell is seen wherever it lies, just beyond its
 * bound and not just within it. */
#include <math.h>
#include <string.h>

#include "ops/gemm_judge.h"
#include "ops/gemm_scan.h"
#include "unit.h"

enum {
    BYTES_MAX = 1 << 16
};

struct bench {
    struct arena *arena;
    struct gemm_case *numbers;
    struct gemm_probe probe;
    struct gemm_layout layout;
};

static struct bench bench_new(void)
{
    struct bench b = {.arena = arena_new(0)};
    b.numbers = gemm_case_new(b.arena);
    b.layout.a = arena_alloc(b.arena, BYTES_MAX);
    b.layout.b = arena_alloc(b.arena, BYTES_MAX);
    b.layout.c = arena_alloc(b.arena, BYTES_MAX);
    return b;
}

static void bench_free(struct bench *b)
{
    arena_free(b->numbers->arena);
    arena_free(b->arena);
}

static void make(struct bench *b, enum dtype dtype, enum gemm_values values, const int64_t *sizes)
{
    b->probe = (struct gemm_probe){.values = values, .seed = gemm_mix((uint64_t)sizes[0])};
    struct gemm_shape *s = &b->probe.shape;
    s->m = sizes[0];
    s->n = sizes[1];
    s->k = sizes[2];
    s->batch = sizes[4];
    s->dtype_ab = s->dtype_c = dtype;
    s->alpha = -1;
    s->beta = sizes[3] == 1 ? 0 : 0.5;
    gemm_shape_pack(s, 0, 1, sizes[3]);
    gemm_case_make(b->numbers, &b->probe);
    gemm_layout_fill(&b->probe, b->numbers, &b->layout);
}

static char *cell_at(const struct bench *b, int64_t cell)
{
    const struct gemm_shape *s = &b->probe.shape;
    int64_t entry = cell / (s->m * s->n);
    int64_t column = cell / s->m % s->n;
    int64_t at = entry * s->stride_c + column * s->ldc + cell % s->m;
    return b->layout.c + (size_t)at * dtype_info(s->dtype_c)->size;
}

static double want(const struct bench *b, int64_t cell)
{
    const struct gemm_shape *s = &b->probe.shape;
    return s->alpha * b->numbers->product[cell] +
           (s->beta != 0 ? s->beta * b->numbers->c_value[cell] : 0);
}

static double bound_of(const struct bench *b, int64_t cell)
{
    const struct gemm_shape *s = &b->probe.shape;
    struct gemm_bound bound;
    gemm_bound_make(s, b->probe.values, &bound);
    if (bound.exact) {
        return 0;
    }
    return bound.product * fabs(s->alpha) * b->numbers->magnitude[cell] +
           bound.addend * fabs(s->beta * b->numbers->c_value[cell]) + bound.absolute +
           bound.output * fabs(want(b, cell));
}

static struct gemm_fault judge(const struct bench *b, double *worst)
{
    struct gemm_fault fault = {.operand = GEMM_OPERAND_NONE, .row = -1, .column = -1};
    gemm_judge(&b->probe, b->numbers, &b->layout, &fault, worst);
    return fault;
}

static void set_all(const struct bench *b)
{
    const struct gemm_shape *s = &b->probe.shape;
    for (int64_t i = 0; i < s->m * s->n * s->batch; i++) {
        dtype_set(s->dtype_c, cell_at(b, i), want(b, i));
    }
}

/* Every cell in turn is wrong, then right again. */
static void plant(const struct bench *b, double worst)
{
    const struct gemm_shape *s = &b->probe.shape;
    for (int64_t i = 0; i < s->m * s->n * s->batch; i++) {
        char kept[8];
        char *p = cell_at(b, i);
        memcpy(kept, p, dtype_info(s->dtype_c)->size);
        double bound = bound_of(b, i);
        bool narrow = dtype_info(s->dtype_c)->size < 4;
        /* More than the format rounds away. */
        double step = fabs(want(b, i)) * (narrow ? 0x1p-6 : 0x1p-22);
        double off = bound == 0 ? fmax(step, narrow ? 1 : 0.25)
                                : bound * (narrow ? 1.02 : 1) + step;
        dtype_set(s->dtype_c, p, want(b, i) + (i % 2 == 0 ? off : -off));
        double w = worst;
        struct gemm_fault f = judge(b, &w);
        assert_int_equal(f.kind, GEMM_INACCURATE);
        assert_int_equal(f.bad_cells, 1);
        assert_int_equal(f.row, i % s->m);
        assert_int_equal(f.column, i / s->m);
        dtype_set(s->dtype_c, p, NAN);
        f = judge(b, &w);
        assert_true(f.kind == GEMM_NOT_FINITE || f.kind == GEMM_LEAVES_UNWRITTEN);
        assert_int_equal(f.bad_cells, 1);
        dtype_set(s->dtype_c, p, i % 2 == 0 ? INFINITY : -INFINITY);
        f = judge(b, &w);
        assert_int_equal(f.kind, GEMM_NOT_FINITE);
        memcpy(p, kept, dtype_info(s->dtype_c)->size);
    }
}

static void every_wrong_cell_is_seen(void **state)
{
    (void)state;
    static const int64_t sizes[][5] = {{1, 1, 1, 0, 1}, {3, 2, 5, 0, 1},  {4, 4, 4, 1, 1},
                                       {9, 7, 3, 3, 1}, {5, 3, 8, 0, 3},  {7, 2, 6, 1, 2},
                                       {2, 9, 4, 3, 1}, {17, 5, 33, 0, 1}};

    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F64, DTYPE_F16, DTYPE_BF16};
    struct bench b = bench_new();
    for (size_t i = 0; i < ARRAY_LEN(sizes) * ARRAY_LEN(dtypes); i++) {
        for (enum gemm_values v = 0; v <= GEMM_VALUES_WORST; v++) {
            make(&b, dtypes[i % ARRAY_LEN(dtypes)], v, sizes[i / ARRAY_LEN(dtypes)]);
            set_all(&b);
            double worst = 0;
            assert_int_equal(judge(&b, &worst).kind, GEMM_OK);
            assert_true(worst >= 0 && worst <= 1);
            plant(&b, 0);
            plant(&b, 1);
        }
    }
    bench_free(&b);
}

/* The vectors see every 16-bit number as a cell's own judgement does. */
static void sixteen_bits_are_read_alike(void **state)
{
    (void)state;

    static const enum dtype dtypes[] = {DTYPE_F16, DTYPE_BF16};

    const double nothing[4] = {0};
    for (size_t d = 0; d < ARRAY_LEN(dtypes); d++) {
        for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
            const uint16_t got[4] = {(uint16_t)bits, (uint16_t)bits, (uint16_t)bits,
                                     (uint16_t)bits};
            double value = dtype_get(dtypes[d], got);
            double right = isfinite(value) ? value : 1;
            const double product[4] = {right, right, right, right};
            const struct gemm_bound exact = {.exact = true};
            struct gemm_column column = {.dtype = dtypes[d],
                                         .got = (const char *)got,
                                         .rows = 4,
                                         .alpha = 1,
                                         .product = product,
                                         .c_value = nothing,
                                         .bound = &exact,
                                         .worst = 1};
            assert_int_equal(gemm_column_is_fine(&column), isfinite(value));
            const double other[4] = {right, right, right, right + (right == 0 ? 1 : right)};
            column.product = other;
            assert_false(gemm_column_is_fine(&column));
        }
    }
}

/* Infinity is no large number, however wide the bound. */
static void infinity_of_16_bits_is_beyond_every_bound(void **state)
{
    (void)state;
    const double nothing[4] = {0};
    const double largest[4] = {65504, 65504, 65504, 65504};
    const struct gemm_bound wide = {.absolute = 1000};
    uint16_t got[4] = {0x7bff, 0x7bff, 0x7bff, 0x7bff};
    struct gemm_column column = {.dtype = DTYPE_F16,
                                 .got = (const char *)got,
                                 .rows = 4,
                                 .alpha = 1,
                                 .product = largest,
                                 .magnitude = nothing,
                                 .c_value = nothing,
                                 .bound = &wide,
                                 .worst = 1};
    assert_true(gemm_column_is_fine(&column));
    got[2] = 0x7c00;
    assert_false(gemm_column_is_fine(&column));
}

/* The largest error of all cells in units of the bound, whatever was known before. */
static void the_worst_is_told(void **state)
{
    (void)state;
    static const int64_t sizes[] = {13, 6, 40, 0, 1};
    struct bench b = bench_new();
    make(&b, DTYPE_F64, GEMM_VALUES_RANDOM, sizes);
    set_all(&b);
    double off = 0.75 * bound_of(&b, 50);
    dtype_set(DTYPE_F64, cell_at(&b, 50), want(&b, 50) + off);
    double worst = 0.5;
    assert_int_equal(judge(&b, &worst).kind, GEMM_OK);
    assert_true(fabs(worst - 0.75) < 0.05);
    worst = 0.9;
    assert_int_equal(judge(&b, &worst).kind, GEMM_OK);
    assert_true(worst == 0.9);
    bench_free(&b);
}

/* An algorithm that adds up parts in 16 bits says so: its results may be farther off, by so much and no more. */
static void sums_in_the_format_of_the_result_may_be_farther_off(void **state)
{
    (void)state;
    static const int64_t sizes[] = {6, 5, 64, 0, 1};
    const unsigned parts = 4;
    struct bench b = bench_new();
    make(&b, DTYPE_BF16, GEMM_VALUES_RANDOM, sizes);
    set_all(&b);
    double more = (parts + 1) * 0x1p-8 * b.numbers->magnitude[7]; /* alpha is -1 */
    double worst = 0;
    dtype_set(DTYPE_BF16, cell_at(&b, 7), want(&b, 7) + bound_of(&b, 7) + 0.8 * more);
    assert_int_equal(judge(&b, &worst).kind, GEMM_INACCURATE);
    b.probe.narrow_sums = parts;
    assert_int_equal(judge(&b, &worst).kind, GEMM_OK);
    dtype_set(DTYPE_BF16, cell_at(&b, 7), want(&b, 7) + bound_of(&b, 7) + 1.3 * more);
    assert_int_equal(judge(&b, &worst).kind, GEMM_INACCURATE);
    bench_free(&b);
}

/* C goes through the same additions: where it is the larger part, it decides (cuBLASLt on an H200, in-place reduction
 * with beta 1: a sound result 1.06 of the bound without this was told inaccurate). */
static void an_addend_goes_through_those_sums(void **state)
{
    (void)state;
    static const int64_t sizes[] = {6, 5, 1, 0, 1};
    const unsigned parts = 2;
    struct bench b = bench_new();
    make(&b, DTYPE_BF16, GEMM_VALUES_RANDOM, sizes);
    set_all(&b);
    const double beta = fabs(b.probe.shape.beta);
    assert_true(beta != 0);
    int64_t cell = 0;
    for (int64_t i = 0; i < 30; i++) {
        if (fabs(b.numbers->c_value[i]) / b.numbers->magnitude[i] >
            fabs(b.numbers->c_value[cell]) / b.numbers->magnitude[cell]) {
            cell = i;
        }
    }
    double s = b.numbers->magnitude[cell];
    double addend = beta * fabs(b.numbers->c_value[cell]);
    assert_true(addend > 2 * s);
    double worst = 0;
    b.probe.narrow_sums = parts;
    double more = (parts + 1) * 0x1p-8 * (s + addend);
    dtype_set(DTYPE_BF16, cell_at(&b, cell), want(&b, cell) + bound_of(&b, cell) + 0.8 * more);
    assert_int_equal(judge(&b, &worst).kind, GEMM_OK);
    dtype_set(DTYPE_BF16, cell_at(&b, cell), want(&b, cell) + bound_of(&b, cell) + 1.3 * more);
    assert_int_equal(judge(&b, &worst).kind, GEMM_INACCURATE);
    bench_free(&b);
}

/* A product stored in 16 bits before C is added (cuBLASLt on an H200 gave 536 for 539.77); without an addend there is
 * nothing to store it for. */
static void a_product_may_be_stored_before_the_addend(void **state)
{
    (void)state;
    struct bench b = bench_new();
    for (int64_t without = 0; without < 2; without++) {
        const int64_t sizes[] = {7, 9, 1, without, 1};
        size_t twice = 0;
        make(&b, DTYPE_BF16, GEMM_VALUES_RANDOM, sizes);
        set_all(&b);
        const struct gemm_shape *s = &b.probe.shape;
        for (int64_t i = 0; i < 63; i++) {
            double product = s->alpha * b.numbers->product[i];
            char stored[2];
            dtype_set(DTYPE_BF16, stored, product);
            double rounded = dtype_get(DTYPE_BF16, stored);
            dtype_set(DTYPE_BF16, cell_at(&b, i), rounded + (want(&b, i) - product));
            twice += rounded != product;
        }
        double worst = 0;
        assert_true(twice > 30);
        assert_int_equal(judge(&b, &worst).kind, GEMM_OK);
        /* And no more than that: 2.5 units of the last place. */
        double off = 2.5 * 0x1p-7 * fabs(want(&b, 20));
        dtype_set(DTYPE_BF16, cell_at(&b, 20), want(&b, 20) + (without != 0 ? off / 2 : 2 * off));
        assert_int_equal(judge(&b, &worst).kind, GEMM_INACCURATE);
    }
    bench_free(&b);
}

/* Dot products of bfloat16 in hardware take subnormal operands as 0; float32 has no such excuse. */
static void only_bfloat16_may_flush(void **state)
{
    (void)state;
    struct bench b = bench_new();
    for (unsigned i = 0; i < 2; i++) {
        b.probe = (struct gemm_probe){.values = GEMM_VALUES_DENORMAL, .seed = 3};
        struct gemm_shape *s = &b.probe.shape;
        *s = (struct gemm_shape){.m = 5, .n = 3, .k = 2, .batch = 1, .alpha = 1};
        s->dtype_ab = i == 0 ? DTYPE_BF16 : DTYPE_F32;
        s->dtype_c = DTYPE_F32;
        gemm_shape_pack(s, 0, 0, 0);
        gemm_case_make(b.numbers, &b.probe);
        memset(b.layout.c, 0, BYTES_MAX);
        double worst = 0;
        assert_int_equal(judge(&b, &worst).kind, i == 0 ? GEMM_OK : GEMM_INACCURATE);
        dtype_set(DTYPE_F32, b.layout.c, 0.001);
        assert_int_equal(judge(&b, &worst).kind, GEMM_INACCURATE);
    }
    bench_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_wrong_cell_is_seen),
        cmocka_unit_test(sixteen_bits_are_read_alike),
        cmocka_unit_test(infinity_of_16_bits_is_beyond_every_bound),
        cmocka_unit_test(the_worst_is_told),
        cmocka_unit_test(sums_in_the_format_of_the_result_may_be_farther_off),
        cmocka_unit_test(an_addend_goes_through_those_sums),
        cmocka_unit_test(a_product_may_be_stored_before_the_addend),
        cmocka_unit_test(only_bfloat16_may_flush),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
