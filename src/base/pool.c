// SPDX-License-Identifier: Apache-2.0
/* One counter hands out items; the calling thread waits and ticks, or works when it is alone. */
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

struct pool {
    const struct pool_job *job;
    atomic_size_t next;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    unsigned working;
};

unsigned pool_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        return 1;
    }
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n > POOL_THREADS_MAX ? POOL_THREADS_MAX : (unsigned)n;
}

static void *work(void *arg)
{
    struct pool *p = arg;
    for (;;) {
        size_t i = atomic_fetch_add(&p->next, 1);
        if (i >= p->job->count) {
            break;
        }
        p->job->item(p->job->ctx, i);
    }
    pthread_mutex_lock(&p->lock);
    p->working--;
    pthread_cond_signal(&p->ended);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void wait_and_tick(struct pool *p)
{
    pthread_mutex_lock(&p->lock);
    while (p->working != 0) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 100000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&p->ended, &p->lock, &until);
        if (p->job->tick != NULL) {
            pthread_mutex_unlock(&p->lock);
            p->job->tick(p->job->ctx);
            pthread_mutex_lock(&p->lock);
        }
    }
    pthread_mutex_unlock(&p->lock);
}

static void run_alone(const struct pool_job *job)
{
    for (size_t i = 0; i < job->count; i++) {
        job->item(job->ctx, i);
        if (job->tick != NULL) {
            job->tick(job->ctx);
        }
    }
}

void pool_run(unsigned threads, const struct pool_job *job)
{
    threads = threads == 0 ? pool_cores() : threads;
    threads = threads > POOL_THREADS_MAX ? POOL_THREADS_MAX : threads;
    threads = threads > job->count ? (unsigned)job->count : threads;
    if (threads <= 1) {
        run_alone(job);
        return;
    }
    struct pool p = {.job = job,
                     .lock = PTHREAD_MUTEX_INITIALIZER,
                     .ended = PTHREAD_COND_INITIALIZER,
                     .working = threads};
    pthread_t ids[POOL_THREADS_MAX];
    unsigned started = 0;
    while (started < threads && pthread_create(&ids[started], NULL, work, &p) == 0) {
        started++;
    }
    pthread_mutex_lock(&p.lock);
    p.working -= threads - started;
    pthread_mutex_unlock(&p.lock);
    if (started == 0) {
        run_alone(job);
        return;
    }
    wait_and_tick(&p);
    for (unsigned i = 0; i < started; i++) {
        pthread_join(ids[i], NULL);
    }
}
