// SPDX-License-Identifier: Apache-2.0
/*
 * Pickle opcodes that name a global, call it, or set its state. Nothing is called here: the value
 * says what would have been.
 */
#include <inttypes.h>

#include "model/pickle_machine.h"

static enum status op_global(struct pickle_machine *m, unsigned arg, struct err *err)
{
    (void)arg;
    struct str module;
    struct str name;
    struct pickle_value *v;
    TRY(pickle_line(m, &module, err));
    TRY(pickle_line(m, &name, err));
    TRY(pickle_name(m, module, name, &v, err));
    return pickle_push(m, v, err);
}

static void issue_computed(struct pickle_machine *m, const char *what)
{
    m->pickle->outside++;
    pickle_issue(m, SEVERITY_ERROR, "pickle-computed-name",
                 "A name that is only known when it runs", "%s", what);
}

static enum status op_stack_global(struct pickle_machine *m, unsigned arg, struct err *err)
{
    (void)arg;
    struct pickle_value *name;
    struct pickle_value *module;
    struct pickle_value *v;
    TRY(pickle_pop(m, &name, err));
    TRY(pickle_pop(m, &module, err));
    if (name->kind == PICKLE_TEXT && module->kind == PICKLE_TEXT) {
        TRY(pickle_name(m, module->text, name->text, &v, err));
    } else {
        issue_computed(m, "STACK_GLOBAL imports something whose name is no constant text");
        TRY(pickle_name(m, STR("?"), STR("?"), &v, err));
    }
    return pickle_push(m, v, err);
}

/* A call of `callee`, checked; the class of NEWOBJ and INST counts as called. */
static enum status push_call(struct pickle_machine *m, struct pickle_value *callee,
                             struct pickle_value *args, bool new_form, struct err *err)
{
    struct pickle_value *v;
    TRY(pickle_new(m, PICKLE_CALL, &v, err));
    v->new_form = new_form;
    v->call.callee = callee;
    v->call.args = args;
    if (callee->kind == PICKLE_GLOBAL) {
        callee->global->called++;
        pickle_check_call(m, v);
    } else {
        issue_computed(m, "it calls something that is no named function, such as the result of "
                          "another call");
    }
    return pickle_push(m, v, err);
}

/* REDUCE (0), NEWOBJ (1), NEWOBJ_EX (2: keyword arguments on top) */
static enum status op_reduce(struct pickle_machine *m, unsigned arg, struct err *err)
{
    struct pickle_value *args;
    struct pickle_value *callee;
    if (arg == 2) {
        struct pickle_value *keywords;
        TRY(pickle_pop(m, &keywords, err));
        if (keywords->kind != PICKLE_DICT) {
            return err_set(err, ST_FORMAT, "keyword arguments that are no dict");
        }
    }
    TRY(pickle_pop(m, &args, err));
    TRY(pickle_pop(m, &callee, err));
    if (args->kind != PICKLE_TUPLE) {
        issue_computed(m, "a call whose arguments are no plain tuple");
    }
    return push_call(m, callee, args, arg > 0, err);
}

static enum status call_of_items(struct pickle_machine *m, struct pickle_value *callee,
                                 struct pickle_value *const *items, size_t count, struct err *err)
{
    struct pickle_value *args;
    TRY(pickle_new(m, PICKLE_TUPLE, &args, err));
    for (size_t i = 0; i < count; i++) {
        pickle_add_item(m, args, items[i]);
    }
    /* Without arguments only the instance is made, the constructor is not run. */
    return push_call(m, callee, args, count == 0, err);
}

/* INST: the class is in the opcode, its arguments above the mark. */
static enum status op_inst(struct pickle_machine *m, unsigned arg, struct err *err)
{
    (void)arg;
    struct str module;
    struct str name;
    struct pickle_value *callee;
    struct pickle_value **items;
    size_t count;
    TRY(pickle_line(m, &module, err));
    TRY(pickle_line(m, &name, err));
    TRY(pickle_name(m, module, name, &callee, err));
    TRY(pickle_pop_mark(m, &items, &count, err));
    return call_of_items(m, callee, items, count, err);
}

