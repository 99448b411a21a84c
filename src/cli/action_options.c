// SPDX-License-Identifier: Apache-2.0
#include "cli/action_options.h"

#include "base/str.h"

static bool is_among(const char *actions, const char *action)
{
    struct str rest = str_of(actions);
    struct str word;
    while (str_cut(&rest, '|', &word)) {
        if (str_is(word, action)) {
            return true;
        }
    }
    return false;
}

enum status action_options_check(const struct cli *cli, const struct action_option *table,
                                 size_t count, const char *action, struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        if (cli_flag(cli, table[i].option) && !is_among(table[i].actions, action)) {
            return err_set(err, ST_USAGE, "--%s has no meaning with '%s'; it belongs to '%s'",
                           table[i].option, action, table[i].actions);
        }
    }
    return ST_OK;
}
