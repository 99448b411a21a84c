// SPDX-License-Identifier: Apache-2.0
/* All values of a checkpoint in windows over the cores, then the judgement of what was counted. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"

#include "model/checkpoint.h"
#include "model/checkpoint_rules.h"

enum {
    WINDOW = 8 << 20 /* bytes, less what is no whole block */
};

struct window {
    const struct checkpoint_file *file;
    size_t tensor;
    const struct tensor *parts; /* the tensor as real numbers */
    uint64_t from;              /* bytes into the tensor */
    uint64_t n;
    bool failed;
    struct tensor_stats stats;
};

struct scan {
    VEC_OF(struct window) windows;

    uint64_t total;
    atomic_uint_fast64_t done;
    const struct scan_options *options;
};

static void scan_window(void *ctx, size_t index)
{
    struct scan *s = ctx;
    struct window *w = &s->windows.items[index];
    const struct file_map *map = &w->file->tensors->map;
    const struct tensor *t = w->parts;
    uint64_t at = t->offset + w->from;
    unsigned size = t->type->block_bytes;
    w->stats = tensor_stats_none();
    if (file_map_populate(map, at, w->n, NULL) != ST_OK) {
        w->failed = true;
    } else if (t->type->values == VALUES_BLOCKS) {
        tensor_scan_blocks(t->type, map->p + at, w->n / size, at, w->from / size, &w->stats);
        file_map_release(map, at, w->n);
    } else {
        tensor_scan(t->type->dtype, map->p + at, w->n / size, at, w->from / size, &w->stats);
        file_map_release(map, at, w->n);
    }
    atomic_fetch_add(&s->done, w->n);
}

static void tick(void *ctx)
{
    struct scan *s = ctx;
    if (s->options->progress != NULL) {
        s->options->progress(s->options->ctx, atomic_load(&s->done), s->total);
    }
}

static void add_windows(struct checkpoint *c, struct scan *s, struct checkpoint_file *f)
{
    unsigned step = s->options->sample > 1 ? s->options->sample : 1;
    f->stats = arena_array(c->arena, f->tensors->count, sizeof *f->stats);
    for (size_t i = 0; i < f->tensors->count; i++) {
        const struct tensor *t = tensor_parts(c->arena, &f->tensors->tensors[i]);
        f->stats[i] = tensor_stats_none();
        if (!tensor_readable(t)) {
            continue;
        }
        uint64_t whole = WINDOW - WINDOW % t->type->block_bytes;
        for (uint64_t from = 0; from < t->bytes; from += whole * step) {
            uint64_t left = t->bytes - from;
            struct window w = {.file = f, .tensor = i, .parts = t, .from = from};
            w.n = left < whole ? left : whole;
            s->total += w.n;
            *VEC_PUSH(c->arena, &s->windows) = w;
        }
    }
}

void checkpoint_scan(struct checkpoint *c, const struct scan_options *options)
{
    struct scan s = {.options = options};
    for (size_t i = 0; i < c->files.count; i++) {
        if (c->files.items[i].tensors != NULL) {
            add_windows(c, &s, &c->files.items[i]);
        }
    }
    struct pool_job job = {.count = s.windows.count, .item = scan_window, .tick = tick, .ctx = &s};
    pool_run(options->threads, &job);
    for (size_t i = 0; i < s.windows.count; i++) {
        const struct window *w = &s.windows.items[i];
        tensor_stats_add(&w->file->stats[w->tensor], &w->stats);
        if (w->failed) {
            c->issues->file = w->file->path;
            issue_add(c->issues, SEVERITY_ERROR, "file-cut-while-read",
                      "a file was truncated, or its disk failed, while it was being read",
                      "Bytes of tensor '%s' could not be read.",
                      issue_text(c->arena, str_of(w->file->tensors->tensors[w->tensor].name)));
        }
    }
    for (size_t i = 0; i < c->files.count; i++) {
        struct err err;
        const struct checkpoint_file *f = &c->files.items[i];
        if (f->tensors != NULL && file_map_unchanged(&f->tensors->map, &err) != ST_OK) {
            c->issues->file = f->path;
            issue_add(c->issues, SEVERITY_UNKNOWN, "file-changed",
                      "a file was changed while it was being read", "%s.", err.text);
        }
    }
    c->issues->file = c->path;
}

/* ---- judgement ---- */

/* A vector, whatever its rank, that is no module's weight: a mask or class token begins at zero. */
static bool is_token(const struct tensor *t)
{
    uint32_t sides = 0;
    for (uint32_t d = 0; d < t->rank; d++) {
        sides += t->shape[d] > 1;
    }
    return sides <= 1 && !str_ends(str_of(t->name), "weight");
}

