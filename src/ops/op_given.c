// SPDX-License-Identifier: Apache-2.0
/* Sizes from shapes, and shapes and formats against the row of an operator. */
#include "ops/op_given.h"

#include <stdio.h>
#include <string.h>

static const char *const role_prefixes[OP_GIVEN_ROLE_COUNT] = {
    [OP_GIVEN_INPUT] = "input.",
    [OP_GIVEN_OUTPUT] = "output.",
    [OP_GIVEN_GRAD] = "grad.",
    [OP_GIVEN_GRAD_OUTPUT] = "grad_output.",
};

static bool of_input(enum op_given_role role)
{
    return role == OP_GIVEN_INPUT || role == OP_GIVEN_GRAD;
}

static const struct op_tensor *spec_of(const struct op *op, enum op_given_role role, size_t i)
{
    return of_input(role) ? &op->inputs[i] : &op->outputs[i];
}

static bool has_role(const struct op *op, enum op_given_role role, const struct op_tensor *spec)
{
    bool differentiable = op->backward && spec->gradient;
    return role == OP_GIVEN_INPUT || role == OP_GIVEN_OUTPUT || differentiable;
}

static void list_names(const struct op *op, char *text, size_t capacity)
{
    size_t n = 0;
    text[0] = '\0';
    for (int role = 0; role < OP_GIVEN_ROLE_COUNT; role++) {
        size_t count = of_input((enum op_given_role)role) ? op->input_count : op->output_count;
        for (size_t i = 0; i < count && n < capacity; i++) {
            const struct op_tensor *spec = spec_of(op, (enum op_given_role)role, i);
            if (has_role(op, (enum op_given_role)role, spec)) {
                int wrote = snprintf(text + n, capacity - n, "%s%s%s", n ? ", " : "",
                                     role_prefixes[role], spec->name);
                n += wrote > 0 ? (size_t)wrote : 0;
            }
        }
    }
}

enum status op_given_name(const struct op *op, struct str name, enum op_given_role *ret_role,
                          size_t *ret_position, struct err *err)
{
    for (int role = 0; role < OP_GIVEN_ROLE_COUNT; role++) {
        if (!str_starts(name, role_prefixes[role])) {
            continue;
        }
        struct str rest = str_slice(name, strlen(role_prefixes[role]), name.n);
        size_t count = of_input((enum op_given_role)role) ? op->input_count : op->output_count;
        for (size_t i = 0; i < count; i++) {
            const struct op_tensor *spec = spec_of(op, (enum op_given_role)role, i);
            if (str_is(rest, spec->name) && has_role(op, (enum op_given_role)role, spec)) {
                *ret_role = (enum op_given_role)role;
                *ret_position = i;
                return ST_OK;
            }
        }
    }
    char names[700];
    list_names(op, names, sizeof names);
    return err_set(err, ST_USAGE, "%s has no tensor of this name; it has %s", op->name, names);
}

const struct op_given *op_given_find(const struct op_given_list *list, enum op_given_role role,
                                     size_t position)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].role == role && list->items[i].position == position) {
            return &list->items[i];
        }
    }
    return NULL;
}

/* ---- completing the case ---- */

static void find_format(struct op_case *c, const struct op_given_list *list)
{
    for (size_t i = 0; i < c->op->input_count; i++) {
        const struct op_given *g = op_given_find(list, OP_GIVEN_INPUT, i);
        if (g && c->op->inputs[i].role == OP_DTYPE_CASE) {
            c->dtype = g->dtype;
            return;
        }
    }
}

static size_t param_of(const struct op *op, struct str name)
{
    for (size_t i = 0; i < op->param_count; i++) {
        if (str_is(name, op->params[i].name)) {
            return i;
        }
    }
    return op->param_count;
}

/* A tensor that is optional is there exactly when its parameter is not 0. */
static enum status set_presence(struct op_case *c, const bool *set,
                                const struct op_given_list *list, struct err *err)
{
    for (size_t i = 0; i < c->op->input_count; i++) {
        const struct op_tensor *spec = &c->op->inputs[i];
        const struct op_given *g = op_given_find(list, OP_GIVEN_INPUT, i);
        if (!spec->present) {
            if (!g) {
                return err_set(err, ST_ABSENT, "there is no tensor 'input.%s', and %s needs it",
                               spec->name, c->op->name);
            }
            continue;
        }
        size_t p = param_of(c->op, str_of(spec->present));
        if (set[p] && (c->value[p] != 0) != (g != NULL)) {
            return err_set(err, ST_FORMAT, "%s is %.9g, but the tensor 'input.%s' is %s",
                           spec->present, c->value[p], spec->name, g ? "there" : "not there");
        }
        c->value[p] = set[p] ? c->value[p] : g != NULL;
    }
    return ST_OK;
}

