// SPDX-License-Identifier: Apache-2.0
/*
 * Latency, bandwidth and the leak test over the device table; matrix rates are in figures_gemm.c.
 */
#include "ops/figures.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/str.h"

#include "device/isolate.h"
#include "device/kernels.h"
#include "ops/figures_inside.h"

enum {
    DEADLINE_MS = 180000,
    ROUNDS = 200,
    LEAK_ROUNDS = 1000,
    LEAK_WARM = 100,
    COPIES = 10
};

#define MIB ((size_t)1 << 20)

const char *figure_verdict_name(enum figure_verdict verdict)
{
    static const char *const names[FIGURE_VERDICT_COUNT] = {"fine", "slow", "no limit known",
                                                            "could not tell"};
    return verdict < FIGURE_VERDICT_COUNT ? names[verdict] : "unknown";
}

double figures_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct figure *figures_add(struct figures *to, const char *what, const char *unit)
{
    struct figure *f = &to->items[to->count < FIGURES_MAX ? to->count : FIGURES_MAX - 1];
    to->count += to->count < FIGURES_MAX;
    *f = (struct figure){.verdict = FIGURE_NO_LIMIT};
    str_print(f->what, sizeof f->what, "%s", what);
    str_print(f->unit, sizeof f->unit, "%s", unit);
    return f;
}

void figures_failed(struct figure *f, const struct err *err)
{
    f->verdict = FIGURE_UNKNOWN;
    str_print(f->note, sizeof f->note, "%s", err->text);
}

/* A time in microseconds that should not be above `limit`; 0: no judgement. */
static void set_time(struct figure *f, double seconds, double limit)
{
    f->value = seconds * 1e6;
    f->limit = limit;
    if (limit > 0) {
        f->verdict = f->value <= limit ? FIGURE_FINE : FIGURE_SLOW;
    }
}

void figures_set_rate(struct figure *f, double value, double limit)
{
    f->value = value;
    f->limit = limit;
    if (limit > 0) {
        f->verdict = value >= limit / 2 ? FIGURE_FINE : FIGURE_SLOW;
    }
}

/* --- latencies --------------------------------------------------------------------------------- */

static const struct kernel_launch one_group = {.groups = 1, .group_size = 1};

static enum status launch_many(struct device *device, bool wait_each, double *ret_seconds,
                               struct err *err)
{
    TRY(device_launch(device, &kernel_nothing, &one_group, err)); /* builds it */
    TRY(device_sync(device, err));
    double start = figures_now();
    for (int i = 0; i < ROUNDS; i++) {
        TRY(device_launch(device, &kernel_nothing, &one_group, err));
        if (wait_each) {
            TRY(device_sync(device, err));
        }
    }
    TRY(device_sync(device, err));
    *ret_seconds = (figures_now() - start) / ROUNDS;
    return ST_OK;
}

static enum status sync_many(struct device *device, double *ret_seconds, struct err *err)
{
    double start = figures_now();
    for (int i = 0; i < ROUNDS; i++) {
        TRY(device_sync(device, err));
    }
    *ret_seconds = (figures_now() - start) / ROUNDS;
    return ST_OK;
}

static enum status alloc_many(struct device *device, size_t bytes, double *ret_seconds,
                              struct err *err)
{
    double start = figures_now();
    for (int i = 0; i < ROUNDS; i++) {
        void *p;
        TRY(device_alloc(device, bytes, &p, err));
        device_free(device, p);
    }
    *ret_seconds = (figures_now() - start) / ROUNDS;
    return ST_OK;
}

/* The same after every second of many neighbours was freed: gaps that the block does not fit in. */
static enum status alloc_among_gaps(struct device *device, double *ret_seconds, struct err *err)
{
    enum {
        BLOCKS = 64
    };

    void *blocks[BLOCKS] = {0};
    enum status st = ST_OK;
    for (size_t i = 0; i < BLOCKS && st == ST_OK; i++) {
        st = device_alloc(device, MIB, &blocks[i], err);
    }
    for (size_t i = 0; i < BLOCKS; i += 2) {
        device_free(device, blocks[i]);
        blocks[i] = NULL;
    }
    if (st == ST_OK) {
        st = alloc_many(device, 2 * MIB + 4096, ret_seconds, err);
    }
    for (size_t i = 1; i < BLOCKS; i += 2) {
        device_free(device, blocks[i]);
    }
    return st;
}

