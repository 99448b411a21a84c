// SPDX-License-Identifier: Apache-2.0
/* What ranks and strangers send to rank 0: the input is what three of them say, cut at '\1'. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/un.h>

#include "ops/rendezvous.h"

enum {
    SPEAKERS = 3,
    SAID_MAX = 1 << 16, /* fits the buffer of a socket: nobody reads while it is written */
    EVENTS_MAX = 4096
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Nobody's hello: what is said is the first that rank 0 hears. */
static int connect_raw(const char *name)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t n = strlen(name);
    memcpy(to.sun_path + 1, name, n);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to,
                           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Connects, says hello unless `rank` is -1, then its part. */
static void speak(struct arena *a, const struct rendezvous_place *place, int rank, struct str part,
                  int *ret_fd)
{
    struct err err;
    struct rendezvous_place own = *place;
    own.rank = rank;
    *ret_fd = -1;
    if (rank < 0) {
        *ret_fd = connect_raw(place->socket);
    } else if (rendezvous_connect(a, &own, rendezvous_now_s() + 1, ret_fd, &err) != ST_OK) {
        *ret_fd = -1;
    }
    if (*ret_fd < 0) {
        return;
    }
    size_t n = part.n < SAID_MAX ? part.n : SAID_MAX;
    ssize_t sent = send(*ret_fd, part.p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)sent;
}

/* What they were sent, as ranks do: one that does not is waited for (test_collective.c). */
static void read_all(const int *fds, size_t count)
{
    char said[256];
    for (size_t i = 0; i < count; i++) {
        while (fds[i] >= 0 && recv(fds[i], said, sizeof said, MSG_DONTWAIT) > 0) {
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned long turn;
    struct arena *a = arena_new((size_t)64 << 20);
    char name[64];
    snprintf(name, sizeof name, "assay-fuzz-%d-%lu", (int)getpid(), turn++);
    struct rendezvous_place place = {.socket = name, .key = "k", .ranks = 3};
    struct rendezvous r;
    struct err err;
    if (rendezvous_listen(a, &place, &r, &err) != ST_OK) {
        arena_free(a);
        return 0;
    }
    int fds[SPEAKERS];
    struct str rest = {.p = (const char *)data, .n = size}, part;
    for (int i = 0; i < SPEAKERS; i++) {
        if (!str_cut(&rest, '\1', &part)) {
            part = (struct str){.p = "", .n = 0};
        }
        speak(a, &place, i - 1, part, &fds[i]);
        if (fds[i] >= 0) {
            shutdown(fds[i], SHUT_WR);
        }
    }
    volatile size_t sum = 0;
    int rank;
    struct str line;
    for (int i = 0; i < EVENTS_MAX; i++) {
        enum rendezvous_event e = rendezvous_next(&r, rendezvous_now_s() + 1e-3, &rank, &line);
        if (e == RENDEZVOUS_LATE) {
            break;
        }
        if (e == RENDEZVOUS_LINE) {
            sum += line.n + (line.n > 0 ? (size_t)line.p[line.n - 1] : 0);
            rendezvous_send(&r, rank, "go");
            read_all(fds, SPEAKERS);
        }
    }
    rendezvous_close(&r);
    for (int i = 0; i < SPEAKERS; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
    arena_free(a);
    return 0;
}
