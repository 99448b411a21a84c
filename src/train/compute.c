// SPDX-License-Identifier: Apache-2.0
/* A lane per thread; lanes take parts from one counter. */
#include "train/compute.h"

#include <stdatomic.h>

#include "base/pool.h"

struct loop {
    size_t count, grain;
    compute_part_fn *fn;
    void *ctx;
    atomic_size_t next;
};

static void run_lane(void *ctx, size_t lane)
{
    struct loop *l = ctx;
    for (;;) {
        size_t from = atomic_fetch_add(&l->next, 1) * l->grain;
        if (from >= l->count) {
            return;
        }
        size_t to = l->count - from < l->grain ? l->count : from + l->grain;
        l->fn(l->ctx, (unsigned)lane, from, to);
    }
}

void compute_parts(const struct compute *c, size_t count, size_t grain, compute_part_fn *fn,
                   void *ctx)
{
    struct loop l = {.count = count, .grain = grain == 0 ? 1 : grain, .fn = fn, .ctx = ctx};
    size_t parts = (count + l.grain - 1) / l.grain;
    unsigned lanes = c->threads < parts ? c->threads : (unsigned)parts;
    if (lanes <= 1) {
        run_lane(&l, 0);
        return;
    }
    const struct pool_job job = {.count = lanes, .item = run_lane, .ctx = &l};
    pool_run(lanes, &job);
}
