// SPDX-License-Identifier: Apache-2.0
/* Completion scripts for bash, zsh and fish, from the option tables. */
#include <string.h>

#include "base/str.h"

#include "cli/command.h"

static bool is_choice(const char *arg)
{
    return arg != NULL && strchr(arg, '|') != NULL;
}

/* "a|b" as "a b". */
static void words(struct strbuf *out, const char *choices)
{
    for (const char *p = choices; *p != '\0'; p++) {
        strbuf_addc(out, (char)(*p == '|' ? ' ' : *p));
    }
}

static void option_words(struct strbuf *out, const struct option_spec *table)
{
    for (const struct option_spec *o = table; o->name != NULL; o++) {
        strbuf_fmt(out, " --%s", o->name);
        if (o->letter != 0) {
            strbuf_fmt(out, " -%c", o->letter);
        }
    }
}

static void bash_values(struct strbuf *out, const struct option_spec *table)
{
    for (const struct option_spec *o = table; o->name != NULL; o++) {
        if (o->kind == OPTION_FLAG || o->kind == OPTION_OPTIONAL) {
            continue;
        }
        strbuf_fmt(out, "      --%s%s%.1s) ", o->name, o->letter ? "|-" : "",
                   o->letter ? &o->letter : "");
        if (is_choice(o->arg)) {
            strbuf_addz(out, "COMPREPLY=($(compgen -W '");
            words(out, o->arg);
            strbuf_addz(out, "' -- \"$cur\")); return ;;\n");
        } else if (strcmp(o->arg, "DIR") == 0) {
            strbuf_addz(out, "COMPREPLY=($(compgen -d -- \"$cur\")); return ;;\n");
        } else {
            strbuf_addz(out, "COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n");
        }
    }
}

static void bash(struct strbuf *out)
{
    strbuf_addz(out, "# bash completion for assay\n_assay() {\n"
                     "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                     "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    COMPREPLY=($(compgen -W '");
    for (size_t i = 0; commands[i] != NULL; i++) {
        strbuf_fmt(out, "%s ", commands[i]->name);
    }
    strbuf_addz(out, "help --version' -- \"$cur\")); return\n  fi\n  case ${COMP_WORDS[1]} in\n");
    for (size_t i = 0; commands[i] != NULL; i++) {
        const struct command *c = commands[i];
        strbuf_fmt(out, "    %s)\n      case $prev in\n", c->name);
        bash_values(out, c->options);
        bash_values(out, common_options);
        strbuf_addz(out, "      esac\n      case $cur in\n"
                         "        -*) COMPREPLY=($(compgen -W '");
        option_words(out, c->options);
        option_words(out, common_options);
        strbuf_addz(out, "' -- \"$cur\")) ;;\n        *) ");
        if (is_choice(c->operand_kind)) {
            strbuf_addz(out, "COMPREPLY=($(compgen -W '");
            words(out, c->operand_kind);
            strbuf_addz(out, "' -- \"$cur\"))");
        } else if (strcmp(c->operand_kind, "none") == 0) {
            strbuf_addz(out, "COMPREPLY=()");
        } else {
            strbuf_addz(out, "COMPREPLY=($(compgen -f -- \"$cur\"))");
        }
        strbuf_addz(out, " ;;\n      esac ;;\n");
    }
    strbuf_addz(out, "  esac\n}\ncomplete -o filenames -F _assay assay\n");
}

/* Text inside single quotes of zsh and fish. */
static void quoted(struct strbuf *out, const char *text, const char *special)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\'') {
            strbuf_addz(out, "'\\''");
            continue;
        }
        if (strchr(special, *p) != NULL) {
            strbuf_addc(out, '\\');
        }
        strbuf_addc(out, *p);
    }
}

