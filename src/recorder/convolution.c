// SPDX-License-Identifier: Apache-2.0
/* See convolution.h. */
#include "recorder/convolution.h"

#include <inttypes.h>
#include <stdbool.h>

#include "base/str.h"

#include "recorder/fault_join.h"

static const char *const directions[] = {
    [RECORD_FORWARD] = "forward",
    [RECORD_BACKWARD_DATA] = "backward to the data",
    [RECORD_BACKWARD_WEIGHTS] = "backward to the weights",
};

/* The record comes from a file: a rank beyond the array is no rank. */
static int rank_of(const struct record_convolution *c)
{
    return c->rank == 4 || c->rank == 5 || c->rank == 3 ? c->rank : 0;
}

static const char *sizes(struct arena *a, const int32_t *size, int count)
{
    struct strbuf out;
    strbuf_init(&out, a, 200);
    for (int i = 0; i < count; i++) {
        strbuf_fmt(&out, "%s%d", i > 0 ? "x" : "", size[i]);
    }
    return strbuf_str(&out).p;
}

const char *convolution_text(struct arena *a, const struct record_convolution *c)
{
    const char *type;
    int rank = rank_of(c);
    const char *direction = c->direction <= RECORD_BACKWARD_WEIGHTS ? directions[c->direction]
                                                                    : "a direction unknown";
    fault_type_size(c->types, c->type, &type);
    if (rank == 0) {
        return arena_fmt(a, "%s, sizes not told", direction);
    }
    return arena_fmt(a, "%s %s * %s -> %s %s, padding %s, stride %s, dilation %s%s", direction,
                     sizes(a, c->x_size, rank), sizes(a, c->w_size, rank),
                     sizes(a, c->y_size, rank), type, sizes(a, c->padding, rank - 2),
                     sizes(a, c->stride, rank - 2), sizes(a, c->dilation, rank - 2),
                     c->groups > 1 ? arena_fmt(a, ", %d groups", c->groups) : "");
}

/* The verb of the driver for a miopenDataType_t; NULL for those it has none for. */
static const char *verb_of(unsigned type)
{
    static const char *const verbs[] = {"convfp16", "conv", NULL, "convint8", NULL, "convbfp16"};
    return type < sizeof verbs / sizeof *verbs ? verbs[type] : NULL;
}

const char *convolution_driver_line(struct arena *a, const struct record_convolution *c)
{
    static const int towards[] = {1, 2, 4}; /* -F */
    const char *verb = c->types == RECORD_TYPES_MIOPEN ? verb_of(c->type) : NULL;
    int rank = rank_of(c);
    if (verb == NULL || rank < 4 || c->direction > RECORD_BACKWARD_WEIGHTS) {
        return NULL;
    }
    bool deep = rank == 5;
    const int32_t *x = c->x_size;
    const int32_t *w = c->w_size;
    const char *last = deep ? "NDHWC" : "NHWC";
    int s = deep ? 1 : 0; /* of the height among the spatial sizes */
    struct strbuf out;
    strbuf_init(&out, a, 2000);
    strbuf_fmt(&out, "MIOpenDriver %s -n %d -c %d", verb, x[0], x[1]);
    if (deep) {
        strbuf_fmt(&out, " --in_d %d", x[2]);
    }
    strbuf_fmt(&out, " -H %d -W %d -k %d", x[rank - 2], x[rank - 1], w[0]);
    if (deep) {
        strbuf_fmt(&out, " --fil_d %d", w[2]);
    }
    strbuf_fmt(&out, " -y %d -x %d", w[rank - 2], w[rank - 1]);
    if (deep) {
        strbuf_fmt(&out, " --pad_d %d", c->padding[0]);
    }
    strbuf_fmt(&out, " -p %d -q %d", c->padding[s], c->padding[s + 1]);
    if (deep) {
        strbuf_fmt(&out, " --conv_stride_d %d", c->stride[0]);
    }
    strbuf_fmt(&out, " -u %d -v %d", c->stride[s], c->stride[s + 1]);
    if (deep) {
        strbuf_fmt(&out, " --dilation_d %d", c->dilation[0]);
    }
    strbuf_fmt(&out, " -l %d -j %d", c->dilation[s], c->dilation[s + 1]);
    if (deep) {
        strbuf_addz(&out, " --spatial_dim 3");
    }
    static const char *const names[] = {"in", "fil", "out"};
    for (int i = 0; i < 3; i++) {
        if ((c->channels_last >> i & 1) != 0) {
            strbuf_fmt(&out, " --%s_layout %s", names[i], last);
        }
    }
    strbuf_fmt(&out, " -m conv -g %d -F %d -t 1", c->groups > 0 ? c->groups : 1,
               towards[c->direction]);
    return strbuf_str(&out).p;
}
