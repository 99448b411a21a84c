// SPDX-License-Identifier: Apache-2.0
/* The table of formats, and what can be done with a file of any of them. */
#include "model/tensor_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/dcp.h"
#include "model/gguf.h"
#include "model/safetensors.h"
#include "model/tensor_block.h"
#include "model/torch_file.h"

static const struct tensor_format *const formats[] = {
    &tensor_format_gguf,    &tensor_format_safetensors, &tensor_format_distcp,
    &tensor_format_foreign, &tensor_format_torch, /* last: a bare pickle is told by reading it */
};

const struct tensor_format *tensor_format_of(struct str bytes, const char *path)
{
    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        if (formats[i]->matches(bytes, path)) {
            return formats[i];
        }
    }
    return NULL;
}

static enum status read_file(struct tensor_file *f, struct issues *issues, struct err *err)
{
    uint64_t first = f->map.n < 65536 ? f->map.n : 65536;
    TRY(file_map_populate(&f->map, 0, first, err));
    f->format = tensor_format_of(file_map_str(&f->map), f->map.path);
    if (f->format == NULL) {
        return err_set(err, ST_UNSUPPORTED, "'%s' is in no format that is known here", f->map.path);
    }
    return f->format->read(f, issues, err);
}

/* Takes the map over, and closes it when nothing comes of it. */
static enum status open_map(struct arena *a, struct file_map map, struct issues *issues,
                            struct tensor_file **ret_file, struct err *err)
{
    struct tensor_file *f = arena_alloc(a, sizeof *f);
    f->arena = a;
    f->by_name = map_new(a);
    f->map = map;
    enum status status = read_file(f, issues, err);
    if (status != ST_OK) {
        file_map_close(&f->map);
        return status;
    }
    *ret_file = f;
    return ST_OK;
}

enum status tensor_file_open(struct arena *a, const char *path, struct issues *issues,
                             struct tensor_file **ret_file, struct err *err)
{
    struct file_map map;
    TRY(file_map_open(path, &map, err));
    return open_map(a, map, issues, ret_file, err);
}

enum status tensor_file_from_bytes(struct arena *a, const char *name, struct str bytes,
                                   struct issues *issues, struct tensor_file **ret_file,
                                   struct err *err)
{
    return open_map(a, file_map_of_bytes(name, bytes), issues, ret_file, err);
}

void tensor_file_close(struct tensor_file *f)
{
    if (f != NULL) {
        file_map_close(&f->map);
    }
}

const struct tensor *tensor_find(const struct tensor_file *f, const char *name)
{
    return map_get(f->by_name, str_of(name));
}

/* ---- sizes ---- */

bool tensor_elements(const uint64_t *shape, uint32_t rank, uint64_t *ret_elements)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < rank; i++) {
        if (__builtin_mul_overflow(n, shape[i], &n)) {
            return false;
        }
    }
    *ret_elements = n;
    return true;
}

bool tensor_measure(struct tensor *t)
{
    uint64_t bytes;
    uint64_t elements;
    if (!tensor_elements(t->shape, t->rank, &elements) ||
        !tensor_type_bytes(t->type, elements, &bytes)) {
        return false;
    }
    t->elements = elements;
    t->bytes = bytes;
    return true;
}

const char *tensor_shape_text(struct arena *a, const uint64_t *shape, uint32_t rank)
{
    struct strbuf out;
    strbuf_init(&out, a, 2048);
    strbuf_addc(&out, '[');
    for (uint32_t i = 0; i < rank; i++) {
        strbuf_fmt(&out, "%s%" PRIu64, i != 0 ? ", " : "", shape[i]);
    }
    strbuf_addc(&out, ']');
    return out.p;
}

/* ---- index ---- */

static int by_offset(const void *a, const void *b)
{
    const struct tensor *x = a;
    const struct tensor *y = b;
    if (x->offset != y->offset) {
        return x->offset < y->offset ? -1 : 1;
    }
    if (x->bytes != y->bytes) { /* empty tensors in front of the one they share the place with */
        return x->bytes < y->bytes ? -1 : 1;
    }
    return strcmp(x->name, y->name);
}

void tensor_file_index(struct tensor_file *f, struct issues *issues)
{
    if (f->count > 1) {
        qsort(f->tensors, f->count, sizeof *f->tensors, by_offset);
    }
    for (size_t i = 0; i < f->count; i++) {
        struct tensor *t = &f->tensors[i];
        if (t->offset > f->map.n || t->bytes > f->map.n - t->offset) {
            t->present = false;
        }
        if (map_get(f->by_name, str_of(t->name)) != NULL) {
            issue_add(
                issues, SEVERITY_ERROR, "tensor-name-twice", "two tensors have the same name",
                "Tensor '%s' is listed more than once; readers differ in which one they take.",
                issue_text(f->arena, str_of(t->name)));
            continue;
        }
        map_put(f->by_name, str_of(t->name), t);
    }
}

