// SPDX-License-Identifier: Apache-2.0
/* The plan: groups as rows of an array, items computed from a group and a hash. */
#include "ops/gemm_plan.h"

#include <string.h>

#include "base/vec.h"

struct group {
    int64_t m, n, k;
    int64_t far_a, far_b, far_c; /* leading dimensions past 2^31; 0: small pads */
    int64_t batch;
    enum dtype dtype;
    enum gemm_values values;
    uint32_t variants;
    uint8_t scaling; /* row of `scalings`, of 8-bit formats */
    bool other_fp8_b;
    size_t first; /* index of its first item */
    uint64_t seed;
    const struct gemm_wish *wish; /* NULL: of our own */
};

struct gemm_plan {
    struct arena *arena;
    struct gemm_plan_options options;
    VEC_OF(struct group) groups;
    size_t count;
    size_t stride; /* items are taken in steps of so many, round and round; 1: in order */
};

const char *gemm_values_name(enum gemm_values values)
{
    static const char *const names[GEMM_VALUES_COUNT] = {"grid", "random", "cancelling", "denormal",
                                                         "huge"};
    return values < GEMM_VALUES_COUNT ? names[values] : "unknown";
}

static uint64_t extent(int64_t rows, int64_t columns, int64_t ld, int64_t batch, int64_t stride)
{
    if (rows == 0 || columns == 0 || batch == 0) {
        return 0;
    }
    return (uint64_t)(stride * (batch - 1) + ld * (columns - 1) + rows);
}

uint64_t gemm_extent_a(const struct gemm_shape *s)
{
    return extent(s->transpose_a ? s->k : s->m, s->transpose_a ? s->m : s->k, s->lda, s->batch,
                  s->stride_a);
}

uint64_t gemm_extent_b(const struct gemm_shape *s)
{
    return extent(s->transpose_b ? s->n : s->k, s->transpose_b ? s->k : s->n, s->ldb, s->batch,
                  s->stride_b);
}

uint64_t gemm_extent_c(const struct gemm_shape *s)
{
    return extent(s->m, s->n, s->ldc, s->batch, s->stride_c);
}

size_t gemm_shape_alignment(const struct gemm_shape *s, size_t most)
{
    size_t size_ab = dtype_info(s->dtype_ab)->size;
    size_t size_c = dtype_info(s->dtype_c)->size;
    uint64_t all = gemm_extent_a(s) * size_ab | gemm_extent_b(s) * size_ab |
                   gemm_extent_c(s) * size_c;
    size_t least = size_ab > size_c ? size_ab : size_c;
    while (most > least && all % most != 0) {
        most /= 2;
    }
    return most > least ? most : least;
}

static int64_t at_least_one(int64_t n)
{
    return n > 0 ? n : 1;
}

void gemm_shape_pack(struct gemm_shape *s, int64_t pad_a, int64_t pad_b, int64_t pad_c)
{
    s->lda = at_least_one(s->transpose_a ? s->k : s->m) + pad_a;
    s->ldb = at_least_one(s->transpose_b ? s->n : s->k) + pad_b;
    s->ldc = at_least_one(s->m) + pad_c;
    if (s->batch > 1) {
        s->stride_a = s->lda * (s->transpose_a ? s->m : s->k) + pad_a;
        s->stride_b = s->ldb * (s->transpose_b ? s->k : s->n) + pad_b;
        s->stride_c = s->ldc * s->n + pad_c;
    }
}

/* --- groups ----------------------------------------------------------------------------------- */

static enum gemm_values values_for(uint64_t hash)
{
    unsigned r = (unsigned)(hash % 20);
    return r < 11   ? GEMM_VALUES_GRID
           : r < 15 ? GEMM_VALUES_RANDOM
           : r < 17 ? GEMM_VALUES_WORST
           : r < 19 ? GEMM_VALUES_DENORMAL
                    : GEMM_VALUES_HUGE;
}

