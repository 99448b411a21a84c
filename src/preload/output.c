// SPDX-License-Identifier: Apache-2.0
/*
 * Digests of the lines that a Python program with a rank writes (line_format.h). write(2) is left as it is: it
 * is only looked at, and only for descriptors 1 and 2 of such a process.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/syscall.h>

#include "preload/preload.h"
#include "preload/text.h"
#include "recorder/line_format.h"

typedef ssize_t (*write_function)(int, const void *, size_t);

static _Atomic(void *) real_write;
static _Atomic(struct lines_file *) lines;
static _Atomic int tried;
static _Atomic int busy; /* one thread at a time; another one's lines go untold */

/* A line whose end was not written yet, of descriptor 1 and 2. */
static struct {
    uint64_t digest;
    size_t n;
} open_line[2];

void output_start(void)
{
    atomic_store(&real_write, raw_dlsym(RTLD_NEXT, "write"));
}

void output_after_fork(void)
{
    atomic_store(&lines, NULL);
    atomic_store(&tried, 0);
    atomic_store(&busy, 0);
    open_line[0].n = open_line[1].n = 0;
}

static struct lines_file *make(void)
{
    char path[sizeof settings.folder + 64];
    struct text t = {.p = path, .size = sizeof path};
    text_add(&t, settings.folder);
    text_add(&t, "/lines.");
    text_number(&t, (uint64_t)getpid());
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return NULL;
    }
    void *map = MAP_FAILED;
    /* Reserved, so that a full disk is no fault of the program. */
    if (file_size_allowed(sizeof(struct lines_file)) &&
        posix_fallocate(fd, 0, sizeof(struct lines_file)) == 0) {
        map = mmap(NULL, sizeof(struct lines_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    close(fd);
    if (map == MAP_FAILED) {
        return NULL;
    }
    struct lines_file *f = map;
    f->pid = getpid();
    f->rank = settings.rank;
    f->local_rank = settings.local_rank;
    atomic_thread_fence(memory_order_release);
    memcpy(f->magic, LINES_MAGIC, sizeof f->magic);
    return f;
}

static void put(struct lines_file *f, uint64_t digest)
{
    uint64_t number = atomic_load_explicit(&f->written, memory_order_relaxed);
    atomic_store_explicit(&f->digests[number % LINES_RING], lines_digest_end(digest),
                          memory_order_release);
    atomic_store_explicit(&f->written, number + 1, memory_order_release);
}

static void look_at(int fd, const unsigned char *p, size_t n)
{
    int none = 0;
    if (!atomic_compare_exchange_strong(&busy, &none, 1)) {
        return;
    }
    int kept = errno;
    struct lines_file *f = atomic_load(&lines);
    if (f == NULL && atomic_exchange(&tried, 1) == 0) {
        f = make();
        atomic_store(&lines, f);
    }
    for (size_t i = 0; f != NULL && i < n; i++) {
        uint64_t *digest = &open_line[fd - 1].digest;
        size_t *length = &open_line[fd - 1].n;
        if (p[i] == '\n' || p[i] == '\r') {
            if (*length > 0) {
                put(f, *digest);
            }
            *length = 0;
            continue;
        }
        if (*length == 0) {
            *digest = LINES_DIGEST_START;
        }
        if (*length < LINES_DIGESTED) {
            *digest = lines_digest_byte(*digest, p[i]);
        }
        ++*length;
    }
    errno = kept;
    atomic_store(&busy, 0);
}

EXPORT ssize_t write(int fd, const void *buf, size_t n)
{
    /* The helpers of a job (cat, tee), which have its rank as well, leave no file. */
    if (settings.on && settings.rank >= 0 && settings.is_python &&
        (fd == STDOUT_FILENO || fd == STDERR_FILENO) && buf != NULL) {
        look_at(fd, buf, n);
    }
    write_function f = (write_function)atomic_load_explicit(&real_write, memory_order_relaxed);
    return f != NULL ? f(fd, buf, n) : (ssize_t)syscall(SYS_write, fd, buf, n);
}
