// SPDX-License-Identifier: Apache-2.0
/* The delta of each module is computed row by row and held against what merging changed. */
#include "model/merge.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/pool.h"

#include "model/folder.h"
#include "model/tensor_names.h"

enum {
    ROWS = 16,       /* of one piece of work */
    RANK_MAX = 8192, /* of an adapter */
    WIDTH_MAX = 1 << 22
};

struct adapter {
    const struct tree *config;
    struct checkpoint files;
    struct tensor_names names;
    double alpha;
    bool root; /* use_rslora */
    bool transposed;
};

struct merging {
    struct checkpoint *base;
    struct checkpoint *merged;
    struct adapter adapter;
    struct tensor_names in_base;
    struct tensor_names in_merged;
    const struct compare_options *options;
    uint64_t total;
    atomic_uint_fast64_t done;
};

/* Sums over a part of a module. */
struct sums {
    double delta_sq;
    double change_sq;
    double product; /* of change and delta */
    uint64_t outside;
    bool failed;
};

struct module {
    struct merging *m;
    struct tensor_place a;
    struct tensor_place b;
    struct tensor_place old;
    struct tensor_place new;
    uint64_t rank;
    uint64_t in;
    uint64_t out;
    double scale;
    const double *values_a; /* [rank, in] */
    struct sums *parts;
    double unit_w;     /* unit roundoff of the merged type */
    double unit_delta; /* of the coarser of adapter and merged type */
    double unit_load;  /* of the merged type when the base is finer; else 0 */
    double least;      /* half the smallest step of the merged type */
};

const char *merge_state_name(enum merge_state s)
{
    static const char *const names[MERGE_STATE_COUNT] = {
        [MERGE_RIGHT] = "right",   [MERGE_ABSENT] = "not merged",   [MERGE_SCALED] = "other scale",
        [MERGE_OTHER] = "differs", [MERGE_UNREAD] = "not compared",
    };
    return s < MERGE_STATE_COUNT ? names[s] : "?";
}

/* ---- the adapter ---- */

static double number(const struct tree *t, double fallback)
{
    double value = fallback;
    if (t != NULL && t->kind == TREE_SCALAR && str_to_double(str_of(t->text), &value) != ST_OK) {
        value = NAN;
    }
    return value;
}

static bool is_true(const struct tree *config, const char *key)
{
    return strcmp(tree_text(config, key, "false"), "true") == 0;
}

/* `ret_file`: its tensors. */
static enum status read_config(struct merging *m, const char *path, const char **ret_file,
                               struct err *err)
{
    struct folder f;
    struct adapter *a = &m->adapter;
    if (!folder_open(m->base->arena, path, m->base->issues, &f, err)) {
        return err->status;
    }
    if (!folder_has(&f, "adapter_config.json") ||
        !folder_json(&f, "adapter_config.json", &a->config)) {
        return err_set(err, ST_FORMAT, "'%s' is no adapter: it has no readable adapter_config.json",
                       path);
    }
    if (strcmp(tree_text(a->config, "peft_type", ""), "LORA") != 0) {
        return err_set(err, ST_UNSUPPORTED, "'%s' is an adapter of kind \"%.40s\", not LORA", path,
                       tree_text(a->config, "peft_type", ""));
    }
    if (is_true(a->config, "use_dora")) {
        return err_set(err, ST_UNSUPPORTED, "'%s' is a DoRA adapter: its merge is not checked",
                       path);
    }
    a->alpha = number(tree_get(a->config, "lora_alpha"), 8);
    a->root = is_true(a->config, "use_rslora");
    a->transposed = is_true(a->config, "fan_in_fan_out");
    if (!isfinite(a->alpha)) {
        return err_set(err, ST_FORMAT, "lora_alpha in '%s/adapter_config.json' is no number", path);
    }
    bool safe = folder_has(&f, "adapter_model.safetensors");
    *ret_file = folder_join(&f, safe ? "adapter_model.safetensors" : "adapter_model.bin");
    return ST_OK;
}

