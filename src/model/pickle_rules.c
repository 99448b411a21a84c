// SPDX-License-Identifier: Apache-2.0
/* What a pickle may name, what an allowed callable may be given, what BUILD may set. */
#include <inttypes.h>
#include <string.h>

#include "model/pickle_machine.h"

struct row {
    const char *module;
    const char *name;
    const char *arguments;
};

#define ALLOWED(module, name, arguments) {module, name, arguments},
#define KNOWN(module, name)
#define DANGEROUS(module, name)
static const struct row allowed[] = {
#include "model/pickle_globals.def"
};
#undef ALLOWED
#undef KNOWN
#define ALLOWED(module, name, arguments)
#define KNOWN(module, name) {module, name, NULL},
static const struct row known[] = {
#include "model/pickle_globals.def"
};
#undef KNOWN
#undef DANGEROUS
#define KNOWN(module, name)
#define DANGEROUS(module, name) {module, name, NULL},
static const struct row dangerous[] = {
#include "model/pickle_globals.def"
};

static const struct row *find_allowed(struct str module, struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(allowed); i++) {
        if (str_is(module, allowed[i].module) && str_is(name, allowed[i].name)) {
            return &allowed[i];
        }
    }
    return NULL;
}

/* A plain name in capitals, no path to an attribute. */
static bool is_class_name(struct str name)
{
    return name.n > 0 && name.p[0] >= 'A' && name.p[0] <= 'Z' &&
           str_find_char(name, '.', 0) == SIZE_MAX;
}

static bool below(struct str module, const char *parent)
{
    size_t n = strlen(parent);
    return str_starts(module, parent) && (module.n == n || module.p[n] == '.');
}

/* Classes of torch's own modules: torch.save(model) instead of its state_dict(). */
static bool is_module_class(struct str module, struct str name)
{
    return below(module, "torch.nn.modules") && is_class_name(name);
}

static const struct row *find_known(struct str module, struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        bool all = strcmp(known[i].name, "*") == 0;
        if (str_is(module, known[i].module) &&
            (all ? is_class_name(name) : str_is(name, known[i].name))) {
            return &known[i];
        }
    }
    return NULL;
}

enum pickle_standing pickle_standing_of(struct str module, struct str name)
{
    if (find_allowed(module, name) != NULL) {
        return PICKLE_ALLOWED;
    }
    if (find_known(module, name) != NULL || is_module_class(module, name)) {
        return PICKLE_KNOWN;
    }
    for (size_t i = 0; i < ARRAY_LEN(dangerous); i++) {
        bool all = strcmp(dangerous[i].name, "*") == 0;
        if (all ? below(module, dangerous[i].module)
                : str_is(module, dangerous[i].module) && str_is(name, dangerous[i].name)) {
            return PICKLE_DANGEROUS;
        }
    }
    return PICKLE_OUTSIDE;
}

static void issue_module(struct pickle_machine *m, const struct pickle_global *g)
{
    size_t classes = 0;
    for (size_t i = 0; i < m->pickle->globals.count; i++) {
        const struct pickle_global *other = m->pickle->globals.items[i];
        classes += is_module_class(other->module, other->name);
    }
    if (classes == 1) { /* the first of this pickle */
        pickle_issue(m, SEVERITY_WARNING, "torch-whole-model",
                     "A whole model was saved, not its weights",
                     "it builds objects of %s.%s and perhaps of other classes. torch.load refuses "
                     "it since 2.6 unless weights_only=False, and then needs the same classes",
                     issue_text(m->arena, g->module), issue_text(m->arena, g->name));
        issue_remedy(m->issues, "torch.save(model.state_dict(), ...), or safetensors.");
    }
}

static void issue_outside(struct pickle_machine *m, const struct pickle_global *g)
{
    const char *module = issue_text(m->arena, g->module);
    const char *name = issue_text(m->arena, g->name);
    if (g->standing == PICKLE_DANGEROUS) {
        pickle_issue(m, SEVERITY_ERROR, "pickle-dangerous-global",
                     "Loading it would run or open something",
                     "it imports %s.%s, which can run code or reach files or the network. No "
                     "checkpoint needs it. Do not load this file",
                     module, name);
        issue_remedy(m->issues,
                     "Get the file from its origin again, as safetensors where offered.");
    } else {
        pickle_issue(m, SEVERITY_ERROR, "pickle-unknown-global", "A global outside the list",
                     "it imports %s.%s, which is not among what known training code writes. "
                     "Whether loading it does harm is not known",
                     module, name);
    }
}

