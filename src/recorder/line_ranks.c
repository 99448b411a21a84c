// SPDX-License-Identifier: Apache-2.0
/* See line_ranks.h. The files are the job's: what they say is checked, and changes nothing but a number in a line. */
#include "recorder/line_ranks.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/stat.h>

#include "base/fs.h"

#include "recorder/line_format.h"

/* A folder may change again within one tick of its clock. */
#define TICK_S 0.05

enum {
    RANK_MOST = 10000000
};

void line_ranks_start(const char *folder, struct line_ranks *ret_ranks)
{
    *ret_ranks = (struct line_ranks){.folder = folder};
}

static double seconds_of(struct timespec t)
{
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Whether files may have come since the folder was last listed. */
static bool has_changed(struct line_ranks *r)
{
    struct stat st;
    struct timespec now;
    if (stat(r->folder, &st) != 0) {
        return false;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    double changed = seconds_of(st.st_mtim);
    bool again = changed != r->changed || seconds_of(now) - changed < TICK_S;
    r->changed = changed;
    return again;
}

static struct lines_file *open_file(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    void *map = MAP_FAILED;
    if (fd < 0) {
        return NULL;
    }
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        st.st_size >= (off_t)sizeof(struct lines_file)) {
        map = mmap(NULL, sizeof(struct lines_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    close(fd);
    if (map == MAP_FAILED) {
        return NULL;
    }
    struct lines_file *f = map;
    if (memcmp(f->magic, LINES_MAGIC, sizeof f->magic) != 0 || f->rank < 0 || f->rank > RANK_MOST) {
        munmap(map, sizeof *f);
        return NULL;
    }
    return f;
}

static void look(struct line_ranks *r, struct arena *scratch)
{
    const struct fs fs = {.prefix = ""};
    const char *const *names = NULL;
    size_t count = 0;
    struct arena_mark mark = arena_mark(scratch);
    if (fs_list(&fs, scratch, r->folder, &names, &count, NULL) == ST_OK) {
        for (size_t i = 0; i < count && r->count < LINE_RANKS_PROCESSES_MAX; i++) {
            struct str name = str_of(names[i]);
            uint64_t pid = 0;
            if (!str_starts(name, "lines.") ||
                str_to_u64(str_slice(name, 6, name.n), 10, &pid) != ST_OK || pid > INT32_MAX) {
                continue;
            }
            bool known = false;
            for (size_t k = 0; k < r->count; k++) {
                known = known || r->pids[k] == (int)pid;
            }
            struct lines_file *f =
                known ? NULL : open_file(arena_fmt(scratch, "%s/%s", r->folder, names[i]));
            if (f != NULL) {
                r->pids[r->count] = (int)pid;
                r->files[r->count++] = f;
            }
        }
    }
    arena_rewind(scratch, mark);
}

/* Takes the oldest of the process's lines with that digest. */
static bool take(struct lines_file *f, uint64_t digest)
{
    uint64_t written = atomic_load_explicit(&f->written, memory_order_acquire);
    uint64_t kept = written < LINES_RING ? written : LINES_RING;
    for (uint64_t i = written - kept; i < written; i++) {
        uint64_t seen = digest;
        if (atomic_load_explicit(&f->digests[i % LINES_RING], memory_order_relaxed) == digest &&
            atomic_compare_exchange_strong(&f->digests[i % LINES_RING], &seen, 0)) {
            return true;
        }
    }
    return false;
}

bool line_ranks_find(struct line_ranks *r, struct arena *scratch, struct str line, int *ret_rank,
                     int *ret_local_rank)
{
    uint64_t digest = LINES_DIGEST_START;
    for (size_t i = 0; i < line.n && i < LINES_DIGESTED; i++) {
        digest = lines_digest_byte(digest, (unsigned char)line.p[i]);
    }
    digest = lines_digest_end(digest);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < r->count; i++) {
            if (take(r->files[i], digest)) {
                *ret_rank = r->files[i]->rank;
                *ret_local_rank = r->files[i]->local_rank;
                return true;
            }
        }
        if (round > 0 || !has_changed(r)) {
            break;
        }
        look(r, scratch);
    }
    return false;
}

void line_ranks_end(struct line_ranks *r)
{
    for (size_t i = 0; i < r->count; i++) {
        munmap(r->files[i], sizeof *r->files[i]);
    }
    r->count = 0;
}
