// SPDX-License-Identifier: Apache-2.0
/*
 * librccl between processes of one machine: data go through a file in shared memory, a queue is run when the device is
 * waited for, as the real one's is. Faults are planted by ASSAY_FAKE_RCCL (fake.h).
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/mman.h>

#include "base/dtype.h"

#include "fake.h"

enum {
    RANKS_MAX = 16,
    SLOT_BYTES = 1 << 16,
    QUEUE_MAX = 256,
    SUCCESS = 0,
    SYSTEM_ERROR = 2,
    INVALID_ARGUMENT = 4,
    GUILTY_CALL = 5, /* counted from 1: joins and small calls before it are sound */
    LARGE_COUNT = 250
};

struct id {
    char bytes[128];
};

struct shared {
    atomic_int arrived, round;
    unsigned char slot[RANKS_MAX][SLOT_BYTES];
};

struct comm {
    struct shared *shared;
    int rank, ranks, calls;
};

enum kind {
    ALL_REDUCE,
    ALL_GATHER,
    REDUCE_SCATTER,
    BROADCAST
};

struct job {
    enum kind kind;
    struct comm *comm;
    const unsigned char *send;
    unsigned char *recv;
    size_t count;
    enum dtype type;
    int root;
};

static struct job queue[QUEUE_MAX];
static size_t queued;
static const char *last = "";

static bool planted(const struct comm *c, const char *word)
{
    char name[32];
    snprintf(name, sizeof name, "%s%d", word, c->rank);
    return fake_asked("ASSAY_FAKE_RCCL", name);
}

static void forever(void)
{
    for (;;) {
        pause();
    }
}

static void meet(struct comm *c)
{
    struct timespec pause = {0, 20000};
    int round = atomic_load(&c->shared->round);
    if (atomic_fetch_add(&c->shared->arrived, 1) == c->ranks - 1) {
        atomic_store(&c->shared->arrived, 0);
        atomic_fetch_add(&c->shared->round, 1);
        return;
    }
    while (atomic_load(&c->shared->round) == round) {
        nanosleep(&pause, NULL);
    }
}

/* Elements from `at` on, `n` of them, of what every rank sends. */
static void exchange(const struct job *j, size_t at, size_t n)
{
    unsigned size = dtype_info(j->type)->size;
    struct comm *c = j->comm;
    memcpy(c->shared->slot[c->rank], j->send + at * size, n * size);
    meet(c);
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (int r = 0; r < c->ranks; r++) {
            unsigned char *from = c->shared->slot[r] + i * size;
            sum += dtype_get(j->type, from);
            if (j->kind == ALL_GATHER) {
                memcpy(j->recv + ((size_t)r * j->count + at + i) * size, from, size);
            }
        }
        size_t own = (size_t)c->rank * j->count;
        if (j->kind == ALL_REDUCE) {
            dtype_set(j->type, j->recv + (at + i) * size, sum);
        } else if (j->kind == BROADCAST) {
            memcpy(j->recv + (at + i) * size, c->shared->slot[j->root] + i * size, size);
        } else if (j->kind == REDUCE_SCATTER && at + i >= own && at + i < own + j->count) {
            dtype_set(j->type, j->recv + (at + i - own) * size, sum);
        }
    }
    meet(c);
}

static void run(const struct job *j)
{
    unsigned size = dtype_info(j->type)->size;
    size_t all = j->kind == REDUCE_SCATTER ? j->count * (size_t)j->comm->ranks : j->count;
    size_t step = SLOT_BYTES / size;
    static unsigned char nothing[1 << 22];
    struct job mine = *j;
    if (planted(j->comm, "zero")) {
        mine.recv = nothing;
    }
    for (size_t at = 0; at < all; at += step) {
        exchange(&mine, at, all - at < step ? all - at : step);
    }
    if (planted(j->comm, "wrong") && j->kind == ALL_REDUCE && j->count >= LARGE_COUNT) {
        unsigned char *p = j->recv + (j->count - 1) * size;
        dtype_set(j->type, p, dtype_get(j->type, p) + 1);
    }
}

