// SPDX-License-Identifier: Apache-2.0
/*
 * From the values of a pickle to tensors: which calls stand for a tensor, what storage it views, and
 * whether it stays inside of it.
 */
#include <inttypes.h>
#include <string.h>

#include "model/torch_file.h"

/* Storage classes and dtype names, with the row of the type table they mean. */
static const struct {
    const char *storage; /* NULL: only as torch.<dtype> */
    const char *dtype;
    const char *type; /* name in tensor_type.c */
} types[] = {
    {"DoubleStorage", "float64", "F64"},
    {"FloatStorage", "float32", "F32"},
    {"HalfStorage", "float16", "F16"},
    {"BFloat16Storage", "bfloat16", "BF16"},
    {"LongStorage", "int64", "I64"},
    {"IntStorage", "int32", "I32"},
    {"ShortStorage", "int16", "I16"},
    {"CharStorage", "int8", "I8"},
    {"ByteStorage", "uint8", "U8"},
    {"BoolStorage", "bool", "BOOL"},
    {"ComplexFloatStorage", "complex64", "C64"},
    {"ComplexDoubleStorage", "complex128", "C128"},
    {"QInt8Storage", NULL, "I8"},
    {"QUInt8Storage", NULL, "U8"},
    {"QInt32Storage", NULL, "I32"},
    {"QUInt4x2Storage", NULL, "U8"},
    {"QUInt2x4Storage", NULL, "U8"},
    {"UntypedStorage", NULL, "U8"},
    {NULL, "uint16", "U16"},
    {NULL, "uint32", "U32"},
    {NULL, "uint64", "U64"},
    {NULL, "float8_e4m3fn", "F8_E4M3"},
    {NULL, "float8_e5m2", "F8_E5M2"},
    {NULL, "float8_e4m3fnuz", "F8_E4M3FNUZ"},
    {NULL, "float8_e5m2fnuz", "F8_E5M2FNUZ"},
    {NULL, "float8_e8m0fnu", "F8_E8M0"},
    {NULL, "float4_e2m1fn_x2", "F4_X2"},
};

static const struct tensor_type *type_of(const struct pickle_value *global, bool dtype)
{
    if (global == NULL || global->kind != PICKLE_GLOBAL) {
        return NULL;
    }
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        const char *name = dtype ? types[i].dtype : types[i].storage;
        if (name != NULL && str_is(global->global->name, name)) {
            return tensor_type_named(types[i].type);
        }
    }
    return NULL;
}

static void issue_storage(struct torch_file *f, struct issues *issues, struct str key,
                          const char *what)
{
    issue_add(issues, SEVERITY_ERROR, "torch-storage-damaged", "A storage contradicts itself",
              "Storage \"%s\": %s.", issue_text(f->arena, key), what);
}

struct torch_storage *torch_storage_of(struct torch_file *f, const struct pickle_value *id,
                                       struct issues *issues)
{
    if (id == NULL || id->kind != PICKLE_PERSISTENT) {
        return NULL;
    }
    const struct pickle_value *tuple = id->call.args;
    const struct pickle_value *class = pickle_arg(tuple, 1);
    const struct pickle_value *key = pickle_arg(tuple, 2);
    int64_t elements;
    if (class == NULL || class->kind != PICKLE_GLOBAL || key == NULL || key->kind != PICKLE_TEXT ||
        !pickle_int(pickle_arg(tuple, 4), &elements) || elements < 0) {
        issue_add(issues, SEVERITY_ERROR, "torch-storage-damaged", "A storage contradicts itself",
                  "A tensor names a storage in a form torch does not write.");
        return NULL;
    }
    const struct tensor_type *type = type_of(class, false);
    struct torch_storage *s = map_get(f->storages, key->text);
    if (s != NULL) {
        if (s->type != type || s->elements != (uint64_t)elements) {
            issue_storage(f, issues, key->text, "it is named twice, with different types or sizes");
            return NULL;
        }
        return s;
    }
    s = arena_alloc(f->arena, sizeof *s);
    *s = (struct torch_storage){.key = key->text,
                                .class_name = str_dup(f->arena, class->global->name),
                                .type = type,
                                .elements = (uint64_t)elements};
    map_put(f->storages, key->text, s);
    return s;
}

