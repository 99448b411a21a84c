// SPDX-License-Identifier: Apache-2.0
/* The folder of a run: whose faults the kernel log tells of. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recorder/run_folder.h"
#include "unit.h"

static const char text[] =
    "[1.000000] NVRM: Xid (PCI:0000:18:00): 31, pid=700, name=python3, Ch 00000008, MMU Fault\n"
    "[1.100000] NVRM: Xid (PCI:0000:18:00): 43, pid=701, name=python3, Ch 00000008\n"
    "[1.200000] NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    "[1.300000] Out of memory: Killed process 702 (python3)\n";

/* A guard of another job on the same GPU proves itself by a planted fault: that is none of this run. */
static void a_fault_of_another_process_is_not_laid_to_the_run(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    char folder[] = "/tmp/assay-run-folder-XXXXXX";
    struct str own, others;
    assert_non_null(mkdtemp(folder));
    run_folder_own_faults(a, folder, STR(text), &own, &others);
    assert_int_equal(own.n, sizeof text - 1); /* no record: nothing can be told apart */
    assert_int_equal(others.n, 0);
    const char *record = arena_fmt(a, "%s/record.701.bin", folder);
    close(open(record, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    run_folder_own_faults(a, folder, STR(text), &own, &others);
    assert_true(str_starts(others, "[1.000000] NVRM: Xid (PCI:0000:18:00): 31, pid=700"));
    assert_int_equal(own.n + others.n, sizeof text - 1);
    assert_int_equal(str_find(own, "pid=700", 0), SIZE_MAX);
    assert_true(str_find(own, "pid=701", 0) != SIZE_MAX);
    assert_true(str_find(own, "off the bus", 0) != SIZE_MAX);
    assert_true(str_find(own, "Killed process", 0) != SIZE_MAX);
    unlink(record);
    rmdir(folder);
    arena_free(a);
}

static const char killings[] =
    "[1.0] dd invoked oom-killer: gfp_mask=0x140dca\n"
    "[1.1] [    702]     0   702   836   5   0   5   0   36864   0   0 python3\n"
    "[1.2] NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus.\n"
    "[1.3] oom-kill:constraint=CONSTRAINT_NONE,task=python3,pid=702,uid=0\n"
    "[1.4] Out of memory: Killed process 702 (python3) total-vm:137091220kB\n"
    "[1.5] oom_reaper: reaped process 702 (python3), now anon-rss:20kB\n"
    "[1.6] Memory cgroup out of memory: Killed process 703 (python3)\n"
    "[1.7] oom_reaper: reaped process 701 (python3), now anon-rss:20kB\n";

/* Another job of the machine that was killed for want of memory is no fault of a run that ended well. */
static void a_killing_of_another_process_is_not_laid_to_the_run(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    char folder[] = "/tmp/assay-run-folder-XXXXXX";
    struct str own, others;
    struct pid_list seen = {0};
    assert_non_null(mkdtemp(folder));
    const char *record = arena_fmt(a, "%s/record.701.bin", folder);
    close(open(record, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    pid_list_add(a, &seen, (pid_t[]){703, 703}, 2);
    assert_int_equal(seen.count, 1);
    run_folder_own_killings(a, folder, &seen, STR(killings), &own, &others);
    assert_int_equal(own.n + others.n, sizeof killings - 1);
    assert_int_equal(str_find(own, "702", 0), SIZE_MAX);
    assert_int_equal(str_find(own, "invoked oom-killer", 0), SIZE_MAX);
    assert_true(str_find(own, "off the bus", 0) != SIZE_MAX);
    assert_true(str_find(own, "Killed process 703", 0) != SIZE_MAX);
    assert_true(str_find(own, "reaped process 701", 0) != SIZE_MAX);
    unlink(record);
    rmdir(folder);
    arena_free(a);
}

static const char crashes[] =
    "[1.0] cudnn_job[702]: segfault at 7f2e ip 00007f2eb054629a sp 00007ffeb8dabe58 error 6 in libcudnn.so[129a]\n"
    "[1.1] traps: python3[704] general protection fault ip:7f sp:7f error:0 in libc.so.6\n"
    "[1.2] python3[703]: segfault at 0 ip 0 sp 0 error 4\n"
    "[1.3] a line with ]: segfault at nothing\n";

/* Another job on the machine crashed while this one ended well. */
static void a_crash_of_another_process_is_not_laid_to_the_run(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    struct pid_list seen = {0};
    struct str own, others;
    pid_list_add(a, &seen, (pid_t[]){703}, 1);
    run_folder_own_killings(a, "/nowhere", &seen, STR(crashes), &own, &others);
    assert_int_equal(own.n + others.n, sizeof crashes - 1);
    assert_true(str_find(others, "cudnn_job[702]", 0) != SIZE_MAX);
    assert_true(str_find(others, "python3[704]", 0) != SIZE_MAX);
    assert_true(str_find(own, "python3[703]", 0) != SIZE_MAX);
    assert_true(str_find(own, "a line with", 0) != SIZE_MAX);
    arena_free(a);
}

static const char amd[] =
    "[1.0] amdgpu 0000:0e:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:173 vmid:8 pasid:32791)\n"
    "[1.1] amdgpu 0000:0e:00.0: amdgpu:  Process python3 pid 700 thread python3 pid 703\n"
    "[1.2] usb 1-2: reset high-speed USB device\n"
    "[1.3] amdgpu 0000:0e:00.0: amdgpu:   in page starting at address 0x00007febd6383000 from client 10\n"
    "[1.4] amdgpu 0000:0e:00.0: amdgpu: GCVM_L2_PROTECTION_FAULT_STATUS:0x00841B5B\n"
    "[1.5] amdgpu 0000:0e:00.0: amdgpu: \t RW: 0x1\n"
    "[1.6] amdgpu 0000:c3:00.0: amdgpu: [mmhub0] no-retry page fault (src_id:0 ring:24 vmid:8 pasid:32770, "
    "for process train pid 701 thread train pid 701)\n"
    "[1.7] amdgpu 0000:c3:00.0: amdgpu:   in page starting at address 0x00007feb00000000 from client 27\n"
    "[1.8] amdgpu 0000:0e:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:173 vmid:8 pasid:32791)\n"
    "[1.9] amdgpu 0000:0e:00.0: amdgpu: GPU reset begin!\n";

/* A page fault of amdgpu is several lines; another process's goes as a whole, one that names nobody stays. */
static void a_page_fault_of_another_process_is_not_laid_to_the_run(void **state)
{
    (void)state;
    struct arena *a = arena_new(0);
    char folder[] = "/tmp/assay-run-folder-XXXXXX";
    struct str own, others;
    assert_non_null(mkdtemp(folder));
    const char *record = arena_fmt(a, "%s/record.701.bin", folder);
    close(open(record, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    run_folder_own_faults(a, folder, STR(amd), &own, &others);
    assert_int_equal(own.n + others.n, sizeof amd - 1);
    static const char *const theirs[] = {"[1.0]", "[1.1]", "[1.3]", "[1.4]", "[1.5]"};
    static const char *const ours[] = {"[1.2]", "[1.6]", "[1.7]", "[1.8]", "[1.9]"};
    for (size_t i = 0; i < ARRAY_LEN(theirs); i++) {
        assert_true(str_find(others, theirs[i], 0) != SIZE_MAX);
        assert_true(str_find(own, ours[i], 0) != SIZE_MAX);
    }
    unlink(record);
    rmdir(folder);
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killing_of_another_process_is_not_laid_to_the_run),
        cmocka_unit_test(a_fault_of_another_process_is_not_laid_to_the_run),
        cmocka_unit_test(a_crash_of_another_process_is_not_laid_to_the_run),
        cmocka_unit_test(a_page_fault_of_another_process_is_not_laid_to_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
