// SPDX-License-Identifier: Apache-2.0
/*
 * assay probe is a dispatcher over ways to put an implementation on trial: each is a row of the
 * table in cmd_probe.c with a file of its own. A mode is chosen by an option or by a first operand.
 */
#ifndef ASSAY_CLI_PROBE_PROBE_H
#define ASSAY_CLI_PROBE_PROBE_H

#include "cli/command.h"
#include "device/blas.h"
#include "device/device.h"
#include "ops/gemm_localise.h"
#include "report/report.h"

struct probe_mode {
    const char *name; /* option without dashes */
    int (*run)(struct cli *cli);
};

/* Options of the mode that tries libraries. */
#define PROBE_LIBRARY_OPTIONS                                                                    \
 {"library", 0, OPTION_REPEAT, "PATH", "Try this library; may be given again"},                  \
     {"shapes", 0, OPTION_VALUE, "FILE", "Sizes to try, one product a line: M N K [lda=...]"},   \
     {"reproducer", 0, OPTION_VALUE, "DIR",                                                      \
      "Write the smallest failing product as a C program of its own into DIR"},                  \
 {                                                                                               \
  "resume", 0, OPTION_VALUE, "FILE", "Keep the state of the campaign in FILE, and go on from it" \
 }

/* Matrix products of vendor libraries under guard: the mode without an option. */
int probe_gemm(struct cli *cli);

/* "cuda" or "cuda:1" (probe_figures.c). */
bool probe_read_device(const char *name, enum device_kind *ret_kind, int *ret_index);

/* --- libraries (probe_libraries.c) --------------------------------------------------------------- */

struct probe_library {
    const struct gemm_vendor *vendor;
    const char *name; /* what the user or the default list says */
    const char *path; /* what is opened; NULL: where the vendor looks itself */
};

struct probe_library_list {
    struct probe_library *items;
    size_t count;
    size_t capacity;
};

/* Of --library, else what this machine has: the libblas.so.3 and libcblas.so.3 that a process here
 * would get, and BLAS libraries in the loader's cache; on a device the matrix libraries of its vendor.
 * ST_USAGE for a --library that is none of the device's. */
enum status probe_libraries(struct cli *cli, enum device_kind kind,
                            struct probe_library_list *ret_list, struct err *err) MUST_USE;

/* What this machine has, whatever --library says. */
void probe_libraries_of_loader(struct cli *cli, struct probe_library_list *ret_list);

/* --- one campaign (probe_campaign.c) ------------------------------------------------------------- */

/* The smallest product that failed each time it was run. */
struct probe_smallest {
    bool found;
    struct gemm_diagnosis diagnosis;
    const char *title, *claim; /* of its finding */
};

/* A library's way through the plan, and what came of it. */
struct probe_run {
    struct probe_library library;
    struct gemm_target target;
    struct gemm_result *result;
    bool guarded;     /* the start-up proof was passed */
    const char *stop; /* why the campaign ended before its plan, and where; NULL: it did not */
    const char *guard_sentence;
    struct probe_smallest smallest;
};

struct probe_plan {
    enum gemm_level level;
    uint64_t seed;
    struct gemm_plan *plan;
    uint64_t digest; /* of everything that makes the plan what it is */
    double until_s;  /* of the monotonic clock; 0: no limit of time */
    uint64_t limit_s;
};

/* Of --time-limit: seconds; `fallback` where it is not given. 0: none. */
enum status probe_time_limit(const struct cli *cli, uint64_t fallback, uint64_t *ret_seconds,
                             struct err *err) MUST_USE;

/* Seconds of the monotonic clock. */
double probe_now_s(void);

struct probe_state; /* see probe_state.c */

/* Runs the plan on one library, with progress; goes on where `state` says, which may be NULL. */
enum status probe_campaign(struct cli *cli, const struct probe_plan *plan, struct probe_run *run,
                           struct probe_state *state, const char *what, struct err *err) MUST_USE;

/* --- results (probe_findings.c) ------------------------------------------------------------------ */

/* Findings of one library: one for each kind of fault and operand. Localises and shrinks. */
void probe_findings(struct cli *cli, const struct probe_plan *plan, struct probe_run *run,
                    struct finding_list *findings);

/* The finding of one kind of fault and operand, of which `count` came up in run->result; `source` is what
 * the result came from. Localises and shrinks; run->smallest is updated. */
void probe_explain(struct cli *cli, const struct gemm_source *source, struct probe_run *run,
                   enum gemm_fault_kind kind, enum gemm_operand operand, uint64_t count,
                   struct finding_list *findings);

/* The row of a library in the table of the report. */
void probe_table(struct cli *cli, const struct probe_run *runs, size_t count,
                 struct report_table *ret_table);

/* --- what other commands run (probe_gemm.c) ------------------------------------------------------ */

/* The quick plan on the BLAS that programs of this machine get: the stage `operators` of qualify.
 * *ret_probes is 0 when there is none; *ret_per_second is the rate of the slowest, NaN when it is not known. */
enum status probe_quick(struct cli *cli, struct finding_list *findings, uint64_t *ret_probes,
                        double *ret_per_second, struct err *err) MUST_USE;

#endif