/* A key of alpha_pattern matches the whole path of a module or its end behind a dot. */
static double alpha_of(const struct adapter *a, struct str module)
{
    const struct tree *pattern = tree_get(a->config, "alpha_pattern");
    for (const struct tree *t = pattern != NULL ? pattern->child : NULL; t != NULL; t = t->next) {
        struct str key = str_of(t->key);
        if (str_eq(module, key) || (module.n > key.n && str_ends(module, t->key) &&
                                    module.p[module.n - key.n - 1] == '.')) {
            return number(t, NAN);
        }
    }
    return a->alpha;
}

/* ---- one module ---- */

static void add_row(const struct module *x, const double *delta, const double *size,
                    const double *old, const double *new, struct sums *s)
{
    double noise = ((double)x->rank + 4) * 0x1p-24;
    for (uint64_t j = 0; j < x->in; j++) {
        double change = new[j] - old[j];
        double wanted = old[j] + delta[j];
        double allowed = x->unit_w * 1.01 * fabs(wanted) + x->unit_load * fabs(old[j]) +
                         4 * x->unit_delta * fabs(delta[j]) + noise * size[j] + x->least;
        s->outside += !(fabs(new[j] - wanted) <= allowed);
        s->delta_sq += delta[j] * delta[j];
        s->change_sq += change * change;
        s->product += change * delta[j];
    }
}

/* Row `i` of s B A, and of s |B| |A|, which bounds its roundings. */
static void delta_row(const struct module *x, const double *b, double *delta, double *size)
{
    memset(delta, 0, x->in * sizeof *delta);
    memset(size, 0, x->in * sizeof *size);
    for (uint64_t k = 0; k < x->rank; k++) {
        const double *a = x->values_a + k * x->in;
        double factor = x->scale * b[k];
        for (uint64_t j = 0; j < x->in; j++) {
            double term = factor * a[j];
            delta[j] += term;
            size[j] += fabs(term);
        }
    }
}

/* Row `i` of a weight [out, in], or column `i` of one stored [in, out]. */
static bool read_row(const struct module *x, const struct tensor_place *p, uint64_t i, double *ret)
{
    if (!x->m->adapter.transposed) {
        return tensor_values(p->file, p->tensor, i * x->in, (size_t)x->in, ret, NULL) == ST_OK;
    }
    for (uint64_t j = 0; j < x->in; j++) {
        if (tensor_values(p->file, p->tensor, j * x->out + i, 1, &ret[j], NULL) != ST_OK) {
            return false;
        }
    }
    return true;
}

static void work(void *ctx, size_t index)
{
    struct module *x = ctx;
    struct sums *s = &x->parts[index];
    struct arena *scratch = arena_new(0);
    double *delta = arena_array(scratch, (size_t)x->in * 4 + (size_t)x->rank, sizeof *delta);
    double *size = delta + x->in;
    double *old = size + x->in;
    double *new = old + x->in;
    double *b = new + x->in;
    uint64_t first = (uint64_t)index * ROWS;
    uint64_t last = first + ROWS < x->out ? first + ROWS : x->out;
    for (uint64_t i = first; i < last && !s->failed; i++) {
        s->failed = tensor_values(x->b.file, x->b.tensor, i * x->rank, (size_t)x->rank, b, NULL) !=
                        ST_OK ||
                    !read_row(x, &x->old, i, old) || !read_row(x, &x->new, i, new);
        if (!s->failed) {
            delta_row(x, b, delta, size);
            add_row(x, delta, size, old, new, s);
        }
    }
    atomic_fetch_add(&x->m->done, (last - first) * x->in);
    arena_free(scratch);
}

static void tick(void *ctx)
{
    struct module *x = ctx;
    if (x->m->options->progress != NULL) {
        x->m->options->progress(x->m->options->ctx, atomic_load(&x->m->done), x->m->total);
    }
}

