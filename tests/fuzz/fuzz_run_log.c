// SPDX-License-Identifier: Apache-2.0
/* Logs, JSON lines and trainer_state.json as curves; then everything that is computed from them. */
#include <stdint.h>

#include "study/loss_judge.h"
#include "study/run_log.h"
#include "study/step_time.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new((size_t)512 << 20);
    struct str text = {.p = (const char *)data, .n = size};
    struct run_log log;
    if (run_log_parse(a, text, "input", &log, NULL) == ST_OK) {
        struct step_time time;
        struct over_fitting over;
        struct loss_judgement j;
        const struct run_log *three[3] = {&log, &log, &log};
        step_time_of(a, &log, &time);
        loss_over_fitting(a, &log, &over);
        loss_judge(a, three, 3, three, 1, &j);
        if (j.grade == LOSS_DIFFERENT) {
            __builtin_trap(); /* a run is never different from itself */
        }
        for (size_t i = 1; i < log.loss.count; i++) {
            if (log.loss.items[i].step <= log.loss.items[i - 1].step) {
                __builtin_trap();
            }
        }
    }
    arena_free(a);
    return 0;
}
