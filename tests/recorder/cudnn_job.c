// SPDX-License-Identifier: Apache-2.0
/* Calls the look-alike of cuDNN. usage: cudnn_job good|over; "over" ends the weights' gradient at a hole. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <sys/mman.h>

struct tensor {
    int rank;
    int size[5];
};

int cudnnConvolutionForward(void *handle, const void *alpha, const void *xd, const void *x,
                            const void *wd, const void *w, const void *conv, int algorithm,
                            void *workspace, size_t bytes, const void *beta, const void *yd,
                            void *y);
int cudnnConvolutionBackwardFilter(void *handle, const void *alpha, const void *xd, const void *x,
                                   const void *yd, const void *dy, const void *conv, int algorithm,
                                   void *workspace, size_t bytes, const void *beta, const void *wd,
                                   void *dw);
int cudnnBackendExecute(void *handle, void *plan, void *pack);

int main(int argc, char **argv)
{
    static uint16_t x[4096], y[4096], w[4096];
    const struct tensor xd = {4, {2, 8, 6, 6}}, wd = {4, {8, 2, 3, 3}}, yd = {4, {2, 8, 3, 3}};
    uint64_t pack[4] = {3, (uint64_t)(uintptr_t)x, (uint64_t)(uintptr_t)w, (uint64_t)(uintptr_t)y};
    int conv, handle;
    const size_t page = 4096, bytes = 8 * 2 * 3 * 3 * 2;
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE) != 0) {
        return 2;
    }
    void *dw = argc > 1 && strcmp(argv[1], "over") == 0 ? pages + page - bytes : pages;
    cudnnConvolutionForward(&handle, NULL, &xd, x, &wd, w, &conv, 1, NULL, 0, NULL, &yd, y);
    cudnnBackendExecute(&handle, &conv, pack);
    puts("step 1 loss 1.0");
    fflush(stdout);
    cudnnConvolutionBackwardFilter(&handle, NULL, &xd, x, &yd, y, &conv, 1, NULL, 0, NULL, &wd, dw);
    return 0;
}
