// SPDX-License-Identifier: Apache-2.0
/* See rendezvous.h. One thread, poll(2), no names of threads or signals of its own. */
#include "ops/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/un.h>

#include "base/vec.h"

enum {
    VERSION = 1,
    STRANGERS_MAX = 64,
    HELLO_MAX = 512,
    READ_BYTES = 1024,
    RETRY_NS = 100000000,
    WRITE_S = 60,
    SEND_S = 10 /* of rank 0, for which all others wait */
};

double rendezvous_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- addresses ---- */

static socklen_t local_address(const char *name, struct sockaddr_un *to)
{
    memset(to, 0, sizeof *to);
    to->sun_family = AF_UNIX;
    size_t n = strlen(name);
    n = n < sizeof to->sun_path - 1 ? n : sizeof to->sun_path - 1;
    memcpy(to->sun_path + 1, name, n); /* the zero before it: not a file */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

static void settle(int fd)
{
    int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes); /* fails on Unix sockets: fine */
    fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static enum status listen_local(const struct rendezvous_place *p, int *ret_fd, struct err *err)
{
    struct sockaddr_un address;
    socklen_t n = local_address(p->socket, &address);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, n) != 0 || listen(fd, SOMAXCONN) != 0) {
        int e = errno;
        if (fd >= 0) {
            close(fd);
        }
        return err_sys(err, e, "cannot open the local socket '%s' for the ranks", p->socket);
    }
    *ret_fd = fd;
    return ST_OK;
}

static enum status listen_net(const struct rendezvous_place *p, int *ret_fd, struct err *err)
{
    int off = 0;
    int yes = 1;
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)p->port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)p->port)};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    const struct sockaddr *address = (struct sockaddr *)&six;
    socklen_t n = sizeof six;
    if (fd >= 0) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off); /* takes IPv4 as well */
    } else {
        fd = socket(AF_INET, SOCK_STREAM, 0);
        address = (struct sockaddr *)&four;
        n = sizeof four;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (fd < 0 || bind(fd, address, n) != 0 || listen(fd, SOMAXCONN) != 0) {
        int e = errno;
        if (fd >= 0) {
            close(fd);
        }
        return err_sys(err, e,
                       "rank 0 cannot wait for the others at port %u; name another place "
                       "with --rendezvous HOST:PORT",
                       p->port);
    }
    *ret_fd = fd;
    return ST_OK;
}

enum status rendezvous_listen(struct arena *a, const struct rendezvous_place *place,
                              struct rendezvous *ret_rendezvous, struct err *err)
{
    struct rendezvous r = {.arena = a, .place = *place, .listener = -1};
    if (place->ranks < 1 || place->ranks > RENDEZVOUS_RANKS_MAX) {
        return err_set(err, ST_LIMIT, "%d ranks: 1 to %d can be brought together", place->ranks,
                       RENDEZVOUS_RANKS_MAX);
    }
    TRY(place->socket != NULL ? listen_local(place, &r.listener, err)
                              : listen_net(place, &r.listener, err));
    fcntl(r.listener, F_SETFD, FD_CLOEXEC);
    fcntl(r.listener, F_SETFL, O_NONBLOCK);
    r.peers = arena_array(a, (size_t)place->ranks, sizeof *r.peers);
    r.strangers = arena_array(a, STRANGERS_MAX, sizeof *r.strangers);
    r.fds = arena_array(a, (size_t)place->ranks + STRANGERS_MAX + 1, sizeof *r.fds);
    r.who = arena_array(a, (size_t)place->ranks + STRANGERS_MAX + 1, sizeof *r.who);
    for (int i = 0; i < place->ranks; i++) {
        r.peers[i] = (struct rendezvous_peer){.fd = -1, .host = "?"};
    }
    *ret_rendezvous = r;
    return ST_OK;
}

/* ---- lines ---- */

/* A whole line that has come; its end becomes a zero. */
static bool take_line(struct rendezvous_peer *p, struct str *ret_line)
{
    if (p->taken != 0) {
        memmove(p->line, p->line + p->taken, p->filled - p->taken);
        p->filled -= p->taken;
        p->taken = 0;
    }
    char *end = p->filled != 0 ? memchr(p->line, '\n', p->filled) : NULL;
    if (end == NULL) {
        return false;
    }
    *end = '\0';
    *ret_line = (struct str){.p = p->line, .n = (size_t)(end - p->line)};
    p->taken = ret_line->n + 1;
    return true;
}

