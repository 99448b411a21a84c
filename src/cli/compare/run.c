// SPDX-License-Identifier: Apache-2.0
/* See compare_run.h. */
#include "cli/compare/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/tree.h"
#include "base/vec.h"

#include "cli/run/report.h"
#include "cli/run/served.h"
#include "cli/run/story.h"
#include "cli/session.h"
#include "diagnosis/causes.h"
#include "diagnosis/log_read.h"

enum {
    RUN_JSON_MAX = 16 << 20,
    LIBRARIES_MAX = 3,
    DIFFERENCES_MAX = 16
};

static const struct fs live = {.prefix = ""};

static double number_of(const struct tree *t, const char *key)
{
    double v;
    return str_to_double(str_of(tree_text(t, key, "")), &v) == ST_OK ? v : NAN;
}

/* ---- set-up ---- */

static int64_t visible_devices(const struct tree *run)
{
    static const char *const names[] = {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                        "CUDA_VISIBLE_DEVICES"};
    const struct tree *environment = tree_get(run, "environment");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *text = tree_text(environment, names[i], NULL);
        if (text != NULL && *text != '\0') {
            int64_t n = 1;
            for (const char *p = text; *p != '\0'; p++) {
                n += *p == ',';
            }
            return n;
        }
    }
    return 0;
}

static enum status gpu_count(struct cli *cli, const struct knowledge *k, struct compare_run *r,
                             struct err *err)
{
    struct arena *a = cli->arena;
    const char *path = arena_fmt(a, "%s/facts.json", r->path);
    int64_t count = visible_devices(r->run);
    if (count == 0 && fs_exists(&live, a, path)) {
        struct facts *facts;
        TRY(session_facts_file(cli, k, path, &facts, err));
        count = facts_get_int(facts, "gpu.count", 0);
    }
    if (count > 0) {
        setup_add(a, &r->setup, "num_gpus", arena_fmt(a, "%lld", (long long)count), true);
    }
    return ST_OK;
}

static void add_setup(struct arena *a, struct compare_run *r)
{
    const struct tree *configs = tree_get(r->run, "configuration");
    for (const struct tree *c = configs != NULL ? configs->child : NULL; c != NULL; c = c->next) {
        struct str text = str_of(c->value.kind == VALUE_STRING ? c->value.string : c->text);
        if (!str_ends(str_of(c->key), ".toml") &&
            setup_add_config(a, &r->setup, text, c->key, NULL) != ST_OK) {
            continue; /* run.json says so among the inputs */
        }
    }
    struct text_list argv = {0};
    const struct tree *command = tree_get(r->run, "command");
    for (const struct tree *t = command != NULL ? command->child : NULL; t != NULL; t = t->next) {
        *VEC_PUSH(a, &argv) = t->text;
    }
    setup_add_command(a, &r->setup, &argv);
}

/* ---- how it ended ---- */

static void take_ending(struct arena *a, struct compare_run *r)
{
    const char *ending = tree_text(r->run, "ending", "unknown");
    const char *status = tree_text(r->run, "status", "?");
    r->end_known = strcmp(ending, "running") != 0 && strcmp(ending, "unknown") != 0;
    bool exited = strcmp(ending, "exited") == 0;
    r->failed = !(exited && strcmp(status, "0") == 0);
    if (!r->failed) {
        r->ending = "completed";
    } else if (exited) {
        r->ending = arena_fmt(a, "exit %s", status);
    } else if (strcmp(ending, "signal") == 0) {
        r->ending = tree_text(r->run, "signal", "signal");
    } else {
        r->ending = strcmp(ending, "running") == 0 ? "not ended" : ending;
    }
    r->seconds = number_of(r->run, "seconds");
    r->peak_bytes = number_of(r->run, "peak_memory_bytes");
}

static void take_cause(struct compare_run *r, const struct finding_list *causes)
{
    if (causes->count > 0) {
        r->fault = causes->items[0].id;
        r->fault_title = causes->items[0].title;
        r->fault_evidence = causes->items[0].evidence;
        r->failed = true;
    }
}

/* Of the file when the run ended; NULL where the run did not end, or the file has none. */
static const char *build_id_of(const struct run_served_list *served, const char *path)
{
    for (size_t i = 0; i < served->count; i++) {
        if (strcmp(served->items[i].path, path) == 0) {
            return served->items[i].build_id;
        }
    }
    return NULL;
}

static void take_libraries(struct arena *a, struct compare_run *r, const struct report_table *t)
{
    struct run_served_list served = {0};
    if (run_served_read(a, r->path, &served, NULL) != ST_OK) {
        served.count = 0; /* a run that did not end: paths alone tell its libraries apart */
    }
    for (size_t i = 0; i < t->row_count && r->served.count < LIBRARIES_MAX; i++) {
        const struct value *row = &t->cells[i * t->column_count];
        const char *path = row[RUN_STORY_PATH].string;
        library_files_add(
            a, &r->served,
            (struct library_file){.path = path[0] != '\0' ? path : row[RUN_STORY_LIBRARY].string,
                                  .build_id = build_id_of(&served, path)});
    }
}

