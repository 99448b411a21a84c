// SPDX-License-Identifier: Apache-2.0
/* Layouts. Offsets and sizes of an answer come from a foreign process and are checked here. */
#include "ops/torch/operand.h"

#include <string.h>

/* Odd, so that no row of a padded tensor but the first is aligned. */
#define PAD_ELEMENTS 3

const char *torch_layout_name(enum torch_layout layout)
{
    static const char *const names[TORCH_LAYOUT_COUNT] = {
        "dense", "padded", "transposed", "token-major", "last operand token-major"};
    return names[layout];
}

const char *torch_side_name(enum torch_side side)
{
    static const char *const names[TORCH_SIDE_COUNT] = {"end", "begin", "none"};
    return names[side];
}

void torch_operand_plan(const struct op_array *array, enum torch_layout layout, uint64_t offset,
                        struct torch_operand *ret_operand)
{
    struct torch_operand o = {
        .name = array->spec->name, .dtype = array->dtype, .rank = array->rank, .offset = offset};
    size_t order[OP_RANK_MAX]; /* dimensions from the fastest to the slowest */
    for (size_t i = 0; i < array->rank; i++) {
        order[i] = array->rank - 1 - i;
        o.dim[i] = array->dim[i];
    }
    if (layout == TORCH_TRANSPOSED && array->rank >= 2) {
        order[0] = array->rank - 2;
        order[1] = array->rank - 1;
    }
    if (layout == TORCH_TOKEN_MAJOR && array->rank == 4) {
        order[1] = 1;
        order[2] = 2;
    }
    int64_t step = 1, last = 0;
    for (size_t i = 0; i < array->rank; i++) {
        o.stride[order[i]] = step;
        last += step * (o.dim[order[i]] - 1);
        step *= o.dim[order[i]];
        step += i == 0 && layout == TORCH_PADDED && array->rank >= 2 ? PAD_ELEMENTS : 0;
    }
    o.bytes = (uint64_t)(array->count > 0 ? last + 1 : 0) * dtype_info(array->dtype)->size;
    *ret_operand = o;
}

/* Offset in elements of the element with a flat row-major index. */
static size_t place_of(const struct torch_operand *o, size_t flat)
{
    int64_t at = 0;
    for (size_t d = o->rank; d-- > 0;) {
        size_t n = (size_t)o->dim[d];
        at += (int64_t)(flat % n) * o->stride[d];
        flat /= n;
    }
    return (size_t)at;
}

void torch_operand_write(const struct torch_operand *o, const struct op_array *array,
                         unsigned char *shared)
{
    size_t size = dtype_info(o->dtype)->size;
    unsigned char *base = shared + o->offset;
    memset(base, 0xff, o->bytes);
    for (size_t i = 0; i < array->count; i++) {
        dtype_set(o->dtype, base + place_of(o, i) * size, array->value[i]);
    }
}

/* True when the list of an answer names the array's shape; a scalar may come as [1]. */
static bool same_shape(const struct tree *shape, const struct op_array *array)
{
    const struct tree *t = shape != NULL ? shape->child : NULL;
    if (array->rank == 0 && t != NULL && t->next == NULL && t->text != NULL &&
        strcmp(t->text, "1") == 0) {
        return true;
    }
    for (size_t i = 0; i < array->rank; i++, t = t->next) {
        int64_t n = 0;
        if (t == NULL || t->text == NULL || str_to_i64(str_of(t->text), 10, &n) != ST_OK ||
            n != array->dim[i]) {
            return false;
        }
    }
    return t == NULL;
}

const char *torch_result_read(struct torch_agent *agent, const struct tree *result,
                              const struct op_array *array, double *got)
{
    size_t shared_bytes;
    const unsigned char *shared = torch_agent_shared(agent, &shared_bytes);
    enum dtype dtype = DTYPE_F32;
    uint64_t offset = 0, bytes = 0;
    if (!dtype_find(str_of(tree_text(result, "dtype", "")), &dtype)) {
        return "it came back in a number format that assay does not know";
    }
    if (!same_shape(tree_get(result, "shape"), array)) {
        return "it came back in another shape";
    }
    if (str_to_u64(str_of(tree_text(result, "offset", "")), 10, &offset) != ST_OK ||
        str_to_u64(str_of(tree_text(result, "bytes", "")), 10, &bytes) != ST_OK ||
        bytes != array->count * dtype_info(dtype)->size || bytes > shared_bytes ||
        offset > shared_bytes - bytes) {
        return "its size or place makes no sense";
    }
    dtype_to_double(dtype, shared + offset, array->count, got);
    return NULL;
}