static struct group *add(struct gemm_plan *plan, enum dtype dtype, int64_t m, int64_t n, int64_t k,
                         uint32_t variants)
{
    struct group *g = VEC_PUSH(plan->arena, &plan->groups);
    uint64_t sizes = gemm_mix((uint64_t)m) ^ gemm_mix((uint64_t)n << 20) ^
                     gemm_mix((uint64_t)k << 40) ^ ((uint64_t)dtype << 8);
    *g = (struct group){
        .m = m,
        .n = n,
        .k = k,
        .batch = 1,
        .dtype = dtype,
        .variants = variants,
        .first = plan->count,
        .seed = gemm_mix(plan->options.seed ^ sizes),
    };
    g->values = values_for(g->seed >> 7);
    plan->count += variants;
    return g;
}

/* Each size that is a multiple of a usual tile stands between its odd neighbours. */
static const int16_t sizes_full[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  12, 15,  16,  17, 23,
                                     24, 31, 32, 33, 47, 48, 49, 63, 64, 65, 127, 128, 129};
/* Tiles of a GPU are larger; a last one that is not full, and a row beyond it. */
static const int16_t sizes_device[] = {1, 2, 7, 8, 16, 17, 33, 64, 65, 127, 128, 129, 256};
static const int16_t sizes_quick[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65};

static void add_sizes(struct gemm_plan *plan, enum dtype dtype)
{
    bool full = plan->options.level == GEMM_LEVEL_FULL;
    const int16_t *sizes = full ? sizes_full : sizes_quick;
    size_t count = full ? ARRAY_LEN(sizes_full) : ARRAY_LEN(sizes_quick);
    uint32_t variants = full ? 6 : 4;
    if (plan->options.choices != 0) {
        sizes = sizes_device;
        count = ARRAY_LEN(sizes_device);
        variants = full ? 8 : 1;
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            for (size_t p = 0; p < count; p++) {
                add(plan, dtype, sizes[i], sizes[j], sizes[p], variants);
            }
        }
    }
}

/* x A^T (tokens x rank), then B (rank x hidden), and the gradient of each (rank x hidden over
 * tokens): the three products of an adapter. */
static void add_lora(struct gemm_plan *plan, enum dtype dtype)
{
    static const int16_t ranks[] = {4, 8, 16, 32, 64, 128, 256};
    static const int16_t hidden[] = {64, 896, 1024, 2048, 4096, 4097, 11008};
    static const int16_t tokens[] = {1, 17, 63};
    bool full = plan->options.level == GEMM_LEVEL_FULL;
    for (size_t r = 0; r < ARRAY_LEN(ranks); r++) {
        for (size_t h = 0; h < ARRAY_LEN(hidden); h++) {
            for (size_t t = 0; t < ARRAY_LEN(tokens); t++) {
                bool heavy = ranks[r] > 32 || hidden[h] > 2048 || t > 1;
                if (heavy && !full) {
                    continue;
                }
                uint32_t variants = full ? 4 : plan->options.choices != 0 ? 1 : 2;
                add(plan, dtype, ranks[r], tokens[t], hidden[h], variants);
                add(plan, dtype, hidden[h], tokens[t], ranks[r], variants);
                add(plan, dtype, ranks[r], hidden[h], tokens[t], variants);
            }
        }
    }
}

static void add_borders(struct gemm_plan *plan, enum dtype dtype)
{
    static const int8_t powers[] = {15, 16, 19};
    int64_t size = (int64_t)dtype_info(dtype)->size;
    uint32_t variants = plan->options.level == GEMM_LEVEL_FULL ? 8 : 2;
    for (size_t i = 0; i < ARRAY_LEN(powers) * 2; i++) {
        int64_t edge = (int64_t)1 << powers[i / 2];
        edge = i % 2 == 0 ? edge / size : edge;
        for (int64_t d = -1; d <= 1; d++) {
            add(plan, dtype, edge + d, 3, 1, variants);
            add(plan, dtype, 3, edge + d, 1, variants);
            add(plan, dtype, 1, 3, edge + d, variants);
            add(plan, dtype, 3, 1, edge + d, variants);
        }
    }
}

/* Three columns with a leading dimension near 2^30: their indexes pass 2^31 bytes and 2^31 elements,
 * and only the pages that hold elements are ever touched. The last one takes integers of 64 bits. */
