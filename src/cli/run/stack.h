// SPDX-License-Identifier: Apache-2.0
/* The stack of a recorded fault: addresses to libraries and functions, and what the frames say of the
 * phase of training. */
#ifndef ASSAY_CLI_RUN_STACK_H
#define ASSAY_CLI_RUN_STACK_H

#include "base/arena.h"
#include "base/finding.h"

#include "recorder/maps_file.h"
#include "recorder/record_reader.h"

/* "libtorch_cpu.so: torch::autograd::Engine::thread_main" for each frame, innermost first; frames of the
 * recorder are left out. */
void run_stack_name(struct arena *a, const struct record_fault *fault, const struct maps *maps,
                    struct text_list *ret_frames);

/* "backward", "forward", "optimizer", "data", or NULL when nothing tells. `thread` is the thread's name;
 * ret_why says what told it. */
const char *run_stack_phase(struct arena *a, const struct text_list *frames, const char *thread,
                            const char **ret_why);

#endif
