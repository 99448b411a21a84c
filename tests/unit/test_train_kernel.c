// SPDX-License-Identifier: Apache-2.0
/* The trainer's own matrix product and exponential, in every instruction set of this CPU. */
#include <math.h>
#include <stdlib.h>

#include "train/compute.h"
#include "train/kernel.h"
#include "train/layer_parts.h"
#include "unit.h"

static float some(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(int32_t)*state * 0x1p-31f;
}

/* Each product against the reference, around the borders of tiles, panels and squares. */
static void check_product(size_t m, size_t n, size_t k, bool ta, bool tb, float beta)
{
    const struct compute reference = {.threads = 1, .reference = true};
    const struct compute own = {.threads = 2};
    size_t lda = (ta ? m : k) + 3;
    size_t ldb = (tb ? k : n) + 1;
    size_t ldo = n + 2;
    float *a = calloc((ta ? k : m) * lda, sizeof *a);
    float *b = calloc((tb ? n : k) * ldb, sizeof *b);
    float *want = calloc(m * ldo, sizeof *want);
    float *got = calloc(m * ldo, sizeof *got);
    uint32_t state = (uint32_t)(m * 7919 + n * 31 + k);
    for (size_t i = 0; i < (ta ? k : m) * lda; i++) {
        a[i] = some(&state);
    }
    for (size_t i = 0; i < (tb ? n : k) * ldb; i++) {
        b[i] = some(&state);
    }
    for (size_t i = 0; i < m * ldo; i++) {
        want[i] = got[i] = beta == 0 && i % ldo < n ? NAN : some(&state);
    }
    gemm_f32(&reference, ta, tb, m, n, k, 0.5f, a, lda, b, ldb, beta, want, ldo);
    gemm_f32(&own, ta, tb, m, n, k, 0.5f, a, lda, b, ldb, beta, got, ldo);
    for (size_t i = 0; i < m * ldo; i++) {
        /* Beside the matrix nothing is touched; inside, the order of the sum is free. */
        float limit = i % ldo < n ? 1e-6f * sqrtf((float)k) + 1e-6f : 0;
        assert_true(fabsf(want[i] - got[i]) <= limit);
    }
    free(a);
    free(b);
    free(want);
    free(got);
}

static void test_products(void **state)
{
    static const size_t sizes[][3] = {{1, 1, 1},     {3, 5, 7},      {14, 32, 16},   {15, 33, 17},
                                      {28, 64, 256}, {169, 513, 40}, {170, 31, 259}, {42, 520, 300},
                                      {8, 100, 1},   {336, 16, 513}, {200, 8, 31}};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (unsigned t = 0; t < 8; t++) {
            check_product(sizes[i][0], sizes[i][1], sizes[i][2], (t & 1) != 0, (t & 2) != 0,
                          (t & 4) != 0 ? 0.75f : 0);
        }
    }
}

static void check_kernel(const struct kernel_f32 *kernel)
{
    enum {
        DEPTH = 37,
        LINE = KERNEL_COLUMNS_MAX + 5
    };

    float a[DEPTH * KERNEL_ROWS_MAX];
    float b[DEPTH * KERNEL_COLUMNS_MAX];
    float out[KERNEL_ROWS_MAX * LINE];
    uint32_t state = 5;
    for (size_t i = 0; i < DEPTH * kernel->rows; i++) {
        a[i] = some(&state);
    }
    for (size_t i = 0; i < DEPTH * kernel->columns; i++) {
        b[i] = some(&state);
    }
    for (int beta = 0; beta < 2; beta++) { /* with 0 what was there, NaN, does not matter */
        for (size_t i = 0; i < kernel->rows * LINE; i++) {
            out[i] = beta == 0 ? NAN : 0.5f;
        }
        kernel->tile(DEPTH, a, b, 2, (float)beta * 3, out, LINE);
        for (size_t i = 0; i < kernel->rows; i++) {
            for (size_t j = 0; j < kernel->columns; j++) {
                double sum = beta * 0.75;
                for (size_t l = 0; l < DEPTH; l++) {
                    sum += (double)a[l * kernel->rows + i] * (double)b[l * kernel->columns + j];
                }
                assert_true(fabs((double)out[i * LINE + j] - 2 * sum) <= 6e-6);
            }
            assert_true(beta == 0 ? isnan(out[i * LINE + kernel->columns])
                                  : out[i * LINE + kernel->columns] == 0.5f);
        }
    }
}

static void check_exp(const struct kernel_f32 *kernel)
{
    enum {
        COUNT = 1000
    };

    float x[COUNT];
    float y[COUNT];
    uint32_t state = 7;
    for (size_t round = 0; round < 50; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            x[i] = some(&state) * (round % 2 == 0 ? 86.0f : 1.0f);
        }
        kernel->exp(x, COUNT, 1, 0, y);
        for (size_t i = 0; i < COUNT; i++) {
            double e = exp((double)x[i]);
            assert_true(fabs((double)y[i] - e) <= 2e-7 * e);
        }
    }
    const float odd[] = {-INFINITY, -1000, -87.5f, -0.0f, 0, 88.5f, 1000, INFINITY, NAN};
    float to[9];
    kernel->exp(odd, 9, 1, 0, to);
    assert_true(to[0] == 0 && to[1] == 0 && to[2] == 0 && to[3] == 1 && to[4] == 1);
    assert_true(isinf(to[5]) && isinf(to[6]) && isinf(to[7]) && isnan(to[8]));
    kernel->exp(odd + 3, 1, -1, 1, to);
    assert_true(fabsf(to[0] - expf(-1)) <= 1e-7f);
}

static void check_turn(const struct kernel_f32 *kernel)
{
    float from[KERNEL_SQUARE * 40];
    float to[KERNEL_SQUARE * 20 + KERNEL_SQUARE];
    for (size_t i = 0; i < KERNEL_SQUARE * 40; i++) {
        from[i] = (float)i;
    }
    for (size_t lines = 1; kernel->turn != NULL && lines <= KERNEL_SQUARE; lines++) {
        kernel->turn(from, 40, lines, to, 20);
        for (size_t i = 0; i < lines; i++) {
            for (size_t l = 0; l < KERNEL_SQUARE; l++) {
                assert_true(to[l * 20 + i] == from[i * 40 + l]);
            }
        }
    }
}

static void test_kernels(void **state)
{
    size_t n = 0;
    (void)state;
    for (; kernel_at_f32(n) != NULL; n++) {
        print_message("%s\n", kernel_at_f32(n)->name);
        check_kernel(kernel_at_f32(n));
        check_exp(kernel_at_f32(n));
        check_turn(kernel_at_f32(n));
    }
    assert_true(n >= 1);
}

static void test_bfloat16_rounding(void **state)
{
    uint32_t bits = 1;
    (void)state;
    for (size_t i = 0; i < 200000; i++) {
        bits = bits * 1664525u + 1013904223u;
        float x;
        memcpy(&x, &bits, sizeof x);
        float want = (float)dtype_round(DTYPE_BF16, (double)x);
        float got = rows_stored(x, true);
        assert_true(isnan(x) ? isnan(got) : want == got);
    }
    assert_true(rows_stored(1.00390625f, true) == 1.0f); /* a tie goes to even */
    assert_true(rows_stored(1.01171875f, true) == 1.015625f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_bfloat16_rounding),
    };
    return cmocka_run_group_tests_name("train_kernel", tests, NULL, NULL);
}