static void run_queue(void)
{
    for (size_t i = 0; i < queued; i++) {
        if (planted(queue[i].comm, "stuck") && queue[i].comm->calls >= GUILTY_CALL) {
            forever();
        }
        run(&queue[i]);
    }
    queued = 0;
}

static int add(struct job j, int type)
{
    struct comm *c = j.comm;

    static const enum dtype types[] = {
        [2] = DTYPE_I32, [6] = DTYPE_F16, [7] = DTYPE_F32, [9] = DTYPE_BF16};

    if (type != 2 && type != 6 && type != 7 && type != 9) {
        return INVALID_ARGUMENT;
    }
    j.type = types[type];
    if (++c->calls >= GUILTY_CALL) {
        if (planted(c, "hang")) {
            forever();
        }
        if (planted(c, "crash")) {
            abort();
        }
        if (planted(c, "fail")) {
            last = "Call to ibv_reg_mr failed with error Cannot allocate memory";
            return SYSTEM_ERROR;
        }
    }
    if (planted(c, "slow")) {
        struct timespec pause = {0, 10000000};
        nanosleep(&pause, NULL);
    }
    if (queued == QUEUE_MAX) {
        run_queue();
    }
    queue[queued++] = j;
    return SUCCESS;
}

FAKE_EXPORT int ncclGetVersion(int *version)
{
    *version = 22203;
    return SUCCESS;
}

FAKE_EXPORT const char *ncclGetErrorString(int result)
{
    return result == SYSTEM_ERROR ? "unhandled system error (run with NCCL_DEBUG=INFO for details)"
                                  : "invalid argument";
}

FAKE_EXPORT const char *ncclGetLastError(void *comm)
{
    (void)comm;
    return last;
}

FAKE_EXPORT int ncclGetUniqueId(struct id *id)
{
    memset(id, 0, sizeof *id);
    snprintf(id->bytes, sizeof id->bytes, "/dev/shm/assay-fake-rccl-XXXXXX");
    int fd = mkstemp(id->bytes);
    if (fd < 0 || ftruncate(fd, sizeof(struct shared)) != 0) {
        return SYSTEM_ERROR;
    }
    close(fd);
    return SUCCESS;
}

FAKE_EXPORT int ncclCommInitRank(void **comm, int ranks, struct id id, int rank)
{
    int fd = open(id.bytes, O_RDWR | O_CLOEXEC);
    if (fd < 0 || ranks > RANKS_MAX) {
        return SYSTEM_ERROR;
    }
    struct comm *c = calloc(1, sizeof *c);
    c->shared = mmap(NULL, sizeof *c->shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    c->rank = rank;
    c->ranks = ranks;
    meet(c);
    if (rank == 0) {
        unlink(id.bytes);
    }
    fake_hip_at_sync(run_queue);
    *comm = c;
    return SUCCESS;
}

FAKE_EXPORT int ncclCommDestroy(void *comm)
{
    free(comm);
    return SUCCESS;
}

FAKE_EXPORT int ncclAllReduce(const void *send, void *recv, size_t count, int type, int op,
                              void *comm, void *stream)
{
    (void)stream;
    return op != 0 ? INVALID_ARGUMENT
                   : add((struct job){ALL_REDUCE, comm, send, recv, count}, type);
}

FAKE_EXPORT int ncclAllGather(const void *send, void *recv, size_t count, int type, void *comm,
                              void *stream)
{
    (void)stream;
    return add((struct job){ALL_GATHER, comm, send, recv, count}, type);
}

FAKE_EXPORT int ncclReduceScatter(const void *send, void *recv, size_t count, int type, int op,
                                  void *comm, void *stream)
{
    (void)stream;
    return op != 0 ? INVALID_ARGUMENT
                   : add((struct job){REDUCE_SCATTER, comm, send, recv, count}, type);
}

FAKE_EXPORT int ncclBroadcast(const void *send, void *recv, size_t count, int type, int root,
                              void *comm, void *stream)
{
    (void)stream;
    return add((struct job){.kind = BROADCAST,
                            .comm = comm,
                            .send = send,
                            .recv = recv,
                            .count = count,
                            .root = root},
               type);
}
