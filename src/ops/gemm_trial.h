// SPDX-License-Identifier: Apache-2.0
/*
 * Matrix products of one library under guard, each judged twice: by what it touches and by what it
 * computes. Runs in children; the caller's process opens neither library nor device.
 *
 * Every operand ends exactly before, or begins exactly after, a page that is not mapped; the padding
 * of its last column is outside. Padding inside A and B holds NaN. Gaps between the columns of C hold
 * canaries. With beta = 0, C holds a NaN pattern before the call.
 */
#ifndef ASSAY_OPS_GEMM_TRIAL_H
#define ASSAY_OPS_GEMM_TRIAL_H

#include "device/blas.h"
#include "device/device.h"
#include "device/isolate.h"
#include "ops/gemm_plan.h"

enum gemm_fault_kind {
    GEMM_OK = 0,
    GEMM_READS_OUTSIDE, /* of an operand, at its guarded edge */
    GEMM_WRITES_OUTSIDE,
    GEMM_TOUCHES_OUTSIDE, /* direction unknown (GPU) */
    GEMM_STRAYS,          /* a memory fault far from every operand */
    GEMM_WRITES_GAP,      /* canaries between columns of C */
    GEMM_LEAVES_UNWRITTEN,
    GEMM_READS_OUTPUT, /* C matters although beta is 0 */
    GEMM_USES_PADDING, /* NaN of padding came through */
    GEMM_NOT_FINITE,   /* NaN or infinity where the result is a number */
    GEMM_INACCURATE,   /* farther from the reference than the bound */
    GEMM_FLOAT_MODE,   /* changed rounding or flush-to-zero of the calling thread */
    GEMM_ILLEGAL,      /* illegal instruction: kernel for another processor */
    GEMM_ABORTS,
    GEMM_CRASHES, /* any other signal, or exit() */
    GEMM_HANGS,
    GEMM_DEVICE_LOST,
    GEMM_FAULT_KIND_COUNT
};

/* "gemm-reads-past-operand", ...: stable names, used as ids of findings. */
const char *gemm_fault_slug(enum gemm_fault_kind kind);

enum gemm_operand {
    GEMM_OPERAND_A = 0,
    GEMM_OPERAND_B,
    GEMM_OPERAND_C,
    GEMM_OPERAND_COUNT,
    GEMM_OPERAND_NONE = GEMM_OPERAND_COUNT
};

struct gemm_fault {
    size_t index; /* item of the source */
    enum gemm_fault_kind kind;
    enum gemm_operand operand;
    enum guard_side side;
    bool distance_unknown; /* a device told no address; the operand was found by trying */
    int64_t distance; /* bytes from the operand's edge: -4 is the element before its first byte, 0
                       * the first byte behind its last */
    int64_t row, column; /* of the cell of C; -1 when there is none */
    double got, want, bound;
    int64_t bad_cells;
    int signal;
    struct gemm_choice choice; /* entry point or algorithm */
    char text[120];            /* the library's or device's last words */
};

/* What is on trial and how. */
struct gemm_target {
    const struct gemm_vendor *vendor;
    enum device_kind device_kind;
    int device_index;
    const struct device_options *device_options;
    const char *path;
    const char *variable; /* environment of the child: forces a kernel; NULL: none */
    const char *value;
    bool unguarded;     /* memory without holes: for comparison, and a test hook */
    unsigned map_path;  /* of devices: what guard_prove() proved, and 1; 0: the first that works */
    unsigned shrink_ms; /* for making the product of a fault small (gemm_localise.h); 0: no limit */
};

/* Items to run. */
struct gemm_source {
    size_t count;
    const void *context;
    void (*get)(const void *context, size_t index, struct gemm_probe *ret_probe);
};

enum {
    GEMM_FAULTS_KEPT = 4096, /* a whole list of variants, when each of them fails */
    GEMM_EXAMPLES_KEPT = 64  /* of every way to fail, however many came before it */
};

struct gemm_result {
    bool opened;
    char refusal[400];             /* why not */
    struct blas_identity identity; /* family and version of any vendor; the rest of CPU libraries */
    uint64_t probes;               /* run and judged, the faulty ones included */
    uint64_t declined;             /* the library does not offer the product */
    uint64_t skipped;              /* not enough memory for the operands */
    uint64_t faulty;               /* probes with a fault */
    uint64_t by_kind[GEMM_FAULT_KIND_COUNT];
    uint64_t by_way[GEMM_FAULT_KIND_COUNT][GEMM_OPERAND_COUNT + 1]; /* kind, operand */
    double worst;       /* largest error in units of the bound, of probes without a fault */
    double seconds;     /* wall clock */
    size_t next;        /* first item that was not run */
    bool stopped;       /* by tick, or by too many crashes (refusal says so) */
    size_t fault_count; /* of them kept below */
    struct gemm_fault faults[GEMM_FAULTS_KEPT];
};

struct gemm_trial_options {
    size_t first;                     /* begin at this item */
    unsigned deadline_ms;             /* for one item; 0: ten seconds */
    unsigned crashes_allowed;         /* ends that cost a new child; 0: 50 */
    const struct gemm_result *before; /* counts and faults to begin with; NULL: none */
    void *tick_context;
    /* About ten times a second; false stops. */
    bool (*tick)(void *context, const struct gemm_result *so_far, size_t done);
    /* About as often, with the same context: a result in which exactly the items before its `next` are
     * counted, to go on from; `so_far` above changes while it is read. May be NULL; false stops. */
    bool (*keep)(void *context, const struct gemm_result *result);
};

/* Runs the items. *result is as big as it looks: take it from an arena or from isolate_shared().
 * Failures are of our own; what the library does is in the result. */
enum status gemm_trial(const struct gemm_target *target, const struct gemm_source *source,
                       const struct gemm_trial_options *options, struct gemm_result *result,
                       struct err *err) MUST_USE;

/* A source over a plan and over an array. */
struct gemm_source gemm_source_of_plan(const struct gemm_plan *plan);

struct gemm_probe_list {
    struct gemm_probe *items;
    size_t count;
    size_t capacity;
};

struct gemm_source gemm_source_of_list(const struct gemm_probe_list *list);

#endif
