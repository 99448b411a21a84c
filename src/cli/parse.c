// SPDX-License-Identifier: Apache-2.0
/* Command lines: GNU manners (--name=value, --name value, -abc, -oFILE, --), no abbreviations. */
#include <stdint.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"

#include "cli/command.h"

static const struct option_spec *find_in(const struct option_spec *table, struct str name,
                                         char letter)
{
    for (const struct option_spec *o = table; o->name != NULL; o++) {
        if (letter != 0 ? o->letter == letter : str_is(name, o->name)) {
            return o;
        }
    }
    return NULL;
}

static const struct option_spec *find(const struct command *cmd, struct str name, char letter)
{
    const struct option_spec *o = find_in(cmd->options, name, letter);
    return o != NULL ? o : find_in(common_options, name, letter);
}

static void nearest_in(const struct option_spec *table, struct str name, const char **best,
                       size_t *distance)
{
    for (const struct option_spec *o = table; o->name != NULL; o++) {
        size_t d = str_distance(name, str_of(o->name), *distance);
        if (d < *distance) {
            *best = o->name;
            *distance = d;
        }
    }
}

static enum status unknown_option(const struct command *cmd, struct str name, struct err *err)
{
    const char *best = NULL;
    size_t distance = 3;
    nearest_in(cmd->options, name, &best, &distance);
    nearest_in(common_options, name, &best, &distance);
    if (best != NULL) {
        return err_set(err, ST_USAGE, "'%s' has no option --%.*s; did you mean --%s?", cmd->name,
                       STR_ARG(name), best);
    }
    return err_set(err, ST_USAGE, "'%s' has no option --%.*s; see 'assay %s -h'", cmd->name,
                   STR_ARG(name), cmd->name);
}

/* Is `value` one of the words of "a|b|c"? Anything goes when arg lists no choices. */
static bool value_allowed(const char *arg, const char *value)
{
    if (strchr(arg, '|') == NULL) {
        return true;
    }
    struct str rest = str_of(arg);
    struct str word;
    while (str_cut(&rest, '|', &word)) {
        if (str_is(word, value)) {
            return true;
        }
    }
    return false;
}

static enum status use(struct cli *cli, const struct option_spec *spec, const char *value,
                       struct err *err)
{
    if (spec->kind != OPTION_REPEAT) {
        for (size_t i = 0; i < cli->uses.count; i++) {
            if (cli->uses.items[i].spec == spec && spec->kind != OPTION_FLAG) {
                return err_set(err, ST_USAGE, "--%s was given twice; it takes one value",
                               spec->name);
            }
        }
    }
    if (value != NULL && value[0] == '\0') {
        return err_set(err, ST_USAGE, "--%s needs a value; it got an empty one", spec->name);
    }
    if (value != NULL && !value_allowed(spec->arg, value)) {
        return err_set(err, ST_USAGE, "--%s takes one of %s, not '%s'", spec->name, spec->arg,
                       value);
    }
    *VEC_PUSH(cli->arena, &cli->uses) = (struct option_use){
        .spec = spec, .value = value, .operands_before = cli->operands.count};
    return ST_OK;
}

static enum status parse_long(struct cli *cli, int argc, char **argv, int *at, struct err *err)
{
    struct str text = str_of(argv[*at] + 2);
    size_t eq = str_find_char(text, '=', 0);
    struct str name = eq == SIZE_MAX ? text : str_slice(text, 0, eq);
    const struct option_spec *spec = find(cli->command, name, 0);
    if (spec == NULL) {
        return unknown_option(cli->command, name, err);
    }
    if (spec->kind == OPTION_FLAG) {
        if (eq != SIZE_MAX) {
            return err_set(err, ST_USAGE, "--%s takes no value", spec->name);
        }
        return use(cli, spec, NULL, err);
    }
    if (eq != SIZE_MAX) {
        return use(cli, spec, text.p + eq + 1, err);
    }
    if (spec->kind == OPTION_OPTIONAL) {
        return use(cli, spec, NULL, err);
    }
    if (*at + 1 >= argc) {
        return err_set(err, ST_USAGE, "--%s needs a value (%s)", spec->name, spec->arg);
    }
    return use(cli, spec, argv[++*at], err);
}

static enum status parse_short(struct cli *cli, int argc, char **argv, int *at, struct err *err)
{
    for (const char *p = argv[*at] + 1; *p != '\0'; p++) {
        const struct option_spec *spec = find(cli->command, (struct str){0}, *p);
        if (spec == NULL) {
            return err_set(err, ST_USAGE, "'%s' has no option -%c; see 'assay %s -h'",
                           cli->command->name, *p, cli->command->name);
        }
        if (spec->kind == OPTION_FLAG || spec->kind == OPTION_OPTIONAL) {
            TRY(use(cli, spec, NULL, err));
            continue;
        }
        if (p[1] != '\0') {
            return use(cli, spec, p + 1, err);
        }
        if (*at + 1 >= argc) {
            return err_set(err, ST_USAGE, "-%c needs a value (%s)", *p, spec->arg);
        }
        return use(cli, spec, argv[++*at], err);
    }
    return ST_OK;
}

enum status cli_parse(struct cli *cli, int argc, char **argv, struct err *err)
{
    bool only_operands = false;
    for (int at = 2; at < argc; at++) {
        const char *arg = argv[at];
        if (only_operands || arg[0] != '-' || arg[1] == '\0') {
            *VEC_PUSH(cli->arena, &cli->operands) = arg;
        } else if (strcmp(arg, "--") == 0) {
            only_operands = true;
        } else if (arg[1] == '-') {
            TRY(parse_long(cli, argc, argv, &at, err));
        } else {
            TRY(parse_short(cli, argc, argv, &at, err));
        }
    }
    if (cli->operands.count != 0 && cli->command->operands[0] == '\0' && !cli_flag(cli, "help")) {
        return err_set(err, ST_USAGE, "'%s' takes no operand, and got '%s'", cli->command->name,
                       cli->operands.items[0]);
    }
    return ST_OK;
}

bool cli_flag(const struct cli *cli, const char *name)
{
    for (size_t i = 0; i < cli->uses.count; i++) {
        if (strcmp(cli->uses.items[i].spec->name, name) == 0) {
            return true;
        }
    }
    return false;
}

const char *cli_value(const struct cli *cli, const char *name, const char *fallback)
{
    const char *value = cli_repeat(cli, name, 0);
    return value != NULL ? value : fallback;
}

const char *cli_repeat(const struct cli *cli, const char *name, size_t index)
{
    for (size_t i = 0; i < cli->uses.count; i++) {
        const struct option_use *u = &cli->uses.items[i];
        if (strcmp(u->spec->name, name) == 0 && index-- == 0) {
            return u->value;
        }
    }
    return NULL;
}
