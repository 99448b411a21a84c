// SPDX-License-Identifier: Apache-2.0
/*
 * Convolutions of MIOpen and cuDNN. Shapes are asked of their descriptors through the library's own functions,
 * before the entry is begun: those questions are calls of the library. cuDNN's graphs, which current frameworks
 * use, tell pointers alone. Arguments and numbers from miopen.h, cudnn_cnn.h, cudnn_graph.h.
 */
#include "preload/gpu.h"

enum {
    SIZES_MAX = 5, /* N, C, D, H, W */
    ASKED_MAX = 8,
    MIOPEN_NOT_IMPLEMENTED = 6,
    CUDNN_NOT_SUPPORTED = 9,
    CUDNN_POINTERS = 1001, /* CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS */
    CUDNN_WORKSPACE = 1003,
    CUDNN_TYPE_POINTER = 6,
};

/* What a descriptor says of one tensor. */
struct tensor {
    int type, rank; /* rank 0: not told */
    int size[ASKED_MAX], stride[ASKED_MAX];
};

struct operand {
    const void *desc, *at;
};

/* One call, whatever its order of arguments. */
struct asked {
    struct operand x, w, y;
    const void *conv_desc, *handle, *workspace;
    size_t workspace_bytes;
    uint64_t algorithm;
    enum record_direction direction;
};

