// SPDX-License-Identifier: Apache-2.0
/*
 * Calls of the run-time library, counted over all processes of a test in the file that ASSAY_FAKE_COUNT
 * names: 64-bit numbers in the order below, zero where the file is new. How many calls a guarded product
 * costs is the same on every machine, its time is not.
 */
#ifndef ASSAY_TESTS_FAKE_COUNT_H
#define ASSAY_TESTS_FAKE_COUNT_H

enum fake_call {
    FAKE_CALL_TO_DEVICE = 0, /* waits */
    FAKE_CALL_TO_HOST,       /* waits */
    FAKE_CALL_QUEUED,        /* copies that do not wait */
    FAKE_CALL_FILL,
    FAKE_CALL_SYNC,
    FAKE_CALL_KERNEL,
    FAKE_CALL_MEMORY, /* allocations and mappings */
    FAKE_CALL_COUNT
};

void fake_count(enum fake_call call);

#endif
