// SPDX-License-Identifier: Apache-2.0
/*
 * A patch embedding as Conv3d over the fake MIOpen: forward, the gradient of the data, that of the weights.
 * usage: conv_job STEPS [WAY]
 * With a way the job ends as ROCr ends one, by a line with an address and SIGABRT: past (behind the weights), freed,
 * live (inside the input), wild.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int hipInit(unsigned flags);
int hipMalloc(void **p, size_t size);
int hipFree(void *p);
int hipMemsetD32(uint64_t to, int value, size_t count);
int hipDeviceSynchronize(void);
int miopenCreate(void **handle);
int miopenCreateTensorDescriptor(void **desc);
int miopenSetTensorDescriptor(void *desc, int type, int rank, const int *size, const int *stride);
int miopenCreateConvolutionDescriptor(void **desc);
int miopenInitConvolutionNdDescriptor(void *desc, int spatial, const int *padding,
                                      const int *stride, const int *dilation, int mode);
int miopenConvolutionForwardImmediate(void *handle, void *wd, const void *w, void *xd,
                                      const void *x, void *conv, void *yd, void *y, void *workspace,
                                      size_t bytes, uint64_t solution);
int miopenConvolutionBackwardDataImmediate(void *handle, void *yd, const void *dy, void *wd,
                                           const void *w, void *conv, void *xd, void *dx,
                                           void *workspace, size_t bytes, uint64_t solution);
int miopenConvolutionBackwardWeights(void *handle, const void *alpha, void *yd, const void *dy,
                                     void *xd, const void *x, void *conv, int algorithm,
                                     const void *beta, void *wd, void *dw, void *workspace,
                                     size_t bytes);

enum {
    FLOAT = 1,
    ONE = 0x3f800000,
    SOLUTION = 85
};

static void check(int status, const char *what)
{
    if (status != 0) {
        printf("%s: error %d\n", what, status);
        fflush(stdout);
        exit(1);
    }
}

struct tensor {
    void *desc, *at;
};

static struct tensor make(const int size[5])
{
    struct tensor t;
    int stride[5];
    size_t n = 1;
    for (int d = 4; d >= 0; d--) {
        stride[d] = (int)n;
        n *= (size_t)size[d];
    }
    check(miopenCreateTensorDescriptor(&t.desc), "descriptor");
    check(miopenSetTensorDescriptor(t.desc, FLOAT, 5, size, stride), "descriptor");
    check(hipMalloc(&t.at, n * sizeof(float)), "memory");
    check(hipMemsetD32((uint64_t)(uintptr_t)t.at, ONE, n), "memory");
    return t;
}

/* No signal tells the address: the GPU's fault is another thread's line. */
static void end_as_rocr(const char *way, const struct tensor *x, const struct tensor *w)
{
    char *at = (char *)(uintptr_t)0xdead0000000;
    if (strcmp(way, "past") == 0) {
        at = (char *)w->at + 8 * 3 * 2 * 14 * 14 * sizeof(float) + 4095;
    } else if (strcmp(way, "live") == 0) {
        at = (char *)x->at + 8192;
    } else if (strcmp(way, "freed") == 0) {
        void *p = NULL;
        check(hipMalloc(&p, 1 << 20), "memory");
        check(hipFree(p), "memory");
        at = (char *)p + 8192;
    }
    fprintf(
        stderr,
        "Memory access fault by GPU node-1 (Agent handle: 0x5a3c1e0) on address 0x%llx. Reason: Page not "
        "present or supervisor privilege.\n",
        (unsigned long long)((uintptr_t)at & ~(uintptr_t)4095));
    abort();
}

int main(int argc, char **argv)
{
    static const int sizes[3][5] = {{2, 3, 2, 28, 28}, {8, 3, 2, 14, 14}, {2, 8, 1, 2, 2}};
    static const int none[3] = {0, 0, 0}, window[3] = {2, 14, 14}, one[3] = {1, 1, 1};
    long steps = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
    const float scale[2] = {1, 0};
    void *handle, *conv;
    check(hipInit(0), "hipInit");
    check(miopenCreate(&handle), "handle");
    struct tensor x = make(sizes[0]), w = make(sizes[1]), y = make(sizes[2]);
    check(miopenCreateConvolutionDescriptor(&conv), "convolution");
    check(miopenInitConvolutionNdDescriptor(conv, 3, none, window, one, 0), "convolution");
    for (long step = 1; step <= steps; step++) {
        check(miopenConvolutionForwardImmediate(handle, w.desc, w.at, x.desc, x.at, conv, y.desc,
                                                y.at, NULL, 0, SOLUTION),
              "forward");
        if (argc > 2) {
            end_as_rocr(argv[2], &x, &w);
        }
        check(hipDeviceSynchronize(), "waiting");
        float loss = *(const float *)y.at;
        check(miopenConvolutionBackwardWeights(handle, &scale[0], y.desc, y.at, x.desc, x.at, conv,
                                               3, &scale[1], w.desc, w.at, NULL, 0),
              "weights");
        check(miopenConvolutionBackwardDataImmediate(handle, y.desc, y.at, w.desc, w.at, conv,
                                                     x.desc, x.at, NULL, 0, SOLUTION),
              "data");
        printf("step %ld loss %.4f\n", step, (double)loss);
        fflush(stdout);
    }
    return 0;
}
