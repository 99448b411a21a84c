// SPDX-License-Identifier: Apache-2.0
/* assay watch: anomalies in the metrics of a run, while it runs or afterwards. */
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/input_list.h"
#include "base/str.h"
#include "base/vec.h"

#include "cli/command_list.h"
#include "cli/session.h"
#include "cli/watch/watch.h"

volatile int watch_stop;

static void on_signal(int sig)
{
    (void)sig;
    watch_stop = 1;
}

static void on_anomaly(void *ctx, const struct anomaly *a)
{
    struct watch *w = ctx;
    struct finding f;
    size_t same = 0;
    for (size_t i = 0; i < w->findings.count; i++) {
        same += strcmp(w->findings.items[i].id, anomaly_kind_name(a->kind)) == 0;
    }
    /* Texts of those that are not kept go with the scratch arena of their own. */
    struct arena *own = same < WATCH_SAME_MAX ? w->cli->arena : arena_new(0);
    anomaly_finding(own, a, &f);
    if (w->on_anomaly != NULL) {
        w->on_anomaly(w->ctx, a, &f);
    }
    if (own == w->cli->arena) {
        *VEC_PUSH(w->cli->arena, &w->findings) = f;
    } else {
        w->left_out++;
        arena_free(own);
    }
}

static void on_sample(void *ctx, const struct anomaly_sample *sample)
{
    struct watch *w = ctx;
    w->values++;
    anomaly_add(w->set, sample);
    if (w->on_value != NULL) {
        w->on_value(w->ctx, sample);
    }
}

static void on_fact(void *ctx, const char *name, double value)
{
    struct watch *w = ctx;
    anomaly_fact(w->set, name, value);
}

/* "save_steps=500" of --fact. */
static enum status add_fact(struct watch *w, const char *text, struct err *err)
{
    struct str rest = str_of(text);
    struct str name;
    double value;
    if (!str_cut(&rest, '=', &name) || name.n == 0 || str_to_double(rest, &value) != ST_OK ||
        !(value > 0 && value < 1e15)) {
        return err_set(err, ST_USAGE,
                       "--fact takes NAME=NUMBER, a length in steps (save_steps=500) or "
                       "vocabulary=TOKENS, not '%s'",
                       text);
    }
    anomaly_fact(w->set, str_dup(w->cli->arena, name), value);
    return ST_OK;
}

/* Lengths that a training configuration names. */
static enum status add_config(struct watch *w, struct err *err)
{
    static const struct {
        const char *fact;
        const char *name;
    } rows[] = {{"config.gradient_accumulation_steps", "gradient accumulation"},
                {"job.world_size", "world size"},
                {"model.vocab_rows", "vocabulary"}};

    if (cli_value(w->cli, "config", NULL) == NULL) {
        return ST_OK;
    }
    static const char *const keys[] = {"save_steps", "eval_steps", "logging_steps"};
    struct job_config config = {0};
    struct facts *facts = facts_new(w->cli->arena);
    TRY(session_config(w->cli, facts, &config, err));
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const struct job_entry *entry = job_config_get(&config, JOB_UNKNOWN, keys[i]);
        double value;
        if (entry != NULL && str_to_double(str_of(entry->text), &value) == ST_OK) {
            anomaly_fact(w->set, keys[i], value);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct fact *f = facts_get(facts, rows[i].fact);
        double value = NAN;
        if (f == NULL || f->state != FACT_KNOWN) {
            continue;
        }
        if (f->value.kind == VALUE_INT) {
            value = (double)f->value.integer;
        } else if (f->value.kind != VALUE_STRING ||
                   str_to_double(str_of(f->value.string), &value) != ST_OK) {
            continue;
        }
        anomaly_fact(w->set, rows[i].name, value);
    }
    return ST_OK;
}

static enum status read_options(struct watch *w, struct err *err)
{
    const char *text;
    for (size_t i = 0; (text = cli_repeat(w->cli, "limit", i)) != NULL; i++) {
        TRY(anomaly_rules_set(&w->rules, text, err));
    }
    w->set = anomaly_set_new(w->cli->arena, w->scratch, &w->rules);
    anomaly_set_listen(w->set, on_anomaly, w);
    for (size_t i = 0; (text = cli_repeat(w->cli, "fact", i)) != NULL; i++) {
        TRY(add_fact(w, text, err));
    }
    const char *fail_on = cli_value(w->cli, "fail-on", "error");
    w->fail_on = strcmp(fail_on, "note") == 0      ? SEVERITY_NOTE
                 : strcmp(fail_on, "warning") == 0 ? SEVERITY_WARNING
                                                   : SEVERITY_ERROR;
    return ST_OK;
}

