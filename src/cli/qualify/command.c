// SPDX-License-Identifier: Apache-2.0
/*
 * Stages over the user's own training command: its run, supervised and recorded, and the checkpoint that it wrote.
 * The checkpoint of the training that is compiled in is judged beside it.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/vec.h"

#include "cli/compare/run.h"
#include "cli/qualify/qualify.h"

enum {
    COMMAND_WEIGHT = 60,
    CHECKPOINT_WEIGHT = 20,
    DEPTH_MAX = 4,
    ENTRIES_MAX = 50000,
};

static const double forever_s = 1e9; /* its own limit is --timeout */
static const double watch_limit_s = 600;
static const double verify_limit_s = 7200;
static const struct fs live = {.prefix = ""};

/* ---- the run ---- */

static void command_words(struct qualify *q, const char *folder, struct text_list *words)
{
    struct arena *a = q->cli->arena;
    const char *timeout = cli_value(q->cli, "timeout", NULL);
    const char *const head[] = {"run", "--record", folder};
    for (size_t i = 0; i < ARRAY_LEN(head); i++) {
        *VEC_PUSH(a, words) = head[i];
    }
    if (timeout != NULL) {
        *VEC_PUSH(a, words) = "--timeout";
        *VEC_PUSH(a, words) = timeout;
    }
    qualify_add_expectations(q, words);
    *VEC_PUSH(a, words) = "--";
    for (size_t i = 0; i < q->cli->operands.count; i++) {
        *VEC_PUSH(a, words) = q->cli->operands.items[i];
    }
}

static void add(struct qualify *q, struct finding_list *to, enum severity severity, const char *id,
                const char *title, const char *claim, const char *remedy)
{
    struct finding *f = VEC_PUSH(q->cli->arena, to);
    *f = (struct finding){
        .id = id, .severity = severity, .title = title, .claim = claim, .confidence = 1};
    if (remedy != NULL) {
        *VEC_PUSH(q->cli->arena, &f->remedy) = remedy;
    }
}

#define CAUSE_SURE 0.7

/* Causes and faults that the run's own report names; expectations are told with their switch. */
static void take_run(struct qualify *q, const struct report *r, struct stage_result *s)
{
    struct arena *a = q->cli->arena;
    for (size_t l = 0; l < r->list_count; l++) {
        const struct finding_list *list = r->lists[l].findings;
        for (size_t i = 0; i < list->count; i++) {
            struct finding f = list->items[i];
            if (f.severity == SEVERITY_OK || strncmp(f.id, "expectation-", 12) == 0) {
                continue;
            }
            if (r->lists[l].causes &&
                f.confidence < CAUSE_SURE) { /* its title states it as a fact */
                f.title = arena_fmt(a, "possible cause (confidence %.2f): %s", f.confidence,
                                    f.title);
            }
            *VEC_PUSH(a, &s->findings) = f;
        }
    }
}

/* What the metrics say: NaN, periods, spikes. Fewer values than it takes to judge are told so. */
static void watch(struct qualify *q, const char *folder, struct stage_result *s)
{
    struct arena *a = q->cli->arena;
    const char *const list[] = {"watch", "--once", folder};
    struct text_list words = {0};
    struct report r;
    struct err err = {0};
    int exit;
    for (size_t i = 0; i < ARRAY_LEN(list); i++) {
        *VEC_PUSH(a, &words) = list[i];
    }
    if (qualify_child(q, "command: its metrics", &words, watch_limit_s, &r, &exit, &err) != ST_OK) {
        add(q, &s->findings, SEVERITY_UNKNOWN, "metrics-not-judged",
            "The metrics of the command could not be judged", arena_strdup(a, err.text), NULL);
        return;
    }
    qualify_take(q, &r, &s->findings);
    if (exit == 2 || exit < 0) {
        add(q, &s->findings, SEVERITY_UNKNOWN, "metrics-not-judged",
            "The metrics of the command could not be judged",
            r.verdict != NULL ? arena_strdup(a, r.verdict) : "too few values",
            "let it run for more steps, and print the loss of each");
    }
}

/* A curve keeps what is no number as an infinity. */
static const char *loss_text(struct arena *a, double loss)
{
    return isfinite(loss) ? arena_fmt(a, "%.4f", loss) : "not finite";
}

