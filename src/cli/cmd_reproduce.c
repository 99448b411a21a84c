// SPDX-License-Identifier: Apache-2.0
/*
 * assay reproduce: from a run folder to the smallest reproducer. Recorded products are replayed alone,
 * in children, under guard and against the reference; what fails is reduced and written as a program.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/tree.h"
#include "base/vec.h"

#include "cli/command.h"
#include "cli/command_list.h"
#include "cli/reproduce_replay.h"
#include "cli/reproducer_make.h"
#include "cli/run_served.h"
#include "cli/session.h"

enum {
    RUN_JSON_MAX = 4 << 20,
    REPLAYS_SHOWN = 40,
    GUILTY_SHOWN = 8,
    WORDS_MAX = 2000
};

#define TIME_DEFAULT_S 120.0
#define TIME_MOST_S    1e6

struct replay_list {
    struct replay *items;
    size_t count;
    size_t capacity;
};

struct job {
    struct cli *cli;
    const char *folder; /* of the run, absolute */
    const char *output; /* of the reproducer */
    bool output_made;   /* by us */
    const struct tree *run;
    struct suspects suspects;
    struct run_served_list served;
    bool served_known;
    double until_s;
    struct replay_guards guards;
    struct replay_list replays;
    struct replay *found; /* the one that failed, or NULL */
    struct finding_list findings;
    struct text_list notes;
};

/* --- what was recorded ------------------------------------------------------------------------- */

static enum status read_run(struct job *j, struct err *err)
{
    static const struct fs live = {.prefix = ""};
    struct arena *a = j->cli->arena;
    char full[PATH_MAX];
    struct str text;
    const char *named = j->cli->operands.items[0];
    if (realpath(named, full) == NULL) {
        return err_set(err, ST_ABSENT, "there is no run folder %s", named);
    }
    j->folder = arena_strdup(a, full);
    const char *path = arena_fmt(a, "%s/run.json", j->folder);
    if (fs_read(&live, a, path, RUN_JSON_MAX, &text, err) != ST_OK) {
        return err_context(err, "%s is no run folder: 'assay run' makes one", named);
    }
    TRY(tree_from_json(a, text, path, TREE_LIMITS_DEFAULT, &j->run, err));
    TRY(suspects_load(a, j->folder, &j->suspects, err));
    j->served_known = run_served_read(a, j->folder, &j->served, NULL) == ST_OK;
    return ST_OK;
}

/* Why there is nothing to do, when there is nothing. */
static enum status check_content(const struct job *j, struct err *err)
{
    const struct suspects *s = &j->suspects;
    if (s->records == 0) {
        return err_set(
            err, ST_ABSENT,
            "%s holds no record that can be read%s%s: no process called a hooked library, "
            "or the program is static or setuid and takes no preloaded library",
            j->folder, s->notes.count != 0 ? ": " : "",
            s->notes.count != 0 ? s->notes.items[0] : "");
    }
    if (s->list.count == 0) {
        return err_set(err, ST_ABSENT,
                       "nothing to replay: %" PRIu64 " calls were recorded, and none of those that "
                       "the record still holds is a matrix product",
                       s->calls);
    }
    return ST_OK;
}

/* The run's forced kernels are part of what is repeated. */
static void take_forced_kernels(struct job *j)
{
    static const char *const families[] = {"blis", "openblas", "mkl", "onednn", "libxsmm"};
    const struct tree *environment = tree_get(j->run, "environment");
    for (size_t i = 0; i < ARRAY_LEN(families); i++) {
        const struct blas_forcing *forcing = blas_forcing_of(families[i]);
        if (forcing == NULL) {
            continue;
        }
        const char *value = tree_text(environment, forcing->variable, NULL);
        if (value == NULL) {
            unsetenv(forcing->variable);
            continue;
        }
        setenv(forcing->variable, value, 1);
        *VEC_PUSH(j->cli->arena, &j->notes) = arena_fmt(
            j->cli->arena, "replayed with the run's %s=%s", forcing->variable, value);
    }
}

