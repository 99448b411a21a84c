// SPDX-License-Identifier: Apache-2.0
/*
 * The order of an optimizer's parameters. torch stores moments by number, not by name: a state that
 * belongs to the same parameters in another order loads without an error and ruins training. The order
 * is that of the modules, those with weight decay first; biases and norms have none.
 * Source: transformers/trainer.py (create_optimizer, get_decay_parameter_names).
 */
#ifndef ASSAY_MODEL_OPTIMIZER_ORDER_H
#define ASSAY_MODEL_OPTIMIZER_ORDER_H

#include "model/folder.h"

/*
 * `shapes`: of the moments, as text, in the optimizer's order; `decayed`: how many of them are in the
 * first group. Held against config.json where that describes a model of the same number of parameters
 * in both groups; else nothing is said.
 */
void optimizer_order_check(const struct folder *f, const char *const *shapes, size_t count,
                           size_t decayed);

#endif
