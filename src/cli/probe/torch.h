// SPDX-License-Identifier: Apache-2.0
/* The user's own PyTorch on trial: the mode of assay probe that --torch chooses. */
#ifndef ASSAY_CLI_PROBE_TORCH_H
#define ASSAY_CLI_PROBE_TORCH_H

#include "cli/command.h"
#include "ops/torch/campaign.h"
#include "ops/torch/timing.h"
#include "report/report.h"

/* Rows of the mode's options, for the table of cmd_probe.c. */
#define PROBE_TORCH_OPTIONS                                                                       \
 {"torch", 0, OPTION_OPTIONAL, "PYTHON",                                                          \
  "Try the operators of a PyTorch: a python or its environment's folder (VIRTUAL_ENV, python3)"}, \
     {"timing", 0, OPTION_FLAG, NULL,                                                             \
      "With --torch: time the patch embedding as Conv3d and as linear"},                          \
 {                                                                                                \
  "torch-module", 0, OPTION_VALUE, "FILE",                                                        \
      "With --torch: try the kernel of FILE, which defines inputs, run and reference"             \
 }

int probe_torch(struct cli *cli);

/* Patch embedding as Conv3d and as linear layer; "ratio" is against F.linear. */
void probe_torch_times(struct cli *cli, const struct torch_times *times,
                       struct report_table *ret_table);

/* The kernel of --torch-module on both sides of a hole. */
int probe_torch_module(struct cli *cli, struct torch_agent *agent, const char *path,
                       int deadline_ms);

/* What the reader must know about where and how this was run. */
void probe_torch_notes(struct cli *cli, const struct torch_hello *hello, struct report *report);

/* A finding when the guard did not prove itself. */
void probe_torch_unproven(struct cli *cli, const struct torch_hello *hello,
                          struct finding_list *findings);

/* Text of a fault for a reader, with where the instruction lies. */
const char *probe_torch_fault_text(struct cli *cli, const struct torch_fault *fault,
                                   enum torch_side side, const char *otherwise);

/* Findings of a campaign, worst first. `python` is what the user named, for commands to copy. */
void probe_torch_findings(struct cli *cli, const struct torch_hello *hello, const char *python,
                          const char *device, const struct torch_campaign_result *result,
                          struct finding_list *findings);

/* Operator x way x format x step. `proven` false: what looks right is "could not tell". */
void probe_torch_table(struct cli *cli, const struct torch_campaign_result *result, bool proven,
                       struct report_table *ret_table);

#endif
