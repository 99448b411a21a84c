// SPDX-License-Identifier: Apache-2.0
/*
 * Who asks, and the names of users and groups of the machine under the root (its /etc/passwd and
 * /etc/group, read as text: no NSS, nothing is loaded).
 */
#ifndef ASSAY_FACTS_USERS_H
#define ASSAY_FACTS_USERS_H

#include "facts/collect.h"

#define USERS_SELF_FILE "/.assay/process.tsv"

struct users_self {
    bool known;
    bool userns; /* in a user namespace that does not map all ids */
    uint64_t uid;
    const uint64_t *groups;
    size_t group_count;
    int64_t memlock; /* bytes, -1 unlimited */
    int64_t cpus;
};

/* Identity of the asking process on a frozen machine; `known` is false when it says nothing. */
struct users_self users_self(struct collect *c);

/* True inside a user namespace that does not map all ids: "0 0 4294967295" is the initial map. */
enum status users_in_namespace(struct collect *c, const char *map_file, bool *ret_inside,
                               struct err *err) MUST_USE;

/* Name of a group or user, or its number as text. On the scratch arena. */
const char *users_group_name(struct collect *c, uint64_t gid);
const char *users_user_name(struct collect *c, uint64_t uid);

/* Number of a group by name; false when there is no such group. */
bool users_group_id(struct collect *c, const char *name, uint64_t *ret_gid);

#endif
