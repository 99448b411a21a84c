// SPDX-License-Identifier: Apache-2.0
/* A plug-in with a BLAS of its own; and, with EARLY, a library that allocates and computes before and after main. */
#include <stdlib.h>
#include <string.h>

void sgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k,
            const float *alpha, const float *a, const int *lda, const float *b, const int *ldb,
            const float *beta, float *c, const int *ldc);

float plugin_product(void);

float plugin_product(void)
{
    const float one = 1;
    const float zero = 0;
    const float a = 3;
    const float b = 5;
    const int size = 1;
    float c = 0;
    sgemm_("N", "N", &size, &size, &size, &one, &a, &size, &b, &size, &zero, &c, &size);
    return c;
}

#ifdef EARLY
static void *kept;

__attribute__((constructor)) static void early(void)
{
    if (posix_memalign(&kept, 64, 10000) == 0) {
        memset(kept, 1, 10000);
    }
    kept = realloc(kept, 20000); /* what was taken before the recorder began is freed after */
    plugin_product();
}

__attribute__((destructor)) static void late(void)
{
    void *more = aligned_alloc(64, 6400);
    plugin_product();
    free(more);
    free(kept);
}
#endif
