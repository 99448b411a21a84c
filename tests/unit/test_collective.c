// SPDX-License-Identifier: Apache-2.0
/* Data of collective trials, sizes, and the meeting of ranks under garbage. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#include "ops/collective_trial.h"
#include "ops/rendezvous.h"
#include "unit.h"

/* In any order: after each addition the running sum is what the type holds. */
static void sums_are_exact(void **state)
{
    static const enum dtype types[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32, DTYPE_I32};

    static const int ranks[] = {1, 2, 3, 8, 64, 129, 1000, 5000};
    (void)state;
    for (size_t t = 0; t < ARRAY_LEN(types); t++) {
        for (size_t n = 0; n < ARRAY_LEN(ranks); n++) {
            for (size_t i = 0; i < 40; i++) {
                double up = 0;
                double magnitude = 0; /* no partial sum of any order is larger */
                for (int r = 0; r < ranks[n]; r++) {
                    double v = collective_value(types[t], 7, ranks[n], r, i);
                    assert_true(dtype_round(types[t], v) == v);
                    magnitude += fabs(v);
                    up = dtype_round(types[t], up + v);
                }
                assert_true(dtype_round(types[t], magnitude) == magnitude);
                assert_true(magnitude <= 256 || types[t] != DTYPE_BF16);
                assert_true(up == collective_sum(types[t], 7, ranks[n], i));
            }
        }
    }
}

static void data_tell_ranks_and_trials_apart(void **state)
{
    size_t same_rank = 0;
    size_t same_trial = 0;
    size_t zero = 0;
    (void)state;
    for (size_t i = 0; i < COLLECTIVE_PERIOD; i++) {
        double v = collective_value(DTYPE_BF16, 3, 8, 1, i);
        same_rank += v == collective_value(DTYPE_BF16, 3, 8, 2, i);
        same_trial += v == collective_value(DTYPE_BF16, 4, 8, 1, i);
        zero += v == 0;
        assert_true(v == collective_value(DTYPE_BF16, 3, 8, 1, i + COLLECTIVE_PERIOD));
    }
    assert_true(same_rank < COLLECTIVE_PERIOD / 10 && same_trial < COLLECTIVE_PERIOD / 10);
    assert_true(zero < COLLECTIVE_PERIOD / 10);
}

static void sizes_and_factors(void **state)
{
    (void)state;
    assert_int_equal(collective_count(COLLECTIVE_ALL_REDUCE, 8, 4, 8), 2);
    assert_int_equal(collective_count(COLLECTIVE_ALL_REDUCE, 1 << 20, 4, 8), (1 << 18) - 1);
    assert_int_equal(collective_count(COLLECTIVE_ALL_GATHER, 1 << 20, 4, 8), (1 << 15) - 1);
    assert_int_equal(collective_count(COLLECTIVE_ALL_GATHER, 8, 4, 8), 1);
    assert_int_equal(collective_bytes(COLLECTIVE_ALL_GATHER, 10, 4, 8), 320);
    assert_int_equal(collective_bytes(COLLECTIVE_BROADCAST, 10, 4, 8), 40);
    assert_true(collective_bus_factor(COLLECTIVE_ALL_REDUCE, 8) == 1.75);
    assert_true(collective_bus_factor(COLLECTIVE_REDUCE_SCATTER, 8) == 0.875);
    assert_true(collective_bus_factor(COLLECTIVE_BROADCAST, 8) == 1);
}

static enum rendezvous_event next(struct rendezvous *r, int *rank, struct str *line)
{
    return rendezvous_next(r, rendezvous_now_s() + 2, rank, line);
}

