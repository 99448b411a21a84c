// SPDX-License-Identifier: Apache-2.0
/* The server of the exporter: requests, answers, and clients that do not behave. */
#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#include "study/exposition.h"
#include "study/http_request.h"
#include "study/http_sender.h"
#include "study/http_server.h"
#include "unit.h"

static enum http_outcome parse(const char *text, struct http_request *r)
{
    return http_request_parse(str_of(text), r);
}

static void good_requests(void **state)
{
    (void)state;
    struct http_request r;
    assert_int_equal(parse("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", &r), HTTP_READY);
    assert_true(str_is(r.path, "/metrics") && r.keep_alive && !r.head && !r.openmetrics);
    assert_int_equal(r.length, 34);
    assert_int_equal(parse("\r\nHEAD /a?b=c HTTP/1.0\n\nGET", &r), HTTP_READY);
    assert_true(str_is(r.path, "/a") && !r.keep_alive && r.head);
    assert_int_equal(r.length, 24);
    assert_int_equal(parse("GET http://h:1/x HTTP/1.1\r\nConnection: Close\r\n\r\n", &r),
                     HTTP_READY);
    assert_true(str_is(r.path, "/x") && !r.keep_alive);
    assert_int_equal(parse("GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", &r), HTTP_READY);
}

static void unfinished_requests(void **state)
{
    (void)state;
    static const char whole[] = "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n";
    struct http_request r;
    for (size_t n = 0; n + 1 < sizeof whole; n++) {
        struct str part = {.p = whole, .n = n};
        /* "\n\n" would be an end, too: no prefix has it */
        assert_int_equal(http_request_parse(part, &r), HTTP_MORE);
    }
}

