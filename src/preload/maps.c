// SPDX-License-Identifier: Apache-2.0
/*
 * maps.<pid>: the memory map of this process, which says which library an address belongs to. Written
 * when the record is made, when a library is called for the first time, at a fatal signal and at the
 * end. System calls only.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "preload/preload.h"
#include "preload/text.h"

enum {
    MAPS_BYTES = 4 << 20 /* no list is longer */
};

static bool copy(int from, int to)
{
    char block[4096];
    for (;;) {
        ssize_t n = read(from, block, sizeof block);
        if (n <= 0) {
            return n == 0;
        }
        for (ssize_t done = 0; done < n;) {
            ssize_t wrote = write(to, block + done, (size_t)(n - done));
            if (wrote <= 0) {
                return false;
            }
            done += wrote;
        }
    }
}

static struct text name_of(char *room, size_t size)
{
    struct text t = {.p = room, .size = size};
    text_add(&t, settings.folder);
    text_add(&t, "/maps.");
    text_number(&t, (uint64_t)getpid());
    return t;
}

void maps_forget(void)
{
    char name[3600];
    unlink(name_of(name, sizeof name).p);
}

/* Into a second name first: whoever reads sees the old or the new list, never half of one. */
void maps_write(void)
{
    char name[3600];
    char part[3600];
    name_of(name, sizeof name);
    struct text u = {.p = part, .size = sizeof part};
    text_add(&u, name);
    text_add(&u, ".part");
    int kept = errno;
    int from = file_size_allowed(MAPS_BYTES) ? open("/proc/self/maps", O_RDONLY | O_CLOEXEC) : -1;
    if (from >= 0) {
        int to = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (to >= 0) {
            bool ok = copy(from, to);
            if (close(to) != 0 || !ok || rename(part, name) != 0) {
                unlink(part);
            }
        }
        close(from);
    }
    errno = kept;
}
