// SPDX-License-Identifier: Apache-2.0
/*
 * The matrix product of the fake libraries: right, and then with one fault planted in it.
 */
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "fake.h"

#define VARIABLE "ASSAY_FAKE_BLAS"

enum {
    TILE = 64,
    DEPTH = 32,
    SPLITK_FROM = 64
};

/* Whether this run has the fault: in the guilty solution, or in all when asked so. */
static bool planted(const struct fake_gemm *g, const char *word)
{
    char all[32];
    size_t n = strlen(word);
    memcpy(all, word, n);
    memcpy(all + n, "-all", sizeof "-all");
    return (g->solution == FAKE_GUILTY_SOLUTION && fake_asked(VARIABLE, word)) ||
           fake_asked(VARIABLE, all);
}

static double at(const struct fake_gemm *g, bool is_b, int64_t row, int64_t column, int64_t entry)
{
    bool transposed = is_b ? g->transpose_b : g->transpose_a;
    int64_t ld = is_b ? g->ldb : g->lda;
    int64_t index = transposed ? column + row * ld : row + column * ld;
    index += entry * (is_b ? g->stride_b : g->stride_a);
    const char *base = is_b ? g->b : g->a;
    enum dtype type = is_b ? g->type_b : g->type_ab;
    uintptr_t p = (uintptr_t)base + (uintptr_t)index * dtype_info(type)->size;
    /* A volatile byte first: reads whose value is not used must still happen. */
    (void)*(const volatile char *)p;
    return dtype_get(type, (const void *)p);
}

static int64_t up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* What a kernel reads beyond its operands without using it. */
static void read_too_far(const struct fake_gemm *g)
{
    for (int64_t j = g->n; planted(g, "tile64") && j < up(g->n, TILE); j++) {
        at(g, true, 0, j, g->batch - 1);
        at(g, true, g->k - 1, j, g->batch - 1);
    }
    if (planted(g, "crowd") && fake_hip_crowd() > 1) {
        at(g, true, 0, g->n, g->batch - 1);
    }
    for (int64_t l = g->k; planted(g, "ktail") && l < up(g->k, DEPTH); l++) {
        at(g, false, g->m - 1, l, g->batch - 1);
    }
}

static double activate(const struct fake_gemm *g, double x)
{
    if (g->relu) {
        return x > 0 ? x : 0;
    }
    /* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    return g->gelu ? 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))) : x;
}

static void run(void *context)
{
    const struct fake_gemm *g = context;
    read_too_far(g);
    size_t size = dtype_info(g->type_c)->size;
    bool not_zeroed = planted(g, "splitk-nan") && g->k >= SPLITK_FROM;
    double scale = g->scale_a != NULL ? (double)*g->scale_a : 1;
    scale *= g->scale_b != NULL && !planted(g, "no-scale") ? (double)*g->scale_b : 1;
    int64_t border = planted(g, "row19") ? (int64_t)1 << 19 : INT64_MAX;
    for (int64_t e = 0; e < g->batch; e++) {
        for (int64_t j = 0; j < g->n; j++) {
            for (int64_t i = 0; i < g->m; i++) {
                char *c = (char *)g->c + (size_t)(e * g->stride_c + i + j * g->ldc) * size;
                double sum = 0;
                for (int64_t l = 0; l < g->k; l++) {
                    sum += at(g, false, i, l, e) * at(g, true, l, j, e);
                }
                sum *= g->alpha * scale;
                sum += g->beta != 0 ? g->beta * dtype_get(g->type_c, c) : 0;
                sum += g->bias != NULL
                           ? dtype_get(g->type_c, (const char *)g->bias + (size_t)i * size)
                           : 0;
                sum += not_zeroed ? dtype_get(g->type_c, c) : 0;
                dtype_set(g->type_c, c, j >= border || i >= border ? 0 : activate(g, sum));
            }
        }
    }
}

int fake_gemm_run(struct fake_gemm *g)
{
    if (fake_asked(VARIABLE, "slow")) {
        usleep(300000);
    }
    while (planted(g, "hang")) {
        pause();
    }
    if (planted(g, "crash")) {
        raise(SIGSEGV);
    }
    if (planted(g, "illegal")) {
        raise(SIGILL);
    }
    return fake_hip_kernel(run, g);
}