static uint64_t number(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

/* ---- what MIOpen's descriptors hold ---- */

static struct tensor miopen_tensor(const void *desc, uint64_t caller)
{
    typedef int (*size_function)(const void *, int *);
    typedef int (*get_function)(const void *, int *, int *, int *);
    size_function rank = (size_function)optional_symbol("miopenGetTensorDescriptorSize", caller);
    get_function get = (get_function)optional_symbol("miopenGetTensorDescriptor", caller);
    struct tensor t = {.rank = 0};
    /* It writes as many sizes as there are: more than there is room for are not asked. */
    if (desc == NULL || rank == NULL || get == NULL || rank(desc, &t.rank) != 0 || t.rank < 0 ||
        t.rank > ASKED_MAX || get(desc, &t.type, t.size, t.stride) != 0) {
        t.rank = 0;
    }
    return t;
}

/* ---- what cuDNN's descriptors hold ---- */

static struct tensor cudnn_tensor(const void *desc, uint64_t caller)
{
    typedef int (*get_function)(const void *, int, int *, int *, int *, int *);
    get_function get = (get_function)optional_symbol("cudnnGetTensorNdDescriptor", caller);
    struct tensor t = {.rank = 0};
    if (desc == NULL || get == NULL ||
        get(desc, ASKED_MAX, &t.type, &t.rank, t.size, t.stride) != 0 || t.rank > ASKED_MAX) {
        t.rank = 0;
    }
    return t;
}

/* A filter has a layout instead of strides. */
static struct tensor cudnn_filter(const void *desc, uint64_t caller)
{
    typedef int (*get_function)(const void *, int, int *, int *, int *, int *);
    get_function get = (get_function)optional_symbol("cudnnGetFilterNdDescriptor", caller);
    struct tensor t = {.rank = 0};
    int layout = 0; /* 0: channels second, 1: last */
    if (desc == NULL || get == NULL ||
        get(desc, ASKED_MAX, &t.type, &layout, &t.rank, t.size) != 0 || t.rank > ASKED_MAX ||
        t.rank < 3) {
        return (struct tensor){.rank = 0};
    }
    int step = layout == 1 ? t.size[1] : 1;
    for (int d = t.rank - 1; d > 1; d--) {
        t.stride[d] = step;
        step *= t.size[d];
    }
    t.stride[1] = layout == 1 ? 1 : step;
    t.stride[0] = layout == 1 ? step : step * t.size[1];
    return t;
}

/* ---- into the record ---- */

static unsigned type_bytes(unsigned types, int type)
{
    /* cudnnDataType_t: float, double, half, int8, int32, int8x4, uint8, uint8x4, int8x32, bfloat16, int64,
     * boolean, two of fp8. miopenDataType_t: half, float, int32, int8, int8x4, bfloat16, double, two of fp8. */
    static const unsigned char cudnn[] = {4, 8, 2, 1, 4, 4, 1, 4, 32, 2, 8, 1, 1, 1};
    static const unsigned char miopen[] = {2, 4, 4, 1, 4, 2, 8, 1, 1, 8};
    const unsigned char *sizes = types == RECORD_TYPES_CUDNN ? cudnn : miopen;
    int count = types == RECORD_TYPES_CUDNN ? (int)sizeof cudnn : (int)sizeof miopen;
    return type >= 0 && type < count ? sizes[type] : 0;
}

/* Copies the sizes; bytes from the first element to the last, 0 when they make no sense. */
static uint64_t take(const struct tensor *t, unsigned types, int32_t *ret_sizes)
{
    uint64_t last = 0;
    if (t->rank < 3 || t->rank > SIZES_MAX) {
        return 0;
    }
    for (int d = 0; d < t->rank; d++) {
        ret_sizes[d] = t->size[d];
        if (t->size[d] <= 0 || t->stride[d] < 0) {
            return 0;
        }
        last += (uint64_t)(t->size[d] - 1) * (uint64_t)t->stride[d]; /* each below 2^62 */
    }
    return last < UINT64_C(1) << 56 ? (last + 1) * type_bytes(types, t->type) : 0;
}

static bool is_channels_last(const struct tensor *t)
{
    return t->rank >= 3 && t->stride[1] == 1 && t->size[1] > 1;
}

static void describe(unsigned types, uint64_t caller, const struct asked *q,
                     struct record_convolution *c)
{
    typedef int (*conv_function)(const void *, int, int *, int *, int *, int *, int *, int *);
    typedef int (*groups_function)(const void *, int *);
    typedef int (*stream_function)(const void *, void **);
    bool cudnn = types == RECORD_TYPES_CUDNN;
    struct tensor x = cudnn ? cudnn_tensor(q->x.desc, caller) : miopen_tensor(q->x.desc, caller);
    struct tensor w = cudnn ? cudnn_filter(q->w.desc, caller) : miopen_tensor(q->w.desc, caller);
    struct tensor y = cudnn ? cudnn_tensor(q->y.desc, caller) : miopen_tensor(q->y.desc, caller);
    /* MIOpen's has one argument less; the last register is then read by nobody. */
    conv_function conv = (conv_function)optional_symbol(
        cudnn ? "cudnnGetConvolutionNdDescriptor" : "miopenGetConvolutionNdDescriptor", caller);
    groups_function groups = (groups_function)optional_symbol(
        cudnn ? "cudnnGetConvolutionGroupCount" : "miopenGetConvolutionGroupCount", caller);
    stream_function stream = (stream_function)optional_symbol(
        cudnn ? "cudnnGetStream" : "miopenGetStream", caller);
    int n, mode, compute;
    void *on = NULL;
    *c = (struct record_convolution){.x = number(q->x.at),
                                     .w = number(q->w.at),
                                     .y = number(q->y.at),
                                     .workspace = number(q->workspace),
                                     .workspace_bytes = q->workspace_bytes,
                                     .algorithm = q->algorithm,
                                     .direction = (uint8_t)q->direction};
    c->types = (uint8_t)types;
    c->type = (uint16_t)x.type;
    c->x_bytes = take(&x, types, c->x_size);
    c->w_bytes = take(&w, types, c->w_size);
    c->y_bytes = take(&y, types, c->y_size);
    c->channels_last = (uint8_t)((is_channels_last(&x) ? 1 : 0) | (is_channels_last(&w) ? 2 : 0) |
                                 (is_channels_last(&y) ? 4 : 0));
    if (stream != NULL && q->handle != NULL && stream(q->handle, &on) == 0) {
        c->stream = number(on);
    }
    int spatial = x.rank - 2;
    if (x.rank < 3 || x.rank > SIZES_MAX || w.rank != x.rank || y.rank != x.rank ||
        q->conv_desc == NULL || conv == NULL ||
        conv(q->conv_desc, spatial, &n, c->padding, c->stride, c->dilation, &mode, &compute) != 0) {
        return;
    }
    c->rank = (uint8_t)x.rank;
    if (groups == NULL || groups(q->conv_desc, &c->groups) != 0) {
        c->groups = 0;
    }
}

static struct record_entry *begin(enum hook hook, unsigned types, uint64_t caller,
                                  const struct asked *q)
{
    if (!settings.on) {
        return NULL;
    }
    struct record_convolution c;
    describe(types, caller, q, &c);
    gpu_guard_stream(c.stream);
    struct record_entry *e = record_begin(hook, RECORD_CONVOLUTION, caller);
    if (e != NULL) {
        e->u.convolution = c;
        gpu_marks_number(e, types == RECORD_TYPES_MIOPEN ? GPU_HIP : GPU_CUDA, c.stream, caller);
        record_open(e);
    }
    return e;
}

static int finish(struct record_entry *e, int rc)
{
    gpu_marks_after(e, rc);
    record_close(e, rc);
    return rc;
}

/* ---- MIOpen ---- */

/* first, second, third: which of x, w, y the operands of the argument list are. */
#define MIOPEN_CONVOLUTION(name, id, towards, first, second, third)                                \
 EXPORT int name(void *handle, const void *alpha, const void *ad, const void *a, const void *bd,   \
                 const void *b, const void *conv, int algorithm, const void *beta, const void *cd, \
                 void *c, void *workspace, size_t bytes);                                          \
 EXPORT int name(void *handle, const void *alpha, const void *ad, const void *a, const void *bd,   \
                 const void *b, const void *conv, int algorithm, const void *beta, const void *cd, \
                 void *c, void *workspace, size_t bytes)                                           \
 {                                                                                                 \
  typedef int (*real)(void *, const void *, const void *, const void *, const void *,              \
                      const void *, const void *, int, const void *, const void *, void *, void *, \
                      size_t);                                                                     \
  real f = (real)real_symbol(id, CALLER());                                                        \
  if (f == NULL) {                                                                                 \
   return MIOPEN_NOT_IMPLEMENTED;                                                                  \
  }                                                                                                \
  const struct asked q = {.first = {ad, a},                                                        \
                          .second = {bd, b},                                                       \
                          .third = {cd, c},                                                        \
                          .conv_desc = conv,                                                       \
                          .handle = handle,                                                        \
                          .workspace = workspace,                                                  \
                          .workspace_bytes = bytes,                                                \
                          .algorithm = (uint64_t)(unsigned)algorithm,                              \
                          .direction = towards};                                                   \
  struct record_entry *e = begin(id, RECORD_TYPES_MIOPEN, CALLER(), &q);                           \
  return finish(e,                                                                                 \
                f(handle, alpha, ad, a, bd, b, conv, algorithm, beta, cd, c, workspace, bytes));   \
 }

MIOPEN_CONVOLUTION(miopenConvolutionForward, HOOK_MIOPEN_FORWARD, RECORD_FORWARD, x, w, y)
MIOPEN_CONVOLUTION(miopenConvolutionBackwardData, HOOK_MIOPEN_BACKWARD_DATA, RECORD_BACKWARD_DATA,
                   y, w, x)
MIOPEN_CONVOLUTION(miopenConvolutionBackwardWeights, HOOK_MIOPEN_BACKWARD_WEIGHTS,
                   RECORD_BACKWARD_WEIGHTS, y, x, w)

#define MIOPEN_IMMEDIATE(name, id, towards, first, second, third)                            \
 EXPORT int name(void *handle, const void *ad, const void *a, const void *bd, const void *b, \
                 const void *conv, const void *cd, void *c, void *workspace, size_t bytes,   \
                 uint64_t solution);                                                         \
 EXPORT int name(void *handle, const void *ad, const void *a, const void *bd, const void *b, \
                 const void *conv, const void *cd, void *c, void *workspace, size_t bytes,   \
                 uint64_t solution)                                                          \
 {                                                                                           \
  typedef int (*real)(void *, const void *, const void *, const void *, const void *,        \
                      const void *, const void *, void *, void *, size_t, uint64_t);         \
  real f = (real)real_symbol(id, CALLER());                                                  \
  if (f == NULL) {                                                                           \
   return MIOPEN_NOT_IMPLEMENTED;                                                            \
  }                                                                                          \
  const struct asked q = {.first = {ad, a},                                                  \
                          .second = {bd, b},                                                 \
                          .third = {cd, c},                                                  \
                          .conv_desc = conv,                                                 \
                          .handle = handle,                                                  \
                          .workspace = workspace,                                            \
                          .workspace_bytes = bytes,                                          \
                          .algorithm = solution,                                             \
                          .direction = towards};                                             \
  struct record_entry *e = begin(id, RECORD_TYPES_MIOPEN, CALLER(), &q);                     \
  return finish(e, f(handle, ad, a, bd, b, conv, cd, c, workspace, bytes, solution));        \
 }

MIOPEN_IMMEDIATE(miopenConvolutionForwardImmediate, HOOK_MIOPEN_FORWARD_IMMEDIATE, RECORD_FORWARD,
                 w, x, y)
MIOPEN_IMMEDIATE(miopenConvolutionBackwardDataImmediate, HOOK_MIOPEN_BACKWARD_DATA_IMMEDIATE,
                 RECORD_BACKWARD_DATA, y, w, x)
MIOPEN_IMMEDIATE(miopenConvolutionBackwardWeightsImmediate, HOOK_MIOPEN_BACKWARD_WEIGHTS_IMMEDIATE,
                 RECORD_BACKWARD_WEIGHTS, y, x, w)

/* The search runs every kernel that may serve: faults are met here, too. */
#define MIOPEN_FIND(name, id, towards, first, second, third)                                       \
 EXPORT int name(void *handle, const void *ad, const void *a, const void *bd, const void *b,       \
                 const void *conv, const void *cd, void *c, int wanted, int *ret_count, void *ret, \
                 void *workspace, size_t bytes, bool exhaustive);                                  \
 EXPORT int name(void *handle, const void *ad, const void *a, const void *bd, const void *b,       \
                 const void *conv, const void *cd, void *c, int wanted, int *ret_count, void *ret, \
                 void *workspace, size_t bytes, bool exhaustive)                                   \
 {                                                                                                 \
  typedef int (*real)(void *, const void *, const void *, const void *, const void *,              \
                      const void *, const void *, void *, int, int *, void *, void *, size_t,      \
                      bool);                                                                       \
  real f = (real)real_symbol(id, CALLER());                                                        \
  if (f == NULL) {                                                                                 \
   return MIOPEN_NOT_IMPLEMENTED;                                                                  \
  }                                                                                                \
  const struct asked q = {.first = {ad, a},                                                        \
                          .second = {bd, b},                                                       \
                          .third = {cd, c},                                                        \
                          .conv_desc = conv,                                                       \
                          .handle = handle,                                                        \
                          .workspace = workspace,                                                  \
                          .workspace_bytes = bytes,                                                \
                          .algorithm = UINT64_MAX,                                                 \
                          .direction = towards};                                                   \
  struct record_entry *e = begin(id, RECORD_TYPES_MIOPEN, CALLER(), &q);                           \
  return finish(e, f(handle, ad, a, bd, b, conv, cd, c, wanted, ret_count, ret, workspace, bytes,  \
                     exhaustive));                                                                 \
 }

MIOPEN_FIND(miopenFindConvolutionForwardAlgorithm, HOOK_MIOPEN_FIND_FORWARD, RECORD_FORWARD, x, w,
            y)
MIOPEN_FIND(miopenFindConvolutionBackwardDataAlgorithm, HOOK_MIOPEN_FIND_BACKWARD_DATA,
            RECORD_BACKWARD_DATA, y, w, x)
MIOPEN_FIND(miopenFindConvolutionBackwardWeightsAlgorithm, HOOK_MIOPEN_FIND_BACKWARD_WEIGHTS,
            RECORD_BACKWARD_WEIGHTS, y, x, w)

/* ---- cuDNN ---- */

#define CUDNN_CONVOLUTION(name, id, towards, first, second, third)                                 \
 EXPORT int name(void *handle, const void *alpha, const void *ad, const void *a, const void *bd,   \
                 const void *b, const void *conv, int algorithm, void *workspace, size_t bytes,    \
                 const void *beta, const void *cd, void *c);                                       \
 EXPORT int name(void *handle, const void *alpha, const void *ad, const void *a, const void *bd,   \
                 const void *b, const void *conv, int algorithm, void *workspace, size_t bytes,    \
                 const void *beta, const void *cd, void *c)                                        \
 {                                                                                                 \
  typedef int (*real)(void *, const void *, const void *, const void *, const void *,              \
                      const void *, const void *, int, void *, size_t, const void *, const void *, \
                      void *);                                                                     \
  real f = (real)real_symbol(id, CALLER());                                                        \
  if (f == NULL) {                                                                                 \
   return CUDNN_NOT_SUPPORTED;                                                                     \
  }                                                                                                \
  const struct asked q = {.first = {ad, a},                                                        \
                          .second = {bd, b},                                                       \
                          .third = {cd, c},                                                        \
                          .conv_desc = conv,                                                       \
                          .handle = handle,                                                        \
                          .workspace = workspace,                                                  \
                          .workspace_bytes = bytes,                                                \
                          .algorithm = (uint64_t)(unsigned)algorithm,                              \
                          .direction = towards};                                                   \
  struct record_entry *e = begin(id, RECORD_TYPES_CUDNN, CALLER(), &q);                            \
  return finish(e,                                                                                 \
                f(handle, alpha, ad, a, bd, b, conv, algorithm, workspace, bytes, beta, cd, c));   \
 }

CUDNN_CONVOLUTION(cudnnConvolutionForward, HOOK_CUDNN_FORWARD, RECORD_FORWARD, x, w, y)
CUDNN_CONVOLUTION(cudnnConvolutionBackwardData, HOOK_CUDNN_BACKWARD_DATA, RECORD_BACKWARD_DATA, w,
                  y, x)
CUDNN_CONVOLUTION(cudnnConvolutionBackwardFilter, HOOK_CUDNN_BACKWARD_FILTER,
                  RECORD_BACKWARD_WEIGHTS, x, y, w)

static void describe_plan(uint64_t caller, const void *handle, const void *plan, const void *pack,
                          struct record_plan *ret)
{
    typedef int (*get_function)(const void *, int, int, int64_t, int64_t *, void *);
    typedef int (*stream_function)(const void *, void **);
    get_function get = (get_function)optional_symbol("cudnnBackendGetAttribute", caller);
    stream_function stream = (stream_function)optional_symbol("cudnnGetStream", caller);
    int64_t count = 0;
    void *on = NULL;
    *ret = (struct record_plan){.plan = number(plan)};
    if (get != NULL && pack != NULL &&
        get(pack, CUDNN_POINTERS, CUDNN_TYPE_POINTER, RECORD_PLAN_POINTERS, &count,
            ret->pointers) == 0 &&
        count > 0) {
        ret->pointer_count = (uint32_t)count;
    }
    if (get != NULL && pack != NULL) {
        (void)get(pack, CUDNN_WORKSPACE, CUDNN_TYPE_POINTER, 1, &count, &ret->workspace);
    }
    if (stream != NULL && handle != NULL && stream(handle, &on) == 0) {
        ret->stream = number(on);
    }
}

EXPORT int cudnnBackendExecute(void *handle, void *plan, void *pack);

EXPORT int cudnnBackendExecute(void *handle, void *plan, void *pack)
{
    typedef int (*real)(void *, void *, void *);
    real f = (real)real_symbol(HOOK_CUDNN_EXECUTE, CALLER());
    if (f == NULL) {
        return CUDNN_NOT_SUPPORTED;
    }
    struct record_plan p = {.plan = number(plan)};
    if (settings.on) {
        describe_plan(CALLER(), handle, plan, pack, &p);
        gpu_guard_stream(p.stream);
    }
    struct record_entry *e = record_begin(HOOK_CUDNN_EXECUTE, RECORD_PLAN, CALLER());
    if (e != NULL) {
        e->u.plan = p;
        gpu_marks_number(e, GPU_CUDA, p.stream, CALLER());
        record_open(e);
    }
    return finish(e, f(handle, plan, pack));
}
