// SPDX-License-Identifier: Apache-2.0
/* See record_reader.h. Sizes of rows are taken from the file and must be ours: versions tell them. */
#include "recorder/record_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/stat.h>

#include "base/bytes.h"

static enum status check_head(const struct record_header *h, const char *name, struct err *err)
{
    if (memcmp(h->magic, RECORD_MAGIC, sizeof h->magic) != 0) {
        return err_set(err, ST_FORMAT, "%s is not a record: it does not begin with %s", name,
                       RECORD_MAGIC);
    }
    if (h->version != RECORD_VERSION) {
        return err_set(err, ST_FORMAT,
                       "%s is a record of version %u; this program reads version %d", name,
                       h->version, RECORD_VERSION);
    }
    if (h->header_bytes != RECORD_HEADER_BYTES || h->hook_bytes != sizeof(struct record_hook) ||
        h->ring_bytes != sizeof(struct record_ring) ||
        h->entry_bytes != sizeof(struct record_entry) ||
        h->alloc_bytes != sizeof(struct record_alloc) ||
        h->name_bytes != sizeof(struct record_name) ||
        h->binding_bytes != sizeof(struct record_binding)) {
        return err_set(err, ST_FORMAT, "%s: the sizes of its rows are not those of version %d",
                       name, RECORD_VERSION);
    }
    if (h->hook_count > RECORD_HOOKS_MAX || h->ring_count > 4096 || h->ring_entries == 0 ||
        h->ring_entries > 1u << 20 || (h->ring_entries & (h->ring_entries - 1)) != 0 ||
        h->alloc_slots > 1u << 24 || h->name_slots > 1u << 20 || h->binding_slots > 1u << 16) {
        return err_set(err, ST_FORMAT, "%s: its tables have impossible sizes", name);
    }
    return ST_OK;
}

/* `count` rows at `at`, copied. */
static enum status copy_rows(struct arena *a, struct str bytes, uint64_t at, uint64_t count,
                             size_t size, const char *name, const char *what, void **ret_rows,
                             struct err *err)
{
    struct str view;
    if (at % 8 != 0 || !bytes_view(bytes, at, count * size, &view)) {
        return err_set(err, ST_FORMAT, "%s is cut off: its %s end behind the end of the file", name,
                       what);
    }
    void *rows = arena_array(a, (size_t)count + 1, size);
    memcpy(rows, view.p, view.n);
    *ret_rows = rows;
    return ST_OK;
}

static void end_texts(struct record *r)
{
    r->head.host[sizeof r->head.host - 1] = '\0';
    r->head.program[sizeof r->head.program - 1] = '\0';
    if (r->head.fault.frame_count > sizeof r->head.fault.frames / sizeof *r->head.fault.frames) {
        r->head.fault.frame_count = 0;
    }
}

static enum status read_hooks(struct arena *a, struct str bytes, const char *name, struct record *r,
                              struct err *err)
{
    void *rows = NULL;
    TRY(copy_rows(a, bytes, r->head.hooks_at, r->head.hook_count, sizeof(struct record_hook), name,
                  "names of functions", &rows, err));
    struct record_hook *hooks = rows;
    for (uint32_t i = 0; i < r->head.hook_count; i++) {
        hooks[i].name[sizeof hooks[i].name - 1] = '\0';
        hooks[i].library[sizeof hooks[i].library - 1] = '\0';
    }
    r->hooks = hooks;
    return ST_OK;
}

static int by_address(const void *pa, const void *pb)
{
    uint64_t a = ((const struct record_alloc *)pa)->address;
    uint64_t b = ((const struct record_alloc *)pb)->address;
    return (a > b) - (a < b);
}

static enum status read_allocs(struct arena *a, struct str bytes, const char *name,
                               struct record *r, struct err *err)
{
    struct str view;
    uint64_t count = r->head.alloc_slots;
    if (!bytes_view(bytes, r->head.allocs_at, count * sizeof(struct record_alloc), &view)) {
        return err_set(err, ST_FORMAT,
                       "%s is cut off: its allocations end behind the end of the file", name);
    }
    struct record_alloc row;
    size_t used = 0;
    for (uint64_t i = 0; i < count; i++) {
        used += bytes_le64(view.p + i * sizeof row) != 0;
    }
    r->allocs = arena_array(a, used + 1, sizeof row);
    for (uint64_t i = 0; i < count && r->alloc_count < used; i++) {
        memcpy((void *)&row, view.p + i * sizeof row, sizeof row);
        if (row.address != 0) {
            r->allocs[r->alloc_count++] = row;
        }
    }
    qsort(r->allocs, r->alloc_count, sizeof row, by_address);
    return ST_OK;
}

