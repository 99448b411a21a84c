// SPDX-License-Identifier: Apache-2.0
/*
 * Three passes: plainer (values, scalars, batch, padding, transposes), smaller by halves and by one,
 * then every size below the one found in order of volume, because the smallest failing size need not
 * lie on a path of failing ones.
 */
#include "ops/gemm_shrink.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/vec.h"

enum {
    ROUNDS_MAX = 200,
    BELOW_MAX = 20000,
    BELOW_SIDE = 48,
    TILE = 64,
    HANG_MS = 1000,
    DEVICE_MS = 120000
};

int64_t gemm_shrink_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool is_late(const struct gemm_shrink *z)
{
    return z->until_ms != 0 && gemm_shrink_now_ms() >= z->until_ms;
}

/* A fault of a device costs seconds: the first will do, where one is all that is asked. */
static bool go_on(void *context, const struct gemm_result *so_far, size_t done)
{
    struct gemm_shrink *z = context;
    (void)done;
    bool enough = z->first_only && z->target->device_kind != DEVICE_CPU && so_far->faulty != 0;
    z->late = z->late || (!enough && is_late(z));
    return !enough && !z->late;
}

enum status gemm_shrink_run(struct gemm_shrink *z, const struct gemm_probe_list *list,
                            struct err *err)
{
    const struct gemm_source source = gemm_source_of_list(list);
    bool device = z->target->device_kind != DEVICE_CPU;
    const struct gemm_trial_options options = {
        .deadline_ms = device                  ? DEVICE_MS
                       : z->kind == GEMM_HANGS ? HANG_MS
                                               : 0,
        .crashes_allowed = (unsigned)list->count,
        .tick_context = z,
        .tick = z->until_ms != 0 || (device && z->first_only) ? go_on : NULL,
    };
    if (is_late(z)) {
        z->late = true;
        memset(z->result, 0, sizeof *z->result);
        return ST_OK;
    }
    return gemm_trial(z->target, &source, &options, z->result, err);
}

const struct gemm_fault *gemm_shrink_outcome(const struct gemm_shrink *z, size_t index)
{
    const struct gemm_result *r = z->result;
    for (size_t i = 0; i < r->fault_count; i++) {
        const struct gemm_fault *f = &r->faults[i];
        if (f->index == index && f->kind == z->kind && f->operand == z->operand) {
            return f;
        }
    }
    return NULL;
}

/* Leading dimensions beyond the smallest. */
struct pads {
    int64_t a, b, c;
};

static struct pads pads_of(const struct gemm_shape *s)
{
    struct gemm_shape packed = *s;
    gemm_shape_pack(&packed, 0, 0, 0);
    return (struct pads){s->lda - packed.lda, s->ldb - packed.ldb, s->ldc - packed.ldc};
}

static struct gemm_probe resized(const struct gemm_probe *p, int64_t m, int64_t n, int64_t k)
{
    struct gemm_probe q = *p;
    struct pads pads = pads_of(&p->shape);
    q.shape.m = m;
    q.shape.n = n;
    q.shape.k = k;
    gemm_shape_pack(&q.shape, pads.a, pads.b, pads.c);
    if (q.shape.alignment_bytes != 0) {
        q.shape.alignment_bytes = gemm_shape_alignment(&q.shape, p->shape.alignment_bytes);
    }
    return q;
}

/* Takes the first candidate that fails; true when there is one. */
static enum status take_first(struct gemm_shrink *z, const struct gemm_probe_list *list,
                              bool *ret_taken, struct err *err)
{
    *ret_taken = false;
    if (list->count == 0) {
        return ST_OK;
    }
    z->first_only = true;
    enum status st = gemm_shrink_run(z, list, err);
    z->first_only = false;
    TRY(st);
    const struct gemm_result *r = z->result;
    const struct gemm_fault *first = NULL;
    for (size_t i = 0; i < r->fault_count; i++) {
        const struct gemm_fault *f = &r->faults[i];
        bool wanted = f->kind == z->kind && f->operand == z->operand;
        if (wanted && (first == NULL || f->index < first->index)) {
            first = f;
        }
    }
    if (first != NULL) {
        z->best = list->items[first->index];
        z->fault = *first;
        *ret_taken = true;
    }
    return ST_OK;
}

/* --- plainer ----------------------------------------------------------------------------------- */

