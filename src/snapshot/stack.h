// SPDX-License-Identifier: Apache-2.0
/*
 * The state of a stack: what could change between a run that worked and one that does not. Taken from the facts
 * of a machine and from what only a snapshot needs (all packages, all wheels), or read back from a lock file
 * (docs/schema). Everything is on the caller's arena; items are sorted, so that equal stacks give equal bytes.
 */
#ifndef ASSAY_SNAPSHOT_STACK_H
#define ASSAY_SNAPSHOT_STACK_H

#include "base/str.h"

#include "facts/collect.h"

/* In the order in which a difference matters. */
enum stack_section {
    STACK_DRIVER = 0,
    STACK_FIRMWARE,
    STACK_KERNEL, /* release, command line, module parameters */
    STACK_RUNTIME,
    STACK_LIBRARY,
    STACK_FRAMEWORK,   /* Python, and the packages that training stands on */
    STACK_ENVIRONMENT, /* switches that are set */
    STACK_CONTAINER,
    STACK_MACHINE,
    STACK_PYTHON,  /* the other packages of the environment */
    STACK_PACKAGE, /* of the distribution */
    STACK_SECTION_COUNT
};

struct stack_item {
    enum stack_section section;
    const char *name;
    const char *version;  /* or value; NULL when it has none */
    const char *build_id; /* libraries: GNU build id */
    const char *digest;   /* wheels: SHA-256 over the hashes of their RECORD */
    const char *path;
};

/* What was there and could not be read: never the same as "not there". */
struct stack_gap {
    enum stack_section section;
    const char *name; /* NULL: the whole section */
    const char *reason;
};

struct stack {
    const char *source; /* file it was read from, or "this machine" */
    const char *python; /* sys.prefix of the environment; NULL without one */

    struct {
        struct stack_item *items; /* by section, then name */
        size_t count;
        size_t capacity;
    } items;

    struct {
        struct stack_gap *items;
        size_t count;
        size_t capacity;
    } gaps;
};

const char *stack_section_name(enum stack_section s); /* "driver" */

/* Of the machine whose facts were collected into c->facts already. */
void stack_collect(struct arena *a, const struct collect *c, struct stack *ret_stack);

/* From facts alone (a run folder's facts.json): packages and wheels are gaps. */
void stack_of_facts(struct arena *a, const struct facts *facts, struct stack *ret_stack);

/* Adds the sections that facts do not hold: all packages of the distribution, all wheels. */
void stack_add_packages(struct arena *a, const struct fs *fs, struct stack *s);
void stack_add_python(struct arena *a, const struct collect *c, struct stack *s);

/* For those who fill a stack. */
struct stack_item *stack_add(struct arena *a, struct stack *s, enum stack_section section,
                             const char *name, const char *version);
void stack_add_gap(struct arena *a, struct stack *s, enum stack_section section, const char *name,
                   const char *reason);
void stack_sort(struct stack *s);

/* Where a Python package belongs, FRAMEWORK or PYTHON: decided when a lock file is read too, so that files of two
 * versions of this program compare. */
enum stack_section stack_section_of_wheel(const char *name);

const struct stack_item *stack_find(const struct stack *s, enum stack_section section,
                                    const char *name);

/* The lock file. Reading refuses what is none (ST_FORMAT); sections to come are left out. */
void stack_write(const struct stack *s, struct strbuf *out);
enum status stack_read(struct arena *a, struct str text, const char *name, struct stack *ret_stack,
                       struct err *err) MUST_USE;

#endif