/* Non-negative ints of a tuple or torch.Size, at most TENSOR_RANK_MAX of them. */
static bool read_dims(struct arena *a, const struct pickle_value *v, uint64_t **ret_dims,
                      uint32_t *ret_rank)
{
    if (v != NULL && v->kind == PICKLE_CALL) {
        v = pickle_arg(v, 0);
    }
    if (v == NULL || v->kind != PICKLE_TUPLE || v->count > TENSOR_RANK_MAX) {
        return false;
    }
    uint64_t *dims = arena_array(a, v->count, sizeof *dims);
    for (uint32_t i = 0; i < v->count; i++) {
        int64_t n;
        if (!pickle_int(v->items[i], &n) || n < 0) {
            return false;
        }
        dims[i] = (uint64_t)n;
    }
    *ret_dims = dims;
    *ret_rank = v->count;
    return true;
}

static bool is_dense(const struct tensor *t, const uint64_t *strides)
{
    uint64_t expected = 1;
    for (uint32_t d = t->rank; d-- > 0 && t->elements > 0;) {
        if (t->shape[d] != 1 && strides[d] != expected) {
            return false;
        }
        expected *= t->shape[d]; /* the product was checked */
    }
    return true;
}

/* Elements from the first to behind the last that the strides reach; false on overflow. */
static bool span_of(const struct tensor *t, const uint64_t *strides, uint64_t *ret_span)
{
    uint64_t span = t->elements > 0 ? 1 : 0;
    for (uint32_t d = 0; d < t->rank && span > 0; d++) {
        uint64_t reach;
        if (__builtin_mul_overflow(t->shape[d] - 1, strides[d], &reach) ||
            __builtin_add_overflow(span, reach, &span)) {
            return false;
        }
    }
    *ret_span = span;
    return true;
}

/* What is wrong with a view of `s`, or NULL; sets where its bytes lie. */
static const char *place(struct tensor *t, const struct torch_storage *s, uint64_t first,
                         const uint64_t *strides)
{
    uint64_t span;
    uint64_t size = t->type->block_bytes;
    uint64_t stored;
    if (!tensor_elements(t->shape, t->rank, &t->elements) || !span_of(t, strides, &span)) {
        return "its shape has more elements than can be counted";
    }
    if (s->type == NULL ||
        __builtin_mul_overflow(s->elements, (uint64_t)s->type->block_bytes, &stored)) {
        return "its storage is of an unknown type or size";
    }
    /* storages of bytes carry tensors of any type */
    uint64_t room = stored / size;
    if (first > room || span > room - first) {
        return "it reaches beyond the end of its storage";
    }
    t->offset = s->at + first * size;
    t->bytes = span * size;
    t->present = s->present;
    return NULL;
}

static bool view_of(struct torch_file *f, const struct pickle_value *args, bool typed,
                    struct tensor *t, struct issues *issues)
{
    struct torch_storage *s = torch_storage_of(f, pickle_arg(args, 0), issues);
    int64_t first;
    uint64_t *shape;
    uint64_t *strides;
    uint32_t stride_count;
    if (s == NULL || !pickle_int(pickle_arg(args, 1), &first) || first < 0 ||
        !read_dims(f->arena, pickle_arg(args, 2), &shape, &t->rank) ||
        !read_dims(f->arena, pickle_arg(args, 3), &strides, &stride_count) ||
        stride_count != t->rank) {
        issue_add(issues, SEVERITY_ERROR, "torch-tensor-damaged", "A tensor contradicts itself",
                  "Tensor \"%s\": its storage, offset, shape or strides are not what torch writes.",
                  issue_text(f->arena, str_of(t->name)));
        return true;
    }
    s->used = true;
    t->shape = shape;
    t->type = typed ? type_of(pickle_arg(args, 6), true) : s->type;
    if (t->type == NULL) {
        issue_add(issues, SEVERITY_UNKNOWN, "torch-type-unknown", "An element type not known here",
                  "Tensor \"%s\" has a type that is not read here (storage class %s).",
                  issue_text(f->arena, str_of(t->name)),
                  issue_text(f->arena, str_of(s->class_name)));
        return true;
    }
    const char *wrong = place(t, s, (uint64_t)first, strides);
    if (wrong != NULL) {
        issue_add(issues, SEVERITY_ERROR, "torch-tensor-damaged", "A tensor contradicts itself",
                  "Tensor \"%s\": %s.", issue_text(f->arena, str_of(t->name)), wrong);
        return true;
    }
    if (!is_dense(t, strides)) {
        t->stride = (const int64_t *)strides;
    }
    return true;
}

