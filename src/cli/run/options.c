// SPDX-License-Identifier: Apache-2.0
#include "cli/run/options.h"

#include <math.h>

#include "base/str.h"

#include "cli/run/logs.h"

struct number_rule {
    const char *name;
    double least;
    double most;
    bool whole;
};

static const struct number_rule number_rules[] = {
    {"guard-every", 1, 1e9, true}, {"guard-min", 1, 1e15, true}, {"timeout", 0.001, 1e9, false},
    {"marks", 1, 1e6, true},       {"hang", 1, 1e9, false},
};

enum status run_options_check_numbers(const struct cli *cli, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(number_rules); i++) {
        const struct number_rule *n = &number_rules[i];
        const char *text = cli_value(cli, n->name, NULL);
        double v = 0;
        if (text != NULL && (str_to_double(str_of(text), &v) != ST_OK || !(v >= n->least) ||
                             !(v <= n->most) || (n->whole && !(v == floor(v))))) {
            return err_set(err, ST_USAGE, "--%s takes a %snumber from %.15g to %.15g, not '%s'",
                           n->name, n->whole ? "whole " : "", n->least, n->most, text);
        }
    }
    return ST_OK;
}

double run_options_number(const struct cli *cli, const char *name, double fallback)
{
    const char *text = cli_value(cli, name, NULL);
    double v = fallback;
    return text != NULL && str_to_double(str_of(text), &v) == ST_OK ? v : fallback;
}

/* Options that say how to guard need one that says to guard. */
static enum status check_guard(const struct cli *cli, struct err *err)
{
    static const char *const refining[] = {"guard-min", "guard-side", "quarantine", "serialize"};
    if (cli_flag(cli, "guard") || cli_value(cli, "guard-every", NULL) != NULL) {
        return ST_OK;
    }
    for (size_t i = 0; i < ARRAY_LEN(refining); i++) {
        if (cli_flag(cli, refining[i])) {
            return err_set(err, ST_USAGE, "--%s says how to guard: give --guard with it",
                           refining[i]);
        }
    }
    return ST_OK;
}

static enum status check_variables(const struct cli *cli, struct err *err)
{
    const char *change;
    for (size_t i = 0; (change = cli_repeat(cli, "env", i)) != NULL; i++) {
        if (change[0] == '=' || change[0] == '\0') {
            return err_set(err, ST_USAGE,
                           "--env takes NAME=VALUE, or NAME to remove it; '%s' has no name",
                           change);
        }
    }
    return ST_OK;
}

enum status run_options_check(const struct cli *cli, struct err *err)
{
    TRY(run_options_check_numbers(cli, err));
    TRY(check_variables(cli, err));
    TRY(run_logs_check(cli, err));
    return check_guard(cli, err);
}
