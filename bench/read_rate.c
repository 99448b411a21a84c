// SPDX-License-Identifier: Apache-2.0
/*
 * How fast all of a file can be read out of the page cache by all cores and looked at once, a sum of its
 * words: the mark that a pass over values is held against. Two ways, and the faster counts: mapped pages, and
 * read() into a buffer that stays in the cache. usage: read_rate FILE mapped|read; prints seconds.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/stat.h>

enum {
    WINDOW = 8 << 20,
    BUFFER = 256 << 10,
    THREADS = 64
};

static const char *map;
static int fd;
static size_t size;
static int by_read;
static atomic_size_t next;
static atomic_uint_fast64_t total;

static uint64_t sum(const char *p, size_t n)
{
    uint64_t s[8] = {0};
    for (size_t i = 0; i + sizeof s <= n; i += sizeof s) {
        uint64_t w[8];
        memcpy(w, p + i, sizeof w);
        for (size_t k = 0; k < 8; k++) {
            s[k] += w[k];
        }
    }
    return s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

static void *work(void *unused)
{
    char *buffer = malloc(BUFFER);
    size_t at;
    (void)unused;
    while ((at = atomic_fetch_add(&next, WINDOW)) < size) {
        size_t n = size - at < WINDOW ? size - at : WINDOW;
        if (by_read) {
            for (size_t done = 0; done < n; done += BUFFER) {
                ssize_t got = pread(fd, buffer, n - done < BUFFER ? n - done : BUFFER,
                                    (off_t)(at + done));
                total += sum(buffer, got > 0 ? (size_t)got : 0);
            }
            continue;
        }
        (void)madvise((void *)(map + at), n, MADV_POPULATE_READ);
        total += sum(map + at, n);
        (void)madvise((void *)(map + at), n, MADV_DONTNEED);
    }
    free(buffer);
    return NULL;
}

int main(int argc, char **argv)
{
    struct stat st;
    struct timespec a;
    struct timespec b;
    pthread_t threads[THREADS];
    cpu_set_t cores;
    int count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
    count = count > THREADS ? THREADS : count;
    if (argc != 3 || (fd = open(argv[1], O_RDONLY)) < 0 || fstat(fd, &st) != 0) {
        fprintf(stderr, "usage: read_rate FILE mapped|read\n");
        return 64;
    }
    size = (size_t)st.st_size;
    by_read = strcmp(argv[2], "read") == 0;
    clock_gettime(CLOCK_MONOTONIC, &a);
    map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    for (int i = 0; i < count; i++) {
        pthread_create(&threads[i], NULL, work, NULL);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("%.6f\n", (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec));
    fprintf(stderr, "%llx\n", (unsigned long long)total);
    return 0;
}
