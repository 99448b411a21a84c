// SPDX-License-Identifier: Apache-2.0
/*
 * assay qualify: a table of stages, run in order. A stage is listed when it works; later work adds
 * rows. Where a stage finds an error that makes the next ones meaningless, the rest is "not run".
 */
#include <string.h>

#include "cli/command.h"
#include "cli/command_list.h"
#include "cli/probe.h"
#include "cli/session.h"
#include "cli/stage_training.h"
#include "diagnosis/judge.h"

/* A BLAS that is wrong or strays costs as much as a device that may not be opened. */
enum {
    OPERATORS_WEIGHT = 40,
    TRAINING_WEIGHT = 40
};

struct qualify {
    struct cli *cli;
    const struct knowledge *k;
    struct facts *facts;
    const char *measured; /* what the stage says of itself beside its findings; NULL: nothing */
    bool trained;
};

struct stage {
    const char *name;
    const char *what;
    bool stops; /* an error here makes later stages meaningless */
    /* NULL when it ran, else why it did not. */
    const char *(*run)(struct qualify *q, struct finding_list *findings, struct health *ret_health);
};

static const char *run_host(struct qualify *q, struct finding_list *findings,
                            struct health *ret_health)
{
    doctor_judge(q->cli->arena, q->k, q->facts, "host", findings, ret_health);
    return NULL;
}

static const char *run_stack(struct qualify *q, struct finding_list *findings,
                             struct health *ret_health)
{
    doctor_judge(q->cli->arena, q->k, q->facts, "stack", findings, ret_health);
    return NULL;
}

/* Points for a stage that is sound or not. */
static void judge_whole(struct qualify *q, const char *id, int weight,
                        const struct finding_list *findings, struct health *ret_health)
{
    if (session_exit(findings) == EXIT_FAULT) {
        *VEC_PUSH(q->cli->arena, ret_health) = (struct health_row){
            .id = id, .severity = SEVERITY_ERROR, .weight = weight, .lost = weight};
        ret_health->score = 100 - weight;
        ret_health->confidence = 1;
    }
}

/* The BLAS that programs of this machine get, under guard and against a reference. */
static const char *run_operators(struct qualify *q, struct finding_list *findings,
                                 struct health *ret_health)
{
    struct err err = {0};
    uint64_t probes = 0;
    if (strcmp(cli_value(q->cli, "root", ""), "") != 0) {
        return "only this machine's own libraries can be tried, and --root names another";
    }
    if (probe_quick(q->cli, findings, &probes, &err) != ST_OK) {
        return arena_strdup(q->cli->arena, err.text);
    }
    judge_whole(q, "operators", OPERATORS_WEIGHT, findings, ret_health);
    return probes != 0 ? NULL : "no BLAS library is installed here (libblas.so.3)";
}

/* A short training whose course is known. */
static const char *run_training(struct qualify *q, struct finding_list *findings,
                                struct health *ret_health)
{
    if (strcmp(cli_value(q->cli, "root", ""), "") != 0) {
        return "only this machine can train, and --root names another";
    }
    const char *why = stage_training(q->cli, findings, &q->measured);
    q->trained = why == NULL;
    if (why != NULL) { /* never a pass */
        *VEC_PUSH(q->cli->arena,
                  findings) = (struct finding){.id = "training-not-tried",
                                               .severity = SEVERITY_UNKNOWN,
                                               .title = "The short training could not be tried",
                                               .claim = why};
    }
    judge_whole(q, "training", TRAINING_WEIGHT, findings, ret_health);
    return NULL;
}

static const struct stage stages[] = {
    {"host", "kernel, devices, permissions, limits, firmware", false, run_host},
    {"stack", "driver, runtime, libraries, framework, extensions, switches", false, run_stack},
    {"operators", "matrix products of the CPU's BLAS, guarded and checked", false, run_operators},
    {"training", "a short training on this CPU, held against its known course", false,
     run_training},
};

static const char *verdict_of(const struct finding_list *findings)
{
    switch (session_exit(findings)) {
    case EXIT_FINE: return "passed";
    case EXIT_UNKNOWN: return "could not tell";
    default: break;
    }
    for (size_t i = 0; i < findings->count; i++) {
        if (findings->items[i].severity == SEVERITY_ERROR) {
            return "failed";
        }
    }
    return "conditions";
}

static void append(struct cli *cli, struct finding_list *all, const struct finding_list *some)
{
    for (size_t i = 0; i < some->count; i++) {
        *VEC_PUSH(cli->arena, all) = some->items[i];
    }
}

