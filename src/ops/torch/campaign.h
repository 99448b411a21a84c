// SPDX-License-Identifier: Apache-2.0
/*
 * The whole plan through the user's PyTorch: every operator, number format, way to call it, layout
 * and guarded side, forward and backward. One row for each (operator, way, format), which keeps its
 * worst verdicts and one case that shows each; two rows, for dense and for strided operands, where the
 * two come out differently (a library often has a path of its own for each).
 */
#ifndef ASSAY_OPS_TORCH_CAMPAIGN_H
#define ASSAY_OPS_TORCH_CAMPAIGN_H

#include "ops/torch/plan.h"
#include "ops/torch/trial.h"

struct torch_campaign_options {
    const char *const *ops; /* names; NULL: all */
    size_t op_count;
    const enum dtype *dtypes;
    size_t dtype_count;
    uint64_t seed;
    bool quick;
    int deadline_ms;
    /* Called now and then; may be NULL. */
    void (*progress)(void *context, size_t done, size_t total, const char *what);
    /* Asked before every probe; true ends the campaign. May be NULL. */
    bool (*stop)(void *context);
    void *context;
};

/* One step of one row. Texts live on the campaign's arena. */
struct torch_cell {
    enum torch_verdict verdict; /* the worst seen; TORCH_NOT_RUN: no probe reached this step;
                                 * TORCH_MISSING: it was there in no case */
    size_t probes, bad;
    size_t missing; /* probes that this PyTorch says it does not have; not among the bad */
    struct torch_worst worst; /* against its bound, over all probes */
    /* The first probe with that verdict. */
    const char *case_text;
    struct torch_probe probe;
    const char *message;
    struct torch_fault fault;
    int64_t clean_pad;  /* of a fault: it is gone when this much is mapped behind (or before) the
                        * operand; 0: not found out */
    const char *passes; /* the nearest case of this row that passed, or NULL */
};

enum torch_row_layout {
    TORCH_ROW_DENSE = 0,
    TORCH_ROW_STRIDED,
    TORCH_ROW_ALL
};

struct torch_row {
    const char *op, *way;
    enum dtype dtype;
    enum torch_row_layout layout;
    struct torch_cell forward, backward;
    bool no_backward; /* the operator has none by definition */
    const char *note; /* "fully masked rows: nan", or NULL */
    double seconds;   /* of its probes in the user's Python, wall clock */
};

struct torch_rows {
    struct torch_row *items;
    size_t count;
    size_t capacity;
};

struct torch_campaign_result {
    struct torch_rows rows;
    size_t probes;  /* cases run with an answer of any kind */
    size_t skipped; /* left out after several faults of one row, or too large for the shared file */
    bool stopped;   /* by stop(): of `cases` (with their formats) only `cases_done` were tried */
    size_t cases, cases_done;
};

/* ST_IO when the process was lost for good; what was found until then is in the result. */
enum status torch_campaign_run(struct torch_agent *agent, struct arena *a,
                               const struct torch_campaign_options *options,
                               struct torch_campaign_result *ret_result, struct err *err) MUST_USE;

#endif
