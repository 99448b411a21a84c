// SPDX-License-Identifier: Apache-2.0
/*
 * Shapes of tensors from their expressions: sums, differences, products and whole quotients of
 * parameters and numbers. The expressions are ours (rows of operators), the numbers are the user's.
 */
#include "ops/op.h"

#define DIM_MAX ((int64_t)1 << 40)

struct reader {
    const struct op_case *c;
    struct str rest;
    bool bad; /* overflow, division by zero, or an unknown name */
};

static int64_t sum(struct reader *r, int depth);

static char peek(const struct reader *r)
{
    return r->rest.n ? r->rest.p[0] : '\0';
}

static bool take(struct reader *r, char c)
{
    if (peek(r) != c) {
        return false;
    }
    r->rest = str_slice(r->rest, 1, r->rest.n);
    return true;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

static int64_t atom(struct reader *r, int depth)
{
    if (depth < 8 && take(r, '(')) {
        int64_t v = sum(r, depth + 1);
        r->bad |= !take(r, ')');
        return v;
    }
    size_t n = 0;
    while (n < r->rest.n && is_word(r->rest.p[n])) {
        n++;
    }
    struct str word = str_slice(r->rest, 0, n);
    r->rest = str_slice(r->rest, n, r->rest.n);
    int64_t v = 0;
    if (n && str_to_i64(word, 10, &v) == ST_OK) {
        return v;
    }
    for (size_t i = 0; i < r->c->op->param_count; i++) {
        if (str_is(word, r->c->op->params[i].name)) {
            return (int64_t)r->c->value[i];
        }
    }
    r->bad = true;
    return 0;
}

static int64_t product(struct reader *r, int depth)
{
    int64_t v = atom(r, depth);
    for (;;) {
        bool divide = peek(r) == '/';
        if (!take(r, '*') && !take(r, '/')) {
            return v;
        }
        int64_t w = atom(r, depth);
        if (divide) {
            r->bad |= w <= 0 || v < 0;
            v = w > 0 ? v / w : 0;
        } else {
            r->bad |= __builtin_mul_overflow(v, w, &v);
        }
    }
}

static int64_t sum(struct reader *r, int depth)
{
    int64_t v = product(r, depth);
    for (;;) {
        bool minus = peek(r) == '-';
        if (!take(r, '+') && !take(r, '-')) {
            return v;
        }
        int64_t w = product(r, depth);
        r->bad |= minus ? __builtin_sub_overflow(v, w, &v) : __builtin_add_overflow(v, w, &v);
    }
}

static enum dtype dtype_of(const struct op_case *c, const struct op_tensor *spec, bool is_result)
{
    switch (spec->role) {
    case OP_DTYPE_INDEX: return DTYPE_I64;
    case OP_DTYPE_BOOL: return DTYPE_BOOL;
    case OP_DTYPE_WIDE: return c->dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
    default: return is_result && dtype_info(c->dtype)->size == 1 ? DTYPE_BF16 : c->dtype;
    }
}

enum status op_array_shape(const struct op_case *c, const struct op_tensor *spec, bool is_result,
                           struct op_array *ret_array, struct err *err)
{
    *ret_array = (struct op_array){0};
    if (spec->present && op_get(c, spec->present) == 0) {
        return ST_OK;
    }
    struct op_array a = {.spec = spec, .dtype = dtype_of(c, spec, is_result), .count = 1};
    struct str rest = str_of(spec->shape), word;
    while (rest.n && str_cut(&rest, ' ', &word) && a.rank < OP_RANK_MAX) {
        struct reader r = {.c = c, .rest = word};
        int64_t dim = sum(&r, 0);
        if (r.bad || r.rest.n || dim < 1 || dim > DIM_MAX) {
            return err_set(err, ST_USAGE, "%s: dimension %zu of %s (%.*s) would be %lld",
                           c->op->name, a.rank + 1, spec->name, STR_ARG(word), (long long)dim);
        }
        if (__builtin_mul_overflow(a.count, (size_t)dim, &a.count)) {
            return err_set(err, ST_LIMIT, "%s: %s has too many elements", c->op->name, spec->name);
        }
        a.dim[a.rank++] = dim;
    }
    *ret_array = a;
    return ST_OK;
}
