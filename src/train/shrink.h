// SPDX-License-Identifier: Apache-2.0
/*
 * A small model of the same family: the same vocabulary (and so the same tokenizer), the same kinds of
 * layers in the same order, the same width of a head; fewer layers and fewer heads, narrower. To split
 * what the environment breaks from what the size breaks.
 */
#ifndef ASSAY_TRAIN_SHRINK_H
#define ASSAY_TRAIN_SHRINK_H

#include "train/config.h"

/*
 * config.json with about `params` parameters, as text on `a`. The closest that the family's rules allow;
 * `ret_params` says how many. ST_USAGE when the vocabulary alone is more than that at the smallest
 * width, or the model is no larger.
 */
enum status shrink_config(struct arena *a, const struct model_config *config, uint64_t params,
                          const char **ret_text, uint64_t *ret_params, struct err *err) MUST_USE;

#endif