static enum status read_names(struct arena *a, struct str bytes, const char *name, struct record *r,
                              struct err *err)
{
    void *rows = NULL;
    TRY(copy_rows(a, bytes, r->head.names_at, r->head.name_slots, sizeof(struct record_name), name,
                  "kernel names", &rows, err));
    struct record_name *all = rows;
    size_t kept = 0;
    for (uint32_t i = 0; i < r->head.name_slots; i++) {
        if (all[i].key != 0) {
            all[kept] = all[i];
            all[kept].name[sizeof all[kept].name - 1] = '\0';
            kept++;
        }
    }
    r->names = all;
    r->name_count = kept;
    return ST_OK;
}

static enum status read_bindings(struct arena *a, struct str bytes, const char *name,
                                 struct record *r, struct err *err)
{
    void *rows = NULL;
    TRY(copy_rows(a, bytes, r->head.bindings_at, r->head.binding_slots,
                  sizeof(struct record_binding), name, "bindings", &rows, err));
    struct record_binding *all = rows;
    size_t kept = 0;
    for (uint32_t i = 0; i < r->head.binding_slots; i++) {
        if (all[i].present == 1 && all[i].hook < r->head.hook_count) {
            all[kept++] = all[i];
        }
    }
    r->bindings = all;
    r->binding_count = kept;
    return ST_OK;
}

/* The whole entries of one ring; those cut off with the file are not there. */
static void read_ring(struct arena *a, struct str bytes, struct record *r, uint32_t ring,
                      struct record_thread *t, struct record_event *room)
{
    (void)a;
    uint64_t slots = r->head.ring_entries;
    uint64_t from = t->written > slots ? t->written - slots : 0;
    uint64_t at = r->head.entries_at + ring * slots * sizeof(struct record_entry);
    /* A ring that lies behind the end of the file has nothing to give, however long it says it is. */
    for (uint64_t n = from; at < bytes.n && n < t->written; n++) {
        struct str view;
        struct record_event *e = &room[r->event_count];
        if (!bytes_view(bytes, at + (n & (slots - 1)) * sizeof e->entry, sizeof e->entry, &view)) {
            continue;
        }
        memcpy((void *)&e->entry, view.p, sizeof e->entry);
        if ((e->entry.state != RECORD_OPEN && e->entry.state != RECORD_CLOSED) ||
            e->entry.hook >= r->head.hook_count || e->entry.kind >= RECORD_KIND_COUNT) {
            r->torn++;
            continue;
        }
        e->ring = ring;
        e->number = n;
        t->kept++;
        r->event_count++;
    }
}

static int by_time(const void *pa, const void *pb)
{
    const struct record_event *a = pa;
    const struct record_event *b = pb;
    if (a->entry.begin_ns != b->entry.begin_ns) {
        return a->entry.begin_ns > b->entry.begin_ns ? 1 : -1;
    }
    if (a->ring != b->ring) {
        return a->ring > b->ring ? 1 : -1;
    }
    return (a->number > b->number) - (a->number < b->number);
}

static enum status read_threads(struct arena *a, struct str bytes, const char *name,
                                struct record *r, struct err *err)
{
    void *rows = NULL;
    TRY(copy_rows(a, bytes, r->head.rings_at, r->head.ring_count, sizeof(struct record_ring), name,
                  "threads", &rows, err));
    struct record_ring *rings = rows;
    uint32_t *which = arena_array(a, r->head.ring_count + 1, sizeof *which);
    r->threads = arena_array(a, r->head.ring_count + 1, sizeof *r->threads);
    uint64_t total = 0;
    for (uint32_t i = 0; i < r->head.ring_count; i++) {
        uint64_t w = rings[i].written;
        total += w < r->head.ring_entries ? w : r->head.ring_entries;
    }
    /* A lying count cannot ask for more than the file could hold. */
    uint64_t most = bytes.n / sizeof(struct record_entry);
    r->events = arena_array(a, (size_t)(total < most ? total : most) + 1, sizeof *r->events);
    for (uint32_t i = 0; i < r->head.ring_count; i++) {
        struct record_ring *ring = &rings[i];
        if (ring->tid == 0) {
            continue;
        }
        ring->thread_name[sizeof ring->thread_name - 1] = '\0';
        which[r->thread_count] = i;
        struct record_thread *t = &r->threads[r->thread_count++];
        uint64_t *numbers = arena_array(a, 2 * RECORD_HOOKS_MAX, sizeof *numbers);
        for (uint32_t h = 0; h < RECORD_HOOKS_MAX; h++) {
            numbers[h] = ring->counts[h];
            numbers[RECORD_HOOKS_MAX + h] = ring->nanoseconds[h];
        }
        *t = (struct record_thread){.tid = ring->tid,
                                    .name = ring->thread_name,
                                    .ended = ring->in_use == 0,
                                    .written = ring->written,
                                    .counts = numbers,
                                    .nanoseconds = numbers + RECORD_HOOKS_MAX};
        if (r->event_count < most) {
            read_ring(a, bytes, r, i, t, r->events);
        }
    }
    r->ring_of_thread = which;
    qsort(r->events, r->event_count, sizeof *r->events, by_time);
    return ST_OK;
}

