// SPDX-License-Identifier: Apache-2.0
/* The head of an HTTP request: whole, and cut at every length, where the answer must not change for the
 * worse. */
#include <stdint.h>

#include "study/http_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void inside(struct str whole, struct str part)
{
    if (part.n != 0 && (part.p < whole.p || part.p + part.n > whole.p + whole.n) &&
        !str_is(part, "/")) {
        __builtin_trap();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct str text = {.p = (const char *)bytes, .n = n};
    struct http_request r;
    enum http_outcome got = http_request_parse(text, &r);
    if (got == HTTP_READY) {
        inside(text, r.path);
        inside(text, r.method);
        if (r.length == 0 || r.length > n || r.length > HTTP_HEAD_MAX || r.path.n == 0) {
            __builtin_trap();
        }
        /* What comes behind a request does not change it; without its last byte it is not whole. */
        struct http_request again;
        struct str head = str_slice(text, 0, r.length);
        if (http_request_parse(head, &again) != HTTP_READY || again.length != r.length ||
            http_request_parse(str_slice(text, 0, r.length - 1), &again) != HTTP_MORE) {
            __builtin_trap();
        }
    } else if (got == HTTP_BAD && (r.status < 400 || r.status > 599)) {
        __builtin_trap();
    } else if (got == HTTP_MORE && n >= HTTP_HEAD_MAX && n != 0 && text.p[0] != '\r' &&
               text.p[0] != '\n') {
        __builtin_trap();
    }
    return 0;
}
