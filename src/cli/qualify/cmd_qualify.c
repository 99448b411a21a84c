// SPDX-License-Identifier: Apache-2.0
/*
 * assay qualify: a table of stages, run in order, and the verdict over them. Where a stage finds an error that
 * makes the next ones meaningless, the rest is "not run". What was asked for and did not run is never a pass:
 * the exit status is then 2 at best. A user who does not ask for a stage leaves it out by name (--skip, --only).
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sys/stat.h>

#include "base/vec.h"

#include "cli/command.h"
#include "cli/command_list.h"
#include "cli/qualify/qualify.h"
#include "cli/qualify/tables.h"
#include "cli/run/options.h"
#include "cli/run/report.h"
#include "cli/session.h"
#include "cli/trial.h"

struct stage {
    const char *name;
    const char *what;
    bool stops; /* an error here makes later stages meaningless */
    void (*run)(struct qualify *q, struct stage_result *s);
};

static const struct stage stages[] = {
    {"host", "kernel, devices, permissions, limits, firmware", false, qualify_host},
    {"stack", "driver, runtime, libraries, framework, extensions, switches", false, qualify_stack},
    {"device", "a guard that catches planted faults on each device", true, qualify_device},
    {"operators", "matrix products of the CPU's BLAS, guarded and checked", false,
     qualify_operators},
    {"torch", "operators of the user's PyTorch", false, qualify_torch},
    {"evidence", "the libraries that really computed", false, qualify_evidence},
    {"linear-attention", "the gated delta rule, output and gradients", false,
     qualify_linear_attention},
    {"tokenizer", "the tokenizer of the model that training starts from", false, qualify_tokenizer},
    {"training", "a short training on this CPU, held against its known course", true,
     qualify_training},
    {"command", "the user's own training command under supervision", false, qualify_command},
    {"checkpoint", "what was saved, verified", false, qualify_checkpoint},
    {"resume", "training resumed from a checkpoint", false, qualify_resume},
    {"collectives", "operations between GPUs and nodes, exact and timed", false,
     qualify_collectives},
    {"fleet", "the ranks of this job beside each other", false, qualify_fleet},
};

enum {
    FLEET_STAGES = 2 /* the last ones, with --fleet alone */
};

