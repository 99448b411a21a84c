// SPDX-License-Identifier: Apache-2.0
/*
 * How far a campaign came, in a file that --resume reads: text, one record a line, written whole and
 * renamed into place, so that a killed run leaves the last complete state. A state belongs to one
 * plan; another plan's is refused.
 */
#ifndef ASSAY_CLI_PROBE_STATE_H
#define ASSAY_CLI_PROBE_STATE_H

#include "base/arena.h"
#include "base/err.h"

#include "ops/gemm_trial.h"

struct probe_state;

/* Reads the file; one that is not there is an empty state. */
enum status probe_state_open(struct arena *a, const char *path, uint64_t plan_digest,
                             size_t plan_count, struct probe_state **ret_state,
                             struct err *err) MUST_USE;

/* What is known of a library, `next` set; NULL when nothing is. */
struct gemm_result *probe_state_find(const struct probe_state *state, const char *library);

/* Keeps a copy and writes the file. */
enum status probe_state_save(struct probe_state *state, const char *library,
                             const struct gemm_result *result, size_t next,
                             struct err *err) MUST_USE;

#endif
