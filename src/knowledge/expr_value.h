// SPDX-License-Identifier: Apache-2.0
/* How values of different kinds compare inside conditions. */
#ifndef ASSAY_KNOWLEDGE_EXPR_VALUE_H
#define ASSAY_KNOWLEDGE_EXPR_VALUE_H

#include "base/arena.h"
#include "base/str.h"

#include "knowledge/expr.h"

/* A value on its way through an evaluation. */
struct operand {
    enum lookup_state state;
    struct value v;
    bool is_version; /* from a fact key of type version */
    bool is_capture; /* text out of a log line: may really be a number */
};

/* A number, or text that is one: "1,234", "0x1f", "2.00 GiB", "95%", "30 min". */
bool value_number(const struct value *v, double *ret_number);

enum truth value_equal(struct arena *scratch, const struct operand *a, const struct operand *b);

/* Order of two known values in *ret_order (<0, 0, >0); false when they have none. */
bool value_order(struct arena *scratch, const struct operand *a, const struct operand *b,
                 int *ret_order);

/* "a in b": item of a list, or part of a string. */
enum truth value_in(struct arena *scratch, const struct operand *a, const struct operand *b);

/* PCRE2 search; on a list: any item. */
enum truth value_matches(const struct value *v, const char *regex);

#endif