static void judge_losses(struct qualify *q, const struct compare_run *run, struct stage_result *s)
{
    struct arena *a = q->cli->arena;
    const struct curve *loss = &run->log.loss;
    if (loss->count == 0) {
        add(q, &s->findings, SEVERITY_UNKNOWN, "loss-not-told", "The command printed no loss",
            "No line of its output was understood as a metric, so it is not known whether it learns.",
            "print lines such as: step 10 loss 2.3456");
        return;
    }
    if (run->log.not_finite != 0) {
        add(q, &s->findings, SEVERITY_ERROR, "loss-not-finite",
            arena_fmt(a, "%zu of %zu losses are not finite", run->log.not_finite, loss->count),
            "A step whose loss is no number teaches nothing, and its gradients damage the weights.",
            "assay report on the run folder names the likeliest causes");
    }
    s->measured = arena_fmt(a, "%s after %.1f s; %zu losses, %s to %s", run->ending, run->seconds,
                            loss->count, loss_text(a, loss->items[0].value),
                            loss_text(a, loss->items[loss->count - 1].value));
}

/* Its record tells of the path that ran, also where the stage evidence had no PyTorch to ask. */
static void judge_path(struct qualify *q, const char *folder, const struct report *r,
                       struct stage_result *s)
{
    struct arena *a = q->cli->arena;
    int64_t calls = qualify_add_paths(q, "command", folder, r);
    qualify_judge_switches(q, "command", folder, r, &s->findings);
    if (q->evidence != NULL && q->evidence->state != STAGE_RAN && calls > 0) {
        q->evidence->state = STAGE_RAN;
        q->evidence->measured = arena_fmt(a, "told by the command's own run: %" PRId64 " calls",
                                          calls);
    }
}

void qualify_command(struct qualify *q, struct stage_result *s)
{
    struct arena *a = q->cli->arena;
    struct err err = {0};
    struct report r;
    struct text_list words = {0};
    struct compare_run run = {0};
    int exit;
    const char *folder = arena_fmt(a, "%s/command", q->folder);
    if (q->cli->operands.count == 0) {
        s->state = STAGE_NOT_ASKED;
        s->reason = "no training command was given (after --)";
        if (qualify_names_stage(q, "command")) {
            qualify_not_run(s, s->reason, "assay qualify ... -- COMMAND");
        }
        return;
    }
    if (q->other_machine) {
        qualify_not_run(s, "only this machine can train, and --root names another",
                        "run assay qualify on that machine");
        return;
    }
    command_words(q, folder, &words);
    q->command_began = (double)time(NULL);
    q->command_ran = true;
    if (qualify_child(q, "command", &words, forever_s, &r, &exit, &err) != ST_OK) {
        qualify_not_run(s, arena_strdup(a, err.text), "assay run -- COMMAND by itself");
        return;
    }
    *VEC_PUSH(a, &q->runs) = folder;
    take_run(q, &r, s);
    if (compare_run_load(q->cli, q->k, folder, &run, &err) != ST_OK) {
        add(q, &s->findings, SEVERITY_UNKNOWN, "run-not-read", "The run folder cannot be read",
            arena_strdup(a, err.text), NULL);
    } else {
        s->measured = arena_fmt(a, "%s after %.1f s", run.ending, run.seconds);
        if (strcmp(run.ending, "completed") != 0) {
            add(q, &s->findings, SEVERITY_ERROR, "command-failed",
                "The training command did not end well",
                r.verdict != NULL ? arena_strdup(a, r.verdict) : run.ending,
                arena_fmt(a, "assay report %s", q->keep ? folder : "RUN"));
        }
        judge_losses(q, &run, s);
        if (run.time.median > 0) {
            *VEC_PUSH(a, &q->figures) = (struct qualify_figure){
                .name = "command", .unit = "steps/s", .value = 1 / run.time.median};
        }
        if (run.log.loss.count != 0) {
            watch(q, folder, s);
        }
    }
    judge_path(q, folder, &r, s);
    qualify_judge(q, "command", COMMAND_WEIGHT, s);
}

/* ---- its checkpoint ---- */

struct search {
    struct arena *a;
    const char *skip; /* our own folder */
    double since;     /* realtime, seconds */
    double newest;
    const char *found;
    size_t entries;
};

static bool is_folder_of_model(struct search *x, const char *folder)
{
    const char *slash = strrchr(folder, '/');
    return (slash != NULL && strncmp(slash + 1, "checkpoint-", 11) == 0) ||
           fs_exists(&live, x->a, arena_fmt(x->a, "%s/config.json", folder)) ||
           fs_exists(&live, x->a, arena_fmt(x->a, "%s/adapter_config.json", folder));
}

static void consider(struct search *x, const char *folder, const char *path, const struct stat *st)
{
    static const char *const ends[] = {".safetensors", ".pt", ".pth", ".gguf"};
    double t = (double)st->st_mtim.tv_sec + (double)st->st_mtim.tv_nsec * 1e-9;
    bool weights = false;
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        weights = weights || str_ends(str_of(path), ends[i]);
    }
    const char *slash = strrchr(path, '/');
    weights = weights || (str_ends(str_of(path), ".bin") && slash != NULL &&
                          (strncmp(slash, "/pytorch_model", 14) == 0 ||
                           strncmp(slash, "/adapter_model", 14) == 0));
    if (weights && t >= x->since && t >= x->newest) {
        x->newest = t;
        x->found = is_folder_of_model(x, folder) ? folder : path;
    }
}

