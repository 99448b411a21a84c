// SPDX-License-Identifier: Apache-2.0
/*
 * What a training run printed, as curves over its steps: from a run folder of `assay run`, a
 * trainer_state.json of HF Trainer, a *.jsonl of metrics (ours, LLaMA-Factory's trainer_log.jsonl, any
 * other with the usual names), or a plain training log. Times are kept where the source has them.
 *
 * Steps: as printed; else as the progress bar beside them says; else counted, so that the last value
 * stands at the last step seen (HF prints an epoch, rounded, and no step). A run that was resumed
 * prints steps again: the later values count.
 */
#ifndef ASSAY_STUDY_RUN_LOG_H
#define ASSAY_STUDY_RUN_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum {
    RUN_LOG_RECORDS_MAX = 1000000
};

struct curve_point {
    int64_t step;
    double value; /* may be NaN or infinite */
    double time;  /* seconds since the start of the run; NaN when the source has none */
};

/* By rising step, each once. */
struct curve {
    struct curve_point *items;
    size_t count;
    size_t capacity;
};

enum run_log_kind {
    RUN_LOG_FOLDER = 0,    /* of assay run */
    RUN_LOG_TRAINER_STATE, /* HF Trainer */
    RUN_LOG_LINES,         /* plain log or JSON lines */
};

/* How the steps of the curves came about. */
enum run_log_steps {
    RUN_LOG_STEPS_PRINTED = 0,
    RUN_LOG_STEPS_COUNTED, /* evenly spaced up to the last step seen */
    RUN_LOG_STEPS_INDEX,   /* nothing tells: 1, 2, 3 … */
};

struct run_log {
    const char *path; /* as given */
    enum run_log_kind kind;
    enum run_log_steps steps_from;
    struct curve loss;
    struct curve eval_loss;
    struct curve grad_norm;
    struct curve step_time;  /* seconds a step as the program itself printed them */
    int64_t last_step;       /* highest seen, in progress bars too; -1 unknown */
    int64_t total_steps;     /* -1 unknown */
    double train_loss;       /* of the closing line; NaN without */
    double train_runtime_s;  /* the same */
    double gpu_memory_bytes; /* highest that was printed; NaN without */
    size_t saves;            /* lines that tell of a checkpoint being written */

    struct { /* when they came, of a run folder: seconds since the start */
        double *items;
        size_t count;
        size_t capacity;
    } save_times;

    size_t not_finite; /* losses that are NaN or infinite */
    bool finished;     /* the closing line is there */
    size_t lines;

    /* "batch per device" -> "4" and the like, as the program printed them (setup.h). */
    struct run_log_said {
        struct run_log_saying {
            const char *name;
            const char *value;
        } * items;

        size_t count;
        size_t capacity;
    } said;
};

/* True when a line of output tells of a checkpoint being written. `assay run` marks them with the time,
 * as {"t": …, "event": "save"} in metrics.jsonl. */
bool run_log_is_save(struct str line);

/*
 * ST_ABSENT: nothing there; ST_FORMAT: nothing in it that looks like training. `path` may be a folder
 * with run.json, trainer_state.json (in its last checkpoint too) or trainer_log.jsonl, or a file.
 */
enum status run_log_read(struct arena *a, const char *path, struct run_log *ret_log,
                         struct err *err) MUST_USE;

/* The same from bytes. */
enum status run_log_parse(struct arena *a, struct str text, const char *name,
                          struct run_log *ret_log, struct err *err) MUST_USE;

#endif