static void judge(struct module *x, const struct sums *s, struct merge_module *ret)
{
    ret->fitted = s->delta_sq > 0 ? x->scale * s->product / s->delta_sq : NAN;
    double left_sq = s->change_sq - 2 * s->product + s->delta_sq;
    ret->residual = s->delta_sq > 0 ? sqrt(fmax(left_sq, 0) / s->delta_sq) : 0;
    ret->outside = s->outside;
    /* What is left when the best multiple of the delta is taken away. */
    double factor = s->delta_sq > 0 ? s->product / s->delta_sq : 0;
    double rest_sq = s->change_sq - factor * s->product;
    if (s->outside == 0) {
        ret->state = MERGE_RIGHT;
    } else if (s->change_sq == 0) {
        ret->state = MERGE_ABSENT;
    } else if (rest_sq <= 0.01 * s->change_sq && fabs(factor - 1) > 0.01) {
        ret->state = MERGE_SCALED;
    } else {
        ret->state = MERGE_OTHER;
    }
}

static double coarser(double a, double b)
{
    return a > b ? a : b;
}

static void set_tolerances(struct module *x)
{
    const struct dtype_info *info = dtype_info(x->new.tensor->type->dtype);
    double unit_a = dtype_unit_roundoff(x->a.tensor->type->dtype);
    double unit_old = dtype_unit_roundoff(x->old.tensor->type->dtype);
    x->unit_w = dtype_unit_roundoff(x->new.tensor->type->dtype);
    x->unit_delta = coarser(x->unit_w, unit_a);
    x->unit_load = unit_old < x->unit_w ? x->unit_w : 0;
    x->least = ldexp(1, info->min_exponent - (int)info->mantissa_bits);
}

/* Both files of a pair and both weights, when they are matrices that fit; false with an issue. */
static bool set_shapes(struct module *x, const char *name)
{
    const struct tensor *a = x->a.tensor;
    const struct tensor *b = x->b.tensor;
    struct checkpoint *base = x->m->base;
    const char *shown = issue_text(base->arena, str_of(name));
    const struct tensor *all[] = {a, b, x->old.tensor, x->new.tensor};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        bool plain = tensor_readable(all[i]) && all[i]->type->values == VALUES_PLAIN &&
                     dtype_info(all[i]->type->dtype)->is_float;
        if (!plain || all[i]->rank != 2) {
            issue_add(base->issues, SEVERITY_UNKNOWN, "merge-unread",
                      "a merged module could not be compared",
                      "'%s': '%s' is no matrix of plain values that are all there.", shown,
                      issue_text(base->arena, str_of(all[i]->name)));
            return false;
        }
    }
    x->rank = a->shape[0];
    x->in = a->shape[1];
    x->out = b->shape[0];
    unsigned row = x->m->adapter.transposed ? 1 : 0;
    bool fits = b->shape[1] == x->rank && x->rank > 0 && x->rank <= RANK_MAX && x->in > 0 &&
                x->in <= WIDTH_MAX;
    for (size_t i = 2; i < ARRAY_LEN(all); i++) {
        fits = fits && all[i]->shape[row] == x->out && all[i]->shape[1 - row] == x->in;
    }
    if (!fits) {
        issue_add(base->issues, SEVERITY_ERROR, "merge-shape",
                  "adapter, base and merged model do not fit each other",
                  "'%s': lora_A %s, lora_B %s, base %s, merged %s.", shown,
                  tensor_shape_text(base->arena, a->shape, 2),
                  tensor_shape_text(base->arena, b->shape, 2),
                  tensor_shape_text(base->arena, all[2]->shape, 2),
                  tensor_shape_text(base->arena, all[3]->shape, 2));
    }
    return fits;
}