/* --- libraries --------------------------------------------------------------------------------- */

/* What to open for a suspect: the file that served it, when it is still that file. */
static enum status library_of(struct job *j, const struct suspect *s, const char **ret_path,
                              struct err *err)
{
    const char *named = cli_value(j->cli, "library", NULL);
    const char *now = NULL;
    if (named != NULL) {
        *ret_path = named;
        return ST_OK;
    }
    if (s->library == NULL) {
        return err_set(err, ST_ABSENT,
                       "the record does not tell which library served %s; name it with --library",
                       s->function);
    }
    if (access(s->library, R_OK) != 0) {
        return err_set(err, ST_ABSENT,
                       "%s, which served %s, is not on this machine any more; --library names "
                       "another",
                       s->library, s->function);
    }
    TRY(run_build_id(j->cli->arena, s->library, &now, err));
    for (size_t i = 0; i < j->served.count; i++) {
        const struct run_served *was = &j->served.items[i];
        if (strcmp(was->path, s->library) == 0 && was->build_id != NULL &&
            (now == NULL || strcmp(was->build_id, now) != 0)) {
            return err_set(err, ST_FORMAT,
                           "%s is another file than the one that was recorded (build id %s then, "
                           "%s now); --library %s tries it all the same",
                           s->library, was->build_id, now != NULL ? now : "none", s->library);
        }
    }
    *ret_path = s->library;
    return ST_OK;
}

/* --- replays ----------------------------------------------------------------------------------- */

static enum status replay_all(struct job *j, struct err *err)
{
    struct cli *cli = j->cli;
    for (size_t i = 0; i < j->suspects.list.count && j->found == NULL; i++) {
        const struct suspect *s = &j->suspects.list.items[i];
        const char *library = NULL;
        struct err why = {0};
        struct replay *r = VEC_PUSH(cli->arena, &j->replays);
        if (library_of(j, s, &library, &why) != ST_OK) {
            if (s->reason == SUSPECT_FAULT) {
                return err_set(err, why.status, "%s", why.text);
            }
            *r = (struct replay){.suspect = s, .why = arena_strdup(cli->arena, why.text)};
            continue;
        }
        const char *progress = arena_fmt(cli->arena, "product %zu of %zu (%s %s)", i + 1,
                                         j->suspects.list.count, s->function,
                                         fault_gemm_text(cli->arena, &s->gemm));
        TRY(replay_run(cli, s, library, &j->guards, j->until_s, progress, r, err));
        if (r->verdict == REPLAY_FAILED) {
            j->found = r;
        }
    }
    return ST_OK;
}

static void add_evidence(struct cli *cli, struct finding *f, const char *source, const char *text)
{
    *VEC_PUSH(cli->arena, &f->evidence) = (struct evidence){.source = source, .text = text};
}

static const char *plain_words(struct cli *cli, const struct replay *r)
{
    if (r->plain_probes == 0) {
        return "without the guard the call could not be run";
    }
    if (r->plain_faulty == 0) {
        return arena_fmt(cli->arena,
                         "without the guard the same call passes in all %" PRIu64
                         " runs: what lies next to its operands in memory decides, not the "
                         "numbers",
                         r->plain_probes);
    }
    return arena_fmt(cli->arena, "without the guard %" PRIu64 " of %" PRIu64 " runs fail too",
                     r->plain_faulty, r->plain_probes);
}

/* Which of the algorithms that were tried failed: the others are a control. */
static const char *guilty_words(struct cli *cli, const struct replay *r)
{
    const struct gemm_result *result = r->run.result;
    struct strbuf out;
    size_t listed = 0;
    strbuf_init(&out, cli->arena, WORDS_MAX);
    for (size_t i = 0; i < result->fault_count && listed < GUILTY_SHOWN; i++) {
        bool known = false;
        for (size_t j = 0; j < i && !known; j++) {
            known = strcmp(result->faults[j].choice.name, result->faults[i].choice.name) == 0;
        }
        if (!known) {
            strbuf_fmt(&out, "%s%s", listed++ != 0 ? "; " : "", result->faults[i].choice.name);
        }
    }
    return out.p;
}

