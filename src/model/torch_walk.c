// SPDX-License-Identifier: Apache-2.0
/* Every tensor in the values of a pickle, with the path that leads to it as its name. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

#include "model/torch_file.h"

enum {
    MAX_PATH = 4096
};

struct walk {
    struct torch_file *f;
    struct issues *issues;
    struct strbuf path;
    uint64_t values;
    bool over; /* a ceiling was reached */
};

/* "state.12.square_avg", in a checkpoint of more "optimizer_states.0.state.12.square_avg": whatever an
 * optimizer keeps of a parameter. */
static bool is_state_of_parameter(struct str name)
{
    static const char part[] = "state.";
    size_t at = str_starts(name, part) ? 0 : str_find(name, ".state.", 0);
    if (at == SIZE_MAX) {
        return false;
    }
    at += at == 0 ? sizeof part - 1 : sizeof part;
    size_t digits = at;
    while (digits < name.n && name.p[digits] >= '0' && name.p[digits] <= '9') {
        digits++;
    }
    return digits > at && digits < name.n && name.p[digits] == '.';
}

static enum tensor_role role_of(const char *name)
{
    static const struct {
        const char *part;
        enum tensor_role role;
    } parts[] = {
        {"exp_avg", TENSOR_OPTIMIZER},
        {"momentum_buffer", TENSOR_OPTIMIZER},
        {"optim.state.", TENSOR_OPTIMIZER},
        {"optimizer.state.", TENSOR_OPTIMIZER},
        {"fp32_groups", TENSOR_OPTIMIZER},
        {"fp32_flat_groups", TENSOR_OPTIMIZER},
        {"optimizer_state", TENSOR_OPTIMIZER},
        {"master_param", TENSOR_OPTIMIZER},
        {"lora_", TENSOR_ADAPTER},
        {"rng_state", TENSOR_STATE},
        {"random_", TENSOR_STATE},
    };
    struct str n = str_of(name);
    if (str_ends(n, ".step")) {
        return TENSOR_STATE;
    }
    if (is_state_of_parameter(n)) {
        return TENSOR_OPTIMIZER;
    }
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (str_has(n, parts[i].part)) {
            return parts[i].role;
        }
    }
    return str_is(n, "cpu") || str_is(n, "cuda") || str_starts(n, "cuda.") || str_is(n, "step") ||
                   str_ends(n, "numpy.1")
               ? TENSOR_STATE
               : TENSOR_WEIGHT;
}

static void add_tensor(struct walk *w, struct tensor *t)
{
    struct torch_file *f = w->f;
    if (f->count >= TENSOR_COUNT_MAX) {
        w->over = true;
        return;
    }
    if (t->type == NULL) {
        return; /* its issue was added */
    }
    /* "a.b" and "a" → "b" are two paths with one text. */
    for (unsigned n = 2; map_get(f->by_name, str_of(t->name)) != NULL; n++) {
        t->name = arena_fmt(f->arena, "%s#%u", t->name, n);
    }
    t->role = role_of(t->name);
    if (f->count == f->capacity) {
        size_t more = f->capacity == 0 ? 64 : f->capacity * 2;
        f->tensors = arena_grow(f->arena, f->tensors, f->capacity * sizeof *t, more * sizeof *t);
        f->capacity = more;
    }
    f->tensors[f->count++] = *t;
    map_put(f->by_name, str_of(t->name), (void *)(uintptr_t)f->count);
}

static void walk_value(struct walk *w, const struct pickle_value *v, int depth);

static void walk_child(struct walk *w, struct str step, const struct pickle_value *v, int depth)
{
    size_t n = w->path.n;
    if (n > 0 && step.n > 0) {
        strbuf_addc(&w->path, '.');
    }
    strbuf_add(&w->path, step);
    walk_value(w, v, depth + 1);
    w->path.n = n;
    w->path.p[n] = '\0';
    w->path.truncated = false;
}

static void walk_items(struct walk *w, struct pickle_value *const *items, uint32_t count, int depth)
{
    for (uint32_t i = 0; i < count && !w->over; i++) {
        char step[16];
        snprintf(step, sizeof step, "%" PRIu32, i);
        walk_child(w, str_of(step), items[i], depth);
    }
}