/* Takes "name" or "name/2" from a dimension; other expressions are only checked. */
static void infer_word(struct op_case *c, bool *known, struct str word, int64_t dim)
{
    struct str name = word, divisor = {0};
    (void)str_cut(&word, '/', &name);
    divisor = word;
    int64_t factor = 1;
    size_t p = param_of(c->op, name);
    if (p == c->op->param_count || known[p] || c->op->params[p].kind != OP_PARAM_SIZE) {
        return;
    }
    if (divisor.n && (str_to_i64(divisor, 10, &factor) != ST_OK || factor < 1 || factor > 64)) {
        return;
    }
    c->value[p] = (double)dim * (double)factor;
    known[p] = true;
}

static void infer_sizes(struct op_case *c, const bool *set, const struct op_given_list *list)
{
    bool known[OP_PARAMS_MAX] = {false};
    memcpy(known, set, c->op->param_count * sizeof *known);
    for (size_t i = 0; i < list->count; i++) {
        const struct op_given *g = &list->items[i];
        struct str rest = str_of(spec_of(c->op, g->role, g->position)->shape), word;
        for (size_t d = 0; d < g->rank && rest.n && str_cut(&rest, ' ', &word); d++) {
            infer_word(c, known, word, g->dim[d]);
        }
    }
}

/* ---- checks ---- */

static void shape_text(const int64_t *dim, size_t rank, char *text, size_t capacity)
{
    size_t n = 0;
    text[0] = '\0';
    for (size_t d = 0; d < rank && n < capacity; d++) {
        int wrote = snprintf(text + n, capacity - n, "%s%lld", d ? ", " : "", (long long)dim[d]);
        n += wrote > 0 ? (size_t)wrote : 0;
    }
}

/* Whether a tensor may have this format where the case expects `due`. */
static bool format_fits(const struct op_given *g, const struct op_tensor *spec, enum dtype due)
{
    const struct dtype_info *is = dtype_info(g->dtype), *want = dtype_info(due);
    bool result = g->role != OP_GIVEN_INPUT;
    switch (spec->role) {
    case OP_DTYPE_INDEX: return !is->is_float && g->dtype != DTYPE_BOOL;
    case OP_DTYPE_BOOL: return g->dtype == DTYPE_BOOL || g->dtype == DTYPE_U8;
    case OP_DTYPE_WIDE: return is->is_float && is->size > 1;
    default:
        /* A result may be wider than its operands: a loss in float32 of logits in bfloat16. */
        return g->dtype == due ||
               (result && is->is_float && is->size > want->size && want->size < 4);
    }
}

static enum status check_tensor(const struct op_case *c, const struct op_given *g, struct err *err)
{
    const struct op_tensor *spec = spec_of(c->op, g->role, g->position);
    struct op_array due;
    TRY(op_array_shape(c, spec, g->role != OP_GIVEN_INPUT, &due, err));
    const char *prefix = role_prefixes[g->role];
    if (!due.spec) {
        return err_set(err, ST_FORMAT, "the tensor '%s%s' is there, but %s is 0", prefix,
                       spec->name, spec->present);
    }
    if (due.rank != g->rank || memcmp(due.dim, g->dim, g->rank * sizeof *g->dim) != 0) {
        char is[120], want[120];
        shape_text(g->dim, g->rank, is, sizeof is);
        shape_text(due.dim, due.rank, want, sizeof want);
        return err_set(
            err, ST_FORMAT,
            "the shape of '%s%s' is [%s], expected [%s], which is [%s] with the sizes of "
            "the other tensors",
            prefix, spec->name, is, want, spec->shape);
    }
    if (!format_fits(g, spec, due.dtype)) {
        return err_set(err, ST_FORMAT, "'%s%s' is %s, expected %s like the operands", prefix,
                       spec->name, dtype_info(g->dtype)->name, dtype_info(due.dtype)->name);
    }
    return ST_OK;
}

enum status op_given_case(struct op_case *c, const bool *set, const struct op_given_list *list,
                          struct err *err)
{
    find_format(c, list);
    TRY(set_presence(c, set, list, err));
    infer_sizes(c, set, list);
    TRY(op_case_check(c, err));
    for (size_t i = 0; i < list->count; i++) {
        TRY(check_tensor(c, &list->items[i], err));
    }
    return ST_OK;
}