/* The finding of probe, with the story of the run in front. */
static void tell_found(struct job *j)
{
    struct cli *cli = j->cli;
    struct replay *r = j->found;
    const struct suspect *s = r->suspect;
    const struct gemm_source source = gemm_source_of_list(&r->what.probes);
    probe_explain(cli, &source, &r->run, r->kind, r->operand, r->count, &j->findings);
    struct finding *f = &j->findings.items[j->findings.count - 1];
    struct evidence_list after = f->evidence;
    bool cpu = r->what.device_kind == DEVICE_CPU;
    f->evidence = (struct evidence_list){0};
    f->claim = arena_fmt(
        cli->arena,
        "%s %s, recorded in the run (%s), fails when it is replayed alone: %" PRIu64 " of %" PRIu64
        " runs (%s).%s%s",
        s->function, fault_gemm_text(cli->arena, &s->gemm), suspect_reason_name(s->reason),
        r->run.result->faulty, r->run.result->probes,
        cpu ? "both sides, all entry points in turn, two kinds of values"
            : "both sides, the recorded algorithm and others",
        r->as_recorded ? " It is the fault that was recorded: the same operand, the same direction."
        : s->story != NULL ? " The run recorded another fault of the same call."
                           : "",
        r->same_function ? ""
        : cpu            ? " It came through another entry point than the recorded one."
                         : " It came by another algorithm than the recorded one.");
    if (s->story != NULL) {
        add_evidence(cli, f, s->record,
                     arena_fmt(cli->arena, "in the run: %s %s", s->function, s->story));
    }
    add_evidence(cli, f, s->record,
                 arena_fmt(cli->arena,
                           "the record holds %" PRIu64 " calls of this product, served "
                           "by %s",
                           s->calls, s->library != NULL ? s->library : "a library not named"));
    add_evidence(cli, f, "replay", plain_words(cli, r));
    add_evidence(
        cli, f, "replay",
        arena_fmt(cli->arena, "the runs that failed went through: %s", guilty_words(cli, r)));
    for (size_t i = 0; i < after.count; i++) {
        *VEC_PUSH(cli->arena, &f->evidence) = after.items[i];
    }
    r->run.smallest.claim = f->claim;
}

static const char *not_found_text(struct job *j, size_t passed, size_t others, bool device)
{
    return arena_fmt(
        j->cli->arena,
        "%zu recorded products were replayed alone and passed, with their operands at holes on both "
        "sides, %s%s. For those products this excludes an access outside their operands and wrong "
        "numbers on this machine. What remains: products that were not tried, values, threads and "
        "streams of the run, memory that other code freed or overwrote, work that is no matrix "
        "product.",
        passed,
        device ? "by the recorded algorithm and by up to 16 others that the library offers"
               : "through every entry point, with two kinds of values, in one thread",
        others != 0
            ? arena_fmt(j->cli->arena, "; %zu more were not tried or could not be told", others)
            : "");
}

static void tell_not_found(struct job *j)
{
    struct cli *cli = j->cli;
    size_t passed = 0;
    struct finding *f = VEC_PUSH(cli->arena, &j->findings);
    *f = (struct finding){.id = "not-reproduced", .severity = SEVERITY_UNKNOWN, .confidence = 1};
    bool device = false;
    for (size_t i = 0; i < j->replays.count; i++) {
        const struct replay *r = &j->replays.items[i];
        passed += r->verdict == REPLAY_PASSED;
        device = device || r->what.device_kind != DEVICE_CPU;
    }
    f->title = j->suspects.faulted ? "the fault of the run does not come in isolation"
                                   : "no recorded product fails in isolation";
    f->claim = not_found_text(j, passed, j->replays.count - passed, device);
    if (passed == 0) {
        f->title = "no recorded product could be replayed";
        f->claim = "Nothing was tried, so nothing is excluded; the table below says why.";
    }
    *VEC_PUSH(cli->arena, &f->remedy) =
        "assay run --guard --quarantine -- COMMAND stops where the program itself reads freed memory";
    *VEC_PUSH(cli->arena, &f->remedy) =
        "assay reproduce RUN --time SECONDS tries more of the recorded products";
}