enum status record_reader_parse(struct arena *a, struct str bytes, const char *name,
                                struct record *ret_record, struct err *err)
{
    if (bytes.n < sizeof(struct record_header)) {
        return err_set(err, ST_FORMAT, "%s is not a record: %zu bytes are less than its header",
                       name, bytes.n);
    }
    struct record *r = arena_alloc(a, sizeof *r);
    memcpy((void *)&r->head, bytes.p, sizeof r->head);
    TRY(check_head(&r->head, name, err));
    end_texts(r);
    TRY(read_hooks(a, bytes, name, r, err));
    TRY(read_allocs(a, bytes, name, r, err));
    TRY(read_names(a, bytes, name, r, err));
    TRY(read_bindings(a, bytes, name, r, err));
    TRY(read_threads(a, bytes, name, r, err));
    *ret_record = *r;
    return ST_OK;
}

/* Reads the parts that are there; holes of the sparse file come back as zeros without disk reads. */
enum status record_reader_load(struct arena *a, const char *path, struct record *ret_record,
                               struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return err_sys(err, errno, "cannot open the record %s", path);
    }
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return err_set(err, ST_FORMAT, "%s is not a record: it is no regular file", path);
    }
    if (st.st_size == 0 || st.st_size > INT64_C(1) << 33) {
        close(fd);
        return err_set(err, ST_FORMAT, "%s is not a record: it has %lld bytes", path,
                       (long long)st.st_size);
    }
    /* Private and written to nowhere; a file that shrinks meanwhile is the one danger of a mapping, and
     * records are never truncated by their writer. */
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    int failed = errno;
    close(fd);
    if (p == MAP_FAILED) {
        return err_sys(err, failed, "cannot map the record %s", path);
    }
    struct str bytes = {.p = p, .n = (size_t)st.st_size};
    enum status s = record_reader_parse(a, bytes, path, ret_record, err);
    munmap(p, (size_t)st.st_size);
    return s;
}

uint64_t record_reader_progress(const char *path)
{
    struct record_header h;
    uint64_t calls = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return 0;
    }
    if (pread(fd, &h, sizeof h, 0) == (ssize_t)sizeof h && check_head(&h, path, NULL) == ST_OK) {
        for (uint32_t i = 0; i < h.ring_count; i++) {
            uint64_t written;
            off_t at = (off_t)(h.rings_at + i * sizeof(struct record_ring) +
                               offsetof(struct record_ring, written));
            if (pread(fd, &written, sizeof written, at) != (ssize_t)sizeof written) {
                break;
            }
            calls += written;
        }
    }
    close(fd);
    return calls;
}

/* 0 when inside, else the distance in bytes between the address and the block. */
static uint64_t distance(const struct record_alloc *b, uint64_t address)
{
    if (address < b->address) {
        return b->address - address;
    }
    uint64_t end = b->address + b->size;
    return address < end ? 0 : address - end + 1;
}

bool record_alloc_is_live(const struct record *r, const struct record_alloc *block)
{
    return (block->flags & RECORD_ALLOC_LIVE) != 0 ||
           (r->head.gpu_fault.present != 0 && block->freed_ns > r->head.gpu_fault.time_ns);
}

const struct record_alloc *record_alloc_near(const struct record *r, uint64_t address,
                                             uint64_t slack)
{
    const struct record_alloc *best = NULL;
    uint64_t best_distance = UINT64_MAX;
    bool best_live = false;
    for (size_t i = 0; i < r->alloc_count; i++) {
        const struct record_alloc *b = &r->allocs[i];
        uint64_t d = distance(b, address);
        bool live = record_alloc_is_live(r, b);
        if (d > slack && d != 0) {
            continue;
        }
        bool better = best == NULL || (live != best_live ? live : d < best_distance);
        if (better) {
            best = b;
            best_distance = d;
            best_live = live;
        }
    }
    return best;
}

const char *record_name_of(const struct record *r, uint64_t key)
{
    for (size_t i = 0; i < r->name_count; i++) {
        if (r->names[i].key == key && r->names[i].name[0] != '\0') {
            return r->names[i].name;
        }
    }
    return NULL;
}
