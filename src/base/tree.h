// SPDX-License-Identifier: Apache-2.0
/*
 * A document: what YAML and JSON files become. Scalars carry a struct value; maps and lists have
 * children in file order. Nodes keep their line so that messages can point at it.
 */
#ifndef ASSAY_BASE_TREE_H
#define ASSAY_BASE_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/value.h"

enum tree_kind {
    TREE_SCALAR = 0,
    TREE_MAP,
    TREE_LIST
};

struct tree {
    enum tree_kind kind;
    int line;           /* 1-based; 0 when the source has no lines */
    bool quoted;        /* a YAML scalar written in quotes or as a block: always a string */
    const char *key;    /* in a map: the key; else NULL */
    struct value value; /* scalars */
    const char *text;   /* scalars: as written */
    struct tree *child; /* first child of a map or list */
    struct tree *next;  /* next sibling */
    size_t count;       /* number of children */
};

/* Ceilings for hostile documents. */
struct tree_limits {
    size_t bytes;
    size_t nodes;
    size_t depth;
};

#define TREE_LIMITS_DEFAULT \
 ((struct tree_limits){.bytes = 64u << 20, .nodes = 2000000, .depth = 64})

/* YAML 1.1 core as libyaml reads it, one document; aliases and anchors are refused, as are
 * duplicate keys. `name` is used in messages. Plain scalars become null, bool (true/false only),
 * int, real or string. */
enum status tree_from_yaml(struct arena *a, struct str text, const char *name,
                           struct tree_limits limits, const struct tree **ret_tree,
                           struct err *err) MUST_USE;

/* JSON; duplicate keys are refused, integers are exact in 64 bits; in a document with larger ones all
 * beyond 2^53 are reals. */
enum status tree_from_json(struct arena *a, struct str text, const char *name,
                           struct tree_limits limits, const struct tree **ret_tree,
                           struct err *err) MUST_USE;

/* Child of a map by key, or NULL (also when t is NULL or not a map). */
const struct tree *tree_get(const struct tree *t, const char *key);

/* String of a scalar child as written, or `fallback`. */
const char *tree_text(const struct tree *t, const char *key, const char *fallback);

/* The value of a scalar, or of a list of scalars; VALUE_NULL for anything else. */
struct value tree_value(struct arena *a, const struct tree *t);

#endif
