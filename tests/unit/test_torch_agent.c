// SPDX-License-Identifier: Apache-2.0
/* The process side of probe --torch, against a stub that misbehaves in each way a Python can. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/syscall.h>

#include "ops/torch/agent.h"
#include "ops/torch/fault.h"
#include "ops/torch/operand.h"
#include "unit.h"

/* Instead of libc's: while it dawdles, the process asked has time to answer and die. */
off_t lseek(int fd, off_t offset, int whence)
{
    usleep(50000);
    return (off_t)syscall(SYS_lseek, fd, offset, whence);
}

struct fixture {
    struct arena *arena;
    struct torch_agent *agent;
    struct err err;
};

static enum status start(struct fixture *f, const char *python, const char *mode)
{
    setenv("STUB", mode, 1);
    f->arena = arena_new(0);
    f->agent = NULL;
    f->err = (struct err){0};
    struct torch_agent_options o = {
        .python = python, .device = "cpu", .shared_bytes = 1 << 20, .start_ms = 20000};
    if (strcmp(mode, "silent") == 0) {
        o.start_ms = 500;
    }
    return torch_agent_start(f->arena, &o, &f->agent, &f->err);
}

static struct torch_reply ask(struct fixture *f, int deadline_ms)
{
    struct strbuf request;
    strbuf_init(&request, f->arena, 1 << 16);
    strbuf_addz(&request, "{\"id\": 5,\n \"results_at\": 8192, \"backward\": true, "
                          "\"stub_results\": [[\"y\", [2, 3]], [\"dx\", [2]]]}");
    struct torch_reply reply;
    assert_int_equal(torch_agent_ask(f->agent, f->arena, &request, 5, deadline_ms, &reply, &f->err),
                     ST_OK);
    return reply;
}

static void end(struct fixture *f)
{
    torch_agent_stop(f->agent);
    arena_free(f->arena);
}

static void test_a_missing_interpreter_is_named(void **state)
{
    (void)state;
    struct fixture f;
    assert_int_equal(start(&f, "/nowhere/python", "ok"), ST_ABSENT);
    assert_non_null(strstr(f.err.text, "/nowhere/python"));
    end(&f);
}

static void test_a_program_that_is_no_python_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    assert_int_equal(start(&f, "/bin/true", "ok"), ST_UNSUPPORTED);
    assert_non_null(strstr(f.err.text, "no Python that can run the agent"));
    end(&f);
    assert_int_equal(start(&f, "/bin/date", "ok"), ST_UNSUPPORTED); /* it says why on stderr */
    assert_non_null(strstr(f.err.text, "date --help"));
    end(&f);
}

