// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>

#include "log_support.h"

#define FAULT \
 "Memory access fault by GPU node-1 (Agent handle: 0x55) on address 0x7f0000. Reason: x."

static void empty_log_is_no_error(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(arena, "");
    assert_int_equal(lf->events.count, 0);
    assert_int_equal(lf->run.lines, 0);
    assert_false(lf->run.completed);
    assert_true(lf->has_train_log);
}

static void line_number_and_offset_point_at_the_line(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(arena, "one\ntwo\r\n" FAULT "\nend");
    const struct event *e = event_of_id(lf, "fault", 0);
    assert_int_equal(e->line, 3);
    assert_int_equal(e->offset, 9);
    assert_string_equal(e->text, FAULT);
    assert_capture(e, "node", "1");
    assert_capture(e, "address", "0x7f0000");
}

static void hit_without_its_capture_is_dropped(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(arena, "Memory access fault by GPU node-1 somewhere\n");
    assert_int_equal(log_facts_count(lf, "fault"), 0);
}

/* (?:x+x+)+ takes PCRE2 beyond its limit; no line here matches. */
static void expression_that_gives_up_is_no_match(void **state)
{
    (void)state;
    struct pattern patterns[] = {
        log_patterns[0],
        {.id = "benign", .regex = "(?:x+x+)+yes", .logs = LOG_ANY, .kind = PATTERN_BENIGN},
        {.id = "clear",
         .regex = "yes",
         .capture = "(?:x+x+)+yes",
         .logs = LOG_ANY,
         .kind = PATTERN_CLEAR},
        {.id = "other", .regex = "(?:x+x+)+yes", .logs = LOG_ANY, .kind = PATTERN_FAULT},
    };
    struct knowledge k = {.patterns = patterns, .patterns_count = ARRAY_LEN(patterns)};
    struct log_reader *r;
    struct err err;
    assert_int_equal(log_reader_new(arena, &k, NULL, &r, &err), ST_OK);
    log_add(r, "train.log",
            STR("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx yes " FAULT "\nxxxxxxyes\n"));
    const struct log_facts *lf = log_reader_facts(r);
    assert_int_equal(log_facts_count(lf, "fault"), 1);
    assert_int_equal(log_facts_count(lf, "benign"), 1);
    assert_int_equal(log_facts_count(lf, "other"), 0); /* the second line is benign */
    log_reader_free(r);
}

static void carriage_returns_make_pieces_but_no_lines(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(arena, "a\r 1%|x\r" FAULT "\r 2%|y\n" FAULT "\n");
    assert_int_equal(event_of_id(lf, "fault", 0)->line, 1);
    assert_int_equal(event_of_id(lf, "fault", 0)->offset, 8);
    assert_int_equal(event_of_id(lf, "fault", 1)->line, 2);
    assert_int_equal(lf->run.lines, 2);
}

static void a_last_line_without_an_end_is_counted(void **state)
{
    (void)state;
    assert_int_equal(log_of(arena, "x")->run.lines, 1);
    assert_int_equal(log_of(arena, "x\n")->run.lines, 1);
    assert_int_equal(log_of(arena, "x\ny")->run.lines, 2);
    assert_int_equal(log_of(arena, "\n")->run.lines, 1);
}

static void an_exception_whose_message_is_an_all_clear_is_an_exception(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(
        arena, "[rank0]: ValueError: no uncorrectable hardware errors detected, and yet\n"
               "ras: no uncorrectable hardware errors detected\n");
    assert_int_equal(log_facts_count(lf, "python-exception"), 1);
    assert_int_equal(log_facts_count(lf, "ecc-any"), 1);
    assert_int_equal(log_facts_count(lf, "ecc-clear"), 1);
}

static void colour_codes_inside_words_do_not_hide_a_fault(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(
        arena, "x\n\033[31mMemory access\033[0m fault \033]0;title\007by GPU no\033[1mde-7 (A)"
               " on address 0xab\033[K\nnext " FAULT "\n");
    const struct event *e = event_of_id(lf, "fault", 0);
    assert_int_equal(e->line, 2);
    assert_int_equal(e->offset, 2);
    assert_capture(e, "node", "7");
    assert_string_equal(e->text, "Memory access fault by GPU node-7 (A) on address 0xab");
    assert_int_equal(event_of_id(lf, "fault", 1)->line, 3);
}

static void all_clear_takes_the_line_from_every_pattern(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(arena,
                                        "no uncorrectable hardware errors detected in umc block\n"
                                        "1 uncorrectable hardware errors\n");
    assert_int_equal(log_facts_count(lf, "ecc-clear"), 1);
    assert_int_equal(log_facts_count(lf, "ecc-any"), 1);
    assert_int_equal(event_of_id(lf, "ecc-any", 0)->line, 2);
}

