// SPDX-License-Identifier: Apache-2.0
/* Pairs are made by name; their values are compared in windows over the cores. */
#include "model/compare.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/pool.h"

#include "model/dcp.h"
#include "model/tensor_names.h"

enum {
    WINDOW_ELEMENTS = 1 << 20,
    BLOCK = 4096
};

const char *compare_state_name(enum compare_state s)
{
    static const char *const names[COMPARE_STATE_COUNT] = {
        [COMPARE_EQUAL] = "equal",          [COMPARE_DIFFERENT] = "different",
        [COMPARE_SHAPE] = "other shape",    [COMPARE_OPAQUE] = "not compared",
        [COMPARE_ONLY_A] = "only in first", [COMPARE_ONLY_B] = "only in second",
        [COMPARE_UNREAD] = "bytes missing",
    };
    return s < COMPARE_STATE_COUNT ? names[s] : "?";
}

double compare_cosine(const struct compare_tensor *t)
{
    double norms = sqrt(t->sum_a_sq) * sqrt(t->sum_b_sq);
    return norms > 0 ? t->sum_ab / norms : 0;
}

double compare_update_ratio(const struct compare_tensor *t)
{
    return t->sum_a_sq > 0 ? sqrt(t->sum_difference_sq / t->sum_a_sq) : 0;
}

/* ---- pairs ---- */

static enum compare_state state_of(const struct tensor *a, const struct tensor *b)
{
    if (a->rank != b->rank || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) != 0) {
        return COMPARE_SHAPE;
    }
    if (!a->present || !b->present) {
        return COMPARE_UNREAD;
    }
    return tensor_readable(a) && tensor_readable(b) ? COMPARE_EQUAL : COMPARE_OPAQUE;
}

/* ---- values ---- */

struct window {
    struct compare_tensor *pair;
    uint64_t first;
    uint64_t count;
    bool failed;
    struct compare_tensor sums;
};

struct comparing {
    VEC_OF(struct window) windows;

    uint64_t total;
    atomic_uint_fast64_t done;
    const struct compare_options *options;
};

static uint64_t bytes_of(const struct tensor *t, uint64_t elements)
{
    return elements / t->type->per_block * t->type->block_bytes;
}

static void add_values(struct compare_tensor *s, const double *a, const double *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool same = a[i] == b[i] || (isnan(a[i]) && isnan(b[i]));
        s->changed += !same;
        double difference = b[i] - a[i];
        if (!isfinite(a[i]) || !isfinite(b[i])) {
            s->not_finite++;
            continue;
        }
        double size = fabs(difference);
        s->max_difference = size > s->max_difference ? size : s->max_difference;
        s->sum_difference_sq += difference * difference;
        s->sum_a_sq += a[i] * a[i];
        s->sum_b_sq += b[i] * b[i];
        s->sum_ab += a[i] * b[i];
    }
}

/* Parts that are the same bytes are the most of many comparisons: they are only counted, much faster.
 * False when they differ, or their bytes do not stand for their values one by one. */
static bool same_window(struct window *w)
{
    const struct compare_tensor *p = w->pair;
    unsigned size = p->a->type->block_bytes;
    const struct file_map *x = &p->file_a->map;
    const struct file_map *y = &p->file_b->map;
    uint64_t n = w->count * size;
    uint64_t at = p->a->offset + w->first * size;
    uint64_t bt = p->b->offset + w->first * size;
    if (p->a->type != p->b->type || p->a->type->values != VALUES_PLAIN || p->a->stride != NULL ||
        p->b->stride != NULL || file_map_populate(x, at, n, NULL) != ST_OK ||
        file_map_populate(y, bt, n, NULL) != ST_OK || memcmp(x->p + at, y->p + bt, n) != 0) {
        return false;
    }
    struct tensor_stats stats = tensor_stats_none();
    tensor_scan(p->a->type->dtype, x->p + at, w->count, at, w->first, &stats);
    w->sums.not_finite = stats.nan + stats.inf;
    w->sums.sum_a_sq = w->sums.sum_b_sq = w->sums.sum_ab = stats.sum_squares;
    return true;
}

