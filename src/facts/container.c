// SPDX-License-Identifier: Apache-2.0
/* Are we in a container, of which kind, and what does it let through. Shared memory belongs here. */
#include <errno.h>
#include <string.h>

#include <sys/statvfs.h>

#include "base/str.h"
#include "base/tree.h"
#include "base/vec.h"

#include "facts/devices.h"
#include "facts/read.h"
#include "facts/users.h"

enum {
    MAX_TEXT = 1 << 20
};

static const char *runtime_of(struct collect *c, const char **ret_source)
{
    struct str text;
    if (collect_env(c, "KUBERNETES_SERVICE_HOST") != NULL ||
        fs_is_dir(c->fs, c->scratch, "/var/run/secrets/kubernetes.io")) {
        *ret_source = "KUBERNETES_SERVICE_HOST";
        return "kubernetes";
    }
    if (fs_exists(c->fs, c->scratch, "/run/.containerenv")) {
        *ret_source = "/run/.containerenv";
        return "podman";
    }
    if (fs_exists(c->fs, c->scratch, "/.dockerenv")) {
        *ret_source = "/.dockerenv";
        return "docker";
    }
    *ret_source = "/proc/1/cgroup";
    if (fs_read(c->fs, c->scratch, "/proc/1/cgroup", MAX_TEXT, &text, NULL) == ST_OK) {
        if (str_has(text, "kubepods")) {
            return "kubernetes";
        }
        if (str_has(text, "/docker")) {
            return "docker";
        }
        if (str_has(text, "libpod") || str_has(text, "lxc") || str_has(text, "/machine.slice")) {
            return str_has(text, "libpod") ? "podman" : "other";
        }
    }
    static const char *const marks[] = {"/.singularity.d", "/run/systemd/container"};
    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        if (fs_exists(c->fs, c->scratch, marks[i])) { /* Apptainer; nspawn and LXC */
            *ret_source = marks[i];
            return "other";
        }
    }
    const char *named = collect_env(c, "container");
    if (named != NULL && named[0] != '\0') {
        *ret_source = "environment variable container";
        return strcmp(named, "podman") == 0 || strcmp(named, "docker") == 0 ? named : "other";
    }
    *ret_source = "/.dockerenv, /run/.containerenv, /proc/1/cgroup";
    return "none";
}

static void collect_ids(struct collect *c, bool inside)
{
    static const char *const users = "/proc/self/uid_map";
    static const char *const groups = "/proc/self/gid_map";
    struct err err = {0};
    bool mapped_part;
    if (!inside) {
        facts_set_state(c->facts, "container.rootless", FACT_NOT_APPLICABLE, users,
                        "not in a container");
    } else if (users_in_namespace(c, users, &mapped_part, &err) != ST_OK) {
        facts_set_error(c->facts, "container.rootless", users, &err);
    } else {
        /* Rootless engines map id 0 to an ordinary user, and few other ids. */
        facts_bool(c->facts, "container.rootless", mapped_part, users);
    }
    if (users_in_namespace(c, groups, &mapped_part, &err) != ST_OK) {
        facts_set_error(c->facts, "container.host_gids_mapped", groups, &err);
    } else {
        facts_bool(c->facts, "container.host_gids_mapped", !mapped_part, groups);
    }
}

static void collect_pid1(struct collect *c)
{
    struct str text;
    struct err err = {0};
    if (fs_read(c->fs, c->scratch, "/proc/1/cmdline", MAX_TEXT, &text, &err) != ST_OK) {
        facts_set_error(c->facts, "container.pid1", "/proc/1/cmdline", &err);
        return;
    }
    char *line = str_dup(c->scratch, text);
    for (size_t i = 0; i + 1 < text.n; i++) {
        line[i] = line[i] == '\0' ? ' ' : line[i];
    }
    facts_string(c->facts, "container.pid1", line, "/proc/1/cmdline");
}

static void collect_memory_limit(struct collect *c)
{
    static const char *const files[] = {"/sys/fs/cgroup/memory.max",
                                        "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    struct err err = {0};
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        struct str text;
        int64_t bytes;
        enum status got = fs_read_trimmed(c->fs, c->scratch, files[i], &text, &err);
        if (got == ST_ABSENT) {
            continue;
        }
        if (got != ST_OK) {
            facts_set_error(c->facts, "container.mem_limit_bytes", files[i], &err);
        } else if (str_is(text, "max") ||
                   (str_to_i64(text, 10, &bytes) == ST_OK && bytes > INT64_C(0x7000000000000000))) {
            facts_set_state(c->facts, "container.mem_limit_bytes", FACT_ABSENT, files[i],
                            "no limit is set");
        } else if (str_to_i64(text, 10, &bytes) == ST_OK) {
            facts_int(c->facts, "container.mem_limit_bytes", bytes, files[i]);
        } else {
            facts_set_state(c->facts, "container.mem_limit_bytes", FACT_UNREADABLE, files[i],
                            "not a number");
        }
        return;
    }
    facts_set_state(c->facts, "container.mem_limit_bytes", FACT_ABSENT, files[0],
                    "this cgroup has no memory limit");
}

