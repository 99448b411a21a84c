// SPDX-License-Identifier: Apache-2.0
/* Help texts from the option tables: overview, short, long. */
#include <string.h>

#include "base/str.h"

#include "cli/command.h"
#include "report/report.h"

static void option_left(struct strbuf *out, const struct option_spec *o)
{
    if (o->letter != 0) {
        strbuf_fmt(out, "-%c, ", o->letter);
    } else {
        strbuf_addz(out, "    ");
    }
    strbuf_fmt(out, "--%s", o->name);
    if (o->kind == OPTION_OPTIONAL) {
        strbuf_fmt(out, "[=%s]", o->arg);
    } else if (o->kind != OPTION_FLAG) {
        strbuf_fmt(out, " %s%s", o->arg, o->kind == OPTION_REPEAT ? "..." : "");
    }
}

static void option_rows(struct strbuf *out, const struct option_spec *table, int columns)
{
    enum {
        COLUMN = 36
    };

    for (const struct option_spec *o = table; o->name != NULL; o++) {
        size_t start = out->n;
        strbuf_addz(out, "  ");
        option_left(out, o);
        size_t width = out->n - start;
        if (width + 2 > COLUMN) {
            strbuf_fmt(out, "\n%*s", COLUMN, "");
        } else {
            strbuf_fmt(out, "%*s", (int)(COLUMN - width), "");
        }
        report_wrap(out, o->help, COLUMN, columns);
    }
}

static void usage_line(struct strbuf *out, const struct command *cmd)
{
    strbuf_fmt(out, "Usage: assay %s [OPTION]...%s%s\n", cmd->name, cmd->operands[0] ? " " : "",
               cmd->operands);
}

void help_overview(struct strbuf *out)
{
    strbuf_addz(out, "assay qualifies a GPU training stack and names the cause when a run breaks.\n"
                     "\n"
                     "Usage: assay COMMAND [OPTION]... [OPERAND]...\n"
                     "\n");
    for (size_t i = 0; commands[i] != NULL; i++) {
        strbuf_fmt(out, "  %-12s%s\n", commands[i]->name, commands[i]->summary);
    }
    strbuf_addz(out, "  help        This text, or the long help of a command: assay help doctor\n"
                     "\n"
                     "Start here:\n"
                     "  assay doctor                 is this machine fit to train?\n"
                     "  assay diagnose train.log     what broke my run?\n"
                     "\n"
                     "Exit status: 0 nothing wrong, 1 fault found, 2 could not tell, 64 usage.\n"
                     "'assay COMMAND -h' lists options, 'assay --version' tells the version.\n");
}

void help_short(struct strbuf *out, const struct command *cmd, int columns)
{
    usage_line(out, cmd);
    strbuf_fmt(out, "%s.\n\n", cmd->summary);
    option_rows(out, cmd->options, columns);
    option_rows(out, common_options, columns);
}

void help_long(struct strbuf *out, const struct command *cmd, int columns)
{
    strbuf_addz(out, "Examples:\n");
    for (const struct example *e = cmd->examples; e->command != NULL; e++) {
        strbuf_fmt(out, "  %s\n      %s\n", e->command, e->what);
    }
    strbuf_addc(out, '\n');
    usage_line(out, cmd);
    strbuf_fmt(out, "%s.\n", cmd->summary);
    for (size_t i = 0; cmd->description[i] != NULL; i++) {
        strbuf_addc(out, '\n');
        report_wrap(out, cmd->description[i], 0, columns);
    }
    strbuf_addz(out, "\nOptions:\n");
    option_rows(out, cmd->options, columns);
    strbuf_addz(out, "\nOptions of every command:\n");
    option_rows(out, common_options, columns);
    strbuf_addz(out,
                "\nExit status: 0 nothing wrong, 1 fault found, 2 could not tell, 64 usage.\n");
}
