// SPDX-License-Identifier: Apache-2.0
/* Two routes side by side: may they be compared, how do they differ, what does that mean. */
#ifndef ASSAY_CLI_COMPARE_PAIR_H
#define ASSAY_CLI_COMPARE_PAIR_H

#include "cli/compare/run.h"
#include "study/ratio.h"

enum pair_ratio {
    PAIR_STEP = 0, /* seconds a step */
    PAIR_RUNTIME,
    PAIR_START, /* until the first logged step */
    PAIR_MEMORY,
    PAIR_GPU_MEMORY,
    PAIR_RATIO_COUNT
};

struct compare_pair {
    const struct compare_route *a, *b;
    bool refused; /* inputs differ or are unproven, and nobody forced it: nothing below is set */
    struct inputs_comparison inputs;
    struct setup_differences setup;
    bool like_work;   /* no difference of set-up that the time of a step depends on */
    bool like_losses; /* the same for the losses */
    struct ratio ratios[PAIR_RATIO_COUNT]; /* value NaN where there is none */
    struct loss_judgement loss;
    struct finding_list findings; /* what is wrong, open, or worth knowing */
    const char *verdict;          /* "same: …", "different: …", "could not tell: …" */
    int status;                   /* EXIT_FINE, EXIT_FAULT, EXIT_UNKNOWN */
};

/* `max_ratio`: seconds a step of B over A beyond which B counts as different; 0: never. */
void compare_pair_make(struct cli *cli, const struct compare_route *a,
                       const struct compare_route *b, bool force, double max_ratio,
                       struct compare_pair *ret_pair);

#endif
