// SPDX-License-Identifier: Apache-2.0
/*
 * Were the inputs of two runs the same? `assay run` writes into run.json, under "inputs", the digest of
 * each script, model and data file that the command line or a configuration names, and of those that the
 * job was seen reading. Equal digests prove
 * equal bytes; what was not digested proves nothing.
 */
#ifndef ASSAY_STUDY_INPUTS_H
#define ASSAY_STUDY_INPUTS_H

#include "base/arena.h"
#include "base/finding.h"
#include "base/tree.h"

/* The role of files that the job was seen reading: a look now and then sees them or not, so that one of
 * the runs lacks a file says nothing. */
#define INPUT_OPENED "opened"

struct run_input {
    const char *role;   /* "model", "data", "command line" */
    const char *name;   /* file, relative to what was named */
    const char *digest; /* NULL: not proven */
    const char *method; /* "sha256", "sha256 of 64 samples", "hub revision" */
    const char *reason; /* of a missing digest */
};

struct run_inputs {
    struct run_input *items;
    size_t count;
    size_t capacity;
};

/* From a run.json; empty where it has none. */
void inputs_from_run(struct arena *a, const struct tree *run, struct run_inputs *ret_inputs);

enum inputs_verdict {
    INPUTS_SAME = 0,
    INPUTS_DIFFER,
    INPUTS_UNPROVEN,
};

struct inputs_comparison {
    enum inputs_verdict verdict;
    size_t proven;            /* files with equal digests */
    struct text_list differ;  /* sentences */
    struct text_list unknown; /* the same */
};

/* Files are told apart by role and by name relative to what was named, so that two machines may keep
 * them in different folders. */
void inputs_compare(struct arena *arena, const struct run_inputs *a, const struct run_inputs *b,
                    struct inputs_comparison *ret_comparison);

#endif
