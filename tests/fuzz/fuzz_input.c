// SPDX-License-Identifier: Apache-2.0
/* Any bytes as a plain, gzip, zstd or UTF-16 file: an end, a note or an error, never a crash. */
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/mman.h>

#include "base/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("input", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) != 0) {
        return 0;
    }
    struct arena *a = arena_new(0);
    struct input *in;
    struct err err;
    if (input_open_fd(a, fd, "x", NULL, &in, &err) == ST_OK) {
        static char buffer[65536];
        size_t total = 0;
        size_t n = 1;
        size_t piece = size % 2 != 0 ? sizeof buffer : 8;
        while (n != 0 && total < (64u << 20)) {
            if (input_read(in, buffer, piece, &n, &err) != ST_OK || n > piece) {
                abort(); /* bytes in memory never fail to read; damage is a note */
            }
            total += n;
        }
        input_close(in);
    }
    arena_free(a);
    return 0;
}