static void look(struct search *x, const char *folder, int depth)
{
    const char *const *names = NULL;
    size_t count = 0;
    if (fs_list(&live, x->a, folder, &names, &count, NULL) != ST_OK) {
        return;
    }
    for (size_t i = 0; i < count && x->entries < ENTRIES_MAX; i++) {
        const char *path = arena_fmt(x->a, "%s/%s", folder, names[i]);
        struct stat st;
        x->entries++;
        if (names[i][0] == '.' || lstat(path, &st) != 0 || strcmp(path, x->skip) == 0) {
            continue;
        }
        if (S_ISREG(st.st_mode)) {
            consider(x, folder, path, &st);
        } else if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX) {
            look(x, path, depth + 1);
        }
    }
}

/* The newest below the working directory and below the folder that the command line names. */
static const char *find_checkpoint(struct qualify *q)
{
    static const char *const options[] = {"--output_dir", "--output-dir", "--output", "--out",
                                          "-o"};
    struct arena *a = q->cli->arena;
    struct search x = {.a = a, .skip = q->folder, .since = q->command_began};
    char cwd[4096];
    if (getcwd(cwd, sizeof cwd) != NULL) {
        look(&x, cwd, 0);
    }
    const struct text_list *words = &q->cli->operands;
    for (size_t i = 0; i < words->count; i++) {
        for (size_t k = 0; k < ARRAY_LEN(options); k++) {
            const char *word = words->items[i];
            size_t n = strlen(options[k]);
            const char *value = NULL;
            if (strncmp(word, options[k], n) == 0 && word[n] == '=') {
                value = word + n + 1;
            } else if (strcmp(word, options[k]) == 0 && i + 1 < words->count) {
                value = words->items[i + 1];
            }
            if (value != NULL && value[0] == '/') {
                look(&x, value, 0);
            }
        }
    }
    return x.found;
}

static void verify(struct qualify *q, const char *path, struct stage_result *s)
{
    struct arena *a = q->cli->arena;
    const char *const list[] = {"checkpoint", "verify", path};
    struct text_list words = {0};
    struct report r;
    struct err err = {0};
    int exit;
    for (size_t i = 0; i < ARRAY_LEN(list); i++) {
        *VEC_PUSH(a, &words) = list[i];
    }
    if (qualify_child(q, "checkpoint", &words, verify_limit_s, &r, &exit, &err) != ST_OK) {
        add(q, &s->findings, SEVERITY_UNKNOWN, "checkpoint-not-read",
            "The command's checkpoint could not be verified",
            arena_fmt(a, "%s: %s", path, err.text), NULL);
        return;
    }
    size_t before = s->findings.count;
    qualify_take(q, &r, &s->findings);
    if (exit != 0 && s->findings.count == before) {
        add(q, &s->findings, exit == 1 ? SEVERITY_ERROR : SEVERITY_UNKNOWN, "checkpoint-unsound",
            "The command's checkpoint is not sound",
            arena_fmt(a, "%s: %s", path, r.verdict != NULL ? r.verdict : "no verdict"), NULL);
    }
    s->measured = arena_fmt(a, "%s; the command's: %s", s->measured, path);
}

void qualify_checkpoint(struct qualify *q, struct stage_result *s)
{
    struct arena *a = q->cli->arena;
    bool ran = false;
    s->measured = "the built-in training's was not there to verify";
    if (q->training.checkpoint_read) {
        for (size_t i = 0; i < q->training.checkpoint.count; i++) {
            *VEC_PUSH(a, &s->findings) = q->training.checkpoint.items[i];
        }
        s->measured = "that of the short training verified";
        ran = true;
    }
    if (q->command_ran) {
        const char *path = find_checkpoint(q);
        if (path != NULL) {
            verify(q, path, s);
            ran = true;
        } else {
            s->measured = arena_fmt(a, "%s; the command left none that was found", s->measured);
        }
    }
    if (qualify_model_weights(q, s)) {
        s->measured = arena_fmt(a, "%s; the model's in %s", s->measured, q->model);
        ran = true;
    }
    if (!ran) {
        qualify_not_run(s, "the short training left no checkpoint",
                        "the stage training must have run to its end here");
        return;
    }
    qualify_judge(q, "checkpoint", CHECKPOINT_WEIGHT, s);
}
