// SPDX-License-Identifier: Apache-2.0
/*
 * A small HTTP server for a few pages: one thread, poll(2), fixed limits. A client that is slow, silent,
 * rude or gone costs its place for a few seconds, never another client's answer: when all places are
 * taken, the one who was quiet longest loses his.
 */
#ifndef ASSAY_STUDY_HTTP_SERVER_H
#define ASSAY_STUDY_HTTP_SERVER_H

#include "base/err.h"

#include "study/http_request.h"

enum {
    HTTP_CLIENTS = 64,
    HTTP_REQUEST_MS = 5000, /* from the first byte of a request to the end of its head */
    HTTP_IDLE_MS = 30000,   /* between requests of one connection */
    HTTP_ANSWER_MS = 10000, /* for taking an answer */
    HTTP_LEAVE_MS = 1000    /* for hanging up after an error */
};

struct http_answer {
    int status;
    const char *type; /* of the content */
    struct str body;  /* on the arena that the handler was given, or static */
};

/* Makes the answer; `a` lives until it was sent. */
typedef void (*http_handler)(void *ctx, const struct http_request *request, struct arena *a,
                             struct http_answer *ret_answer);

struct http_counts {
    uint64_t requests; /* answered by the handler */
    uint64_t refused;  /* answered with an error of ours: 400, 405, 413, 431, 505 */
    uint64_t timed_out;
    uint64_t displaced; /* lost its place to a newer client */
    uint64_t broken;    /* went away before the answer was out */
    unsigned clients;   /* now */
};

struct http_server;

/*
 * `address`: "127.0.0.1:9477", "[::1]:9477", "localhost:9477", ":9477" (all addresses), port 0 takes a
 * free one. ST_USAGE: not of that form; else what the system said.
 */
enum status http_server_open(struct arena *a, const char *address, http_handler handler, void *ctx,
                             struct http_server **ret_server, struct err *err) MUST_USE;

/* Waits at most `wait_ms` for something to do, and does what can be done without waiting. */
void http_server_step(struct http_server *s, int wait_ms);

/* "127.0.0.1:9477": where it really listens. */
const char *http_server_address(const struct http_server *s);

struct http_counts http_server_counts(const struct http_server *s);

void http_server_close(struct http_server *s); /* NULL is fine */

#endif
