// SPDX-License-Identifier: Apache-2.0
/* An environment as a list of "NAME=value". */
#ifndef ASSAY_CLI_RUN_ENVIRONMENT_H
#define ASSAY_CLI_RUN_ENVIRONMENT_H

#include "base/finding.h"
#include "base/json_out.h"
#include "base/str.h"

void run_environment_remove(struct text_list *env, struct str name);

/* NULL when it is not set. */
const char *run_environment_get(const struct text_list *env, const char *name);

/* Replaces what the environment holds of that name. */
void run_environment_set(struct arena *a, struct text_list *env, const char *name,
                         const char *value);

/* The key "environment" of run.json; values whose names speak of secrets are withheld. */
void run_environment_write(const struct text_list *env, struct json_out *j);

#endif