static void add_far(struct gemm_plan *plan, enum dtype dtype)
{
    int64_t size = (int64_t)dtype_info(dtype)->size;
    const int64_t far[] = {((int64_t)1 << 30) / size + 1, ((int64_t)1 << 31) / size - 1,
                           ((int64_t)1 << 30) - 1, ((int64_t)1 << 30) + 1, ((int64_t)1 << 31) + 1};
    for (size_t i = 0; i < ARRAY_LEN(far) && plan->options.sparse_memory; i++) {
        for (int operand = 0; operand < 3; operand++) {
            struct group *g = add(plan, dtype, 3, 3, 3, 4);
            g->far_a = operand == 0 ? far[i] : 0;
            g->far_b = operand == 1 ? far[i] : 0;
            g->far_c = operand == 2 ? far[i] : 0;
        }
    }
}

static void add_batches(struct gemm_plan *plan, enum dtype dtype)
{
    static const int16_t sizes[] = {1, 3, 8, 16, 17, 33};
    static const int16_t counts[] = {2, 3, 5};
    for (size_t i = 0; i < ARRAY_LEN(sizes) * ARRAY_LEN(sizes) * ARRAY_LEN(counts); i++) {
        int64_t m = sizes[i % ARRAY_LEN(sizes)];
        int64_t n = sizes[i / ARRAY_LEN(sizes) % ARRAY_LEN(sizes)];
        int64_t k = sizes[(i * 5 + 1) % ARRAY_LEN(sizes)];
        struct group *g = add(plan, dtype, m, n, k, plan->options.choices != 0 ? 1 : 4);
        g->batch = counts[i / ARRAY_LEN(sizes) / ARRAY_LEN(sizes)];
    }
}

/* A, B: 1 and 1; scales as of values whose largest is around 2^-11 and 2^-8; scales as frameworks compute
 * them. The first two keep exact numbers exact. */
static const double scalings[][2] = {{1, 1}, {0x1p-20, 0x1p-17}, {0.0371, 1.93}, {0, 0}};

static bool is_eight_bits(enum dtype dtype)
{
    return dtype_info(dtype)->is_float && dtype_info(dtype)->size == 1;
}

static void add_eight_bits(struct gemm_plan *plan, enum dtype dtype)
{
    static const int16_t sizes[] = {16, 32, 48, 64, 128, 144, 256, 272};
    static const int16_t columns[] = {16, 32, 64, 80, 128, 144, 256};
    const size_t most = ARRAY_LEN(sizes);
    uint32_t variants = plan->options.level == GEMM_LEVEL_FULL ? 6 : 1;
    for (size_t i = 0; i < most * most * ARRAY_LEN(columns); i++) {
        int64_t m = sizes[i % most];
        int64_t k = sizes[i / most % most];
        int64_t n = columns[i / most / most];
        struct group *g = add(plan, dtype, m, n, k, variants);
        g->scaling = (uint8_t)(g->seed >> 20) % ARRAY_LEN(scalings);
        g->other_fp8_b = (g->seed >> 30) % 2 != 0;
    }
}

/* BLAS defines products with a size of 0: nothing is touched when C is empty, and C = beta C when
 * only k is 0. */
static void add_empty(struct gemm_plan *plan, enum dtype dtype)
{
    static const int8_t sizes[][3] = {{0, 5, 5}, {5, 0, 5}, {5, 3, 0}, {1, 1, 0}, {0, 0, 0}};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        add(plan, dtype, sizes[i][0], sizes[i][1], sizes[i][2], 8)->values = GEMM_VALUES_GRID;
    }
}

static void add_wish(struct gemm_plan *plan, const struct gemm_wish *wish)
{
    bool all = wish->dtype < 0;
    size_t count = all ? plan->options.dtype_count : 1;
    uint32_t variants = wish->lda >= 0 && wish->transpose_a >= 0 && wish->scalars_set ? 8 : 48;
    for (size_t i = 0; i < count; i++) {
        enum dtype dtype = all ? plan->options.dtypes[i] : (enum dtype)wish->dtype;
        for (enum gemm_values v = 0; v < GEMM_VALUES_COUNT; v++) {
            struct group *g = add(plan, dtype, wish->m, wish->n, wish->k, variants);
            g->values = v;
            g->batch = wish->batch;
            g->scaling = (uint8_t)(v % ARRAY_LEN(scalings));
            g->wish = wish;
        }
    }
}

