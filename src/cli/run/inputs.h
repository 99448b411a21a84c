// SPDX-License-Identifier: Apache-2.0
/*
 * The inputs of a run for run.json: configuration files as texts, and digests of the scripts, models
 * and data that the command line or a configuration names. `assay compare` asks them whether two runs
 * trained on the same bytes.
 */
#ifndef ASSAY_CLI_RUN_INPUTS_H
#define ASSAY_CLI_RUN_INPUTS_H

#include <stdint.h>

#include "base/finding.h"
#include "base/json_out.h"

#include "study/inputs.h"

struct run_config_text {
    const char *name;
    const char *text;
};

struct run_inputs_kept {
    struct {
        struct run_config_text *items;
        size_t count;
        size_t capacity;
    } configs;
    struct run_inputs inputs;
};

/* Reads and digests, before the command starts. Files above 256 MiB are digested by their size and 64
 * samples of 1 MiB. */
void run_inputs_take(struct arena *a, const struct text_list *command,
                     struct run_inputs_kept *ret_kept);

/* Adds what the job was seen reading, with the role "opened": files (absolute paths) that did not change
 * since `start_ns` of the real-time clock; what did was written by the run itself. */
void run_inputs_add_opened(struct arena *a, const struct text_list *opened, uint64_t start_ns,
                           struct run_inputs_kept *kept);

/* Writes the keys "configuration" ({file: text}) and "inputs" (list of {role, name, digest, method} or
 * {role, name, reason}) into the open object. */
void run_inputs_write(const struct run_inputs_kept *kept, struct json_out *j);

#endif
