// SPDX-License-Identifier: Apache-2.0
/*
 * Progress marks: behind every N-th call on a stream the GPU is asked to write the call's number into a word of host
 * memory (cuStreamWriteValue32, hipStreamWriteValue32). When a kernel faults or hangs, the words tell how far each
 * stream came. The words lie in memory of ours that the driver is told of (a page of its own allocation could not be
 * read by our supervisor), and are never freed: a late write finds them.
 *
 * Steps aside, and says why in the record, where a function is missing, the driver refuses, or streams are too many;
 * puts nothing on a stream that is being captured into a graph.
 */
#include <errno.h>
#include <string.h>

#include <sys/mman.h>

#include "preload/gpu.h"

enum {
    WORD_SPACING = 64, /* bytes: a cache line each */
    PAGE_BYTES = 4096,
    REGISTER_PORTABLE = 1,
    REGISTER_MAPPED = 2,
    REASON_OF_OURS = -1,
    NOT_INITIALIZED = 3,
    NO_CONTEXT = 201
};

_Static_assert(RECORD_MARKS *WORD_SPACING <= PAGE_BYTES, "the words have one page");

typedef int (*register_function)(void *, size_t, unsigned);
typedef int (*device_pointer)(uint64_t *, void *, unsigned);
typedef int (*write_value)(void *, uint64_t, uint32_t, unsigned);
typedef int (*capture_question)(void *, int *);

struct functions {
    register_function host_register;
    device_pointer pointer;
    write_value write;
    capture_question capturing;
};

static const char *const names[2][4] = {
    [GPU_CUDA] = {"cuMemHostRegister_v2", "cuMemHostGetDevicePointer_v2", "cuStreamWriteValue32_v2",
                  "cuStreamIsCapturing"},
    [GPU_HIP] = {"hipHostRegister", "hipHostGetDevicePointer", "hipStreamWriteValue32",
                 "hipStreamIsCapturing"},
};

enum start_state {
    START_NOT_YET = 0,
    START_UNDER_WAY,
    START_DONE,
    START_FAILED
};

static struct functions functions;
static _Atomic int state;         /* enum start_state */
static _Atomic int platform = -1; /* enum gpu_platform; one a process */
static char *words;               /* as the host sees them */
static uint64_t device_words;     /* as the device does */

/* The stream of a row, one more than its handle: 0 is a stream, too. */
static _Atomic uint64_t streams[RECORD_MARKS];

static void stop_marks(enum record_marks_state why, int code)
{
    struct record_header *h = record_file_now();
    if (h != NULL) {
        h->marks_code = code;
        atomic_store(&h->marks_state, why);
    }
    atomic_store(&state, START_FAILED);
}

static bool find_functions(enum gpu_platform p, uint64_t caller)
{
    static _Atomic(void *) slots[4];
    void *found[4];
    for (int i = 0; i < 4; i++) {
        found[i] = gpu_driver_symbol(&slots[i], names[p][i], caller);
        if (found[i] == NULL) {
            return false;
        }
    }
    functions = (struct functions){(register_function)found[0], (device_pointer)found[1],
                                   (write_value)found[2], (capture_question)found[3]};
    return true;
}

static void begin_marks(struct record_header *h, enum gpu_platform p, uint64_t caller)
{
    int before = START_NOT_YET;
    if (!atomic_compare_exchange_strong(&state, &before, START_UNDER_WAY)) {
        return;
    }
    if (!find_functions(p, caller)) {
        stop_marks(RECORD_MARKS_MISSING, 0);
        return;
    }
    void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        stop_marks(RECORD_MARKS_REFUSED, REASON_OF_OURS);
        return;
    }
    memset(page, 0, PAGE_BYTES);
    int rc = functions.host_register(page, PAGE_BYTES, REGISTER_PORTABLE | REGISTER_MAPPED);
    uint64_t device = 0;
    if (rc == 0) {
        rc = functions.pointer(&device, page, 0);
    }
    if (rc == NOT_INITIALIZED ||
        rc == NO_CONTEXT) { /* the first call of the process: asked again at the next */
        munmap(page, PAGE_BYTES);
        atomic_store(&state, START_NOT_YET);
        return;
    }
    if (rc != 0) {
        stop_marks(RECORD_MARKS_REFUSED, rc);
        return;
    }
    words = page;
    device_words = device;
    h->marks_every = settings.marks;
    atomic_store(&h->marks_state, RECORD_MARKS_ON);
    atomic_store(&state, START_DONE);
}

