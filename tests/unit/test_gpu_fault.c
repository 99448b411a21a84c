// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/errors.h"
#include "diagnosis/gpu_fault.h"
#include "log_support.h"

static void status_words_are_decoded_by_number(void **state)
{
    (void)state;
    struct fault_status s = fault_status_decode(0x0080113b);
    assert_int_equal(s.more_faults, 1);
    assert_int_equal(s.walker, 5);
    assert_int_equal(s.permission, 3);
    assert_int_equal(s.mapping, 1);
    assert_int_equal(s.client, 8);
    assert_string_equal(fault_client_name(s.client), "TCP");
    assert_false(s.write);
    assert_int_equal(s.vmid, 8);
    assert_string_equal(fault_client_name(fault_status_decode(0x00841b5b).client), "SDMA0");
    assert_true(fault_status_decode(0x00841b5b).write);
    assert_string_equal(fault_client_name(fault_status_decode(0x00800932).client), "CPF");
    assert_string_equal(fault_client_name(fault_status_decode(0x00501430).client), "SQC (data)");
    assert_int_equal(fault_status_decode(0x00501430).vmid, 5);
    assert_true(fault_status_decode(0xffffffff).device_gone);
    assert_null(fault_client_name(0x1ff));
}

static void new_kernel_block_becomes_one_event(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(
        arena,
        "[  880.1] amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 "
        "pasid:32779)\n"
        "[  880.1] amdgpu 0000:03:00.0: amdgpu:  Process python3 pid 5120 thread python3 pid 5120\n"
        "[  880.1] amdgpu 0000:03:00.0: amdgpu:   in page starting at address 0x00007f21d4a00000 "
        "from client 10\n"
        "[  880.1] amdgpu 0000:03:00.0: amdgpu: GCVM_L2_PROTECTION_FAULT_STATUS:0x00801031\n"
        "[  880.1] amdgpu 0000:03:00.0: amdgpu: \t Faulty UTCL2 client ID: unknown (0x8)\n"
        "[  880.1] amdgpu 0000:03:00.0: amdgpu: \t MORE_FAULTS: 0x1\n"
        "[  880.1] amdgpu 0000:03:00.0: amdgpu: \t PERMISSION_FAULTS: 0x3\n"
        "[  880.1] amdgpu 0000:03:00.0: amdgpu: \t RW: 0x0\n"
        "[  990.1] amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:3 "
        "pasid:1, for process Xorg pid 77 thread Xorg:cs0 pid 78)\n");
    assert_int_equal(log_facts_count(lf, "amdgpu-page-fault"), 2);
    const struct event *e = event_of_id(lf, "amdgpu-page-fault", 0);
    assert_int_equal(e->line, 1);
    assert_capture(e, "hub", "gfxhub");
    assert_capture(e, "vmid", "8");
    assert_capture(e, "pid", "5120");
    assert_capture(e, "process", "python3");
    assert_capture(e, "client", "TCP");
    assert_capture(e, "rw", "read");
    assert_capture(e, "permission", "3");
    assert_capture(e, "walker", "0");
    assert_capture(e, "status", "0x00801031");
    assert_capture(e, "address", "0x00007f21d4a00000");
    assert_capture(e, "compute", "yes");
    e = event_of_id(lf, "amdgpu-page-fault", 1);
    assert_capture(e, "process", "Xorg");
    assert_capture(e, "pid", "77");
    assert_null(event_capture(e, "compute"));
}

static void a_status_of_zero_tells_no_client(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(
        arena,
        "[  880.1] amdgpu 0000:45:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:88 "
        "vmid:8 pasid:32769)\n"
        "[  880.1] amdgpu 0000:45:00.0: amdgpu:  for process server pid 33 thread server pid 33)\n"
        "[  880.1] amdgpu 0000:45:00.0: amdgpu: VM_L2_PROTECTION_FAULT_STATUS:0x00000000\n"
        "[  880.1] amdgpu 0000:45:00.0: amdgpu: \t Faulty UTCL2 client ID: CB (0x0)\n"
        "[  880.1] amdgpu 0000:45:00.0: amdgpu: \t PERMISSION_FAULTS: 0x0\n"
        "[  880.1] amdgpu 0000:45:00.0: amdgpu: \t RW: 0x0\n");
    assert_int_equal(log_facts_count(lf, "amdgpu-page-fault"), 1);
    const struct event *e = event_of_id(lf, "amdgpu-page-fault", 0);
    assert_capture(e, "process", "server");
    assert_capture(e, "status", "0x00000000");
    assert_capture(e, "compute", "yes");
    assert_null(event_capture(e, "client"));
    assert_null(event_capture(e, "rw"));
    assert_null(event_capture(e, "permission"));
}