static void walk_pairs(struct walk *w, struct pickle_value *const *items, uint32_t count, int depth)
{
    for (uint32_t i = 0; i + 1 < count && !w->over; i += 2) {
        const struct pickle_value *key = items[i];
        char number[24] = "?";
        if (key->kind == PICKLE_INT) {
            snprintf(number, sizeof number, "%" PRId64, key->integer);
        }
        walk_child(w, key->kind == PICKLE_TEXT ? key->text : str_of(number), items[i + 1], depth);
    }
}

static void walk_call(struct walk *w, const struct pickle_value *v, int depth)
{
    if (v->pairs) {
        walk_pairs(w, v->call.items, v->count, depth);
    } else {
        walk_items(w, v->call.items, v->count, depth);
    }
    if (v->call.args != NULL && v->call.args->count > 0) {
        walk_value(w, v->call.args, depth + 1);
    }
    if (v->call.state != NULL) {
        walk_value(w, v->call.state, depth + 1);
    }
}

static void walk_value(struct walk *w, const struct pickle_value *v, int depth)
{
    if (++w->values > TORCH_WALK_VALUES || depth > TORCH_WALK_DEPTH) {
        w->over = true;
    }
    bool holds = v->kind == PICKLE_CALL || v->kind == PICKLE_PERSISTENT ||
                 v->kind == PICKLE_TUPLE || v->kind == PICKLE_LIST || v->kind == PICKLE_DICT ||
                 v->kind == PICKLE_SET;
    if (w->over || !holds) {
        return;
    }
    if (v->kind == PICKLE_CALL || v->kind == PICKLE_PERSISTENT) {
        struct tensor t = {.name = w->path.p};
        if (torch_tensor_of(w->f, v, &t, w->issues)) {
            t.name = w->path.n > 0 ? str_dup(w->f->arena, strbuf_str(&w->path)) : "tensor";
            add_tensor(w, &t);
            return;
        }
    }
    switch (v->kind) {
    case PICKLE_CALL: walk_call(w, v, depth); break;
    case PICKLE_DICT: walk_pairs(w, v->items, v->count, depth); break;
    case PICKLE_TUPLE:
    case PICKLE_LIST:
    case PICKLE_SET: walk_items(w, v->items, v->count, depth); break;
    default: break;
    }
}

void torch_collect(struct torch_file *f, const struct pickle_value *root, struct issues *issues)
{
    struct walk w = {.f = f, .issues = issues};
    strbuf_init(&w.path, f->arena, MAX_PATH);
    walk_value(&w, root, 0);
    if (w.over) {
        issue_add(issues, SEVERITY_UNKNOWN, "torch-too-deep",
                  "The pickle was not walked to its end",
                  "Its values are nested deeper than %d, or are more than %d when shared ones are "
                  "counted each time: tensors beyond were not looked at.",
                  TORCH_WALK_DEPTH, TORCH_WALK_VALUES);
    }
}

const struct tensor *torch_find(const struct torch_file *f, const char *name)
{
    uintptr_t i = (uintptr_t)map_get(f->by_name, str_of(name));
    return i == 0 ? NULL : &f->tensors[i - 1];
}

bool torch_number(const struct torch_file *f, const struct pickle_value *v, double *ret_value)
{
    if (v == NULL) {
        return false;
    }
    if (v->kind == PICKLE_REAL) {
        *ret_value = v->real;
        return true;
    }
    int64_t n;
    if (pickle_int(v, &n)) {
        *ret_value = (double)n;
        return true;
    }
    struct tensor t = {.name = ""};
    struct torch_file copy = *f;
    if (!torch_tensor_of(&copy, v, &t, NULL) || !t.present || t.elements != 1 ||
        t.type->values != VALUES_PLAIN || !bytes_has(f->bytes, t.offset, t.bytes)) {
        return false;
    }
    *ret_value = dtype_get(t.type->dtype, f->bytes.p + t.offset);
    return true;
}