static void judge_tensor(struct checkpoint *c, const struct tensor *t, const struct tensor_stats *s)
{
    const char *name = issue_text(c->arena, str_of(t->name));
    const char *shape = tensor_shape_text(c->arena, t->shape, t->rank);
    unsigned long long n = (unsigned long long)s->elements;
    double rms = tensor_stats_rms(s);
    bool moment = strstr(t->name, "exp_avg") != NULL || t->role == TENSOR_OPTIMIZER;
    bool real = t->type->values == VALUES_BLOCKS || dtype_info(t->type->dtype)->is_float;
    bool judged = real && t->role != TENSOR_STATE && n != 0 &&
                  t->type->small != TENSOR_SMALL_E8M0; /* scales may be of any size */
    if (t->elements == 0) {
        issue_add(c->issues, SEVERITY_NOTE, "tensor-empty", "a tensor holds no elements",
                  "'%s' has the shape %s: a sharded save that was not gathered leaves such.", name,
                  shape);
    }
    if (s->nan != 0 || s->inf != 0) {
        issue_add(c->issues, SEVERITY_ERROR, s->nan != 0 ? "tensor-nan" : "tensor-inf",
                  s->nan != 0 ? "a tensor holds NaN" : "a tensor holds infinities",
                  "'%s' %s: %llu NaN and %llu infinities among %llu elements, the first at %llu.",
                  name, shape, (unsigned long long)s->nan, (unsigned long long)s->inf, n,
                  (unsigned long long)s->first_bad);
    }
    if (!judged) {
        return;
    }
    bool starts_at_zero = strstr(t->name, "lora_B") != NULL || str_ends(str_of(t->name), "bias") ||
                          is_token(t);
    if (s->zero == n && t->rank >= 2 && !moment && !starts_at_zero) {
        issue_add(c->issues, SEVERITY_WARNING, "tensor-zero", "a tensor is zero throughout",
                  "All %llu elements of '%s' %s are zero.", n, name, shape);
    } else if (s->zero_pages >= RULE_ZERO_PAGES && !moment && s->zero != n && t->rank >= 2) {
        issue_add(
            c->issues, SEVERITY_WARNING, "tensor-zero-pages",
            "whole pages inside a tensor are zero",
            "%llu aligned pages of 4096 bytes of '%s' %s hold only zeros: a write that did not "
            "reach the disk leaves such; so do rows of an embedding that were never used.",
            (unsigned long long)s->zero_pages, name, shape);
    }
    if (!moment && n >= 256 && (double)s->denormal > RULE_DENORMAL_SHARE * (double)n) {
        issue_add(c->issues, SEVERITY_WARNING, "tensor-denormal", "many elements are denormal",
                  "%.2f %% of '%s' %s: another number format or byte order was written than is "
                  "declared, or training collapsed.",
                  100 * (double)s->denormal / (double)n, name, shape);
    }
    /* ZeRO-3 pads each parameter's partition and never writes what pads it. */
    bool padded = strstr(t->name, "fp32_flat_groups") != NULL;
    enum severity large = padded ? SEVERITY_NOTE : SEVERITY_WARNING;
    const char *where = padded ? "; it may lie in the padding of a partition, which is not written"
                               : "";
    if (s->abs_max > RULE_HUGE && s->abs_max > RULE_CREST * rms) {
        issue_add(c->issues, large, "tensor-outlier", "single values are absurdly large",
                  "'%s' %s: the largest magnitude is %.4g at an RMS of %.4g%s.", name, shape,
                  s->abs_max, rms, where);
    } else if (!(rms <= RULE_RMS_MAX) || (s->abs_max > RULE_HUGE_ALWAYS)) {
        issue_add(c->issues, large, "tensor-norm", "a tensor's norm is absurd",
                  "'%s' %s: RMS %.4g, largest magnitude %.4g%s.", name, shape, rms, s->abs_max,
                  where);
    } else if (t->rank >= 2 && !moment && s->zero != n && rms < RULE_RMS_MIN) {
        issue_add(c->issues, SEVERITY_WARNING, "tensor-norm", "a tensor's norm is absurd",
                  "'%s' %s: RMS %.4g, too small for weights.", name, shape, rms);
    }
}

void checkpoint_judge(struct checkpoint *c, bool sampled)
{
    for (size_t i = 0; i < c->files.count; i++) {
        const struct checkpoint_file *f = &c->files.items[i];
        c->issues->file = f->path;
        for (size_t t = 0; f->tensors != NULL && t < f->tensors->count; t++) {
            const struct tensor *one = tensor_parts(c->arena, &f->tensors->tensors[t]);
            if (tensor_readable(one)) {
                judge_tensor(c, one, &f->stats[t]);
            } else if (one->present) {
                issue_add(c->issues, SEVERITY_UNKNOWN, "tensor-not-read",
                          "values of a type that is not read",
                          "'%s' is of type %s: its place and size were checked, its values not.",
                          issue_text(c->arena, str_of(one->name)), one->type->name);
            }
        }
    }
    c->issues->file = c->path;
    if (sampled) {
        issue_add(c->issues, SEVERITY_UNKNOWN, "sampled", "only a sample of the values was read",
                  "What was not read may hold anything; run without --sample to read all.");
    }
}