static int row_of(uint64_t stream)
{
    for (int i = 0; i < RECORD_MARKS; i++) {
        uint64_t here = atomic_load_explicit(&streams[i], memory_order_acquire);
        if (here == stream + 1) {
            return i;
        }
        if (here == 0 && (atomic_compare_exchange_strong(&streams[i], &here, stream + 1) ||
                          here == stream + 1)) {
            struct record_header *h = record_file_now();
            h->marks[i].stream = stream;
            h->marks[i].word = (uint64_t)(uintptr_t)(words + (size_t)i * WORD_SPACING);
            atomic_store(&h->marks[i].present, 1);
            return i;
        }
    }
    return -1;
}

void gpu_marks_number(struct record_entry *e, enum gpu_platform p, uint64_t stream, uint64_t caller)
{
    if (settings.marks == 0 || e == NULL) {
        return;
    }
    struct record_header *h = record_file_now();
    int none = -1;
    if (h == NULL ||
        (!atomic_compare_exchange_strong(&platform, &none, (int)p) && none != (int)p)) {
        return;
    }
    int kept = errno;
    begin_marks(h, p, caller);
    if (atomic_load_explicit(&state, memory_order_acquire) == START_DONE) {
        int row = row_of(stream);
        if (row < 0) {
            atomic_store(&h->marks_streams_lost, 1);
        } else {
            e->stream_number = 1 + atomic_fetch_add_explicit(&h->marks[row].issued, 1,
                                                             memory_order_relaxed);
            e->mark_row = (uint32_t)row;
        }
    }
    errno = kept;
}

static uint32_t word_of(int row)
{
    return *(volatile uint32_t *)(void *)(words + (size_t)row * WORD_SPACING);
}

void gpu_marks_after(const struct record_entry *e, int result)
{
    if (e == NULL || e->stream_number == 0 || result != 0 ||
        e->stream_number % settings.marks != 0 || atomic_load(&state) != START_DONE) {
        return;
    }
    struct record_header *h = record_file_now();
    struct record_mark *m = &h->marks[e->mark_row];
    if (e->stream_number < atomic_load_explicit(&m->marked, memory_order_relaxed)) {
        return; /* a product whose own kernels were seen and have their marks */
    }
    void *stream = (void *)(uintptr_t)m->stream;
    int kept = errno;
    int capturing = 0;
    if (functions.capturing(stream, &capturing) == 0 && capturing == 0) {
        uint64_t to = device_words + (uint64_t)e->mark_row * WORD_SPACING;
        int rc = functions.write(stream, to, e->stream_number, 0);
        if (rc == 0) {
            atomic_store_explicit(&m->marked, e->stream_number, memory_order_relaxed);
            atomic_store_explicit(&m->completed, word_of((int)e->mark_row), memory_order_relaxed);
        } else {
            /* A context that is broken refuses everything: that is no reason to forget how far it came. */
            gpu_marks_look();
            if (h->gpu_fault.present == 0 && rc != 700) {
                stop_marks(RECORD_MARKS_REFUSED, rc);
            }
        }
    }
    errno = kept;
}

void gpu_marks_look(void)
{
    struct record_header *h = record_file_now();
    if (h == NULL || settings.marks == 0 || words == NULL) {
        return;
    }
    for (int i = 0; i < RECORD_MARKS && atomic_load(&h->marks[i].present) != 0; i++) {
        atomic_store_explicit(&h->marks[i].completed, word_of(i), memory_order_relaxed);
    }
}

void gpu_marks_after_fork(void)
{
    /* The child's driver is another one, if it can have any. */
    atomic_store(&state, START_NOT_YET);
    atomic_store(&platform, -1);
    words = NULL;
    for (int i = 0; i < RECORD_MARKS; i++) {
        atomic_store(&streams[i], 0);
    }
}