enum status pickle_name(struct pickle_machine *m, struct str module, struct str name,
                        struct pickle_value **ret, struct err *err)
{
    TRY(pickle_new(m, PICKLE_GLOBAL, ret, err));
    struct strbuf key;
    strbuf_init(&key, m->arena, module.n + name.n + 2);
    strbuf_add(&key, module);
    strbuf_addc(&key, '\n');
    strbuf_add(&key, name);
    struct pickle_global *g = map_get(m->globals, strbuf_str(&key));
    if (g == NULL) {
        g = arena_alloc(m->arena, sizeof *g);
        *g = (struct pickle_global){.module = module,
                                    .name = name,
                                    .standing = pickle_standing_of(module, name),
                                    .at = m->opcode};
        map_put(m->globals, strbuf_str(&key), g);
        *VEC_PUSH(m->arena, &m->pickle->globals) = g;
        m->pickle->known += g->standing == PICKLE_KNOWN;
        bool computed = str_is(module, "?") && str_is(name, "?");
        if (g->standing >= PICKLE_OUTSIDE && !computed) {
            m->pickle->outside++;
            issue_outside(m, g);
        } else if (is_module_class(module, name)) {
            issue_module(m, g);
        }
    }
    g->uses++;
    (*ret)->global = g;
    return ST_OK;
}

static bool is_call_of(const struct pickle_value *v, const char *module, const char *name)
{
    return v->kind == PICKLE_CALL && pickle_is_global(v->call.callee, module, name);
}

/* A tuple of ints, or torch.Size of one. With `zero`, of zeros. */
static bool is_int_tuple(const struct pickle_value *v, bool zero)
{
    if (is_call_of(v, "torch", "Size")) {
        v = pickle_arg(v, 0);
    }
    if (v == NULL || v->kind != PICKLE_TUPLE) {
        return false;
    }
    for (uint32_t i = 0; i < v->count; i++) {
        int64_t n;
        if (!pickle_int(v->items[i], &n) || n < 0 || (zero && n != 0)) {
            return false;
        }
    }
    return true;
}

static bool is_empty_hooks(const struct pickle_value *v)
{
    return v->kind == PICKLE_NONE || (v->kind == PICKLE_DICT && v->count == 0) ||
           (is_call_of(v, "collections", "OrderedDict") && v->count == 0 && v->call.state == NULL);
}

static bool is_tensor(const struct pickle_value *v)
{
    return v->kind == PICKLE_CALL && v->call.callee->kind == PICKLE_GLOBAL &&
           (str_starts(v->call.callee->global->name, "_rebuild_") ||
            v->call.callee->global->standing == PICKLE_KNOWN);
}

static bool argument_fits(char letter, const struct pickle_value *v)
{
    switch (letter) {
    case 'i': return v->kind == PICKLE_INT;
    case 'b': return v->kind == PICKLE_BOOL || v->kind == PICKLE_NONE;
    case 'f': return v->kind == PICKLE_REAL || v->kind == PICKLE_INT;
    case 's': return v->kind == PICKLE_TEXT;
    case 'n': return v->kind == PICKLE_NONE;
    case 't': return is_int_tuple(v, false);
    case 'z': return is_int_tuple(v, true);
    case 'l': return v->kind == PICKLE_LIST;
    case 'd': return v->kind == PICKLE_DICT || v->kind == PICKLE_NONE;
    case 'P': return v->kind == PICKLE_PERSISTENT || is_tensor(v);
    case 'T': return is_tensor(v);
    case 'g': return v->kind == PICKLE_GLOBAL;
    case 'h': return is_empty_hooks(v);
    case 'B': return v->kind == PICKLE_BYTES || is_call_of(v, "_codecs", "encode");
    case 'L': return v->kind == PICKLE_TEXT && str_is(v->text, "latin1");
    default: return true;
    }
}

