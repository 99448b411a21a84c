// SPDX-License-Identifier: Apache-2.0
/*
 * The matrix product in three ways. Reference: plain loops, each element a sum in double in order of the
 * inner index, rounded once. Own: blocks packed for the CPU's kernel (kernel.h); C is cut into stripes of
 * tiles, and the order of an element's sum depends neither on the cut nor on the threads. BLAS: one call
 * of the library.
 */
#include <string.h>

#include "device/blas.h"
#include "train/compute.h"
#include "train/kernel.h"

enum {
    INNER = 256,                        /* depth of a packed block */
    ROWS = 168,                         /* of A, a multiple of every kernel's rows */
    COLUMNS = 2048 / (int)sizeof(real), /* of B: 512 floats, a multiple of every kernel's */
    STRIPES_PER_THREAD = 4,             /* so that threads end at about the same time */
    OWN_BELOW = 1 << 15                 /* products with fewer terms are not worth a BLAS call */
};

struct product {
    bool ta, tb;
    size_t m, n, k;
    real alpha;
    const real *a;
    size_t lda;
    const real *b;
    size_t ldb;
    real beta;
    real *out;
    size_t ldo;
};

/* ---- reference ---- */

static void reference_rows(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct product *p = ctx;
    size_t a_step = p->ta ? p->lda : 1;
    size_t b_step = p->tb ? 1 : p->ldb;
    (void)lane;
    for (size_t i = from; i < to; i++) {
        const real *a = p->ta ? p->a + i : p->a + i * p->lda;
        for (size_t j = 0; j < p->n; j++) {
            const real *b = p->tb ? p->b + j * p->ldb : p->b + j;
            double sum = 0;
            for (size_t l = 0; l < p->k; l++) {
                sum += (double)a[l * a_step] * (double)b[l * b_step];
            }
            real *c = p->out + i * p->ldo + j;
            double before = p->beta == 0 ? 0 : (double)p->beta * (double)*c;
            *c = (real)((double)p->alpha * sum + before);
        }
    }
}

/* ---- own ---- */

/* Whole squares of a panel whose lines run along the inner index; returns how deep that went. The last
 * square of a row of squares may be wider than the panel and write over what follows: it goes first. */
static size_t turn_squares(const struct T(kernel) * kernel, const real *from, size_t line, size_t n,
                           size_t k, size_t width, real *to)
{
    size_t l = 0;
    for (; kernel->turn != NULL && n == width && l + KERNEL_SQUARE <= k; l += KERNEL_SQUARE) {
        for (size_t i = (width - 1) / KERNEL_SQUARE * KERNEL_SQUARE + KERNEL_SQUARE; i > 0;) {
            i -= KERNEL_SQUARE;
            size_t lines = width - i < KERNEL_SQUARE ? width - i : KERNEL_SQUARE;
            kernel->turn(from + i * line + l, line, lines, to + l * width + i, width);
        }
    }
    return l;
}

/* memcpy() of a panel's line; the lengths of whole panels are known to the compiler. */
static void copy_line(real *to, const real *from, size_t n)
{
    if (n == 32) {
        memcpy(to, from, 32 * sizeof *to);
    } else if (n == 16) {
        memcpy(to, from, 16 * sizeof *to);
    } else if (n == 14) {
        memcpy(to, from, 14 * sizeof *to);
    } else {
        memcpy(to, from, n * sizeof *to);
    }
}

/* One panel of n <= width lines: to[l][line], lines beyond the last are 0. `line` is the distance of
 * lines in memory, `step` that of the inner index; one of them is 1. */
static void pack_panel(const struct T(kernel) * kernel, const real *from, size_t line, size_t step,
                       size_t n, size_t k, size_t width, real *to)
{
    if (step != 1) {
        for (size_t l = 0; l < k; l++) {
            copy_line(to + l * width, from + l * step, n);
        }
    } else {
        for (size_t l = turn_squares(kernel, from, line, n, k, width, to); l < k; l++) {
            for (size_t i = 0; i < n; i++) {
                to[l * width + i] = from[i * line + l];
            }
        }
    }
    for (size_t l = 0; n < width && l < k; l++) {
        memset(to + l * width + n, 0, (width - n) * sizeof *to);
    }
}

static void pack(const struct T(kernel) * kernel, const real *from, size_t line, size_t step,
                 size_t lines, size_t k, size_t width, real *to)
{
    for (size_t first = 0; first < lines; first += width) {
        size_t n = lines - first < width ? lines - first : width;
        pack_panel(kernel, from + first * line, line, step, n, k, width, to);
        to += width * k;
    }
}

/* c = tile + beta * c, from a tile that is higher or wider than what is left of C. */
static void store_part(const real *tile, size_t width, size_t rows, size_t columns, real beta,
                       real *c, size_t line)
{
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) {
            real v = tile[i * width + j];
            c[i * line + j] = beta == 0 ? v : v + beta * c[i * line + j];
        }
    }
}

/* Rows x columns of C at c from packed blocks of depth k. */
static void multiply(const struct product *p, const struct T(kernel) * kernel, const real *a,
                     const real *b, size_t rows, size_t columns, size_t k, real beta, real *c)
{
    real tile[KERNEL_ROWS_MAX * KERNEL_COLUMNS_MAX];
    for (size_t j = 0; j < columns; j += kernel->columns) {
        size_t width = columns - j < kernel->columns ? columns - j : kernel->columns;
        for (size_t i = 0; i < rows; i += kernel->rows) {
            size_t height = rows - i < kernel->rows ? rows - i : kernel->rows;
            real *at = c + i * p->ldo + j;
            if (height == kernel->rows && width == kernel->columns) {
                kernel->tile(k, a + i * k, b + j * k, p->alpha, beta, at, p->ldo);
            } else {
                kernel->tile(k, a + i * k, b + j * k, p->alpha, 0, tile, kernel->columns);
                store_part(tile, kernel->columns, height, width, beta, at, p->ldo);
            }
        }
    }
}