static void latencies(struct device *device, struct figures *to)
{
    /* PyTorch issues hundreds of launches a step: more than this each makes the host the limit. */
    bool gpu = device->info.kind == DEVICE_CUDA || device->info.kind == DEVICE_HIP;
    const double launch_us = gpu ? 20 : 0;
    const double launch_sync_us = gpu ? 100 : 0;
    struct err err;
    double seconds;
    struct figure *f = figures_add(to, "launch of a kernel", "us");
    if (launch_many(device, false, &seconds, &err) == ST_OK) {
        set_time(f, seconds, launch_us);
    } else {
        figures_failed(f, &err);
    }
    f = figures_add(to, "launch and wait", "us");
    if (launch_many(device, true, &seconds, &err) == ST_OK) {
        set_time(f, seconds, launch_sync_us);
    } else {
        figures_failed(f, &err);
    }
    f = figures_add(to, "wait with nothing to wait for", "us");
    if (sync_many(device, &seconds, &err) == ST_OK) {
        set_time(f, seconds, 0);
    } else {
        figures_failed(f, &err);
    }
    f = figures_add(to, "allocate and free 2 MiB", "us");
    if (alloc_many(device, 2 * MIB, &seconds, &err) == ST_OK) {
        set_time(f, seconds, 0);
    } else {
        figures_failed(f, &err);
    }
    f = figures_add(to, "the same among gaps", "us");
    if (alloc_among_gaps(device, &seconds, &err) == ST_OK) {
        set_time(f, seconds, 0);
    } else {
        figures_failed(f, &err);
    }
}

/* --- bandwidths -------------------------------------------------------------------------------- */

struct buffers {
    void *device_a, *device_b;
    char *host;
    size_t bytes;
};

enum direction {
    TO_DEVICE = 0,
    TO_HOST,
    ON_DEVICE
};

static enum status copy_once(struct device *device, const struct buffers *b, enum direction way,
                             struct err *err)
{
    switch (way) {
    case TO_DEVICE: return device_write(device, b->device_a, b->host, b->bytes, err);
    case TO_HOST: return device_read(device, b->host, b->device_a, b->bytes, err);
    default: return device_copy(device, b->device_b, b->device_a, b->bytes, err);
    }
}

static enum status copy_many(struct device *device, const struct buffers *b, enum direction way,
                             double *ret_seconds, struct err *err)
{
    TRY(copy_once(device, b, way, err));
    TRY(device_sync(device, err));
    double start = figures_now();
    for (int i = 0; i < COPIES; i++) {
        TRY(copy_once(device, b, way, err));
    }
    TRY(device_sync(device, err));
    *ret_seconds = (figures_now() - start) / COPIES;
    return ST_OK;
}

/* Two transfers a clock: what the attributes of the part multiply to. */
static double memory_peak(const struct device_info *info)
{
    const double bytes_per_clock = 2.0 * info->memory_bus_bits / 8.0;
    return (double)info->memory_clock_mhz * 1e6 * bytes_per_clock / 1e9;
}

static void bandwidths(struct device *device, struct arena *a, struct figures *to)
{
    static const char *const names[] = {"copy to the device", "copy from the device",
                                        "copy on the device (read and write)"};
    struct err err;
    struct buffers b = {.bytes = 64 * MIB};
    b.host = arena_alloc(a, b.bytes);
    bool ready = device_alloc(device, b.bytes, &b.device_a, &err) == ST_OK &&
                 device_alloc(device, b.bytes, &b.device_b, &err) == ST_OK;
    for (size_t way = 0; way < ARRAY_LEN(names); way++) {
        struct figure *f = figures_add(to, names[way], "GB/s");
        double seconds = 0;
        if (!ready || copy_many(device, &b, (enum direction)way, &seconds, &err) != ST_OK) {
            figures_failed(f, &err);
            continue;
        }
        double bytes = (double)b.bytes * (way == ON_DEVICE ? 2 : 1);
        figures_set_rate(f, bytes / seconds / 1e9,
                         way == ON_DEVICE ? memory_peak(&device->info) : 0);
        if (way == ON_DEVICE && f->limit > 0) {
            str_print(f->note, sizeof f->note, "limit: %d MHz x 2 x %d bit",
                      device->info.memory_clock_mhz, device->info.memory_bus_bits);
        }
    }
    device_free(device, b.device_a);
    device_free(device, b.device_b);
}

