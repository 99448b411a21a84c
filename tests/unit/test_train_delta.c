// SPDX-License-Identifier: Apache-2.0
/* The parts of a Gated DeltaNet layer in double: the rule in both forms, the convolution, the gated
 * norm; against finite differences, against each other, and against the definitions of src/ops. */
#define TRAIN_DOUBLE
#include <string.h>

#include "base/arena.h"

#include "fd.h"
#include "ops/op_delta.h"
#include "train/conv1d.h"
#include "train/delta.h"
#include "train/norm_gated.h"
#include "unit.h"

enum {
    TOKENS = 23,
    HEADS = 2,
    V_HEADS = 4,
    K = 5,
    V = 3,
    ROW = 2 * HEADS * K + V_HEADS * V,
    V_ROW = V_HEADS * V
};

static const size_t packed[] = {0, 1, 8, 23};

static const struct compute two_threads = {.threads = 2};

struct rule {
    struct delta d;
    double qkv[TOKENS * ROW], g[TOKENS * V_HEADS], beta[TOKENS * V_HEADS];
    double o[TOKENS * V_ROW], d_o[TOKENS * V_ROW];
    double dqkv[TOKENS * ROW], dg[TOKENS * V_HEADS], dbeta[TOKENS * V_HEADS];
};

static void rule_fill(struct rule *r, size_t chunk, double gate)
{
    memset(r, 0, sizeof *r);
    r->d = (struct delta){.heads = HEADS,
                          .v_heads = V_HEADS,
                          .dim_k = K,
                          .dim_v = V,
                          .chunk = chunk,
                          .start = packed,
                          .sequences = 3,
                          .precision = PRECISION_F64,
                          .compute = &two_threads};
    fd_fill(r->qkv, TOKENS * ROW, 1);
    fd_fill(r->d_o, TOKENS * V_ROW, 2);
    fd_fill(r->g, TOKENS * V_HEADS, 3);
    fd_fill(r->beta, TOKENS * V_HEADS, 4);
    for (size_t i = 0; i < TOKENS * V_HEADS; i++) {
        r->g[i] = gate * (r->g[i] - 1.1);
        r->beta[i] = 0.5 + 0.4 * r->beta[i];
    }
}

static void rule_both(struct rule *r)
{
    delta_forward_f64(&r->d, r->qkv, r->g, r->beta, r->o);
    delta_backward_f64(&r->d, r->qkv, r->g, r->beta, r->d_o, r->dqkv, r->dg, r->dbeta);
}

static double rule_loss(void *ctx)
{
    struct rule *r = ctx;
    double loss = 0;
    delta_forward_f64(&r->d, r->qkv, r->g, r->beta, r->o);
    for (size_t i = 0; i < TOKENS * V_ROW; i++) {
        loss += r->o[i] * r->d_o[i];
    }
    return loss;
}

static void rule_matches_differences(void **state)
{
    (void)state;
    static struct rule r;
    static const size_t chunks[] = {0, 4, 64};
    for (size_t i = 0; i < 3; i++) {
        rule_fill(&r, chunks[i], 0.3);
        rule_both(&r);
        const struct fd_tensor t[] = {{"qkv", r.qkv, r.dqkv, TOKENS * ROW},
                                      {"g", r.g, r.dg, TOKENS * V_HEADS},
                                      {"beta", r.beta, r.dbeta, TOKENS * V_HEADS}};
        fd_check(t, 3, 0, 1e-9, rule_loss, &r);
    }
}

static void blocks_equal_steps(void **state)
{
    (void)state;
    static struct rule a, b;
    static const size_t chunks[] = {1, 2, 5, 7, 16, 64};
    static const double gates[] = {0, 1e-3, 0.5, 20, 200};
    for (size_t i = 0; i < 6 * 5; i++) {
        rule_fill(&a, 0, gates[i % 5]);
        rule_fill(&b, chunks[i / 5], gates[i % 5]);
        rule_both(&a);
        rule_both(&b);
        fd_assert_close("o", b.o, a.o, TOKENS * V_ROW, 1e-13);
        fd_assert_close("dqkv", b.dqkv, a.dqkv, TOKENS * ROW, 1e-12);
        fd_assert_close("dbeta", b.dbeta, a.dbeta, TOKENS * V_HEADS, 1e-12);
        if (gates[i % 5] < 20) {
            fd_assert_close("dg", b.dg, a.dg, TOKENS * V_HEADS, 1e-12);
        }
    }
}

