// SPDX-License-Identifier: Apache-2.0
/* assay compare: two or more routes of one training job, judged as the same or different. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/vec.h"

#include "cli/command.h"
#include "cli/command_list.h"
#include "cli/compare/pair.h"
#include "cli/compare/plot.h"
#include "cli/compare/tables.h"
#include "cli/session.h"

enum {
    ROUTES_MAX = 16,
    RUNS_MAX = 64
};

struct comparison {
    struct compare_route routes[ROUTES_MAX];
    size_t route_count;
    struct compare_pair pairs[ROUTES_MAX];
    size_t pair_count;
    struct finding_list findings;
};

/* ---- routes ---- */

static bool begins_route(const struct cli *cli, size_t operand)
{
    for (size_t i = 0; i < cli->uses.count; i++) {
        if (strcmp(cli->uses.items[i].spec->name, "against") == 0 &&
            cli->uses.items[i].operands_before == operand) {
            return true;
        }
    }
    return false;
}

/* Without --against each run is a route of its own. */
static enum status read_routes(struct cli *cli, const struct knowledge *k, struct comparison *c,
                               struct err *err)
{
    bool grouped = cli_flag(cli, "against");
    for (size_t i = 0; i < cli->operands.count; i++) {
        if (c->route_count == 0 || !grouped || begins_route(cli, i)) {
            if (c->route_count == ROUTES_MAX) {
                return err_set(err, ST_USAGE,
                               "compare takes %d routes at most; put repeats of "
                               "one route together with --against",
                               ROUTES_MAX);
            }
            c->routes[c->route_count].name = arena_fmt(cli->arena, "%c",
                                                       (char)('A' + (int)c->route_count));
            c->route_count++;
        }
        struct compare_route *r = &c->routes[c->route_count - 1];
        if (r->count == RUNS_MAX) {
            return err_set(err, ST_USAGE, "a route takes %d runs at most", RUNS_MAX);
        }
        cli_progress(cli, "reading %s", cli->operands.items[i]);
        struct compare_run run;
        TRY(compare_run_load(cli, k, cli->operands.items[i], &run, err));
        *VEC_PUSH(cli->arena, r) = run;
    }
    cli_progress(cli, NULL);
    compare_tell_libraries(cli->arena, c->routes, c->route_count);
    return ST_OK;
}

static enum status check_usage(const struct cli *cli, double *ret_max_ratio, struct err *err)
{
    const char *text = cli_value(cli, "max-ratio", NULL);
    *ret_max_ratio = 0;
    if (text != NULL && (str_to_double(str_of(text), ret_max_ratio) != ST_OK ||
                         !(*ret_max_ratio > 0) || !(*ret_max_ratio <= 1e6))) {
        return err_set(err, ST_USAGE, "--max-ratio takes a number above 0, such as 1.05, not '%s'",
                       text);
    }
    if (cli->operands.count < 2) {
        return err_set(err, ST_USAGE,
                       "compare needs two runs: assay compare RUN_A RUN_B, or several of each: "
                       "assay compare A1 A2 A3 --against B1 B2 B3");
    }
    if (cli_flag(cli, "against") &&
        (begins_route(cli, 0) || begins_route(cli, cli->operands.count))) {
        return err_set(err, ST_USAGE,
                       "--against stands between the runs of two routes: assay "
                       "compare A1 A2 A3 --against B1 B2 B3");
    }
    return ST_OK;
}

/* ---- report ---- */

static void collect(struct cli *cli, struct comparison *c)
{
    for (size_t p = 0; p < c->pair_count; p++) {
        for (size_t i = 0; i < c->pairs[p].findings.count; i++) {
            struct finding f = c->pairs[p].findings.items[i];
            bool known = false;
            for (size_t s = 0; s < c->findings.count && !known; s++) {
                known = strcmp(c->findings.items[s].title, f.title) == 0;
            }
            if (!known) {
                *VEC_PUSH(cli->arena, &c->findings) = f;
            }
        }
    }
}

