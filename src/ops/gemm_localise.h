// SPDX-License-Identifier: Apache-2.0
/*
 * From thousands of faults to one that a person can look at: the entry point, the smallest product
 * that still fails, its nearest neighbours that do not, how far the access goes, how many readable
 * bytes would hide it, and which of the library's kernel families are guilty.
 *
 * Everything is found by running variants, each in a child: nothing is inferred.
 */
#ifndef ASSAY_OPS_GEMM_LOCALISE_H
#define ASSAY_OPS_GEMM_LOCALISE_H

#include "ops/gemm_trial.h"

enum gemm_kernel_verdict {
    GEMM_KERNEL_CLEAN = 0,
    GEMM_KERNEL_FAULTY,
    GEMM_KERNEL_ILLEGAL, /* code for another processor */
    GEMM_KERNEL_REFUSED, /* the library does not start with it */
    GEMM_KERNEL_VERDICT_COUNT
};

const char *gemm_kernel_verdict_name(enum gemm_kernel_verdict verdict);

/* One kernel family, forced by a variable. */
struct gemm_kernel {
    const char *variable, *value;
    const char *name; /* as the library calls it; "" when it did not start */
    enum gemm_kernel_verdict verdict;
    uint64_t faults, tried;
};

struct gemm_kernel_list {
    struct gemm_kernel *items;
    size_t count;
    size_t capacity;
};

/* A variant of the smallest product, in words, and whether it fails too. */
struct gemm_neighbour {
    const char *change; /* "m=3", "lda=5", "beta=0" */
    bool fails;
};

struct gemm_neighbour_list {
    struct gemm_neighbour *items;
    size_t count;
    size_t capacity;
};

struct gemm_diagnosis {
    bool repeats;            /* the fault came again when the product was run again */
    struct gemm_probe probe; /* the smallest product found */
    struct gemm_fault fault; /* what it does */
    struct gemm_neighbour_list neighbours;
    int64_t clean_bytes; /* readable bytes at the edge with which all of `padded` failing products,
                          * the smallest and the farthest reaching, are clean; -1: not found, or no
                          * matter of edges */
    size_t padded;
    int64_t dirty_bytes; /* where none were found: the most that was tried; else 0 */
    int64_t farthest;    /* largest distance of an access from its operand's edge in the campaign */
    uint64_t count;      /* faults of this kind and operand that the campaign kept */
    struct gemm_kernel_list kernels;
    bool cut_short; /* target->shrink_ms were over: not all was tried */
};

/* Explains the faults of one kind and operand in `result`, which came from `source`. */
enum status gemm_localise(struct arena *a, const struct gemm_target *target,
                          const struct gemm_source *source, const struct gemm_result *result,
                          enum gemm_fault_kind kind, enum gemm_operand operand,
                          struct gemm_diagnosis *ret_diagnosis, struct err *err) MUST_USE;

#endif