static void kernel_patterns_stay_out_of_training_logs(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(arena, "2 uncorrectable hardware errors detected\n");
    assert_int_equal(log_facts_count(lf, "ecc"), 0);
    lf = log_of(arena, "[    1.123456] amdgpu: start\n[    2.123456] amdgpu: 2 uncorrectable "
                       "hardware errors detected\n");
    assert_int_equal(log_facts_count(lf, "ecc"), 1); /* a kernel log by its looks */
    assert_true(lf->has_kernel_log);
}

static void match_over_a_line_break_is_no_match(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(arena, "version\n 1\n skew\nversion 1.2 skew\nKilled\n\n");
    assert_int_equal(log_facts_count(lf, "negated"), 1);
    assert_int_equal(event_of_id(lf, "negated", 0)->line, 4);
    assert_int_equal(event_of_id(lf, "killed", 0)->line, 5);
}

static void nuls_and_invalid_utf8_are_harmless(void **state)
{
    (void)state;
    static const char text[] = "\0\0\xff\xfe\x80\n\0" FAULT "\0\xc3\n\xf0\x9f";
    struct log_reader *r = log_reader_for_test(arena);
    log_add(r, "x", (struct str){.p = text, .n = sizeof text - 1});
    const struct log_facts *lf = log_reader_facts(r);
    log_reader_free(r);
    assert_int_equal(event_of_id(lf, "fault", 0)->line, 2);
    assert_non_null(strstr(event_of_id(lf, "fault", 0)->text, "Memory access fault"));
}

static void first_and_last_are_kept_and_the_count_is_exact(void **state)
{
    (void)state;
    struct strbuf b;
    strbuf_init(&b, arena, 1 << 22);
    for (int i = 0; i < 3000; i++) {
        strbuf_fmt(&b, "Memory access fault by GPU node-%d (A) on address 0x1\n", i);
    }
    const struct log_facts *lf = log_of(arena, b.p);
    assert_int_equal(log_facts_count(lf, "fault"), 3000);
    assert_int_equal(lf->events.count, EVENTS_FIRST + EVENTS_LAST);
    assert_capture(event_of_id(lf, "fault", 0), "node", "0");
    assert_capture(event_of_id(lf, "fault", -1), "node", "2999");
    assert_int_equal(event_of_id(lf, "fault", -1)->line, 3000);
}

/* Frames end somewhere inside this text; nothing may depend on where. */
static struct str long_text(size_t size)
{
    struct strbuf b;
    strbuf_init(&b, arena, size + 4096);
    unsigned seed = 1;
    while (b.n < size) {
        seed = seed * 1103515245u + 12345u;
        switch (seed >> 24 & 15) {
        case 0: strbuf_fmt(&b, FAULT " %u\r\n", seed); break;
        case 1:
            strbuf_fmt(&b, "\r %u%%|##| %u/99999 [00:01<00:02,  1.00s/it]", seed % 99,
                       b.n > 1 ? seed % 99999 : 0);
            break;
        case 2:
            strbuf_fmt(&b, "\033[32m{'loss': %u.5, 'grad_norm': 1.0}\033[0m\n", seed % 10);
            break;
        case 3:
            strbuf_addz(
                &b,
                "Traceback (most recent call last):\n  File \"/a/b.py\", line 3, in f\n    x()\nValueError: bad\n");
            break;
        case 4: strbuf_fmt(&b, "%0*d\n", (int)(seed >> 8 & 0x7fff), 7); break;
        default: strbuf_fmt(&b, "line %u of noise that nobody needs\n", seed); break;
        }
    }
    return strbuf_str(&b);
}

static void result_does_not_depend_on_chunk_sizes(void **state)
{
    (void)state;
    struct str text = long_text(3u << 20);
    const struct log_facts *want = NULL;
    static const size_t chunks[] = {SIZE_MAX, 65537, 4096, 977};
    for (size_t i = 0; i < ARRAY_LEN(chunks); i++) {
        struct log_reader *r = log_reader_for_test(arena);
        struct err err;
        assert_int_equal(log_reader_add_bytes(r, "x", text, chunks[i], false, &err), ST_OK);
        const struct log_facts *lf = log_reader_facts(r);
        log_reader_free(r);
        if (want == NULL) {
            want = lf;
            assert_true(log_facts_count(lf, "fault") > 100);
            assert_true(log_facts_count(lf, "python-exception") > 100);
            continue;
        }
        assert_int_equal(lf->events.count, want->events.count);
        for (size_t k = 0; k < lf->events.count; k++) {
            assert_int_equal(lf->events.items[k].line, want->events.items[k].line);
            assert_int_equal(lf->events.items[k].offset, want->events.items[k].offset);
            assert_string_equal(lf->events.items[k].text, want->events.items[k].text);
        }
        assert_int_equal(log_facts_count(lf, "fault"), log_facts_count(want, "fault"));
        assert_int_equal(series_of(lf, "loss")->stats.count, series_of(want, "loss")->stats.count);
        assert_int_equal(lf->run.lines, want->run.lines);
        assert_int_equal(lf->run.steps, want->run.steps);
    }
}

