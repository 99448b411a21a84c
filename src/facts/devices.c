// SPDX-License-Identifier: Apache-2.0
/*
 * /dev/kfd and /dev/dri/renderD*, as this user may open them. Live: open(2) and its errno. Frozen:
 * device nodes cannot be stored in files, so <root>/.assay/nodes.tsv lists them, tab-separated:
 *     c  0660  0  109  /dev/kfd  [EPERM]
 * and access is worked out from mode, owner, the asking process's groups and user namespace. The
 * last column is for refusals that permissions do not show, such as a device cgroup.
 */
#include "facts/devices.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/str.h"
#include "base/vec.h"

#include "facts/read.h"
#include "facts/users.h"

#define NODES_FILE "/.assay/nodes.tsv"

enum {
    UNMAPPED_ID = 65534 /* what a user namespace shows for ids that it does not map */
};

static bool in_group(const struct users_self *self, uint64_t gid)
{
    for (size_t i = 0; i < self->group_count; i++) {
        if (self->groups[i] == gid) {
            return true;
        }
    }
    return false;
}

/* Would a process with this identity be let in for reading and writing? (POSIX rules; root of a
 * user namespace has power only over files whose owner and group that namespace maps.) */
static bool may_open(const struct users_self *self, const struct devices_node *n)
{
    bool foreign = self->userns && (n->uid == UNMAPPED_ID || n->gid == UNMAPPED_ID);
    if (self->uid == 0 && !foreign) {
        return true;
    }
    if (self->uid == n->uid) {
        return (n->mode & 0600) == 0600;
    }
    return in_group(self, n->gid) ? (n->mode & 0060) == 0060 : (n->mode & 0006) == 0006;
}

static bool parse_node(struct collect *c, struct str line, struct devices_node *ret_node)
{
    struct str fields[6] = {0};
    size_t count = 0;
    while (count < ARRAY_LEN(fields) && str_cut(&line, '\t', &fields[count])) {
        count++;
    }
    struct devices_node n = {.present = true};
    uint64_t mode;
    if (count < 5 || !str_is(fields[0], "c") || str_to_u64(fields[1], 8, &mode) != ST_OK ||
        str_to_u64(fields[2], 10, &n.uid) != ST_OK || str_to_u64(fields[3], 10, &n.gid) != ST_OK) {
        return false;
    }
    n.mode = (unsigned)mode & 07777;
    n.path = str_dup(c->scratch, fields[4]);
    n.open_errno = str_is(fields[5], "EPERM") ? EPERM : str_is(fields[5], "EIO") ? EIO : 0;
    *ret_node = n;
    return true;
}

static int by_path(const void *a, const void *b)
{
    return strverscmp(((const struct devices_node *)a)->path,
                      ((const struct devices_node *)b)->path);
}

static struct devices_list frozen_nodes(struct collect *c)
{
    struct devices_list out = {0};
    struct devices_list kfd = {0};
    struct str text = {0};
    struct str line;
    struct devices_node n;
    struct users_self self = users_self(c);
    if (fs_read(c->fs, c->scratch, NODES_FILE, 1 << 20, &text, NULL) != ST_OK) {
        text = (struct str){0};
    }
    *VEC_PUSH(c->scratch, &kfd) = (struct devices_node){.path = "/dev/kfd", .open_errno = ENOENT};
    while (str_cut_line(&text, &line) && out.count < 10000) {
        if (!parse_node(c, line, &n)) {
            continue;
        }
        n.open_errno = n.open_errno != 0 || may_open(&self, &n) ? n.open_errno : EACCES;
        if (strcmp(n.path, "/dev/kfd") == 0) {
            kfd.items[0] = n;
        } else {
            *VEC_PUSH(c->scratch, &out) = n;
        }
    }
    if (out.count != 0) {
        qsort(out.items, out.count, sizeof *out.items, by_path);
    }
    for (size_t i = 0; i < out.count; i++) {
        *VEC_PUSH(c->scratch, &kfd) = out.items[i];
    }
    return kfd;
}

static struct devices_node live_node(struct collect *c, const char *path)
{
    struct devices_node n = {.path = arena_strdup(c->scratch, path)};
    struct stat st;
    if (stat(path, &st) != 0) {
        n.open_errno = errno;
        n.present = errno != ENOENT && errno != ENOTDIR;
        return n;
    }
    n.present = true;
    n.mode = st.st_mode & 07777;
    n.uid = st.st_uid;
    n.gid = st.st_gid;
    if (strncmp(path, "/dev/nvidia", 11) == 0) {
        return n; /* opening one may start the GPU, which takes a second */
    }
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    n.open_errno = fd < 0 ? errno : 0;
    if (fd >= 0) {
        close(fd);
    }
    return n;
}

