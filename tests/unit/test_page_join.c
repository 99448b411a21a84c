// SPDX-License-Identifier: Apache-2.0
/* The page of a GPU's fault: read from logs, joined to operands and blocks. */
#include <string.h>

#include "base/attr.h"

#include "recorder/page_join.h"
#include "unit.h"

static const char logs[] =
    "[1.0] amdgpu 0000:0e:00.0: amdgpu:   in page starting at address 0x00007febd6383000 from client 10\n"
    "[1.1] amdgpu 0000:0e:00.0: amdgpu: \t RW: 0x1\n"
    "Memory access fault by GPU node-1 on address 0x7f21d4a00123. Reason: Page not present.\n"
    "Memory access fault by GPU node-1 on address (nil). Reason: Unknown.\n"
    "loss on address 0x1234: a line of the job itself\n"
    "kernel_obj=0x7f00, faulting_addr=0x7f21d4a01000\n"
    "Memory Fault Error [host: a, GPU index: 0, faulting addr: 0x7f21d4a02fff, kernel: k]\n"
    "[2.0] NVRM: Xid (PCI:0000:18:00): 31, pid=3242, name=python3, MMU Fault: faulted @ 0x7f29_5b8c9000. "
    "Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ\n"
    "in page starting at address 0x00007febd6383000 again\n"
    "in page starting at address 0x123456789012345678\n"
    "in page starting at address 0x";

static void addresses_of_each_form_are_read(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct fault_pages pages = {.count = 0};

    static const struct {
        uint64_t page, pid;
        int write;
    } wanted[] = {{0x7febd6383000, 0, 1},
                  {0x7f21d4a00000, 0, -1},
                  {0x7f21d4a01000, 0, -1},
                  {0x7f21d4a02000, 0, -1},
                  {0x7f295b8c9000, 3242, 0}};

    fault_pages_scan(a, STR(logs), "kernel.log", &pages);
    assert_int_equal(pages.count, ARRAY_LEN(wanted));
    for (size_t i = 0; i < pages.count; i++) {
        assert_int_equal(pages.items[i].page, wanted[i].page);
        assert_int_equal(pages.items[i].pid, wanted[i].pid);
        assert_int_equal(pages.items[i].write, wanted[i].write);
    }
    arena_free(a);
}

/* m = 64, n = 16, k = 94, bf16: B (N x K, transposed) ends 64 bytes before its block, which ends at a page. */
static const uint64_t block = 0x7f0000000000;

static struct record_event gemm(uint64_t begin, uint64_t b)
{
    struct record_event e = {.ring = 0};
    e.entry = (struct record_entry){.kind = RECORD_GEMM, .state = RECORD_CLOSED, .begin_ns = begin};
    e.entry.u.gemm = (struct record_gemm){.m = 64,
                                          .n = 16,
                                          .k = 94,
                                          .lda = 64,
                                          .ldb = 16,
                                          .ldc = 64,
                                          .a = 0x7e0000000000,
                                          .b = b,
                                          .c = 0x7e0000100000,
                                          .d = 0x7e0000100000,
                                          .batch = 1,
                                          .transpose_b = 1,
                                          .types = RECORD_TYPES_CUDA,
                                          .type_a = 14,
                                          .type_b = 14,
                                          .type_c = 14};
    return e;
}

