// SPDX-License-Identifier: Apache-2.0
/* Laying operands out in memory, and judging what a product left there. Not for other modules. */
#ifndef ASSAY_OPS_GEMM_JUDGE_H
#define ASSAY_OPS_GEMM_JUDGE_H

#include "ops/gemm_case.h"
#include "ops/gemm_trial.h"

/* Host memory for the three operands, exactly as long as they are. */
struct gemm_layout {
    char *a, *b, *c;
};

/* Writes A and B with their padding, and C with what it holds before. */
void gemm_layout_fill(const struct gemm_probe *probe, const struct gemm_case *numbers,
                      const struct gemm_layout *layout);

/* C alone. */
void gemm_layout_fill_output(const struct gemm_probe *probe, const struct gemm_case *numbers,
                             char *c);

/* Compares C with the reference, and its gaps with their canaries. ret_fault->kind is GEMM_OK when
 * all is well; *worst grows to the largest error in units of the bound. Sets kind, operand, row,
 * column, got, want, bound, bad_cells. */
void gemm_judge(const struct gemm_probe *probe, const struct gemm_case *numbers,
                const struct gemm_layout *layout, struct gemm_fault *ret_fault, double *worst);

#endif