static void compare_window(void *ctx, size_t index)
{
    struct comparing *c = ctx;
    struct window *w = &c->windows.items[index];
    const struct compare_tensor *p = w->pair;
    if (same_window(w)) {
        atomic_fetch_add(&c->done, bytes_of(p->a, w->count));
        return;
    }
    double a[BLOCK];
    double b[BLOCK];
    for (uint64_t done = 0; done < w->count && !w->failed; done += BLOCK) {
        size_t n = w->count - done < BLOCK ? (size_t)(w->count - done) : BLOCK;
        if (tensor_values(p->file_a, p->a, w->first + done, n, a, NULL) != ST_OK ||
            tensor_values(p->file_b, p->b, w->first + done, n, b, NULL) != ST_OK) {
            w->failed = true;
            break;
        }
        add_values(&w->sums, a, b, n);
    }
    atomic_fetch_add(&c->done, bytes_of(p->a, w->count));
}

static void tick(void *ctx)
{
    struct comparing *c = ctx;
    if (c->options->progress != NULL) {
        c->options->progress(c->options->ctx, atomic_load(&c->done), c->total);
    }
}

static void add_windows(struct arena *arena, struct comparing *c, struct compare_tensor *pair)
{
    for (uint64_t at = 0; at < pair->elements; at += WINDOW_ELEMENTS) {
        uint64_t left = pair->elements - at;
        struct window w = {.pair = pair, .first = at};
        w.count = left < WINDOW_ELEMENTS ? left : WINDOW_ELEMENTS;
        c->total += bytes_of(pair->a, w.count);
        *VEC_PUSH(arena, &c->windows) = w;
    }
}

static void add_sums(struct compare_tensor *t, const struct window *w)
{
    const struct compare_tensor *s = &w->sums;
    t->changed += s->changed;
    t->not_finite += s->not_finite;
    t->max_difference = s->max_difference > t->max_difference ? s->max_difference
                                                              : t->max_difference;
    t->sum_difference_sq += s->sum_difference_sq;
    t->sum_a_sq += s->sum_a_sq;
    t->sum_b_sq += s->sum_b_sq;
    t->sum_ab += s->sum_ab;
    if (w->failed) {
        t->state = COMPARE_UNREAD;
    } else if (t->changed != 0 && t->state == COMPARE_EQUAL) {
        t->state = COMPARE_DIFFERENT;
    }
}

/* A head that one of the two leaves out because it is tied: held against the embeddings there. */
static struct tensor_place *tied_head(const struct tensor_names *n, struct arena *arena,
                                      const char *name)
{
    if (!str_is(tensor_names_bare(arena, name), "lm_head.weight")) {
        return NULL;
    }
    return tensor_names_find(n, "embed_tokens.weight");
}

static int by_name(const void *x, const void *y)
{
    return strcmp(((const struct compare_tensor *)x)->name,
                  ((const struct compare_tensor *)y)->name);
}

