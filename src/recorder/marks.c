// SPDX-License-Identifier: Apache-2.0
/* See marks.h. The page of the words stays mapped as long as the process lives, so a number that was read is one
 * that the GPU wrote there. */
#include "recorder/marks.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

static void take(struct record_header *h)
{
    for (uint32_t i = 0; i < RECORD_MARKS && atomic_load(&h->marks[i].present) != 0; i++) {
        uint32_t value = 0;
        struct iovec to = {.iov_base = &value, .iov_len = sizeof value};
        struct iovec from = {.iov_base = (void *)(uintptr_t)h->marks[i].word,
                             .iov_len = sizeof value};
        if (process_vm_readv(h->pid, &to, 1, &from, 1, 0) == (ssize_t)sizeof value &&
            value > atomic_load(&h->marks[i].completed) &&
            value <= atomic_load(&h->marks[i].issued)) {
            atomic_store(&h->marks[i].completed, value);
        }
    }
}

void marks_take(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return;
    }
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= RECORD_HEADER_BYTES) {
        void *map = mmap(NULL, RECORD_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map != MAP_FAILED) {
            struct record_header *h = map;
            if (memcmp(h->magic, RECORD_MAGIC, sizeof h->magic) == 0 &&
                h->version == RECORD_VERSION && atomic_load(&h->ending) == RECORD_RUNNING &&
                atomic_load(&h->marks_state) == RECORD_MARKS_ON) {
                take(h);
            }
            munmap(map, RECORD_HEADER_BYTES);
        }
    }
    close(fd);
}

const struct record_mark *marks_of(const struct record *r, const struct record_entry *e)
{
    if (e->stream_number == 0 || e->mark_row >= RECORD_MARKS ||
        r->head.marks[e->mark_row].present == 0) {
        return NULL;
    }
    return &r->head.marks[e->mark_row];
}

bool marks_is_done(const struct record *r, const struct record_entry *e)
{
    const struct record_mark *m = marks_of(r, e);
    return m != NULL && e->stream_number <= m->completed;
}
