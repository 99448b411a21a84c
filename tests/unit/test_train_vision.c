// SPDX-License-Identifier: Apache-2.0
/* The parts of the vision towers in double, against finite differences and known identities, and the
 * positions of text with pictures. */
#define TRAIN_DOUBLE
#include <string.h>

#include "base/arena.h"

#include "fd.h"
#include "train/conv3d.h"
#include "train/frame_attention.h"
#include "train/gelu.h"
#include "train/mrope.h"
#include "train/norm_layer.h"
#include "train/patch_place.h"
#include "train/picture.h"
#include "unit.h"

static double weighted(const double *y, const double *dy, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += y[i] * dy[i];
    }
    return sum;
}

/* ---- gelu ---- */

static void gelu_slopes_match_differences(void **state)
{
    (void)state;
    for (int kind = 0; kind < GELU_COUNT; kind++) {
        for (double x = -6; x <= 6; x += 0.37) {
            const double h = 1e-3;
            double fd = (gelu(kind, x - 2 * h) - 8 * gelu(kind, x - h) + 8 * gelu(kind, x + h) -
                         gelu(kind, x + 2 * h)) /
                        (12 * h);
            assert_true(fabs(fd - gelu_slope(kind, x)) < 1e-10);
        }
        assert_true(gelu(kind, 10) == 10 && fabs(gelu(kind, -10)) < 1e-20);
    }
    assert_true(fabs(gelu(GELU_EXACT, 1) - 0.84134474606854294859) < 1e-15); /* Phi(1) */
    assert_true(fabs(gelu(GELU_TANH, 1) - gelu(GELU_EXACT, 1)) > 1e-5);
}

/* ---- layer norm ---- */

enum {
    ROWS = 7,
    WIDTH = 9
};

struct norm {
    struct norm_layer n;
    double x[ROWS * WIDTH], weight[WIDTH], bias[WIDTH], y[ROWS * WIDTH], dy[ROWS * WIDTH];
    double dx[ROWS * WIDTH], dweight[WIDTH], dbias[WIDTH];
};

static double norm_loss(void *ctx)
{
    struct norm *n = ctx;
    norm_layer_forward_f64(&n->n, n->x, n->weight, n->bias, n->y);
    return weighted(n->y, n->dy, ROWS * WIDTH);
}

static void layer_norm_matches_differences(void **state)
{
    (void)state;
    static struct norm n = {.n = {ROWS, WIDTH, 1e-3, PRECISION_F64}};
    fd_fill(n.x, ROWS * WIDTH, 1);
    fd_fill(n.weight, WIDTH, 2);
    fd_fill(n.bias, WIDTH, 3);
    fd_fill(n.dy, ROWS * WIDTH, 4);
    norm_layer_backward_f64(&n.n, n.x, n.weight, n.dy, n.dx, n.dweight, n.dbias);
    const struct fd_tensor t[] = {{"x", n.x, n.dx, ROWS * WIDTH},
                                  {"weight", n.weight, n.dweight, WIDTH},
                                  {"bias", n.bias, n.dbias, WIDTH}};
    fd_check(t, 3, 0, 1e-9, norm_loss, &n);
}

/* ---- attention within frames ---- */

enum {
    TOKENS = 80,
    HEADS = 3,
    DIM = 4,
    HIDDEN = HEADS * DIM
};

static const size_t frames[] = {0, 4, 5, 80}; /* the last is longer than a block of rows */
static const struct compute two_threads = {.threads = 2};

struct attention {
    struct frame_attention f;
    double qkv[TOKENS * 3 * HIDDEN], y[TOKENS * HIDDEN], dy[TOKENS * HIDDEN];
    double dqkv[TOKENS * 3 * HIDDEN];
};

static double attention_loss(void *ctx)
{
    struct attention *a = ctx;
    frame_attention_forward_f64(&a->f, a->qkv, a->y);
    return weighted(a->y, a->dy, TOKENS * HIDDEN);
}

static void attention_fill(struct attention *a)
{
    *a = (struct attention){.f = {HEADS, DIM, frames, 3, PRECISION_F64, &two_threads}};
    fd_fill(a->qkv, TOKENS * 3 * HIDDEN, 5);
    fd_fill(a->dy, TOKENS * HIDDEN, 6);
}

static void frame_attention_matches_differences(void **state)
{
    (void)state;
    static struct attention a;
    attention_fill(&a);
    frame_attention_backward_f64(&a.f, a.qkv, a.dy, a.dqkv);
    const struct fd_tensor t[] = {{"qkv", a.qkv, a.dqkv, TOKENS * 3 * HIDDEN}};
    fd_check(t, 1, 300, 1e-8, attention_loss, &a);
}