static void check_module(struct module *x, struct merge_module *ret)
{
    struct arena *scratch = arena_new(0);
    double *a = arena_array(scratch, (size_t)(x->rank * x->in), sizeof *a);
    size_t parts = (size_t)((x->out + ROWS - 1) / ROWS);
    struct sums all = {0};
    x->parts = arena_array(scratch, parts, sizeof *x->parts);
    x->values_a = a;
    set_tolerances(x);
    all.failed = tensor_values(x->a.file, x->a.tensor, 0, (size_t)(x->rank * x->in), a, NULL) !=
                 ST_OK;
    if (!all.failed) {
        struct pool_job job = {.count = parts, .item = work, .tick = tick, .ctx = x};
        pool_run(x->m->options->threads, &job);
    }
    for (size_t i = 0; i < parts; i++) {
        all.delta_sq += x->parts[i].delta_sq;
        all.change_sq += x->parts[i].change_sq;
        all.product += x->parts[i].product;
        all.outside += x->parts[i].outside;
        all.failed = all.failed || x->parts[i].failed;
    }
    ret->rank = x->rank;
    ret->scale = x->scale;
    ret->elements = x->in * x->out;
    if (all.failed) {
        issue_add(x->m->base->issues, SEVERITY_UNKNOWN, "merge-unread",
                  "a merged module could not be compared", "Bytes of '%s' could not be read.",
                  issue_text(x->m->base->arena, str_of(ret->name)));
    } else {
        judge(x, &all, ret);
    }
    arena_free(scratch);
}

/* ---- issues ---- */

static void tell(struct merging *m, const struct merge_module *r)
{
    struct issues *issues = m->base->issues;
    const char *name = issue_text(m->base->arena, str_of(r->name));
    double share = 100 * (double)r->outside / (double)r->elements;
    switch (r->state) {
    case MERGE_ABSENT:
        issue_add(issues, SEVERITY_ERROR, "merge-absent", "an adapted module was not merged",
                  "'%s' is the same in base and merged model.", name);
        break;
    case MERGE_SCALED:
        issue_add(issues, SEVERITY_ERROR, "merge-scale", "the adapter was merged at another scale",
                  "'%s': the difference is %.4g times B A; adapter_config.json asks for %.4g "
                  "(alpha/%s at rank %" PRIu64 ").",
                  name, r->fitted, r->scale, m->adapter.root ? "sqrt(r)" : "r", r->rank);
        break;
    case MERGE_OTHER:
        issue_add(issues, SEVERITY_ERROR, "merge-differs",
                  "a merged module is not its base plus the adapter",
                  "'%s': %.3g %% of the elements are off by more than roundings explain; what is "
                  "left is %.3g of the delta's norm.",
                  name, share, r->residual);
        break;
    case MERGE_RIGHT:
        if (r->residual > 0.5) {
            issue_add(issues, SEVERITY_WARNING, "merge-rounded-away",
                      "merging lost most of what the adapter learned",
                      "'%s': the merged type is so coarse that %.3g of the delta's norm is lost to "
                      "its rounding.",
                      name, r->residual);
            issue_remedy(issues, "Merge in float32, or keep the adapter beside its base.");
        }
        break;
    default: break;
    }
}

/* ---- all modules ---- */

static bool find_weights(struct merging *m, struct module *x, struct str module, const char **ret)
{
    const char *name = arena_fmt(m->base->arena, "%.*s.weight", STR_ARG(module));
    const struct tensor_place *old = tensor_names_find(&m->in_base, name);
    struct tensor_place *new = tensor_names_find(&m->in_merged, name);
    *ret = name;
    if (old == NULL || new == NULL) {
        issue_add(m->base->issues, SEVERITY_ERROR, "merge-missing",
                  "the adapter changes a module that is not there", "'%s' is not in the %s.",
                  issue_text(m->base->arena, str_of(name)), old == NULL ? "base" : "merged model");
        return false;
    }
    x->old = *old;
    x->new = *new;
    new->taken = true;
    *ret = old->tensor->name;
    return true;
}

