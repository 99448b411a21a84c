// SPDX-License-Identifier: Apache-2.0
/*
 * Work items over cores: `count` calls of one function, in no particular order, on a few threads that
 * live as long as the call. Workers must not touch an arena that others use; results go to places
 * that belong to the item.
 */
#ifndef ASSAY_BASE_POOL_H
#define ASSAY_BASE_POOL_H

#include <stddef.h>

struct pool_job {
    size_t count;
    void (*item)(void *ctx, size_t index);
    /* On the calling thread about ten times a second, and once at the end; may be NULL. */
    void (*tick)(void *ctx);
    void *ctx;
};

enum {
    POOL_THREADS_MAX = 256
};

/* Cores that this process may run on, at least 1. */
unsigned pool_cores(void);

/* Runs all items and returns when the last is done. 0 threads means pool_cores(). When the system
 * gives fewer threads than wished, fewer do the work. */
void pool_run(unsigned threads, const struct pool_job *job);

#endif
