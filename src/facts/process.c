// SPDX-License-Identifier: Apache-2.0
/*
 * The process that asks, and its neighbours: user, groups, limits, zombies, launchers, listeners.
 * On a frozen machine the identity comes from <root>/.assay/process.tsv ("uid 1000", "groups 44
 * 109", "memlock 65536", "cpus 32"), since a frozen /proc has no process of ours.
 */
#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include <sys/resource.h>

#include "base/str.h"
#include "base/vec.h"

#include "facts/launchers.h"
#include "facts/ports.h"
#include "facts/read.h"
#include "facts/users.h"

enum {
    MAX_GROUPS = 1024
};

static void live_identity(struct collect *c)
{
    gid_t gids[MAX_GROUPS];
    int n = getgroups(MAX_GROUPS, gids);
    VEC_OF(const char *) names = {0};
    for (int i = 0; i < n; i++) {
        *VEC_PUSH(c->scratch, &names) = users_group_name(c, gids[i]);
    }
    facts_int(c->facts, "proc.uid", geteuid(), "geteuid(2)");
    if (n >= 0) {
        facts_strings(c->facts, "proc.groups", names.items, names.count, "getgroups(2)");
    } else {
        facts_set_state(c->facts, "proc.groups", FACT_UNREADABLE, "getgroups(2)",
                        "too many groups");
    }
    struct rlimit lim;
    if (getrlimit(RLIMIT_MEMLOCK, &lim) == 0) {
        facts_int(c->facts, "limits.memlock",
                  lim.rlim_cur == RLIM_INFINITY ? -1 : (int64_t)lim.rlim_cur, "getrlimit(2)");
    } else {
        facts_set_state(c->facts, "limits.memlock", FACT_UNREADABLE, "getrlimit(2)",
                        strerrordesc_np(errno));
    }
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        facts_int(c->facts, "cpu.logical_count", CPU_COUNT(&set), "sched_getaffinity(2)");
    } else {
        facts_int(c->facts, "cpu.logical_count", sysconf(_SC_NPROCESSORS_ONLN), "sysconf(3)");
    }
}

static void frozen_identity(struct collect *c)
{
    const struct users_self self = users_self(c);
    const char *source = USERS_SELF_FILE;
    static const char *const keys[] = {"proc.uid", "proc.groups", "limits.memlock",
                                       "cpu.logical_count"};
    if (!self.known) {
        for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
            facts_set_state(c->facts, keys[i], FACT_ABSENT, source,
                            "the frozen machine does not say who asks");
        }
        return;
    }
    VEC_OF(const char *) names = {0};
    for (size_t i = 0; i < self.group_count; i++) {
        *VEC_PUSH(c->scratch, &names) = users_group_name(c, self.groups[i]);
    }
    facts_int(c->facts, "proc.uid", (int64_t)self.uid, source);
    facts_strings(c->facts, "proc.groups", names.items, names.count, source);
    facts_int(c->facts, "limits.memlock", self.memlock, source);
    facts_int(c->facts, "cpu.logical_count", self.cpus, source);
}

static void collect_userns(struct collect *c)
{
    bool inside;
    struct err err = {0};
    const char *path = "/proc/self/uid_map";
    if (users_in_namespace(c, path, &inside, &err) != ST_OK) {
        facts_set_error(c->facts, "proc.userns", path, &err);
        return;
    }
    facts_bool(c->facts, "proc.userns", inside, path);
}

static void collect_cwd(struct collect *c)
{
    const char *target;
    struct err err = {0};
    if (fs_readlink(c->fs, c->scratch, "/proc/self/cwd", &target, &err) == ST_OK) {
        facts_string(c->facts, "proc.cwd", target, "/proc/self/cwd");
    } else {
        facts_set_error(c->facts, "proc.cwd", "/proc/self/cwd", &err);
    }
}

void collect_process(struct collect *c)
{
    if (fs_is_live(c->fs)) {
        live_identity(c);
    } else {
        frozen_identity(c);
    }
    collect_userns(c);
    collect_cwd(c);
    launchers_facts(c);
    ports_facts(c);
    static const char *const need_a_job[] = {"proc.native_stack", "proc.python_stack",
                                             "proc.worker_cpu_percent"};
    for (size_t i = 0; i < ARRAY_LEN(need_a_job); i++) {
        facts_set_state(c->facts, need_a_job[i], FACT_NOT_APPLICABLE, "ptrace(2)",
                        "belongs to a running job; no job was named");
    }
}