/* False: the other side has ended, or sends what is no line. */
static bool fill(struct rendezvous *r, struct rendezvous_peer *p, size_t most)
{
    if (p->taken != 0) {
        memmove(p->line, p->line + p->taken, p->filled - p->taken);
        p->filled -= p->taken;
        p->taken = 0;
    }
    if (p->filled >= most) {
        return false;
    }
    if (p->filled == p->capacity) {
        size_t more = p->capacity == 0 ? READ_BYTES : p->capacity * 2;
        p->line = arena_grow(r->arena, p->line, p->capacity, more);
        p->capacity = more;
    }
    ssize_t n = recv(p->fd, p->line + p->filled, p->capacity - p->filled, MSG_DONTWAIT);
    if (n < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    p->filled += (size_t)n;
    return n > 0;
}

static void drop(struct rendezvous_peer *p)
{
    if (p->fd >= 0) {
        close(p->fd);
    }
    p->fd = -1;
}

/* "hello 1 KEY RANK RANKS HOST": -1 for anything else. */
static int rank_of_hello(const struct rendezvous *r, struct str line, struct str *ret_host)
{
    struct str word[5];
    uint64_t version;
    uint64_t rank;
    uint64_t ranks;
    for (size_t i = 0; i < ARRAY_LEN(word); i++) {
        if (!str_cut(&line, ' ', &word[i])) {
            return -1;
        }
    }
    if (!str_is(word[0], "hello") || str_to_u64(word[1], 10, &version) != ST_OK ||
        version != VERSION || !str_is(word[2], r->place.key) ||
        str_to_u64(word[3], 10, &rank) != ST_OK || str_to_u64(word[4], 10, &ranks) != ST_OK ||
        ranks != (uint64_t)r->place.ranks || rank >= ranks || r->peers[rank].came) {
        return -1;
    }
    *ret_host = str_slice(line, 0, line.n < 64 ? line.n : 64);
    return (int)rank;
}

/* Its rank once it said who it is, else -1. */
static int admit(struct rendezvous *r, size_t index)
{
    struct rendezvous_peer *s = &r->strangers[index];
    struct str line;
    struct str host;
    bool alive = fill(r, s, HELLO_MAX * 2);
    int rank = -1;
    if (take_line(s, &line)) {
        rank = rank_of_hello(r, line, &host);
        alive = alive && rank >= 0;
    } else {
        alive = alive && s->filled < HELLO_MAX;
    }
    if (rank >= 0) {
        r->peers[rank] = *s;
        r->peers[rank].came = true;
        r->peers[rank].host = str_dup(r->arena, host);
        s->fd = -1;
    } else if (!alive) {
        drop(s);
    }
    if (s->fd < 0) {
        r->strangers[index] = r->strangers[--r->stranger_count];
        r->strangers[r->stranger_count] = (struct rendezvous_peer){.fd = -1};
    }
    return rank;
}

static void accept_all(struct rendezvous *r)
{
    int fd;
    while (r->stranger_count < STRANGERS_MAX && (fd = accept(r->listener, NULL, NULL)) >= 0) {
        settle(fd);
        r->strangers[r->stranger_count++] = (struct rendezvous_peer){.fd = fd};
    }
}

/* Lines that lie here already, turn by turn. */
static bool waiting_line(struct rendezvous *r, int *ret_rank, struct str *ret_line)
{
    for (int i = 0; i < r->place.ranks; i++) {
        int rank = (r->next + i) % r->place.ranks;
        if (r->peers[rank].came && take_line(&r->peers[rank], ret_line)) {
            r->next = (rank + 1) % r->place.ranks;
            *ret_rank = rank;
            return true;
        }
    }
    return false;
}

static size_t gather(const struct rendezvous *r, struct pollfd *fds, int *who)
{
    size_t n = 0;
    fds[n++] = (struct pollfd){.fd = r->stranger_count < STRANGERS_MAX ? r->listener : -1,
                               .events = POLLIN};
    for (size_t i = 0; i < r->stranger_count; i++) {
        fds[n++] = (struct pollfd){.fd = r->strangers[i].fd, .events = POLLIN};
    }
    for (int i = 0; i < r->place.ranks; i++) {
        if (r->peers[i].fd >= 0) {
            who[n] = i;
            fds[n++] = (struct pollfd){.fd = r->peers[i].fd, .events = POLLIN};
        }
    }
    return n;
}

enum rendezvous_event rendezvous_next(struct rendezvous *r, double until_s, int *ret_rank,
                                      struct str *ret_line)
{
    struct pollfd *fds = r->fds;
    for (;;) {
        if (waiting_line(r, ret_rank, ret_line)) {
            return RENDEZVOUS_LINE;
        }
        double left = until_s - rendezvous_now_s();
        if (!(left > 0)) {
            return RENDEZVOUS_LATE;
        }
        size_t strangers = r->stranger_count;
        size_t n = gather(r, fds, r->who);
        int ready = poll(fds, n, left > 1 ? 1000 : (int)(left * 1000) + 1);
        if (ready <= 0) {
            continue;
        }
        for (size_t i = 1 + strangers; i < n; i++) {
            if (fds[i].revents != 0 && !fill(r, &r->peers[r->who[i]], RENDEZVOUS_LINE_MAX)) {
                drop(&r->peers[r->who[i]]);
                *ret_rank = r->who[i];
                if (take_line(&r->peers[r->who[i]], ret_line)) { /* its last words */
                    return RENDEZVOUS_LINE;
                }
                return RENDEZVOUS_GONE;
            }
        }
        for (size_t i = strangers; i > 0; i--) {
            if (fds[i].revents != 0 && (*ret_rank = admit(r, i - 1)) >= 0) {
                return RENDEZVOUS_CAME;
            }
        }
        if (fds[0].revents != 0) {
            accept_all(r);
        }
    }
}

void rendezvous_send(struct rendezvous *r, int rank, const char *line)
{
    struct rendezvous_peer *p = &r->peers[rank];
    struct err err;
    if (p->fd >= 0 && rendezvous_write_within(p->fd, str_of(line), SEND_S, &err) != ST_OK) {
        shutdown(p->fd, SHUT_RDWR); /* next() tells that it is gone */
    }
}

void rendezvous_send_all(struct rendezvous *r, const char *line)
{
    for (int i = 0; i < r->place.ranks; i++) {
        rendezvous_send(r, i, line);
    }
}

void rendezvous_close(struct rendezvous *r)
{
    for (int i = 0; i < r->place.ranks; i++) {
        drop(&r->peers[i]);
    }
    for (size_t i = 0; i < r->stranger_count; i++) {
        drop(&r->strangers[i]);
    }
    close(r->listener);
}

/* ---- the other side ---- */

static int connect_local(const char *name)
{
    struct sockaddr_un address;
    socklen_t n = local_address(name, &address);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, n) != 0) {
        int e = errno;
        close(fd);
        errno = e;
        return -1;
    }
    return fd;
}

