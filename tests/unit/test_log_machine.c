// SPDX-License-Identifier: Apache-2.0
/* What a log says of its machine, with the built-in patterns. */
#include <string.h>

#include "diagnosis/log_machine.h"
#include "diagnosis/log_read.h"
#include "unit.h"

static struct arena *arena;
static const struct knowledge *knowledge;

static int setup(void **state)
{
    (void)state;
    struct err err;
    arena = arena_new(0);
    return knowledge_builtin(arena, NULL, &knowledge, &err) == ST_OK ? 0 : 1;
}

static int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

static const struct facts *facts_of(const char *text, const struct facts *given)
{
    struct log_reader *r;
    struct err err;
    assert_int_equal(log_reader_new(arena, knowledge, NULL, &r, &err), ST_OK);
    assert_int_equal(log_reader_add_bytes(r, "train.log", str_of(text), 100000, false, &err),
                     ST_OK);
    const struct facts *f = log_machine_facts(arena, given, log_reader_facts(r));
    log_reader_free(r);
    return f;
}

static void the_target_is_told_with_its_line(void **state)
{
    (void)state;
    const struct facts *f = facts_of("start\nAMD arch: gfx1151\nAMD arch: gfx1151\n", NULL);
    assert_string_equal(facts_get_string(f, "gpu[0].gfx", ""), "gfx1151");
    assert_string_equal(facts_get_string(f, "gpu[0].vendor", ""), "0x1002");
    assert_true(facts_get_bool(f, "gpu[0].integrated", false));
    assert_string_equal(facts_get(f, "gpu[0].gfx")->source, "train.log:2");
    assert_int_equal(facts_get_int(f, "gpu[0].gfx_target_version", 0), 110501);
    f = facts_of("GPU models and configuration: AMD Instinct MI210 (gfx90a:sramecc+:xnack-)\n",
                 NULL);
    assert_string_equal(facts_get_string(f, "gpu[0].gfx", ""), "gfx90a");
    assert_false(facts_get_bool(f, "gpu[0].integrated", true));
    assert_int_equal(facts_get_int(f, "gpu[0].gfx_target_version", 0), 90010);
    /* gfx942 is a card (MI300X) and an APU (MI300A). */
    f = facts_of("AMD arch: gfx942\n", NULL);
    assert_null(facts_get(f, "gpu[0].integrated"));
}

static void two_targets_say_nothing(void **state)
{
    (void)state;
    assert_null(
        facts_of("  Name:                    gfx1100\n  Name:                    gfx1036\n", NULL));
    assert_null(
        facts_of("\"/opt/rocm/lib/rocblas/library/TensileLibrary_lazy_gfx1030.dat\"\n", NULL));
    assert_null(facts_of("1 error generated when compiling for gfx1100.\n", NULL));
}

static void what_was_read_wins(void **state)
{
    (void)state;
    struct facts *given = facts_new(arena);
    facts_string(given, "gpu[0].gfx", "gfx1100", "sysfs");
    assert_ptr_equal(facts_of("AMD arch: gfx1151\n", given), given);
    facts_string(given, "env.HSA_XNACK", "1", "/proc");
    assert_ptr_equal(facts_of("+ HSA_ENABLE_SDMA=0 python train.py\n", given), given);
}

static void a_rocm_build_tells_the_vendor(void **state)
{
    (void)state;
    const struct facts *f = facts_of("RuntimeError: HIP error: invalid argument\n", NULL);
    assert_string_equal(facts_get_string(f, "gpu[0].vendor", ""), "0x1002");
    assert_null(facts_get(f, "gpu[0].gfx"));
    assert_null(facts_of("PyTorch version: 2.5.1+cu121\nHIP error: none expected\n", NULL));
    assert_null(facts_of("RuntimeError: CUDA error: invalid argument\n", NULL));
}

static void variables_come_from_commands_only(void **state)
{
    (void)state;
    const struct facts *f = facts_of("$ HSA_OVERRIDE_GFX_VERSION=11.0.0 python train.py\n"
                                     "export PYTORCH_ALLOC_CONF=\"expandable_segments:True\"\n",
                                     NULL);
    assert_string_equal(facts_get_string(f, "env.HSA_OVERRIDE_GFX_VERSION", ""), "11.0.0");
    assert_string_equal(facts_get_string(f, "env.PYTORCH_ALLOC_CONF", ""),
                        "expandable_segments:True");
    assert_null(facts_of("If reserved but unallocated memory is large try setting "
                         "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.\n",
                         NULL));
    f = facts_of("export HSA_ENABLE_SDMA=0\nexport HSA_ENABLE_SDMA=1\nexport HSA_XNACK=1\n", NULL);
    assert_int_equal(facts_get(f, "env.HSA_ENABLE_SDMA")->state, FACT_UNREADABLE);
    assert_string_equal(facts_get_string(f, "env.HSA_XNACK", ""), "1");
}

static uint64_t unavailable_in(const char *text, uint64_t *ret_line)
{
    struct log_reader *r;
    struct err err;
    assert_int_equal(log_reader_new(arena, knowledge, NULL, &r, &err), ST_OK);
    assert_int_equal(log_reader_add_bytes(r, "t.log", str_of(text), 100000, false, &err), ST_OK);
    const struct log_facts *lf = log_reader_facts(r);
    log_reader_free(r);
    for (size_t i = 0; i < lf->events.count; i++) {
        if (strcmp(lf->events.items[i].pattern->id, "torch-cuda-unavailable") == 0) {
            *ret_line = lf->events.items[i].line;
        }
    }
    return log_facts_count(lf, "torch-cuda-unavailable");
}

static void the_answer_to_is_available_stands_in_a_later_line(void **state)
{
    (void)state;
    uint64_t line = 0;
    assert_int_equal(unavailable_in(">>> import torch\n>>> torch.cuda.is_available()\n"
                                    "/x/torch/cuda/__init__.py:88: UserWarning: HIP\n"
                                    "  return torch._C._cuda_getDeviceCount() > 0\n"
                                    "False\n>>> 1 == 2\nFalse\n",
                                    &line),
                     1);
    assert_int_equal(line, 5);
    assert_int_equal(unavailable_in("print(torch.cuda.is_available())\nTrue\n", &line), 0);
    assert_int_equal(unavailable_in("False\n>>> torch.cuda.is_available()\n", &line), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_answer_to_is_available_stands_in_a_later_line),
        cmocka_unit_test(the_target_is_told_with_its_line),
        cmocka_unit_test(two_targets_say_nothing),
        cmocka_unit_test(what_was_read_wins),
        cmocka_unit_test(a_rocm_build_tells_the_vendor),
        cmocka_unit_test(variables_come_from_commands_only),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