static size_t common_divisor(size_t a, size_t b)
{
    while (b != 0) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The quick plan of a device ends by time where it must: what was done until then is to be of every format
 * and area. Groups have one item there, so that nothing is computed twice for it. */
static size_t stride_of(const struct gemm_plan *plan)
{
    const struct gemm_plan_options *o = &plan->options;
    if (o->choices == 0 || o->level != GEMM_LEVEL_QUICK || o->wish_count != 0 || plan->count < 8) {
        return 1;
    }
    size_t stride = plan->count / 8 * 5 + 1;
    while (common_divisor(stride, plan->count) != 1) {
        stride++;
    }
    return stride;
}

struct gemm_plan *gemm_plan_new(struct arena *a, const struct gemm_plan_options *options)
{
    struct gemm_plan *plan = arena_alloc(a, sizeof *plan);
    plan->arena = a;
    plan->options = *options;
    for (size_t i = 0; i < options->wish_count; i++) {
        add_wish(plan, &options->wishes[i]);
    }
    for (size_t i = 0; i < options->dtype_count && options->wish_count == 0; i++) {
        enum dtype dtype = options->dtypes[i];
        if (is_eight_bits(dtype)) {
            add_eight_bits(plan, dtype);
            continue;
        }
        add_empty(plan, dtype);
        add_sizes(plan, dtype);
        add_batches(plan, dtype);
        add_lora(plan, dtype);
        add_borders(plan, dtype);
        add_far(plan, dtype);
    }
    plan->stride = stride_of(plan);
    return plan;
}

size_t gemm_plan_count(const struct gemm_plan *plan)
{
    return plan->count;
}

/* --- items ------------------------------------------------------------------------------------- */

static const struct group *group_of(const struct gemm_plan *plan, size_t index)
{
    size_t low = 0;
    size_t high = plan->groups.count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (plan->groups.items[middle].first <= index) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &plan->groups.items[low];
}

/* Takes `n` choices' worth of bits off a hash. */
static unsigned draw(uint64_t *hash, unsigned n)
{
    unsigned r = (unsigned)(*hash % n);
    *hash /= n;
    return r;
}

static void apply_wish(struct gemm_shape *s, const struct gemm_wish *wish)
{
    if (wish->scalars_set) {
        s->alpha = wish->alpha;
        s->beta = wish->beta;
    }
    const int64_t wanted[] = {wish->lda, wish->ldb, wish->ldc};
    int64_t *const leading[] = {&s->lda, &s->ldb, &s->ldc};
    const int64_t rows[] = {s->transpose_a ? s->k : s->m, s->transpose_b ? s->n : s->k, s->m};
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        /* A leading dimension given for one transpose may be too small for the other. */
        if (wanted[i] >= 0) {
            *leading[i] = wanted[i] > rows[i] ? wanted[i] : at_least_one(rows[i]);
        }
    }
    if (s->batch > 1) {
        s->stride_a = s->lda * (s->transpose_a ? s->m : s->k);
        s->stride_b = s->ldb * (s->transpose_b ? s->k : s->n);
        s->stride_c = s->ldc * s->n;
    }
}

/* What the 8-bit products of libraries have in common. */
static void make_eight_bits(struct gemm_shape *s, const struct group *g, uint64_t hash)
{
    static const int64_t pads[] = {0, 16, 48};
    s->dtype_c = DTYPE_BF16;
    s->other_fp8_b = g->other_fp8_b;
    s->scale_a = scalings[g->scaling][0];
    s->scale_b = scalings[g->scaling][1];
    s->beta = gemm_is_scaled(s) ? 0 : s->beta;
    if (g->wish == NULL || g->wish->transpose_a < 0) {
        s->transpose_a = true;
        s->transpose_b = false;
    }
    int64_t pad_a = pads[draw(&hash, 3)];
    int64_t pad_b = pads[draw(&hash, 3)];
    gemm_shape_pack(s, pad_a, pad_b, pads[draw(&hash, 3)]);
}

