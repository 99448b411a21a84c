// SPDX-License-Identifier: Apache-2.0
/*
 * assay probe: operators on trial. This file holds the options and the table of modes; each mode has
 * a file of its own, probe_<mode>.c.
 */
#include "cli/command.h"
#include "cli/command_list.h"
#include "cli/probe_check.h"

/* A way to put an implementation on trial, chosen by its option. */
struct probe_mode {
    const char *name; /* option without dashes */
    int (*run)(struct cli *cli);
};

static const struct probe_mode modes[] = {
    {"check", probe_check},
};

static int run_probe(struct cli *cli)
{
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        if (cli_value(cli, modes[i].name, NULL)) {
            return modes[i].run(cli);
        }
    }
    return cli_fail(cli, EXIT_USAGE, "probe needs --check FILE: tensors of an operator to judge");
}

static const char *const description[] = {
    "Puts operators on trial: each result and each gradient is compared with a reference in float64 "
    "and with the error that the number format allows, which is derived for every operator. NaN "
    "fails, and what was not given is 'could not tell', never a pass.",
    "--check FILE reads a safetensors file that any framework wrote: the operator's name and "
    "attributes as metadata, tensors input.x, output.y, grad_output.y, grad.x. docs/probe.md lists "
    "operators and tensors and shows how to write such a file in ten lines.",
    NULL,
};

static const struct example examples[] = {
    {"assay probe --check case.safetensors", "judge what a framework computed and saved"},
    {"assay probe --check a.safetensors --check b.safetensors --json", "several cases, as JSON"},
    {0},
};

static const struct option_spec options[] = {
    {"check", 0, OPTION_REPEAT, "FILE",
     "Judge the tensors of an operator in FILE; may be repeated"},
    REPORT_OPTIONS,
    {0},
};

const struct command command_probe = {
    .name = "probe",
    .summary = "Put operators on trial against a float64 reference",
    .operands = "",
    .operand_kind = "none",
    .description = description,
    .examples = examples,
    .options = options,
    .run = run_probe,
};
