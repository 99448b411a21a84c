// SPDX-License-Identifier: Apache-2.0
/*
 * Start-up: settings from the environment, and the record file, made at the first recorded call.
 * Only system calls are used to make it, so that a signal handler and the child of a fork may.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "preload/preload.h"
#include "preload/record_file.h"
#include "preload/text.h"

struct settings settings;

const struct record_hook hook_rows[HOOK_COUNT] = {
#define HOOK(id, symbol, library) [HOOK_##id] = {symbol, library},
#include "preload/hooks.def"
#undef HOOK
};

/* What the environment of the start said; read again for nothing, programs change theirs. */
static struct {
    int rank, local_rank, world_size;
    char host[64];
    char program[256];
} identity;

static _Atomic(struct record_header *) file;
static _Atomic int making; /* 0 not yet, 1 somebody is at it, 2 tried */
static char path[4000];
static bool is_later; /* the program that called exec left a record before this one */

static const char *variable(const char *name)
{
    size_t n = strlen(name);
    for (char **e = environ; e != NULL && *e != NULL; e++) {
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=') {
            return *e + n + 1;
        }
    }
    return NULL;
}

static int number_of(const char *name, int fallback)
{
    const char *s = variable(name);
    if (s == NULL || *s == '\0') {
        return fallback;
    }
    long value = 0;
    for (; *s >= '0' && *s <= '9' && value < 100000000; s++) {
        value = value * 10 + (*s - '0');
    }
    return *s == '\0' ? (int)value : fallback;
}

static uint64_t realtime_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool file_size_allowed(uint64_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes <= limit.rlim_cur;
}

static struct record_header layout(void)
{
    struct record_header h = {
        .version = RECORD_VERSION,
        .header_bytes = RECORD_HEADER_BYTES,
        .hook_bytes = sizeof(struct record_hook),
        .ring_bytes = sizeof(struct record_ring),
        .entry_bytes = sizeof(struct record_entry),
        .alloc_bytes = sizeof(struct record_alloc),
        .name_bytes = sizeof(struct record_name),
        .binding_bytes = sizeof(struct record_binding),
        .hook_count = HOOK_COUNT,
        .ring_count = RECORD_RINGS,
        .ring_entries = RECORD_RING_ENTRIES,
        .alloc_slots = RECORD_ALLOC_SLOTS,
        .name_slots = RECORD_NAME_SLOTS,
        .binding_slots = RECORD_BINDINGS,
        .rank = identity.rank,
        .local_rank = identity.local_rank,
        .world_size = identity.world_size,
    };
    memcpy(h.magic, RECORD_MAGIC, sizeof h.magic);
    memcpy(h.host, identity.host, sizeof h.host);
    memcpy(h.program, identity.program, sizeof h.program);
    h.hooks_at = RECORD_HEADER_BYTES;
    h.rings_at = (h.hooks_at + sizeof hook_rows + 4095) & ~UINT64_C(4095);
    h.allocs_at = h.rings_at + (uint64_t)RECORD_RINGS * sizeof(struct record_ring);
    h.allocs_at = (h.allocs_at + 4095) & ~UINT64_C(4095);
    h.names_at = h.allocs_at + (uint64_t)RECORD_ALLOC_SLOTS * sizeof(struct record_alloc);
    h.bindings_at = h.names_at + (uint64_t)RECORD_NAME_SLOTS * sizeof(struct record_name);
    h.entries_at = h.bindings_at + (uint64_t)RECORD_BINDINGS * sizeof(struct record_binding);
    h.entries_at = (h.entries_at + 4095) & ~UINT64_C(4095);
    h.file_bytes = h.entries_at +
                   (uint64_t)RECORD_RINGS * RECORD_RING_ENTRIES * sizeof(struct record_entry);
    return h;
}

/* Some file systems have no fallocate; writing zeros reserves as well. */
static bool reserve(int fd, uint64_t at, uint64_t bytes)
{
    if (fallocate(fd, 0, (off_t)at, (off_t)bytes) == 0) {
        return true;
    }
    if (errno != EOPNOTSUPP && errno != ENOSYS) {
        return false;
    }
    static const char zeros[65536];
    for (uint64_t done = 0; done < bytes;) {
        size_t n = bytes - done < sizeof zeros ? (size_t)(bytes - done) : sizeof zeros;
        ssize_t wrote = pwrite(fd, zeros, n, (off_t)(at + done));
        if (wrote <= 0) {
            return false;
        }
        done += (uint64_t)wrote;
    }
    return true;
}

bool record_file_reserve(struct record_header *h, uint32_t ring)
{
    uint64_t bytes = (uint64_t)h->ring_entries * h->entry_bytes;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return false;
    }
    bool ok = reserve(fd, h->entries_at + ring * bytes, bytes);
    close(fd);
    return ok;
}