void gemm_plan_get(const struct gemm_plan *plan, size_t index, struct gemm_probe *ret_probe)
{
    static const double scalars[][2] = {{1, 0}, {1, 0}, {1, 1}, {-1, 0.5}, {2, -1}, {1, 0}, {0, 1}};
    static const int64_t pads[] = {0, 1, 3};
    index = (size_t)((uint64_t)index * plan->stride % plan->count);
    const struct group *g = group_of(plan, index);
    uint64_t h = gemm_mix(g->seed ^ gemm_mix(index - g->first + 1));
    bool wide = plan->options.wide_output && dtype_info(g->dtype)->size < 4;
    struct gemm_probe p = {.values = g->values, .seed = g->seed};
    struct gemm_shape *s = &p.shape;
    s->m = g->m;
    s->n = g->n;
    s->k = g->k;
    s->batch = g->batch;
    s->dtype_ab = g->dtype;
    s->dtype_c = wide ? DTYPE_F32 : g->dtype;
    s->transpose_a = draw(&h, 2) != 0;
    s->transpose_b = draw(&h, 2) != 0;
    if (g->wish != NULL) {
        s->transpose_a = g->wish->transpose_a >= 0 ? g->wish->transpose_a == 1 : s->transpose_a;
        s->transpose_b = g->wish->transpose_b >= 0 ? g->wish->transpose_b == 1 : s->transpose_b;
    }
    p.side = draw(&h, 2) != 0 ? GUARD_BEGIN : GUARD_END;
    const double *scalar = scalars[draw(&h, ARRAY_LEN(scalars))];
    s->alpha = scalar[0];
    s->beta = scalar[1];
    int64_t pad_a = pads[draw(&h, 3)];
    int64_t pad_b = pads[draw(&h, 3)];
    int64_t pad_c = pads[draw(&h, 3)];
    p.choice = draw(&h, 60);
    p.poison = draw(&h, 2) != 0 ? GEMM_POISON_HIGH : GEMM_POISON_ONES;
    gemm_shape_pack(s, pad_a, pad_b, pad_c);
    if (is_eight_bits(g->dtype)) {
        make_eight_bits(s, g, h);
    }
    if (g->wish != NULL) {
        apply_wish(s, g->wish);
    }
    s->lda = g->far_a != 0 ? g->far_a : s->lda;
    s->ldb = g->far_b != 0 ? g->far_b : s->ldb;
    s->ldc = g->far_c != 0 ? g->far_c : s->ldc;
    if (plan->options.choices != 0) {
        enum {
            ALIGNMENT = 16
        };

        p.choices = plan->options.choices;
        s->alignment_bytes = p.side == GUARD_BEGIN ? ALIGNMENT : gemm_shape_alignment(s, ALIGNMENT);
    }
    *ret_probe = p;
}

uint64_t gemm_plan_bytes(const struct gemm_plan *plan)
{
    uint64_t most = 0;
    for (size_t i = 0; i < plan->groups.count; i++) {
        const struct group *g = &plan->groups.items[i];
        uint64_t mk = (uint64_t)g->m * (uint64_t)g->k;
        uint64_t kn = (uint64_t)g->k * (uint64_t)g->n;
        uint64_t mn = (uint64_t)g->m * (uint64_t)g->n;
        uint64_t bytes = (mk + kn + mn) * (uint64_t)g->batch * dtype_info(g->dtype)->size;
        most = bytes > most ? bytes : most;
    }
    return most;
}

void gemm_shape_print(struct strbuf *out, const struct gemm_shape *s)
{
    strbuf_fmt(out, "m=%lld n=%lld k=%lld", (long long)s->m, (long long)s->n, (long long)s->k);
    strbuf_fmt(out, " lda=%lld ldb=%lld ldc=%lld", (long long)s->lda, (long long)s->ldb,
               (long long)s->ldc);
    strbuf_fmt(out, " %c%c %s", s->transpose_a ? 'T' : 'N', s->transpose_b ? 'T' : 'N',
               dtype_info(s->dtype_ab)->name);
    if (s->dtype_c != s->dtype_ab) {
        strbuf_fmt(out, "->%s", dtype_info(s->dtype_c)->name);
    }
    if (s->batch != 1) {
        strbuf_fmt(out, " batch=%lld", (long long)s->batch);
    }
    strbuf_fmt(out, " alpha=%g beta=%g", s->alpha, s->beta);
    if (s->other_fp8_b) {
        strbuf_fmt(out, " B in %s", dtype_info(gemm_dtype_b(s))->name);
    }
    if (gemm_is_scaled(s)) {
        strbuf_fmt(out, " scales %g, %g", s->scale_a, s->scale_b);
    }
}
