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
        cmocka_unit_test(a_fault_of_another_process_is_not_laid_to_the_run),
        cmocka_unit_test(a_page_fault_of_another_process_is_not_laid_to_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
