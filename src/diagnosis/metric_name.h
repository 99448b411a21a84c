// SPDX-License-Identifier: Apache-2.0
/* Names of metrics: what trainers call them, and what they are called here. */
#ifndef ASSAY_DIAGNOSIS_METRIC_NAME_H
#define ASSAY_DIAGNOSIS_METRIC_NAME_H

#include <stdbool.h>

#include "base/str.h"

#include "diagnosis/metric_line.h"

/* A key, as far left as it could reach, has a name: one of ours (loss, step_time), or one of the line's own. */
struct metric_name {
    const char *known; /* NULL: `own` */
    char own[METRIC_NAME_MAX];
    double scale; /* of its numbers, where the key tells their unit */
};

/* False when the key is of no metric. */
bool metric_name_of(struct str key, struct metric_name *ret_name);

/* Letters of `word` in any case stand at the end of `key`, as a word. `word` is in small letters. */
bool metric_key_ends(struct str key, const char *word);

/* The time of a step when the key is "time" alone; whether it is one, the line must tell. */
bool metric_key_is_time(struct str key);

#endif
