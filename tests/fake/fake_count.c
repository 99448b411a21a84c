// SPDX-License-Identifier: Apache-2.0
#include "fake_count.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/mman.h>

static uint64_t *open_counters(void)
{
    const char *path = getenv("ASSAY_FAKE_COUNT");
    int fd = path != NULL ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0 || ftruncate(fd, (off_t)(FAKE_CALL_COUNT * sizeof(uint64_t))) != 0) {
        return NULL;
    }
    void *p = mmap(NULL, FAKE_CALL_COUNT * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                   0);
    close(fd);
    return p == MAP_FAILED ? NULL : p;
}

void fake_count(enum fake_call call)
{
    static bool asked;
    static uint64_t *counters;
    if (!asked) {
        counters = open_counters();
        asked = true;
    }
    if (counters != NULL) {
        __atomic_fetch_add(&counters[call], 1, __ATOMIC_RELAXED);
    }
}
