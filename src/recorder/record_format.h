// SPDX-License-Identifier: Apache-2.0
/*
 * The record of one process: a file that is mapped and written in place, so that whatever was written
 * is there after SIGKILL at any instruction. The one header that the preloaded writer and the reader
 * share; it holds the layout and no code. Little-endian, 64-bit hosts.
 *
 *   header (4096 bytes)
 *   hook table   hook_count * record_hook: names, so that a file explains itself to another version
 *   ring heads   ring_count * record_ring: one ring a thread, with a counter for each hook
 *   entries      ring_count * ring_entries * record_entry
 *   allocations  alloc_slots * record_alloc: open addressing by address; freed blocks stay until
 *                their slot is needed
 *   names        name_slots * record_name: kernel names by function handle, with their launches
 *   bindings     binding_slots * record_binding: which library served whose calls
 *
 * An entry is written before the call (state OPEN) and closed after it. An entry whose state is
 * EMPTY was being written when the process ended. A program that calls exec leaves one file before
 * and one after it: record.<pid>.bin, record.<pid>.1.bin. Rings overwrite their oldest entry: `written`
 * counts all, so the reader knows what is missing. The file is sparse: pages never touched cost
 * nothing.
 */
#ifndef ASSAY_RECORDER_RECORD_FORMAT_H
#define ASSAY_RECORDER_RECORD_FORMAT_H

#include <stdatomic.h>
#include <stdint.h>

#define RECORD_MAGIC "ASSAYREC"

enum {
    RECORD_VERSION = 2,
    RECORD_HEADER_BYTES = 4096,
    RECORD_RINGS = 128,
    RECORD_RING_ENTRIES =
        4096, /* a power of two; a ring is reserved on disk when a thread takes it */
    RECORD_HOOKS_MAX = 192,
    RECORD_ALLOC_SLOTS = 1 << 17, /* a power of two */
    RECORD_NAME_SLOTS = 1 << 12,  /* a power of two */
    RECORD_BINDINGS = 512,
    RECORD_MARKS = 32, /* streams whose progress is told */
};

/* What a call is; the member of record_entry.u that is filled. */
enum record_kind {
    RECORD_CALL = 0, /* u.call */
    RECORD_GEMM,     /* u.gemm */
    RECORD_ALLOC,    /* u.memory */
    RECORD_FREE,     /* u.memory */
    RECORD_COPY,     /* u.memory */
    RECORD_SET,      /* u.memory */
    RECORD_LAUNCH,   /* u.launch */
    RECORD_SYNC,     /* u.call: stream or event */
    RECORD_COLLECTIVE,
    RECORD_CONVOLUTION, /* u.convolution */
    RECORD_PLAN,        /* u.plan: cuDNN's graphs */
    RECORD_KIND_COUNT
};

enum record_state {
    RECORD_EMPTY = 0,
    RECORD_OPEN = 1,
    RECORD_CLOSED = 2,
};

/* Whose numbers u.gemm.type_* and u.convolution.type are. */
enum record_types {
    RECORD_TYPES_OURS = 0, /* enum record_dtype */
    RECORD_TYPES_CUDA,     /* cudaDataType_t, which hipDataType repeats */
    RECORD_TYPES_ROCBLAS,  /* rocblas_datatype */
    RECORD_TYPES_CUDNN,    /* cudnnDataType_t */
    RECORD_TYPES_MIOPEN,   /* miopenDataType_t */
};

enum record_dtype {
    RECORD_F32 = 0,
    RECORD_F64,
    RECORD_BF16,
    RECORD_F16,
};

/* Column-major, as in device/gemm.h; a row-major call is recorded with A and B exchanged. */
struct record_gemm {
    int64_t m, n, k;
    int64_t lda, ldb, ldc;
    int64_t stride_a, stride_b, stride_c;
    uint64_t a, b, c, d, bias;
    double alpha, beta;
    uint64_t algorithm; /* solution index or first word of the algorithm; UINT64_MAX: not told */
    uint64_t stream;
    uint32_t batch;
    uint8_t transpose_a, transpose_b; /* 0 no, 1 yes */
    uint8_t types;                    /* enum record_types */
    uint8_t epilogue;
    uint16_t type_a, type_b, type_c;
    uint16_t compute;
};

struct record_memory {
    uint64_t address; /* of the block, or the destination */
    uint64_t size;    /* bytes */
    uint64_t source;  /* copies: source; allocations: alignment */
    uint64_t stream;
    uint32_t direction; /* of a copy: cudaMemcpyKind, which hipMemcpyKind repeats; sets: the byte */
    uint32_t guarded;   /* 1: the block ends at a hole */
};