static void a_page_behind_an_operand_names_the_call(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    const uint64_t operand = block + 4096 - 64 - 16 * 94 * 2;
    struct record_event events[] = {gemm(1, operand), gemm(2, block - (1 << 20)), gemm(3, operand),
                                    gemm(4, 0x1000)};
    struct record_alloc allocs[] = {{.address = block, .size = 4096, .flags = RECORD_ALLOC_LIVE}};
    struct record r = {.events = events, .event_count = 4, .allocs = allocs, .alloc_count = 1};
    struct page_story s;
    assert_true(page_join(a, &r, block + 4096, &s));
    assert_ptr_equal(s.call, &events[2]); /* the last of two */
    assert_int_equal(s.calls, 2);
    assert_int_equal(s.letter, 'B');
    assert_int_equal(s.operand_bytes, 16 * 94 * 2);
    assert_int_equal(s.operand_place.side, FAULT_SIDE_AFTER);
    assert_int_equal(s.operand_place.distance, 64);
    assert_int_equal(s.block_place.distance, 0);
    /* A wait that was fine stands between: only what came behind it may have been running. */
    events[1].entry = (struct record_entry){
        .kind = RECORD_SYNC, .state = RECORD_CLOSED, .result = 0};
    assert_true(page_join(a, &r, block + 4096, &s));
    assert_int_equal(s.calls, 1);
    events[1].entry.result = 700;
    assert_true(page_join(a, &r, block + 4096, &s));
    assert_int_equal(s.calls, 2);
    /* The last one was handed on by a call of another library: one product. */
    events[0].entry.end_ns = 1;
    events[1] = gemm(2, operand);
    events[1].entry.end_ns = 5;
    events[2].entry.depth = 1;
    assert_true(page_join(a, &r, block + 4096, &s));
    assert_ptr_equal(s.call, &events[2]);
    assert_int_equal(s.calls, 2);
    /* In front of it; far from everything. */
    assert_true(page_join(a, &r, block - 4096, &s));
    assert_int_equal(s.operand_place.side, FAULT_SIDE_BEFORE);
    assert_false(page_join(a, &r, 0x10000000, &s));
    arena_free(a);
}

static void a_page_inside_tells_freed_from_live(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct record_event events[] = {gemm(1, block)};
    struct record_alloc allocs[] = {
        {.address = block, .size = 65536, .flags = 0},
        {.address = block + 65536, .size = 4096, .flags = RECORD_ALLOC_LIVE}};
    struct record r = {.events = events, .event_count = 1, .allocs = allocs, .alloc_count = 2};
    struct page_story s;
    assert_true(page_join(a, &r, block, &s));
    assert_ptr_equal(s.block, &allocs[0]); /* it holds the page; the live one is only near */
    assert_int_equal(s.operand_place.side, FAULT_SIDE_INSIDE);
    assert_int_equal(s.letter, 'B');
    allocs[0].flags = RECORD_ALLOC_LIVE;
    assert_true(page_join(a, &r, block, &s));
    assert_null(s.call); /* a live operand is mapped: it is not what faulted */
    /* Given back after the fault was seen: it was held when it came (Python cleans up after an error 700). */
    allocs[0].flags = 0;
    allocs[0].freed_ns = 2000;
    assert_true(page_join(a, &r, block, &s));
    assert_non_null(s.call);
    r.head.gpu_fault.present = 1;
    r.head.gpu_fault.time_ns = 1000;
    assert_true(page_join(a, &r, block, &s));
    assert_null(s.call);
    r.head.gpu_fault.time_ns = 3000;
    assert_true(page_join(a, &r, block, &s));
    assert_non_null(s.call);
    arena_free(a);
}

/* A launch tells pointers alone: they reach to the end of their block. */
static void an_argument_reaches_to_the_end_of_its_block(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct record_event e = {.ring = 0};
    e.entry = (struct record_entry){.kind = RECORD_LAUNCH, .state = RECORD_CLOSED};
    e.entry.u.launch.arguments[1] = block + 256;
    e.entry.u.launch.argument_bytes = 4000000000u; /* a lie: no more than are kept are read */
    struct record_alloc allocs[] = {{.address = block, .size = 8192, .flags = RECORD_ALLOC_LIVE}};
    struct record r = {.events = &e, .event_count = 1, .allocs = allocs, .alloc_count = 1};
    struct page_story s;
    assert_true(page_join(a, &r, block + 8192, &s));
    assert_string_equal(s.operand, "argument 1");
    assert_int_equal(s.operand_bytes, 8192 - 256);
    assert_int_equal(s.operand_place.distance, 0);
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_of_each_form_are_read),
        cmocka_unit_test(a_page_behind_an_operand_names_the_call),
        cmocka_unit_test(a_page_inside_tells_freed_from_live),
        cmocka_unit_test(an_argument_reaches_to_the_end_of_its_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