static void make_pairs(struct checkpoint *a, struct checkpoint *b, struct compare *d)
{
    struct tensor_names in_a;
    struct tensor_names in_b;
    tensor_names_list(a, &in_a);
    tensor_names_list(b, &in_b);
    d->tensors = arena_array(a->arena, in_a.all.count + in_b.all.count, sizeof *d->tensors);
    d->count = 0;
    for (size_t i = 0; i < in_a.all.count; i++) {
        const struct tensor_place *pa = in_a.all.items[i];
        struct tensor_place *pb = tensor_names_find(&in_b, pa->tensor->name);
        pb = pb != NULL ? pb : tied_head(&in_b, a->arena, pa->tensor->name);
        struct compare_tensor *t = &d->tensors[d->count++];
        *t = (struct compare_tensor){.name = pa->tensor->name,
                                     .file_a = pa->file,
                                     .a = pa->tensor,
                                     .elements = pa->tensor->elements,
                                     .state = COMPARE_ONLY_A};
        if (pb != NULL) {
            pb->taken = true;
            t->file_b = pb->file;
            t->a = tensor_parts(a->arena, pa->tensor);
            t->b = tensor_parts(a->arena, pb->tensor);
            t->elements = t->a->elements;
            t->state = state_of(t->a, t->b);
        }
    }
    size_t of_a = d->count;
    for (size_t i = 0; i < in_b.all.count; i++) {
        const struct tensor_place *pb = in_b.all.items[i];
        if (pb->taken) {
            continue;
        }
        const struct tensor_place *pa = tied_head(&in_a, a->arena, pb->tensor->name);
        struct compare_tensor *t = &d->tensors[d->count++];
        *t = (struct compare_tensor){
            .name = pb->tensor->name, .file_b = pb->file, .b = pb->tensor, .state = COMPARE_ONLY_B};
        if (pa != NULL) {
            t->file_a = pa->file;
            t->a = pa->tensor;
            t->elements = pa->tensor->elements;
            t->state = state_of(t->a, t->b);
        }
    }
    if (of_a > 1) {
        qsort(d->tensors, of_a, sizeof *d->tensors, by_name);
    }
}

/* ---- issues ---- */

/* Chunks of distributed checkpoints: another world size cuts tensors otherwise. */
static bool is_chunk(const struct compare_tensor *t)
{
    return (t->file_a != NULL && t->file_a->format == &tensor_format_distcp) ||
           (t->file_b != NULL && t->file_b->format == &tensor_format_distcp);
}

static void judge(struct checkpoint *a, const struct compare_tensor *t)
{
    const char *name = issue_text(a->arena, str_of(t->name));
    bool apart = t->state == COMPARE_ONLY_A || t->state == COMPARE_ONLY_B ||
                 t->state == COMPARE_SHAPE;
    if (apart && is_chunk(t)) {
        issue_add(a->issues, SEVERITY_UNKNOWN, "diff-chunks", "chunks are not joined",
                  "'%s' is cut otherwise in the two, as another world size cuts it: it was not "
                  "compared.",
                  name);
        return;
    }
    switch (t->state) {
    case COMPARE_ONLY_A:
    case COMPARE_ONLY_B:
        issue_add(a->issues, SEVERITY_WARNING, "diff-only-one",
                  "a tensor is in one of the two only", "'%s' is %s.", name,
                  compare_state_name(t->state));
        break;
    case COMPARE_SHAPE:
        issue_add(a->issues, SEVERITY_ERROR, "diff-shape", "a tensor has another shape",
                  "'%s' is %s in the first and %s in the second.", name,
                  tensor_shape_text(a->arena, t->a->shape, t->a->rank),
                  tensor_shape_text(a->arena, t->b->shape, t->b->rank));
        break;
    case COMPARE_UNREAD:
    case COMPARE_OPAQUE:
        issue_add(a->issues, SEVERITY_UNKNOWN, "diff-unread", "a tensor could not be compared",
                  "'%s': %s.", name, compare_state_name(t->state));
        break;
    default: break;
    }
    if (t->not_finite != 0) {
        issue_add(a->issues, SEVERITY_ERROR, "diff-not-finite", "NaN or infinities are compared",
                  "%llu elements of '%s' are not finite in one of the two.",
                  (unsigned long long)t->not_finite, name);
    }
    bool bf16 = t->state == COMPARE_DIFFERENT && t->a->type->dtype == DTYPE_BF16 &&
                t->b->type->dtype == DTYPE_BF16;
    double still = 1 - (double)t->changed / (double)(t->elements != 0 ? t->elements : 1);
    if (bf16 && t->elements >= 1024 && still >= COMPARE_STAGNANT) {
        issue_add(
            a->issues, SEVERITY_WARNING, "bf16-stagnation", "most bf16 elements did not move",
            "%.1f %% of '%s' did not change (update/weight %.2g): updates smaller than half a "
            "bf16 step (2^-9 of the value) are lost without float32 master weights.",
            100 * still, name, compare_update_ratio(t));
    }
}

