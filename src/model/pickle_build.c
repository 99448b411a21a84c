// SPDX-License-Identifier: Apache-2.0
/* Pickle opcodes that build containers and that move values: stack, marks, memo. */
#include <inttypes.h>

#include "model/pickle_machine.h"

enum {
    MAX_FAR = 1000,
    MAX_GAP = 65536, /* unused memo entries in a row */
    ARG_LIST = PICKLE_LIST,
    ARG_TUPLE = PICKLE_TUPLE,
    ARG_DICT = PICKLE_DICT,
    ARG_SET = PICKLE_SET
};

static enum status op_empty(struct pickle_machine *m, unsigned arg, struct err *err)
{
    struct pickle_value *v;
    TRY(pickle_new(m, (enum pickle_kind)arg, &v, err));
    return pickle_push(m, v, err);
}

static enum status op_mark(struct pickle_machine *m, unsigned arg, struct err *err)
{
    (void)arg;
    if (m->marks.count >= m->limits.stack) {
        return err_set(err, ST_LIMIT, "more than %" PRIu64 " marks", m->limits.stack);
    }
    *VEC_PUSH(m->arena, &m->marks) = m->stack.count;
    return ST_OK;
}

/* TUPLE, LIST, DICT, FROZENSET: a container of all above the mark. */
static enum status op_from_mark(struct pickle_machine *m, unsigned arg, struct err *err)
{
    struct pickle_value **items;
    size_t count;
    struct pickle_value *v;
    TRY(pickle_pop_mark(m, &items, &count, err));
    if (arg == ARG_DICT && count % 2 != 0) {
        return err_set(err, ST_FORMAT, "a key without a value");
    }
    TRY(pickle_new(m, (enum pickle_kind)arg, &v, err));
    for (size_t i = 0; i < count; i++) {
        pickle_add_item(m, v, items[i]);
    }
    return pickle_push(m, v, err);
}

/* TUPLE1, TUPLE2, TUPLE3 */
static enum status op_tuple(struct pickle_machine *m, unsigned arg, struct err *err)
{
    struct pickle_value *items[3];
    for (unsigned i = arg; i-- > 0;) {
        TRY(pickle_pop(m, &items[i], err));
    }
    struct pickle_value *v;
    TRY(pickle_new(m, PICKLE_TUPLE, &v, err));
    for (unsigned i = 0; i < arg; i++) {
        pickle_add_item(m, v, items[i]);
    }
    return pickle_push(m, v, err);
}

/* The items go into `to`, pairs when `pairs`; anything but a container of that kind is reported. */
static enum status add_all(struct pickle_machine *m, enum pickle_kind kind, struct pickle_value *to,
                           struct pickle_value *const *items, size_t count, struct err *err)
{
    bool pairs = kind == PICKLE_DICT;
    if (pairs && count % 2 != 0) {
        return err_set(err, ST_FORMAT, "a key without a value");
    }
    if (to->kind == PICKLE_CALL && (to->count == 0 || to->pairs == pairs)) {
        to->pairs = pairs;
    } else if (to->kind != kind) {
        pickle_issue(m, SEVERITY_ERROR, "pickle-odd-target", "Items put where no writer puts them",
                     "items are added to something that is no %s",
                     pairs                ? "dict"
                     : kind == PICKLE_SET ? "set"
                                          : "list");
        return ST_OK;
    }
    for (size_t i = 0; i < count; i++) {
        pickle_add_item(m, to, items[i]);
    }
    return ST_OK;
}

/* APPENDS, SETITEMS, ADDITEMS */
static enum status op_add_marked(struct pickle_machine *m, unsigned arg, struct err *err)
{
    struct pickle_value **items;
    size_t count;
    struct pickle_value *to;
    TRY(pickle_pop_mark(m, &items, &count, err));
    TRY(pickle_top(m, &to, err));
    return add_all(m, (enum pickle_kind)arg, to, items, count, err);
}

/* APPEND, SETITEM */
static enum status op_add_one(struct pickle_machine *m, unsigned arg, struct err *err)
{
    struct pickle_value *items[2];
    unsigned count = arg == ARG_DICT ? 2 : 1;
    for (unsigned i = count; i-- > 0;) {
        TRY(pickle_pop(m, &items[i], err));
    }
    struct pickle_value *to;
    TRY(pickle_top(m, &to, err));
    return add_all(m, (enum pickle_kind)arg, to, items, count, err);
}

static bool runs_code(const struct pickle_value *v)
{
    return v->kind == PICKLE_CALL;
}

static enum status op_pop(struct pickle_machine *m, unsigned arg, struct err *err)
{
    (void)arg;
    size_t floor = m->marks.count > 0 ? m->marks.items[m->marks.count - 1] : 0;
    if (m->stack.count == floor && m->marks.count > 0) {
        m->marks.count--; /* Python's POP removes a mark when nothing is above it */
        return ST_OK;
    }
    struct pickle_value *v;
    TRY(pickle_pop(m, &v, err));
    if (runs_code(v)) {
        pickle_issue(m, SEVERITY_ERROR, "pickle-values-dropped", "Values nobody gets",
                     "the result of a call is thrown away: it was made for what it does");
    }
    return ST_OK;
}