static void kernels_that_name_amdgpu_once_tell_the_process(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(
        arena,
        "[  880.1] amdgpu 0000:03:00.0: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:9)\n"
        "[  880.1] amdgpu 0000:03:00.0:  Process python3 pid 5120 thread python3 pid 5121\n"
        "[  880.1] amdgpu 0000:03:00.0:   in page starting at address 0x00007f21d4a00000 from "
        "client 10\n"
        "[  990.1] amdgpu 0000:03:00.0: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:3 "
        "pasid:7)\n"
        "[  990.1] amdgpu 0000:03:00.0:  for process pt_main_thread pid 129 thread "
        "pt_main_thread pid 129)\n");
    assert_int_equal(log_facts_count(lf, "amdgpu-page-fault"), 2);
    assert_capture(event_of_id(lf, "amdgpu-page-fault", 0), "process", "python3");
    assert_capture(event_of_id(lf, "amdgpu-page-fault", 0), "pid", "5120");
    assert_capture(event_of_id(lf, "amdgpu-page-fault", 1), "process", "pt_main_thread");
}

static void the_process_of_a_ring_timeout_is_no_page_fault(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(
        arena, "[  312.5] amdgpu 0000:28:00.0: ring gfx_0.0.0 timeout, signaled seq=57638, emitted "
               "seq=57641\n"
               "[  312.5] amdgpu 0000:28:00.0:  Process comp pid 2288 thread comp:cs0 pid 2316\n"
               "[  312.6] amdgpu 0000:28:00.0: amdgpu:  Process comp pid 2288 thread comp:cs0 pid "
               "2316\n");
    assert_int_equal(log_facts_count(lf, "amdgpu-page-fault"), 0);
}

static void two_cards_interleaved_stay_apart(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(
        arena,
        "amdgpu 0000:03:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:9 "
        "pasid:1)\n"
        "amdgpu 0000:83:00.0: amdgpu: [mmhub1] retry page fault (src_id:0 ring:24 vmid:8 pasid:2)\n"
        "amdgpu 0000:03:00.0: amdgpu: VM_L2_PROTECTION_FAULT_STATUS:0xFFFFFFFF\n"
        "amdgpu 0000:83:00.0: amdgpu: MMVM_L2_PROTECTION_FAULT_STATUS_LO32: 0x00841B5B\n"
        "amdgpu 0000:83:00.0: amdgpu: \t Faulty UTCL2 client ID: VCN0 (0xd)\n");
    assert_int_equal(log_facts_count(lf, "amdgpu-page-fault"), 2);
    const struct event *e = event_of_id(lf, "amdgpu-page-fault", 0);
    assert_capture(e, "device_gone", "yes");
    assert_capture(e, "vmid", "9");
    assert_null(event_capture(e, "client"));
    e = event_of_id(lf, "amdgpu-page-fault", 1);
    assert_capture(e, "hub", "mmhub1");
    assert_capture(e, "client", "VCN0"); /* the table is of the graphics hub */
    assert_capture(e, "rw", "write");
}

