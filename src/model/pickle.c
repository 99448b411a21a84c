// SPDX-License-Identifier: Apache-2.0
/* The loop over opcodes, the stack and its marks, and the note about what was read. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "model/pickle_machine.h"

enum {
    OP_STOP = '.',
    OP_FRAME = 0x95,
    OP_PROTO = 0x80,
    MAX_PROTOCOL = 5,
    MAX_CLAIM = 500
};

void pickle_issue(struct pickle_machine *m, enum severity severity, const char *id,
                  const char *title, const char *fmt, ...)
{
    struct strbuf text;
    strbuf_init(&text, m->arena, MAX_CLAIM);
    va_list ap;
    va_start(ap, fmt);
    strbuf_vfmt(&text, fmt, ap);
    va_end(ap);
    issue_add(m->issues, severity, id, title, "%s, byte %" PRIu64 ": %s.", m->what, m->opcode,
              strbuf_str(&text).p);
}

enum status pickle_new(struct pickle_machine *m, enum pickle_kind kind, struct pickle_value **ret,
                       struct err *err)
{
    if (++m->values > m->limits.values) {
        return err_set(err, ST_LIMIT, "more than %" PRIu64 " values", m->limits.values);
    }
    *ret = arena_alloc(m->arena, sizeof **ret);
    (*ret)->kind = kind;
    return ST_OK;
}

enum status pickle_push(struct pickle_machine *m, struct pickle_value *v, struct err *err)
{
    if (m->stack.count >= m->limits.stack) {
        return err_set(err, ST_LIMIT, "more than %" PRIu64 " values on the stack", m->limits.stack);
    }
    *VEC_PUSH(m->arena, &m->stack) = v;
    return ST_OK;
}

enum status pickle_top(struct pickle_machine *m, struct pickle_value **ret, struct err *err)
{
    size_t floor = m->marks.count > 0 ? m->marks.items[m->marks.count - 1] : 0;
    if (m->stack.count <= floor) {
        return err_set(err, ST_FORMAT, "it takes a value from an empty stack");
    }
    *ret = m->stack.items[m->stack.count - 1];
    return ST_OK;
}

enum status pickle_pop(struct pickle_machine *m, struct pickle_value **ret, struct err *err)
{
    TRY(pickle_top(m, ret, err));
    m->stack.count--;
    return ST_OK;
}

enum status pickle_pop_mark(struct pickle_machine *m, struct pickle_value ***ret_items,
                            size_t *ret_count, struct err *err)
{
    if (m->marks.count == 0) {
        return err_set(err, ST_FORMAT, "it goes back to a mark that was not set");
    }
    size_t at = m->marks.items[--m->marks.count];
    *ret_items = m->stack.items + at;
    *ret_count = m->stack.count - at;
    m->stack.count = at;
    return ST_OK;
}

enum status pickle_take(struct pickle_machine *m, uint64_t n, struct str *ret, struct err *err)
{
    if (!bytes_view(m->bytes, m->at, n, ret)) {
        return err_set(err, ST_FORMAT, "%" PRIu64 " bytes are wanted, %" PRIu64 " are left", n,
                       m->bytes.n - m->at);
    }
    m->at += n;
    return ST_OK;
}

enum status pickle_line(struct pickle_machine *m, struct str *ret, struct err *err)
{
    const char *from = m->bytes.p + m->at;
    const char *end = memchr(from, '\n', m->bytes.n - (size_t)m->at);
    if (end == NULL) {
        return err_set(err, ST_FORMAT, "a line without its end");
    }
    *ret = (struct str){.p = from, .n = (size_t)(end - from)};
    m->at += ret->n + 1;
    return ST_OK;
}

enum status pickle_number(struct pickle_machine *m, unsigned size, uint64_t *ret, struct err *err)
{
    struct str body;
    TRY(pickle_take(m, size, &body, err));
    uint64_t value = 0;
    for (unsigned i = size; i-- > 0;) {
        value = value << 8 | (unsigned char)body.p[i];
    }
    *ret = value;
    return ST_OK;
}

void pickle_add_item(struct pickle_machine *m, struct pickle_value *to, struct pickle_value *item)
{
    struct pickle_value ***items = to->kind == PICKLE_CALL ? &to->call.items : &to->items;
    if (to->count == to->capacity) {
        uint32_t more = to->capacity == 0 ? 4 : to->capacity * 2;
        *items = arena_grow(m->arena, *items, to->capacity * sizeof **items, more * sizeof **items);
        to->capacity = more;
    }
    (*items)[to->count++] = item;
}

static enum status run_proto(struct pickle_machine *m, struct err *err)
{
    uint64_t protocol;
    bool first = m->opcode == 0;
    TRY(pickle_number(m, 1, &protocol, err));
    if (protocol > MAX_PROTOCOL) {
        return err_set(err, ST_FORMAT, "protocol %" PRIu64 " does not exist", protocol);
    }
    if (!first) {
        pickle_issue(m, SEVERITY_ERROR, "pickle-odd-opcode", "A pickle no writer makes",
                     "the protocol is named again in the middle");
    }
    m->pickle->protocol = (int)protocol;
    return ST_OK;
}

static enum status run_frame(struct pickle_machine *m, struct err *err)
{
    uint64_t size;
    TRY(pickle_number(m, 8, &size, err));
    bool inside = m->framed && m->opcode < m->frame_end;
    if (size > m->bytes.n - m->at || inside) {
        pickle_issue(m, SEVERITY_ERROR, "pickle-frame", "A frame that lies about its size",
                     "a frame of %" PRIu64 " bytes %s", size,
                     inside ? "begins inside of another" : "reaches beyond the end of the pickle");
    }
    m->framed = true;
    m->frame_end = size > UINT64_MAX - m->at ? UINT64_MAX : m->at + size;
    return ST_OK;
}

static enum status run_stop(struct pickle_machine *m, struct err *err)
{
    TRY(pickle_pop(m, &m->pickle->root, err));
    m->stopped = true;
    if (m->stack.count > 0 || m->marks.count > 0) {
        pickle_issue(m, SEVERITY_ERROR, "pickle-values-dropped", "Values nobody gets",
                     "%zu values are left on the stack at the end: they were built for what "
                     "building them does",
                     m->stack.count);
    }
    if (m->framed && m->at != m->frame_end && m->opcode < m->frame_end) {
        pickle_issue(m, SEVERITY_ERROR, "pickle-frame", "A frame that lies about its size",
                     "it stops before its frame ends at %" PRIu64, m->frame_end);
    }
    return ST_OK;
}

static enum status run_one(struct pickle_machine *m, struct err *err)
{
    unsigned char code = (unsigned char)m->bytes.p[m->at++];
    m->pickle->opcodes++;
    switch (code) {
    case OP_STOP: return run_stop(m, err);
    case OP_PROTO: return run_proto(m, err);
    case OP_FRAME: return run_frame(m, err);
    default: break;
    }
    const struct pickle_op *op = pickle_constant_op(code);
    op = op != NULL ? op : pickle_build_op(code);
    op = op != NULL ? op : pickle_call_op(code);
    if (op == NULL) {
        return err_set(err, ST_FORMAT, "there is no opcode 0x%02x", code);
    }
    enum status st = op->run(m, op->arg, err);
    if (st != ST_OK && err != NULL) {
        (void)err_context(err, "%s", op->name);
    }
    return st;
}

enum status pickle_read(struct arena *a, struct str bytes, const char *what,
                        struct pickle_limits limits, struct issues *issues,
                        struct pickle *ret_pickle, struct err *err)
{
    struct pickle p = {0};
    struct err why = {.status = ST_OK};
    struct pickle_machine m = {.arena = a,
                               .bytes = bytes,
                               .what = what,
                               .limits = limits,
                               .issues = issues,
                               .pickle = &p,
                               .globals = map_new(a),
                               .none = {.kind = PICKLE_NONE},
                               .yes = {.kind = PICKLE_BOOL, .integer = 1},
                               .no = {.kind = PICKLE_BOOL}};
    /* The constants outlive the machine: values point at them. */
    struct pickle_machine *kept = arena_alloc(a, sizeof *kept);
    *kept = m;
    enum status st = ST_OK;
    while (st == ST_OK && !kept->stopped) {
        kept->opcode = kept->at;
        if (kept->at >= bytes.n) {
            st = err_set(&why, ST_FORMAT, "it ends without STOP: it is cut off");
            break;
        }
        st = run_one(kept, &why);
        if (st == ST_OK && kept->framed && kept->opcode < kept->frame_end &&
            kept->at > kept->frame_end) {
            pickle_issue(kept, SEVERITY_ERROR, "pickle-frame", "A frame that lies about its size",
                         "an opcode crosses the end of its frame");
            kept->framed = false;
        }
    }
    p.complete = kept->stopped;
    p.used = st == ST_OK ? kept->at : kept->opcode;
    p.bytes_not_understood = st == ST_OK ? 0 : bytes.n - kept->opcode;
    *ret_pickle = p;
    if (st != ST_OK) {
        return err_set(err, st, "%s, byte %" PRIu64 ": %s", what, kept->opcode, why.text);
    }
    return ST_OK;
}

