// SPDX-License-Identifier: Apache-2.0
/* Parameters of a case: defaults, text in and out, ranges. */
#include <math.h>
#include <stdio.h>

#include "ops/op.h"

#define ELEMENTS_MAX ((int64_t)1 << 31)

static const char *const values_names[OP_VALUES_COUNT] = {
    [OP_VALUES_RANDOM] = "random", [OP_VALUES_ONE_SIGN] = "one_sign",
    [OP_VALUES_CANCEL] = "cancel", [OP_VALUES_DENORMAL] = "denormal",
    [OP_VALUES_HUGE] = "huge",     [OP_VALUES_TINY] = "tiny",
    [OP_VALUES_GRID] = "grid",
};

const char *op_values_name(enum op_values v)
{
    return values_names[v];
}

bool op_values_find(struct str name, enum op_values *ret_values)
{
    for (int v = 0; v < OP_VALUES_COUNT; v++) {
        if (str_is(name, values_names[v])) {
            *ret_values = (enum op_values)v;
            return true;
        }
    }
    return false;
}

void op_case_init(struct op_case *c, const struct op *op, enum dtype dtype)
{
    *c = (struct op_case){.op = op, .dtype = dtype};
    for (size_t i = 0; i < op->param_count; i++) {
        c->value[i] = op->params[i].fallback;
    }
}

static size_t param_index(const struct op *op, struct str name)
{
    for (size_t i = 0; i < op->param_count; i++) {
        if (str_is(name, op->params[i].name)) {
            return i;
        }
    }
    return SIZE_MAX;
}

double op_get(const struct op_case *c, const char *name)
{
    size_t i = param_index(c->op, str_of(name));
    return i == SIZE_MAX ? NAN : c->value[i];
}

int64_t op_int(const struct op_case *c, const char *name)
{
    return (int64_t)op_get(c, name);
}

bool op_flag(const struct op_case *c, const char *name)
{
    return op_get(c, name) > 0;
}

static const char *param_names(const struct op *op, char *text, size_t capacity)
{
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; i < op->param_count && n < capacity; i++) {
        int wrote = snprintf(text + n, capacity - n, "%s%s", i ? ", " : "", op->params[i].name);
        n += wrote > 0 ? (size_t)wrote : 0;
    }
    return text;
}

static const char *choice_names(const struct op_param *p, char *text, size_t capacity)
{
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; p->choices[i] && n < capacity; i++) {
        int wrote = snprintf(text + n, capacity - n, "%s%s", i ? ", " : "", p->choices[i]);
        n += wrote > 0 ? (size_t)wrote : 0;
    }
    return text;
}

static bool is_whole(enum op_param_kind kind)
{
    return kind != OP_PARAM_REAL;
}

static enum status check_range(const struct op *op, const struct op_param *p, double v,
                               struct err *err)
{
    if (!(v >= p->min && v <= p->max) || (is_whole(p->kind) && v != floor(v))) {
        return err_set(err, ST_USAGE, "%s: %s is %.17g, expected %s from %.15g to %.15g", op->name,
                       p->name, v, is_whole(p->kind) ? "a whole number" : "a number", p->min,
                       p->max);
    }
    return ST_OK;
}

static bool read_value(const struct op_param *p, struct str text, double *ret_value)
{
    if (p->kind == OP_PARAM_CHOICE) {
        for (size_t i = 0; p->choices[i]; i++) {
            if (str_is(text, p->choices[i])) {
                *ret_value = (double)i;
                return true;
            }
        }
        return false;
    }
    if (p->kind == OP_PARAM_FLAG && (str_is(text, "true") || str_is(text, "True"))) {
        *ret_value = 1;
        return true;
    }
    if (p->kind == OP_PARAM_FLAG && (str_is(text, "false") || str_is(text, "False"))) {
        *ret_value = 0;
        return true;
    }
    return str_to_double(text, ret_value) == ST_OK;
}

enum status op_case_set(struct op_case *c, struct str name, struct str value, struct err *err)
{
    char names[600];
    size_t i = param_index(c->op, name);
    if (i == SIZE_MAX) {
        return err_set(err, ST_USAGE, "%s has no parameter '%.*s'; it has %s", c->op->name,
                       STR_ARG(str_slice(name, 0, name.n < 60 ? name.n : 60)),
                       param_names(c->op, names, sizeof names));
    }
    const struct op_param *p = &c->op->params[i];
    double v = 0;
    if (!read_value(p, value, &v)) {
        struct str shown = str_slice(value, 0, value.n < 60 ? value.n : 60);
        if (p->kind == OP_PARAM_CHOICE) {
            return err_set(err, ST_USAGE, "%s: %s is '%.*s', expected one of %s", c->op->name,
                           p->name, STR_ARG(shown), choice_names(p, names, sizeof names));
        }
        return err_set(err, ST_USAGE, "%s: %s is '%.*s', expected a number", c->op->name, p->name,
                       STR_ARG(shown));
    }
    TRY(check_range(c->op, p, v, err));
    c->value[i] = v;
    return ST_OK;
}

