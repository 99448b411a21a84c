// SPDX-License-Identifier: Apache-2.0
/*
 * What a log says of the machine it was made on: the GPU target that the program, PyTorch or rocminfo
 * printed, and variables set on a command line. A pasted log without a facts file is judged with that.
 * Only what the log says with one voice counts, and what was read on the machine always wins.
 */
#ifndef ASSAY_DIAGNOSIS_LOG_MACHINE_H
#define ASSAY_DIAGNOSIS_LOG_MACHINE_H

#include "diagnosis/events.h"
#include "facts/facts.h"

/* `given` with what the log adds, FILE:LINE as its source: gpu[0].gfx, gpu[0].vendor and
 * gpu[0].integrated when no GPU was read, env.NAME when no environment was. `given` itself, which may
 * be NULL, when the log adds nothing. Lives on `arena`. */
const struct facts *log_machine_facts(struct arena *arena, const struct facts *given,
                                      const struct log_facts *log);

#endif
