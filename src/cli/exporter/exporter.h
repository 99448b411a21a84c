// SPDX-License-Identifier: Apache-2.0
/* What the parts of `assay exporter` share: the runs that it follows, and the page that it serves. */
#ifndef ASSAY_CLI_EXPORTER_EXPORTER_H
#define ASSAY_CLI_EXPORTER_EXPORTER_H

#include "cli/command.h"
#include "cli/gpu_readings.h"
#include "study/anomaly_source.h"
#include "study/http_server.h"

enum {
    EXPORTER_RUNS_MAX = 64,   /* bounds the number of series */
    EXPORTER_ROOTS_MAX = 16,  /* folders in which new runs are looked for */
    EXPORTER_LABEL_MAX = 200, /* bytes of the label "run" */
    EXPORTER_PAGE_MAX = 8 << 20
};

#define EXPORTER_GPU_EVERY_S 5.0

struct exporter_run {
    struct arena *arena, *scratch;
    struct anomaly_set *set;
    struct anomaly_source *source; /* NULL: closed because the run is over */
    struct anomaly_progress progress;
    char label[EXPORTER_LABEL_MAX];
    const char *path;
    bool folder;
    bool discovered; /* found in a folder of runs, and forgotten when it is gone or a day old */
    bool unreadable; /* the last reading failed */
    double ended_at; /* epoch seconds when the end was seen, 0 before */
    uint64_t values;
    double last_value; /* epoch seconds, NaN before one came */
};

struct exporter {
    struct cli *cli;
    struct anomaly_rules rules;
    struct exporter_run *runs[EXPORTER_RUNS_MAX];
    size_t run_count;
    uint64_t runs_left_out;
    const char *roots[EXPORTER_ROOTS_MAX];
    size_t root_count;
    struct gpu_readings gpus;
    struct http_server *server; /* NULL: textfile or --once alone */
    uint64_t pages;
    double started; /* epoch seconds */
};

double exporter_epoch(void);

/* Adds a log, the folder of a run, or a folder in which runs are looked for. */
enum status exporter_add(struct exporter *e, const char *path, struct err *err) MUST_USE;

/* Looks for new runs in the folders that were given. */
void exporter_discover(struct exporter *e);

/* Reads what came to the logs. True when there is more at once. */
bool exporter_poll(struct exporter *e);

/* Everything as text. `out` is on an arena that lives long enough for the caller. */
void exporter_page(struct exporter *e, bool openmetrics, struct strbuf *out);

void exporter_close(struct exporter *e);

#endif
