// SPDX-License-Identifier: Apache-2.0
/*
 * The way back from one stack to another: what to install, what it costs, what stands on it. A plan, never
 * carried out here. Costs come from the machine's own files: apt's lists and cache, dpkg's status; what they do
 * not hold is unknown, not free.
 */
#ifndef ASSAY_SNAPSHOT_ROLLBACK_H
#define ASSAY_SNAPSHOT_ROLLBACK_H

#include "snapshot/stack_diff.h"

enum rollback_source {
    ROLLBACK_UNKNOWN = 0, /* in no list of this machine */
    ROLLBACK_LISTED,      /* apt can download it */
    ROLLBACK_CACHED,      /* the archive lies in apt's cache */
    ROLLBACK_NONE_NEEDED  /* to be removed */
};

struct rollback_package {
    const char *name;
    const char *now;    /* NULL: not installed now */
    const char *wanted; /* NULL: to be removed */
    enum rollback_source source;
    int64_t download_bytes;      /* -1: unknown */
    struct text_list dependents; /* installed packages that depend on it, sorted */
    bool reboot;                 /* kernel, driver, firmware */
    bool usable;                 /* name and version may stand in a command */
};

struct rollback_wheel {
    const char *name;
    const char *now;    /* NULL: not installed now */
    const char *wanted; /* NULL: to be removed */
    const char *index;  /* where wheels of its local version are published, or NULL */
    bool usable;
};

/* A switch, and what a person has to do by hand. */
struct rollback_switch {
    const char *name;
    const char *now;
    const char *wanted; /* NULL: to be unset */
};

struct rollback {
    const char *target; /* file of the stack to go back to */
    const char *python; /* of the environment now; NULL without one */

    struct {
        struct rollback_package *items;
        size_t count;
        size_t capacity;
    } packages;

    struct {
        struct rollback_wheel *items;
        size_t count;
        size_t capacity;
    } wheels;

    struct {
        struct rollback_switch *items;
        size_t count;
        size_t capacity;
    } switches;

    struct text_list by_hand; /* sentences */
    int64_t download_bytes;   /* of all packages whose size is known */
    size_t unknown_sizes;
    bool reboot;
    size_t lists_read; /* of apt */
};

/* `diff` is from the stack now to the one to go back to. `everything`: also packages of the system that do not
 * belong to a GPU stack. */
void rollback_make(struct arena *a, const struct fs *fs, const struct stack *now,
                   const struct stack *wanted, const struct stack_diff *diff, bool everything,
                   struct rollback *ret_rollback);

/* The plan as a shell script to read and run by hand; texts from files are quoted. */
void rollback_script(struct arena *a, const struct rollback *r, struct strbuf *out);

/* True when there is nothing to do. */
bool rollback_is_empty(const struct rollback *r);

/* A word for sh(1), in single quotes where it needs them. */
void rollback_quote(struct strbuf *out, const char *text);

/*
 * An environment file of the user (`export NAME=value` or `NAME=value`, one a line) with the switches as
 * wanted: lines of a switch are replaced or, where it is to be unset, left out; missing ones are added at the end.
 * Everything else stays as it is. ST_UNSUPPORTED when a value cannot be written on one line.
 */
enum status rollback_env_file(struct arena *a, const struct rollback *r, struct str before,
                              struct strbuf *out, struct err *err) MUST_USE;

#endif
