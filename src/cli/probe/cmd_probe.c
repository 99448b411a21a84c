// SPDX-License-Identifier: Apache-2.0
/*
 * assay probe: operators on trial. This file holds the options and the table of modes; each mode has
 * a file of its own, probe_<mode>.c. Without a mode's option, libraries are tried.
 */
#include <string.h>

#include "cli/command.h"
#include "cli/command_list.h"
#include "cli/probe/check.h"
#include "cli/probe/figures.h"
#include "cli/probe/probe.h"
#include "cli/probe/torch.h"
#include "cli/probe/why.h"
#include "cli/session.h"

static const struct probe_mode modes[] = {
    {"check", probe_check},
    {"torch", probe_torch},
    {"why", probe_why},
    {"figures", probe_figures},
};

/* Options that only one way of trying understands; another would ignore them without a word. */
static const struct {
    const char *option, *mode;
    bool libraries; /* and the one without a mode */
} belongs_to[] = {
    {"timing", "torch", false},  {"torch-module", "torch", false}, {"device", "torch", true},
    {"library", NULL, true},     {"shapes", NULL, true},           {"resume", NULL, true},
    {"reproducer", NULL, true},  {"level", "torch", true},         {"seed", "torch", true},
    {"deadline", "torch", true}, {"dtype", "torch", true},         {"time-limit", "torch", true},
};

static const char *chosen_mode(const struct cli *cli)
{
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        if (cli_flag(cli, modes[i].name)) {
            return modes[i].name;
        }
    }
    return NULL;
}

static int run_probe(struct cli *cli)
{
    const char *mode = chosen_mode(cli);
    for (size_t i = 0; i < ARRAY_LEN(belongs_to); i++) {
        const char *wanted = belongs_to[i].mode;
        bool fits = mode == NULL ? belongs_to[i].libraries
                                 : wanted != NULL && strcmp(mode, wanted) == 0;
        if (!fits && cli_flag(cli, belongs_to[i].option)) {
            bool lacks = mode == NULL;
            return cli_fail(cli, EXIT_USAGE, "--%s has no meaning %s%s", belongs_to[i].option,
                            lacks ? "without --" : "with --", lacks ? wanted : mode);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        if (cli_value(cli, modes[i].name, NULL) != NULL || cli_flag(cli, modes[i].name)) {
            return modes[i].run(cli);
        }
    }
    return probe_gemm(cli);
}

static const char *const description[] = {
    "Puts implementations of operators on trial, under guard and against a reference in higher "
    "precision: every operand ends at, or begins behind, a page that is not mapped, and every result is "
    "compared with the error that its number format allows. A read past an operand that gives right "
    "numbers is caught, and so are wrong numbers that never fault. The guard proves itself first on "
    "planted faults; where it does not, the answer is 'could not tell'.",
    "Without --check and --torch, matrix products of CPU libraries are tried: those that a program here "
    "gets, or those of --library; with --device those of a device's vendor. A fault is localised: entry "
    "point, kernel family, operand, distance, the smallest size that still fails, the nearest that pass. "
    "The library runs in child processes: crashes, hangs and illegal instructions are results, and the "
    "campaign goes on after them.",
    "--torch puts the user's own PyTorch on trial: a small agent runs each operator, forward and "
    "backward, in the user's interpreter, in every way PyTorch offers and in up to six placements. A crash, a "
    "hang and a missing backward are results with names.",
    "--check FILE judges a safetensors file that any framework wrote: the operator's name and "
    "attributes as metadata, tensors input.x, output.y, grad_output.y, grad.x. docs/probe.md lists "
    "operators and tensors and shows how to write such a file in ten lines.",
    NULL,
};

static const struct example examples[] = {
    {"assay probe", "try the BLAS libraries that programs on this machine get"},
    {"assay probe --library /usr/lib/x86_64-linux-gnu/libblis.so.4", "try one library"},
    {"assay probe --level full --resume campaign.state",
     "over 100,000 products a library and format; go on where a killed run was"},
    {"assay probe --library /usr/lib/x86_64-linux-gnu/libblis.so.4 --reproducer blis-fault",
     "write the smallest failing product as a C program with a report, for its maintainers"},
    {"assay probe --device opencl --dtype float32 --shapes FILE",
     "try the matrix library of a device: cuBLASLt, hipBLASLt and rocBLAS, or CLBlast"},
    {"assay probe --torch", "try the PyTorch of VIRTUAL_ENV, else of python3, on the CPU"},
    {"assay probe --torch=/opt/venv/bin/python --device cuda --dtype bf16 attention linear",
     "two operators in bfloat16 on the GPU (torch calls HIP devices cuda too)"},
    {"assay probe --torch --torch-module my_kernel.py --device cuda",
     "a kernel of your own: the file defines inputs(torch), run(inputs), reference(inputs)"},
    {"assay probe --why", "which devices and libraries answer here, and why others do not"},
    {"assay probe --figures cuda", "what explains slowness: each figure beside the part's limit"},
    {"assay probe --check case.safetensors", "judge what a framework computed and saved"},
    {0},
};

static const struct option_spec options[] = {
    PROBE_LIBRARY_OPTIONS,
    PROBE_TORCH_OPTIONS,
    {"check", 0, OPTION_REPEAT, "FILE",
     "Judge the tensors of an operator in FILE; may be repeated"},
    {"why", 0, OPTION_FLAG, NULL, "Show devices and libraries, and the reason where one is off"},
    {"figures", 0, OPTION_VALUE, "DEVICE",
     "Measure latencies, bandwidths and matrix rates of cpu, cuda, hip, opencl or cuda:1"},
    {"device", 0, OPTION_VALUE, "DEVICE",
     "Libraries of cpu, cuda, hip or opencl (cuda:1: the second); with --torch cpu or cuda"},
    {"level", 0, OPTION_VALUE, "quick|full", "Size of the plan; quick takes seconds a library"},
    {"dtype", 0, OPTION_REPEAT, "TYPE",
     "Only this number format: float32, float64, bf16, fp16, on a GPU float8_e4m3fn and its kin"},
    {"seed", 0, OPTION_VALUE, "N", "Another choice of layouts and values (1)"},
    {"deadline", 0, OPTION_VALUE, "SECONDS",
     "What takes longer is a hang (a product 10, a case of PyTorch 60, on a GPU 180)"},
    {"time-limit", 0, OPTION_VALUE, "SECONDS",
     "Stop after SECONDS and say what was not tried (quick on a device: 120; else none)"},
    REPORT_OPTIONS,
    {0},
};

const struct command command_probe = {
    .name = "probe",
    .summary =
        "Put operators of libraries and of PyTorch on trial, under guard and against a reference",
    .operands = "[OP...]",
    .operand_kind = "none",
    .description = description,
    .examples = examples,
    .options = options,
    .run = run_probe,
};
