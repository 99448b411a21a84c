// SPDX-License-Identifier: Apache-2.0
/*
 * Sends texts to one URL by POST, from a queue, without ever waiting: a receiver that is slow or gone
 * costs nothing but the message. Plain HTTP only; the name is resolved once, when the sender is made.
 */
#ifndef ASSAY_STUDY_HTTP_SENDER_H
#define ASSAY_STUDY_HTTP_SENDER_H

#include "base/err.h"
#include "base/str.h"

enum {
    HTTP_QUEUE = 64, /* messages that wait; more are dropped and counted */
    HTTP_MESSAGE_MAX = 65536,
    HTTP_TRIES = 4,      /* then a message is given up */
    HTTP_TRY_MS = 5000,  /* for one try */
    HTTP_RETRY_MS = 1000 /* before the second try; doubled for each further one */
};

struct http_sender;

struct http_sender_counts {
    uint64_t sent, failed, dropped;
    const char *problem; /* of the last try that failed, or NULL */
};

/* ST_USAGE: no http:// URL; ST_UNSUPPORTED: https; ST_ABSENT: the name does not resolve. */
enum status http_sender_open(struct arena *a, const char *url, struct http_sender **ret_sender,
                             struct err *err) MUST_USE;

/* Queues a JSON text. */
void http_sender_push(struct http_sender *s, struct str body);

/* Does what can be done now; waits at most `wait_ms` for the socket while a message is on its way. */
void http_sender_step(struct http_sender *s, int wait_ms);

/* Nothing is queued and nothing on its way. */
bool http_sender_idle(const struct http_sender *s);

struct http_sender_counts http_sender_counts(const struct http_sender *s);

void http_sender_close(struct http_sender *s); /* NULL is fine */

#endif