static void strangers_are_turned_away(void **state)
{
    static const char *const garbage[] = {"GET / HTTP/1.1\r\n", "hello 1 other 1 2 x\n",
                                          "hello 1 k 2 2 x\n",  "hello 9 k 1 2 x\n",
                                          "hello 1 k 1\n",      "\n",
                                          "hello 1 k -1 2 x\n"};
    struct arena *a = arena_new(0);
    (void)state;
    struct err err = {0};
    struct rendezvous r;
    struct rendezvous_place place = {.key = "k", .rank = 0, .ranks = 2};
    struct rendezvous_place raw = place;
    int rank = -1;
    struct str line = {0};
    int fd;
    place.socket = raw.socket = arena_fmt(a, "assay-test-%d", (int)getpid());
    assert_int_equal(rendezvous_listen(a, &place, &r, &err), ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(garbage); i++) {
        raw.key = "stranger"; /* its hello is turned away, whatever follows */
        raw.rank = 1;
        assert_int_equal(rendezvous_connect(a, &raw, 0, &fd, &err), ST_OK);
        ssize_t n = send(fd, garbage[i], strlen(garbage[i]), MSG_NOSIGNAL);
        (void)n;
        assert_int_equal(rendezvous_next(&r, rendezvous_now_s() + 0.05, &rank, &line),
                         RENDEZVOUS_LATE);
        close(fd);
    }
    raw.key = "k";
    assert_int_equal(rendezvous_connect(a, &raw, 0, &fd, &err), ST_OK);
    assert_int_equal(next(&r, &rank, &line), RENDEZVOUS_CAME);
    assert_int_equal(rank, 1);
    /* The same rank again is a stranger. */
    int again;
    assert_int_equal(rendezvous_connect(a, &raw, 0, &again, &err), ST_OK);
    assert_int_equal(rendezvous_next(&r, rendezvous_now_s() + 0.05, &rank, &line), RENDEZVOUS_LATE);
    close(again);
    /* A long line in pieces, then two lines at once, then the end. */
    char *big = arena_alloc(a, 100001);
    memset(big, 'x', 100000);
    assert_int_equal(rendezvous_write(fd, str_of(big), &err), ST_OK);
    assert_int_equal(rendezvous_write(fd, STR("one"), &err), ST_OK);
    assert_int_equal(rendezvous_write(fd, STR("two"), &err), ST_OK);
    assert_int_equal(next(&r, &rank, &line), RENDEZVOUS_LINE);
    assert_int_equal(line.n, 100000);
    assert_int_equal(next(&r, &rank, &line), RENDEZVOUS_LINE);
    assert_true(str_is(line, "one"));
    assert_int_equal(next(&r, &rank, &line), RENDEZVOUS_LINE);
    assert_true(str_is(line, "two"));
    close(fd);
    assert_int_equal(next(&r, &rank, &line), RENDEZVOUS_GONE);
    rendezvous_close(&r);
    arena_free(a);
}

/* A rank that talks and never reads fills the socket: rank 0 must not wait for it for ever. */
static void a_rank_that_does_not_read_holds_nobody_up(void **state)
{
    enum {
        LINES_MAX = 100000
    };

    (void)state;
    struct arena *a = arena_new(0);
    struct err err = {0};
    struct rendezvous r;
    struct rendezvous_place place = {.key = "k", .rank = 0, .ranks = 2};
    struct rendezvous_place other = place;
    int rank = -1;
    struct str line = {0};
    int fd;
    place.socket = other.socket = arena_fmt(a, "assay-deaf-%d", (int)getpid());
    other.rank = 1;
    assert_int_equal(rendezvous_listen(a, &place, &r, &err), ST_OK);
    assert_int_equal(rendezvous_connect(a, &other, 0, &fd, &err), ST_OK);
    assert_int_equal(next(&r, &rank, &line), RENDEZVOUS_CAME);
    double began = rendezvous_now_s();
    enum status status = ST_OK;
    for (int i = 0; i < LINES_MAX && status == ST_OK; i++) {
        status = rendezvous_write_within(r.peers[1].fd, STR("go"), 0.2, &err);
    }
    assert_int_equal(status, ST_IO);
    assert_non_null(strstr(err.text, "does not read"));
    assert_true(rendezvous_now_s() - began < 60);
    close(fd);
    rendezvous_close(&r);
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_exact),
        cmocka_unit_test(data_tell_ranks_and_trials_apart),
        cmocka_unit_test(sizes_and_factors),
        cmocka_unit_test(strangers_are_turned_away),
        cmocka_unit_test(a_rank_that_does_not_read_holds_nobody_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