static void ten_megabyte_line_is_read_in_windows(void **state)
{
    (void)state;
    size_t n = 10u << 20;
    char *text = arena_alloc(arena, n + 1);
    memset(text, 'a', n);
    static const size_t at[] = {0, 5000, (1u << 20) - 40, (1u << 20) - 8192, 5u << 20};
    for (size_t i = 0; i < ARRAY_LEN(at); i++) {
        memcpy(text + at[i], "Watchdog caught collective operation timeout", 44);
    }
    memcpy(text + (7u << 20), FAULT, sizeof FAULT - 1);
    struct log_reader *r = log_reader_for_test(arena);
    log_add(r, "x", (struct str){.p = text, .n = n});
    const struct log_facts *lf = log_reader_facts(r);
    log_reader_free(r);
    assert_int_equal(log_facts_count(lf, "watchdog"), 1); /* one line, one event */
    assert_int_equal(log_facts_count(lf, "fault"), 1);
    assert_capture(event_of_id(lf, "fault", 0), "address", "0x7f0000");
    assert_true(strlen(event_of_id(lf, "fault", 0)->text) <= 2000);
    assert_int_equal(event_of_id(lf, "fault", 0)->line, 1);
}

static void interleaved_ranks_keep_their_own_tracebacks(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(
        arena, "[rank1]: Traceback (most recent call last):\n"
               "[rank0]: Traceback (most recent call last):\n"
               "[rank1]:   File \"/v/site-packages/trl/x.py\", line 3, in step\n"
               "[rank0]:   File \"/home/u/train.py\", line 9, in <module>\n"
               "[rank1]:     boom()\n"
               "[rank1]: ValueError: one\n"
               "[rank0]: RuntimeError: zero\n");
    assert_int_equal(log_facts_count(lf, "python-exception"), 2);
    const struct event *first = event_of_id(lf, "python-exception", 0);
    assert_int_equal(first->rank, 1);
    assert_capture(first, "type", "ValueError");
    assert_capture(first, "module", "trl");
    assert_capture(event_of_id(lf, "python-exception", 1), "module", "train");
    assert_string_equal(lf->run.first_failed_rank, "1");
    assert_int_equal(lf->run.ranks, 2);
}

static void files_with_times_are_merged_by_time(void **state)
{
    (void)state;
    struct log_reader *r = log_reader_for_test(arena);
    log_add(r, "rank_0.log", STR("2025-05-05 10:00:05,000 " FAULT "\n"));
    log_add(r, "rank_1.log",
            STR("2025-05-05 10:00:01,000 " FAULT "\nWatchdog caught collective "
                "operation timeout\n"));
    const struct log_facts *lf = log_reader_facts(r);
    log_reader_free(r);
    assert_int_equal(lf->events.items[0].rank, 1);
    assert_string_equal(lf->events.items[1].pattern->id, "watchdog");
    assert_int_equal(lf->events.items[2].rank, 0);
    assert_int_equal(lf->events.items[2].order, 2);
}

static bool take_one(void *ctx, const struct event *const *events, size_t count)
{
    size_t *seen = ctx;
    assert_string_equal(events[0]->pattern->id, "fault");
    *seen += count;
    return false;
}

static void following_gives_new_events_and_ends_when_told(void **state)
{
    (void)state;
    char path[] = "/tmp/assay-follow-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, FAULT "\npartial", sizeof FAULT + 7), (ssize_t)sizeof FAULT + 7);
    struct log_reader *r = log_reader_for_test(arena);
    size_t seen = 0;
    struct log_follower follower = {.ctx = &seen, .fresh = take_one};
    struct err err;
    assert_int_equal(log_reader_follow(r, path, false, &follower, &err), ST_OK);
    assert_int_equal(seen, 1);
    log_reader_free(r);
    close(fd);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_log_is_no_error),
        cmocka_unit_test(line_number_and_offset_point_at_the_line),
        cmocka_unit_test(hit_without_its_capture_is_dropped),
        cmocka_unit_test(expression_that_gives_up_is_no_match),
        cmocka_unit_test(carriage_returns_make_pieces_but_no_lines),
        cmocka_unit_test(a_last_line_without_an_end_is_counted),
        cmocka_unit_test(an_exception_whose_message_is_an_all_clear_is_an_exception),
        cmocka_unit_test(colour_codes_inside_words_do_not_hide_a_fault),
        cmocka_unit_test(all_clear_takes_the_line_from_every_pattern),
        cmocka_unit_test(kernel_patterns_stay_out_of_training_logs),
        cmocka_unit_test(match_over_a_line_break_is_no_match),
        cmocka_unit_test(nuls_and_invalid_utf8_are_harmless),
        cmocka_unit_test(first_and_last_are_kept_and_the_count_is_exact),
        cmocka_unit_test(result_does_not_depend_on_chunk_sizes),
        cmocka_unit_test(ten_megabyte_line_is_read_in_windows),
        cmocka_unit_test(interleaved_ranks_keep_their_own_tracebacks),
        cmocka_unit_test(files_with_times_are_merged_by_time),
        cmocka_unit_test(following_gives_new_events_and_ends_when_told),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