struct record_launch {
    uint64_t function; /* handle or host stub; record_name.key */
    uint64_t stream;
    uint32_t grid[3], block[3];
    uint32_t shared_bytes;
    uint32_t argument_bytes; /* of the copy in `arguments`; 0 when the sizes are not known */
    uint64_t arguments[20];
};

struct record_collective {
    uint64_t send, receive, count;
    uint64_t communicator, stream;
    uint32_t type, operation, peer;
};

enum record_direction {
    RECORD_FORWARD = 0,      /* reads x and w, writes y */
    RECORD_BACKWARD_DATA,    /* reads y's gradient and w, writes x's */
    RECORD_BACKWARD_WEIGHTS, /* reads x and y's gradient, writes w's */
};

/* A convolution of MIOpen or cuDNN. Sizes are N, C, (D,) H, W and K, C / groups, (D,) H, W whatever the layout
 * in memory; for the backward ones a member holds the gradient where the call has one. */
struct record_convolution {
    uint64_t x, w, y, workspace;
    uint64_t x_bytes, w_bytes, y_bytes; /* from the first to the last element; 0: not told */
    uint64_t workspace_bytes;
    uint64_t algorithm; /* or MIOpen's solution; UINT64_MAX: being searched for */
    uint64_t stream;
    int32_t x_size[5], w_size[5], y_size[5];
    int32_t padding[3], stride[3], dilation[3];
    int32_t groups;
    uint8_t direction;     /* enum record_direction */
    uint8_t rank;          /* sizes told of x, w, y: 4 or 5; 0: none */
    uint8_t types;         /* enum record_types */
    uint8_t channels_last; /* bit 0: x, 1: w, 2: y */
    uint16_t type;
};

enum {
    RECORD_PLAN_POINTERS = 16
};

/* An executed plan: its operands are pointers without shapes. */
struct record_plan {
    uint64_t plan, workspace, stream;
    uint32_t pointer_count; /* may be more than are kept */
    uint64_t pointers[RECORD_PLAN_POINTERS];
};

struct record_call {
    uint64_t values[8];
};

struct record_entry {
    _Atomic uint32_t state;
    uint16_t hook; /* row of the hook table */
    uint8_t kind;  /* enum record_kind */
    uint8_t depth; /* 0: called by the program; 1: inside another recorded call of this thread */
    uint64_t begin_ns;      /* CLOCK_MONOTONIC */
    uint64_t end_ns;        /* 0 while open */
    int64_t result;         /* what the call returned; pointers and void: 0 */
    uint64_t caller;        /* return address: which library asked */
    uint32_t stream_number; /* among the calls of its stream, from 1; 0: not numbered */
    uint32_t mark_row;      /* of header.marks, where it is numbered */

    union {
        struct record_call call;
        struct record_gemm gemm;
        struct record_memory memory;
        struct record_launch launch;
        struct record_collective collective;
        struct record_convolution convolution;
        struct record_plan plan;
    } u;
};

_Static_assert(sizeof(struct record_entry) == 256, "four cache lines");

struct record_hook {
    char name[48];    /* the symbol */
    char library[16]; /* the family it belongs to: "blas", "onednn", "cublaslt", "hip" */
};

struct record_ring {
    _Atomic int32_t tid;      /* 0: free */
    _Atomic uint32_t in_use;  /* 0 after the thread ended: the ring may be taken over */
    _Atomic uint64_t written; /* entries begun; entry i is at i % ring_entries */
    char thread_name[16];
    _Atomic uint64_t counts[RECORD_HOOKS_MAX]; /* calls of each hook */
    uint64_t nanoseconds[RECORD_HOOKS_MAX];    /* spent in them */
};

enum record_alloc_flags {
    RECORD_ALLOC_LIVE = 1,
    RECORD_ALLOC_GUARDED = 2, /* its end touches a hole */
    RECORD_ALLOC_HOST = 4,    /* CPU memory */
};

struct record_alloc {
    _Atomic uint64_t address; /* 0: slot never used */
    uint64_t size;
    uint64_t begin_ns;
    uint64_t freed_ns; /* 0 while live */
    uint32_t flags;
    uint32_t tid;
};

