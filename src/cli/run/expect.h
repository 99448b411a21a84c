// SPDX-License-Identifier: Apache-2.0
/* Expectations of a run: "no:hipblaslt", "yes:openblas", "yes:kernel:chunk_gated_delta_rule". */
#ifndef ASSAY_CLI_RUN_EXPECT_H
#define ASSAY_CLI_RUN_EXPECT_H

#include "base/err.h"
#include "base/finding.h"

#include "cli/run/path_kernels.h"
#include "cli/run/story.h"

/* ST_USAGE with a sentence when it cannot be understood. */
enum status run_expect_check(const char *expect, struct err *err) MUST_USE;

/* Adds to `checks` whether it holds: met, broken, or cannot be told. */
void run_expect_judge(struct arena *a, const char *expect, const struct run_story *story,
                      const struct path_kernels *kernels, struct finding_list *checks);

#endif