/* The states of sequences that begin later are those of the sequences alone. */
static void packed_equals_separate(void **state)
{
    (void)state;
    static struct rule all, one;
    rule_fill(&all, 4, 0.3);
    rule_both(&all);
    for (size_t s = 0; s < 3; s++) {
        const size_t from = packed[s], n = packed[s + 1] - from, start[] = {0, n};
        rule_fill(&one, 4, 0.3);
        one.d.start = start;
        one.d.sequences = 1;
        memmove(one.qkv, one.qkv + from * ROW, n * ROW * sizeof(double));
        memmove(one.g, one.g + from * V_HEADS, n * V_HEADS * sizeof(double));
        memmove(one.beta, one.beta + from * V_HEADS, n * V_HEADS * sizeof(double));
        memmove(one.d_o, one.d_o + from * V_ROW, n * V_ROW * sizeof(double));
        rule_both(&one);
        assert_memory_equal(one.o, all.o + from * V_ROW, n * V_ROW * sizeof(double));
        assert_memory_equal(one.dqkv, all.dqkv + from * ROW, n * ROW * sizeof(double));
        assert_memory_equal(one.dg, all.dg + from * V_HEADS, n * V_HEADS * sizeof(double));
    }
}

/* One head of one sequence against the definition that `probe` judges kernels by. */
static void rule_matches_operator(void **state)
{
    (void)state;
    static struct rule r;
    static double q[TOKENS * K], k[TOKENS * K], v[TOKENS * V], o[TOKENS * V], last[K * V];
    static double dq[TOKENS * K], dk[TOKENS * K], dv[TOKENS * V], dg[TOKENS], dbeta[TOKENS];
    static double dh0[K * V];
    static const size_t start[] = {0, TOKENS};
    rule_fill(&r, 0, 0.3);
    r.d.heads = r.d.v_heads = 1;
    r.d.start = start;
    r.d.sequences = 1;
    rule_both(&r);
    for (size_t t = 0; t < TOKENS; t++) {
        const double *row = r.qkv + t * (2 * K + V);
        double qq = 1e-6, kk = 1e-6;
        for (size_t i = 0; i < K; i++) {
            qq += row[i] * row[i];
            kk += row[K + i] * row[K + i];
        }
        for (size_t i = 0; i < K; i++) {
            q[t * K + i] = row[i] / sqrt(qq);
            k[t * K + i] = row[K + i] / sqrt(kk);
        }
        memcpy(v + t * V, row + 2 * K, V * sizeof *v);
    }
    struct delta_head h = {.time = TOKENS,
                           .dim_k = K,
                           .dim_v = V,
                           .scale = 1 / sqrt(K),
                           .q = q,
                           .k = k,
                           .v = v,
                           .g = r.g,
                           .beta = r.beta,
                           .o = o,
                           .last = last,
                           .d_o = r.d_o,
                           .dq = dq,
                           .dk = dk,
                           .dv = dv,
                           .dg = dg,
                           .dbeta = dbeta,
                           .dh0 = dh0};
    struct arena *a = arena_new(0);
    delta_recurrent_forward(&h, a);
    delta_recurrent_backward(&h, a);
    arena_free(a);
    fd_assert_close("o", r.o, o, TOKENS * V, 1e-14);
    fd_assert_close("dg", r.dg, dg, TOKENS, 1e-13);
    fd_assert_close("dbeta", r.dbeta, dbeta, TOKENS, 1e-13);
}

/* ---- convolution ---- */

enum {
    CHANNELS = 70, /* more than a block */
    TAPS = 4
};

struct conv {
    struct conv1d c;
    double x[TOKENS * CHANNELS], weight[CHANNELS * TAPS], pre[TOKENS * CHANNELS];
    double y[TOKENS * CHANNELS], dy[TOKENS * CHANNELS], dx[TOKENS * CHANNELS];
    double dweight[CHANNELS * TAPS];
};

