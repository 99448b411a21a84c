// SPDX-License-Identifier: Apache-2.0
/*
 * libMIOpen on CPU memory: descriptors, and the forward convolution in float32 by definition. The gradients only
 * touch their operands. ASSAY_FAKE_CONV=over: one element behind the weights is read and thrown away.
 */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

enum {
    OK = 0,
    BAD_PARAMETER = 3,
    INTERNAL_ERROR = 5,
    FLOAT = 1,
    MOST = 5
};

struct tensor {
    int type, rank;
    int size[MOST], stride[MOST];
};

struct convolution {
    int spatial, groups;
    int padding[3], stride[3], dilation[3];
};

struct work {
    const struct tensor *xd, *wd, *yd;
    const struct convolution *conv;
    const float *x, *w;
    float *y;
};

FAKE_EXPORT int miopenCreate(void **handle)
{
    *handle = calloc(1, sizeof(void *));
    return OK;
}

FAKE_EXPORT int miopenSetStream(void *handle, void *stream)
{
    *(void **)handle = stream;
    return OK;
}

FAKE_EXPORT int miopenGetStream(void *handle, void **stream)
{
    *stream = *(void **)handle;
    return OK;
}

FAKE_EXPORT int miopenCreateTensorDescriptor(void **desc)
{
    *desc = calloc(1, sizeof(struct tensor));
    return OK;
}

FAKE_EXPORT int miopenSetTensorDescriptor(void *desc, int type, int rank, const int *size,
                                          const int *stride)
{
    struct tensor *t = desc;
    if (rank > MOST) {
        return BAD_PARAMETER;
    }
    t->type = type;
    t->rank = rank;
    memcpy(t->size, size, (size_t)rank * sizeof *size);
    memcpy(t->stride, stride, (size_t)rank * sizeof *stride);
    return OK;
}

FAKE_EXPORT int miopenGetTensorDescriptorSize(void *desc, int *rank)
{
    *rank = ((struct tensor *)desc)->rank;
    return OK;
}

FAKE_EXPORT int miopenGetTensorDescriptor(void *desc, int *type, int *size, int *stride)
{
    const struct tensor *t = desc;
    *type = t->type;
    memcpy(size, t->size, (size_t)t->rank * sizeof *size);
    memcpy(stride, t->stride, (size_t)t->rank * sizeof *stride);
    return OK;
}

FAKE_EXPORT int miopenCreateConvolutionDescriptor(void **desc)
{
    *desc = calloc(1, sizeof(struct convolution));
    return OK;
}

FAKE_EXPORT int miopenInitConvolutionNdDescriptor(void *desc, int spatial, const int *padding,
                                                  const int *stride, const int *dilation, int mode)
{
    struct convolution *c = desc;
    (void)mode;
    c->spatial = spatial;
    c->groups = 1;
    memcpy(c->padding, padding, (size_t)spatial * sizeof *padding);
    memcpy(c->stride, stride, (size_t)spatial * sizeof *stride);
    memcpy(c->dilation, dilation, (size_t)spatial * sizeof *dilation);
    return OK;
}

FAKE_EXPORT int miopenGetConvolutionNdDescriptor(void *desc, int asked, int *spatial, int *padding,
                                                 int *stride, int *dilation, int *mode)
{
    const struct convolution *c = desc;
    if (asked > c->spatial) {
        return BAD_PARAMETER;
    }
    *spatial = c->spatial;
    *mode = 0;
    memcpy(padding, c->padding, (size_t)asked * sizeof *padding);
    memcpy(stride, c->stride, (size_t)asked * sizeof *stride);
    memcpy(dilation, c->dilation, (size_t)asked * sizeof *dilation);
    return OK;
}

FAKE_EXPORT int miopenGetConvolutionGroupCount(void *desc, int *groups)
{
    *groups = ((struct convolution *)desc)->groups;
    return OK;
}

static size_t elements(const struct tensor *t)
{
    size_t n = 1;
    for (int d = 0; d < t->rank; d++) {
        n *= (size_t)t->size[d];
    }
    return n;
}

/* Three-dimensional, without padding; sums over the channels and the window of one output element. */
static double output(const struct work *k, const int at[5])
{
    double sum = 0;
    const int *w = k->wd->size;
    for (int i = 0; i < w[1] * w[2] * w[3] * w[4]; i++) {
        int c = i / (w[2] * w[3] * w[4]);
        int d = i / (w[3] * w[4]) % w[2];
        int h = i / w[4] % w[3];
        int v = i % w[4];
        int from = at[0] * k->xd->stride[0] + c * k->xd->stride[1] +
                   (at[2] * k->conv->stride[0] + d) * k->xd->stride[2] +
                   (at[3] * k->conv->stride[1] + h) * k->xd->stride[3] +
                   (at[4] * k->conv->stride[2] + v) * k->xd->stride[4];
        sum += (double)k->x[from] * (double)k->w[at[1] * k->wd->stride[0] + i];
    }
    return sum;
}

static void forward(void *context)
{
    const struct work *k = context;
    const int *y = k->yd->size;
    for (int i = 0; i < (int)elements(k->yd); i++) {
        const int at[5] = {i / (y[1] * y[2] * y[3] * y[4]), i / (y[2] * y[3] * y[4]) % y[1],
                           i / (y[3] * y[4]) % y[2], i / y[4] % y[3], i % y[4]};
        k->y[i] = (float)output(k, at);
    }
    if (fake_asked("ASSAY_FAKE_CONV", "over")) {
        (void)*(const volatile float *)(k->w + elements(k->wd));
    }
}

FAKE_EXPORT int miopenConvolutionForwardImmediate(void *handle, void *wd, const void *w, void *xd,
                                                  const void *x, void *conv, void *yd, void *y,
                                                  void *workspace, size_t bytes, uint64_t solution)
{
    struct work k = {xd, wd, yd, conv, x, w, y};
    (void)handle;
    (void)workspace;
    (void)bytes;
    (void)solution;
    if (k.xd->rank != 5 || k.xd->type != FLOAT) {
        return BAD_PARAMETER;
    }
    return fake_hip_kernel(forward, &k) == 0 ? OK : INTERNAL_ERROR;
}

/* Writes one element of the gradient, with what leaves a job of ones as it was. */
FAKE_EXPORT int miopenConvolutionBackwardDataImmediate(void *handle, void *yd, const void *dy,
                                                       void *wd, const void *w, void *conv,
                                                       void *xd, void *dx, void *workspace,
                                                       size_t bytes, uint64_t solution)
{
    (void)handle;
    (void)yd;
    (void)wd;
    (void)conv;
    (void)xd;
    (void)workspace;
    (void)bytes;
    (void)solution;
    *(float *)dx = *(const float *)w;
    (void)*(const volatile float *)dy;
    return OK;
}

FAKE_EXPORT int miopenConvolutionBackwardWeights(void *handle, const void *alpha, void *yd,
                                                 const void *dy, void *xd, const void *x,
                                                 void *conv, int algorithm, const void *beta,
                                                 void *wd, void *dw, void *workspace, size_t bytes)
{
    (void)handle;
    (void)alpha;
    (void)yd;
    (void)xd;
    (void)conv;
    (void)algorithm;
    (void)beta;
    (void)wd;
    (void)workspace;
    (void)bytes;
    *(float *)dw = *(const float *)x;
    (void)*(const volatile float *)dy;
    return OK;
}