static void collect_docker_context(struct collect *c)
{
    const char *key = "container.docker_context";
    const char *home = c->user_home != NULL ? c->user_home : "/root";
    const char *path = arena_fmt(c->scratch, "%s/.docker/config.json", home);
    const char *env = collect_env(c, "DOCKER_CONTEXT");
    if (env != NULL && env[0] != '\0') {
        facts_string(c->facts, key, env, "DOCKER_CONTEXT");
        return;
    }
    struct str text;
    struct err err = {0};
    const struct tree *root;
    if (fs_read(c->fs, c->scratch, path, MAX_TEXT, &text, &err) != ST_OK ||
        tree_from_json(c->scratch, text, path, TREE_LIMITS_DEFAULT, &root, &err) != ST_OK) {
        facts_set_error(c->facts, key, path, &err);
        return;
    }
    const char *name = tree_text(root, "currentContext", NULL);
    if (name != NULL) {
        facts_string(c->facts, key, name, path);
    } else {
        facts_set_state(c->facts, key, FACT_ABSENT, path, "the default context");
    }
}

static void collect_shm(struct collect *c)
{
    if (!fs_is_live(c->fs)) {
        read_int_fact(c, "shm.size_bytes", "/.assay/shm_size", 1);
        read_int_fact(c, "shm.avail_bytes", "/.assay/shm_avail", 1);
        return;
    }
    struct statvfs st;
    if (statvfs("/dev/shm", &st) != 0) {
        struct err err = {0};
        (void)err_sys(&err, errno, "cannot stat the file system of '/dev/shm'");
        facts_set_error(c->facts, "shm.size_bytes", "statvfs(2) of /dev/shm", &err);
        facts_set_error(c->facts, "shm.avail_bytes", "statvfs(2) of /dev/shm", &err);
        return;
    }
    facts_int(c->facts, "shm.size_bytes", (int64_t)(st.f_blocks * st.f_frsize),
              "statvfs(2) of /dev/shm");
    facts_int(c->facts, "shm.avail_bytes", (int64_t)(st.f_bavail * st.f_frsize),
              "statvfs(2) of /dev/shm");
}

/* The GPU nodes that came in with --device, in the order of /dev. */
static void collect_passed_devices(struct collect *c)
{
    VEC_OF(const char *) list = {0};
    const struct devices_list nodes = devices_list(c);
    for (size_t i = 0; i < nodes.count; i++) {
        if (nodes.items[i].present) {
            *VEC_PUSH(c->scratch, &list) = nodes.items[i].path;
        }
    }
    facts_strings(c->facts, "container.devices", list.items, list.count, "/dev");
}

/* The first IPC namespace of a kernel always has this number (PROC_IPC_INIT_INO), so a container
 * that sees it was started with --ipc=host. */
static void collect_ipc(struct collect *c)
{
    const char *path = "/proc/self/ns/ipc";
    const char *target;
    struct err err = {0};
    if (fs_readlink(c->fs, c->scratch, path, &target, &err) != ST_OK) {
        facts_set_error(c->facts, "container.ipc", path, &err);
        return;
    }
    facts_string(c->facts, "container.ipc",
                 strcmp(target, "ipc:[4026531839]") == 0 ? "host" : "private", path);
}

/* What a container knows of the engine that started it. */
static void collect_engine_side(struct collect *c, bool inside)
{
    static const char *const keys[] = {"container.devices", "container.group_add", "container.ipc"};
    if (!inside) {
        for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
            facts_set_state(c->facts, keys[i], FACT_NOT_APPLICABLE, "/proc/1/cgroup",
                            "not in a container");
        }
        return;
    }
    collect_passed_devices(c);
    collect_ipc(c);
    facts_set_state(c->facts, "container.group_add", FACT_UNREADABLE, "docker inspect",
                    "only the engine outside knows what --group-add was given; the groups that "
                    "arrived are proc.groups");
}

void collect_container(struct collect *c)
{
    const char *source;
    const char *runtime = runtime_of(c, &source);
    bool inside = strcmp(runtime, "none") != 0;
    facts_string(c->facts, "container.runtime", runtime, source);
    collect_ids(c, inside);
    collect_pid1(c);
    collect_memory_limit(c);
    collect_docker_context(c);
    collect_engine_side(c, inside);
    collect_shm(c);
}
