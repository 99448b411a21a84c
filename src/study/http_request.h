// SPDX-License-Identifier: Apache-2.0
/*
 * The head of one HTTP/1.x request (RFC 9112), as far as a server of a few fixed pages needs it. The
 * bytes are a stranger's: nothing is copied, everything stays inside of them, a head longer than
 * HTTP_HEAD_MAX is refused.
 */
#ifndef ASSAY_STUDY_HTTP_REQUEST_H
#define ASSAY_STUDY_HTTP_REQUEST_H

#include <stdbool.h>

#include "base/str.h"

enum {
    HTTP_HEAD_MAX = 8192
};

enum http_outcome {
    HTTP_MORE = 0, /* no fault so far, and no end either */
    HTTP_READY,
    HTTP_BAD /* answer with `status` and close */
};

struct http_request {
    struct str method; /* GET or HEAD */
    struct str path;   /* without the query */
    bool head;
    bool keep_alive;
    bool openmetrics; /* Accept prefers application/openmetrics-text to text/plain */
    int status;       /* of HTTP_BAD: 400, 405, 413, 431 or 505 */
    size_t length;    /* of HTTP_READY: bytes of the head; the next request begins behind it */
};

/* A request with a body is refused (413): no page takes one. */
enum http_outcome http_request_parse(struct str bytes, struct http_request *ret_request);

/* "Not Found" of 404. */
const char *http_reason(int status);

#endif