static const char *verdict_of(struct cli *cli, const struct comparison *c)
{
    if (c->pair_count == 1) {
        return c->pairs[0].verdict;
    }
    struct strbuf out;
    strbuf_init(&out, cli->arena, 4000);
    for (size_t i = 0; i < c->pair_count; i++) {
        strbuf_fmt(&out, "%s%s and A: %s", i > 0 ? " | " : "", c->pairs[i].b->name,
                   c->pairs[i].verdict);
    }
    return out.p;
}

static int status_of(const struct comparison *c)
{
    int status = EXIT_FINE;
    for (size_t i = 0; i < c->pair_count; i++) {
        int s = c->pairs[i].status;
        status = s == EXIT_FAULT || status == EXIT_FAULT ? EXIT_FAULT : s != EXIT_FINE ? s : status;
    }
    return status;
}

/* Do all losses have four significant digits at most, as HF Trainer 5 prints them? */
static bool is_rounded(const struct curve *c)
{
    for (size_t i = 0; i < c->count; i++) {
        double v = c->items[i].value;
        double unit = isfinite(v) && v != 0 ? pow(10, floor(log10(fabs(v))) - 3) : 1;
        if (isfinite(v) && !(fabs(v / unit - round(v / unit)) <= 1e-6)) {
            return false;
        }
    }
    return c->count > 0;
}

/* One note for all runs that it holds for. */
struct common_note {
    const char *first;
    size_t count;
};

static void count_note(struct common_note *n, bool holds, const char *path)
{
    if (holds) {
        n->first = n->count == 0 ? path : n->first;
        n->count++;
    }
}

static void add_note(struct cli *cli, struct report *r, const struct common_note *n,
                     const char *text)
{
    if (n->count > 0) {
        *VEC_PUSH(cli->arena, &r->notes) = n->count == 1
                                               ? arena_fmt(cli->arena, "%s: %s", n->first, text)
                                               : arena_fmt(cli->arena, "%s and %zu more: %s",
                                                           n->first, n->count - 1, text);
    }
}

static void add_notes(struct cli *cli, const struct comparison *c, struct report *r)
{
    struct common_note runtime = {0};
    struct common_note rounded = {0};
    struct common_note counted = {0};
    for (size_t i = 0; i < c->route_count; i++) {
        for (size_t n = 0; n < c->routes[i].count; n++) {
            const struct compare_run *run = &c->routes[i].items[n];
            count_note(&runtime, run->time.source == STEP_TIME_RUNTIME, run->path);
            count_note(&rounded, is_rounded(&run->log.loss), run->path);
            count_note(&counted,
                       run->log.steps_from == RUN_LOG_STEPS_INDEX && run->log.loss.count > 0,
                       run->path);
        }
    }
    add_note(
        cli, r, &runtime,
        arena_fmt(cli->arena, "seconds per step are %s", step_time_source_name(STEP_TIME_RUNTIME)));
    add_note(cli, r, &rounded,
             "losses have four digits: differences below 5e-4 of them cannot be seen; "
             "trainer_state.json keeps them all");
    add_note(cli, r, &counted, "no steps are printed: the losses are numbered 1, 2, 3 …");
}

static void add_table(struct report *r, struct report_table t)
{
    if (t.row_count > 0) {
        r->tables[r->table_count++] = t;
    }
}

