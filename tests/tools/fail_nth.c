// SPDX-License-Identifier: Apache-2.0
/*
 * Preloaded by tests/cli/torture.sh: makes the FAIL_NTH-th call of FAIL_CALL (malloc, open, read,
 * mmap, opendir) fail with an honest errno. Prints how many calls were seen when FAIL_COUNT names a
 * file, so that the script knows where to stop.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>

extern void *__libc_malloc(size_t size);

static const char *wanted;
static long nth;
static long seen;
static int ready;

static int strike(const char *call)
{
    if (!ready || wanted == NULL || strcmp(wanted, call) != 0) {
        return 0;
    }
    return __atomic_add_fetch(&seen, 1, __ATOMIC_RELAXED) == nth;
}

__attribute__((constructor)) static void start(void)
{
    wanted = getenv("FAIL_CALL");
    const char *n = getenv("FAIL_NTH");
    nth = n != NULL ? strtol(n, NULL, 10) : 0;
    ready = 1;
}

__attribute__((destructor)) static void stop(void)
{
    ready = 0;
    const char *path = getenv("FAIL_COUNT");
    if (path == NULL) {
        return;
    }
    FILE *f = fopen(path, "w");
    if (f != NULL) {
        fprintf(f, "%ld\n", seen);
        fclose(f);
    }
}

void *malloc(size_t size)
{
    if (strike("malloc")) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_malloc(size);
}

int open(const char *path, int flags, ...)
{
    static int (*real)(const char *, int, ...);
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "open");
    }
    va_list ap;
    va_start(ap, flags);
    int mode = (flags & O_CREAT) != 0 ? va_arg(ap, int) : 0;
    va_end(ap);
    if (strike("open")) {
        errno = EIO;
        return -1;
    }
    return real(path, flags, mode);
}

ssize_t read(int fd, void *buffer, size_t n)
{
    static ssize_t (*real)(int, void *, size_t);
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "read");
    }
    if (strike("read")) {
        errno = EIO;
        return -1;
    }
    return real(fd, buffer, n);
}

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    static void *(*real)(void *, size_t, int, int, int, off_t);
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "mmap");
    }
    if (strike("mmap")) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return real(at, n, prot, flags, fd, offset);
}

DIR *opendir(const char *path)
{
    static DIR *(*real)(const char *);
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "opendir");
    }
    if (strike("opendir")) {
        errno = EIO;
        return NULL;
    }
    return real(path);
}
