// SPDX-License-Identifier: Apache-2.0
/* Manual pages in mdoc(7), from the option tables. */
#include <string.h>

#include "base/str.h"

#include "cli/command.h"

/* One word as mdoc wants it: backslashes and dashes escaped. */
static void mdoc_word(struct strbuf *out, struct str word)
{
    for (size_t i = 0; i < word.n; i++) {
        if (word.p[i] == '\\') {
            strbuf_addz(out, "\\e");
        } else if (word.p[i] == '-') {
            strbuf_addz(out, "\\-");
        } else {
            strbuf_addc(out, word.p[i]);
        }
    }
}

/* Text in lines of at most 70 columns before escaping, none of which begins with a control character. */
static void mdoc_text(struct strbuf *out, const char *text)
{
    enum {
        COLUMNS = 70 /* escapes make lines longer */
    };
    struct str rest = str_of(text);
    struct str word;
    size_t column = 0;
    bool sentence_over = false; /* mdoc wants each sentence on a line of its own */
    while (str_cut(&rest, ' ', &word)) {
        if (column != 0 && (sentence_over || column + 1 + word.n > COLUMNS)) {
            strbuf_addc(out, '\n');
            column = 0;
        } else if (column != 0) {
            strbuf_addc(out, ' ');
            column++;
        }
        if (column == 0 && word.n != 0 && (word.p[0] == '.' || word.p[0] == '\'')) {
            strbuf_addz(out, "\\&");
        }
        mdoc_word(out, word);
        column += word.n;
        sentence_over = str_ends(word, ".") || str_ends(word, "?") || str_ends(word, ".)");
    }
    strbuf_addc(out, '\n');
}

static void mdoc_options(struct strbuf *out, const struct option_spec *table)
{
    strbuf_addz(out, ".Bl -tag -width Ds\n");
    for (const struct option_spec *o = table; o->name != NULL; o++) {
        strbuf_addz(out, ".It ");
        if (o->letter != 0) {
            strbuf_fmt(out, "Fl %c , ", o->letter);
        }
        strbuf_fmt(out, "Fl \\-%s", o->name);
        if (o->kind == OPTION_OPTIONAL) {
            strbuf_fmt(out, " Ns Op Ns = Ns Ar %s", o->arg);
        } else if (o->kind != OPTION_FLAG) {
            strbuf_fmt(out, " Ar %s", o->arg);
        }
        strbuf_addc(out, '\n');
        mdoc_text(out, o->help);
    }
    strbuf_addz(out, ".El\n");
}

static void mdoc_head(struct strbuf *out, const char *title, const char *page, const char *summary)
{
    /* No date: the same program gives the same page. */
    strbuf_fmt(out, ".Dd $Mdocdate$\n.Dt %s 1\n.Os\n.Sh NAME\n.Nm %s\n.Nd ", title, page);
    mdoc_text(out, summary);
}

static const char exit_section[] =
    ".Sh EXIT STATUS\n"
    ".Bl -tag -width Ds -compact\n.It 0\nnothing wrong\n.It 1\nfault found\n"
    ".It 2\ncould not tell: unreadable, denied, skipped\n.It 64\nusage\n.El\n";

static void man_overview(struct strbuf *out)
{
    mdoc_head(out, "ASSAY", "assay", "qualify a GPU training stack and name the cause of failures");
    strbuf_addz(out, ".Sh SYNOPSIS\n.Nm\n.Ar command\n.Op Ar option ...\n.Op Ar operand ...\n"
                     ".Sh DESCRIPTION\n.Nm\nhas one page per command:\n.Bl -tag -width Ds\n");
    for (size_t i = 0; commands[i] != NULL; i++) {
        strbuf_fmt(out, ".It Xr assay-%s 1\n", commands[i]->name);
        mdoc_text(out, commands[i]->summary);
    }
    strbuf_addz(out, ".El\n");
    strbuf_addz(out, exit_section);
}

void man_page(struct strbuf *out, const struct command *cmd)
{
    if (cmd == NULL) {
        man_overview(out);
        return;
    }
    char upper[64] = "";
    size_t n = strlen(cmd->name) < sizeof upper - 1 ? strlen(cmd->name) : sizeof upper - 1;
    for (size_t i = 0; i < n; i++) {
        char c = cmd->name[i];
        upper[i] = (char)(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    }
    struct strbuf title;
    strbuf_init(&title, out->arena, 256);
    strbuf_fmt(&title, "ASSAY-%s", upper);
    struct strbuf page;
    strbuf_init(&page, out->arena, 256);
    strbuf_fmt(&page, "assay-%s", cmd->name);
    mdoc_head(out, title.p, page.p, cmd->summary);
    strbuf_fmt(out, ".Sh SYNOPSIS\n.Nm assay %s\n.Op Ar option ...\n", cmd->name);
    if (cmd->operands[0] != '\0') {
        /* A bare "--" would be a dash of prose. */
        struct str operands = str_of(cmd->operands);
        bool separated = str_starts(operands, "-- ");
        strbuf_addz(out, separated ? ".Ar \\-\\- " : ".Ar ");
        strbuf_add(out, separated ? str_slice(operands, 3, operands.n) : operands);
        strbuf_addc(out, '\n');
    }
    strbuf_addz(out, ".Sh DESCRIPTION\n");
    for (size_t i = 0; cmd->description[i] != NULL; i++) {
        if (i != 0) {
            strbuf_addz(out, ".Pp\n");
        }
        mdoc_text(out, cmd->description[i]);
    }
    strbuf_addz(out, ".Sh OPTIONS\n");
    if (cmd->options[0].name != NULL) {
        mdoc_options(out, cmd->options);
    }
    strbuf_addz(out, "Options of every command:\n");
    mdoc_options(out, common_options);
    strbuf_addz(out, exit_section);
    strbuf_addz(out, ".Sh EXAMPLES\n");
    for (const struct example *e = cmd->examples; e->command != NULL; e++) {
        if (e != cmd->examples) {
            strbuf_addz(out, ".Pp\n");
        }
        mdoc_text(out, e->what);
        strbuf_addz(out, ".Dl ");
        mdoc_word(out, str_of(e->command));
        strbuf_addc(out, '\n');
    }
    strbuf_addz(out, ".Sh SEE ALSO\n.Xr assay 1\n");
}
