// SPDX-License-Identifier: Apache-2.0
/*
 * Which files served the recorded calls of a run: libraries.json of the run folder, written when the
 * run ended, so that a file that was replaced since is noticed.
 *
 *   {"schema_version": 1, "libraries": [{"path": "/usr/lib/…", "build_id": "2332b9…" or null}]}
 */
#ifndef ASSAY_CLI_RUN_SERVED_H
#define ASSAY_CLI_RUN_SERVED_H

#include "base/arena.h"
#include "base/err.h"

struct run_served {
    const char *path;
    const char *build_id; /* NULL: the file has none */
};

struct run_served_list {
    struct run_served *items;
    size_t count;
    size_t capacity;
};

/* Reads the records of the folder and writes libraries.json. */
enum status run_served_write(struct arena *a, const char *folder, struct err *err) MUST_USE;

/* What libraries.json says. ST_ABSENT: the run was recorded without it, or did not end. */
enum status run_served_read(struct arena *a, const char *folder, struct run_served_list *ret_list,
                            struct err *err) MUST_USE;

/* Of the file as it is now; *ret_id is NULL when it has none. */
enum status run_build_id(struct arena *a, const char *path, const char **ret_id,
                         struct err *err) MUST_USE;

#endif