/* --- the leak test ----------------------------------------------------------------------------- */

/* Resident memory of this process. */
static double resident_kib(struct arena *a)
{
    static const struct fs live = {.prefix = ""};
    struct arena_mark mark = arena_mark(a);
    struct str text = {0};
    struct str part;
    uint64_t pages = 0;
    if (fs_read_trimmed(&live, a, "/proc/self/statm", &text, NULL) == ST_OK &&
        str_cut(&text, ' ', &part) && str_cut(&text, ' ', &part) &&
        str_to_u64(part, 10, &pages) != ST_OK) {
        pages = 0;
    }
    arena_rewind(a, mark);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1024.0;
}

static enum status leak_rounds(struct device *device, int rounds, struct err *err)
{
    uint32_t word = 0;
    for (int i = 0; i < rounds; i++) {
        void *p;
        TRY(device_alloc(device, MIB, &p, err));
        TRY(device_fill(device, p, 0, MIB, err));
        TRY(device_launch(device, &kernel_nothing, &one_group, err));
        TRY(device_read(device, &word, p, sizeof word, err));
        device_free(device, p);
    }
    return ST_OK;
}

static void leaks(struct device *device, struct arena *a, struct figures *to)
{
    /* Run-time libraries keep a little; a leak of one launch record a round is far more. */
    const double allowed_kib = 1024;
    struct err err;
    struct figure *f = figures_add(to, "growth over 1,000 rounds", "KiB");
    if (leak_rounds(device, LEAK_WARM, &err) != ST_OK) {
        figures_failed(f, &err);
        return;
    }
    double before = resident_kib(a);
    if (leak_rounds(device, LEAK_ROUNDS, &err) != ST_OK) {
        figures_failed(f, &err);
        return;
    }
    double grown = resident_kib(a) - before;
    f->value = grown > 0 ? grown : 0;
    f->limit = allowed_kib;
    f->verdict = f->value <= allowed_kib ? FIGURE_FINE : FIGURE_SLOW;
    str_print(f->note, sizeof f->note,
              "resident host memory: allocate, fill, launch, read back, free");
}

/* --- in a child -------------------------------------------------------------------------------- */

struct run {
    enum device_kind kind;
    int index;
    bool opened;
    struct figures figures;
    struct err err;
};

static void measure(void *context)
{
    struct run *run = context;
    struct arena *a = arena_new(0);
    struct device *device;
    if (device_open(a, run->kind, run->index, NULL, &device, &run->err) != ST_OK) {
        return;
    }
    run->opened = true;
    str_print(run->figures.device, sizeof run->figures.device, "%s", device->info.name);
    latencies(device, &run->figures);
    bandwidths(device, a, &run->figures);
    figures_gemm(device, a, &run->figures);
    leaks(device, a, &run->figures);
}

enum status figures_measure(enum device_kind kind, int index, struct figures *ret_figures,
                            struct err *err)
{
    struct run *run = isolate_shared(sizeof *run);
    if (run == NULL) {
        return err_sys(err, errno, "cannot share %zu bytes with a child process", sizeof *run);
    }
    run->kind = kind;
    run->index = index;
    const struct isolate_options how = {.deadline_ms = DEADLINE_MS};
    struct isolate_end end;
    enum status st = isolate_run(&how, measure, run, &end, err);
    if (st == ST_OK && end.ending != ENDING_OK) {
        st = err_set(err, ST_IO, "measuring %s:%d ended by %s%s%s", device_kind_name(kind), index,
                     ending_name(end.ending), end.text[0] != '\0' ? ": " : "", end.text);
    } else if (st == ST_OK && !run->opened) {
        st = err_set(err, run->err.status, "%s", run->err.text);
    }
    if (st == ST_OK) {
        *ret_figures = run->figures;
    }
    isolate_shared_free(run, sizeof *run);
    return st;
}