static void xids_are_named(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(
        arena, "NVRM: Xid (PCI:0000:3b:00): 48, pid=12013, name=python3, An uncorrectable error\n"
               "NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen "
               "off the bus.\n"
               "NVRM: Xid (PCI:0000:01:00 GPU-I:03): 45, Ch 00000008\n"
               "NVRM: Xid (PCI:0000:01:00): 9999, odd\n");
    const struct event *e = event_of_id(lf, "nvidia-xid", 0);
    assert_capture(e, "xid", "48");
    assert_capture(e, "name", "GPU_ECC_DBE");
    assert_capture(e, "class", "hardware");
    assert_capture(e, "pid", "12013");
    assert_capture(e, "text", "An uncorrectable error");
    assert_null(event_capture(event_of_id(lf, "nvidia-xid", 1), "pid"));
    assert_int_equal(event_of_id(lf, "nvidia-xid", 2)->pattern->kind, PATTERN_CONSEQUENCE);
    assert_capture(event_of_id(lf, "nvidia-xid", 3), "name", "unknown");
}

static void rocr_block_is_joined_and_dispatch_dumps_are_not(void **state)
{
    (void)state;
    const struct log_facts *lf = log_of(arena,
                                        ":3:rocvirtual.cpp :100 : ShaderName : Cijk_harmless\n"
                                        "Queue error - HSA_STATUS_ERROR_MEMORY_FAULT\n"
                                        "[VGPU=0x1] SWq=0x2, HWq=0x3, id=4\n"
                                        "Dispatch Header = 0xb02 (type=2, barrier=1)\n"
                                        "grid=[64, 1, 1], workgroup=[64, 1, 1]\n"
                                        "Kernel Name: Cijk_Alik_Bljk_BBS\n"
                                        "faulting_addr=0x7f00\n");
    assert_int_equal(log_facts_count(lf, "rocr-fault-block"), 1);
    const struct event *e = event_of_id(lf, "rocr-fault-block", 0);
    assert_int_equal(e->line, 2);
    assert_capture(e, "error", "HSA_STATUS_ERROR_MEMORY_FAULT");
    assert_capture(e, "kernel", "Cijk_Alik_Bljk_BBS");
    assert_capture(e, "address", "0x7f00");
    assert_capture(e, "grid", "64, 1, 1");
    assert_non_null(strstr(e->explain, "not mapped"));
    lf = log_of(arena,
                "Memory Fault Error [host: n1, GPU index: 2, faulting addr: 0xab, kernel: k]\n");
    assert_capture(event_of_id(lf, "rocr-fault-block", 0), "gpu", "2");
    assert_capture(event_of_id(lf, "rocr-fault-block", 0), "kernel", "k");
}

static void error_numbers_get_plain_words(void **state)
{
    (void)state;
    const struct error_table *t;
    struct err err;
    assert_int_equal(error_table_builtin(arena, &t, &err), ST_OK);
    assert_string_equal(error_by_number(t, "hip", 209)->name, "hipErrorNoBinaryForGpu");
    assert_string_equal(error_by_number(t, "hsa", 0x1008)->name,
                        "HSA_STATUS_ERROR_OUT_OF_RESOURCES");
    assert_string_equal(error_by_number(t, "cuda", 222)->name, "cudaErrorUnsupportedPtxVersion");
    assert_non_null(
        strstr(error_explain(t, arena, STR("Queue 0x1 aborting with error : HSA_X code: 0x2b")),
               "HSA_STATUS_ERROR_MEMORY_FAULT"));
    assert_non_null(strstr(error_explain(t, arena, STR("Error 100: from hipGetDeviceCount()")),
                           "hipErrorNoDevice"));
    assert_non_null(
        strstr(error_explain(t, arena, STR("cuda runtime error (710) : x")), "cudaErrorAssert"));
    assert_null(error_explain(t, arena, STR("Error 100 of something else")));
    assert_int_equal(error_table_parse(arena, STR("hip\tx\ty\n"), STR(""), &t, &err), ST_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_words_are_decoded_by_number),
        cmocka_unit_test(new_kernel_block_becomes_one_event),
        cmocka_unit_test(a_status_of_zero_tells_no_client),
        cmocka_unit_test(kernels_that_name_amdgpu_once_tell_the_process),
        cmocka_unit_test(the_process_of_a_ring_timeout_is_no_page_fault),
        cmocka_unit_test(two_cards_interleaved_stay_apart),
        cmocka_unit_test(xids_are_named),
        cmocka_unit_test(rocr_block_is_joined_and_dispatch_dumps_are_not),
        cmocka_unit_test(error_numbers_get_plain_words),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