void compare_tell_libraries(struct arena *a, struct compare_route *routes, size_t count)
{
    struct library_files all = {0};
    for (size_t i = 0; i < count; i++) {
        for (size_t n = 0; n < routes[i].count; n++) {
            for (size_t l = 0; l < routes[i].items[n].served.count; l++) {
                library_files_add(a, &all, routes[i].items[n].served.items[l]);
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t n = 0; n < routes[i].count; n++) {
            struct compare_run *r = &routes[i].items[n];
            struct strbuf out;
            strbuf_init(&out, a, 4000);
            for (size_t l = 0; l < r->served.count; l++) {
                strbuf_fmt(&out, "%s%s", l > 0 ? " " : "",
                           library_name(a, r->served.items[l], &all));
            }
            r->libraries = out.n != 0 ? out.p : NULL;
        }
    }
}

static void take_expectations(struct compare_run *r, const struct finding_list *checks)
{
    for (size_t i = 0; i < checks->count; i++) {
        const char *id = checks->items[i].id;
        r->expect_met += strcmp(id, "expectation-met") == 0;
        r->expect_broken += strcmp(id, "expectation-broken") == 0;
        r->expect_untold += strcmp(id, "expectation-untold") == 0;
    }
}

static enum status load_folder(struct cli *cli, const struct knowledge *k, struct compare_run *r,
                               struct err *err)
{
    struct arena *a = cli->arena;
    struct str text;
    struct report report;
    int status;
    const char *path = arena_fmt(a, "%s/run.json", r->path);
    TRY(fs_read(&live, a, path, RUN_JSON_MAX, &text, err));
    TRY(tree_from_json(a, text, path, TREE_LIMITS_DEFAULT, &r->run, err));
    take_ending(a, r);
    TRY(run_report_make(cli, k, r->path, NULL, &report, &status, err));
    for (size_t i = 0; i < report.list_count; i++) {
        if (strcmp(report.lists[i].key, "causes") == 0) {
            take_cause(r, report.lists[i].findings);
        } else if (strcmp(report.lists[i].key, "checks") == 0) {
            take_expectations(r, report.lists[i].findings);
        }
    }
    for (size_t i = 0; i < report.table_count; i++) {
        if (strcmp(report.tables[i].key, "libraries") == 0) {
            take_libraries(a, r, &report.tables[i]);
        }
    }
    inputs_from_run(a, r->run, &r->inputs);
    add_setup(a, r);
    return gpu_count(cli, k, r, err);
}

/* A log alone: what diagnose says of it. */
static enum status load_log(struct cli *cli, const struct knowledge *k, struct compare_run *r,
                            struct err *err)
{
    r->seconds = r->log.train_runtime_s;
    r->end_known = r->log.finished;
    r->ending = r->log.finished ? "completed" : "end not seen";
    if (r->log.kind == RUN_LOG_TRAINER_STATE || fs_is_dir(&live, cli->arena, r->path)) {
        return ST_OK;
    }
    struct text_list train = {0};
    struct text_list kernel = {0};
    struct log_options options = {0};
    const struct log_facts *facts;
    struct diagnosis d;
    *VEC_PUSH(cli->arena, &train) = r->path;
    TRY(log_facts_read(cli->arena, k, &train, &kernel, &options, &facts, err));
    diagnose(cli->arena, k, NULL, facts, &d);
    take_cause(r, &d.causes);
    if (facts->run.completed && !r->end_known) {
        r->end_known = true;
        r->ending = "completed";
    }
    if (!r->end_known && !r->failed) {
        take_cause(r, &d.unknown); /* a fault line that no rule explains, and no end after it */
    }
    if (facts->run.died || r->failed) {
        r->end_known = true;
        r->failed = true;
        r->ending = "failed";
    }
    return ST_OK;
}

enum status compare_run_load(struct cli *cli, const struct knowledge *k, const char *path,
                             struct compare_run *ret_run, struct err *err)
{
    struct arena *a = cli->arena;
    struct compare_run r = {.path = path, .seconds = NAN, .peak_bytes = NAN};
    TRY(run_log_read(a, path, &r.log, err));
    r.folder = r.log.kind == RUN_LOG_FOLDER;
    if (r.folder) {
        TRY(load_folder(cli, k, &r, err));
    } else {
        TRY(load_log(cli, k, &r, err));
    }
    setup_add_log(a, &r.setup, &r.log);
    step_time_of(a, &r.log, &r.time);
    loss_over_fitting(a, &r.log, &r.over);
    *ret_run = r;
    return ST_OK;
}

/* ---- environment ---- */

static bool is_session_variable(const char *name)
{
    static const char *const names[] = {"PWD",       "OLDPWD",        "SHLVL", "_",
                                        "TERM",      "COLUMNS",       "LINES", "WINDOWID",
                                        "LS_COLORS", "PROMPT_COMMAND"};
    static const char *const heads[] = {"ASSAY_", "SSH_", "XDG_", "DBUS_", "TMUX", "VSCODE_"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
        if (str_starts(str_of(name), heads[i])) {
            return true;
        }
    }
    return false;
}

void compare_environment(struct arena *a, const struct tree *run_a, const struct tree *run_b,
                         struct text_list *ret_differences)
{
    const struct tree *sides[2] = {tree_get(run_a, "environment"), tree_get(run_b, "environment")};
    *ret_differences = (struct text_list){0};
    for (int s = 0; s < 2; s++) {
        const struct tree *t = sides[s] != NULL ? sides[s]->child : NULL;
        for (; t != NULL && ret_differences->count < DIFFERENCES_MAX; t = t->next) {
            const char *other = tree_text(sides[1 - s], t->key, NULL);
            bool differs = other == NULL || (s == 0 && strcmp(other, t->text) != 0);
            if (!differs || is_session_variable(t->key)) {
                continue;
            }
            const char *theirs = other != NULL ? other : "(not set)";
            *VEC_PUSH(a, ret_differences) = arena_fmt(a, "%s: %.80s -> %.80s", t->key,
                                                      s == 0 ? t->text : theirs,
                                                      s == 0 ? theirs : t->text);
        }
    }
}
