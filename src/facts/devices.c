// SPDX-License-Identifier: Apache-2.0
/*
 * /dev/kfd and /dev/dri/renderD*, as this user may open them. Live: open(2) and its errno. Frozen:
 * device nodes cannot be stored in files, so <root>/.assay/nodes.tsv lists them ("c 0660 0 109
 * /dev/kfd") and access is worked out from mode, owner and the groups of the asking process.
 */
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

struct node {
    const char *path;
    bool present;
    unsigned mode;
    uint64_t uid;
    uint64_t gid;
    bool accessible;
    int open_errno; /* 0 when accessible */
};

struct nodes {
    struct node *items;
    size_t count;
    size_t capacity;
};

/* Would a process with this identity be let in for reading and writing? (POSIX rules.) */
static bool may_open(const struct users_self *self, const struct node *n)
{
    if (self->uid == 0) {
        return true;
    }
    if (self->uid == n->uid) {
        return (n->mode & 0600) == 0600;
    }
    for (size_t i = 0; i < self->group_count; i++) {
        if (self->groups[i] == n->gid) {
            return (n->mode & 0060) == 0060;
        }
    }
    return (n->mode & 0006) == 0006;
}

static struct nodes frozen_nodes(struct collect *c)
{
    struct nodes out = {0};
    struct str text;
    if (fs_read(c->fs, c->scratch, NODES_FILE, 1 << 20, &text, NULL) != ST_OK) {
        return out;
    }
    struct users_self self = users_self(c);
    struct str line;
    while (str_cut_line(&text, &line)) {
        struct str type;
        struct str mode;
        struct str uid;
        struct str gid;
        uint64_t mode_bits;
        struct node n = {.present = true};
        if (!str_cut(&line, '\t', &type) || !str_is(type, "c") || !str_cut(&line, '\t', &mode) ||
            !str_cut(&line, '\t', &uid) || !str_cut(&line, '\t', &gid) ||
            str_to_u64(mode, 8, &mode_bits) != ST_OK || str_to_u64(uid, 10, &n.uid) != ST_OK ||
            str_to_u64(gid, 10, &n.gid) != ST_OK) {
            continue;
        }
        n.mode = (unsigned)mode_bits;
        n.path = str_dup(c->scratch, line);
        n.accessible = may_open(&self, &n);
        n.open_errno = n.accessible ? 0 : EACCES;
        *VEC_PUSH(c->scratch, &out) = n;
    }
    return out;
}

static struct node live_node(struct collect *c, const char *path)
{
    struct node n = {.path = arena_strdup(c->scratch, path)};
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
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    n.open_errno = fd < 0 ? errno : 0;
    n.accessible = fd >= 0;
    if (fd >= 0) {
        close(fd);
    }
    return n;
}

static struct nodes live_nodes(struct collect *c)
{
    struct nodes out = {0};
    *VEC_PUSH(c->scratch, &out) = live_node(c, "/dev/kfd");
    const char *const *names;
    size_t count;
    if (fs_list(c->fs, c->scratch, "/dev/dri", &names, &count, NULL) == ST_OK) {
        for (size_t i = 0; i < count; i++) {
            if (strncmp(names[i], "renderD", 7) == 0) {
                *VEC_PUSH(c->scratch,
                          &out) = live_node(c, arena_fmt(c->scratch, "/dev/dri/%s", names[i]));
            }
        }
    }
    return out;
}

static void record_kfd(struct collect *c, const struct node *n)
{
    struct facts *f = c->facts;
    const char *path = "/dev/kfd";
    static const char *const details[] = {"dev.kfd.mode", "dev.kfd.owner", "dev.kfd.group",
                                          "dev.kfd.gid", "dev.kfd.open_errno"};
    facts_bool(f, "dev.kfd.present", n != NULL && n->present, path);
    if (n == NULL || !n->present) {
        facts_set_state(f, "dev.kfd.accessible", FACT_ABSENT, path, "there is no such node");
        for (size_t i = 0; i < ARRAY_LEN(details); i++) {
            facts_set_state(f, details[i], FACT_ABSENT, path, "there is no such node");
        }
        return;
    }
    facts_bool(f, "dev.kfd.accessible", n->accessible, "open(2) of /dev/kfd");
    facts_string(f, "dev.kfd.mode", arena_fmt(c->scratch, "%04o", n->mode), path);
    facts_string(f, "dev.kfd.owner", users_user_name(c, n->uid), path);
    facts_string(f, "dev.kfd.group", users_group_name(c, n->gid), path);
    facts_int(f, "dev.kfd.gid", (int64_t)n->gid, path);
    if (n->open_errno != 0) {
        facts_string(f, "dev.kfd.open_errno", err_name(n->open_errno), "open(2) of /dev/kfd");
    } else {
        facts_set_state(f, "dev.kfd.open_errno", FACT_ABSENT, "open(2) of /dev/kfd",
                        "it could be opened");
    }
}

void collect_devices(struct collect *c)
{
    struct nodes nodes = fs_is_live(c->fs) ? live_nodes(c) : frozen_nodes(c);
    const struct node *kfd = NULL;
    size_t renders = 0;
    size_t open_renders = 0;
    for (size_t i = 0; i < nodes.count; i++) {
        const struct node *n = &nodes.items[i];
        if (strcmp(n->path, "/dev/kfd") == 0) {
            kfd = n;
        } else if (strncmp(n->path, "/dev/dri/renderD", 16) == 0) {
            renders++;
            open_renders += n->accessible;
        }
    }
    record_kfd(c, kfd);
    facts_bool(c->facts, "dev.render.present", renders != 0, "/dev/dri");
    if (renders != 0) {
        facts_bool(c->facts, "dev.render.accessible", open_renders != 0,
                   "open(2) of /dev/dri/renderD*");
    } else {
        facts_set_state(c->facts, "dev.render.accessible", FACT_ABSENT, "/dev/dri",
                        "there is no render node");
    }
    uint64_t gid;
    if (users_group_id(c, "render", &gid)) {
        facts_int(c->facts, "group.render.gid", (int64_t)gid, "/etc/group");
    } else {
        facts_set_state(c->facts, "group.render.gid", FACT_ABSENT, "/etc/group",
                        "no group of that name");
    }
}
