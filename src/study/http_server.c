// SPDX-License-Identifier: Apache-2.0
/* See http_server.h. */
#include "study/http_server.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/socket.h>

enum {
    BACKLOG = 128,
    HEAD_MAX = 512, /* of an answer */
    ACCEPTS = 32    /* new clients a step */
};

struct client {
    int fd;        /* -1: the place is free */
    int64_t since; /* of the state it is in, milliseconds */
    size_t have;
    char bytes[HTTP_HEAD_MAX];
    struct arena *arena; /* of the answer; NULL while none is on its way */
    struct str head, body;
    size_t sent;
    bool close;   /* after the answer */
    bool refused; /* the answer is an error of ours */
    bool leaving; /* it was sent: what still comes is thrown away */
};

struct http_server {
    int fd;
    const char *address;
    http_handler handler;
    void *ctx;
    struct http_counts counts;
    struct client clients[HTTP_CLIENTS];
};

static int64_t now_ms(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- opening ---- */

/* "host:port", "[v6]:port", ":port". */
static enum status split_address(struct arena *a, const char *address, const char **ret_host,
                                 const char **ret_port, struct err *err)
{
    struct str s = str_of(address);
    size_t colon = SIZE_MAX;
    for (size_t i = 0; i < s.n; i++) {
        colon = s.p[i] == ':' ? i : colon;
    }
    struct str host = str_slice(s, 0, colon != SIZE_MAX ? colon : 0);
    bool bracketed = host.n >= 2 && host.p[0] == '[' && host.p[host.n - 1] == ']';
    host = bracketed ? str_slice(host, 1, host.n - 1) : host;
    uint64_t port;
    if (colon == SIZE_MAX || str_to_u64(str_slice(s, colon + 1, s.n), 10, &port) != ST_OK ||
        port > 65535 || (!bracketed && str_find_char(host, ':', 0) != SIZE_MAX)) {
        return err_set(
            err, ST_USAGE,
            "'%s' is no address to listen on: HOST:PORT is expected, such as 127.0.0.1:9477 "
            "or [::1]:9477",
            address);
    }
    *ret_host = host.n != 0 ? str_dup(a, host) : NULL;
    *ret_port = arena_fmt(a, "%u", (unsigned)port);
    return ST_OK;
}

static int listen_on(const struct addrinfo *where)
{
    int fd = socket(where->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1;
    if (fd < 0) {
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, where->ai_addr, where->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        int saved = errno;
        close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

static const char *name_of(struct arena *a, int fd)
{
    struct sockaddr_storage where;
    socklen_t n = sizeof where;
    char host[128];
    char port[16];
    if (getsockname(fd, (struct sockaddr *)&where, &n) != 0 ||
        getnameinfo((struct sockaddr *)&where, n, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return "?";
    }
    return arena_fmt(a, strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host, port);
}

enum status http_server_open(struct arena *a, const char *address, http_handler handler, void *ctx,
                             struct http_server **ret_server, struct err *err)
{
    const char *host = NULL;
    const char *port = NULL;
    TRY(split_address(a, address, &host, &port, err));
    const struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
                                   .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int rc = getaddrinfo(host, port, &hints, &list);
    if (rc != 0) {
        return err_set(err, ST_ABSENT, "cannot listen on '%s': %s", address, gai_strerror(rc));
    }
    int fd = -1;
    for (const struct addrinfo *i = list; i != NULL && fd < 0; i = i->ai_next) {
        fd = listen_on(i);
    }
    int saved = errno;
    freeaddrinfo(list);
    if (fd < 0) {
        return err_sys(err, saved, "cannot listen on '%s'%s", address,
                       saved == EADDRINUSE ? " (another program does; --listen takes another port)"
                                           : "");
    }
    struct http_server *s = arena_alloc(a, sizeof *s);
    s->fd = fd;
    s->address = name_of(a, fd);
    s->handler = handler;
    s->ctx = ctx;
    for (size_t i = 0; i < HTTP_CLIENTS; i++) {
        s->clients[i].fd = -1;
    }
    *ret_server = s;
    return ST_OK;
}

const char *http_server_address(const struct http_server *s)
{
    return s->address;
}

struct http_counts http_server_counts(const struct http_server *s)
{
    return s->counts;
}

/* ---- clients ---- */

static void drop(struct http_server *s, struct client *c)
{
    close(c->fd);
    arena_free(c->arena);
    c->arena = NULL;
    c->fd = -1;
    s->counts.clients--;
}

/* Closes behind an answer. Bytes that nobody read would make the system reset the connection, and the
 * answer with it: what a refused client still says is heard for a moment. */
static void bid_farewell(struct http_server *s, struct client *c)
{
    shutdown(c->fd, SHUT_WR);
    if (!c->refused) {
        drop(s, c);
        return;
    }
    c->leaving = true;
    c->since = now_ms();
    c->have = 0;
}

static struct client *place(struct http_server *s)
{
    struct client *oldest = &s->clients[0];
    for (size_t i = 0; i < HTTP_CLIENTS; i++) {
        struct client *c = &s->clients[i];
        if (c->fd < 0) {
            return c;
        }
        oldest = c->since < oldest->since ? c : oldest;
    }
    s->counts.displaced++;
    drop(s, oldest);
    return oldest;
}

static void welcome(struct http_server *s)
{
    for (int i = 0; i < ACCEPTS; i++) {
        int fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            return; /* none waits, or no descriptor is left: the next step tries again */
        }
        struct client *c = place(s);
        c->fd = fd;
        c->since = now_ms();
        c->have = 0;
        c->close = false;
        c->refused = false;
        c->leaving = false;
        s->counts.clients++;
    }
}

static void begin_answer(struct client *c, const struct http_answer *answer, bool only_head)
{
    char *head = arena_alloc(c->arena, HEAD_MAX);
    str_print(
        head, HEAD_MAX,
        "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%sConnection: %s\r\n\r\n",
        answer->status, http_reason(answer->status), answer->type, answer->body.n,
        answer->status == 405 ? "Allow: GET, HEAD\r\n" : "", c->close ? "close" : "keep-alive");
    c->head = str_of(head);
    c->body = only_head ? STR("") : answer->body;
    c->sent = 0;
    c->since = now_ms();
}

/* Sends what the socket takes. False when the client is gone. */
static bool send_some(struct client *c)
{
    while (c->sent < c->head.n + c->body.n) {
        bool in_head = c->sent < c->head.n;
        struct str rest = in_head ? str_slice(c->head, c->sent, c->head.n)
                                  : str_slice(c->body, c->sent - c->head.n, c->body.n);
        int more = in_head && c->body.n != 0 ? MSG_MORE : 0;
        ssize_t n = send(c->fd, rest.p, rest.n, MSG_NOSIGNAL | more);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return errno == EAGAIN || errno == EWOULDBLOCK;
        }
        c->sent += (size_t)n;
    }
    return true;
}

/* Answers requests that are whole, one after another, as far as the socket takes the answers. */
static void serve(struct http_server *s, struct client *c)
{
    for (;;) {
        if (c->arena != NULL) {
            if (!send_some(c)) {
                s->counts.broken++;
                drop(s, c);
                return;
            }
            if (c->sent < c->head.n + c->body.n) {
                return;
            }
            arena_free(c->arena);
            c->arena = NULL;
            c->since = now_ms();
            if (c->close) {
                bid_farewell(s, c);
                return;
            }
        }
        struct http_request request;
        enum http_outcome got = http_request_parse((struct str){.p = c->bytes, .n = c->have},
                                                   &request);
        if (got == HTTP_MORE) {
            return;
        }
        struct http_answer answer = {
            .status = request.status, .type = "text/plain; charset=utf-8", .body = STR("")};
        c->arena = arena_new(0);
        if (got == HTTP_READY) {
            s->counts.requests++;
            c->close = !request.keep_alive;
            s->handler(s->ctx, &request, c->arena, &answer);
        } else {
            s->counts.refused++;
            c->refused = true;
            c->close = true;
            answer.body = str_of(http_reason(request.status));
        }
        begin_answer(c, &answer, got == HTTP_READY && request.head);
        size_t used = got == HTTP_READY ? request.length : c->have;
        memmove(c->bytes, c->bytes + used, c->have - used);
        c->have -= used;
    }
}

static void hear(struct http_server *s, struct client *c)
{
    ssize_t n = recv(c->fd, c->bytes + c->have, sizeof c->bytes - c->have, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) {
        return;
    }
    if (n <= 0) {
        s->counts.broken += c->have != 0;
        drop(s, c);
        return;
    }
    if (c->leaving) {
        return;
    }
    if (c->have == 0) {
        c->since = now_ms();
    }
    c->have += (size_t)n;
    serve(s, c);
}

/* True when the client had its time. A drip of bytes does not prolong it. */
static bool expired(struct http_server *s, struct client *c, int64_t now)
{
    int64_t limit = c->leaving         ? HTTP_LEAVE_MS
                    : c->arena != NULL ? HTTP_ANSWER_MS
                    : c->have != 0     ? HTTP_REQUEST_MS
                                       : HTTP_IDLE_MS;
    if (now - c->since <= limit) {
        return false;
    }
    s->counts.timed_out += !c->leaving;
    drop(s, c);
    return true;
}

void http_server_step(struct http_server *s, int wait_ms)
{
    struct pollfd fds[HTTP_CLIENTS + 1] = {{.fd = s->fd, .events = POLLIN}};
    for (size_t i = 0; i < HTTP_CLIENTS; i++) {
        const struct client *c = &s->clients[i];
        fds[i + 1] = (struct pollfd){
            .fd = c->fd, .events = (short)(c->fd >= 0 && c->arena != NULL ? POLLOUT : POLLIN)};
    }
    int n = poll(fds, HTTP_CLIENTS + 1, wait_ms);
    int64_t now = now_ms();
    for (size_t i = 0; i < HTTP_CLIENTS; i++) {
        struct client *c = &s->clients[i];
        if (c->fd < 0 || expired(s, c, now)) {
            continue;
        }
        short seen = n > 0 ? fds[i + 1].revents : 0;
        if ((seen & POLLOUT) != 0 || (c->arena != NULL && (seen & (POLLERR | POLLHUP)) != 0)) {
            serve(s, c);
        } else if (seen != 0) {
            hear(s, c);
        }
    }
    /* Last: a place that is given to a new client has no events of the old one left. */
    if (n > 0 && (fds[0].revents & POLLIN) != 0) {
        welcome(s);
    }
}

void http_server_close(struct http_server *s)
{
    if (s == NULL) {
        return;
    }
    for (size_t i = 0; i < HTTP_CLIENTS; i++) {
        if (s->clients[i].fd >= 0) {
            drop(s, &s->clients[i]);
        }
    }
    close(s->fd);
}