static int open_new(void)
{
    for (unsigned n = 0; n < 100; n++) {
        struct text t = {.p = path, .size = sizeof path};
        text_add(&t, settings.folder);
        text_add(&t, "/record.");
        text_number(&t, (uint64_t)getpid());
        is_later = n > 0;
        if (n > 0) { /* the program of this pid that called exec left the earlier ones */
            text_add(&t, ".");
            text_number(&t, n);
        }
        text_add(&t, ".bin");
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd >= 0 || errno != EEXIST) {
            return fd;
        }
    }
    return -1;
}

static struct record_header *make(void)
{
    struct record_header h = layout();
    int fd = open_new();
    if (fd < 0) {
        return NULL;
    }
    if (!file_size_allowed(h.file_bytes) || ftruncate(fd, (off_t)h.file_bytes) != 0 ||
        !reserve(fd, 0, h.entries_at)) {
        /* An empty file stays: it tells the reader that there was no room. */
        if (ftruncate(fd, 0) != 0) {
            unlink(path);
        }
        close(fd);
        return NULL;
    }
    struct record_header *map = mmap(NULL, h.file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED) {
        unlink(path);
        return NULL;
    }
    h.pid = getpid();
    h.parent = getppid();
    h.start_realtime_ns = realtime_ns();
    h.start_monotonic_ns = clock_ns();
    memcpy((char *)map + h.hooks_at, hook_rows, sizeof hook_rows);
    guard_describe(&h);
    fault_warm_up();
    /* The magic last: a file without it is one whose making was cut off. */
    memcpy((char *)map + sizeof h.magic, (char *)&h + sizeof h.magic, sizeof h - sizeof h.magic);
    atomic_thread_fence(memory_order_release);
    memcpy(map->magic, h.magic, sizeof h.magic);
    return map;
}

struct record_header *record_file_now(void)
{
    return atomic_load_explicit(&file, memory_order_acquire);
}

struct record_header *record_file(void)
{
    struct record_header *h = record_file_now();
    if (h != NULL || !settings.on) {
        return h;
    }
    int expected = 0;
    if (atomic_compare_exchange_strong(&making, &expected, 1)) {
        int kept = errno;
        h = make();
        atomic_store_explicit(&file, h, memory_order_release);
        atomic_store(&making, 2);
        if (h != NULL) {
            bindings_write(h);
            maps_write();
        }
        errno = kept;
        return h;
    }
    /* Another thread is making it: its few milliseconds are worth waiting for, a lock is not. */
    for (int i = 0; i < 1000 && atomic_load(&making) == 1; i++) {
        struct timespec pause = {0, 100000};
        nanosleep(&pause, NULL);
    }
    return record_file_now();
}

static void in_child(void)
{
    ring_forget();
    fault_after_fork();
    guard_after_fork();
    gpu_guard_after_fork();
    gpu_marks_after_fork();
    output_after_fork();
    real_symbols_after_fork();
    atomic_store(&file, NULL);
    atomic_store(&making, 0);
}

/* The first of the launchers' variables that is a number: torchrun, Open MPI, PMIx, MPICH and Intel MPI,
 * MVAPICH, SLURM. */
static int first_number(const char *const *names)
{
    int value = -1;
    for (; *names != NULL && value < 0; names++) {
        value = number_of(*names, -1);
    }
    return value;
}

