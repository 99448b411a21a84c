// SPDX-License-Identifier: Apache-2.0
/*
 * What values of a model's tensors are held against. Trained weights of published models have an RMS
 * between about 1e-4 and 10; a flipped exponent bit multiplies a value by 2^16 or more.
 */
#ifndef ASSAY_MODEL_CHECKPOINT_RULES_H
#define ASSAY_MODEL_CHECKPOINT_RULES_H

static const double RULE_HUGE = 1e4;           /* magnitude of one value ... */
static const double RULE_CREST = 100;          /* ... and so many times the RMS: an outlier */
static const double RULE_HUGE_ALWAYS = 1e8;    /* no weight is as large */
static const double RULE_RMS_MAX = 1e3;        /* of a tensor */
static const double RULE_RMS_MIN = 1e-7;       /* of a matrix that is not zero */
static const double RULE_DENORMAL_SHARE = .01; /* of elements */

enum {
    RULE_ZERO_PAGES = 1 /* aligned pages of 4096 zero bytes in a matrix */
};

#endif