/* Files whose names do not tell them apart are ranks in the order in which they were given: values of two files
 * are never one series. */
static void number_files(struct watch *w)
{
    const struct text_list *files = &w->cli->operands;
    bool alike = false;
    for (size_t i = 0; i < files->count; i++) {
        for (size_t k = 0; k < i; k++) {
            alike |= input_list_rank(files->items[i]) == input_list_rank(files->items[k]);
        }
    }
    for (size_t i = 0; alike && i < w->source_count; i++) {
        anomaly_source_rank(w->sources[i], (int)i);
    }
    w->numbered = alike;
}

int watch_open(struct watch *w, struct cli *cli)
{
    struct err err = {0};
    *w = (struct watch){.cli = cli, .scratch = arena_new(0)};
    anomaly_rules_default(&w->rules);
    if (read_options(w, &err) != ST_OK) {
        return cli_fail(cli, EXIT_USAGE, "%s", err.text);
    }
    if (add_config(w, &err) != ST_OK) {
        return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
    }
    const struct anomaly_sink sink = {.ctx = w, .sample = on_sample, .fact = on_fact};
    for (size_t i = 0; i < cli->operands.count; i++) {
        if (w->source_count == WATCH_SOURCES_MAX) {
            return cli_fail(cli, EXIT_USAGE, "watch takes at most %d logs", WATCH_SOURCES_MAX);
        }
        if (anomaly_source_open(cli->arena, cli->operands.items[i], &watch_stop, &sink,
                                &w->sources[w->source_count], &err) != ST_OK) {
            return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
        }
        w->source_count++;
    }
    number_files(w);
    return EXIT_FINE;
}

void watch_close(struct watch *w)
{
    for (size_t i = 0; i < w->source_count; i++) {
        anomaly_source_close(w->sources[i]);
    }
    arena_free(w->scratch);
}

/* Reading a pipe waits for its bytes: standard input is only read when it has some, or ended. */
static bool would_wait(const struct watch *w, size_t i)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    return strcmp(w->cli->operands.items[i], "-") == 0 && poll(&p, 1, 0) == 0;
}

bool watch_poll(struct watch *w)
{
    bool any = false;
    for (size_t i = 0; i < w->source_count; i++) {
        struct err err = {0};
        bool more;
        if (would_wait(w, i) || (anomaly_source_progress(w->sources[i]).stream &&
                                 anomaly_source_progress(w->sources[i]).ended)) {
            continue;
        }
        if (anomaly_source_poll(w->sources[i], &more, &err) != ST_OK) {
            cli_note(w->cli, "%s", err.text);
        }
        any |= more;
    }
    return any;
}

static int run_once(struct watch *w)
{
    for (size_t i = 0; i < w->source_count; i++) {
        bool more = true;
        struct err err = {0};
        while (more && watch_stop == 0) {
            if (anomaly_source_poll(w->sources[i], &more, &err) != ST_OK) {
                return cli_fail(w->cli, EXIT_UNKNOWN, "%s", err.text);
            }
            struct anomaly_progress p = anomaly_source_progress(w->sources[i]);
            cli_progress(w->cli, "reading %s: %.0f MB", w->cli->operands.items[i],
                         (double)p.bytes / 1e6);
        }
        anomaly_source_finish(w->sources[i]);
    }
    cli_progress(w->cli, NULL);
    anomaly_finish(w->set);
    return watch_report(w);
}

/* The table of limits: names, defaults, meanings. */
static int list_limits(struct cli *cli)
{
    struct strbuf out;
    strbuf_init(&out, cli->arena, 1 << 16);
    for (size_t i = 0; i < anomaly_rule_count; i++) {
        const struct anomaly_rule *r = &anomaly_rule_table[i];
        strbuf_fmt(&out, "%-18s %12.10g  %s\n", r->name, r->value, r->meaning);
    }
    return cli_emit(cli, strbuf_str(&out), EXIT_FINE);
}

