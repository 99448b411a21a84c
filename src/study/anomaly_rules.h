// SPDX-License-Identifier: Apache-2.0
/* The limits of the detector: a table (anomaly_rules.def) that the command line overrides by name. */
#ifndef ASSAY_STUDY_ANOMALY_RULES_H
#define ASSAY_STUDY_ANOMALY_RULES_H

#include "base/err.h"
#include "base/str.h"

struct anomaly_rules {
#define RULE(member, name, value, least, most, meaning) double member;
#include "study/anomaly_rules.def"
#undef RULE
};

struct anomaly_rule {
    const char *name;
    double value; /* the default */
    double least, most;
    const char *meaning;
    size_t offset; /* in struct anomaly_rules */
};

extern const struct anomaly_rule anomaly_rule_table[];
extern const size_t anomaly_rule_count;

void anomaly_rules_default(struct anomaly_rules *ret_rules);

/* "spike.sigma=8". ST_USAGE names what is wrong: an unknown name, no number, a number out of range. */
enum status anomaly_rules_set(struct anomaly_rules *rules, const char *assignment,
                              struct err *err) MUST_USE;

#endif