static const char *overall(struct cli *cli, const struct finding_list *all, bool trained)
{
    const char *counts = session_counts(cli, all);
    for (size_t i = 0; i < all->count; i++) {
        if (all->items[i].severity == SEVERITY_ERROR) {
            return arena_fmt(cli->arena, "not qualified: %s", counts);
        }
    }
    switch (session_exit(all)) {
    case EXIT_FAULT: return arena_fmt(cli->arena, "qualified with conditions: %s", counts);
    case EXIT_UNKNOWN: return arena_fmt(cli->arena, "could not tell: %s", counts);
    default:
        return arena_fmt(cli->arena, "what was tried is fit: %s; %s", counts,
                         trained ? "the short training ran on the CPU alone"
                                 : "no training was run");
    }
}

/* All stages, or those of --only. */
static bool is_wanted(const struct cli *cli, const char *name)
{
    const char *only;
    for (size_t i = 0; (only = cli_repeat(cli, "only", i)) != NULL; i++) {
        if (strcmp(only, name) == 0) {
            return true;
        }
    }
    return cli_repeat(cli, "only", 0) == NULL;
}

static int run_qualify(struct cli *cli)
{
    struct err err = {0};
    struct qualify q = {.cli = cli};
    if (session_knowledge(cli, &q.k, &err) != ST_OK ||
        session_collect(cli, q.k, cli_value(cli, "root", ""), cli_value(cli, "python", NULL),
                        &q.facts, &err) != ST_OK) {
        return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
    }
    struct finding_list all = {0};
    struct health health = {.score = 100};
    struct report report = {.command = "qualify", .schema_version = 1};
    report.stages = arena_array(cli->arena, ARRAY_LEN(stages), sizeof *report.stages);
    bool stopped = false;
    for (size_t i = 0; i < ARRAY_LEN(stages); i++) {
        struct report_stage *row = &report.stages[report.stage_count++];
        *row = (struct report_stage){.name = stages[i].name, .verdict = "not run"};
        if (stopped) {
            row->summary = "an earlier stage failed";
            continue;
        }
        if (!is_wanted(cli, stages[i].name)) {
            row->summary = "--only names others";
            continue;
        }
        cli_progress(cli, "stage %s: %s", stages[i].name, stages[i].what);
        struct finding_list found = {0};
        struct health part = {.score = 100};
        q.measured = NULL;
        const char *skipped = stages[i].run(&q, &found, &part);
        if (skipped != NULL) {
            row->summary = skipped;
            continue;
        }
        row->verdict = verdict_of(&found);
        row->summary = arena_fmt(cli->arena, "%s: %s",
                                 q.measured != NULL ? q.measured : stages[i].what,
                                 session_counts(cli, &found));
        stopped = stages[i].stops && strcmp(row->verdict, "failed") == 0;
        append(cli, &all, &found);
        session_add_health(cli, &health, &part);
    }
    findings_sort(&all);
    report.lists[report.list_count++] = (struct report_list){.key = "findings", .findings = &all};
    report.verdict = overall(cli, &all, q.trained);
    session_score(cli, &health, &report.score);
    return session_report(cli, &report, session_exit(&all));
}

static const char *const description[] = {
    "Runs the stages of a qualification in order and ends with a verdict: qualified, qualified with "
    "conditions, not qualified, could not tell. The stages that exist are host and stack, which "
    "read and judge; operators, which tries matrix products of the BLAS library that programs here "
    "get, in child processes; and training, which trains a small model that is compiled in for 100 updates on "
    "the CPU, saves it and goes on from the checkpoint. A check that was skipped or could not be read never "
    "counts as passed.",
    NULL,
};

static const struct example examples[] = {
    {"assay qualify", "judge this machine"},
    {"assay qualify --format junit -o qualify.xml",
     "gate a CI job; exit 0 only when nothing is wrong"},
    {"assay qualify --only training",
     "train a small model here and hold it against its known course"},
    {0},
};

static const struct option_spec options[] = {
    {"python", 0, OPTION_VALUE, "PATH", "Environment to judge: its folder or its python"},
    {"root", 0, OPTION_VALUE, "DIR", "Judge the machine whose files are under DIR"},
    {"only", 0, OPTION_REPEAT, "host|stack|operators|training",
     "Run this stage alone; may be given again"},
    REPORT_OPTIONS,
    {0},
};

const struct command command_qualify = {
    .name = "qualify",
    .summary = "Run the stages of a qualification in order and give a verdict",
    .operands = "",
    .operand_kind = "none",
    .description = description,
    .examples = examples,
    .options = options,
    .run = run_qualify,
};