static void zsh_options(struct strbuf *out, const struct option_spec *table)
{
    for (const struct option_spec *o = table; o->name != NULL; o++) {
        for (int form = 0; form < (o->letter != 0 ? 2 : 1); form++) {
            strbuf_fmt(out, "        '%s", o->kind == OPTION_REPEAT ? "*" : "");
            if (form == 0) {
                strbuf_fmt(out, "--%s%s", o->name, o->kind == OPTION_OPTIONAL ? "=-" : "");
            } else {
                strbuf_fmt(out, "-%c", o->letter);
            }
            strbuf_addc(out, '[');
            quoted(out, o->help, "[]:");
            strbuf_addc(out, ']');
            if (o->kind == OPTION_OPTIONAL) {
                strbuf_fmt(out, "::%s:_files", o->arg);
            } else if (o->kind != OPTION_FLAG && is_choice(o->arg)) {
                strbuf_addz(out, ":value:(");
                words(out, o->arg);
                strbuf_addc(out, ')');
            } else if (o->kind != OPTION_FLAG) {
                strbuf_fmt(out, ":%s:%s", o->arg,
                           strcmp(o->arg, "DIR") == 0 ? "_files -/" : "_files");
            }
            strbuf_addz(out, "' \\\n");
        }
    }
}

static void zsh(struct strbuf *out)
{
    strbuf_addz(out, "#compdef assay\n_assay() {\n  if (( CURRENT == 2 )); then\n"
                     "    local -a names=(\n");
    for (size_t i = 0; commands[i] != NULL; i++) {
        strbuf_fmt(out, "      '%s:", commands[i]->name);
        quoted(out, commands[i]->summary, ":");
        strbuf_addz(out, "'\n");
    }
    strbuf_addz(out, "      'help:Help'\n    )\n    _describe command names\n    return\n  fi\n"
                     "  local cmd=$words[2]\n  shift words; (( CURRENT-- ))\n  case $cmd in\n");
    for (size_t i = 0; commands[i] != NULL; i++) {
        const struct command *c = commands[i];
        strbuf_fmt(out, "    %s)\n      _arguments \\\n", c->name);
        zsh_options(out, c->options);
        zsh_options(out, common_options);
        if (is_choice(c->operand_kind)) {
            strbuf_addz(out, "        '*:operand:(");
            words(out, c->operand_kind);
            strbuf_addz(out, ")' ;;\n");
        } else if (strcmp(c->operand_kind, "none") == 0) {
            strbuf_addz(out, "        ;;\n");
        } else {
            strbuf_addz(out, "        '*:file:_files' ;;\n");
        }
    }
    strbuf_addz(out, "  esac\n}\n_assay \"$@\"\n");
}

static void fish_options(struct strbuf *out, const char *name, const struct option_spec *table)
{
    for (const struct option_spec *o = table; o->name != NULL; o++) {
        strbuf_fmt(out, "complete -c assay -n '__fish_seen_subcommand_from %s' -l %s", name,
                   o->name);
        if (o->letter != 0) {
            strbuf_fmt(out, " -s %c", o->letter);
        }
        if (o->kind != OPTION_FLAG && is_choice(o->arg)) {
            strbuf_addz(out, " -x -a '");
            words(out, o->arg);
            strbuf_addc(out, '\'');
        } else if (o->kind != OPTION_FLAG && o->kind != OPTION_OPTIONAL) {
            strbuf_addz(out, " -r");
        }
        strbuf_addz(out, " -d '");
        quoted(out, o->help, "");
        strbuf_addz(out, "'\n");
    }
}

static void fish(struct strbuf *out)
{
    strbuf_addz(out, "# fish completion for assay\n");
    for (size_t i = 0; commands[i] != NULL; i++) {
        const struct command *c = commands[i];
        strbuf_fmt(out, "complete -c assay -n __fish_use_subcommand -f -a %s -d '", c->name);
        quoted(out, c->summary, "");
        strbuf_addz(out, "'\n");
        fish_options(out, c->name, c->options);
        fish_options(out, c->name, common_options);
        if (is_choice(c->operand_kind)) {
            strbuf_fmt(out, "complete -c assay -n '__fish_seen_subcommand_from %s' -f -a '",
                       c->name);
            words(out, c->operand_kind);
            strbuf_addz(out, "'\n");
        }
    }
}

enum status completion_script(struct strbuf *out, const char *shell, struct err *err)
{
    if (strcmp(shell, "bash") == 0) {
        bash(out);
    } else if (strcmp(shell, "zsh") == 0) {
        zsh(out);
    } else if (strcmp(shell, "fish") == 0) {
        fish(out);
    } else {
        return err_set(err, ST_USAGE,
                       "there is no completion for '%s'; bash, zsh and fish have one", shell);
    }
    return ST_OK;
}