/* A tensor of the meta device: dtype, shape, strides, and nothing else. */
static bool without_values(struct torch_file *f, const struct pickle_value *args, struct tensor *t,
                           struct issues *issues)
{
    uint64_t *shape;
    t->type = type_of(pickle_arg(args, 0), true);
    if (t->type == NULL || !read_dims(f->arena, pickle_arg(args, 1), &shape, &t->rank) ||
        !tensor_elements(shape, t->rank, &t->elements)) {
        return false;
    }
    t->shape = shape;
    issue_add(issues, SEVERITY_ERROR, "torch-meta-tensor", "A tensor without values",
              "Tensor \"%s\" %s was saved from the meta device: it has a shape, and its values are "
              "in no file.",
              issue_text(f->arena, str_of(t->name)),
              tensor_shape_text(f->arena, t->shape, t->rank));
    return true;
}

/* A storage saved by itself is a row of bytes. */
static bool bare_storage(struct torch_file *f, const struct pickle_value *v, struct tensor *t,
                         struct issues *issues)
{
    struct torch_storage *s = torch_storage_of(f, v, issues);
    if (s == NULL || s->type == NULL) {
        return false;
    }
    uint64_t *shape = arena_array(f->arena, 1, sizeof *shape);
    uint64_t one = 1;
    shape[0] = s->elements;
    s->used = true;
    t->shape = shape;
    t->rank = 1;
    t->type = s->type;
    (void)place(t, s, 0, &one);
    return true;
}

bool torch_tensor_of(struct torch_file *f, const struct pickle_value *v, struct tensor *ret_tensor,
                     struct issues *issues)
{
    const struct pickle_value *args = v->kind == PICKLE_CALL ? v->call.args : NULL;
    const struct pickle_value *callee = v->kind == PICKLE_CALL ? v->call.callee : NULL;
    for (int depth = 0; depth < 4 && callee != NULL && callee->kind == PICKLE_GLOBAL; depth++) {
        struct str name = callee->global->name;
        if (!str_starts(callee->global->module, "torch._")) {
            return false;
        }
        if (str_is(name, "_rebuild_tensor_v2") || str_is(name, "_rebuild_tensor") ||
            str_is(name, "_rebuild_qtensor")) {
            return view_of(f, args, false, ret_tensor, issues);
        }
        if (str_is(name, "_rebuild_tensor_v3")) {
            return view_of(f, args, true, ret_tensor, issues);
        }
        if (str_is(name, "_rebuild_meta_tensor_no_storage")) {
            return without_values(f, args, ret_tensor, issues);
        }
        const struct pickle_value *inner = NULL;
        if (str_is(name, "_rebuild_from_type_v2")) {
            callee = pickle_arg(args, 0);
            args = pickle_arg(args, 2);
        } else if (str_is(name, "_rebuild_parameter") ||
                   str_is(name, "_rebuild_parameter_with_state")) {
            inner = pickle_arg(args, 0);
            callee = inner != NULL && inner->kind == PICKLE_CALL ? inner->call.callee : NULL;
            args = inner != NULL && inner->kind == PICKLE_CALL ? inner->call.args : NULL;
        } else {
            return false;
        }
    }
    return v->kind == PICKLE_PERSISTENT && bare_storage(f, v, ret_tensor, issues);
}