/* A kernel by its handle. Names of AMD's products reach 855 characters. */
struct record_name {
    _Atomic uint64_t key;
    _Atomic uint64_t launches; /* through any hook of this process; exact */
    char name[1008];           /* "": looked for, and nobody told it */
};

/* Calls of `hook` from [caller_low, caller_high) went to the function at `real`. */
struct record_binding {
    _Atomic uint32_t present;
    uint32_t hook;
    uint64_t caller_low, caller_high;
    uint64_t real;
};

/* A fatal signal, written by the handler before the program's own handler sees it. */
struct record_fault {
    _Atomic uint32_t present;
    int32_t signal;
    int32_t code; /* si_code */
    int32_t tid;
    uint64_t address; /* si_addr */
    uint64_t instruction;
    uint64_t time_ns;
    uint32_t write; /* 1: the access was a write; only where `hardware` */
    uint32_t hardware;
    uint32_t ring; /* of the thread; UINT32_MAX: it has none */
    uint32_t frame_count;
    uint64_t frames[48];
};

/* The first error that a kernel's own doing brought; every later call of its context repeats it. The
 * call that returned it waited or came later: the kernel is one of those launched before. */
struct record_gpu_fault {
    _Atomic uint32_t present;
    int32_t code; /* 700: illegal address, and so on: CUDA and HIP share the numbers */
    uint32_t hook;
    uint32_t ring;
    uint64_t time_ns;
    uint64_t begin_ns; /* of the entry of that call */
};

/* How far a stream came: run --marks. The GPU writes the number of a call behind it into `word`. */
struct record_mark {
    uint64_t stream;
    uint64_t word; /* address in the process, 4 bytes */
    _Atomic uint32_t present;
    _Atomic uint32_t issued;    /* calls put on the stream */
    _Atomic uint32_t marked;    /* the last that a mark stands behind */
    _Atomic uint32_t completed; /* the last mark that the GPU had written when we looked */
};

enum record_marks_state {
    RECORD_MARKS_OFF = 0,
    RECORD_MARKS_ON,
    RECORD_MARKS_MISSING, /* the driver has no function for it */
    RECORD_MARKS_REFUSED, /* marks_code: its error; -1: no memory */
};

/* Why a feature is off, or how it is doing; shown by the report. */
enum record_guard_state {
    RECORD_GUARD_OFF = 0,
    RECORD_GUARD_PROVEN,
    RECORD_GUARD_UNPROVEN, /* asked for, and the planted over-read did not fault */
    RECORD_GUARD_FULL,     /* the limit on mappings was reached: later blocks are plain */
    RECORD_GUARD_FOREIGN,  /* the program frees through a function of its own */
};

enum record_ending {
    RECORD_RUNNING = 0, /* also what a killed process leaves */
    RECORD_EXITED,      /* left through exit() */
};

struct record_header {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes, hook_bytes, ring_bytes, entry_bytes, alloc_bytes, name_bytes,
        binding_bytes;
    uint32_t hook_count, ring_count, ring_entries, alloc_slots, name_slots, binding_slots;
    uint64_t hooks_at, rings_at, entries_at, allocs_at, names_at, bindings_at, file_bytes;
    int32_t pid, parent;
    int32_t rank, local_rank, world_size; /* -1: not told by the environment */
    _Atomic uint32_t ending;
    uint64_t start_realtime_ns, start_monotonic_ns;
    _Atomic uint64_t end_monotonic_ns;
    _Atomic uint64_t lost_threads; /* threads that found no ring */
    _Atomic uint64_t lost_allocs, lost_names;
    _Atomic uint32_t guard; /* enum record_guard_state */
    _Atomic uint32_t guard_mappings;
    _Atomic uint64_t guarded_blocks; /* handed out so far */
    _Atomic uint64_t guarded_bytes;  /* mapped for the guard, at the highest */
    _Atomic uint64_t canary_hits;
    _Atomic uint64_t gpu_guarded_blocks, gpu_guarded_bytes;
    uint64_t canary_address; /* of the block whose slack was written */
    char host[64];
    char program[256];
    struct record_fault fault;
    struct record_gpu_fault gpu_fault;
    _Atomic uint32_t marks_state; /* enum record_marks_state */
    int32_t marks_code;
    uint32_t marks_every;                /* calls from mark to mark */
    _Atomic uint32_t marks_streams_lost; /* 1: more streams than rows */
    struct record_mark marks[RECORD_MARKS];
};

_Static_assert(sizeof(struct record_header) <= RECORD_HEADER_BYTES, "the header has its page");

#endif
