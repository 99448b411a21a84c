// SPDX-License-Identifier: Apache-2.0
/*
 * Many nodes that should be alike: what they wrote (facts, snapshots, records of `qualify` and `doctor`, figures of
 * `probe`), held item by item, and who differs from the majority. Which items are compared, how, and why a difference
 * matters is data: knowledge/fleet.tsv. Nothing is measured between nodes here.
 *
 * Memory grows with what is compared (one cell for each node and item, texts once), not with the size of the files.
 */
#ifndef ASSAY_SNAPSHOT_FLEET_H
#define ASSAY_SNAPSHOT_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/finding.h"
#include "base/map.h"
#include "base/str.h"

enum {
    FLEET_MAX_NODES = 20000,
    FLEET_MAX_ITEMS = 20000,
    FLEET_MAX_CELLS = 40000000,
    FLEET_MAX_DIFFERENCES = 200000,
    FLEET_FILE_MAX = 64 << 20
};

/* The value of what a node looked for and has not. */
#define FLEET_ABSENT "absent"

/* What a file holds; first column of fleet.tsv. */
enum fleet_kind {
    FLEET_FACTS = 0, /* doctor --facts --json */
    FLEET_STACK,     /* snapshot; keys are "section/name" */
    FLEET_RECORD,    /* qualify --json, doctor --json; "outcome", "stage/NAME", "finding/ID" */
    FLEET_FIGURE,    /* probe --figures --json; keys are "WHAT UNIT" */
    FLEET_KIND_COUNT
};

enum fleet_compare {
    FLEET_EXACT = 0,
    FLEET_WORDS,  /* exact, without words that begin as one of `with` */
    FLEET_IS,     /* must be `with`, whatever the majority says */
    FLEET_NUMBER, /* far from the median, either way */
    FLEET_LOW,    /* far below */
    FLEET_HIGH,   /* far above */
    FLEET_COMPARE_COUNT
};

struct fleet_rule {
    enum fleet_kind kind;
    const char *key; /* '*' stands for any text, "[]" for any index */
    enum fleet_compare compare;
    const char *with;
    double relative; /* NUMBER, LOW, HIGH: share of the median that is allowed */
    double absolute; /* and the least distance that counts */
    const char *class_name;
    size_t rank; /* of the class: 0 matters first */
    enum severity severity;
    const char *why;
};

struct fleet_rules {
    struct fleet_rule *items;
    size_t count;
    size_t capacity;
    size_t class_count;
};

/* The table as text. ST_FORMAT names the line. */
enum status fleet_rules_read(struct arena *a, struct str text, const char *name,
                             struct fleet_rules *ret_rules, struct err *err) MUST_USE;

/* The first row that fits, or NULL. */
const struct fleet_rule *fleet_rule_find(const struct fleet_rules *rules, enum fleet_kind kind,
                                         const char *key);

enum fleet_cell_state {
    FLEET_KNOWN = 0,
    FLEET_UNREAD /* there, and the node could not read it */
};

struct fleet_cell {
    uint32_t node;
    enum fleet_cell_state state;
    const char *text; /* one pointer a text in a fleet; the reason when UNREAD */
    double number;    /* rules on numbers */
};

struct fleet_item {
    const char *key;
    const struct fleet_rule *rule;

    struct {
        struct fleet_cell *items; /* in the order of the nodes, at most one a node */
        size_t count;
        size_t capacity;
    } cells;
};

struct fleet_node {
    const char *name;
    const char *files[FLEET_KIND_COUNT]; /* NULL: sent no such file */
    struct text_list unread; /* "kind/prefix" of keys that the node could not read at all */
};

/* A file that could not be used. */
struct fleet_broken {
    const char *file;
    const char *node;
    const char *reason;
};

struct fleet {
    struct arena *arena;
    const struct fleet_rules *rules;
    struct map *items;  /* "kind/key" to struct fleet_item */
    struct map *texts;  /* text to itself */
    struct map *passed; /* keys that no rule names: found out once */
    size_t cell_count;

    struct {
        struct fleet_node *items;
        size_t count;
        size_t capacity;
    } nodes;

    struct {
        struct fleet_broken *items;
        size_t count;
        size_t capacity;
    } broken;
};

void fleet_init(struct arena *a, const struct fleet_rules *rules, struct fleet *ret_fleet);

/* "node07" of "run/node07.json", "node07.facts.json", "node07.lock". */
const char *fleet_node_name(struct arena *a, const char *path);

/*
 * Adds what one file says. Files of one node must come one after the other. What cannot be used goes to `broken`
 * and is no failure of the call; ST_LIMIT: a ceiling of the fleet is reached, nothing more fits. Scratch is rewound.
 */
enum status fleet_add(struct fleet *f, struct arena *scratch, const char *node, const char *file,
                      struct str text, struct err *err) MUST_USE;

/* The same for a file that could not even be read. */
void fleet_add_broken(struct fleet *f, const char *node, const char *file, const char *reason);

/* At least one file of it could be used. */
bool fleet_node_usable(const struct fleet_node *node);

/*
 * Names of nodes from a text: separated by commas or ends of lines, with ranges as Slurm writes them
 * ("gpu[001-064,70],login1"). What follows a name behind a space is left out ("node1 slots=8" of mpirun's hostfiles),
 * and so is what follows a '#'. At most FLEET_MAX_NODES.
 */
enum status fleet_hosts_read(struct arena *a, struct str text, const char *name,
                             struct text_list *ret_hosts, struct err *err) MUST_USE;

/* The same node: equal, or equal up to the first dot where one of the two has no domain. */
bool fleet_same_host(const char *a, const char *b);

/* ---- who differs ---- */

struct fleet_difference {
    const struct fleet_item *item;
    uint32_t node;
    const char *value; /* FLEET_ABSENT when the node has none */
    const char
        *usual; /* of the majority, the median, or what should be; NULL: there is no majority */
    uint32_t with_usual; /* nodes that have it */
    uint32_t compared;   /* nodes */
};

struct fleet_gap {
    const struct fleet_item *item;
    uint32_t node;
    const char *reason;
};

struct fleet_result {
    struct {
        struct fleet_difference *items; /* by class, severity, key; then by node */
        size_t count;
        size_t capacity;
    } differences;

    struct {
        struct fleet_gap *items; /* others know it, this node does not */
        size_t count;
        size_t capacity;
    } gaps;

    size_t compared_items;
    size_t unread_by_all; /* items that no node could read */
    bool cut;             /* there were more differences than are kept */
};

void fleet_compare(struct arena *a, const struct fleet *f, struct fleet_result *ret_result);

/* One finding a class of facts, most important first, then nodes that sent nothing usable, nodes that miss, what
 * could not be compared. `missing` are names, or one sentence when only a number is known. */
void fleet_findings(struct arena *a, const struct fleet *f, const struct fleet_result *r,
                    const struct text_list *missing, struct finding_list *to);

/* "node3, node7 and 12 more" of at most `show` names. */
const char *fleet_names(struct arena *a, const struct text_list *names, size_t show);

#endif