/* OBJ: class and arguments above the mark. */
static enum status op_obj(struct pickle_machine *m, unsigned arg, struct err *err)
{
    (void)arg;
    struct pickle_value **items;
    size_t count;
    TRY(pickle_pop_mark(m, &items, &count, err));
    if (count == 0) {
        return err_set(err, ST_FORMAT, "an instance without a class");
    }
    return call_of_items(m, items[0], items + 1, count - 1, err);
}

static enum status op_build(struct pickle_machine *m, unsigned arg, struct err *err)
{
    (void)arg;
    struct pickle_value *state;
    struct pickle_value *target;
    TRY(pickle_pop(m, &state, err));
    TRY(pickle_top(m, &target, err));
    pickle_check_build(m, target, state);
    if (target->kind == PICKLE_CALL) {
        target->call.state = state;
    }
    return ST_OK;
}

/* EXT1, EXT2, EXT4: a number that a registry of the reading process turns into a global. */
static enum status op_extension(struct pickle_machine *m, unsigned arg, struct err *err)
{
    uint64_t code;
    struct pickle_value *v;
    TRY(pickle_number(m, arg, &code, err));
    m->pickle->outside++;
    pickle_issue(m, SEVERITY_ERROR, "pickle-extension", "A name from the reader's registry",
                 "extension code %" PRIu64
                 ": what it imports depends on the process that reads the file",
                 code);
    TRY(pickle_new(m, PICKLE_EXTENSION, &v, err));
    v->integer = (int64_t)code;
    return pickle_push(m, v, err);
}

/* PERSID (text) and BINPERSID (value on the stack): torch's storages. */
static enum status op_persistent(struct pickle_machine *m, unsigned arg, struct err *err)
{
    struct pickle_value *id;
    struct pickle_value *v;
    if (arg == 0) {
        struct str line;
        TRY(pickle_line(m, &line, err));
        TRY(pickle_new(m, PICKLE_TEXT, &id, err));
        id->text = line;
    } else {
        TRY(pickle_pop(m, &id, err));
    }
    struct pickle_value *first = pickle_arg(id, 0);
    if (first == NULL || first->kind != PICKLE_TEXT ||
        !(str_is(first->text, "storage") || str_is(first->text, "module"))) {
        pickle_issue(m, SEVERITY_ERROR, "pickle-persistent-id",
                     "An outside object that is no storage",
                     "torch's persistent identifiers name storages; this one does not");
    }
    TRY(pickle_new(m, PICKLE_PERSISTENT, &v, err));
    v->call.args = id;
    *VEC_PUSH(m->arena, &m->pickle->persistent) = v;
    return pickle_push(m, v, err);
}

const struct pickle_op *pickle_call_op(unsigned char code)
{
    static const struct pickle_op ops[256] = {
        ['c'] = {"GLOBAL", op_global, 0},
        [0x93] = {"STACK_GLOBAL", op_stack_global, 0},
        ['R'] = {"REDUCE", op_reduce, 0},
        [0x81] = {"NEWOBJ", op_reduce, 1},
        [0x92] = {"NEWOBJ_EX", op_reduce, 2},
        ['i'] = {"INST", op_inst, 0},
        ['o'] = {"OBJ", op_obj, 0},
        ['b'] = {"BUILD", op_build, 0},
        [0x82] = {"EXT1", op_extension, 1},
        [0x83] = {"EXT2", op_extension, 2},
        [0x84] = {"EXT4", op_extension, 4},
        ['P'] = {"PERSID", op_persistent, 0},
        ['Q'] = {"BINPERSID", op_persistent, 1},
    };
    return ops[code].name != NULL ? &ops[code] : NULL;
}
