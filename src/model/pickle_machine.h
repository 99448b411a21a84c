// SPDX-License-Identifier: Apache-2.0
/*
 * The stack machine behind pickle_read(). Private to pickle*.c: the opcodes that make constants live
 * in pickle_constant.c, those that build, name and call in pickle_build.c, the loop in pickle.c.
 */
#ifndef ASSAY_MODEL_PICKLE_MACHINE_H
#define ASSAY_MODEL_PICKLE_MACHINE_H

#include "base/bytes.h"
#include "base/map.h"
#include "base/vec.h"

#include "model/pickle.h"

struct pickle_machine {
    struct arena *arena;
    struct str bytes;
    uint64_t at;     /* of the next byte */
    uint64_t opcode; /* offset of the opcode being run */
    const char *what;
    struct pickle_limits limits;
    struct issues *issues;
    struct pickle *pickle;
    uint64_t values;
    VEC_OF(struct pickle_value *) stack;
    VEC_OF(size_t) marks; /* stack heights */
    VEC_OF(struct pickle_value *) memo;
    VEC_OF(struct pickle_far_memo) far; /* indexes beyond the array */
    uint64_t memo_count;
    struct map *globals; /* "module\nname" to struct pickle_global */
    uint64_t frame_end;
    bool framed;
    bool stopped;
    struct pickle_value none, yes, no;
};

struct pickle_far_memo {
    uint64_t index;
    struct pickle_value *value;
};

struct pickle_op {
    const char *name; /* NULL: no such opcode */
    enum status (*run)(struct pickle_machine *m, unsigned arg, struct err *err);
    unsigned arg;
};

/* Row of an opcode, or NULL when that module does not have it. */
const struct pickle_op *pickle_constant_op(unsigned char code);
const struct pickle_op *pickle_build_op(unsigned char code);
const struct pickle_op *pickle_call_op(unsigned char code);

/* A new value, not on the stack yet. */
enum status pickle_new(struct pickle_machine *m, enum pickle_kind kind, struct pickle_value **ret,
                       struct err *err) MUST_USE;
enum status pickle_push(struct pickle_machine *m, struct pickle_value *v, struct err *err) MUST_USE;
enum status pickle_pop(struct pickle_machine *m, struct pickle_value **ret,
                       struct err *err) MUST_USE;
/* Top of the stack, above the last mark. */
enum status pickle_top(struct pickle_machine *m, struct pickle_value **ret,
                       struct err *err) MUST_USE;
/* Everything above the last mark, which is removed; the view is valid until the next push. */
enum status pickle_pop_mark(struct pickle_machine *m, struct pickle_value ***ret_items,
                            size_t *ret_count, struct err *err) MUST_USE;

/* The next `n` bytes; ST_FORMAT when they are not there. */
enum status pickle_take(struct pickle_machine *m, uint64_t n, struct str *ret,
                        struct err *err) MUST_USE;
/* A line without its "\n". */
enum status pickle_line(struct pickle_machine *m, struct str *ret, struct err *err) MUST_USE;
/* Little-endian number of `size` bytes. */
enum status pickle_number(struct pickle_machine *m, unsigned size, uint64_t *ret,
                          struct err *err) MUST_USE;

/* Adds items to a list, tuple, set, dict or call. */
void pickle_add_item(struct pickle_machine *m, struct pickle_value *to, struct pickle_value *item);

/* An issue at the current opcode. */
void pickle_issue(struct pickle_machine *m, enum severity severity, const char *id,
                  const char *title, const char *fmt, ...) PRINTF_LIKE(5, 6);

/* Names a global: counts it, judges it, and makes its value. */
enum status pickle_name(struct pickle_machine *m, struct str module, struct str name,
                        struct pickle_value **ret, struct err *err) MUST_USE;

/* Checks what an allowed callable is given; adds an issue when training code never writes it. */
void pickle_check_call(struct pickle_machine *m, const struct pickle_value *call);
/* The same for BUILD. */
void pickle_check_build(struct pickle_machine *m, const struct pickle_value *target,
                        const struct pickle_value *state);

#endif