/* "x.lora_A.weight" begins a pair; the tensors that belong to pairs are marked. */
static void add_pair(struct merging *m, struct tensor_place *a, struct str bare,
                     struct merge *merge)
{
    size_t at = str_find(bare, ".lora_A.", 0);
    struct str module = str_slice(bare, 0, at);
    struct arena *arena = m->base->arena;
    struct merge_module *r = &merge->modules[merge->count++];
    struct tensor_place *b = tensor_names_find(
        &m->adapter.names,
        arena_fmt(arena, "%.*s.lora_B%s", STR_ARG(module), bare.p + at + strlen(".lora_A")));
    struct module x = {.m = m, .a = *a};
    *r = (struct merge_module){.name = str_dup(arena, module), .state = MERGE_UNREAD};
    a->taken = true;
    if (b == NULL) {
        issue_add(m->base->issues, SEVERITY_ERROR, "merge-half-pair",
                  "half of an adapter pair is missing", "'%s' has lora_A and no lora_B.",
                  issue_text(arena, module));
        return;
    }
    b->taken = true;
    x.b = *b;
    if (!find_weights(m, &x, module, &r->name) || !set_shapes(&x, r->name)) {
        return;
    }
    double alpha = alpha_of(&m->adapter, module);
    x.scale = alpha / (m->adapter.root ? sqrt((double)x.rank) : (double)x.rank);
    if (!isfinite(x.scale)) {
        issue_add(m->base->issues, SEVERITY_ERROR, "merge-alpha", "alpha_pattern holds no number",
                  "'%s' has no finite alpha.", issue_text(arena, module));
        return;
    }
    check_module(&x, r);
    tell(m, r);
}

static bool same_values(const struct tensor_place *x, const struct tensor_place *y)
{
    const struct tensor *a = x->tensor;
    const struct tensor *b = y->tensor;
    double v[2][512];
    if (a->elements != b->elements || !tensor_readable(a) || !tensor_readable(b)) {
        return false;
    }
    bool same = true;
    for (uint64_t at = 0; same && at < a->elements; at += 512) {
        size_t n = a->elements - at < 512 ? (size_t)(a->elements - at) : 512;
        same = tensor_values(x->file, a, at, n, v[0], NULL) == ST_OK &&
               tensor_values(y->file, b, at, n, v[1], NULL) == ST_OK;
        for (size_t i = 0; same && i < n; i++) {
            double rounded = b->type->values == VALUES_PLAIN ? dtype_round(b->type->dtype, v[0][i])
                                                             : v[0][i];
            same = rounded == v[1][i] || (isnan(v[0][i]) && isnan(v[1][i]));
        }
    }
    return same;
}

/* What the base has and the merged model has not; a tied head may be left out. */
static void check_left_out(struct merging *m)
{
    for (size_t i = 0; i < m->in_base.all.count; i++) {
        const char *name = m->in_base.all.items[i]->tensor->name;
        if (tensor_names_find(&m->in_merged, name) == NULL &&
            !str_is(tensor_names_bare(m->base->arena, name), "lm_head.weight")) {
            issue_add(m->base->issues, SEVERITY_ERROR, "merge-missing",
                      "a tensor of the base is not in the merged model", "'%s' is left out.",
                      issue_text(m->base->arena, str_of(name)));
        }
    }
}

/* Embeddings are changed by a pair of other names, whose product is not held against them here. */
static bool is_embedding_pair(struct merging *m, const char *name)
{
    static const char *const halves[] = {".lora_embedding_A", ".lora_embedding_B"};
    struct str module = str_of(name);
    if (!str_ends(module, ".weight")) {
        return false;
    }
    module.n -= strlen(".weight");
    bool both = true;
    for (size_t i = 0; i < ARRAY_LEN(halves); i++) {
        struct tensor_place *half = tensor_names_find(
            &m->adapter.names, arena_fmt(m->base->arena, "%.*s%s", STR_ARG(module), halves[i]));
        both = both && half != NULL;
        if (half != NULL) {
            half->taken = true;
        }
    }
    if (both) {
        issue_add(m->base->issues, SEVERITY_UNKNOWN, "merge-unread",
                  "a merged module could not be compared",
                  "'%s' is an embedding with an adapter: such merges are not computed here.",
                  issue_text(m->base->arena, str_of(name)));
    }
    return both;
}

/* A copy of the base's weight that PEFT keeps beside a pair (save_embedding_layers). */
static bool is_copy_of_base(const struct merging *m, const struct tensor_place *p)
{
    const struct tensor_place *old = tensor_names_find(&m->in_base, p->tensor->name);
    return str_has(str_of(p->tensor->name), ".base_layer.") && old != NULL && same_values(old, p);
}

