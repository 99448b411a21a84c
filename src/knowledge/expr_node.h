// SPDX-License-Identifier: Apache-2.0
/*
 * The compiled form of a condition, shared by the compiler, the evaluator and the blob reader. A
 * flat array: children by index, so that it can be stored and loaded without fixing pointers.
 */
#ifndef ASSAY_KNOWLEDGE_EXPR_NODE_H
#define ASSAY_KNOWLEDGE_EXPR_NODE_H

#include <stdbool.h>
#include <stdint.h>

/* The values are stored in the blob: append only. */
enum expr_op {
    OP_NULL = 0,
    OP_BOOL,
    OP_INT,
    OP_REAL,
    OP_STRING,
    OP_LIST,
    OP_FACT,        /* text = key; may hold '$' and '*' */
    OP_RUN,         /* text = field */
    OP_SERIES,      /* text = series, text2 = field */
    OP_EVENT,       /* text = id */
    OP_EVENT_COUNT, /* text = id */
    OP_FIRST,       /* text = id, text2 = capture */
    OP_LAST,
    OP_MAX,
    OP_MIN,
    OP_BEFORE, /* text, text2 = ids */
    OP_KNOWN,
    OP_ABSENT,
    OP_DENIED,
    OP_NOT,
    OP_AND,
    OP_OR,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_IN,
    OP_MATCHES,
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_NEG,
    OP_ANY,
    OP_ALL,
    OP_COUNT,
    OP_COVERS,
    OP_SAME_FAMILY,
    OP_LEN,
    OP_MAJOR,
    OP_MINOR,
    OP_OP_COUNT
};

struct expr_node {
    uint32_t op;
    uint32_t first; /* first child, 0 = none */
    uint32_t next;  /* next sibling, 0 = none */

    union {
        int64_t integer;
        double real;
    };

    const char *text;
    const char *text2;
};

/* Node 0 is never used. */
struct expr {
    const struct expr_node *nodes;
    uint32_t count;
    uint32_t root;
    const char *source; /* as written */
};

enum {
    EXPR_MAX_NODES = 2000,
    EXPR_MAX_DEPTH = 64,
    EXPR_MAX_TEXT = 8192
};

#endif