void pickle_summary(const struct pickle *p, const char *what, struct issues *issues)
{
    if (issues == NULL) {
        return;
    }
    struct strbuf names;
    strbuf_init(&names, issues->arena, MAX_CLAIM);
    for (size_t i = 0; i < p->globals.count; i++) {
        const struct pickle_global *g = p->globals.items[i];
        if (g->standing == PICKLE_KNOWN) {
            strbuf_fmt(&names, "%s%s.%s", names.n > 0 ? ", " : "",
                       issue_text(issues->arena, g->module), issue_text(issues->arena, g->name));
        }
    }
    const char *outside = p->outside == 0 ? "No global outside the list"
                                          : arena_fmt(issues->arena, "%zu globals outside the list",
                                                      p->outside);
    issue_join(issues, SEVERITY_NOTE, "pickle-read-as-data", "Pickle read as data, not executed",
               arena_fmt(issues->arena, "%s: %" PRIu64 " opcodes, %zu globals", what, p->opcodes,
                         p->globals.count),
               "%s; %" PRIu64 " bytes not understood%s%s. This is what was found, not a statement "
               "that loading the file is harmless.",
               outside, p->bytes_not_understood,
               names.n > 0 ? "; known and taken as they are: " : "", strbuf_str(&names).p);
}

bool pickle_looks_like(struct str b)
{
    if (b.n < 2) {
        return false;
    }
    if ((unsigned char)b.p[0] == OP_PROTO && (unsigned char)b.p[1] <= MAX_PROTOCOL) {
        return true;
    }
    unsigned char code = (unsigned char)b.p[0];
    bool opcode = pickle_constant_op(code) != NULL || pickle_build_op(code) != NULL ||
                  pickle_call_op(code) != NULL;
    if (!opcode) {
        return false;
    }
    /* Protocol 0 and 1 have no mark of their own: only a run that comes to STOP tells. */
    struct arena *scratch = arena_new((size_t)64 << 20);
    struct pickle p;
    struct pickle_limits few = {.values = 100000, .memo = 10000, .stack = 10000};
    enum status st = pickle_read(scratch, b, "", few, NULL, &p, NULL);
    bool yes = st == ST_OK || p.globals.count > 0 || p.opcodes > 16;
    arena_free(scratch);
    return yes;
}
