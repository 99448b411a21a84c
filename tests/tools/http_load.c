// SPDX-License-Identifier: Apache-2.0
/*
 * Asks a page again and again at a fixed rate and says what was reached: http_load HOST PORT PATH RATE
 * SECONDS [CONNECTIONS]. Requests that are due while all connections are busy wait for one: the time of an
 * answer counts from when it was due.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/socket.h>

#include "base/arena.h"
#include "base/str.h"

enum {
    CONNECTIONS_MAX = 64,
    HEAD_MAX = 4096,
    TIMES_MAX = 4000000
};

struct connection {
    int fd;
    bool busy;
    double due;
    char head[HEAD_MAX];
    size_t have; /* of the head */
    size_t body_left;
    bool in_body;
};

struct load {
    struct connection items[CONNECTIONS_MAX];
    size_t count;
    struct addrinfo *where;
    char request[512];
    double *times;
    size_t done, failed, bytes;
};

static double now_s(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void reopen(struct load *l, struct connection *c)
{
    if (c->fd >= 0) {
        close(c->fd);
    }
    c->busy = false;
    c->fd = socket(l->where->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd >= 0 && connect(c->fd, l->where->ai_addr, l->where->ai_addrlen) != 0) {
        close(c->fd);
        c->fd = -1;
    }
}

static void ask(struct load *l, struct connection *c, double due)
{
    size_t n = strlen(l->request);
    c->have = 0;
    c->in_body = false;
    c->due = due;
    c->busy = c->fd >= 0 && send(c->fd, l->request, n, MSG_NOSIGNAL) == (ssize_t)n;
    if (!c->busy) {
        l->failed++;
        reopen(l, c);
    }
}

/* The head is whole: how long is the body? False when the answer is not 200. */
static bool read_head(struct connection *c, size_t *ret_end)
{
    struct str head = {.p = c->head, .n = c->have};
    size_t end = str_find(head, "\r\n\r\n", 0);
    size_t at = str_find(head, "Content-Length: ", 0);
    if (end == SIZE_MAX) {
        *ret_end = 0;
        return c->have < HEAD_MAX;
    }
    uint64_t length;
    struct str rest = str_slice(head, at == SIZE_MAX ? end : at + 16, end);
    struct str digits;
    *ret_end = end + 4;
    if (!str_starts(head, "HTTP/1.1 200 ") || !str_cut(&rest, '\r', &digits) ||
        str_to_u64(digits, 10, &length) != ST_OK) {
        return false;
    }
    c->in_body = true;
    c->body_left = length;
    return true;
}

static void hear(struct load *l, struct connection *c)
{
    static char buffer[65536];
    char *to = c->in_body ? buffer : c->head + c->have;
    size_t room = c->in_body ? sizeof buffer : HEAD_MAX - c->have;
    ssize_t n = recv(c->fd, to, room, 0);
    bool fine = n > 0;
    if (fine && !c->in_body) {
        size_t end;
        c->have += (size_t)n;
        fine = read_head(c, &end);
        if (fine && c->in_body) {
            size_t early = c->have - end;
            fine = early <= c->body_left;
            c->body_left -= fine ? early : 0;
        }
    } else if (fine) {
        fine = (size_t)n <= c->body_left;
        c->body_left -= fine ? (size_t)n : 0;
    }
    if (!fine) {
        l->failed++;
        reopen(l, c);
        return;
    }
    l->bytes += (size_t)n;
    if (c->in_body && c->body_left == 0) {
        c->busy = false;
        if (l->done < TIMES_MAX) {
            l->times[l->done] = now_s() - c->due;
        }
        l->done++;
    }
}

static void step(struct load *l)
{
    struct pollfd fds[CONNECTIONS_MAX];
    for (size_t i = 0; i < l->count; i++) {
        fds[i] = (struct pollfd){.fd = l->items[i].busy ? l->items[i].fd : -1, .events = POLLIN};
    }
    if (poll(fds, l->count, 1) <= 0) {
        return;
    }
    for (size_t i = 0; i < l->count; i++) {
        if (fds[i].revents != 0) {
            hear(l, &l->items[i]);
        }
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void play(struct load *l, double rate, double seconds)
{
    double begin = now_s();
    double end = begin + seconds;
    uint64_t asked = 0;
    double now = begin;
    while (now < end) {
        for (size_t i = 0; i < l->count; i++) {
            double due = begin + (double)asked / rate;
            if (!l->items[i].busy && due <= now) {
                ask(l, &l->items[i], due);
                asked++;
            }
        }
        step(l);
        now = now_s();
    }
    double took = now_s() - begin;
    size_t n = l->done < TIMES_MAX ? l->done : TIMES_MAX;
    qsort(l->times, n, sizeof *l->times, compare);
    printf(
        "asked %.0f a second for %.0f s over %zu connections: %zu answers, %.0f a second, %zu failed, "
        "%.0f MB; time of an answer: median %.2f ms, 99 %% %.2f ms, longest %.2f ms\n",
        rate, seconds, l->count, l->done, (double)l->done / took, l->failed, (double)l->bytes / 1e6,
        n != 0 ? l->times[n / 2] * 1e3 : 0, n != 0 ? l->times[n * 99 / 100] * 1e3 : 0,
        n != 0 ? l->times[n - 1] * 1e3 : 0);
}

int main(int argc, char **argv)
{
    struct load l = {.count = 8};
    double rate;
    double seconds;
    uint64_t connections = 8;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    if (argc < 6 || str_to_double(str_of(argv[4]), &rate) != ST_OK || !(rate > 0) ||
        str_to_double(str_of(argv[5]), &seconds) != ST_OK || !(seconds > 0) ||
        (argc > 6 && str_to_u64(str_of(argv[6]), 10, &connections) != ST_OK) || connections == 0 ||
        connections > CONNECTIONS_MAX || getaddrinfo(argv[1], argv[2], &hints, &l.where) != 0) {
        fprintf(stderr, "usage: http_load HOST PORT PATH RATE SECONDS [CONNECTIONS]\n");
        return 64;
    }
    struct arena *a = arena_new(0);
    l.count = (size_t)connections;
    l.times = arena_array(a, TIMES_MAX, sizeof *l.times);
    snprintf(l.request, sizeof l.request, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", argv[3], argv[1]);
    for (size_t i = 0; i < l.count; i++) {
        l.items[i].fd = -1;
        reopen(&l, &l.items[i]);
    }
    play(&l, rate, seconds);
    freeaddrinfo(l.where);
    arena_free(a);
    return l.failed == 0 && l.done != 0 ? 0 : 1;
}
