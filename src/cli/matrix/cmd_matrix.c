// SPDX-License-Identifier: Apache-2.0
/* assay matrix: a plan of routes, run with repeats, and what the contrasts rule out. */
#include <inttypes.h>
#include <string.h>

#include "base/fs.h"
#include "base/vec.h"

#include "cli/command.h"
#include "cli/command_list.h"
#include "cli/matrix/matrix.h"
#include "cli/run/report.h"
#include "cli/session.h"
#include "cli/trial.h"

enum {
    PLAN_MAX = 1 << 20
};

static enum status read_plan(struct cli *cli, const struct plan **ret_plan, struct err *err)
{
    static const struct fs live = {.prefix = ""};
    struct str text;
    struct text_list command = {0};
    const char *path = cli->operands.items[0];
    for (size_t i = 1; i < cli->operands.count; i++) {
        *VEC_PUSH(cli->arena, &command) = cli->operands.items[i];
    }
    TRY(fs_read(&live, cli->arena, path, PLAN_MAX, &text, err));
    TRY(plan_parse(cli->arena, text, path, &command, ret_plan, err));
    for (size_t i = 0; i < (*ret_plan)->routes.count; i++) {
        const struct plan_route *r = &(*ret_plan)->routes.items[i];
        for (size_t e = 0; e < r->expect.count; e++) {
            if (run_report_check_expect(r->expect.items[e], err) != ST_OK) {
                return err_context(err, "%s: route '%s'", path, r->name);
            }
        }
    }
    return ST_OK;
}

/* A name for the folder from that of the plan: "leave-hipblaslt.trials". */
static const char *default_output(struct arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    struct str name = str_of(slash != NULL ? slash + 1 : path);
    if (str_ends(name, ".yaml") || str_ends(name, ".yml")) {
        size_t dot = name.n;
        while (name.p[dot - 1] != '.') {
            dot--;
        }
        name.n = dot - 1;
    }
    return arena_fmt(a, "%.*s.trials", STR_ARG(name));
}

/* ---- --dry-run ---- */

static void quoted(struct strbuf *out, const char *word)
{
    if (word[0] != '\0' && strpbrk(word, " \t\n\"'$\\;&|<>()*?#`") == NULL) {
        strbuf_addz(out, word);
        return;
    }
    strbuf_addc(out, '\'');
    for (const char *p = word; *p != '\0'; p++) {
        strbuf_addz(out, *p == '\'' ? "'\\''" : (char[]){*p, '\0'});
    }
    strbuf_addc(out, '\'');
}

static void show_route(struct strbuf *out, const struct plan_route *r, bool base)
{
    strbuf_fmt(out, "%s%s%s%s\n  in %s:", r->name, base ? " (base)" : "",
               r->about != NULL ? ": " : "", r->about != NULL ? r->about : "", r->directory);
    for (size_t i = 0; i < r->environment.count; i++) {
        bool set = strchr(r->environment.items[i], '=') != NULL;
        strbuf_addz(out, set ? " " : " unset:");
        quoted(out, r->environment.items[i]);
    }
    for (size_t i = 0; i < r->command.count; i++) {
        strbuf_addc(out, ' ');
        quoted(out, r->command.items[i]);
    }
    strbuf_addc(out, '\n');
    if (r->guard || r->expect.count > 0) {
        strbuf_addz(out, "  assay run");
        strbuf_addz(out, r->guard ? " --guard" : "");
        strbuf_addz(out, r->guard && r->serialize ? " --serialize" : "");
        for (size_t i = 0; i < r->expect.count; i++) {
            strbuf_fmt(out, " --expect %s", r->expect.items[i]);
        }
        strbuf_addc(out, '\n');
    }
}

