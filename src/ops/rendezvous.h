// SPDX-License-Identifier: Apache-2.0
/*
 * Ranks of one job that talk to rank 0 in lines of text, over a Unix socket on one machine or TCP between machines.
 * The first line of a rank is "hello <version> <key> <rank> <ranks> <host>"; strangers with another key are turned
 * away. Nothing is encrypted: the key keeps two jobs apart, it is no password.
 */
#ifndef ASSAY_OPS_RENDEZVOUS_H
#define ASSAY_OPS_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum {
    RENDEZVOUS_RANKS_MAX = 16384,
    RENDEZVOUS_LINE_MAX = 16 << 20 /* bytes */
};

/* Where rank 0 waits, and who belongs to it. */
struct rendezvous_place {
    const char *socket; /* name of an abstract Unix socket; NULL: TCP */
    const char *host;   /* TCP: a name or an address of rank 0's machine */
    unsigned port;
    const char *key; /* no spaces */
    int rank, ranks;
};

struct rendezvous_peer {
    int fd; /* -1: has not come, or is gone */
    bool came;
    const char *host; /* as it names itself; "?" until it came */
    char *line;
    size_t filled, capacity;
    size_t taken; /* bytes at the start that were handed out */
};

struct pollfd;

struct rendezvous {
    struct arena *arena;
    struct rendezvous_place place;
    int listener;
    struct rendezvous_peer *peers;     /* ranks of them */
    int next;                          /* whose lines are looked at first */
    struct rendezvous_peer *strangers; /* have not said hello */
    size_t stranger_count;
    struct pollfd *fds; /* for poll(2), and whose they are */
    int *who;
};

/* Rank 0: opens the place. Ranks that come are taken in by next(). */
enum status rendezvous_listen(struct arena *a, const struct rendezvous_place *place,
                              struct rendezvous *ret_rendezvous, struct err *err) MUST_USE;

enum rendezvous_event {
    RENDEZVOUS_LINE = 0,
    RENDEZVOUS_CAME,
    RENDEZVOUS_GONE, /* its connection ended */
    RENDEZVOUS_LATE  /* nothing until `until_s` */
};

/* What happens next, until CLOCK_MONOTONIC says `until_s`. The line lives until the next call. */
enum rendezvous_event rendezvous_next(struct rendezvous *r, double until_s, int *ret_rank,
                                      struct str *ret_line);

/* One line, without its end. A rank that does not take it is gone. */
void rendezvous_send(struct rendezvous *r, int rank, const char *line);
void rendezvous_send_all(struct rendezvous *r, const char *line);
void rendezvous_close(struct rendezvous *r);

/* The other side: connects, tries again until `until_s`, says hello. ret_fd blocks. */
enum status rendezvous_connect(struct arena *a, const struct rendezvous_place *place,
                               double until_s, int *ret_fd, struct err *err) MUST_USE;

/* A line and its end over such a connection. ST_IO when it broke, or when the other side reads nothing for `seconds`
 * while the line waits; rendezvous_write() gives it a minute. */
enum status rendezvous_write_within(int fd, struct str line, double seconds,
                                    struct err *err) MUST_USE;
enum status rendezvous_write(int fd, struct str line, struct err *err) MUST_USE;

double rendezvous_now_s(void); /* CLOCK_MONOTONIC */

#endif