/* What is done to one frame is not seen in another; a frame of one patch returns its value. */
static void frames_are_apart(void **state)
{
    (void)state;
    static struct attention a, b;
    attention_fill(&a);
    attention_fill(&b);
    b.qkv[2 * 3 * HIDDEN + 1] += 1; /* token 2, frame 0 */
    attention_loss(&a);
    attention_loss(&b);
    assert_memory_not_equal(a.y, b.y, 4 * HIDDEN * sizeof(double));
    assert_memory_equal(a.y + 4 * HIDDEN, b.y + 4 * HIDDEN, (TOKENS - 4) * HIDDEN * sizeof(double));
    assert_memory_equal(a.y + 4 * HIDDEN, a.qkv + (4 * 3 + 2) * HIDDEN, HIDDEN * sizeof(double));
}

/* ---- patches ---- */

enum {
    CHANNELS = 3,
    TEMPORAL = 2,
    PATCH = 2,
    MERGE = 2,
    HIGH = 4, /* patches */
    WIDE = 6,
    PATCHES = HIGH * WIDE,
    PATCH_SIZE = CHANNELS * TEMPORAL * PATCH * PATCH,
    IMAGE = CHANNELS * HIGH * PATCH * WIDE * PATCH,
    OUT = 5
};

static void fill_image(double *image, double *patches)
{
    fd_fill(image, IMAGE, 7);
    picture_cut(image, CHANNELS, HIGH * PATCH, WIDE * PATCH, TEMPORAL, PATCH, MERGE, patches);
}

/* One Conv3d over the whole picture, its frame repeated, gives what the same weight gives patch by
 * patch as a linear layer, with the patches in the order of merge blocks. */
static void conv3d_of_picture_is_linear_over_patches(void **state)
{
    (void)state;
    static double image[IMAGE], patches[PATCHES * PATCH_SIZE], volume[IMAGE * TEMPORAL];
    static double weight[OUT * PATCH_SIZE], bias[OUT], y[OUT * PATCHES];
    fill_image(image, patches);
    fd_fill(weight, OUT * PATCH_SIZE, 8);
    fd_fill(bias, OUT, 9);
    size_t plane = (size_t)HIGH * PATCH * WIDE * PATCH;
    for (size_t i = 0; i < CHANNELS * TEMPORAL; i++) {
        memcpy(volume + i * plane, image + i / TEMPORAL * plane, plane * sizeof(double));
    }
    struct conv3d c = {1,
                       CHANNELS,
                       OUT,
                       {TEMPORAL, HIGH * PATCH, WIDE * PATCH},
                       {TEMPORAL, PATCH, PATCH},
                       PRECISION_F64};
    conv3d_forward_f64(&c, volume, weight, bias, y);
    struct picture_grid g = {1, HIGH, WIDE};
    for (size_t p = 0; p < PATCHES; p++) {
        struct picture_place at = picture_place(&g, MERGE, p);
        for (size_t o = 0; o < OUT; o++) {
            double want = bias[o] +
                          weighted(weight + o * PATCH_SIZE, patches + p * PATCH_SIZE, PATCH_SIZE);
            assert_true(fabs(y[(o * HIGH + at.row) * WIDE + at.column] - want) < 1e-13);
        }
    }
}

struct embed {
    struct conv3d c;
    double x[PATCHES * PATCH_SIZE], weight[OUT * PATCH_SIZE], bias[OUT], y[PATCHES * OUT];
    double dy[PATCHES * OUT], dx[PATCHES * PATCH_SIZE], dweight[OUT * PATCH_SIZE], dbias[OUT];
};

static double embed_loss(void *ctx)
{
    struct embed *e = ctx;
    conv3d_forward_f64(&e->c, e->x, e->weight, e->bias, e->y);
    return weighted(e->y, e->dy, PATCHES * OUT);
}

/* With one kernel per volume the gradients are those of the linear layer, element by element. */
static void conv3d_gradients_are_linear_ones(void **state)
{
    (void)state;
    static double image[IMAGE];
    static struct embed e = {.c = {PATCHES,
                                   CHANNELS,
                                   OUT,
                                   {TEMPORAL, PATCH, PATCH},
                                   {TEMPORAL, PATCH, PATCH},
                                   PRECISION_F64}};
    fill_image(image, e.x);
    fd_fill(e.weight, OUT * PATCH_SIZE, 10);
    fd_fill(e.dy, PATCHES * OUT, 11);
    conv3d_backward_f64(&e.c, e.x, e.weight, e.dy, e.dx, e.dweight, e.dbias);
    const struct fd_tensor t[] = {{"x", e.x, e.dx, PATCHES * PATCH_SIZE},
                                  {"weight", e.weight, e.dweight, OUT * PATCH_SIZE},
                                  {"bias", e.bias, e.dbias, OUT}};
    fd_check(t, 3, 100, 1e-9, embed_loss, &e);
    for (size_t i = 0; i < OUT * PATCH_SIZE; i++) {
        double want = 0;
        for (size_t p = 0; p < PATCHES; p++) {
            want += e.dy[p * OUT + i / PATCH_SIZE] * e.x[p * PATCH_SIZE + i % PATCH_SIZE];
        }
        assert_true(fabs(e.dweight[i] - want) < 1e-13);
    }
}