/* True when the arguments are such as `spec` describes. */
static bool arguments_fit(const char *spec, const struct pickle_value *args)
{
    size_t i = 0;
    bool optional = false;
    for (const char *s = spec; *s != '\0'; s++) {
        if (*s == '|') {
            optional = true;
            continue;
        }
        if (*s == '*') {
            return true;
        }
        if (i >= args->count) {
            return optional;
        }
        if (!argument_fits(*s, args->items[i++])) {
            return false;
        }
    }
    return i == args->count;
}

static void check_arguments(struct pickle_machine *m, const struct pickle_value *callee,
                            const struct pickle_value *args)
{
    const struct row *row = find_allowed(callee->global->module, callee->global->name);
    if (row == NULL) {
        return;
    }
    if (row->arguments != NULL && args->kind == PICKLE_TUPLE &&
        arguments_fit(row->arguments, args)) {
        return;
    }
    pickle_issue(m, SEVERITY_ERROR, "pickle-odd-arguments", "A call that no writer makes",
                 "%s.%s is %s", row->module, row->name,
                 row->arguments == NULL ? "called, though it is only ever named"
                                        : "called with arguments that torch never writes");
}

/* A class of a known module is made without its constructor, or is an enum: one plain value. */
static void check_constructor(struct pickle_machine *m, const struct pickle_value *call)
{
    const struct pickle_global *g = call->call.callee->global;
    const struct row *row = find_known(g->module, g->name);
    const struct pickle_value *args = call->call.args;
    if (call->new_form || row == NULL || strcmp(row->name, "*") != 0) {
        return;
    }
    bool plain = args->kind == PICKLE_TUPLE && args->count <= 1 &&
                 (args->count == 0 || args->items[0]->kind == PICKLE_INT ||
                  args->items[0]->kind == PICKLE_TEXT);
    if (!plain) {
        pickle_issue(m, SEVERITY_ERROR, "pickle-odd-arguments", "A call that no writer makes",
                     "the constructor of %s.%s would be run with arguments",
                     issue_text(m->arena, g->module), issue_text(m->arena, g->name));
    }
}

void pickle_check_call(struct pickle_machine *m, const struct pickle_value *call)
{
    const struct pickle_value *callee = call->call.callee;
    if (callee->global->standing == PICKLE_KNOWN) {
        check_constructor(m, call);
    }
    check_arguments(m, callee, call->call.args);
    if (!pickle_is_global(callee, "torch._tensor", "_rebuild_from_type_v2")) {
        return;
    }
    /* It calls its first argument with its third. */
    const struct pickle_value *inner = pickle_arg(call, 0);
    const struct pickle_value *args = pickle_arg(call, 2);
    if (inner == NULL || inner->kind != PICKLE_GLOBAL || args == NULL) {
        return;
    }
    inner->global->called++;
    check_arguments(m, inner, args);
}

/* Attributes that change what an object does rather than what it holds. */
static bool is_method_name(struct str s)
{
    return s.n > 4 && str_starts(s, "__") && str_ends(s, "__");
}

void pickle_check_build(struct pickle_machine *m, const struct pickle_value *target,
                        const struct pickle_value *state)
{
    if (target->kind != PICKLE_CALL) {
        pickle_issue(m, SEVERITY_ERROR, "pickle-odd-build", "State set where no writer sets it",
                     "BUILD changes %s",
                     target->kind == PICKLE_GLOBAL ? "a class or function itself"
                                                   : "something that is no instance");
        return;
    }
    if (target->call.state != NULL) {
        pickle_issue(m, SEVERITY_ERROR, "pickle-odd-build", "State set where no writer sets it",
                     "BUILD sets the state of one object twice");
    }
    /* (dict, dict of slots) is the second form of a state. */
    const struct pickle_value *parts[2] = {state, NULL};
    if (state->kind == PICKLE_TUPLE && state->count == 2) {
        parts[0] = state->items[0];
        parts[1] = state->items[1];
    }
    for (size_t p = 0; p < 2; p++) {
        size_t count;
        struct pickle_value *const *pairs = pickle_pairs(parts[p], &count);
        for (size_t i = 0; i < count; i++) {
            const struct pickle_value *key = pairs[2 * i];
            if (key->kind == PICKLE_TEXT && is_method_name(key->text)) {
                pickle_issue(m, SEVERITY_ERROR, "pickle-odd-build",
                             "State set where no writer sets it", "BUILD sets the attribute %s",
                             issue_text(m->arena, key->text));
            }
        }
    }
}
