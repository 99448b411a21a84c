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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fault_of_another_process_is_not_laid_to_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