static void read_identity(void)
{
    static const char *const ranks[] = {"RANK",     "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                        "PMI_RANK", "MV2_COMM_WORLD_RANK",  "SLURM_PROCID",
                                        NULL};
    static const char *const local_ranks[] = {"LOCAL_RANK",      "OMPI_COMM_WORLD_LOCAL_RANK",
                                              "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK",
                                              "SLURM_LOCALID",   NULL};
    static const char *const sizes[] = {"WORLD_SIZE",          "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                        "MV2_COMM_WORLD_SIZE", "SLURM_NTASKS",         NULL};
    identity.rank = first_number(ranks);
    identity.local_rank = first_number(local_ranks);
    identity.world_size = first_number(sizes);
    if (gethostname(identity.host, sizeof identity.host - 1) != 0) {
        identity.host[0] = '\0';
    }
    ssize_t n = readlink("/proc/self/exe", identity.program, sizeof identity.program - 1);
    identity.program[n > 0 ? n : 0] = '\0';
}

static void read_settings(void)
{
    const char *folder = variable("ASSAY_RECORD_DIR");
    if (folder == NULL || folder[0] != '/' || strlen(folder) >= sizeof settings.folder) {
        return;
    }
    memcpy(settings.folder, folder, strlen(folder) + 1);
    settings.guard_every = (unsigned)number_of("ASSAY_RECORD_GUARD", 0);
    settings.guard_min = (size_t)number_of("ASSAY_RECORD_GUARD_MIN", 1);
    settings.guard_begin = number_of("ASSAY_RECORD_GUARD_BEGIN", 0) != 0;
    settings.quarantine = number_of("ASSAY_RECORD_QUARANTINE", 0) != 0;
    settings.guard_off_by_test = number_of("ASSAY_RECORD_TEST_NO_GUARD", 0) != 0;
    settings.gpu_guard = number_of("ASSAY_RECORD_GPU_GUARD", 0) != 0;
    settings.gpu_alignment = (uint64_t)number_of("ASSAY_RECORD_GPU_ALIGN", 16);
    if (settings.gpu_alignment == 0 || settings.gpu_alignment > 4096 ||
        (settings.gpu_alignment & (settings.gpu_alignment - 1)) != 0) {
        settings.gpu_alignment = 16;
    }
    settings.marks = (unsigned)number_of("ASSAY_RECORD_MARKS", 0);
    settings.on = true;
}

/* Logs of libraries that know no place-holder for the process get its number here: run --library-logs. */
static void name_library_logs(void)
{
    static const char *const names[][2] = {{"ROCBLAS_LOG_BENCH_PATH", "/library.rocblas."},
                                           {"CUDNN_LOGDEST_DBG", "/library.cudnn."}};
    size_t folder = strlen(settings.folder);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = variable(names[i][0]);
        if (value == NULL || strncmp(value, settings.folder, folder) != 0 ||
            strncmp(value + folder, names[i][1], strlen(names[i][1])) != 0) {
            continue; /* the user's own */
        }
        char room[sizeof settings.folder + 100];
        struct text t = {.p = room, .size = sizeof room};
        text_add(&t, settings.folder);
        text_add(&t, names[i][1]);
        text_number(&t, (uint64_t)getpid());
        text_add(&t, ".log");
        setenv(names[i][0], room, 1);
    }
}

typedef void (*exit_function)(int);
static _Atomic(void *)
    real_exit; /* behind us; looked up at the start, for a signal handler may not */

__attribute__((constructor)) static void start(void)
{
    int kept = errno;
    atomic_store(&real_exit, raw_dlsym(RTLD_NEXT, "_exit"));
    read_settings();
    if (settings.on) {
        read_identity();
        settings.rank = identity.rank;
        settings.local_rank = identity.local_rank;
        const char *slash = strrchr(identity.program, '/');
        settings.is_python = slash != NULL && strncmp(slash + 1, "python", 6) == 0;
        output_start();
        name_library_logs();
        /* Another user's program (setuid) cannot write there: the file is not made, nothing else. */
        if (pthread_atfork(NULL, NULL, in_child) != 0) {
            settings.on = false;
        } else {
            fault_start();
            if (settings.guard_every > 0) {
                guard_start();
            }
        }
    }
    errno = kept;
}

/* Aligned memory alone, as cat takes it: a job's scripts may start thousands of such programs. */
static bool says_nothing(const struct record_header *h)
{
    const struct record_ring *rings = (const struct record_ring *)((const char *)h + h->rings_at);
    if (h->guard != RECORD_GUARD_OFF || h->fault.present != 0 || h->gpu_fault.present != 0) {
        return false;
    }
    for (uint32_t r = 0; r < h->ring_count; r++) {
        for (uint32_t hook = 0; rings[r].tid != 0 && hook < HOOK_COUNT; hook++) {
            if (rings[r].counts[hook] != 0 && strcmp(hook_rows[hook].library, "libc") != 0) {
                return false;
            }
        }
    }
    return true;
}

static void end(enum record_ending how, int status)
{
    struct record_header *h = record_file_now();
    if (h != NULL && h->pid == getpid() && says_nothing(h)) {
        unlink(path);
        if (!is_later) {
            maps_forget();
        }
    } else if (h != NULL && h->pid == getpid()) {
        maps_write();
        h->end_monotonic_ns = clock_ns();
        h->exit_status = status;
        atomic_store(&h->ending, how);
    }
}

__attribute__((destructor)) static void stop(void)
{
    end(RECORD_EXITED, 0);
}

/* Python's os._exit, and so the end of every process that its multiprocessing forks. System calls alone, for it is
 * called from signal handlers and after vfork, where the record is the parent's and stays as it is. */
EXPORT _Noreturn void _exit(int status)
{
    end(RECORD_LEFT, status);
    exit_function next = (exit_function)atomic_load(&real_exit);
    if (next != NULL) { /* the C library's, or a sanitizer's, which has a word to say */
        next(status);
    }
    for (;;) {
        syscall(SYS_exit_group, status);
    }
}

EXPORT _Noreturn void _Exit(int status)
{
    _exit(status);
}
