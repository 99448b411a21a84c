// SPDX-License-Identifier: Apache-2.0
/* See contrast.h. */
#include "study/contrast.h"

#include <inttypes.h>
#include <stdbool.h>

#include "study/stats.h"

enum {
    MORE_MAX = 100000
};

/* The least number of clean trials against these of the base that is no chance any more. */
static uint64_t clean_trials_for(uint64_t base_failed, uint64_t base_trials)
{
    for (uint64_t n = 1; n <= MORE_MAX; n++) {
        if (stats_fisher(base_failed, base_trials - base_failed, 0, n) < CONTRAST_LEVEL) {
            return n;
        }
    }
    return 0;
}

void contrast_of(uint64_t base_failed, uint64_t base_trials, uint64_t failed, uint64_t trials,
                 struct contrast *ret_contrast)
{
    struct contrast c = {.outcome = CONTRAST_UNTOLD};
    c.p = stats_fisher(base_failed, base_trials - base_failed, failed, trials - failed);
    bool clear = c.p < CONTRAST_LEVEL;
    double base_rate = base_trials > 0 ? (double)base_failed / (double)base_trials : 0;
    double rate = trials > 0 ? (double)failed / (double)trials : 0;
    if (base_trials == 0 || trials == 0) {
        c.outcome = CONTRAST_UNTOLD;
    } else if (clear && rate > base_rate) {
        c.outcome = CONTRAST_WORSE;
    } else if (base_failed == 0) {
        c.outcome = failed > 0 ? CONTRAST_UNTOLD : CONTRAST_BASE_FINE;
    } else if (clear) {
        c.outcome = CONTRAST_PASSES;
    } else if (failed > 0) {
        c.outcome = CONTRAST_FAILS_TOO;
    } else {
        c.more = clean_trials_for(base_failed, base_trials);
    }
    *ret_contrast = c;
}

const char *contrast_rate_text(struct arena *a, uint64_t failed, uint64_t trials)
{
    double low;
    double high;
    if (trials == 0) {
        return "no trial";
    }
    if (failed == 0) {
        return arena_fmt(a, "0 of %" PRIu64 " failed: failure rate below %.2g %% at 95 %%", trials,
                         100 * stats_zero_bound(trials, 0.95));
    }
    stats_wilson(failed, trials, 0.95, &low, &high);
    return arena_fmt(a, "%" PRIu64 " of %" PRIu64 " failed: %.3g %% (%.2g %% to %.3g %%)", failed,
                     trials, 100 * (double)failed / (double)trials, 100 * low, 100 * high);
}