static void patches_lie_in_merge_blocks(void **state)
{
    (void)state;
    struct picture_grid g = {2, HIGH, WIDE};
    static const size_t rows[] = {0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 2};
    static const size_t columns[] = {0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 0};
    for (size_t i = 0; i < 13; i++) {
        struct picture_place at = picture_place(&g, MERGE, PATCHES + i);
        assert_true(at.frame == 1 && at.row == rows[i] && at.column == columns[i]);
    }
}

/* ---- learned positions ---- */

enum {
    SIDE = 5,
    TABLE = SIDE * SIDE * OUT
};

struct table {
    struct patch_places p;
    size_t patches;
    double table[TABLE], dtable[TABLE], y[64 * OUT], dy[64 * OUT];
};

static double table_loss(void *ctx)
{
    struct table *t = ctx;
    memset(t->y, 0, sizeof t->y);
    patch_table_forward_f64(&t->p, SIDE, OUT, t->table, t->y);
    return weighted(t->y, t->dy, t->patches * OUT);
}

static void learned_positions_match_differences(void **state)
{
    (void)state;
    static const struct picture_grid grids[] = {{1, 4, 6}, {2, 2, 4}, {1, 8, 2}};
    static struct table t = {.p = {grids, 3, MERGE, PRECISION_F64}, .patches = 24 + 16 + 16};
    fd_fill(t.table, TABLE, 12);
    fd_fill(t.dy, t.patches * OUT, 13);
    patch_table_backward_f64(&t.p, SIDE, OUT, t.dy, t.dtable);
    const struct fd_tensor f[] = {{"table", t.table, t.dtable, TABLE}};
    fd_check(f, 1, 0, 1e-9, table_loss, &t);
}

/* A grid of the table's own size reads the table itself; corners coincide for every size. */
static void learned_positions_keep_corners(void **state)
{
    (void)state;
    static const struct picture_grid same = {1, SIDE, SIDE}, other = {1, 3, 7};
    static double table[TABLE], y[64 * OUT];
    fd_fill(table, TABLE, 14);
    struct patch_places p = {&same, 1, 1, PRECISION_F64};
    patch_table_forward_f64(&p, SIDE, OUT, table, y);
    assert_memory_equal(y, table, sizeof table);
    memset(y, 0, sizeof y);
    p.grids = &other;
    patch_table_forward_f64(&p, SIDE, OUT, table, y);
    assert_memory_equal(y, table, OUT * sizeof *y);
    assert_memory_equal(y + 6 * OUT, table + (SIDE - 1) * OUT, OUT * sizeof *y);
    assert_memory_equal(y + 20 * OUT, table + (SIDE * SIDE - 1) * OUT, OUT * sizeof *y);
}

/* ---- rotation ---- */

/* The product of a turned query and key depends on the difference of their places alone, and turning
 * back undoes it. */
static void rotation_is_relative(void **state)
{
    (void)state;

    enum {
        D = 8,
        N = 16
    };
    static const struct picture_grid g = {1, 4, 4};
    static double qkv[N * 3 * D], was[N * 3 * D], cos_[N * D / 2], sin_[N * D / 2];
    double q[D], k[D], dots[N][N];
    struct patch_places p = {&g, 1, 1, PRECISION_F64};
    fd_fill(q, D, 15);
    fd_fill(k, D, 16);
    for (size_t i = 0; i < N; i++) {
        memcpy(qkv + i * 3 * D, q, sizeof q);
        memcpy(qkv + i * 3 * D + D, k, sizeof k);
        memcpy(qkv + i * 3 * D + 2 * D, q, sizeof q);
    }
    memcpy(was, qkv, sizeof was);
    patch_angles_f64(&p, D, 10000, cos_, sin_);
    patch_rotate_f64(&p, N, 1, D, cos_, sin_, 1, qkv);
    for (size_t i = 0; i < N * N; i++) {
        dots[i / N][i % N] = weighted(qkv + i / N * 3 * D, qkv + i % N * 3 * D + D, D);
    }
    assert_true(fabs(dots[0][1] - dots[5][6]) < 1e-14 && fabs(dots[0][4] - dots[9][13]) < 1e-14);
    assert_true(fabs(dots[0][1] - dots[0][4]) > 1e-3);
    assert_memory_equal(qkv + 15 * 3 * D + 2 * D, q, sizeof q);
    patch_rotate_f64(&p, N, 1, D, cos_, sin_, -1, qkv);
    fd_assert_close("turned back", qkv, was, N * 3 * D, 1e-15);
}