/* --- switches ---------------------------------------------------------------------------------- */

/* Variables of the run that should have kept it away from a library. What each does:
 * knowledge/switches.yaml. */
static const struct {
    const char *variable, *value, *family;
} leaving[] = {
    {"TORCH_BLAS_PREFER_HIPBLASLT", "0", "hipblaslt"},
    {"TORCH_BLAS_PREFER_CUBLASLT", "0", "cublaslt"},
    {"ROCBLAS_USE_HIPBLASLT", "0", "hipblaslt"},
    {"DISABLE_ADDMM_HIP_LT", "1", "hipblaslt"},
    {"DISABLE_ADDMM_CUDA_LT", "1", "cublaslt"},
};

static void tell_switches(struct job *j)
{
    struct cli *cli = j->cli;
    const struct tree *environment = tree_get(j->run, "environment");
    for (size_t i = 0; i < ARRAY_LEN(leaving); i++) {
        uint64_t calls = 0;
        for (size_t s = 0; s < j->suspects.list.count; s++) {
            const struct suspect *suspect = &j->suspects.list.items[s];
            calls += strcmp(suspect->family, leaving[i].family) == 0 ? suspect->calls : 0;
        }
        const char *value = tree_text(environment, leaving[i].variable, NULL);
        if (value == NULL || strcmp(value, leaving[i].value) != 0 || calls == 0) {
            continue;
        }
        struct finding *f = VEC_PUSH(cli->arena, &j->findings);
        *f = (struct finding){
            .id = "switch-not-in-effect", .severity = SEVERITY_NOTE, .confidence = 1};
        f->title = arena_fmt(cli->arena, "%s=%s did not keep the run away from %s",
                             leaving[i].variable, value, leaving[i].family);
        f->claim = arena_fmt(cli->arena,
                             "The variable was set for the run, and %" PRIu64
                             " products of %s are in "
                             "its record. One switch is no control: others reach the library by "
                             "another way.",
                             calls, leaving[i].family);
        add_evidence(cli, f, "run.json",
                     arena_fmt(cli->arena, "%s=%s", leaving[i].variable, value));
    }
}

/* --- the report -------------------------------------------------------------------------------- */

static void make_table(struct job *j, struct report_table *ret_table)
{
    static const struct report_column columns[] = {
        {"function", "function", 0}, {"product", "product", 0}, {"reason", "why", 0},
        {"calls", "calls", 0},       {"runs", "runs", 0},       {"faulty", "at fault", 0},
        {"verdict", "alone", 0},     {"note", "because", 0},    {"library", NULL, 0},
        {"seconds", NULL, 3},
    };
    struct arena *a = j->cli->arena;
    size_t shown = j->replays.count < REPLAYS_SHOWN ? j->replays.count : REPLAYS_SHOWN;
    struct value *cells = arena_array(a, shown * ARRAY_LEN(columns) + 1, sizeof *cells);
    struct value *v = cells;
    const struct value none = {.kind = VALUE_NULL};
    for (size_t i = 0; i < shown; i++) {
        const struct replay *r = &j->replays.items[i];
        const struct suspect *s = r->suspect;
        bool ran = r->run.result != NULL;
        *v++ = value_string(s->function);
        *v++ = value_string(fault_gemm_text(a, &s->gemm));
        *v++ = value_string(suspect_reason_name(s->reason));
        *v++ = value_int((int64_t)s->calls);
        *v++ = ran ? value_int((int64_t)r->run.result->probes) : none;
        *v++ = ran ? value_int((int64_t)r->run.result->faulty) : none;
        *v++ = value_string(replay_verdict_name(r->verdict));
        *v++ = r->why != NULL ? value_string(r->why) : none;
        *v++ = s->library != NULL ? value_string(s->library) : none;
        *v++ = value_real(r->seconds);
    }
    if (shown < j->replays.count) {
        *VEC_PUSH(a, &j->notes) = arena_fmt(a, "%zu more products are not listed",
                                            j->replays.count - shown);
    }
    *ret_table = (struct report_table){.key = "replays",
                                       .heading = "replayed alone:",
                                       .columns = columns,
                                       .column_count = ARRAY_LEN(columns),
                                       .cells = cells,
                                       .row_count = shown};
}