/* Tensors that no pair changes: the adapter's own where it kept them whole, else the base's. */
static void check_others(struct merging *m)
{
    struct issues *issues = m->base->issues;
    for (size_t i = 0; i < m->in_merged.all.count; i++) {
        const struct tensor_place *new = m->in_merged.all.items[i];
        const char *name = new->tensor->name;
        struct tensor_place *kept = tensor_names_find(&m->adapter.names, name);
        const struct tensor_place *old = tensor_names_find(&m->in_base, name);
        const struct tensor_place *want = kept != NULL ? kept : old;
        if (new->taken) {
            continue;
        }
        if (kept != NULL) {
            kept->taken = true;
        }
        if (is_embedding_pair(m, name)) {
            continue;
        }
        if (want == NULL || !same_values(want, new)) {
            issue_add(issues, SEVERITY_ERROR, "merge-other-tensor",
                      "a tensor that the adapter does not change differs",
                      "'%s' of the merged model %s.", issue_text(m->base->arena, str_of(name)),
                      want == NULL   ? "is in neither base nor adapter"
                      : kept != NULL ? "is not the one the adapter kept whole"
                                     : "is not the base's");
        }
    }
    for (size_t i = 0; i < m->adapter.names.all.count; i++) {
        const struct tensor_place *p = m->adapter.names.all.items[i];
        if (!p->taken && !is_copy_of_base(m, p)) {
            issue_add(issues, SEVERITY_UNKNOWN, "merge-unread",
                      "a part of the adapter was not compared",
                      "'%s' is no half of a pair and no tensor of the merged model.",
                      issue_text(m->base->arena, str_of(p->tensor->name)));
        }
    }
}

static void check_all(struct merging *m, struct merge *merge)
{
    size_t count = m->adapter.names.all.count;
    merge->modules = arena_array(m->base->arena, count, sizeof *merge->modules);
    for (int pass = 0; pass < 2; pass++) { /* the first adds up the work */
        for (size_t i = 0; i < count; i++) {
            struct tensor_place *p = m->adapter.names.all.items[i];
            struct str bare = tensor_names_bare(m->base->arena, p->tensor->name);
            if (!str_has(bare, ".lora_A.")) {
                continue;
            }
            if (pass == 1) {
                add_pair(m, p, bare, merge);
                continue;
            }
            const char *name = arena_fmt(m->base->arena, "%.*s.weight",
                                         (int)str_find(bare, ".lora_A.", 0), bare.p);
            const struct tensor_place *old = tensor_names_find(&m->in_base, name);
            m->total += old != NULL ? old->tensor->elements : 0;
        }
    }
    check_others(m);
    check_left_out(m);
    if (merge->count == 0) {
        issue_add(m->base->issues, SEVERITY_UNKNOWN, "merge-unread", "there is nothing to compare",
                  "The adapter has no lora_A.");
    }
}

enum status merge_check(struct checkpoint *base, struct checkpoint *merged, const char *adapter,
                        const struct compare_options *options, struct merge *ret_merge,
                        struct err *err)
{
    struct merge merge = {0};
    struct err why = {.status = ST_OK};
    struct merging *m = arena_alloc(base->arena, sizeof *m);
    m->base = base;
    m->merged = merged;
    m->options = options;
    const char *file = NULL;
    if (read_config(m, adapter, &file, &why) != ST_OK ||
        checkpoint_open(base->arena, file, base->issues, &m->adapter.files, &why) != ST_OK) {
        return err_set(err, why.status, "%s", why.text);
    }
    base->issues->file = merged->path;
    tensor_names_list(base, &m->in_base);
    tensor_names_list(merged, &m->in_merged);
    tensor_names_list(&m->adapter.files, &m->adapter.names);
    check_all(m, &merge);
    checkpoint_close(&m->adapter.files);
    *ret_merge = merge;
    return ST_OK;
}
