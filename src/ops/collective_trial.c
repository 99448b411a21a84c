// SPDX-License-Identifier: Apache-2.0
/* See collective_trial.h. */
#include "ops/collective_trial.h"

#include <string.h>
#include <time.h>

enum {
    BEHIND_BYTES = 64, /* looked at behind a result */
    WARM_UP = 3,
    ROW_SHORT = 20, /* calls in a row that are timed together */
    ROW_LONG = 5,
    LONG_BYTES = 16 << 20,
    LARGEST_VALUE = 1000
};

static const uint32_t poison = 0xa5a5a5a5u;
static const uint32_t work_pattern = 0x3f800000u;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- sizes ---- */

static bool is_split(enum collective_op op)
{
    return op == COLLECTIVE_ALL_GATHER || op == COLLECTIVE_REDUCE_SCATTER;
}

size_t collective_bytes(enum collective_op op, size_t count, unsigned element_bytes, int ranks)
{
    return count * element_bytes * (is_split(op) ? (size_t)ranks : 1);
}

size_t collective_count(enum collective_op op, size_t bytes, unsigned element_bytes, int ranks)
{
    enum {
        FEW = 8
    };

    size_t count = bytes / element_bytes / (is_split(op) ? (size_t)ranks : 1);
    if (count > FEW && count % 2 == 0) {
        count--;
    }
    return count > 0 ? count : 1;
}

double collective_bus_factor(enum collective_op op, int ranks)
{
    double n = ranks;
    switch (op) {
    case COLLECTIVE_ALL_REDUCE: return 2 * (n - 1) / n;
    case COLLECTIVE_BROADCAST: return 1;
    default: return (n - 1) / n;
    }
}

/* ---- data ---- */

static uint64_t mixed(uint64_t x) /* splitmix64 */
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Whole numbers up to this are exact. */
static int64_t exact_limit(enum dtype type)
{
    enum {
        LIMIT_BF16 = 1 << 8,
        LIMIT_F16 = 1 << 11,
        LIMIT_OTHER = 1 << 24
    };

    return type == DTYPE_BF16 ? LIMIT_BF16 : type == DTYPE_F16 ? LIMIT_F16 : LIMIT_OTHER;
}

double collective_value(enum dtype type, unsigned trial, int ranks, int rank, size_t index)
{
    int64_t limit = exact_limit(type);
    size_t i = index % COLLECTIVE_PERIOD;
    /* With very many ranks only each groups-th adds to an element, so that a value of 2 still fits. */
    int64_t groups = 1 + (ranks - 1) / (limit / 2);
    int64_t adding = (ranks + groups - 1) / groups;
    int64_t most = limit / adding < LARGEST_VALUE ? limit / adding : LARGEST_VALUE;
    if (groups > 1 && ((int64_t)i + rank) % groups != 0) {
        return 0;
    }
    uint64_t h = mixed(((uint64_t)trial << 40) ^ ((uint64_t)rank << 20) ^ i);
    return (double)((int64_t)(h % (uint64_t)(2 * most + 1)) - most);
}

double collective_sum(enum dtype type, unsigned trial, int ranks, size_t index)
{
    double sum = 0;
    for (int r = 0; r < ranks; r++) {
        sum += collective_value(type, trial, ranks, r, index);
    }
    return sum;
}

/* One period; rank < 0: of the sum. */
static unsigned char *period_of(struct arena *a, const struct collective_trial *t, int ranks,
                                int rank)
{
    unsigned size = dtype_info(t->type)->size;
    unsigned char *table = arena_array(a, COLLECTIVE_PERIOD, size);
    for (size_t i = 0; i < COLLECTIVE_PERIOD; i++) {
        dtype_set(t->type, table + i * size,
                  rank < 0 ? collective_sum(t->type, t->number, ranks, i)
                           : collective_value(t->type, t->number, ranks, rank, i));
    }
    return table;
}

static void spread(unsigned char *to, const unsigned char *table, size_t count, unsigned size)
{
    for (size_t at = 0; at < count; at += COLLECTIVE_PERIOD) {
        size_t n = count - at < COLLECTIVE_PERIOD ? count - at : COLLECTIVE_PERIOD;
        memcpy(to + at * size, table, n * size);
    }
}

/* ---- comparing ---- */

struct expectation {
    const unsigned char *table;
    size_t shift; /* element 0 is this one of the table's row of periods */
    size_t base;  /* element 0 is this one of the whole result */
    size_t count;
};

