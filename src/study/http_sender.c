// SPDX-License-Identifier: Apache-2.0
/* See http_sender.h. One connection a message: they are few. */
#include "study/http_sender.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/socket.h>

enum {
    REPLY_MAX = 512,
    ADDRESSES = 4 /* of one name; each try takes the next */
};

struct message {
    struct arena *arena;
    struct str text; /* head and body */
};

struct address {
    struct sockaddr_storage to;
    socklen_t bytes;
};

struct http_sender {
    struct address addresses[ADDRESSES];
    size_t address_count;
    const char *host; /* with the port where the URL has one */
    const char *path;
    struct message queue[HTTP_QUEUE];
    size_t first, waiting;
    int fd; /* -1: no try runs */
    size_t sent;
    char reply[REPLY_MAX];
    size_t heard;
    unsigned tries; /* of the first message */
    int64_t began, not_before;
    struct http_sender_counts counts;
};

static int64_t now_ms(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool clean(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if ((unsigned char)s.p[i] <= 0x20 || s.p[i] == 0x7f) {
            return false;
        }
    }
    return true;
}

static enum status resolve(struct arena *a, struct http_sender *s, struct str authority,
                           struct err *err)
{
    size_t colon = SIZE_MAX;
    for (size_t i = 0; i < authority.n; i++) {
        colon = authority.p[i] == ':' ? i : authority.p[i] == ']' ? SIZE_MAX : colon;
    }
    struct str host = str_slice(authority, 0, colon == SIZE_MAX ? authority.n : colon);
    bool bracketed = host.n > 2 && host.p[0] == '[' && host.p[host.n - 1] == ']';
    const char *name = str_dup(a, bracketed ? str_slice(host, 1, host.n - 1) : host);
    uint64_t port = 80;
    if (host.n == 0 ||
        (colon != SIZE_MAX &&
         (str_to_u64(str_slice(authority, colon + 1, authority.n), 10, &port) != ST_OK ||
          port == 0 || port > 65535))) {
        return err_set(err, ST_USAGE, "'%.*s' is no host and port of a URL", STR_ARG(authority));
    }
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    int rc = getaddrinfo(name, arena_fmt(a, "%u", (unsigned)port), &hints, &list);
    if (rc != 0) {
        return err_set(err, ST_ABSENT, "cannot find the host '%s': %s", name, gai_strerror(rc));
    }
    for (const struct addrinfo *i = list; i != NULL && s->address_count < ADDRESSES;
         i = i->ai_next) {
        struct address *to = &s->addresses[s->address_count++];
        memcpy(&to->to, i->ai_addr, i->ai_addrlen);
        to->bytes = i->ai_addrlen;
    }
    freeaddrinfo(list);
    return ST_OK;
}

enum status http_sender_open(struct arena *a, const char *url, struct http_sender **ret_sender,
                             struct err *err)
{
    struct str s = str_of(url);
    if (str_starts(s, "https://")) {
        return err_set(err, ST_UNSUPPORTED,
                       "'%s': https is not supported; send to a relay on this machine over http, "
                       "which passes it on",
                       url);
    }
    if (!str_starts(s, "http://") || !clean(s)) {
        return err_set(err, ST_USAGE, "'%s' is no URL of the form http://HOST[:PORT]/PATH", url);
    }
    struct str rest = str_slice(s, 7, s.n);
    size_t slash = str_find_char(rest, '/', 0);
    struct str authority = str_slice(rest, 0, slash == SIZE_MAX ? rest.n : slash);
    struct http_sender *sender = arena_alloc(a, sizeof *sender);
    TRY(resolve(a, sender, authority, err));
    sender->host = str_dup(a, authority);
    sender->path = slash == SIZE_MAX ? "/" : str_dup(a, str_slice(rest, slash, rest.n));
    sender->fd = -1;
    *ret_sender = sender;
    return ST_OK;
}

void http_sender_push(struct http_sender *s, struct str body)
{
    if (s->waiting == HTTP_QUEUE || body.n > HTTP_MESSAGE_MAX) {
        s->counts.dropped++;
        return;
    }
    struct message *m = &s->queue[(s->first + s->waiting++) % HTTP_QUEUE];
    struct strbuf text;
    m->arena = arena_new(0);
    strbuf_init(&text, m->arena, HTTP_MESSAGE_MAX + 8192);
    strbuf_fmt(
        &text,
        "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: assay\r\nContent-Type: application/json\r\n"
        "Content-Length: %zu\r\nConnection: close\r\n\r\n",
        s->path, s->host, body.n);
    strbuf_add(&text, body);
    m->text = strbuf_str(&text);
}

