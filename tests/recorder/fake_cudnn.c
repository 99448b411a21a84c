// SPDX-License-Identifier: Apache-2.0
/* Functions of cuDNN that the recorder hooks, and those that it asks; nothing is computed. A descriptor is the sizes
 * of its tensor behind its rank; FAULT in the weights' gradient is a write behind it. */
#include <stdint.h>
#include <string.h>

struct tensor {
    int rank;
    int size[5];
};

enum {
    OK = 0,
    BAD_PARAMETER = 2000,
    HALF = 2,
    NHWC = 1
};

int cudnnGetTensorNdDescriptor(const struct tensor *t, int asked, int *type, int *rank, int *size,
                               int *stride)
{
    if (asked < t->rank) {
        return BAD_PARAMETER;
    }
    *type = HALF;
    *rank = t->rank;
    memcpy(size, t->size, (size_t)t->rank * sizeof *size);
    int step = t->size[1]; /* channels last */
    for (int d = t->rank - 1; d > 1; d--) {
        stride[d] = step;
        step *= t->size[d];
    }
    stride[1] = 1;
    stride[0] = step;
    return OK;
}

int cudnnGetFilterNdDescriptor(const struct tensor *t, int asked, int *type, int *layout, int *rank,
                               int *size)
{
    if (asked < t->rank) {
        return BAD_PARAMETER;
    }
    *type = HALF;
    *layout = NHWC;
    *rank = t->rank;
    memcpy(size, t->size, (size_t)t->rank * sizeof *size);
    return OK;
}

int cudnnGetConvolutionNdDescriptor(const void *desc, int asked, int *n, int *padding, int *stride,
                                    int *dilation, int *mode, int *type)
{
    (void)desc;
    for (int i = 0; i < asked; i++) {
        padding[i] = 1;
        stride[i] = 2;
        dilation[i] = 1;
    }
    *n = asked;
    *mode = 1;
    *type = 0;
    return OK;
}

int cudnnGetConvolutionGroupCount(const void *desc, int *groups)
{
    (void)desc;
    *groups = 4;
    return OK;
}

int cudnnGetStream(void *handle, void **stream)
{
    *stream = handle;
    return OK;
}

int cudnnConvolutionForward(void *handle, const void *alpha, const void *xd, const void *x,
                            const void *wd, const void *w, const void *conv, int algorithm,
                            void *workspace, size_t bytes, const void *beta, const void *yd,
                            void *y)
{
    (void)handle;
    (void)alpha;
    (void)xd;
    (void)x;
    (void)wd;
    (void)w;
    (void)conv;
    (void)algorithm;
    (void)workspace;
    (void)bytes;
    (void)beta;
    (void)yd;
    (void)y;
    return OK;
}

/* Writes one element behind dw, where the job has put a hole. */
int cudnnConvolutionBackwardFilter(void *handle, const void *alpha, const void *xd, const void *x,
                                   const struct tensor *yd, const void *dy, const void *conv,
                                   int algorithm, void *workspace, size_t bytes, const void *beta,
                                   const struct tensor *wd, uint16_t *dw)
{
    size_t n = 1;
    for (int d = 0; d < wd->rank; d++) {
        n *= (size_t)wd->size[d];
    }
    (void)handle;
    (void)alpha;
    (void)xd;
    (void)x;
    (void)yd;
    (void)dy;
    (void)conv;
    (void)algorithm;
    (void)workspace;
    (void)bytes;
    (void)beta;
    *(volatile uint16_t *)(dw + n) = 0;
    return OK;
}

/* The variant pack is the list of its pointers behind their number. */
int cudnnBackendGetAttribute(const void *pack, int attribute, int type, int64_t asked,
                             int64_t *count, void *values)
{
    const uint64_t *p = pack;
    if (type != 6 || (attribute != 1001 && attribute != 1003)) {
        return BAD_PARAMETER;
    }
    *count = attribute == 1003 ? 1 : (int64_t)p[0];
    int64_t n = *count < asked ? *count : asked;
    memcpy(values, p + 1, (size_t)n * 8);
    return OK;
}

int cudnnBackendExecute(void *handle, void *plan, void *pack)
{
    (void)handle;
    (void)plan;
    (void)pack;
    return OK;
}