static size_t stage_count(const struct qualify *q)
{
    return ARRAY_LEN(stages) - (q->fleet ? 0 : FLEET_STAGES);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- which stages are asked for ---- */

static enum status mark(const char *option, const char *list, bool *marks, struct err *err)
{
    struct str rest = str_of(list);
    struct str name;
    while (str_cut(&rest, ',', &name)) {
        bool known = false;
        for (size_t i = 0; i < ARRAY_LEN(stages); i++) {
            if (str_is(name, stages[i].name)) {
                marks[i] = known = true;
            }
        }
        if (!known) {
            return err_set(err, ST_USAGE,
                           "--%s: there is no stage '%.*s'; there are host, stack, device, "
                           "operators, torch, evidence, linear-attention, tokenizer, training, "
                           "command, checkpoint, resume, and with --fleet collectives and fleet",
                           option, STR_ARG(name));
        }
    }
    return ST_OK;
}

enum status qualify_check_stages(const char *option, const char *list, struct err *err)
{
    bool marks[ARRAY_LEN(stages)];
    return mark(option, list, marks, err);
}

static enum status choose(const struct cli *cli, bool *ret_asked, struct err *err)
{
    size_t count = ARRAY_LEN(stages) - (cli_flag(cli, "fleet") ? 0 : FLEET_STAGES);
    size_t asked = 0;
    bool only[ARRAY_LEN(stages)] = {false};
    bool skip[ARRAY_LEN(stages)] = {false};
    const char *list;
    for (size_t i = 0; (list = cli_repeat(cli, "only", i)) != NULL; i++) {
        TRY(mark("only", list, only, err));
    }
    for (size_t i = 0; (list = cli_repeat(cli, "skip", i)) != NULL; i++) {
        TRY(mark("skip", list, skip, err));
    }
    for (size_t i = 0; i < ARRAY_LEN(stages); i++) {
        ret_asked[i] = (only[i] || !cli_flag(cli, "only")) && !skip[i];
        asked += ret_asked[i] && i < count;
    }
    if (asked == 0) { /* a verdict over nothing would read as "qualified" */
        return err_set(
            err, ST_USAGE,
            "--only and --skip leave no stage to run (collectives and fleet need --fleet)");
    }
    return ST_OK;
}

/* ---- running them ---- */

static const char *verdict_of(const struct stage_result *s)
{
    if (s->state != STAGE_RAN) {
        return s->state == STAGE_NOT_RUN ? "not run" : "not asked";
    }
    switch (session_exit(&s->findings)) {
    case EXIT_FINE: return "passed";
    case EXIT_UNKNOWN: return "could not tell";
    default: break;
    }
    for (size_t i = 0; i < s->findings.count; i++) {
        if (s->findings.items[i].severity == SEVERITY_ERROR) {
            return "failed";
        }
    }
    return "conditions";
}

static void run_stages(struct qualify *q, const bool *asked, struct stage_result *results)
{
    q->stages = results;
    struct arena *a = q->cli->arena;
    const char *stopped = NULL;
    double began = now_s();
    for (size_t i = 0; i < stage_count(q); i++) {
        struct stage_result *s = &results[i];
        q->stages_done = i;
        *s = (struct stage_result){.health = {.score = 100, .confidence = 1}};
        double start = now_s();
        if (!asked[i]) {
            s->state = STAGE_NOT_ASKED;
            s->reason = "left out by --only or --skip";
            continue;
        }
        if (qualify_fleet_follows(q) && i < ARRAY_LEN(stages) - FLEET_STAGES &&
            stages[i].run != qualify_command) {
            s->state = STAGE_NOT_ASKED;
            s->reason = "the first rank of this machine does it";
            continue;
        }
        if (trial_was_interrupted()) {
            qualify_not_run(s, "interrupted", "run it again");
        } else if (stopped != NULL) {
            qualify_not_run(
                s, arena_fmt(a, "stage %s failed, and without it this means nothing", stopped),
                "mend that first");
        } else {
            cli_progress(q->cli, "stage %s: %s", stages[i].name, stages[i].what);
            stages[i].run(q, s);
            cli_progress(q->cli, NULL);
        }
        if (strcmp(stages[i].name, "evidence") == 0) {
            q->evidence = s;
        }
        const char *verdict = verdict_of(s);
        if (stages[i].stops && strcmp(verdict, "failed") == 0 && stopped == NULL) {
            stopped = stages[i].name;
        }
        if (!q->fleet || q->launcher.rank == 0) {
            cli_note(q->cli, "stage %s: %s (%.1f s, %.1f s in all)", stages[i].name, verdict,
                     now_s() - start, now_s() - began);
        }
    }
}

/* ---- the verdict ---- */

static const char *names_of(const struct qualify *q, const struct stage_result *results,
                            enum stage_state state)
{
    struct arena *a = q->cli->arena;
    struct strbuf out;
    strbuf_init(&out, a, 1000);
    for (size_t i = 0; i < stage_count(q); i++) {
        if (results[i].state == state) {
            strbuf_fmt(&out, "%s%s", out.n != 0 ? ", " : "", stages[i].name);
        }
    }
    return out.n != 0 ? out.p : NULL;
}

/* Switches and expectations that the run bore out: without them this verdict says nothing. */
static const char *conditions_of(struct qualify *q)
{
    struct strbuf out;
    strbuf_init(&out, q->cli->arena, 4000);
    for (size_t i = 0; i < q->switches.count; i++) {
        const struct qualify_switch *s = &q->switches.items[i];
        if (strcmp(s->result, "took effect") == 0 && out.n + 500 < 4000) {
            strbuf_fmt(&out, "%s%.60s %.60s (%.200s)", out.n != 0 ? ", " : "", s->name, s->value,
                       s->evidence);
        }
    }
    return out.n != 0 ? out.p : NULL;
}

/* What was seen goes before what is supposed: of several, the first of the highest confidence. */
static const struct finding *first_of(const struct finding_list *all, enum severity severity)
{
    const struct finding *first = NULL;
    for (size_t i = 0; i < all->count; i++) {
        const struct finding *f = &all->items[i];
        if (f->severity == severity && (first == NULL || f->confidence > first->confidence)) {
            first = f;
        }
    }
    return first;
}

static const char *overall(struct qualify *q, const struct finding_list *all,
                           const struct stage_result *results, int status)
{
    struct arena *a = q->cli->arena;
    const char *missing = names_of(q, results, STAGE_NOT_RUN);
    const char *unasked = names_of(q, results, STAGE_NOT_ASKED);
    const struct finding *error = first_of(all, SEVERITY_ERROR);
    const char *counts = session_counts(q->cli, all);
    const char *conditions = conditions_of(q);
    struct strbuf out;
    strbuf_init(&out, a, 16000);
    if (error != NULL) {
        strbuf_fmt(&out, "not qualified: %s; first: %s", counts, error->title);
        if (error->remedy.count != 0) {
            strbuf_fmt(&out, " (remedy: %s)", error->remedy.items[0]);
        }
    } else if (missing != NULL || first_of(all, SEVERITY_UNKNOWN) != NULL) {
        strbuf_fmt(&out, "could not tell: %s in what was tried", counts);
    } else if (status == EXIT_FAULT || conditions != NULL) {
        strbuf_fmt(&out, "qualified with conditions: %s", counts);
    } else {
        strbuf_fmt(&out, "qualified: %s", counts);
    }
    if (conditions != NULL) {
        strbuf_fmt(&out, "; it holds with %s", conditions);
    }
    if (missing != NULL) {
        strbuf_fmt(&out, "; not run: %s", missing);
    }
    if (unasked != NULL) {
        strbuf_fmt(&out, "; not asked: %s", unasked);
    }
    strbuf_fmt(&out, "; device: %s", q->device);
    return out.p;
}

/* ---- the report ---- */

static const char *summary_of(struct qualify *q, size_t i, const struct stage_result *s)
{
    struct arena *a = q->cli->arena;
    if (s->state == STAGE_RAN) {
        return arena_fmt(a, "%s: %s", s->measured != NULL ? s->measured : stages[i].what,
                         session_counts(q->cli, &s->findings));
    }
    return s->needs != NULL ? arena_fmt(a, "%s; to run it: %s", s->reason, s->needs) : s->reason;
}

static void gather(struct qualify *q, const struct stage_result *results, struct report *report,
                   struct finding_list *all, struct health *health)
{
    size_t ran = 0;
    size_t missing = 0;
    report->stages = arena_array(q->cli->arena, ARRAY_LEN(stages), sizeof *report->stages);
    for (size_t i = 0; i < stage_count(q); i++) {
        const struct stage_result *s = &results[i];
        report->stages[report->stage_count++] = (struct report_stage){
            .name = stages[i].name, .verdict = verdict_of(s), .summary = summary_of(q, i, s)};
        for (size_t f = 0; f < s->findings.count; f++) {
            *VEC_PUSH(q->cli->arena, all) = s->findings.items[f];
        }
        if (s->state == STAGE_RAN) {
            session_add_health(q->cli, health, &s->health);
        }
        ran += s->state == STAGE_RAN;
        missing += s->state == STAGE_NOT_RUN;
    }
    if (ran + missing != 0) { /* what was not run was not told */
        health->confidence *= (double)ran / (double)(ran + missing);
    }
}

/* The qualification stands; what could not be read or kept is told with it. */
static void all_unknown(struct qualify *q, struct finding_list *all, const char *why)
{
    *VEC_PUSH(q->cli->arena, all) = (struct finding){
        .id = "history-not-used",
        .severity = SEVERITY_UNKNOWN,
        .title = "Earlier figures could not be compared with, or these not kept",
        .claim = arena_strdup(q->cli->arena, why),
        .confidence = 1};
}

static int finish(struct qualify *q, const struct stage_result *results)
{
    struct err err = {0};
    struct finding_list all = {0};
    struct health health = {.score = 100};
    struct report report = {.command = "qualify", .schema_version = 1};
    gather(q, results, &report, &all, &health);
    report.lists[report.list_count++] = (struct report_list){.key = "findings", .findings = &all};
    struct report_table changes;
    qualify_tables(q, &report);
    if (qualify_baseline(q, &report, &all, &changes, &err) != ST_OK) {
        return cli_fail(q->cli, EXIT_UNKNOWN, "%s", err.text);
    }
    if (changes.row_count != 0) {
        report.tables[report.table_count++] = changes;
    }
    qualify_judge_limits(q, &all, &health);
    struct report_table history;
    if (qualify_history(q, &all, &history, &err) != ST_OK) {
        all_unknown(q, &all, err.text);
    } else if (history.row_count != 0 && report.table_count < ARRAY_LEN(report.tables)) {
        report.tables[report.table_count++] = history;
    }
    findings_sort(&all);
    int status = session_exit(&all);
    if (status == EXIT_FINE && names_of(q, results, STAGE_NOT_RUN) != NULL) {
        status = EXIT_UNKNOWN;
    }
    session_score(q->cli, &health, &report.score);
    report.notes = q->notes;
    report.verdict = overall(q, &all, results, status);
    if (q->keep) {
        *VEC_PUSH(q->cli->arena, &report.notes) = arena_fmt(
            q->cli->arena, "kept in %s: qualification.json, report.html%s", q->folder,
            q->runs.count != 0 ? ", run folders" : "");
        if (qualify_save(q, &report, status, &err) != ST_OK) {
            cli_fail(q->cli, EXIT_UNKNOWN, "%s", err.text);
            report.notes.count--; /* nothing, or not all of it, is kept */
            status = status == EXIT_FINE ? EXIT_UNKNOWN : status;
        }
    }
    return session_report(q->cli, &report, status);
}

/* ---- starting ---- */

/* A folder stands for the python in it. */
static const char *python_of(struct cli *cli)
{
    const char *named = cli_value(cli, "python", NULL);
    const char *venv = getenv("VIRTUAL_ENV");
    struct stat s;
    if (named == NULL && venv != NULL && venv[0] != '\0') {
        named = venv;
    }
    if (named != NULL && stat(named, &s) == 0 && S_ISDIR(s.st_mode)) {
        return arena_fmt(cli->arena, "%s/bin/python", named);
    }
    return named;
}

static enum status check_options(struct cli *cli, struct err *err)
{
    const char *expect;
    for (size_t i = 0; (expect = cli_repeat(cli, "expect", i)) != NULL; i++) {
        TRY(run_report_check_expect(expect, err));
    }
    if (cli_flag(cli, "timeout") && cli->operands.count == 0) {
        return err_set(err, ST_USAGE, "--timeout limits the training command: give one after --");
    }
    TRY(run_options_check_numbers(cli, err));
    return ST_OK;
}

static int run_qualify(struct cli *cli)
{
    struct err err = {0};
    struct qualify q = {.cli = cli};
    if (qualify_plan(&q, &err) != ST_OK) {
        return cli_fail(cli, EXIT_USAGE, "%s", err.text);
    }
    const char *device = cli_value(cli, "device", "auto");
    bool asked[ARRAY_LEN(stages)];
    struct stage_result *results = arena_array(cli->arena, ARRAY_LEN(stages), sizeof *results);
    q = (struct qualify){
        .cli = cli,
        .limits = q.limits,
        .full = strcmp(cli_value(cli, "level", "quick"), "full") == 0,
        .other_machine = strcmp(cli_value(cli, "root", ""), "") != 0,
        .device_named = strcmp(device, "auto") != 0,
        .device = strcmp(device, "auto") == 0 ? "cpu" : device,
        .python = python_of(cli),
        .model = qualify_find_model(cli),
    };
    q.fleet = cli_flag(cli, "fleet");
    if (choose(cli, asked, &err) != ST_OK || check_options(cli, &err) != ST_OK ||
        qualify_fleet_start(&q, &err) != ST_OK) {
        return cli_fail(cli, EXIT_USAGE, "%s", err.text);
    }
    cli_progress(cli, "reading facts of the machine");
    if (session_knowledge(cli, &q.k, &err) != ST_OK ||
        session_collect(cli, q.k, cli_value(cli, "root", ""), cli_value(cli, "python", NULL),
                        &q.facts, &err) != ST_OK ||
        qualify_history_check(&q, &err) != ST_OK || qualify_open_folder(&q, &err) != ST_OK) {
        return cli_fail(cli, err.status == ST_USAGE ? EXIT_USAGE : EXIT_UNKNOWN, "%s", err.text);
    }
    trial_catch_signals();
    run_stages(&q, asked, results);
    int status = q.fleet && q.launcher.rank != 0 ? qualify_fleet_wait(&q) : finish(&q, results);
    qualify_fleet_release(&q, status);
    qualify_close_folder(&q);
    return status;
}

static const char *const description[] = {
    "Runs the stages of a qualification in order and ends with a verdict: qualified, qualified with "
    "conditions, not qualified, could not tell. host and stack read and judge; device proves the guard on each "
    "device; operators and torch try matrix products of the CPU's BLAS and operators of your PyTorch; evidence "
    "records which library really computed; linear-attention tries the gated delta rule; tokenizer holds that of "
    "the model that training starts from against its other files; training trains a small "
    "model that is compiled in; command runs your own training under supervision; checkpoint and resume verify "
    "what was saved.",
    "A stage that was asked for and could not be run never counts as passed: the exit status is then 2 at best, "
    "and the report says what it would take. --device cpu, --skip and --only say what is not asked for. "
    "No training command, no stage 'command'.",
    "--fleet, under a launcher of parallel jobs: the first rank of each machine does the stages above, all ranks run "
    "the training command if one is given; then collectives are tried between all ranks, what the ranks are and found "
    "is compared, and rank 0 tells one verdict, with whose exit status all ranks end.",
    "--save DIR keeps qualification.json, report.html and the run folders; with a training command they are "
    "always kept. --baseline compares with an earlier qualification.json; given several times, the noise of "
    "figures is measured instead of assumed.",
    "--plan FILE holds all of this in a YAML file: stages, level, training command, expectations, baselines, and "
    "limits of figures; what the command line says goes before it (docs/qualify.md).",
    "--history FILE keeps figures of every qualification under host, device and stack (step time, matrix rates, "
    "bandwidths, launch latency) and warns where one is slower than this machine used to be, by more than it varies.",
    NULL,
};

static const struct example examples[] = {
    {"assay qualify", "judge this machine"},
    {"assay qualify --python /srv/venv --save first -- /srv/venv/bin/python train.py --max_steps 50",
     "the whole: machine, PyTorch, and fifty steps of your own training"},
    {"assay qualify --device cpu --skip torch,evidence,linear-attention",
     "a machine without GPU and without PyTorch"},
    {"assay qualify --python /srv/venv --baseline first/qualification.json",
     "after an update: what got worse?"},
    {"srun --ntasks-per-node=8 assay qualify --fleet --python /srv/venv",
     "all nodes of an allocation, and what lies between them"},
    {"assay qualify --plan qualify.yaml", "what is asked for, kept in a file"},
    {"assay qualify --format junit -o qualify.xml",
     "gate a CI job; exit 0 only when nothing is wrong"},
    {0},
};

static const struct option_spec options[] = {
    {"level", 0, OPTION_VALUE, "quick|full", "quick: minutes; full: all operators of PyTorch"},
    {"device", 0, OPTION_VALUE, "auto|cpu|cuda",
     "What to qualify; auto asks for a GPU (torch calls HIP devices cuda, too)"},
    {"python", 0, OPTION_VALUE, "PATH",
     "Environment with your PyTorch: its folder or its python (VIRTUAL_ENV)"},
    {"model", 0, OPTION_VALUE, "DIR",
     "Model that training starts from: its tokenizer and weights are checked (else the command's)"},
    {"only", 0, OPTION_REPEAT, "STAGES", "Only these stages, separated by commas"},
    {"skip", 0, OPTION_REPEAT, "STAGES", "Not these stages"},
    {"expect", 0, OPTION_REPEAT, "WHAT",
     "no:NAME or yes:NAME: a library or function that must not, or must, be called"},
    {"timeout", 0, OPTION_VALUE, "SECONDS", "Stop the training command after so long"},
    {"save", 0, OPTION_VALUE, "DIR", "Keep qualification.json, report.html and run folders in DIR"},
    {"baseline", 0, OPTION_REPEAT, "FILE", "Compare with this earlier qualification.json"},
    {"fleet", 0, OPTION_FLAG, NULL,
     "Under mpirun, srun or torchrun: also compare the ranks and try collectives between them"},
    {"fleet-wait", 0, OPTION_VALUE, "SECONDS",
     "How long ranks wait for each other, 3600 unless given"},
    {"collective-bytes", 0, OPTION_VALUE, "N", "Largest size of collectives, as in 16M"},
    {"history", 0, OPTION_VALUE, "FILE",
     "Hold figures against this machine's own in FILE (SQLite), and add them to it"},
    {"plan", 0, OPTION_VALUE, "FILE",
     "Take stages, command, expectations and limits of figures from this YAML file"},
    {"root", 0, OPTION_VALUE, "DIR", "Judge the machine whose files are under DIR"},
    REPORT_OPTIONS,
    {0},
};

const struct command command_qualify = {
    .name = "qualify",
    .summary = "Run the stages of a qualification in order and give a verdict",
    .operands = "[COMMAND...]",
    .operand_kind = "file",
    .description = description,
    .examples = examples,
    .options = options,
    .run = run_qualify,
};