/* Options that one of the two ways of working would ignore. */
static const char *wrong_together(const struct cli *cli)
{
    bool once = cli_flag(cli, "once");
    if (once && (cli_flag(cli, "gpus") || cli_value(cli, "webhook", NULL) != NULL ||
                 cli_flag(cli, "plain"))) {
        return "--gpus, --webhook and --plain belong to a run that is followed; leave out --once";
    }
    if (!once && strcmp(cli_value(cli, "format", "text"), "junit") == 0) {
        return "--format junit needs --once: a report is made when all is read";
    }
    if (cli_value(cli, "root", NULL) != NULL && !cli_flag(cli, "gpus")) {
        return "--root is where --gpus reads; give both";
    }
    return NULL;
}

static int run_watch(struct cli *cli)
{
    if (cli_flag(cli, "limits")) {
        return list_limits(cli);
    }
    if (cli->operands.count == 0) {
        return cli_fail(cli, EXIT_USAGE,
                        "watch needs a log or the folder of a run: assay watch train.log, or - for "
                        "standard input");
    }
    const char *fault = wrong_together(cli);
    if (fault != NULL) {
        return cli_fail(cli, EXIT_USAGE, "%s", fault);
    }
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    struct watch w;
    int status = watch_open(&w, cli);
    if (status == EXIT_FINE) {
        status = cli_flag(cli, "once") ? run_once(&w) : watch_live(&w);
    }
    watch_close(&w);
    return status;
}

static const char *const description[] = {
    "Reads the metrics that a training log prints (loss, gradient norm, step time, throughput, memory) and "
    "names what is not as it should be: spikes and drops, shifts to another level, values that repeat or "
    "are zero, NaN, slow ranks, uneven memory, periods and what has their length. Limits are robust "
    "(rolling median and deviation), and adapt to the run; 'assay watch --limits' lists them.",
    "Without --once the log or run folder is followed until the run ends or Ctrl-C: on a terminal with plots "
    "of the main metrics, else with one line an anomaly. A log that is rotated or cut is read anew. A run "
    "that falls silent (20 times its usual interval, at least a minute) is an anomaly, too.",
    "Each anomaly says the step, the value, what was expected, what it may mean and what to do. Exit "
    "status: 1 when there was one of class error (--fail-on lowers the class), 2 when the log holds no "
    "metric or too few values to judge, else 0.",
    NULL,
};

static const struct example examples[] = {
    {"assay watch assay-run-20261129T180000Z-4711", "follow a run of 'assay run', with plots"},
    {"assay watch --json train.log >>anomalies.jsonl", "for a script: one object a line"},
    {"assay watch --webhook http://127.0.0.1:8080/hook train.log", "tell somebody"},
    {"assay watch --once train.log", "judge a log that is complete"},
    {"assay watch --once --fact save_steps=500 train.log", "compare periods with a length"},
    {"assay watch --once --limit spike.sigma=8 rank*.log", "another limit; compare ranks"},
    {0},
};

static const struct option_spec options[] = {
    {"once", 0, OPTION_FLAG, NULL, "Read to the end and judge, instead of following"},
    {"plain", 0, OPTION_FLAG, NULL, "Lines instead of plots on a terminal"},
    {"webhook", 0, OPTION_VALUE, "URL", "POST each anomaly as JSON to http://..."},
    {"gpus", 0, OPTION_FLAG, NULL, "Also watch clock, heat and memory of this machine's GPUs"},
    {"root", 0, OPTION_VALUE, "DIR", "With --gpus: read sysfs under DIR"},
    {"limit", 0, OPTION_REPEAT, "NAME=N", "Use another limit than the one of --limits"},
    {"limits", 0, OPTION_FLAG, NULL, "List the limits with their defaults"},
    {"fact", 0, OPTION_REPEAT, "NAME=N", "A length in steps to compare periods with; vocabulary=N"},
    {"config", 'c', OPTION_REPEAT, "FILE", "Training configuration: takes such lengths from it"},
    {"fail-on", 0, OPTION_VALUE, "error|warning|note", "Class of anomaly that gives exit status 1"},
    {"format", 'f', OPTION_VALUE, "text|json|junit", "Form of the result of --once"},
    {"json", 'j', OPTION_FLAG, NULL, "Same as --format json; while following: one object a line"},
    {0},
};

const struct command command_watch = {
    .name = "watch",
    .summary = "Find anomalies in the metrics of a run",
    .operands = "RUN|LOG...",
    .operand_kind = "file",
    .description = description,
    .examples = examples,
    .options = options,
    .run = run_watch,
};