bool http_sender_idle(const struct http_sender *s)
{
    return s->waiting == 0;
}

struct http_sender_counts http_sender_counts(const struct http_sender *s)
{
    return s->counts;
}

static void end_try(struct http_sender *s)
{
    if (s->fd >= 0) {
        close(s->fd);
        s->fd = -1;
    }
}

static void forget_first(struct http_sender *s)
{
    arena_free(s->queue[s->first].arena);
    s->first = (s->first + 1) % HTTP_QUEUE;
    s->waiting--;
    s->tries = 0;
    s->not_before = 0;
}

/* The try failed: another one later, or the message is given up. `problem` is static. */
static void fail(struct http_sender *s, const char *problem, bool final)
{
    end_try(s);
    s->counts.problem = problem;
    if (final || s->tries >= HTTP_TRIES) {
        s->counts.failed++;
        forget_first(s);
        return;
    }
    s->not_before = now_ms() + ((int64_t)HTTP_RETRY_MS << (s->tries - 1));
}

static void begin_try(struct http_sender *s)
{
    const struct address *to = &s->addresses[s->tries++ % s->address_count];
    s->sent = 0;
    s->heard = 0;
    s->began = now_ms();
    s->fd = socket(to->to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->fd < 0) {
        fail(s, "no socket", false);
    } else if (connect(s->fd, (const struct sockaddr *)&to->to, to->bytes) != 0 &&
               errno != EINPROGRESS) {
        fail(s, "the connection was refused", false);
    }
}

/* "HTTP/1.1 204 No Content": 2xx is done, 4xx will not become better, the rest may. */
static void judge_reply(struct http_sender *s)
{
    struct str line = {.p = s->reply, .n = s->heard};
    struct str version;
    uint64_t status;
    if (!str_cut(&line, ' ', &version) || !str_starts(version, "HTTP/1.") ||
        str_to_u64(str_slice(line, 0, 3), 10, &status) != ST_OK) {
        fail(s, "what answered does not speak HTTP", false);
    } else if (status >= 200 && status < 300) {
        end_try(s);
        s->counts.sent++;
        forget_first(s);
    } else {
        fail(s, status < 500 ? "the receiver refused it (3xx or 4xx)" : "the receiver failed (5xx)",
             status < 500);
    }
}

static void hear(struct http_sender *s)
{
    ssize_t n = recv(s->fd, s->reply + s->heard, sizeof s->reply - s->heard, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) {
        return;
    }
    s->heard += n > 0 ? (size_t)n : 0;
    bool line = memchr(s->reply, '\n', s->heard) != NULL || s->heard == sizeof s->reply;
    if (line || n <= 0) {
        judge_reply(s);
    }
}

static void say(struct http_sender *s)
{
    struct str rest = str_slice(s->queue[s->first].text, s->sent, s->queue[s->first].text.n);
    ssize_t n = send(s->fd, rest.p, rest.n, MSG_NOSIGNAL);
    if (n >= 0) {
        s->sent += (size_t)n;
    } else if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) {
        fail(s, errno == ECONNREFUSED ? "the connection was refused" : "the connection broke",
             false);
    }
}

void http_sender_step(struct http_sender *s, int wait_ms)
{
    if (s->waiting == 0) {
        return;
    }
    if (s->fd < 0) {
        if (now_ms() < s->not_before) {
            return;
        }
        begin_try(s);
        if (s->fd < 0) {
            return;
        }
    }
    bool saying = s->sent < s->queue[s->first].text.n;
    struct pollfd p = {.fd = s->fd, .events = (short)(saying ? POLLOUT : POLLIN)};
    if (poll(&p, 1, wait_ms) > 0 && p.revents != 0) {
        if (saying) {
            say(s);
        } else {
            hear(s);
        }
    }
    if (s->fd >= 0 && now_ms() - s->began > HTTP_TRY_MS) {
        fail(s, "no answer within five seconds", false);
    }
}

void http_sender_close(struct http_sender *s)
{
    if (s == NULL) {
        return;
    }
    end_try(s);
    while (s->waiting != 0) {
        forget_first(s);
    }
}
