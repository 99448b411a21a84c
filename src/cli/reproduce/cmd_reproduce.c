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
#include "base/vec.h"

#include "cli/command.h"
#include "cli/command_list.h"
#include "cli/reproduce/job.h"
#include "cli/reproduce/reproducer_make.h"
#include "cli/run/story.h"
#include "cli/session.h"

enum {
    RUN_JSON_MAX = 4 << 20
};

#define TIME_DEFAULT_S 120.0
#define TIME_MOST_S    1e6

/* --- what was recorded ------------------------------------------------------------------------- */

static enum status read_run(struct reproduce_job *j, struct err *err)
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

/* What the run's records say broke it; NULL when nothing did. */
static const char *fault_of_run(const struct reproduce_job *j)
{
    struct run_story story;
    if (run_story_load(j->cli->arena, j->folder, &story, NULL) != ST_OK) {
        return NULL;
    }
    for (size_t i = 0; i < story.findings.count; i++) {
        if (story.findings.items[i].severity == SEVERITY_ERROR) {
            return story.findings.items[i].title;
        }
    }
    return NULL;
}

/* Why there is nothing to do, when there is nothing. */
static enum status check_content(const struct reproduce_job *j, struct err *err)
{
    const struct suspects *s = &j->suspects;
    if (s->records == 0 && s->logged == 0) {
        return err_set(
            err, ST_ABSENT,
            "%s holds no record that can be read%s%s: no process called a hooked library, "
            "or the program is static or setuid and takes no preloaded library",
            j->folder, s->notes.count != 0 ? ": " : "",
            s->notes.count != 0 ? s->notes.items[0] : "");
    }
    const char *fault = s->list.count == 0 && s->faulted ? fault_of_run(j) : NULL;
    if (fault != NULL) {
        return err_set(
            err, ST_ABSENT,
            "nothing to replay: %s. That is no matrix product of a library, and only those "
            "are replayed; 'assay report %s' tells what is known of it, and assay run "
            "--guard --serialize -- COMMAND repeats it",
            fault, j->cli->operands.items[0]);
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
static void take_forced_kernels(struct reproduce_job *j)
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
        } else {
            setenv(forcing->variable, value, 1);
        }
    }
}

/* --- libraries --------------------------------------------------------------------------------- */

/* What to open for a suspect: the file that served it, when it is still that file. */
static enum status library_of(struct reproduce_job *j, const struct suspect *s,
                              const char **ret_path, struct err *err)
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

static enum status replay_all(struct reproduce_job *j, struct err *err)
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

/* --- the report -------------------------------------------------------------------------------- */

/* Of the machine that the run was made on, where the run holds them. */
static struct facts *facts_of_run(struct reproduce_job *j)
{
    const struct knowledge *k;
    struct facts *facts = NULL;
    struct err err = {0};
    const char *path = arena_fmt(j->cli->arena, "%s/facts.json", j->folder);
    if (access(path, R_OK) != 0) {
        return NULL;
    }
    if (session_knowledge(j->cli, &k, &err) != ST_OK ||
        session_facts_file(j->cli, k, path, &facts, &err) != ST_OK) {
        *VEC_PUSH(j->cli->arena, &j->notes) = arena_fmt(
            j->cli->arena, "the report has this machine's versions: %s", err.text);
        return NULL;
    }
    return facts;
}

static void write_reproducer(struct reproduce_job *j)
{
    struct arena *a = j->cli->arena;
    const struct replay *replay = j->found;
    if (!replay->run.smallest.found) {
        *VEC_PUSH(a, &j->notes) = "no reproducer was written: the fault did not come a second time";
        return;
    }
    struct reproducer r = {
        .target = &replay->run.target,
        .identity = &replay->run.result->identity,
        .diagnosis = &replay->run.smallest.diagnosis,
        .title = replay->run.smallest.title,
        .claim = replay->run.smallest.claim,
    };
    *VEC_PUSH(a, &r.tried) = (struct reproducer_line){"the recorded call",
                                                      reproduce_plain_words(j->cli, replay)};
    *VEC_PUSH(a, &r.tried) = (struct reproducer_line){"the runs that failed went through",
                                                      reproduce_guilty_words(j->cli, replay)};
    for (size_t i = 0; i < replay->suspect->layout.count; i++) {
        *VEC_PUSH(a, &r.tried) = (struct reproducer_line){"in the run",
                                                          replay->suspect->layout.items[i]};
    }
    for (size_t i = 0; i < j->findings.count; i++) {
        if (strcmp(j->findings.items[i].id, "switch-not-in-effect") == 0) {
            *VEC_PUSH(a, &r.tried) = (struct reproducer_line){"switch", j->findings.items[i].title};
        }
    }
    reproducer_make(j->cli, &r, facts_of_run(j), j->output, &j->notes);
}

static int show(struct reproduce_job *j)
{
    struct report report = {.command = "reproduce", .schema_version = 1, .notes = j->notes};
    report.lists[report.list_count++] = (struct report_list){.key = "findings",
                                                             .findings = &j->findings};
    reproduce_table(j, &report.tables[report.table_count++]);
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

static enum status read_options(struct reproduce_job *j, struct err *err)
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

static enum status reproduce(struct reproduce_job *j, struct err *err)
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
    reproduce_tell(j);
    if (j->found != NULL) {
        write_reproducer(j);
    }
    return ST_OK;
}

static int run_reproduce(struct cli *cli)
{
    struct err err = {0};
    struct reproduce_job j = {.cli = cli};
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
