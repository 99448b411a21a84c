// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/kernel_window.h"
#include "log_support.h"

/* A Xid at 100 s, one at 5000 s (its dump on two lines), one at 9000 s after boot. */
static const char kernel_log[] = "<4>[  100.000000] NVRM: Xid (PCI:0000:01:00): 79, old\n"
                                 "<4>[ 5000.000001] NVRM: Xid (PCI:0000:01:00): 48, now\n"
                                 "  continued\n"
                                 "<6>[ 9000.500000] NVRM: Xid (PCI:0000:01:00): 31, later\n";

static void assert_cut(struct log_times times, double utc_offset, const char *want, size_t left_out)
{
    const struct machine_clock clock = {.boot = 1000000, .utc_offset = utc_offset};
    struct kernel_window w = kernel_window_of(&times, &clock);
    size_t left;
    struct str text = kernel_window_cut(arena, str_of(kernel_log), &w, &left);
    assert_int_equal(left, left_out);
    for (const char *id = "79\0"
                          "48\0"
                          "31\0";
         *id != '\0'; id += 3) {
        char key[16];
        snprintf(key, sizeof key, "): %s,", id);
        assert_int_equal(str_has(text, key), strstr(want, id) != NULL);
    }
    assert_int_equal(str_has(text, "continued"), strstr(want, "48") != NULL);
}

static void old_xid_is_left_out_for_a_newer_run(void **state)
{
    (void)state;
    assert_cut((struct log_times){1004900, 1005100, 1005100}, 0, "48", 2);
    assert_cut((struct log_times){1004900, 1009000, NAN}, 0, "48 31", 1);
}

static void local_times_of_a_log_are_taken_for_both(void **state)
{
    (void)state;
    /* the text says 1012100 in a zone two hours east: 1004900 */
    assert_cut((struct log_times){1012100, 1012300, NAN}, 7200, "48 31", 1);
    assert_cut((struct log_times){1001300, 1001500, NAN}, -3600, "48", 2);
}

static void log_without_times_counts_from_the_boot_until_it_was_written(void **state)
{
    (void)state;
    assert_cut((struct log_times){NAN, NAN, 1005000}, 0, "79 48", 1);
    assert_cut((struct log_times){NAN, NAN, 900000}, 0, "", 4); /* written before this boot */
    assert_cut((struct log_times){NAN, NAN, NAN}, 0, "79 48 31", 0);
}

static void reader_knows_first_and_last_time_of_training_logs(void **state)
{
    (void)state;
    struct log_reader *r = log_reader_for_test(arena);
    assert_true(isnan(log_reader_times(r).first));
    log_add(r, "plain.log", STR("no times here\n"));
    assert_true(isnan(log_reader_times(r).last));
    log_add(r, "train.log",
            STR("header\n2026-01-02 00:00:10,000 start\nstep\n2026-01-02 00:01:00,000 end\n"));
    log_add(r, "rank1.log", STR("2026-01-01 23:59:00,000 start\nwithout\n"));
    struct log_times t = log_reader_times(r);
    assert_true(t.last - t.first == 120);
    log_reader_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_xid_is_left_out_for_a_newer_run),
        cmocka_unit_test(local_times_of_a_log_are_taken_for_both),
        cmocka_unit_test(log_without_times_counts_from_the_boot_until_it_was_written),
        cmocka_unit_test(reader_knows_first_and_last_time_of_training_logs),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