static enum status write_reproducer(struct job *j, struct err *err)
{
    struct arena *a = j->cli->arena;
    const struct replay *replay = j->found;
    const struct knowledge *k;
    struct facts *facts = NULL;
    const char *path = arena_fmt(a, "%s/facts.json", j->folder);
    if (!replay->run.smallest.found) {
        *VEC_PUSH(a, &j->notes) = "no reproducer was written: the fault did not come a second time";
        return ST_OK;
    }
    if (access(path, R_OK) == 0) {
        TRY(session_knowledge(j->cli, &k, err));
        TRY(session_facts_file(j->cli, k, path, &facts, err));
    }
    struct reproducer r = {
        .target = &replay->run.target,
        .identity = &replay->run.result->identity,
        .diagnosis = &replay->run.smallest.diagnosis,
        .title = replay->run.smallest.title,
        .claim = replay->run.smallest.claim,
    };
    *VEC_PUSH(a, &r.tried) = (struct reproducer_line){"the recorded call",
                                                      plain_words(j->cli, replay)};
    *VEC_PUSH(a, &r.tried) = (struct reproducer_line){"the runs that failed went through",
                                                      guilty_words(j->cli, replay)};
    for (size_t i = 0; i < replay->suspect->layout.count; i++) {
        *VEC_PUSH(a, &r.tried) = (struct reproducer_line){"in the run",
                                                          replay->suspect->layout.items[i]};
    }
    for (size_t i = 0; i < j->findings.count; i++) {
        if (strcmp(j->findings.items[i].id, "switch-not-in-effect") == 0) {
            *VEC_PUSH(a, &r.tried) = (struct reproducer_line){"switch", j->findings.items[i].title};
        }
    }
    struct err why = {0};
    enum status st = reproducer_make(j->cli, &r, facts, j->output, &j->notes, &why);
    if (st == ST_UNSUPPORTED) {
        *VEC_PUSH(a, &j->notes) = arena_fmt(a, "no reproducer was written: %s", why.text);
        return ST_OK;
    }
    return st == ST_OK ? ST_OK : err_set(err, st, "%s", why.text);
}

static int show(struct job *j)
{
    struct report report = {.command = "reproduce", .schema_version = 1, .notes = j->notes};
    report.lists[report.list_count++] = (struct report_list){.key = "findings",
                                                             .findings = &j->findings};
    make_table(j, &report.tables[report.table_count++]);
    report.notes = j->notes;
    report.numbers[report.number_count++] = (struct report_number){"products",
                                                                   (int64_t)j->suspects.list.count};
    report.numbers[report.number_count++] = (struct report_number){"tried",
                                                                   (int64_t)j->replays.count};
    report.verdict = j->found != NULL
                         ? arena_fmt(j->cli->arena, "reproduced: %s", j->findings.items[0].title)
                         : arena_fmt(j->cli->arena, "not reproduced: %s",
                                     j->findings.items[0].title);
    return session_report(j->cli, &report, j->found != NULL ? EXIT_FAULT : EXIT_UNKNOWN);
}

/* --- the command ------------------------------------------------------------------------------- */

