// SPDX-License-Identifier: Apache-2.0
/*
 * Who listens on the ports where a training job's processes meet: net.port.<n>.owner. Looked at are
 * MASTER_PORT of the job and the defaults of torchrun and its kin; other ports are nobody's business.
 */
#include "facts/ports.h"

#include <inttypes.h>
#include <string.h>

#include "base/str.h"

#include "facts/read.h"

enum {
    STATE_LISTEN = 0x0a,
    MAX_TABLE = 16 << 20,
    MAX_PROCESSES = 65536,
    MAX_PORTS = 4
};

struct port {
    uint64_t number;
    uint64_t inode; /* of the listening socket; 0 when nobody listens */
    const char *owner;
};

/* "  0: 0100007F:733C 00000000:0000 0A ... inode" : column 1 local address, 3 state, 9 inode. */
static bool listener(struct str line, uint64_t *ret_port, uint64_t *ret_inode)
{
    struct str columns[10];
    size_t n = 0;
    struct str word;
    while (n < 10 && str_cut(&line, ' ', &word)) {
        if (word.n != 0) {
            columns[n++] = word;
        }
    }
    uint64_t state;
    size_t colon = n == 10 ? str_find_char(columns[1], ':', 0) : SIZE_MAX;
    return colon != SIZE_MAX && str_to_u64(columns[3], 16, &state) == ST_OK &&
           state == STATE_LISTEN &&
           str_to_u64(str_slice(columns[1], colon + 1, columns[1].n), 16, ret_port) == ST_OK &&
           str_to_u64(columns[9], 10, ret_inode) == ST_OK;
}

static bool read_table(struct collect *c, const char *path, struct port *ports, size_t count,
                       struct err *err)
{
    struct str text;
    struct str line;
    if (fs_read(c->fs, c->scratch, path, MAX_TABLE, &text, err) != ST_OK) {
        return false;
    }
    while (str_cut_line(&text, &line)) {
        uint64_t number;
        uint64_t inode;
        for (size_t i = 0; listener(line, &number, &inode) && i < count; i++) {
            if (ports[i].number == number) {
                ports[i].inode = inode;
            }
        }
    }
    return true;
}

/* Names the process if one of its descriptors is the socket of a port. */
static void match_process(struct collect *c, const char *pid, struct port *ports, size_t count)
{
    const char *folder = arena_fmt(c->scratch, "/proc/%s/fd", pid);
    const char *const *fds;
    size_t fd_count;
    if (fs_list(c->fs, c->scratch, folder, &fds, &fd_count, NULL) != ST_OK) {
        return;
    }
    for (size_t f = 0; f < fd_count; f++) {
        const char *target;
        if (fs_readlink(c->fs, c->scratch, arena_fmt(c->scratch, "%s/%s", folder, fds[f]), &target,
                        NULL) != ST_OK ||
            strncmp(target, "socket:[", 8) != 0) {
            continue;
        }
        for (size_t i = 0; i < count; i++) {
            const char *mine = arena_fmt(c->scratch, "socket:[%" PRIu64 "]", ports[i].inode);
            struct str comm;
            if (ports[i].inode != 0 && strcmp(target, mine) == 0 &&
                fs_read_trimmed(c->fs, c->scratch, arena_fmt(c->scratch, "/proc/%s/comm", pid),
                                &comm, NULL) == ST_OK) {
                ports[i].owner = arena_strdup(facts_arena(c->facts), comm.p);
            }
        }
    }
}

static void find_owners(struct collect *c, struct port *ports, size_t count)
{
    const char *const *names;
    size_t name_count;
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        any = any || ports[i].inode != 0;
    }
    if (!any || fs_list(c->fs, c->scratch, "/proc", &names, &name_count, NULL) != ST_OK) {
        return;
    }
    for (size_t i = 0; i < name_count && i < MAX_PROCESSES; i++) {
        if (names[i][0] >= '0' && names[i][0] <= '9') {
            struct arena_mark mark = arena_mark(c->scratch);
            match_process(c, names[i], ports, count);
            arena_rewind(c->scratch, mark);
        }
    }
}

void ports_facts(struct collect *c)
{
    struct port ports[MAX_PORTS] = {{.number = 29500}, {.number = 29400}}; /* torchrun, c10d */
    size_t count = 2;
    const char *master = collect_env(c, "MASTER_PORT");
    uint64_t chosen;
    if (master != NULL && str_to_u64(str_of(master), 10, &chosen) == ST_OK && chosen != 0 &&
        chosen <= 65535 && chosen != ports[0].number && chosen != ports[1].number) {
        ports[count++].number = chosen;
    }
    struct err err = {0};
    const char *source = "/proc/net/tcp, /proc/net/tcp6";
    bool read = read_table(c, "/proc/net/tcp", ports, count, &err);
    read = read_table(c, "/proc/net/tcp6", ports, count, NULL) || read;
    find_owners(c, ports, count);
    for (size_t i = 0; i < count; i++) {
        const char *key = arena_fmt(c->scratch, "net.port.%" PRIu64 ".owner", ports[i].number);
        if (!read) {
            facts_set_error(c->facts, key, source, &err);
        } else if (ports[i].inode == 0) {
            facts_set_state(c->facts, key, FACT_ABSENT, source, "nobody listens on this port");
        } else if (ports[i].owner == NULL) {
            facts_set_state(c->facts, key, FACT_DENIED, "/proc/*/fd",
                            "the listener belongs to another user");
        } else {
            facts_string(c->facts, key, ports[i].owner, source);
        }
    }
}