static void conv_fill(struct conv *c)
{
    memset(c, 0, sizeof *c);
    c->c = (struct conv1d){.channels = CHANNELS,
                           .taps = TAPS,
                           .start = packed,
                           .sequences = 3,
                           .precision = PRECISION_F64,
                           .threads = 2};
    fd_fill(c->x, TOKENS * CHANNELS, 5);
    fd_fill(c->weight, CHANNELS * TAPS, 6);
    fd_fill(c->dy, TOKENS * CHANNELS, 7);
}

static double conv_loss(void *ctx)
{
    struct conv *c = ctx;
    double loss = 0;
    conv1d_forward_f64(&c->c, c->x, c->weight, c->pre, c->y);
    for (size_t i = 0; i < TOKENS * CHANNELS; i++) {
        loss += c->y[i] * c->dy[i];
    }
    return loss;
}

static void conv_matches_differences(void **state)
{
    (void)state;
    static struct conv c;
    conv_fill(&c);
    conv_loss(&c);
    conv1d_backward_f64(&c.c, c.x, c.weight, c.pre, c.dy, c.dx, c.dweight);
    const struct fd_tensor t[] = {{"x", c.x, c.dx, TOKENS * CHANNELS},
                                  {"weight", c.weight, c.dweight, CHANNELS * TAPS}};
    fd_check(t, 2, 200, 1e-9, conv_loss, &c);
}

/* Only the last tap set: every token sees itself. Only the first: the token three before, if it is of
 * the same sequence. */
static void conv_taps_are_oriented(void **state)
{
    (void)state;
    static struct conv c;
    for (size_t tap = 0; tap < TAPS; tap += TAPS - 1) {
        conv_fill(&c);
        for (size_t i = 0; i < CHANNELS * TAPS; i++) {
            c.weight[i] = i % TAPS == tap;
        }
        conv_loss(&c);
        size_t back = TAPS - 1 - tap;
        for (size_t s = 0; s < 3; s++) {
            for (size_t t = packed[s]; t < packed[s + 1]; t++) {
                double want = t >= packed[s] + back ? c.x[(t - back) * CHANNELS + 69] : 0;
                assert_true(c.pre[t * CHANNELS + 69] == want);
            }
        }
    }
}

/* ---- gated norm ---- */

enum {
    ROWS = 300, /* more than a part */
    WIDTH = 6
};

struct gated {
    struct norm_gated n;
    double x[ROWS * WIDTH], z[ROWS * WIDTH], weight[WIDTH], y[ROWS * WIDTH], dy[ROWS * WIDTH];
    double dx[ROWS * WIDTH], dz[ROWS * WIDTH], dweight[WIDTH];
};

static double gated_loss(void *ctx)
{
    struct gated *g = ctx;
    double loss = 0;
    norm_gated_forward_f64(&g->n, g->x, g->z, g->weight, g->y);
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        loss += g->y[i] * g->dy[i];
    }
    return loss;
}

static void gated_norm_matches_differences(void **state)
{
    (void)state;
    static struct gated g = {
        .n = {.rows = ROWS, .width = WIDTH, .eps = 1e-3, .precision = PRECISION_F64, .threads = 2}};
    fd_fill(g.x, ROWS * WIDTH, 8);
    fd_fill(g.z, ROWS * WIDTH, 9);
    fd_fill(g.weight, WIDTH, 10);
    fd_fill(g.dy, ROWS * WIDTH, 11);
    gated_loss(&g);
    norm_gated_backward_f64(&g.n, g.x, g.z, g.weight, g.dy, g.dx, g.dz, g.dweight);
    const struct fd_tensor t[] = {{"x", g.x, g.dx, ROWS * WIDTH},
                                  {"z", g.z, g.dz, ROWS * WIDTH},
                                  {"weight", g.weight, g.dweight, WIDTH}};
    fd_check(t, 3, 300, 1e-8, gated_loss, &g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rule_matches_differences),       cmocka_unit_test(blocks_equal_steps),
        cmocka_unit_test(packed_equals_separate),         cmocka_unit_test(rule_matches_operator),
        cmocka_unit_test(conv_matches_differences),       cmocka_unit_test(conv_taps_are_oriented),
        cmocka_unit_test(gated_norm_matches_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
