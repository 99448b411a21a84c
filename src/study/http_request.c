// SPDX-License-Identifier: Apache-2.0
/* See http_request.h. */
#include "study/http_request.h"

#include <string.h>

const char *http_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } rows[] = {{200, "OK"},
                {400, "Bad Request"},
                {404, "Not Found"},
                {405, "Method Not Allowed"},
                {408, "Request Timeout"},
                {413, "Content Too Large"},
                {431, "Request Header Fields Too Large"},
                {503, "Service Unavailable"},
                {505, "HTTP Version Not Supported"}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].status == status) {
            return rows[i].reason;
        }
    }
    return "Error";
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool same(struct str a, const char *z)
{
    size_t n = strlen(z);
    if (a.n != n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (lower(a.p[i]) != z[i]) {
            return false;
        }
    }
    return true;
}

/* Characters of a method or field name: RFC 9110, 5.6.2. */
static bool is_token(struct str s)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool letter = (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9');
        if (!letter && (c == '\0' || strchr(marks, c) == NULL)) {
            return false;
        }
    }
    return s.n != 0;
}

static bool printable(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if ((unsigned char)s.p[i] < 0x20 && s.p[i] != '\t') {
            return false;
        }
    }
    return true;
}

static enum http_outcome bad(struct http_request *r, int status)
{
    r->status = status;
    return HTTP_BAD;
}

/* "GET /metrics?x HTTP/1.1" */
static int request_line(struct http_request *r, struct str line)
{
    struct str version;
    struct str target;
    if (!str_cut(&line, ' ', &r->method) || !str_cut(&line, ' ', &target) || !is_token(r->method)) {
        return 400;
    }
    version = line;
    if (target.n == 0 || !printable(target) || !str_starts(version, "HTTP/")) {
        return 400;
    }
    bool old = str_is(version, "HTTP/1.0");
    if (!old && !str_is(version, "HTTP/1.1")) {
        return version.n == 8 ? 505 : 400;
    }
    r->keep_alive = !old;
    r->head = str_is(r->method, "HEAD");
    if (!r->head && !str_is(r->method, "GET")) {
        return 405;
    }
    if (str_starts(target, "http://")) { /* as a proxy would be asked */
        size_t slash = str_find_char(target, '/', 7);
        target = slash == SIZE_MAX ? STR("/") : str_slice(target, slash, target.n);
    }
    size_t query = str_find_char(target, '?', 0);
    r->path = str_slice(target, 0, query == SIZE_MAX ? target.n : query);
    return r->path.n != 0 && r->path.p[0] == '/' ? 0 : 400;
}

/* Quality of one entry of Accept: ";q=0.5"; 1 without, 0 when it cannot be read. */
static double quality(struct str parameters)
{
    struct str part;
    while (str_cut(&parameters, ';', &part)) {
        part = str_trim(part);
        double q;
        if (part.n > 2 && lower(part.p[0]) == 'q' && part.p[1] == '=') {
            bool fine = str_to_double(str_slice(part, 2, part.n), &q) == ST_OK && q >= 0 && q <= 1;
            return fine ? q : 0;
        }
    }
    return 1;
}

static bool prefers_openmetrics(struct str accept)
{
    double open = 0;
    double plain = 0;
    struct str entry;
    while (str_cut(&accept, ',', &entry)) {
        struct str type;
        if (!str_cut(&entry, ';', &type)) {
            continue;
        }
        type = str_trim(type);
        double q = quality(entry);
        if (same(type, "application/openmetrics-text")) {
            open = q > open ? q : open;
        } else if (same(type, "text/plain")) {
            plain = q > plain ? q : plain;
        }
    }
    return open > 0 && open >= plain;
}

static int field(struct http_request *r, struct str line)
{
    size_t colon = str_find_char(line, ':', 0);
    if (colon == SIZE_MAX || !is_token(str_slice(line, 0, colon)) || !printable(line)) {
        return 400; /* a space before the colon and folded lines, too */
    }
    struct str name = str_slice(line, 0, colon);
    struct str value = str_trim(str_slice(line, colon + 1, line.n));
    uint64_t n;
    if (same(name, "transfer-encoding")) {
        return 413;
    }
    if (same(name, "content-length")) {
        return str_to_u64(value, 10, &n) != ST_OK ? 400 : n != 0 ? 413 : 0;
    }
    if (same(name, "connection")) {
        r->keep_alive = same(value, "close") ? false : same(value, "keep-alive") || r->keep_alive;
    } else if (same(name, "accept")) {
        r->openmetrics = prefers_openmetrics(value);
    }
    return 0;
}

/* Where the head ends (behind the empty line), or SIZE_MAX. */
static size_t head_end(struct str bytes)
{
    for (size_t at = str_find_char(bytes, '\n', 0); at != SIZE_MAX;
         at = str_find_char(bytes, '\n', at + 1)) {
        struct str rest = str_slice(bytes, at + 1, bytes.n);
        if (str_starts(rest, "\n")) {
            return at + 2;
        }
        if (str_starts(rest, "\r\n")) {
            return at + 3;
        }
    }
    return SIZE_MAX;
}

enum http_outcome http_request_parse(struct str bytes, struct http_request *ret_request)
{
    struct http_request *r = ret_request;
    *r = (struct http_request){.status = 400};
    size_t skipped = 0;
    while (skipped < bytes.n && (bytes.p[skipped] == '\r' || bytes.p[skipped] == '\n')) {
        skipped++; /* empty lines before a request: RFC 9112, 2.2 */
    }
    struct str head = str_slice(bytes, skipped, bytes.n);
    size_t end = head_end(head);
    if (end == SIZE_MAX) {
        /* What cannot become a request is refused at once, a long one when it is too long. */
        if (head.n != 0 && !(head.p[0] >= 'A' && head.p[0] <= 'Z')) {
            return bad(r, 400);
        }
        return bytes.n >= HTTP_HEAD_MAX ? bad(r, 431) : HTTP_MORE;
    }
    if (skipped + end > HTTP_HEAD_MAX) {
        return bad(r, 431);
    }
    struct str rest = str_slice(head, 0, end);
    struct str line;
    int fault = str_cut_line(&rest, &line) ? request_line(r, line) : 400;
    while (fault == 0 && str_cut_line(&rest, &line) && line.n != 0) {
        fault = field(r, line);
    }
    if (fault != 0) {
        return bad(r, fault);
    }
    r->length = skipped + end;
    return HTTP_READY;
}