static void compare(const struct collective_trial *t, const unsigned char *got,
                    const struct expectation *e, struct collective_wrong *w)
{
    unsigned size = dtype_info(t->type)->size;
    for (size_t at = 0; at < e->count;) {
        size_t in = (e->shift + at) % COLLECTIVE_PERIOD;
        size_t n = COLLECTIVE_PERIOD - in;
        n = n < e->count - at ? n : e->count - at;
        const unsigned char *g = got + at * size;
        const unsigned char *want = e->table + in * size;
        for (size_t i = 0; memcmp(g, want, n * size) != 0 && i < n; i++) {
            double x = dtype_get(t->type, g + i * size);
            double y = dtype_get(t->type, want + i * size);
            if (x == y) {
                continue;
            }
            if (w->elements++ == 0) {
                w->first = e->base + at + i;
                w->got = x;
                w->wanted = y;
            }
        }
        at += n;
    }
}

static size_t received(const struct collective_trial *t, int ranks)
{
    return t->op == COLLECTIVE_ALL_GATHER ? t->count * (size_t)ranks : t->count;
}

static enum status compare_result(struct collective_bench *b, struct arena *scratch,
                                  const struct collective_trial *t, struct collective_wrong *w,
                                  struct err *err)
{
    int ranks = b->collective->ranks;
    int rank = b->collective->rank;
    unsigned size = dtype_info(t->type)->size;
    size_t bytes = received(t, ranks) * size;
    memset(w, 0, sizeof *w);
    TRY(device_read(b->device, b->host, b->recv, bytes + BEHIND_BYTES, err));
    struct expectation e = {.count = t->count};
    if (t->op == COLLECTIVE_ALL_GATHER) {
        for (int r = 0; r < ranks; r++) {
            struct arena_mark mark = arena_mark(scratch);
            e.table = period_of(scratch, t, ranks, r);
            e.base = (size_t)r * t->count;
            compare(t, b->host + e.base * size, &e, w);
            arena_rewind(scratch, mark);
        }
    } else {
        e.table = period_of(scratch, t, ranks, t->op == COLLECTIVE_BROADCAST ? t->root : -1);
        e.shift = t->op == COLLECTIVE_REDUCE_SCATTER ? (size_t)rank * t->count : 0;
        compare(t, b->host, &e, w);
    }
    for (size_t i = 0; i < BEHIND_BYTES; i++) {
        w->beyond = w->beyond || b->host[bytes + i] != (poison & 0xff);
    }
    return ST_OK;
}

/* ---- buffers ---- */

enum status collective_bench_open(struct arena *a, struct device *device,
                                  struct collective *collective, size_t bytes,
                                  struct collective_bench *ret_bench, struct err *err)
{
    struct collective_bench b = {.device = device, .collective = collective, .bytes = bytes};
    TRY(device_alloc(device, bytes + BEHIND_BYTES, &b.send, err));
    enum status st = device_alloc(device, bytes + BEHIND_BYTES, &b.recv, err);
    if (st != ST_OK) {
        device_free(device, b.send);
        return st;
    }
    b.host = arena_alloc(a, bytes + BEHIND_BYTES);
    if (collective->backend->host_memory && device->info.kind != DEVICE_CPU) {
        b.staged_send = arena_alloc(a, bytes + BEHIND_BYTES);
        b.staged_recv = arena_alloc(a, bytes + BEHIND_BYTES);
    }
    *ret_bench = b;
    return ST_OK;
}

void collective_bench_close(struct collective_bench *b)
{
    device_free(b->device, b->send);
    device_free(b->device, b->recv);
}

static size_t sent(const struct collective_trial *t, int ranks)
{
    return t->op == COLLECTIVE_REDUCE_SCATTER ? t->count * (size_t)ranks : t->count;
}

static enum status fill(struct collective_bench *b, struct arena *scratch,
                        const struct collective_trial *t, struct err *err)
{
    int ranks = b->collective->ranks;
    unsigned size = dtype_info(t->type)->size;
    size_t in = sent(t, ranks);
    size_t out = received(t, ranks);
    if (in * size > b->bytes || out * size > b->bytes) {
        return err_set(err, ST_LIMIT, "a trial of %zu bytes in buffers of %zu",
                       (in > out ? in : out) * size, b->bytes);
    }
    unsigned char *table = period_of(scratch, t, ranks, b->collective->rank);
    spread(b->host, table, in, size);
    TRY(device_write(b->device, b->send, b->host, in * size, err));
    TRY(device_fill(b->device, b->recv, poison, out * size + BEHIND_BYTES, err));
    return device_sync(b->device, err);
}