static int report(struct cli *cli, struct comparison *c)
{
    struct report r = {.command = "compare", .schema_version = 1};
    collect(cli, c);
    r.verdict = verdict_of(cli, c);
    r.lists[r.list_count++] = (struct report_list){.key = "findings", .findings = &c->findings};
    add_table(&r, compare_times_table(cli->arena, c->routes, c->route_count));
    add_table(&r, compare_numbers_table(cli->arena, c->routes, c->route_count));
    add_table(&r, compare_ratios_table(cli->arena, c->pairs, c->pair_count));
    add_table(&r, compare_levels_table(cli->arena, c->pairs, c->pair_count));
    add_notes(cli, c, &r);
    int status = status_of(c);
    bool as_text = !cli_flag(cli, "json") && strcmp(cli_value(cli, "format", "text"), "text") == 0;
    bool terminal = isatty(STDOUT_FILENO) != 0 && cli_value(cli, "output", NULL) == NULL;
    if (!as_text || (!terminal && !cli_flag(cli, "plot"))) {
        return session_report(cli, &r, status);
    }
    struct strbuf out;
    strbuf_init(&out, cli->arena, (size_t)64 << 20);
    for (size_t i = 0; i < c->pair_count; i++) {
        const struct compare_pair *p = &c->pairs[i];
        struct plot_curve a = {.name = p->a->name, .curve = &p->a->items[0].log.loss};
        struct plot_curve b = {.name = p->b->name, .curve = &p->b->items[0].log.loss};
        plot_curves(&out, "loss", &a, &b, cli->width);
    }
    struct report_options options = {.color = cli->stdout_color, .width = cli->width};
    report_format_find("text")->render(&r, &options, &out);
    return cli_emit(cli, strbuf_str(&out), status);
}

static int run_compare(struct cli *cli)
{
    struct err err = {0};
    const struct knowledge *k;
    struct comparison *c = arena_alloc(cli->arena, sizeof *c);
    double max_ratio;
    if (check_usage(cli, &max_ratio, &err) != ST_OK) {
        return cli_fail(cli, EXIT_USAGE, "%s", err.text);
    }
    if (session_knowledge(cli, &k, &err) != ST_OK || read_routes(cli, k, c, &err) != ST_OK) {
        return cli_fail(cli, err.status == ST_USAGE ? EXIT_USAGE : EXIT_UNKNOWN, "%s", err.text);
    }
    for (size_t i = 1; i < c->route_count; i++) {
        compare_pair_make(cli, &c->routes[0], &c->routes[i], cli_flag(cli, "force"), max_ratio,
                          &c->pairs[c->pair_count++]);
    }
    return report(cli, c);
}

static const char *const description[] = {
    "Compares routes of one training job: how runs ended, where their time went, what they trained. A "
    "run is a folder of 'assay run', a trainer_state.json, a metrics file of JSON lines, or a log. The "
    "first route is the trusted one; the others are judged against it. --against stands between the "
    "repeats of one route and those of the next.",
    "Nothing is compared unless the inputs are proven equal by the digests that 'assay run' took; "
    "--force compares all the same and says so. Times per step leave out warm-up, evaluation and pauses, "
    "and no ratio is given for unlike work. Losses are judged by the first step and by means over "
    "windows, against the spread of three or more runs of the first route, else against fixed limits.",
    "Exit status: 0 the same; 1 different; 2 could not tell.",
    NULL,
};

static const struct example examples[] = {
    {"assay compare runs/old runs/new", "did the new stack change anything?"},
    {"assay compare A1 A2 A3 --against B1 B2 B3",
     "with the noise of three trusted runs as the measure"},
    {"assay compare --force old.log new.log",
     "two logs; nothing proves that the inputs were equal"},
    {"assay compare --max-ratio 1.05 baseline candidate", "a gate: at most 5 % slower"},
    {"assay compare A B --json", "for a script"},
    {0},
};

static const struct option_spec options[] = {
    {"against", 0, OPTION_FLAG, NULL,
     "The runs after it are of the next route; may be given again"},
    {"force", 0, OPTION_FLAG, NULL, "Compare although the inputs differ or are not proven equal"},
    {"max-ratio", 0, OPTION_VALUE, "X",
     "Different when the time per step is more than X times that of the first route"},
    {"plot", 0, OPTION_FLAG, NULL, "Plot the losses even where standard output is no terminal"},
    REPORT_OPTIONS,
    {0},
};

const struct command command_compare = {
    .name = "compare",
    .summary = "Judge two routes of a training job: same, different, or could not tell",
    .operands = "RUN_A RUN_B...",
    .operand_kind = "file",
    .description = description,
    .examples = examples,
    .options = options,
    .run = run_compare,
};
