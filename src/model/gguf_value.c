// SPDX-License-Identifier: Apache-2.0
/* Keys and values of a GGUF header, as those who read a model ask for them. */
#include <string.h>

#include "base/bytes.h"
#include "base/dtype.h"

#include "model/gguf.h"

static const struct {
    const char *name;
    enum dtype dtype; /* of numbers */
} kinds[GGUF_KIND_COUNT] = {
    [GGUF_U8] = {"u8", DTYPE_U8},         [GGUF_I8] = {"i8", DTYPE_I8},
    [GGUF_U16] = {"u16", DTYPE_U16},      [GGUF_I16] = {"i16", DTYPE_I16},
    [GGUF_U32] = {"u32", DTYPE_U32},      [GGUF_I32] = {"i32", DTYPE_I32},
    [GGUF_F32] = {"f32", DTYPE_F32},      [GGUF_BOOL] = {"bool", DTYPE_BOOL},
    [GGUF_STRING] = {"string", DTYPE_U8}, [GGUF_ARRAY] = {"array", DTYPE_U8},
    [GGUF_U64] = {"u64", DTYPE_U64},      [GGUF_I64] = {"i64", DTYPE_I64},
    [GGUF_F64] = {"f64", DTYPE_F64},
};

const char *gguf_kind_name(enum gguf_kind kind)
{
    return kind < GGUF_KIND_COUNT ? kinds[kind].name : "?";
}

const struct gguf *gguf_of(const struct tensor_file *f)
{
    return f->format == &tensor_format_gguf ? f->own : NULL;
}

const struct gguf_value *gguf_find(const struct gguf *g, const char *key)
{
    return map_get(g->by_key, str_of(key));
}

/* The bytes of a number or truth value; NULL beyond the end and for strings. */
static const char *element_at(const struct gguf_value *v, uint64_t index, unsigned *ret_size)
{
    if (v == NULL || v->element == GGUF_STRING || v->element == GGUF_ARRAY || index >= v->count) {
        return NULL;
    }
    *ret_size = dtype_info(kinds[v->element].dtype)->size;
    return v->bytes.p + index * *ret_size;
}

bool gguf_integer_at(const struct gguf_value *v, uint64_t index, int64_t *ret_integer)
{
    unsigned size;
    const char *p = element_at(v, index, &size);
    if (p == NULL || v->element == GGUF_BOOL || v->element == GGUF_F32 || v->element == GGUF_F64) {
        return false;
    }
    if (v->element == GGUF_U64 || v->element == GGUF_I64) {
        uint64_t wide = bytes_le64(p);
        if (v->element == GGUF_U64 && wide > INT64_MAX) {
            return false;
        }
        *ret_integer = (int64_t)wide;
        return true;
    }
    *ret_integer = (int64_t)dtype_get(kinds[v->element].dtype, p);
    return true;
}

bool gguf_real_at(const struct gguf_value *v, uint64_t index, double *ret_real)
{
    unsigned size;
    const char *p = element_at(v, index, &size);
    if (p == NULL || v->element == GGUF_BOOL) {
        return false;
    }
    *ret_real = dtype_get(kinds[v->element].dtype, p);
    return true;
}

bool gguf_bool_at(const struct gguf_value *v, uint64_t index, bool *ret_bool)
{
    unsigned size;
    const char *p = element_at(v, index, &size);
    if (p == NULL || v->element != GGUF_BOOL) {
        return false;
    }
    *ret_bool = *p != 0;
    return true;
}

bool gguf_text_at(const struct gguf_value *v, uint64_t index, struct str *ret_text)
{
    if (v == NULL || v->element != GGUF_STRING || index >= v->count) {
        return false;
    }
    *ret_text = v->strings[index];
    return true;
}

/* NULL when the key is missing or an array. */
static const struct gguf_value *scalar(const struct gguf *g, const char *key)
{
    const struct gguf_value *v = gguf_find(g, key);
    return v != NULL && v->kind != GGUF_ARRAY ? v : NULL;
}

bool gguf_integer(const struct gguf *g, const char *key, int64_t *ret_integer)
{
    return gguf_integer_at(scalar(g, key), 0, ret_integer);
}

bool gguf_real(const struct gguf *g, const char *key, double *ret_real)
{
    return gguf_real_at(scalar(g, key), 0, ret_real);
}

bool gguf_bool(const struct gguf *g, const char *key, bool *ret_bool)
{
    return gguf_bool_at(scalar(g, key), 0, ret_bool);
}

bool gguf_text(const struct gguf *g, const char *key, struct str *ret_text)
{
    return gguf_text_at(scalar(g, key), 0, ret_text);
}