static enum status read_options(struct job *j, struct err *err)
{
    struct cli *cli = j->cli;
    double limit = TIME_DEFAULT_S;
    const char *text = cli_value(cli, "time", NULL);
    if (cli->operands.count != 1) {
        return err_set(err, ST_USAGE, "reproduce takes one run folder: assay reproduce RUN");
    }
    if (text != NULL && (str_to_double(str_of(text), &limit) != ST_OK || !(limit >= 1) ||
                         !(limit <= TIME_MOST_S))) {
        return err_set(err, ST_USAGE, "--time takes seconds, at least 1, not '%s'", text);
    }
    j->until_s = replay_now_s() + limit;
    return ST_OK;
}

static enum status reproduce(struct job *j, struct err *err)
{
    TRY(read_options(j, err));
    TRY(read_run(j, err));
    TRY(check_content(j, err));
    j->output = cli_value(j->cli, "reproducer", NULL);
    if (j->output == NULL) {
        j->output = arena_fmt(j->cli->arena, "%s/reproducer", j->folder);
    }
    TRY(reproducer_folder(j->output, &j->output_made, err));
    for (size_t i = 0; i < j->suspects.notes.count; i++) {
        *VEC_PUSH(j->cli->arena, &j->notes) = j->suspects.notes.items[i];
    }
    if (!j->served_known) {
        *VEC_PUSH(j->cli->arena, &j->notes) =
            "the run kept no build ids: whether its libraries are still the same files cannot be told";
    }
    take_forced_kernels(j);
    TRY(replay_all(j, err));
    if (j->found != NULL) {
        tell_found(j);
    } else {
        tell_not_found(j);
    }
    tell_switches(j);
    return j->found != NULL ? write_reproducer(j, err) : ST_OK;
}

static int run_reproduce(struct cli *cli)
{
    struct err err = {0};
    struct job j = {.cli = cli};
    enum status st = reproduce(&j, &err);
    if (j.output_made) {
        rmdir(j.output); /* fails where something was written */
    }
    if (st != ST_OK) {
        return cli_fail(cli, st == ST_USAGE ? EXIT_USAGE : EXIT_UNKNOWN, "%s", err.text);
    }
    return show(&j);
}

static const char *const description[] = {
    "Takes the folder of 'assay run' and looks for a matrix product that fails alone: first the one that "
    "a fault happened in, then calls that had not returned, then every distinct product of the record, "
    "the most frequent first, until --time is up. Each is replayed in a child process on the library "
    "that served it, with its operands at holes on both sides and its result compared with a float64 "
    "reference.",
    "What fails is made as small and plain as it still fails and written as a folder: reproducer.c (at "
    "most 100 lines, libc only), report.md for the issue forms of ROCm and PyTorch, shapes.txt for "
    "'assay probe'. The program is built and run before anything is said of it, against the guilty "
    "library and against controls that should pass.",
    "A fault that needs other threads, freed memory or the values of the run does not come in isolation. "
    "That is said, with what was tried and what it excludes.",
    "Exit status: 1 reproduced; 2 not reproduced, or nothing could be replayed.",
    NULL,
};

static const struct example examples[] = {
    {"assay reproduce assay-run-20261129T180000Z-4711", "from a crashed run to a C program"},
    {"assay reproduce RUN --reproducer /tmp/for-the-issue --time 600",
     "name the folder, try for ten minutes"},
    {"assay reproduce RUN --library /opt/candidate/libblas.so.3",
     "does another build of the library fail in the same way?"},
    {0},
};

static const struct option_spec options[] = {
    {"reproducer", 0, OPTION_VALUE, "DIR", "Folder of the reproducer (default: RUN/reproducer)"},
    {"library", 0, OPTION_VALUE, "PATH",
     "Replay on this library in place of the one that served the run"},
    {"time", 0, OPTION_VALUE, "SECONDS", "Begin no further replay after so long (default: 120)"},
    REPORT_OPTIONS,
    {0},
};

const struct command command_reproduce = {
    .name = "reproduce",
    .summary = "Reduce a fault that a run recorded to the smallest program that shows it",
    .operands = "RUN",
    .operand_kind = "dir",
    .description = description,
    .examples = examples,
    .options = options,
    .run = run_reproduce,
};
