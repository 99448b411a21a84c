// SPDX-License-Identifier: Apache-2.0
/* assay man, assay completion: what the option tables can say in other forms. */
#include "base/str.h"

#include "cli/command.h"
#include "cli/command_list.h"

static const struct option_spec no_options[] = {{0}};

static int run_man(struct cli *cli)
{
    struct strbuf out;
    strbuf_init(&out, cli->arena, 1 << 20);
    if (cli->operands.count == 0) {
        man_page(&out, NULL);
        return cli_emit(cli, strbuf_str(&out), EXIT_FINE);
    }
    for (size_t i = 0; i < cli->operands.count; i++) {
        const struct command *cmd = command_find(cli->operands.items[i]);
        if (cmd == NULL) {
            return cli_fail(cli, EXIT_USAGE, "there is no command '%s'; 'assay help' lists them",
                            cli->operands.items[i]);
        }
        man_page(&out, cmd);
    }
    return cli_emit(cli, strbuf_str(&out), EXIT_FINE);
}

static const char *const man_text[] = {
    "Prints a manual page in mdoc(7) form on standard output: assay(1) without an operand, else the "
    "page of each command named.",
    NULL,
};

static const struct example man_examples[] = {
    {"assay man doctor | man -l -", "read the page of doctor without installing it"},
    {0},
};

const struct command command_man = {
    .name = "man",
    .summary = "Print a manual page",
    .operands = "[COMMAND...]",
    .operand_kind = "qualify|doctor|diagnose|man|completion",
    .description = man_text,
    .examples = man_examples,
    .options = no_options,
    .run = run_man,
};

static int run_completion(struct cli *cli)
{
    if (cli->operands.count != 1) {
        return cli_fail(cli, EXIT_USAGE, "completion needs one shell: bash, zsh or fish");
    }
    struct strbuf out;
    strbuf_init(&out, cli->arena, 1 << 20);
    struct err err = {0};
    if (completion_script(&out, cli->operands.items[0], &err) != ST_OK) {
        return cli_fail(cli, EXIT_USAGE, "%s", err.text);
    }
    return cli_emit(cli, strbuf_str(&out), EXIT_FINE);
}

static const char *const completion_text[] = {
    "Prints the completion script of a shell on standard output.",
    NULL,
};

static const struct example completion_examples[] = {
    {"source <(assay completion bash)", "completion in the running bash"},
    {"assay completion fish > ~/.config/fish/completions/assay.fish", "for good, in fish"},
    {0},
};

const struct command command_completion = {
    .name = "completion",
    .summary = "Print a shell completion script",
    .operands = "bash|zsh|fish",
    .operand_kind = "bash|zsh|fish",
    .description = completion_text,
    .examples = completion_examples,
    .options = no_options,
    .run = run_completion,
};