static int connect_net(const char *host, unsigned port, const char **ret_why)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    char service[16];
    int fd = -1;
    str_print(service, sizeof service, "%u", port);
    int failed = getaddrinfo(host, service, &want, &list);
    if (failed != 0) {
        *ret_why = gai_strerror(failed);
        return -1;
    }
    for (struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
            *ret_why = err_name(errno);
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd;
}

static const char *place_text(struct arena *a, const struct rendezvous_place *p)
{
    return p->socket != NULL ? arena_fmt(a, "the local socket '%s'", p->socket)
                             : arena_fmt(a, "%s:%u", p->host, p->port);
}

enum status rendezvous_connect(struct arena *a, const struct rendezvous_place *place,
                               double until_s, int *ret_fd, struct err *err)
{
    const char *why = "no answer";
    struct timespec pause = {0, RETRY_NS};
    char own[65] = "?";
    int fd = -1;
    gethostname(own, sizeof own - 1);
    for (;;) {
        if (place->socket != NULL) {
            fd = connect_local(place->socket);
            why = fd < 0 ? err_name(errno) : why;
        } else {
            fd = connect_net(place->host, place->port, &why);
        }
        if (fd >= 0) {
            break;
        }
        if (!(rendezvous_now_s() < until_s)) {
            return err_set(
                err, ST_ABSENT,
                "rank %d does not reach rank 0 at %s (%s): did rank 0 start, and is the port "
                "open between the machines?",
                place->rank, place_text(a, place), why);
        }
        nanosleep(&pause, NULL);
    }
    settle(fd);
    *ret_fd = fd;
    return rendezvous_write(fd,
                            str_of(arena_fmt(a, "hello %d %s %d %d %s", VERSION, place->key,
                                             place->rank, place->ranks, own)),
                            err);
}

/* Waits until some more can be sent. */
static enum status wait_for_room(int fd, double seconds, struct err *err)
{
    const double until = rendezvous_now_s() + seconds;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        double left = until - rendezvous_now_s();
        if (!(left > 0)) {
            return err_set(err, ST_IO, "the other side does not read what it is sent, for %.3g s",
                           seconds);
        }
        if (poll(&p, 1, (int)(left * 1000) + 1) > 0) {
            return ST_OK;
        }
    }
}

enum status rendezvous_write_within(int fd, struct str line, double seconds, struct err *err)
{
    struct str parts[] = {line, STR("\n")};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        while (parts[i].n != 0) {
            ssize_t n = send(fd, parts[i].p, parts[i].n,
                             MSG_NOSIGNAL | MSG_DONTWAIT | (i == 0 ? MSG_MORE : 0));
            if (n < 0 && errno == EINTR) {
                continue;
            }
            if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
                TRY(wait_for_room(fd, seconds, err));
                continue;
            }
            if (n <= 0) {
                return err_sys(err, errno, "the connection between the ranks broke");
            }
            parts[i] = str_slice(parts[i], (size_t)n, parts[i].n);
        }
    }
    return ST_OK;
}

enum status rendezvous_write(int fd, struct str line, struct err *err)
{
    return rendezvous_write_within(fd, line, WRITE_S, err);
}