/* ---- checksums ---- */

void tensor_file_add_sum(struct issues *issues, const struct err *err)
{
    bool changed = err->status == ST_FORMAT;
    issue_add(issues, SEVERITY_ERROR, changed ? "zip-crc" : "file-cut-while-read",
              changed ? "Bytes changed after they were written"
                      : "a file was truncated, or its disk failed, while it was being read",
              "%s.", err->text);
}

void tensor_file_check_sums(const struct tensor_file *f, struct issues *issues)
{
    size_t count = f->format->sum_count != NULL ? f->format->sum_count(f) : 0;
    for (size_t i = 0; i < count; i++) {
        struct err err;
        if (f->format->check_sum(f, i, &err) != ST_OK) {
            tensor_file_add_sum(issues, &err);
        }
    }
}

/* ---- values ---- */

const struct tensor *tensor_parts(struct arena *a, const struct tensor *t)
{
    if (t->type->values != VALUES_PAIRS || t->rank == TENSOR_RANK_MAX) {
        return t;
    }
    struct tensor *p = arena_alloc(a, sizeof *p);
    *p = *t;
    uint64_t *shape = arena_array(a, t->rank + 1, sizeof *shape);
    int64_t *stride = t->stride != NULL ? arena_array(a, t->rank + 1, sizeof *stride) : NULL;
    for (uint32_t d = 0; d < t->rank; d++) {
        shape[d] = t->shape[d];
        if (stride != NULL) {
            stride[d] = 2 * t->stride[d];
        }
    }
    shape[t->rank] = 2;
    if (stride != NULL) {
        stride[t->rank] = 1;
    }
    p->shape = shape;
    p->stride = stride;
    p->rank++;
    p->elements *= 2;
    p->type = tensor_type_plain(t->type->dtype);
    return p;
}

/* Where element number `index` in row-major order of the shape lies, in elements from the first. */
static int64_t strided_place(const struct tensor *t, uint64_t index)
{
    int64_t place = 0;
    for (uint32_t d = t->rank; d-- > 0;) {
        place += (int64_t)(index % t->shape[d]) * t->stride[d];
        index /= t->shape[d];
    }
    return place;
}

bool tensor_readable(const struct tensor *t)
{
    return t->present && (t->type->values == VALUES_PLAIN || tensor_block_readable(t->type));
}

/* Whole blocks are decoded, and what was asked for is taken out of them. */
static enum status block_values(const struct tensor_file *f, const struct tensor *t, uint64_t first,
                                size_t count, double *ret_values, struct err *err)
{
    const struct tensor_type *type = t->type;
    uint64_t block = first / type->per_block;
    uint64_t last = (first + count - 1) / type->per_block;
    uint64_t at = t->offset + block * type->block_bytes;
    TRY(file_map_populate(&f->map, at, (last - block + 1) * type->block_bytes, err));
    float values[TENSOR_BLOCK_MAX];
    size_t done = 0;
    for (size_t skip = (size_t)(first % type->per_block); done < count; skip = 0) {
        tensor_block_values(type, f->map.p + at, values);
        at += type->block_bytes;
        for (size_t i = skip; i < type->per_block && done < count; i++) {
            ret_values[done++] = (double)values[i];
        }
    }
    return ST_OK;
}

enum status tensor_values(const struct tensor_file *f, const struct tensor *t, uint64_t first,
                          size_t count, double *ret_values, struct err *err)
{
    if (t->type->values != VALUES_PLAIN && !tensor_block_readable(t->type)) {
        return err_set(err, ST_UNSUPPORTED, "values of type %s cannot be read", t->type->name);
    }
    if (!t->present || first > t->elements || count > t->elements - first) {
        return err_set(err, ST_FORMAT, "'%s': tensor '%s' has no elements %" PRIu64 " to %" PRIu64,
                       f->map.path, t->name, first, first + count);
    }
    if (count == 0) {
        return ST_OK;
    }
    if (t->type->values == VALUES_BLOCKS) {
        return block_values(f, t, first, count, ret_values, err);
    }
    const unsigned char *base = f->map.p + t->offset;
    unsigned size = t->type->block_bytes;
    if (t->stride == NULL) {
        TRY(file_map_populate(&f->map, t->offset + first * size, (uint64_t)count * size, err));
        dtype_to_double(t->type->dtype, base + first * size, count, ret_values);
        return ST_OK;
    }
    TRY(file_map_populate(&f->map, t->offset, t->bytes, err));
    for (size_t i = 0; i < count; i++) {
        int64_t place = strided_place(t, first + i);
        if (place < 0 || (uint64_t)place >= t->bytes / size) {
            return err_set(err, ST_FORMAT, "'%s': tensor '%s' reaches beyond its storage",
                           f->map.path, t->name);
        }
        ret_values[i] = dtype_get(t->type->dtype, base + (uint64_t)place * size);
    }
    return ST_OK;
}
