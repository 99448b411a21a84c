// SPDX-License-Identifier: Apache-2.0
/*
 * Commands and options are data. One row here feeds the parser, -h, --help, the man page and the
 * completions of bash, zsh and fish; tests/cli/options.sh checks that they agree.
 *
 * To add a command: a file cmd_<name>.c with a `const struct command command_<name>`, a row in
 * commands.c, a line in meson.build, a test.
 */
#ifndef ASSAY_CLI_COMMAND_H
#define ASSAY_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/finding.h"
#include "base/str.h"

enum exit_status {
    EXIT_FINE = 0,    /* nothing wrong */
    EXIT_FAULT = 1,   /* a fault was found */
    EXIT_UNKNOWN = 2, /* could not tell: unreadable, denied, skipped */
    EXIT_USAGE = 64
};

enum option_kind {
    OPTION_FLAG,     /* --quiet */
    OPTION_VALUE,    /* --root DIR, given at most once */
    OPTION_REPEAT,   /* --config FILE, may be given again */
    OPTION_OPTIONAL, /* --torch or --torch=PYTHON; never the next word */
};

struct option_spec {
    const char *name; /* long name without the dashes */
    char letter;      /* one-letter form, or 0 */
    enum option_kind kind;
    const char *arg;  /* name of the value in help: FILE, DIR; choices as "text|json|junit" */
    const char *help; /* one sentence, no full stop */
};

struct example {
    const char *command;
    const char *what;
};

struct cli;

struct command {
    const char *name;
    const char *summary;               /* one line of `assay help` */
    const char *operands;              /* "[LOG...]"; "" when it takes none */
    const char *operand_kind;          /* completion: "file", "dir", "none" or "a|b|c" choices */
    const char *const *description;    /* paragraphs, NULL-terminated */
    const struct example *examples;    /* ends with a row of NULLs */
    const struct option_spec *options; /* ends with a row whose name is NULL */
    int (*run)(struct cli *cli);
};

/* Options that every command has; same layout. */
extern const struct option_spec common_options[];

/* Rows that every command which renders a report puts into its table. */
#define REPORT_OPTIONS                                                                          \
 {"format", 'f', OPTION_VALUE, "text|json|junit|html|markdown", "Form of the result"},          \
     {"json", 'j', OPTION_FLAG, NULL, "Same as --format json"},                                 \
     {"lang", 0, OPTION_VALUE, "LANG", "Language of findings: en, or zh as far as translated"}, \
 {                                                                                              \
  "knowledge", 0, OPTION_VALUE, "DIR", "Use the rules in DIR instead of the built-in ones"      \
 }

/* All commands in the order of help; NULL-terminated. */
extern const struct command *const commands[];

const struct command *command_find(const char *name);

/* The nearest name by spelling, or NULL. */
const char *command_suggest(const char *name);

/* ---- one invocation ---- */

struct option_use {
    const struct option_spec *spec;
    const char *value;      /* NULL for flags, and for OPTION_OPTIONAL without a value */
    size_t operands_before; /* that stood before it on the command line */
};

struct option_uses {
    struct option_use *items;
    size_t count;
    size_t capacity;
};

struct cli {
    struct arena *arena;
    const struct command *command;
    struct option_uses uses;
    struct text_list operands;
    bool stdout_color;
    bool stderr_color;
    bool stderr_tty;
    int width; /* of the terminal; 100 when stdout is none */
};

/* Reads argv[2...] of a command into cli; on failure err is a sentence for stderr. */
enum status cli_parse(struct cli *cli, int argc, char **argv, struct err *err) MUST_USE;

bool cli_flag(const struct cli *cli, const char *name);
const char *cli_value(const struct cli *cli, const char *name, const char *fallback);
/* Value number `index` of a repeatable option, or NULL after the last. */
const char *cli_repeat(const struct cli *cli, const char *name, size_t index);

/* ---- output; nothing else in the project prints ---- */

/* "assay: <sentence>" on stderr; returns `status` for `return cli_fail(...)`. */
int cli_fail(const struct cli *cli, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);
void cli_note(const struct cli *cli, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Writes the result to stdout or to --output FILE; a failed write is an error with exit 2. */
int cli_emit(const struct cli *cli, struct str text, int status);
/* The same on stderr where no --output is given: stdout belongs to a command that we run. */
int cli_emit_aside(const struct cli *cli, struct str text, int status);

/* A progress line on stderr, redrawn in place; silent when stderr is no terminal, when --quiet is
 * given, or during the first second. Call with NULL to erase it. */
void cli_progress(const struct cli *cli, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* ---- help in its forms ---- */

void help_overview(struct strbuf *out); /* assay help */
/* -h, and --help with examples first; wrapped at `columns`. */
void help_short(struct strbuf *out, const struct command *cmd, int columns);
void help_long(struct strbuf *out, const struct command *cmd, int columns);
void man_page(struct strbuf *out, const struct command *cmd); /* mdoc; NULL: assay(1) */
enum status completion_script(struct strbuf *out, const char *shell, struct err *err) MUST_USE;

#endif