enum plain_step {
    PLAIN_VALUES = 0,
    PLAIN_BATCH,
    PLAIN_BETA_ZERO,
    PLAIN_BETA_ONE,
    PLAIN_ALPHA,
    PLAIN_PADS,
    PLAIN_LDA,
    PLAIN_LDB,
    PLAIN_LDC,
    PLAIN_TA,
    PLAIN_TB,
    PLAIN_COUNT
};

/* False when the probe is that plain already. */
static bool plainer(struct gemm_probe *p, enum plain_step step)
{
    struct gemm_shape *s = &p->shape;
    struct pads pads = pads_of(s);
    struct gemm_probe before = *p;
    switch (step) {
    case PLAIN_VALUES: p->values = GEMM_VALUES_GRID; return before.values != p->values;
    case PLAIN_BATCH:
        if (s->batch == 1) {
            return false;
        }
        s->batch = 1;
        s->stride_a = s->stride_b = s->stride_c = 0;
        return true;
    case PLAIN_BETA_ZERO: s->beta = 0; return before.shape.beta != 0;
    case PLAIN_BETA_ONE: s->beta = 1; return before.shape.beta != 1 && before.shape.beta != 0;
    case PLAIN_ALPHA: s->alpha = 1; return before.shape.alpha != 1;
    case PLAIN_PADS: gemm_shape_pack(s, 0, 0, 0); return pads.a + pads.b + pads.c != 0;
    case PLAIN_LDA: gemm_shape_pack(s, 0, pads.b, pads.c); return pads.a != 0;
    case PLAIN_LDB: gemm_shape_pack(s, pads.a, 0, pads.c); return pads.b != 0;
    case PLAIN_LDC: gemm_shape_pack(s, pads.a, pads.b, 0); return pads.c != 0;
    case PLAIN_TA: s->transpose_a = false; break;
    case PLAIN_TB: s->transpose_b = false; break;
    default: return false;
    }
    gemm_shape_pack(s, pads.a, pads.b, pads.c);
    return before.shape.transpose_a != s->transpose_a || before.shape.transpose_b != s->transpose_b;
}

static enum status make_plain(struct gemm_shrink *z, struct err *err)
{
    for (enum plain_step step = 0; step < PLAIN_COUNT; step++) {
        struct gemm_probe p = z->best;
        struct gemm_probe_list one = {0};
        bool taken;
        if (plainer(&p, step)) {
            *VEC_PUSH(z->arena, &one) = p;
            TRY(take_first(z, &one, &taken, err));
        }
    }
    return ST_OK;
}

/* --- smaller ----------------------------------------------------------------------------------- */

static void add_smaller(struct gemm_shrink *z, struct gemm_probe_list *list, int which,
                        int64_t size)
{
    const struct gemm_shape *s = &z->best.shape;
    int64_t sizes[] = {s->m, s->n, s->k};
    if (size < 1 || size >= sizes[which]) {
        return;
    }
    sizes[which] = size;
    *VEC_PUSH(z->arena, list) = resized(&z->best, sizes[0], sizes[1], sizes[2]);
}

static enum status make_smaller(struct gemm_shrink *z, struct err *err)
{
    bool taken = true;
    for (int round = 0; round < ROUNDS_MAX && taken; round++) {
        const struct gemm_shape *s = &z->best.shape;
        const int64_t sizes[] = {s->m, s->n, s->k};
        struct gemm_probe_list list = {0};
        static const int64_t parts[][2] = {{1, 64}, {1, 8}, {1, 2}, {3, 4}, {7, 8}};
        for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
            for (int d = 0; d < 3; d++) {
                add_smaller(z, &list, d, sizes[d] * parts[i][0] / parts[i][1]);
            }
        }
        for (int d = 0; d < 3; d++) {
            add_smaller(z, &list, d, sizes[d] - 1);
        }
        TRY(take_first(z, &list, &taken, err));
    }
    return ST_OK;
}

static int by_volume(const void *x, const void *y)
{
    const struct gemm_shape *a = &((const struct gemm_probe *)x)->shape;
    const struct gemm_shape *b = &((const struct gemm_probe *)y)->shape;
    int64_t va = a->m * a->n * a->k;
    int64_t vb = b->m * b->n * b->k;
    int64_t sa = a->m + a->n + a->k;
    int64_t sb = b->m + b->n + b->k;
    int64_t d = va != vb ? va - vb : sa != sb ? sa - sb : a->m != b->m ? a->m - b->m : a->n - b->n;
    return d < 0 ? -1 : d > 0;
}