static void live_nodes_in(struct collect *c, const char *folder, const char *prefix,
                          struct devices_list *out)
{
    const char *const *names;
    size_t count;
    size_t n = strlen(prefix);
    if (fs_list(c->fs, c->scratch, folder, &names, &count, NULL) != ST_OK) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (strncmp(names[i], prefix, n) == 0 && names[i][n] >= '0' && names[i][n] <= '9') {
            *VEC_PUSH(c->scratch,
                      out) = live_node(c, arena_fmt(c->scratch, "%s/%s", folder, names[i]));
        }
    }
}

struct devices_list devices_list(struct collect *c)
{
    if (!fs_is_live(c->fs)) {
        return frozen_nodes(c);
    }
    struct devices_list out = {0};
    *VEC_PUSH(c->scratch, &out) = live_node(c, "/dev/kfd");
    live_nodes_in(c, "/dev/dri", "renderD", &out);
    live_nodes_in(c, "/dev", "nvidia", &out);
    return out;
}

/* Who owns a node, as dev.<name>.owner and so on. */
static void record_owner(struct collect *c, const char *name, const struct devices_node *n)
{
    struct facts *f = c->facts;
    facts_string(f, arena_fmt(c->scratch, "dev.%s.mode", name),
                 arena_fmt(c->scratch, "%04o", n->mode), n->path);
    facts_string(f, arena_fmt(c->scratch, "dev.%s.owner", name), users_user_name(c, n->uid),
                 n->path);
    facts_string(f, arena_fmt(c->scratch, "dev.%s.group", name), users_group_name(c, n->gid),
                 n->path);
    facts_int(f, arena_fmt(c->scratch, "dev.%s.gid", name), (int64_t)n->gid, n->path);
}

/* `n` is the node to report in detail, or NULL when there is none. */
static void record_node(struct collect *c, const char *name, const char *path,
                        const struct devices_node *n)
{
    static const char *const details[] = {"mode", "owner", "group", "gid"};
    struct facts *f = c->facts;
    const char *opened = arena_fmt(c->scratch, "open(2) of %s", path);
    const char *accessible = arena_fmt(c->scratch, "dev.%s.accessible", name);
    const char *open_errno = arena_fmt(c->scratch, "dev.%s.open_errno", name);
    bool present = n != NULL && n->present;
    facts_bool(f, arena_fmt(c->scratch, "dev.%s.present", name), present, path);
    if (!present) {
        facts_set_state(f, accessible, FACT_ABSENT, path, "there is no such node");
        facts_set_state(f, open_errno, FACT_ABSENT, path, "there is no such node");
        for (size_t i = 0; i < ARRAY_LEN(details); i++) {
            facts_set_state(f, arena_fmt(c->scratch, "dev.%s.%s", name, details[i]), FACT_ABSENT,
                            path, "there is no such node");
        }
        return;
    }
    facts_bool(f, accessible, n->open_errno == 0, opened);
    record_owner(c, name, n);
    if (n->open_errno != 0) {
        facts_string(f, open_errno, err_name(n->open_errno), opened);
    } else {
        facts_set_state(f, open_errno, FACT_ABSENT, opened, "it could be opened");
    }
}

void collect_devices(struct collect *c)
{
    struct devices_list nodes = devices_list(c);
    const struct devices_node *render = NULL;
    for (size_t i = 0; i < nodes.count; i++) {
        const struct devices_node *n = &nodes.items[i];
        /* The first render node that opens; if none does, the first one tells why. */
        if (strncmp(n->path, "/dev/dri/renderD", 16) == 0 &&
            (render == NULL || (render->open_errno != 0 && n->open_errno == 0))) {
            render = n;
        }
    }
    record_node(c, "kfd", "/dev/kfd", &nodes.items[0]);
    record_node(c, "render", "/dev/dri/renderD*", render);
    uint64_t gid;
    struct str text;
    struct err err = {0};
    if (users_group_id(c, "render", &gid)) {
        facts_int(c->facts, "group.render.gid", (int64_t)gid, "/etc/group");
    } else if (fs_read(c->fs, c->scratch, "/etc/group", 8 << 20, &text, &err) != ST_OK) {
        facts_set_error(c->facts, "group.render.gid", "/etc/group", &err);
    } else {
        facts_set_state(c->facts, "group.render.gid", FACT_ABSENT, "/etc/group",
                        "no group of that name");
    }
}