/* ---- running ---- */

static struct collective_call call_of(struct collective_bench *b, const struct collective_trial *t)
{
    return (struct collective_call){.op = t->op,
                                    .type = t->type,
                                    .send = b->staged_send != NULL ? b->staged_send : b->send,
                                    .recv = b->staged_recv != NULL ? b->staged_recv : b->recv,
                                    .count = t->count,
                                    .root = t->root};
}

/* Through host memory and back where the library cannot take the device's. */
static enum status start(struct collective_bench *b, const struct collective_trial *t,
                         struct err *err)
{
    struct collective_call call = call_of(b, t);
    const struct collective_backend *backend = b->collective->backend;
    int ranks = b->collective->ranks;
    unsigned size = dtype_info(t->type)->size;
    if (b->staged_send == NULL) {
        return backend->call(b->collective, &call, err);
    }
    TRY(device_read(b->device, b->staged_send, b->send, sent(t, ranks) * size, err));
    TRY(backend->call(b->collective, &call, err));
    return device_write(b->device, b->recv, b->staged_recv, received(t, ranks) * size, err);
}

static enum status time_it(struct collective_bench *b, const struct collective_trial *t,
                           struct collective_result *r, struct err *err)
{
    size_t bytes = collective_bytes(t->op, t->count, dtype_info(t->type)->size,
                                    b->collective->ranks);
    unsigned row = bytes >= LONG_BYTES ? ROW_LONG : ROW_SHORT;
    for (unsigned i = 0; i < WARM_UP; i++) {
        TRY(start(b, t, err));
    }
    TRY(device_sync(b->device, err));
    for (unsigned s = 0; s < t->samples && s < COLLECTIVE_SAMPLES_MAX; s++) {
        double began = now_s();
        for (unsigned i = 0; i < row; i++) {
            TRY(start(b, t, err));
        }
        TRY(device_sync(b->device, err));
        r->seconds[r->sample_count++] = (now_s() - began) / row;
    }
    return ST_OK;
}

/* All ranks leave a call at about the same time; who is late at the next one has the longest time until then. The
 * work in between writes the whole send buffer, which a throttled or shared device does slowly. */
static enum status arrive(struct collective_bench *b, const struct collective_trial *t,
                          struct collective_result *r, struct err *err)
{
    for (unsigned i = 0; i < WARM_UP; i++) {
        TRY(start(b, t, err));
    }
    TRY(device_sync(b->device, err));
    for (unsigned s = 0; s < t->samples && s < COLLECTIVE_SAMPLES_MAX; s++) {
        double left = now_s();
        TRY(device_fill(b->device, b->send, work_pattern, b->bytes, err));
        TRY(device_sync(b->device, err));
        double ready = now_s();
        TRY(start(b, t, err));
        /* A call over host memory waits for the others: what is its own ends before it. */
        double own = b->collective->backend->host_memory ? ready : now_s();
        r->seconds[r->sample_count++] = own - left;
        TRY(device_sync(b->device, err));
    }
    return ST_OK;
}

enum status collective_bench_run(struct collective_bench *b, struct arena *scratch,
                                 const struct collective_trial *t,
                                 void (*tell)(void *context, const char *what), void *context,
                                 struct collective_result *ret_result, struct err *err)
{
    struct arena_mark mark = arena_mark(scratch);
    struct collective_result r = {0};
    enum status st = fill(b, scratch, t, err);
    if (st == ST_OK) {
        tell(context, "entered");
        st = t->aim == COLLECTIVE_TIME     ? time_it(b, t, &r, err)
             : t->aim == COLLECTIVE_ARRIVE ? arrive(b, t, &r, err)
                                           : start(b, t, err);
    }
    if (st == ST_OK) {
        tell(context, "queued");
        st = device_sync(b->device, err);
    }
    if (st == ST_OK && t->aim == COLLECTIVE_CHECK) {
        st = compare_result(b, scratch, t, &r.wrong, err);
    }
    arena_rewind(scratch, mark);
    if (st == ST_OK) {
        *ret_result = r;
    }
    return st;
}