static void test_failures_before_the_first_worker_are_told_apart(void **state)
{
    (void)state;

    const struct {
        const char *mode;
        enum status status;
        const char *text;
    } rows[] = {
        {"no-torch", ST_UNSUPPORTED, "No module named 'torch'"},
        {"no-hello", ST_UNSUPPORTED, "does not answer like Python"},
        {"silent", ST_IO, "did not import torch within 0 s"},
        {"die-early", ST_IO, "died of signal 6 while importing torch: ImportError: libcudart"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fixture f;
        assert_int_equal(start(&f, TORCH_STUB, rows[i].mode), rows[i].status);
        assert_non_null(strstr(f.err.text, rows[i].text));
        end(&f);
    }
}

static void test_an_answer_and_what_the_process_says_of_itself(void **state)
{
    (void)state;
    struct fixture f;
    assert_int_equal(start(&f, TORCH_STUB, "ok"), ST_OK);
    const struct torch_hello *hello = torch_agent_hello(f.agent);
    assert_string_equal(hello->torch, "0.stub");
    assert_true(hello->proven);
    for (int i = 0; i < 3; i++) {
        struct torch_reply reply = ask(&f, 20000);
        assert_int_equal(reply.end, TORCH_ANSWERED);
        assert_string_equal(tree_text(reply.answer, "forward", ""), "ok");
    }
    end(&f);
    assert_int_equal(start(&f, TORCH_STUB, "unproven"), ST_OK);
    assert_false(torch_agent_hello(f.agent)->proven);
    end(&f);
}

/* Each ends one request only: the next worker is there afterwards. */
static void test_a_lost_worker_is_a_result_and_the_campaign_goes_on(void **state)
{
    (void)state;

    const struct {
        const char *mode;
        enum torch_end end;
        int deadline_ms;
    } rows[] = {
        {"hang", TORCH_HUNG, 300},          {"crash", TORCH_DIED, 20000},
        {"exit", TORCH_DIED, 20000},        {"garbage", TORCH_GARBAGE, 20000},
        {"long", TORCH_GARBAGE, 20000},     {"fault", TORCH_FAULT, 20000},
        {"wrong-id", TORCH_GARBAGE, 20000},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fixture f;
        assert_int_equal(start(&f, TORCH_STUB, rows[i].mode), ST_OK);
        for (int again = 0; again < 2; again++) {
            struct torch_reply reply = ask(&f, rows[i].deadline_ms);
            assert_int_equal(reply.end, rows[i].end);
            if (strcmp(rows[i].mode, "crash") == 0) {
                assert_int_equal(reply.signal, 9);
            } else if (strcmp(rows[i].mode, "exit") == 0) {
                assert_int_equal(reply.code, 7);
                assert_string_equal(reply.text, "terminate called after throwing");
            }
        }
        end(&f);
    }
}

/* A lost device ends the worker after its answer; the next request must not be blamed for that, nor may
 * words about an earlier request be taken for garbage: on a GPU one fault once cost all later answers. */
static void test_a_worker_that_leaves_after_its_answer_costs_nothing_else(void **state)
{
    (void)state;

    const struct {
        const char *mode, *forward;
    } rows[] = {{"lost", "misaligned"}, {"late", "ok"}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fixture f;
        assert_int_equal(start(&f, TORCH_STUB, rows[i].mode), ST_OK);
        for (int again = 0; again < 3; again++) {
            struct torch_reply reply = ask(&f, 20000);
            assert_int_equal(reply.end, TORCH_ANSWERED);
            assert_string_equal(tree_text(reply.answer, "forward", ""), rows[i].forward);
        }
        end(&f);
    }
}

static void test_a_fault_names_operand_side_and_distance(void **state)
{
    (void)state;
    struct fixture f;
    assert_int_equal(start(&f, TORCH_STUB, "fault"), ST_OK);
    struct torch_reply reply = ask(&f, 20000);
    assert_int_equal(reply.end, TORCH_FAULT);
    assert_int_equal(reply.fault.signal, 11);
    assert_string_equal(reply.fault.operand, "x");
    assert_true(reply.fault.after);
    assert_false(reply.fault.is_write);
    assert_int_equal(reply.fault.distance, 8);
    end(&f);
}

static void test_an_address_belongs_to_the_hole_it_lies_in(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    const struct torch_places places = {.items = {{"x", 0x11fc0, 64, 0x11000, 0x12000},
                                                  {"w", 0x14000, 64, 0x14000, 0x15000},
                                                  {"free", 0x20000, 64, 0, 0}},
                                        .count = 3};

    const struct {
        uint64_t address;
        const char *operand; /* NULL: nobody's */
        bool after;
        uint64_t distance;
    } rows[] = {
        {0x12000, "x", true, 0},     {0x12fff, "x", true, 0xfff}, {0x13ffc, "w", false, 4},
        {0x15000, "w", true, 0xfc0}, /* the operand begins its mapping: the slack lies between */
        {0x11800, NULL, false, 0},   /* mapped: no guard was touched */
        {0x20040, NULL, false, 0},   /* not guarded */
        {0, NULL, false, 0},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct torch_fault f = {0};
        torch_fault_locate(a, &places, rows[i].address, 0x1000, &f);
        if (rows[i].operand == NULL) {
            assert_null(f.operand);
            continue;
        }
        assert_non_null(f.operand);
        assert_string_equal(f.operand, rows[i].operand);
        assert_int_equal(f.after, rows[i].after);
        assert_int_equal(f.distance, rows[i].distance);
    }
    arena_free(a);
}

/* [batch, heads, time, dim] = [2, 3, 5, 4]: strides of each layout, and the elements from first to last. */
static void test_layouts_have_the_strides_of_their_names(void **state)
{
    (void)state;

    const struct {
        enum torch_layout layout;
        int64_t stride[4];
        uint64_t elements;
    } rows[] = {
        {TORCH_DENSE, {60, 20, 4, 1}, 120},
        {TORCH_PADDED, {105, 35, 7, 1}, 207},
        {TORCH_TRANSPOSED, {60, 20, 1, 5}, 120},
        {TORCH_TOKEN_MAJOR, {60, 4, 12, 1}, 120},
    };

    const struct op_tensor spec = {.name = "q"};
    const struct op_array array = {
        .spec = &spec, .dtype = DTYPE_BF16, .rank = 4, .dim = {2, 3, 5, 4}, .count = 120};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct torch_operand o;
        torch_operand_plan(&array, rows[i].layout, 64, &o);
        assert_memory_equal(o.stride, rows[i].stride, sizeof rows[i].stride);
        assert_int_equal(o.bytes, 2 * rows[i].elements);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_missing_interpreter_is_named),
        cmocka_unit_test(test_a_program_that_is_no_python_is_refused),
        cmocka_unit_test(test_failures_before_the_first_worker_are_told_apart),
        cmocka_unit_test(test_an_answer_and_what_the_process_says_of_itself),
        cmocka_unit_test(test_a_lost_worker_is_a_result_and_the_campaign_goes_on),
        cmocka_unit_test(test_a_worker_that_leaves_after_its_answer_costs_nothing_else),
        cmocka_unit_test(test_layouts_have_the_strides_of_their_names),
        cmocka_unit_test(test_a_fault_names_operand_side_and_distance),
        cmocka_unit_test(test_an_address_belongs_to_the_hole_it_lies_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
