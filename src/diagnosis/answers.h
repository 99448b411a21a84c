// SPDX-License-Identifier: Apache-2.0
/*
 * Questions that people put at a prompt, and the answers in the lines behind them: ">>>
 * torch.cuda.is_available()" and then "False". Neither line says anything on its own.
 */
#ifndef ASSAY_DIAGNOSIS_ANSWERS_H
#define ASSAY_DIAGNOSIS_ANSWERS_H

#include "diagnosis/events.h"
#include "knowledge/knowledge.h"

/* An event of answer-no-gpu close behind one of asked-gpu-available becomes one of
 * torch-cuda-unavailable. */
void answers_join(struct log_facts *lf, const struct knowledge *k);

#endif