static enum status check_elements(const struct op_case *c, const struct op_tensor *specs,
                                  size_t count, int64_t *total, struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        struct op_array a;
        TRY(op_array_shape(c, &specs[i], false, &a, err));
        *total += (int64_t)a.count;
        if (*total > ELEMENTS_MAX) {
            return err_set(err, ST_LIMIT, "%s: more than 2^31 elements in all tensors together",
                           c->op->name);
        }
    }
    return ST_OK;
}

enum status op_case_check(const struct op_case *c, struct err *err)
{
    const struct dtype_info *info = dtype_info(c->dtype);
    if (!info->is_float) {
        return err_set(err, ST_USAGE, "%s is not defined for %s, only for floating point numbers",
                       c->op->name, info->name);
    }
    if (info->size == 1 && !c->op->has_fp8) {
        return err_set(err, ST_USAGE, "%s is not defined for 8-bit operands (%s)", c->op->name,
                       info->name);
    }
    if (c->math == OP_MATH_TF32 && c->dtype != DTYPE_F32) {
        return err_set(err, ST_USAGE, "tf32 is a way to multiply float32, not %s", info->name);
    }
    for (size_t i = 0; i < c->op->param_count; i++) {
        TRY(check_range(c->op, &c->op->params[i], c->value[i], err));
    }
    if (c->op->check) {
        TRY(c->op->check(c, err));
    }
    int64_t total = 0;
    TRY(check_elements(c, c->op->inputs, c->op->input_count, &total, err));
    return check_elements(c, c->op->outputs, c->op->output_count, &total, err);
}

/* ---- one line ---- */

static void add_param(struct strbuf *b, const struct op_param *p, double v)
{
    if (p->kind == OP_PARAM_CHOICE) {
        strbuf_fmt(b, " %s=%s", p->name, p->choices[(size_t)v]);
    } else {
        strbuf_fmt(b, " %s=%.17g", p->name, v);
    }
}

const char *op_case_text(struct arena *a, const struct op_case *c)
{
    struct strbuf b;
    strbuf_init(&b, a, 4096);
    strbuf_fmt(&b, "%s %s", c->op->name, dtype_info(c->dtype)->name);
    if (c->math == OP_MATH_TF32) {
        strbuf_addz(&b, " math=tf32");
    }
    if (c->values != OP_VALUES_RANDOM) {
        strbuf_fmt(&b, " values=%s", values_names[c->values]);
    }
    if (c->seed) {
        strbuf_fmt(&b, " seed=%llu", (unsigned long long)c->seed);
    }
    for (size_t i = 0; i < c->op->param_count; i++) {
        const struct op_param *p = &c->op->params[i];
        if (p->kind == OP_PARAM_SIZE || c->value[i] != p->fallback) {
            add_param(&b, p, c->value[i]);
        }
    }
    return b.p;
}

static enum status parse_word(struct op_case *c, struct str name, struct str value, struct err *err)
{
    if (str_is(name, "values")) {
        return op_values_find(value, &c->values)
                   ? ST_OK
                   : err_set(err, ST_USAGE, "unknown kind of values '%.*s'", STR_ARG(value));
    }
    if (str_is(name, "seed")) {
        return str_to_u64(value, 10, &c->seed) == ST_OK
                   ? ST_OK
                   : err_set(err, ST_USAGE, "seed '%.*s' is not a number", STR_ARG(value));
    }
    if (str_is(name, "math")) {
        c->math = OP_MATH_TF32;
        return str_is(value, "tf32")
                   ? ST_OK
                   : err_set(err, ST_USAGE, "unknown math '%.*s', expected tf32", STR_ARG(value));
    }
    return op_case_set(c, name, value, err);
}

enum status op_case_parse(struct str text, struct op_case *ret_case, struct err *err)
{
    struct str rest = str_trim(text), word = {0}, name = {0};
    (void)str_cut(&rest, ' ', &word);
    const struct op *op = op_find(word);
    if (!op) {
        return err_set(err, ST_USAGE, "unknown operator '%.*s'",
                       STR_ARG(str_slice(word, 0, word.n < 60 ? word.n : 60)));
    }
    enum dtype dtype;
    if (!str_cut(&rest, ' ', &word) || !dtype_find(word, &dtype)) {
        return err_set(err, ST_USAGE,
                       "%s: expected a number format after the operator, as in "
                       "'%s bfloat16 ...'",
                       op->name, op->name);
    }
    struct op_case c;
    op_case_init(&c, op, dtype);
    while (str_cut(&rest, ' ', &word)) {
        if (word.n == 0) {
            continue;
        }
        if (word.n > 200 || !str_has(word, "=")) {
            return err_set(err, ST_USAGE, "%s: expected name=value", op->name);
        }
        (void)str_cut(&word, '=', &name);
        TRY(parse_word(&c, name, word, err));
    }
    TRY(op_case_check(&c, err));
    *ret_case = c;
    return ST_OK;
}