/* Every size of a smaller volume, smallest first. */
static enum status try_below(struct gemm_shrink *z, struct err *err)
{
    const struct gemm_shape *s = &z->best.shape;
    struct gemm_probe_list list = {0};
    int64_t most = s->m * s->n * s->k;
    for (int64_t m = 1; m <= BELOW_SIDE; m++) {
        for (int64_t n = 1; n <= BELOW_SIDE; n++) {
            for (int64_t k = 1; k <= BELOW_SIDE && m * n * k < most; k++) {
                *VEC_PUSH(z->arena, &list) = resized(&z->best, m, n, k);
            }
        }
    }
    if (list.count == 0) {
        return ST_OK;
    }
    qsort(list.items, list.count, sizeof *list.items, by_volume);
    list.count = list.count > BELOW_MAX ? BELOW_MAX : list.count;
    bool taken;
    return take_first(z, &list, &taken, err);
}

enum status gemm_shrink(struct gemm_shrink *z, struct err *err)
{
    bool jumpable = z->kind < GEMM_ABORTS && z->target->device_kind == DEVICE_CPU;
    TRY(make_plain(z, err));
    if (z->kind != GEMM_HANGS) {
        TRY(make_smaller(z, err));
    }
    if (jumpable) {
        TRY(try_below(z, err));
    }
    return make_plain(z, err);
}

/* --- neighbours -------------------------------------------------------------------------------- */

enum status gemm_shrink_neighbours(struct gemm_shrink *z, struct arena *a,
                                   struct gemm_neighbour_list *ret, struct err *err)
{
    const struct gemm_shape *s = &z->best.shape;
    struct pads pads = pads_of(s);
    struct gemm_probe_list list = {0};
    struct gemm_neighbour_list words = {0};
    for (int d = 0; d < 6; d++) {
        int64_t sizes[] = {s->m, s->n, s->k};
        sizes[d / 2] += d % 2 == 0 ? -1 : 1;
        if (sizes[d / 2] < 1) {
            continue;
        }
        *VEC_PUSH(z->arena, &list) = resized(&z->best, sizes[0], sizes[1], sizes[2]);
        VEC_PUSH(a, &words)->change = arena_fmt(a, "%c=%lld", "mnk"[d / 2],
                                                (long long)sizes[d / 2]);
    }
    for (int d = 0; d < 3; d++) {
        int64_t sizes[] = {s->m, s->n, s->k};
        int64_t whole = (sizes[d] + TILE - 1) / TILE * TILE;
        if (whole > sizes[d] + 1) {
            sizes[d] = whole; /* a size that fills the tile of most kernels */
            *VEC_PUSH(z->arena, &list) = resized(&z->best, sizes[0], sizes[1], sizes[2]);
            VEC_PUSH(a, &words)->change = arena_fmt(a, "%c=%lld", "mnk"[d], (long long)whole);
        }
    }
    for (int d = 0; d < 3; d++) {
        struct gemm_probe p = z->best;
        gemm_shape_pack(&p.shape, pads.a + (d == 0), pads.b + (d == 1), pads.c + (d == 2));
        const int64_t leading[] = {p.shape.lda, p.shape.ldb, p.shape.ldc};
        *VEC_PUSH(z->arena, &list) = p;
        VEC_PUSH(a, &words)->change = arena_fmt(a, "ld%c=%lld", "abc"[d], (long long)leading[d]);
    }
    struct gemm_probe p = z->best;
    p.shape.beta = s->beta == 0 ? 1 : 0;
    *VEC_PUSH(z->arena, &list) = p;
    VEC_PUSH(a, &words)->change = arena_fmt(a, "beta=%g", p.shape.beta);
    TRY(gemm_shrink_run(z, &list, err));
    if (z->late) {
        return ST_OK;
    }
    for (size_t i = 0; i < list.count; i++) {
        for (size_t f = 0; f < z->result->fault_count; f++) {
            words.items[i].fails = words.items[i].fails || z->result->faults[f].index == i;
        }
    }
    *ret = words;
    return ST_OK;
}