static int dry_run(struct cli *cli, const struct matrix *m)
{
    const struct plan *p = m->plan;
    struct strbuf out;
    strbuf_init(&out, cli->arena, (size_t)16 << 20);
    strbuf_fmt(&out, "%s: %zu %s, %" PRId64 " repeats, into %s\n", p->name, p->routes.count,
               p->bisect ? "positions" : "routes", p->repeats, m->output);
    if (p->time_limit_s > 0 && !p->bisect) {
        strbuf_fmt(&out, "at most %.0f s a trial, %.1f h in all\n", p->time_limit_s,
                   p->time_limit_s * (double)p->repeats * (double)p->routes.count / 3600);
    }
    strbuf_addc(&out, '\n');
    size_t done = 0;
    for (size_t i = 0; i < p->routes.count; i++) {
        show_route(&out, &p->routes.items[i], !p->bisect && i == p->base);
        for (uint64_t n = 0; n < (uint64_t)p->repeats; n++) {
            done += trial_is_finished(cli->arena, matrix_folder(m, i, n));
        }
    }
    if (p->bisect) {
        strbuf_addz(&out, "\norder: the two ends, then the middle of what is left\n");
    } else {
        strbuf_fmt(&out, "\norder: each route once, then again, %" PRId64 " times\n", p->repeats);
    }
    strbuf_fmt(&out, "finished before: %zu trials\n", done);
    return cli_emit(cli, strbuf_str(&out), EXIT_FINE);
}

/* ---- the command ---- */

static int run_matrix(struct cli *cli)
{
    struct err err = {0};
    struct matrix *m = arena_alloc(cli->arena, sizeof *m);
    m->cli = cli;
    if (cli->operands.count == 0) {
        return cli_fail(cli, EXIT_USAGE,
                        "matrix needs a plan: assay matrix plan.yaml -- python train.py; plans to "
                        "begin with are in examples/plans");
    }
    if (read_plan(cli, &m->plan, &err) != ST_OK) {
        bool usage = err.status == ST_USAGE || err.status == ST_FORMAT;
        return cli_fail(cli, usage ? EXIT_USAGE : EXIT_UNKNOWN, "%s", err.text);
    }
    m->output = cli_value(cli, "trials", default_output(cli->arena, cli->operands.items[0]));
    if (cli_flag(cli, "dry-run")) {
        return dry_run(cli, m);
    }
    if (session_knowledge(cli, &m->k, &err) != ST_OK || matrix_open(m, &err) != ST_OK ||
        matrix_run(m, &err) != ST_OK) {
        return cli_fail(cli, err.status == ST_USAGE ? EXIT_USAGE : EXIT_UNKNOWN, "%s", err.text);
    }
    struct report report;
    int status;
    matrix_report(m, &report, &status);
    return session_report(cli, &report, status);
}

static const char *const description[] = {
    "Carries out a controlled experiment: one command on several routes (environment variables, "
    "libraries, arguments, containers, the guard), repeated in turns, each trial under 'assay run'. It "
    "counts failures with their fault classes, tests each route against the base, and says what the "
    "contrast rules out. After trials without a failure it prints the rate that they bound, never "
    "'fixed'. A change counts only where its expectation (expect: no:hipblaslt) was recorded to hold.",
    "With 'bisect' the plan is an ordered list (versions, switches) and the fault is searched along it, "
    "with repeats for failures that come only sometimes. Trials stay in a folder as run folders; an "
    "experiment that was interrupted goes on where it stopped. The format is in docs/matrix.md. A command "
    "after '--' takes the place of the plan's own.",
    "Exit status: 0 no failure was observed; 1 failures were; 2 could not tell.",
    NULL,
};

static const struct example examples[] = {
    {"assay matrix examples/plans/leave-hipblaslt.yaml --dry-run -- python train.py",
     "what would be run?"},
    {"assay matrix examples/plans/leave-hipblaslt.yaml -- python train.py", "run it, or go on"},
    {"assay matrix --trials runs/exp1 plan.yaml", "name the folder of the trials"},
    {"assay matrix plan.yaml --json -o result.json", "for a script"},
    {0},
};

static const struct option_spec options[] = {
    {"trials", 't', OPTION_VALUE, "DIR", "Folder of the trials (default: PLAN.trials here)"},
    {"dry-run", 'n', OPTION_FLAG, NULL, "Print what would be run, and run nothing"},
    REPORT_OPTIONS,
    {0},
};

const struct command command_matrix = {
    .name = "matrix",
    .summary = "Run a plan of contrasts with repeats; say what each rules out",
    .operands = "PLAN.yaml [-- COMMAND [ARG...]]",
    .operand_kind = "file",
    .description = description,
    .examples = examples,
    .options = options,
    .run = run_matrix,
};
