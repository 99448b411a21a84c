// SPDX-License-Identifier: Apache-2.0
/* With PRELOAD a library that a user preloads: it tells of aligned allocations on their way. Without, a program
 * that brings its own malloc and free, as with a static jemalloc. */
#ifdef PRELOAD
# include <dlfcn.h>
#endif
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef PRELOAD
int posix_memalign(void **ret, size_t alignment, size_t size)
{
    typedef int (*function)(void **, size_t, size_t);
    static int seen;
    function f = (function)dlsym(RTLD_NEXT, "posix_memalign");
    if (seen++ == 0) {
        static const char text[] = "the user's library was asked\n";
        (void)!write(1, text, sizeof text - 1);
    }
    return f(ret, alignment, size);
}
#else
static char room[1 << 20];
static size_t used;

void *malloc(size_t size)
{
    char *p = room + used;
    used += (size + 15) / 16 * 16;
    return used < sizeof room ? p : NULL;
}

void *calloc(size_t count, size_t size)
{
    return malloc(count * size); /* never used twice: zero */
}

void *realloc(void *p, size_t size)
{
    void *q = malloc(size);
    if (q != NULL && p != NULL) {
        memmove(q, p, size);
    }
    return q;
}

void free(void *p)
{
    if (p != NULL && ((char *)p < room || (char *)p >= room + sizeof room)) {
        static const char text[] = "FAILED: a block that is none of ours\n";
        (void)!write(1, text, sizeof text - 1);
        _exit(1);
    }
}

void *aligned_alloc(size_t alignment, size_t size)
{
    used = (used + alignment - 1) / alignment * alignment;
    return malloc(size);
}

void sgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k,
            const float *alpha, const float *a, const int *lda, const float *b, const int *ldb,
            const float *beta, float *c, const int *ldc);

int main(void)
{
    const int size = 1;
    const float one = 1;
    void *aside; /* of libc: the guard is asked, and must know that it is off */
    if (posix_memalign(&aside, 64, 4096) != 0) {
        return 1;
    }
    float *p = aligned_alloc(64, 6400);
    memset(p, 0, 6400);
    sgemm_("N", "N", &size, &size, &size, &one, p, &size, p, &size, &one, p, &size);
    free(p);
    puts("done");
    return 0;
}
#endif