/* All of the product on this thread. */
static void own(const struct product *p)
{
    real a[ROWS * INNER + KERNEL_SQUARE] __attribute__((aligned(64)));
    real b[INNER * COLUMNS] __attribute__((aligned(64)));
    const struct T(kernel) *kernel = T(kernel_at)(0);
    size_t a_line = p->ta ? 1 : p->lda;
    size_t a_step = p->ta ? p->lda : 1;
    size_t b_line = p->tb ? p->ldb : 1;
    size_t b_step = p->tb ? 1 : p->ldb;
    for (size_t j = 0; j < p->n; j += COLUMNS) {
        size_t columns = p->n - j < COLUMNS ? p->n - j : COLUMNS;
        for (size_t l = 0; l < p->k; l += INNER) {
            size_t k = p->k - l < INNER ? p->k - l : INNER;
            real beta = l == 0 ? p->beta : 1;
            pack(kernel, p->b + j * b_line + l * b_step, b_line, b_step, columns, k,
                 kernel->columns, b);
            for (size_t i = 0; i < p->m; i += ROWS) {
                size_t rows = p->m - i < ROWS ? p->m - i : ROWS;
                pack(kernel, p->a + i * a_line + l * a_step, a_line, a_step, rows, k, kernel->rows,
                     a);
                multiply(p, kernel, a, b, rows, columns, k, beta, p->out + i * p->ldo + j);
            }
        }
    }
}

struct stripes {
    const struct product *whole;
    size_t rows;   /* of a stripe, a multiple of ROWS */
    size_t across; /* how many lie side by side, COLUMNS wide */
};

/* One stripe of C after the other. A block of B is packed once for all rows of a stripe. */
static void own_stripes(void *ctx, unsigned lane, size_t from, size_t to)
{
    const struct stripes *s = ctx;
    const struct product *whole = s->whole;
    (void)lane;
    for (size_t t = from; t < to; t++) {
        size_t i = t / s->across * s->rows;
        size_t j = t % s->across * COLUMNS;
        struct product p = *whole;
        p.m = whole->m - i < s->rows ? whole->m - i : s->rows;
        p.n = whole->n - j < COLUMNS ? whole->n - j : COLUMNS;
        p.a += whole->ta ? i : i * whole->lda;
        p.b += whole->tb ? j * whole->ldb : j;
        p.out += i * whole->ldo + j;
        own(&p);
    }
}

/* As high as leaves every thread a few of them. An element's sum is the same in any cut. */
static void own_threads(const struct compute *c, const struct product *p)
{
    size_t across = (p->n + COLUMNS - 1) / COLUMNS;
    size_t tiles = (p->m + ROWS - 1) / ROWS;
    size_t wanted = c->threads <= 1 ? 1 : (STRIPES_PER_THREAD * c->threads + across - 1) / across;
    size_t high = tiles <= wanted ? 1 : tiles / wanted;
    struct stripes s = {.whole = p, .rows = high * ROWS, .across = across};
    compute_parts(c, (p->m + s.rows - 1) / s.rows * across, 1, own_stripes, &s);
}

/* ---- BLAS ---- */

/* Row-major C = A B is column-major C' = B' A'. False when the library declines. */
static bool blas(const struct compute *c, const struct product *p)
{
#ifdef TRAIN_DOUBLE
    enum dtype t = DTYPE_F64;
    const struct gemm_choice *choice = &c->blas_f64;
#else
    enum dtype t = DTYPE_F32;
    const struct gemm_choice *choice = &c->blas_f32;
#endif
    const struct gemm_shape shape = {.m = (int64_t)p->n,
                                     .n = (int64_t)p->m,
                                     .k = (int64_t)p->k,
                                     .lda = (int64_t)p->ldb,
                                     .ldb = (int64_t)p->lda,
                                     .ldc = (int64_t)p->ldo,
                                     .batch = 1,
                                     .transpose_a = p->tb,
                                     .transpose_b = p->ta,
                                     .dtype_ab = t,
                                     .dtype_c = t,
                                     .alpha = (double)p->alpha,
                                     .beta = (double)p->beta};
    const struct gemm_operands operands = {.a = p->b, .b = p->a, .c = p->out};
    return gemm_vendor_blas.run(c->blas, &shape, &operands, choice, NULL) == ST_OK;
}

void T(gemm)(const struct compute *c, bool ta, bool tb, size_t m, size_t n, size_t k, real alpha,
             const real *a, size_t lda, const real *b, size_t ldb, real beta, real *out, size_t ldo)
{
    struct product p = {ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, out, ldo};
    if (c->reference) {
        size_t work = n * k < 1 ? 1 : n * k;
        compute_parts(c, m, work >= 65536 ? 1 : 65536 / work, reference_rows, &p);
    } else if (c->blas == NULL || m * n * k < OWN_BELOW || !blas(c, &p)) {
        own_threads(c, &p);
    }
}

void T(gemm_part)(const struct compute *c, bool ta, bool tb, size_t m, size_t n, size_t k,
                  real alpha, const real *a, size_t lda, const real *b, size_t ldb, real beta,
                  real *out, size_t ldo)
{
    struct product p = {ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, out, ldo};
    if (c->reference) {
        reference_rows(&p, 0, 0, m);
    } else {
        own(&p);
    }
}