/* ---- positions of text with pictures ---- */

static void positions_jump_after_pictures(void **state)
{
    (void)state;
    /* 1 2 <4 x 6 patches: 2 x 3 tokens> 3 | 4 <2 x 2: 1> 5; token 99 is the picture's */
    static const int32_t ids[] = {1, 2, 99, 99, 99, 99, 99, 99, 3, 4, 99, 5};
    static const int32_t grid[] = {1, 4, 6, 1, 2, 2};
    static const size_t start[] = {0, 9, 12};
    static const int32_t want[3][12] = {{0, 1, 2, 2, 2, 2, 2, 2, 5, 0, 1, 2},
                                        {0, 1, 2, 2, 2, 3, 3, 3, 5, 0, 1, 2},
                                        {0, 1, 2, 3, 4, 2, 3, 4, 5, 0, 1, 2}};
    int32_t got[36];
    struct err err;
    struct train_batch b = {
        .tokens = 12, .sequences = 2, .ids = ids, .start = start, .grid = grid, .pictures = 2};
    struct mrope_tokens tokens = {.image = 99, .video = -1, .merge = 2};
    assert_int_equal(mrope_positions(&b, &tokens, got, &err), ST_OK);
    assert_memory_equal(got, want, sizeof want);
    b.pictures = 1;
    assert_int_equal(mrope_positions(&b, &tokens, got, &err), ST_FORMAT);
    assert_non_null(strstr(err.text, "only 1 were given"));
    static const int32_t large[] = {1, 6, 6, 1, 2, 2};
    b.pictures = 2;
    b.grid = large;
    assert_int_equal(mrope_positions(&b, &tokens, got, &err), ST_FORMAT);
    assert_non_null(strstr(err.text, "needs 3 x 3 tokens"));
    static const int32_t three[] = {1, 4, 6, 1, 2, 2, 1, 2, 2};
    b.pictures = 3;
    b.grid = three;
    assert_int_equal(mrope_positions(&b, &tokens, got, &err), ST_FORMAT);
    assert_non_null(strstr(err.text, "tokens for 2 only"));
}

/* The frames of a video are pictures of their own. */
static void video_frames_are_pictures(void **state)
{
    (void)state;
    static const int32_t ids[] = {1, 98, 2, 98, 3};
    static const int32_t grid[] = {2, 2, 2};
    static const size_t start[] = {0, 5};
    int32_t got[15];
    struct err err;
    struct train_batch b = {
        .tokens = 5, .sequences = 1, .ids = ids, .start = start, .grid = grid, .pictures = 1};
    struct mrope_tokens tokens = {.image = 99, .video = 98, .merge = 2};
    assert_int_equal(mrope_positions(&b, &tokens, got, &err), ST_OK);
    for (int32_t i = 0; i < 15; i++) {
        assert_int_equal(got[i], i % 5);
    }
}

static void wrong_grids_are_refused(void **state)
{
    (void)state;
    size_t count, start[4];
    struct picture_grid grids[2];
    struct err err;

    static const struct {
        int32_t grid[3];
        size_t patches;
    } bad[] = {{{1, 4, 6}, 23}, {{1, 4, 6}, 25}, {{1, 3, 6}, 18}, {{1, 4, 5}, 20},
               {{0, 4, 6}, 0},  {{1, -4, 6}, 0}, {{1, 4, 0}, 0}};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(picture_check(bad[i].grid, 1, 2, bad[i].patches, &count, &err), ST_FORMAT);
    }
    static const int32_t two[] = {2, 4, 6, 1, 2, 2};
    assert_int_equal(picture_check(two, 2, 2, 52, &count, &err), ST_OK);
    assert_int_equal(count, 3);
    picture_frames(two, 2, grids, start);
    assert_true(start[1] == 24 && start[2] == 48 && start[3] == 52 && grids[0].t == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gelu_slopes_match_differences),
        cmocka_unit_test(layer_norm_matches_differences),
        cmocka_unit_test(frame_attention_matches_differences),
        cmocka_unit_test(frames_are_apart),
        cmocka_unit_test(conv3d_of_picture_is_linear_over_patches),
        cmocka_unit_test(conv3d_gradients_are_linear_ones),
        cmocka_unit_test(patches_lie_in_merge_blocks),
        cmocka_unit_test(learned_positions_match_differences),
        cmocka_unit_test(learned_positions_keep_corners),
        cmocka_unit_test(rotation_is_relative),
        cmocka_unit_test(positions_jump_after_pictures),
        cmocka_unit_test(video_frames_are_pictures),
        cmocka_unit_test(wrong_grids_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