void compare_two(struct checkpoint *a, struct checkpoint *b, const struct compare_options *options,
                 struct compare *ret_compare)
{
    struct comparing c = {.options = options};
    struct compare d;
    make_pairs(a, b, &d);
    for (size_t i = 0; i < d.count; i++) {
        if (d.tensors[i].state == COMPARE_EQUAL) {
            add_windows(a->arena, &c, &d.tensors[i]);
        }
    }
    struct pool_job job = {
        .count = c.windows.count, .item = compare_window, .tick = tick, .ctx = &c};
    pool_run(options->threads, &job);
    for (size_t i = 0; i < c.windows.count; i++) {
        add_sums(c.windows.items[i].pair, &c.windows.items[i]);
    }
    size_t counts[COMPARE_STATE_COUNT] = {0};
    a->issues->file = b->path;
    for (size_t i = 0; i < d.count; i++) {
        counts[d.tensors[i].state]++;
        judge(a, &d.tensors[i]);
    }
    if (counts[COMPARE_DIFFERENT] != 0) {
        issue_add(a->issues, SEVERITY_NOTE, "diff-values", "values differ",
                  "%zu tensors differ, %zu are equal.", counts[COMPARE_DIFFERENT],
                  counts[COMPARE_EQUAL]);
    }
    *ret_compare = d;
}

/* ---- replicas ---- */

struct replica_item {
    const struct tensor_file *file;
    const struct tensor *tensor;
    enum status status;
    struct digest digest;
};

static void hash_replica(void *ctx, size_t index)
{
    struct replica_item *i = &((struct replica_item *)ctx)[index];
    i->digest.hex[0] = '\0';
    i->status = i->tensor == NULL || !i->tensor->present
                    ? ST_ABSENT
                    : digest_map(DIGEST_XXH3, &i->file->map, i->tensor->offset, i->tensor->bytes,
                                 NULL, NULL, &i->digest, NULL);
}

/* The replica whose tensor most others share; all are named that differ from it. */
static void judge_replicas(struct checkpoint *c, size_t count, const char *name,
                           const struct replica_item *row)
{
    size_t best = 0;
    size_t votes = 0;
    for (size_t i = 0; i < count; i++) {
        size_t same = 0;
        for (size_t k = 0; k < count; k++) {
            same += strcmp(row[i].digest.hex, row[k].digest.hex) == 0;
        }
        if (same > votes && row[i].status == ST_OK) {
            votes = same;
            best = i;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (votes != count && strcmp(row[i].digest.hex, row[best].digest.hex) != 0) {
            c->issues->file = c[i].path;
            issue_add(
                c->issues, SEVERITY_ERROR, "replica-differs", "a replica differs from the others",
                "'%s' %s; %zu of %zu replicas agree on it.", issue_text(c->arena, str_of(name)),
                row[i].status == ST_OK ? "holds other bits here" : "is missing here", votes, count);
        }
    }
}

void compare_replicas(struct checkpoint *c, size_t count, const struct compare_options *options)
{
    struct tensor_names *names = arena_array(c->arena, count, sizeof *names);
    struct map *all = map_new(c->arena);
    for (size_t i = 0; i < count; i++) {
        tensor_names_list(&c[i], &names[i]);
        for (size_t t = 0; t < names[i].all.count; t++) {
            map_put(all, str_of(names[i].all.items[t]->tensor->name), c);
        }
    }
    size_t rows = map_count(all);
    struct replica_item *items = arena_array(c->arena, rows * count, sizeof *items);
    for (size_t r = 0; r < rows; r++) {
        for (size_t i = 0; i < count; i++) {
            const struct tensor_place *p = map_get(names[i].exact, str_of(map_key(all, r)));
            if (p != NULL) {
                items[r * count + i].file = p->file;
                items[r * count + i].tensor = p->tensor;
            }
        }
    }
    struct pool_job job = {.count = rows * count, .item = hash_replica, .ctx = items};
    pool_run(options->threads, &job);
    for (size_t r = 0; r < rows; r++) {
        judge_replicas(c, count, map_key(all, r), items + r * count);
    }
    c->issues->file = c->path;
}