static void bad_requests(void **state)
{
    (void)state;

    static const struct {
        const char *text;
        int status;
    } rows[] = {
        {"\x16\x03\x01", 400}, /* TLS */
        {"get / HTTP/1.1\r\n\r\n", 405},
        {"GET /\r\n\r\n", 400},
        {"GET  / HTTP/1.1\r\n\r\n", 400},
        {"GET / HTTP/2.0\r\n\r\n", 505},
        {"GET / HTTP/1.1 x\r\n\r\n", 400},
        {"GET metrics HTTP/1.1\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\n\r\n", 405},
        {"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde", 413},
        {"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 413},
        {"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nX: a\001b\r\n\r\n", 400},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_request r;
        assert_int_equal(parse(rows[i].text, &r), HTTP_BAD);
        assert_int_equal(r.status, rows[i].status);
    }
    static char large[HTTP_HEAD_MAX + 100];
    memset(large, 'A', sizeof large);
    struct http_request r;
    assert_int_equal(http_request_parse((struct str){large, HTTP_HEAD_MAX - 1}, &r), HTTP_MORE);
    assert_int_equal(http_request_parse((struct str){large, HTTP_HEAD_MAX}, &r), HTTP_BAD);
    assert_int_equal(r.status, 431);
}

static void accept_is_negotiated(void **state)
{
    (void)state;

    static const struct {
        const char *accept;
        bool openmetrics;
    } rows[] = {
        {"*/*", false},
        {"text/plain", false},
        {"application/openmetrics-text", true},
        {"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
         true},
        {"application/openmetrics-text; q=0.2, text/plain; q=0.9", false},
        {"application/openmetrics-text;q=0", false},
        {"Application/OpenMetrics-Text ; Q=1", true},
        {"application/openmetrics-text;q=nan", false},
        {",,;,", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[300];
        struct http_request r;
        str_print(text, sizeof text, "GET / HTTP/1.1\r\nAccept: %s\r\n\r\n", rows[i].accept);
        assert_int_equal(parse(text, &r), HTTP_READY);
        assert_int_equal(r.openmetrics, rows[i].openmetrics);
    }
}

/* ---- the server ---- */

static void answer(void *ctx, const struct http_request *request, struct arena *a,
                   struct http_answer *ret_answer)
{
    size_t n = *(size_t *)ctx;
    char *body = arena_alloc(a, n + 1);
    memset(body, 'x', n);
    ret_answer->status = str_is(request->path, "/metrics") ? 200 : 404;
    ret_answer->body = (struct str){.p = body, .n = n};
}

struct stage {
    struct arena *arena;
    struct http_server *server;
    size_t body;
    int port;
};

static struct stage stage_open(void)
{
    struct stage s = {.arena = arena_new(0), .body = 5};
    return s;
}

static void stage_begin(struct stage *s)
{
    struct err err = {0};
    assert_int_equal(http_server_open(s->arena, "127.0.0.1:0", answer, &s->body, &s->server, &err),
                     ST_OK);
    uint64_t port;
    assert_int_equal(
        str_to_u64(str_of(strrchr(http_server_address(s->server), ':') + 1), 10, &port), ST_OK);
    s->port = (int)port;
}

static void stage_close(struct stage *s)
{
    http_server_close(s->server);
    arena_free(s->arena);
}

static int visit(const struct stage *s)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)s->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void steps(struct stage *s, int n)
{
    for (int i = 0; i < n; i++) {
        http_server_step(s->server, 5);
    }
}

/* What the server sent so far; *ret_closed when it hung up. */
static size_t hear(int fd, char *buffer, size_t size, bool *ret_closed)
{
    size_t have = 0;
    *ret_closed = false;
    while (have + 1 < size) {
        ssize_t n = recv(fd, buffer + have, size - 1 - have, MSG_DONTWAIT);
        if (n <= 0) {
            *ret_closed = n == 0;
            break;
        }
        have += (size_t)n;
    }
    buffer[have] = '\0';
    return have;
}

static void requests_in_a_row_on_one_connection(void **state)
{
    (void)state;
    struct stage s = stage_open();
    char got[4096];
    bool closed;
    stage_begin(&s);
    int fd = visit(&s);
    say(fd,
        "GET /metrics HTTP/1.1\r\n\r\nGET /other HTTP/1.1\r\n\r\nHEAD /metrics HTTP/1.1\r\n\r\nGE");
    steps(&s, 6);
    hear(fd, got, sizeof got, &closed);
    assert_non_null(strstr(got, "200 OK"));
    assert_non_null(strstr(got, "404 Not Found"));
    assert_int_equal(strlen(strrchr(got, '\n') + 1), 0); /* HEAD has no body */
    assert_false(closed);
    say(fd, "T /metrics HTTP/1.1\r\nConnection: close\r\n\r\n");
    steps(&s, 6);
    hear(fd, got, sizeof got, &closed);
    assert_non_null(strstr(got, "\r\n\r\nxxxxx"));
    assert_true(closed);
    assert_int_equal(http_server_counts(s.server).requests, 4);
    assert_int_equal(http_server_counts(s.server).clients, 0);
    close(fd);
    stage_close(&s);
}

static void rubbish_is_refused_and_others_are_served(void **state)
{
    (void)state;
    struct stage s = stage_open();
    char got[4096];
    bool closed;
    stage_begin(&s);
    int silent = visit(&s);
    int rude = visit(&s);
    int gone = visit(&s);
    int good = visit(&s);
    say(rude, "\x16\x03\x01\x02\x00\x01");
    say(gone, "GET /met");
    close(gone);
    say(good, "GET /metrics HTTP/1.1\r\n\r\n");
    steps(&s, 6);
    hear(rude, got, sizeof got, &closed);
    assert_non_null(strstr(got, "400 Bad Request"));
    assert_true(closed);
    assert_int_equal(http_server_counts(s.server).clients, 3);
    close(rude);
    steps(&s, 6);
    hear(good, got, sizeof got, &closed);
    assert_non_null(strstr(got, "200 OK"));
    struct http_counts c = http_server_counts(s.server);
    assert_int_equal(c.refused, 1);
    assert_int_equal(c.broken, 1);
    assert_int_equal(c.clients, 2);
    close(silent);
    close(good);
    stage_close(&s);
}

/* Ten times as many silent clients as there are places: the one that asks is answered. */
static void a_crowd_displaces_itself(void **state)
{
    (void)state;
    struct stage s = stage_open();
    char got[4096];
    bool closed;
    int crowd[HTTP_CLIENTS * 2];
    stage_begin(&s);
    for (size_t i = 0; i < ARRAY_LEN(crowd); i++) {
        crowd[i] = visit(&s);
        http_server_step(s.server, 5);
    }
    int good = visit(&s);
    say(good, "GET /metrics HTTP/1.1\r\n\r\n");
    steps(&s, 6);
    hear(good, got, sizeof got, &closed);
    assert_non_null(strstr(got, "200 OK"));
    assert_int_equal(http_server_counts(s.server).clients, HTTP_CLIENTS);
    assert_int_equal(http_server_counts(s.server).displaced, HTTP_CLIENTS + 1);
    for (size_t i = 0; i < ARRAY_LEN(crowd); i++) {
        close(crowd[i]);
    }
    close(good);
    stage_close(&s);
}

/* An answer of 8 MB that nobody takes must not hold up the next client; taken later it is whole. */
static void a_client_that_does_not_read(void **state)
{
    (void)state;
    struct stage s = stage_open();
    char got[65536];
    bool closed = false;
    s.body = 8 << 20;
    stage_begin(&s);
    int slow = visit(&s);
    say(slow, "GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n");
    steps(&s, 6);
    s.body = 5;
    int good = visit(&s);
    say(good, "GET /metrics HTTP/1.1\r\n\r\n");
    steps(&s, 6);
    hear(good, got, sizeof got, &closed);
    assert_non_null(strstr(got, "200 OK"));
    size_t taken = 0;
    for (int i = 0; i < 20000 && !closed; i++) {
        taken += hear(slow, got, sizeof got, &closed);
        http_server_step(s.server, 0);
    }
    assert_true(closed);
    assert_true(taken > 8 << 20 && taken < (8 << 20) + 400);
    close(slow);
    close(good);
    stage_close(&s);
}

static void addresses(void **state)
{
    (void)state;
    static const char *const bad[] = {"",        "127.0.0.1", "127.0.0.1:", "127.0.0.1:x",
                                      "h:65536", "::1:80",    ":-1"};
    struct arena *a = arena_new(0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct http_server *s;
        struct err err = {0};
        assert_int_equal(http_server_open(a, bad[i], answer, NULL, &s, &err), ST_USAGE);
        assert_non_null(strstr(err.text, "HOST:PORT"));
    }
    struct http_server *first;
    struct http_server *second;
    struct err err = {0};
    assert_int_equal(http_server_open(a, "127.0.0.1:0", answer, NULL, &first, &err), ST_OK);
    assert_int_equal(http_server_open(a, http_server_address(first), answer, NULL, &second, &err),
                     ST_IO);
    assert_non_null(strstr(err.text, "another program"));
    http_server_close(first);
    arena_free(a);
}

/* ---- the sender ---- */

static void urls(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct http_sender *s;
    struct err err = {0};
    assert_int_equal(http_sender_open(a, "https://x/", &s, &err), ST_UNSUPPORTED);
    static const char *const bad[] = {"",
                                      "x",
                                      "ftp://x/",
                                      "http://",
                                      "http://:80",
                                      "http://h:0/",
                                      "http://h:x/",
                                      "http://h/a b",
                                      "http://h/\r\nX: y"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(http_sender_open(a, bad[i], &s, &err), ST_USAGE);
    }
    assert_int_equal(http_sender_open(a, "http://127.0.0.1:9", &s, &err), ST_OK);
    assert_int_equal(http_sender_open(a, "http://[::1]:9/x?y", &s, &err), ST_OK);
    for (int i = 0; i < HTTP_QUEUE + 3; i++) {
        http_sender_push(s, STR("{}"));
    }
    assert_int_equal(http_sender_counts(s).dropped, 3);
    http_sender_close(s);
    assert_true(http_sender_idle(s));
    arena_free(a);
}

/* ---- the page ---- */

static void write_sample_page(struct exposition *x)
{
    exposition_family(x, EXPOSITION_INFO, "a_build", NULL, "Version.");
    exposition_sample(x, (const char *[]){"version", "1\"2\\3\n4\xff", NULL}, 1);
    exposition_family(x, EXPOSITION_COUNTER, "a_read_bytes", "bytes", "Bytes.");
    exposition_sample(x, (const char *[]){"run", "x", "kind", "y", NULL}, 12345678901.0);
    exposition_family(x, EXPOSITION_GAUGE, "a_nothing", NULL, "Has no sample.");
    exposition_family(x, EXPOSITION_GAUGE, "a_loss", NULL, "Loss.");
    exposition_sample(x, NULL, 0.125);
    exposition_sample(x, (const char *[]){"run", "n", NULL}, (double)NAN);
    exposition_sample(x, (const char *[]){"run", "i", NULL}, -(double)INFINITY);
    exposition_end(x);
}

static void both_formats(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct strbuf out;
    struct exposition x;
    strbuf_init(&out, a, 1 << 16);
    exposition_init(&x, &out, true);
    write_sample_page(&x);
    assert_string_equal(out.p,
                        "# HELP a_build Version.\n# TYPE a_build info\n"
                        "a_build_info{version=\"1\\\"2\\\\3\\n4\xef\xbf\xbd\"} 1\n"
                        "# UNIT a_read_bytes bytes\n# HELP a_read_bytes Bytes.\n"
                        "# TYPE a_read_bytes counter\n"
                        "a_read_bytes_total{run=\"x\",kind=\"y\"} 12345678901\n"
                        "# HELP a_loss Loss.\n# TYPE a_loss gauge\n"
                        "a_loss 0.125\na_loss{run=\"n\"} NaN\na_loss{run=\"i\"} -Inf\n# EOF\n");
    strbuf_clear(&out);
    exposition_init(&x, &out, false);
    write_sample_page(&x);
    assert_non_null(strstr(out.p, "# TYPE a_build_info gauge\n"));
    assert_non_null(strstr(out.p, "# TYPE a_read_bytes_total counter\na_read_bytes_total{"));
    assert_null(strstr(out.p, "UNIT"));
    assert_null(strstr(out.p, "EOF"));
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_requests),
        cmocka_unit_test(unfinished_requests),
        cmocka_unit_test(bad_requests),
        cmocka_unit_test(accept_is_negotiated),
        cmocka_unit_test(requests_in_a_row_on_one_connection),
        cmocka_unit_test(rubbish_is_refused_and_others_are_served),
        cmocka_unit_test(a_crowd_displaces_itself),
        cmocka_unit_test(a_client_that_does_not_read),
        cmocka_unit_test(addresses),
        cmocka_unit_test(urls),
        cmocka_unit_test(both_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
