// SPDX-License-Identifier: Apache-2.0
/*
 * The plan of a controlled experiment, from YAML (docs/matrix.md): one command on several routes, or a
 * search along an ordered list. A route here is complete in itself: the base is the plan with its own keys
 * laid over, every other route is the base with its own keys laid over.
 */
#ifndef ASSAY_STUDY_PLAN_H
#define ASSAY_STUDY_PLAN_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/finding.h"
#include "base/str.h"

enum {
    PLAN_ROUTES_MAX = 256,
    PLAN_REPEATS_MAX = 1000,
    PLAN_NAME_MAX = 64
};

struct plan_route {
    const char *name;  /* fit for a folder name */
    const char *about; /* what it changes; NULL */
    struct text_list command;
    const char *directory;        /* "." by default */
    struct text_list environment; /* "NAME=VALUE", or "NAME": removed */
    struct text_list expect;      /* "no:hipblaslt": proof that the change is in effect */
    bool guard, serialize;        /* of assay run */
    const char *passes,
        *fails; /* what it rules out when it ends well, or fails like the base; NULL */
    const char *factor, *level; /* of a route made from `factors`; NULL */
};

struct plan_routes {
    struct plan_route *items;
    size_t count;
    size_t capacity;
};

struct plan {
    const char *name;
    const char *about; /* NULL */
    const char *path;
    struct str text;
    int64_t repeats;
    double time_limit_s; /* of a trial; 0: none */
    double hang_s;       /* silence after which a trial counts as hung and is stopped; 0: none */
    size_t base;         /* index of the base route */
    struct plan_routes routes;
    bool bisect; /* the routes are the positions of a search, in order */
};

/*
 * `command`: replaces the plan's own; NULL or empty: the plan must have one. Errors name file, line and
 * key: ST_FORMAT for what is wrong in the plan, ST_USAGE when there is no command at all.
 */
enum status plan_parse(struct arena *a, struct str text, const char *path,
                       const struct text_list *command, const struct plan **ret_plan,
                       struct err *err) MUST_USE;

#endif
