// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "diagnosis/prefix.h"
#include "unit.h"

/* 2025-05-05 10:00:01 UTC */
#define MAY5 1746439201.0

static void assert_prefix(const char *line, double time, int rank, const char *body)
{
    struct prefix p = prefix_parse(str_of(line), 2025);
    if (isnan(time) ? !isnan(p.time) : !(fabs(p.time - time) < 0.0005)) {
        fail_msg("'%s': time %.3f, expected %.3f", line, p.time, time);
    }
    if (p.rank != rank || !str_is(p.body, body)) {
        fail_msg("'%s': rank %d body '%.*s', expected %d '%s'", line, p.rank, STR_ARG(p.body), rank,
                 body);
    }
}

static void launchers_give_ranks(void **state)
{
    (void)state;
    assert_prefix("[rank3]:     raise x", NAN, 3, "    raise x");
    assert_prefix("[rank3]: ValueError: x", NAN, 3, "ValueError: x");
    assert_prefix("[default12]: x", NAN, 12, "x");
    assert_prefix("[default0]:[rank5]: x", NAN, 0, "x");
    assert_prefix("7: x", NAN, 7, "x");
    assert_prefix("[1,3]<stderr>:x", NAN, 3, "x");
    assert_prefix("(RayTrainWorker pid=123, ip=10.0.0.1) [rank2]: x", NAN, 2, "x");
    assert_prefix("[Rank 4] Watchdog", NAN, 4, "Watchdog");
    assert_prefix("> > [rank3]:   File x", NAN, 3, "  File x");
    assert_prefix("trainer-1  |   File x", NAN, -1, "  File x");
    assert_prefix("my_job_2 | x", NAN, -1, "x");
    assert_prefix("worker-0: [rank2]:   File x", NAN, 2, "  File x");
    assert_prefix("10.0.0.4: ValueError: x", NAN, -1, "ValueError: x");
    assert_prefix("worker-1: Traceback (most recent call last):", NAN, -1,
                  "Traceback (most recent call last):");
    assert_prefix("epoch-1: loss 2.0", NAN, -1, "epoch-1: loss 2.0");
    assert_prefix("libx.so.1: cannot open", NAN, -1, "libx.so.1: cannot open");
    assert_prefix("loss | 2.0", NAN, -1, "loss | 2.0");
    assert_prefix("[pod/train-0/main] 3:   x", NAN, 3, "  x");
    assert_prefix("kernel: NVRM: x", NAN, -1, "NVRM: x");
}

static void a_container_stands_before_the_time_of_its_engine(void **state)
{
    (void)state;
    assert_prefix("[rl-swarm] 2025-05-05T10:00:01.5Z   File x", MAY5 + 0.5, -1, "  File x");
    assert_prefix("[trainer_1] 2025-05-05T10:00:01Z TypeError: x", MAY5, -1, "TypeError: x");
    assert_prefix("[torch] 2025 is a year", NAN, -1, "[torch] 2025 is a year");
    assert_prefix("[rl-swarm] text", NAN, -1, "[rl-swarm] text");
}

static void loggers_give_times(void **state)
{
    (void)state;
    assert_prefix("INFO 05-05 10:00:01 [x.py:244] text", MAY5, -1, "text");
    assert_prefix("ERROR 05-05 10:00:01 worker_base.py:7] text", MAY5, -1, "text");
    assert_prefix("[INFO|trainer.py:756] 2025-05-05 10:00:01,911 >> text", MAY5 + 0.911, -1,
                  "text");
    assert_prefix("[INFO|2025-05-05 10:00:01] llamafactory: text", MAY5, -1, "llamafactory: text");
    assert_prefix("2025-05-05T10:00:01+0000 gpu-1.local train.sh[441]:   text", MAY5, -1, "  text");
    assert_prefix("2025-05-05T10:00:01+0000 gpu1 kernel: NVRM: x", MAY5, -1, "NVRM: x");
    assert_prefix("2025-05-05 10:00:01 loss [1]: text", MAY5, -1, "loss [1]: text");
    assert_prefix("[2025-05-05 10:00:01,118] [INFO] [axolotl.train] [PID:1] [RANK:6] text",
                  MAY5 + 0.118, -1, "[axolotl.train] [PID:1] [RANK:6] text");
    assert_prefix("[2025-05-05 10:00:01,118] [INFO] [RANK:6] text", MAY5 + 0.118, 6, "text");
    assert_prefix(" [2025-05-05 10:00:01] iteration 1/ 2", MAY5, -1, "iteration 1/ 2");
    assert_prefix("W0505 10:00:01.5 12 api.py:3] text", MAY5 + 0.5, -1, "text");
    assert_prefix("[rank0]:[W505 10:00:01.5 Context.cpp:339] text", MAY5 + 0.5, 0, "text");
    assert_prefix("05/05/2025 10:00:01 - INFO - name", MAY5, -1, "INFO - name");
    assert_prefix("2025-05-05 10:00:01.118: E external/x", MAY5 + 0.118, -1, ": E external/x");
}

static void containers_and_kernels_give_times(void **state)
{
    (void)state;
    assert_prefix("2025-05-05T10:00:01.25Z stderr F text", MAY5 + 0.25, -1, "text");
    assert_prefix("2025-05-05T12:00:01+02:00 text", MAY5, -1, "text");
    assert_prefix("May  5 10:00:01 host kernel: text", MAY5, -1, "text");
    assert_prefix("May  5 10:00:01 host kernel: [   12.345678] text", MAY5, -1, "text");
    assert_prefix("[  880.201144] amdgpu text", 880.201144, -1, "amdgpu text");
    assert_prefix("<6>[   12.5000] text", 12.5, -1, "text");
    assert_prefix("[Mon May  5 10:00:01 2025] amdgpu text", MAY5, -1, "amdgpu text");
    assert_true(prefix_parse(STR("[  880.201144] x"), 2025).kernel);
    assert_true(prefix_parse(STR("May  5 10:00:01 host kernel: x"), 2025).kernel);
    assert_false(prefix_parse(STR("May  5 10:00:01 host sshd[1]: x"), 2025).kernel);
}

static void what_is_no_prefix_stays(void **state)
{
    (void)state;
    static const char *const lines[] = {"",
                                        "[",
                                        "{'loss': 1.0}",
                                        " 14%|#| 85/600 [03:24<20:36]",
                                        "12 apples",
                                        "[1/4] c++ x.cpp",
                                        "(venv) $ python x",
                                        "May be",
                                        "[2025-99-99 10:00:01] x",
                                        "  File \"x\"",
                                        "10000: too long for a rank"};
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        assert_prefix(lines[i], NAN, -1, lines[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launchers_give_ranks),
        cmocka_unit_test(a_container_stands_before_the_time_of_its_engine),
        cmocka_unit_test(loggers_give_times),
        cmocka_unit_test(containers_and_kernels_give_times),
        cmocka_unit_test(what_is_no_prefix_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
