// SPDX-License-Identifier: Apache-2.0
/* The checksums that files carry themselves (CRC-32 of torch archives), over the cores. */
#include <stdatomic.h>

#include "base/pool.h"

#include "model/checkpoint.h"

struct sum {
    const struct checkpoint_file *file;
    size_t index;
    uint64_t bytes; /* for the progress line: an equal share of the file's */
    bool failed;
};

struct sums {
    VEC_OF(struct sum) items;

    uint64_t total;
    atomic_uint_fast64_t done;
    const struct scan_options *options;
};

static void check_one(void *ctx, size_t index)
{
    struct sums *s = ctx;
    struct sum *one = &s->items.items[index];
    const struct tensor_file *f = one->file->tensors;
    one->failed = f->format->check_sum(f, one->index, NULL) != ST_OK;
    atomic_fetch_add(&s->done, one->bytes);
}

static void tick(void *ctx)
{
    struct sums *s = ctx;
    if (s->options->progress != NULL) {
        s->options->progress(s->options->ctx, atomic_load(&s->done), s->total);
    }
}

void checkpoint_check_sums(struct checkpoint *c, const struct scan_options *options)
{
    struct sums s = {.options = options};
    for (size_t i = 0; i < c->files.count; i++) {
        const struct tensor_file *f = c->files.items[i].tensors;
        size_t count = f != NULL && f->format->sum_count != NULL ? f->format->sum_count(f) : 0;
        for (size_t k = 0; k < count; k++) {
            uint64_t bytes = c->files.items[i].size / count;
            *VEC_PUSH(c->arena, &s.items) = (struct sum){
                .file = &c->files.items[i], .index = k, .bytes = bytes};
            s.total += bytes;
        }
    }
    if (s.items.count == 0) {
        return;
    }
    struct pool_job job = {.count = s.items.count, .item = check_one, .tick = tick, .ctx = &s};
    pool_run(options->threads, &job);
    size_t told = 0;
    for (size_t i = 0; i < s.items.count && told < ISSUE_MAX_SAME; i++) {
        const struct sum *one = &s.items.items[i];
        const struct tensor_file *f = one->file->tensors;
        struct err err; /* workers have no arena for its sentence: it is asked for again */
        if (one->failed && f->format->check_sum(f, one->index, &err) != ST_OK) {
            c->issues->file = one->file->path;
            tensor_file_add_sum(c->issues, &err);
            told++;
        }
    }
    c->issues->file = c->path;
}
