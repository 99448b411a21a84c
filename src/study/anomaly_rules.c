// SPDX-License-Identifier: Apache-2.0
/* See anomaly_rules.h. */
#include "study/anomaly_rules.h"

#include <stddef.h>
#include <string.h>

const struct anomaly_rule anomaly_rule_table[] = {
#define RULE(member, name, value, least, most, meaning) \
 {name, value, least, most, meaning, offsetof(struct anomaly_rules, member)},
#include "study/anomaly_rules.def"
#undef RULE
};

const size_t anomaly_rule_count = ARRAY_LEN(anomaly_rule_table);

static void put(struct anomaly_rules *rules, const struct anomaly_rule *rule, double value)
{
    memcpy((char *)rules + rule->offset, &value, sizeof value);
}

void anomaly_rules_default(struct anomaly_rules *ret_rules)
{
    for (size_t i = 0; i < anomaly_rule_count; i++) {
        put(ret_rules, &anomaly_rule_table[i], anomaly_rule_table[i].value);
    }
}

static enum status unknown(struct str name, struct err *err)
{
    const struct anomaly_rule *near = NULL;
    size_t distance = 5;
    for (size_t i = 0; i < anomaly_rule_count; i++) {
        size_t d = str_distance(name, str_of(anomaly_rule_table[i].name), distance);
        if (d < distance) {
            near = &anomaly_rule_table[i];
            distance = d;
        }
    }
    if (near != NULL) {
        return err_set(err, ST_USAGE, "there is no limit '%.*s'; did you mean '%s'?", STR_ARG(name),
                       near->name);
    }
    return err_set(err, ST_USAGE, "there is no limit '%.*s'; 'assay watch --limits' lists them",
                   STR_ARG(name));
}

enum status anomaly_rules_set(struct anomaly_rules *rules, const char *assignment, struct err *err)
{
    struct str rest = str_of(assignment);
    struct str name;
    if (!str_cut(&rest, '=', &name) || str_find_char(str_of(assignment), '=', 0) == SIZE_MAX) {
        return err_set(err, ST_USAGE, "a limit is given as NAME=NUMBER (spike.sigma=8), not '%s'",
                       assignment);
    }
    for (size_t i = 0; i < anomaly_rule_count; i++) {
        const struct anomaly_rule *r = &anomaly_rule_table[i];
        double value;
        if (!str_is(name, r->name)) {
            continue;
        }
        if (str_to_double(rest, &value) != ST_OK || !(value >= r->least && value <= r->most)) {
            return err_set(err, ST_USAGE, "the limit %s takes a number from %g to %g, not '%.*s'",
                           r->name, r->least, r->most, STR_ARG(rest));
        }
        put(rules, r, value);
        return ST_OK;
    }
    return unknown(name, err);
}
