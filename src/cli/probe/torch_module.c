// SPDX-License-Identifier: Apache-2.0
/* assay probe --torch --torch-module FILE: a kernel of the user's own, under guard. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

#include "cli/probe/torch.h"
#include "cli/session.h"
#include "ops/torch/module.h"

static const char *side_text(enum torch_side side)
{
    return side == TORCH_SIDE_END ? "inputs end at a hole" : "inputs begin behind a hole";
}

static const char *claim_of(struct cli *cli, const struct torch_module_side *s)
{
    const struct torch_result *r = &s->result;
    const struct torch_worst *w = &r->forward.worst;
    switch (r->forward.verdict) {
    case TORCH_FAULTED:
        return probe_torch_fault_text(
            cli, &r->fault, s->side,
            s->elsewhere ? "it faults with no input guarded too, so it is in memory that torch "
                           "allocated (a result or a workspace), or in none"
                         : r->message);
    case TORCH_INACCURATE:
        return arena_fmt(cli->arena,
                         "The worst element, %s[%s], is %.9g; reference() says %.9g. It is off by "
                         "%.3g; %.3g is allowed.",
                         w->tensor, w->index, w->got, w->wanted, w->error, w->bound);
    case TORCH_WRONG_SHAPE:
        return arena_fmt(cli->arena, "Result '%s' has another shape than reference() gives.",
                         w->tensor);
    case TORCH_MISALIGNED:
        return "The device reports a misaligned address: an access of several elements at once "
               "whose address is no multiple of its width.";
    case TORCH_TIMEOUT: return "It did not end before the deadline and was killed.";
    default: return arena_fmt(cli->arena, "%s.", r->message);
    }
}

static const struct {
    const char *id, *title;
    enum severity severity;
} kinds[TORCH_VERDICT_COUNT] = {
    [TORCH_OK] = {"kernel-passes", "", SEVERITY_OK},
    [TORCH_NOT_RUN] = {"kernel-not-run", "was not run", SEVERITY_UNKNOWN},
    [TORCH_MISSING] = {"kernel-not-run", "cannot run here", SEVERITY_UNKNOWN},
    [TORCH_UNTOLD] = {"kernel-not-judged", "could not be judged", SEVERITY_UNKNOWN},
    [TORCH_INACCURATE] = {"kernel-inaccurate", "gives wrong numbers", SEVERITY_ERROR},
    [TORCH_WRONG_SHAPE] = {"kernel-wrong-shape", "gives a wrong shape", SEVERITY_ERROR},
    [TORCH_MISALIGNED] = {"kernel-misaligned", "reads at misaligned addresses", SEVERITY_ERROR},
    [TORCH_TIMEOUT] = {"kernel-hang", "hangs", SEVERITY_ERROR},
    [TORCH_CRASHED] = {"kernel-crash", "crashes", SEVERITY_ERROR},
    [TORCH_OVERWRITTEN] = {"kernel-overwrite", "writes where it must not", SEVERITY_ERROR},
    [TORCH_FAULTED] = {"kernel-out-of-bounds", "leaves its operands", SEVERITY_ERROR},
};

static void add_finding(struct cli *cli, const char *name, const struct torch_module_side *s,
                        struct finding_list *findings)
{
    enum torch_verdict v = s->result.forward.verdict;
    if (kinds[v].severity == SEVERITY_OK) {
        return;
    }
    struct finding *f = VEC_PUSH(cli->arena, findings);
    *f = (struct finding){.id = kinds[v].id,
                          .severity = kinds[v].severity,
                          .title = arena_fmt(cli->arena, "%s %s", name, kinds[v].title),
                          .claim = claim_of(cli, s),
                          .confidence = 1};
    *VEC_PUSH(cli->arena, &f->evidence) = (struct evidence){.source = "probe",
                                                            .text = side_text(s->side)};
    if (s->result.message[0] != '\0') {
        *VEC_PUSH(cli->arena, &f->evidence) = (struct evidence){.source = "torch",
                                                                .text = s->result.message};
    }
}

static const struct report_column columns[] = {
    {"kernel", "kernel", 0},
    {"guard", "guard", 0},
    {"verdict", "verdict", 0},
    {"error", "err/bound", 3},
};

static void fill_table(struct cli *cli, const char *name, const struct torch_module_side sides[2],
                       bool proven, struct report_table *ret_table)
{
    size_t n = ARRAY_LEN(columns);
    struct value *cells = arena_array(cli->arena, 2 * n, sizeof *cells);
    for (int i = 0; i < 2; i++) {
        const struct torch_step *step = &sides[i].result.forward;
        bool unproven = step->verdict == TORCH_OK && !proven;
        cells[i * n] = value_string(name);
        cells[i * n + 1] = value_string(side_text(sides[i].side));
        cells[i * n + 2] = value_string(unproven ? "could not tell"
                                                 : torch_verdict_name(step->verdict));
        cells[i * n + 3] = step->worst.tensor != NULL && !isnan(step->worst.ratio)
                               ? value_real(step->worst.ratio)
                               : (struct value){.kind = VALUE_NULL};
    }
    *ret_table = (struct report_table){.key = "kernels",
                                       .heading = "Kernel",
                                       .columns = columns,
                                       .column_count = n,
                                       .cells = cells,
                                       .row_count = 2};
}

int probe_torch_module(struct cli *cli, struct torch_agent *agent, const char *path,
                       int deadline_ms)
{
    struct err err = {0};
    char absolute[PATH_MAX];
    if (realpath(path, absolute) == NULL) {
        return cli_fail(cli, EXIT_UNKNOWN, "cannot read the kernel file '%s'", path);
    }
    struct torch_module_side sides[2];
    enum status st = torch_module_try(agent, cli->arena, absolute, deadline_ms, sides, &err);
    cli_progress(cli, NULL);
    if (st != ST_OK) {
        return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
    }
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    struct finding_list findings = {0};
    probe_torch_unproven(cli, torch_agent_hello(agent), &findings);
    add_finding(cli, name, &sides[0], &findings);
    if (sides[1].result.forward.verdict != sides[0].result.forward.verdict) {
        add_finding(cli, name, &sides[1], &findings);
    }
    struct report report = {.command = "probe", .schema_version = 1};
    report.lists[report.list_count++] = (struct report_list){.key = "findings",
                                                             .findings = &findings};
    fill_table(cli, name, sides, torch_agent_hello(agent)->proven,
               &report.tables[report.table_count++]);
    report.numbers[report.number_count++] = (struct report_number){"probes", 2};
    probe_torch_notes(cli, torch_agent_hello(agent), &report);
    report.verdict = arena_fmt(cli->arena, "%s: %s", name, session_counts(cli, &findings));
    return session_report(cli, &report, session_exit(&findings));
}