static enum status op_pop_mark(struct pickle_machine *m, unsigned arg, struct err *err)
{
    (void)arg;
    struct pickle_value **items;
    size_t count;
    TRY(pickle_pop_mark(m, &items, &count, err));
    for (size_t i = 0; i < count; i++) {
        if (runs_code(items[i])) {
            pickle_issue(m, SEVERITY_ERROR, "pickle-values-dropped", "Values nobody gets",
                         "the result of a call is thrown away: it was made for what it does");
            break;
        }
    }
    return ST_OK;
}

static enum status op_dup(struct pickle_machine *m, unsigned arg, struct err *err)
{
    (void)arg;
    struct pickle_value *v;
    TRY(pickle_top(m, &v, err));
    return pickle_push(m, v, err);
}

/* Where entry `index` is kept, or NULL when it was never stored. */
static struct pickle_value **memo_slot(struct pickle_machine *m, uint64_t index)
{
    if (index < m->memo.count && m->memo.items[index] != NULL) {
        return &m->memo.items[index];
    }
    for (size_t i = 0; i < m->far.count; i++) {
        if (m->far.items[i].index == index) {
            return &m->far.items[i].value;
        }
    }
    return NULL;
}

static enum status memo_put(struct pickle_machine *m, uint64_t index, struct err *err)
{
    struct pickle_value *v;
    TRY(pickle_top(m, &v, err));
    struct pickle_value **slot = memo_slot(m, index);
    if (slot != NULL) {
        *slot = v;
        return ST_OK;
    }
    m->memo_count++;
    if (index < m->limits.memo && index < m->memo.count + MAX_GAP) {
        while (m->memo.count <= index) {
            *VEC_PUSH(m->arena, &m->memo) = NULL;
        }
        m->memo.items[index] = v;
        return ST_OK;
    }
    if (m->far.count >= MAX_FAR) {
        return err_set(err, ST_LIMIT, "more than %d memo entries far apart", MAX_FAR);
    }
    *VEC_PUSH(m->arena, &m->far) = (struct pickle_far_memo){.index = index, .value = v};
    return ST_OK;
}

static enum status memo_get(struct pickle_machine *m, uint64_t index, struct err *err)
{
    struct pickle_value **slot = memo_slot(m, index);
    if (slot == NULL) {
        return err_set(err, ST_FORMAT, "memo entry %" PRIu64 " was never stored", index);
    }
    return pickle_push(m, *slot, err);
}

/* PUT, BINPUT, LONG_BINPUT: arg is the size, 0 for a line of text. */
static enum status op_memo(struct pickle_machine *m, unsigned arg, bool put, struct err *err)
{
    uint64_t index;
    if (arg > 0) {
        TRY(pickle_number(m, arg, &index, err));
    } else {
        struct str line;
        TRY(pickle_line(m, &line, err));
        if (str_to_u64(line, 10, &index) != ST_OK) {
            return err_set(err, ST_FORMAT, "\"%s\" is no memo index", issue_text(m->arena, line));
        }
    }
    return put ? memo_put(m, index, err) : memo_get(m, index, err);
}

static enum status op_put(struct pickle_machine *m, unsigned arg, struct err *err)
{
    return op_memo(m, arg, true, err);
}

static enum status op_get(struct pickle_machine *m, unsigned arg, struct err *err)
{
    return op_memo(m, arg, false, err);
}

/* MEMOIZE stores under the number of entries so far, as CPython counts them. */
static enum status op_memoize(struct pickle_machine *m, unsigned arg, struct err *err)
{
    (void)arg;
    return memo_put(m, m->memo_count, err);
}

const struct pickle_op *pickle_build_op(unsigned char code)
{
    static const struct pickle_op ops[256] = {
        ['('] = {"MARK", op_mark, 0},
        ['0'] = {"POP", op_pop, 0},
        ['1'] = {"POP_MARK", op_pop_mark, 0},
        ['2'] = {"DUP", op_dup, 0},
        [']'] = {"EMPTY_LIST", op_empty, ARG_LIST},
        [')'] = {"EMPTY_TUPLE", op_empty, ARG_TUPLE},
        ['}'] = {"EMPTY_DICT", op_empty, ARG_DICT},
        [0x8f] = {"EMPTY_SET", op_empty, ARG_SET},
        ['l'] = {"LIST", op_from_mark, ARG_LIST},
        ['t'] = {"TUPLE", op_from_mark, ARG_TUPLE},
        ['d'] = {"DICT", op_from_mark, ARG_DICT},
        [0x91] = {"FROZENSET", op_from_mark, ARG_SET},
        [0x85] = {"TUPLE1", op_tuple, 1},
        [0x86] = {"TUPLE2", op_tuple, 2},
        [0x87] = {"TUPLE3", op_tuple, 3},
        ['a'] = {"APPEND", op_add_one, ARG_LIST},
        ['s'] = {"SETITEM", op_add_one, ARG_DICT},
        ['e'] = {"APPENDS", op_add_marked, ARG_LIST},
        ['u'] = {"SETITEMS", op_add_marked, ARG_DICT},
        [0x90] = {"ADDITEMS", op_add_marked, ARG_SET},
        ['p'] = {"PUT", op_put, 0},
        ['q'] = {"BINPUT", op_put, 1},
        ['r'] = {"LONG_BINPUT", op_put, 4},
        ['g'] = {"GET", op_get, 0},
        ['h'] = {"BINGET", op_get, 1},
        ['j'] = {"LONG_BINGET", op_get, 4},
        [0x94] = {"MEMOIZE", op_memoize, 0},
    };
    return ops[code].name != NULL ? &ops[code] : NULL;
}
