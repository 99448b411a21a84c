// SPDX-License-Identifier: Apache-2.0
/* Options of assay train, as tables of numbers and a few words. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "cli/train/train.h"
#include "train/data_order.h"

enum {
    STEPS_MAX = 1000000000,
    LENGTH_MAX = 1 << 24
};

static const struct {
    const char *name;
    size_t at;
    uint64_t least, most;
} counts[] = {
    {"steps", offsetof(struct train_job, options.steps), 1, STEPS_MAX},
    {"batch", offsetof(struct train_job, options.limits.sequences), 1, 1 << 20},
    {"accumulate", offsetof(struct train_job, options.accumulate), 1, 1 << 20},
    {"length", offsetof(struct train_job, length), 2, LENGTH_MAX},
    {"seed", offsetof(struct train_job, options.limits.seed), 0, UINT64_MAX},
    {"warmup", offsetof(struct train_job, options.schedule.warmup), 0, STEPS_MAX},
    {"hold", offsetof(struct train_job, options.schedule.hold), 0, STEPS_MAX},
    {"eval-every", offsetof(struct train_job, eval_every), 1, STEPS_MAX},
    {"save-every", offsetof(struct train_job, save_every), 1, STEPS_MAX},
    {"keep", offsetof(struct train_job, keep), 0, STEPS_MAX},
};

static const struct {
    const char *name;
    size_t at;
    double least, most;
} reals[] = {
    {"lr", offsetof(struct train_job, options.schedule.lr), 0, 1e6},
    {"min-lr", offsetof(struct train_job, options.schedule.minimum), 0, 1e6},
    {"weight-decay", offsetof(struct train_job, options.optim.weight_decay), 0, 1e3},
    {"eps", offsetof(struct train_job, options.optim.eps), 1e-300, 1},
    {"clip", offsetof(struct train_job, options.clip.max_norm), 0, 1e300},
    {"epochs", offsetof(struct train_job, epochs), 1e-9, 1e9},
    {"eval-share", offsetof(struct train_job, eval_share), 1e-9, 0.999999},
};

static enum status read_counts(struct train_job *job, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        const char *text = cli_value(job->cli, counts[i].name, NULL);
        uint64_t value;
        if (text == NULL) {
            continue;
        }
        if (str_to_u64(str_of(text), 10, &value) != ST_OK || value < counts[i].least ||
            value > counts[i].most) {
            return err_set(err, ST_USAGE,
                           "--%s takes a whole number from %" PRIu64 " to %" PRIu64 ", not '%s'",
                           counts[i].name, counts[i].least, counts[i].most, text);
        }
        *(uint64_t *)(void *)((char *)job + counts[i].at) = value;
    }
    return ST_OK;
}

static enum status read_reals(struct train_job *job, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(reals); i++) {
        const char *text = cli_value(job->cli, reals[i].name, NULL);
        double value;
        if (text == NULL) {
            continue;
        }
        if (str_to_double(str_of(text), &value) != ST_OK ||
            !(value >= reals[i].least && value <= reals[i].most)) {
            return err_set(err, ST_USAGE, "--%s takes a number from %g to %g, not '%s'",
                           reals[i].name, reals[i].least, reals[i].most, text);
        }
        *(double *)(void *)((char *)job + reals[i].at) = value;
    }
    return ST_OK;
}

static enum status read_precision(struct train_job *job, struct err *err)
{
    static const struct {
        const char *name;
        enum precision precision;
    } names[] = {{"f64", PRECISION_F64}, {"f32", PRECISION_F32}, {"bf16", PRECISION_BF16}};

    const char *text = cli_value(job->cli, "precision", "f32");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(text, names[i].name) == 0) {
            job->model.precision = names[i].precision;
            job->options.optim.pure = cli_flag(job->cli, "pure");
            if (job->options.optim.pure && names[i].precision != PRECISION_BF16) {
                return err_set(err, ST_USAGE, "--pure needs --precision bf16");
            }
            return ST_OK;
        }
    }
    return err_set(err, ST_USAGE, "--precision is f64, f32 or bf16, not '%s'", text);
}

/* r=8,alpha=16,targets=q_proj+v_proj,rslora */
static enum status read_lora(struct train_job *job, struct err *err)
{
    const char *text = cli_value(job->cli, "lora", NULL);
    struct str rest = str_of(text);
    struct str part;
    struct lora_options *lora = &job->model.lora;
    const char *adapter = cli_value(job->cli, "adapter", NULL);
    if (adapter != NULL && text != NULL) {
        return err_set(err, ST_USAGE, "--adapter brings its own settings: leave --lora out");
    }
    if (adapter != NULL) {
        return lora_read_config(job->arena, adapter, lora, err);
    }
    if (text == NULL) {
        return ST_OK;
    }
    *lora = (struct lora_options){.rank = 8, .targets = "all-linear"};
    while (str_cut(&rest, ',', &part)) {
        struct str key = {0};
        uint64_t rank = 1;
        bool fine = true;
        (void)str_cut(&part, '=', &key);
        if (str_is(key, "r")) {
            fine = str_to_u64(part, 10, &rank) == ST_OK && rank > 0 && rank <= 65536;
            lora->rank = (size_t)rank;
        } else if (str_is(key, "alpha")) {
            fine = str_to_double(part, &lora->alpha) == ST_OK && lora->alpha > 0 &&
                   lora->alpha <= 1e6;
        } else if (str_is(key, "targets") && part.n != 0) {
            char *targets = str_dup(job->arena, part);
            for (char *p = targets; *p != '\0'; p++) {
                *p = *p == '+' ? ',' : *p;
            }
            lora->targets = targets;
        } else if (str_is(key, "rslora")) {
            lora->rank_stabilised = true;
        } else {
            fine = false;
        }
        if (!fine) {
            return err_set(err, ST_USAGE,
                           "--lora takes r=N,alpha=X,targets=NAME+NAME,rslora (each may be left "
                           "out), not '%s'",
                           text);
        }
    }
    lora->alpha = lora->alpha > 0 ? lora->alpha : 2 * (double)lora->rank;
    return ST_OK;
}

static enum status read_words(struct train_job *job, struct err *err)
{
    const char *schedule = cli_value(job->cli, "schedule", "cosine");
    struct schedule *s = &job->options.schedule;
    if (!schedule_find(str_of(schedule), &s->kind)) {
        return err_set(err, ST_USAGE,
                       "--schedule is constant, linear, cosine or three-stage, not '%s'", schedule);
    }
    if (s->kind == SCHEDULE_THREE_STAGE) {
        s->warmup = cli_value(job->cli, "warmup", NULL) != NULL ? s->warmup : 500;
        s->minimum = cli_value(job->cli, "min-lr", NULL) != NULL ? s->minimum : s->lr / 60;
    }
    struct clip *c = &job->options.clip;
    c->kind = cli_flag(job->cli, "zclip") ? CLIP_ZCLIP : c->max_norm > 0 ? CLIP_FIXED : CLIP_NONE;
    if (c->kind == CLIP_ZCLIP && !(c->max_norm > 0)) {
        return err_set(err, ST_USAGE, "--zclip needs a limit: give --clip a number above 0");
    }
    job->pack = cli_flag(job->cli, "pack");
    job->options.limits.shuffle = !cli_flag(job->cli, "no-shuffle");
    job->options.brief = cli_flag(job->cli, "brief");
    job->model.random = cli_flag(job->cli, "random");
    job->model.recompute = cli_flag(job->cli, "recompute");
    job->model.reference = cli_flag(job->cli, "reference");
    const char *blas = cli_value(job->cli, "blas", model_fastest_blas());
    job->model.blas = blas != NULL && strcmp(blas, "own") == 0 ? "" : blas;
    job->data.learn_prompt = cli_flag(job->cli, "learn-prompt");
    job->data.template_name = cli_value(job->cli, "template", NULL);
    return ST_OK;
}

static bool is_beta(struct str text, double *ret)
{
    return str_to_double(text, ret) == ST_OK && *ret >= 0 && *ret < 1;
}

/* 0.9,0.999 */
static enum status read_betas(struct train_job *job, struct err *err)
{
    const char *text = cli_value(job->cli, "betas", "0.9,0.999");
    struct str rest = str_of(text);
    struct str first = {0};
    (void)str_cut(&rest, ',', &first);
    if (!is_beta(first, &job->options.optim.beta1) || !is_beta(rest, &job->options.optim.beta2)) {
        return err_set(err, ST_USAGE,
                       "--betas takes two numbers from 0 to below 1, '0.9,0.999', not '%s'", text);
    }
    return ST_OK;
}

static enum status read_threads(struct train_job *job, struct err *err)
{
    const char *text = cli_value(job->cli, "threads", NULL);
    uint64_t threads = 0;
    if (text != NULL &&
        (str_to_u64(str_of(text), 10, &threads) != ST_OK || threads == 0 || threads > 256)) {
        return err_set(err, ST_USAGE, "--threads takes a number from 1 to 256, not '%s'", text);
    }
    job->model.threads = job->options.threads = job->options.optim.threads = (unsigned)threads;
    return ST_OK;
}

/* ---- the model's folder ---- */

const char *train_absolute(struct train_job *job, const char *path)
{
    char here[4096];
    if (path == NULL || path[0] == '/' || getcwd(here, sizeof here) == NULL) {
        return path;
    }
    return arena_fmt(job->arena, "%s/%s", here, path);
}

static enum status open_tokenizer(struct train_job *job, struct err *err)
{
    enum status status = tok_open(job->arena, job->model_dir, &(struct tok_options){0},
                                  &job->tokenizer, err);
    if (status == ST_ABSENT) {
        job->tokenizer = NULL;
        return ST_OK;
    }
    return status;
}

/* eos_token_id of config.json: a number, or the first of a list. */
static int32_t eos_of(const struct model_config *c)
{
    const struct tree *t = tree_get(c->root, "eos_token_id");
    if (t == NULL) {
        t = tree_get(c->text, "eos_token_id");
    }
    if (t != NULL && t->kind == TREE_LIST) {
        t = t->child;
    }
    if (t == NULL || t->kind != TREE_SCALAR || t->value.kind != VALUE_INT || t->value.integer < 0 ||
        (uint64_t)t->value.integer >= c->vocab) {
        return DATA_NO_ID;
    }
    return (int32_t)t->value.integer;
}

static enum status read_model_folder(struct train_job *job, struct err *err)
{
    TRY(config_read(job->arena, job->model_dir, &job->config, err));
    TRY(open_tokenizer(job, err));
    job->data.tokenizer = job->tokenizer;
    job->data.vocab = job->config.vocab;
    job->data.vision = job->config.vision;
    job->data.eos = eos_of(&job->config);
    return ST_OK;
}

enum status train_job_init(struct cli *cli, struct train_job *ret_job, struct err *err)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGESIZE);
    struct train_job *job = ret_job;
    *job = (struct train_job){.cli = cli,
                              .arena = arena_new((size_t)pages * (size_t)page),
                              .model_dir = cli->operands.items[0],
                              .options = {.accumulate = 1, .optim = OPTIM_DEFAULTS},
                              .epochs = 1,
                              .keep = 2,
                              .length = 512};
    job->options.limits = (struct batch_limits){.sequences = 1, .seed = 42};
    job->options.schedule = (struct schedule){.lr = 5e-5, .hold = 5000};
    job->options.clip.max_norm = 1;
    TRY(read_counts(job, err));
    TRY(read_reals(job, err));
    TRY(read_precision(job, err));
    TRY(read_lora(job, err));
    TRY(read_words(job, err));
    TRY(read_betas(job, err));
    TRY(read_threads(job, err));
    job->output = train_absolute(job, cli_value(cli, "save", NULL));
    job->model.seed = job->options.limits.seed;
    job->options.eval_every = job->eval_every;
    job->options.save_every = job->save_every;
    job->data.length = (size_t)job->length;
    job->options.limits.tokens = job->pack ? (size_t)job->length * job->options.limits.sequences
                                           : 0;
    return read_model_folder(job, err);
}

void train_job_done(struct train_job *job)
{
    if (job->tokenizer != NULL) {
        tok_close(job->tokenizer);
    }
    arena_free(job->arena);
}

int train_exit(enum status status)
{
    return status == ST_USAGE ? EXIT_USAGE : EXIT_UNKNOWN;
}

/* ---- settings ---- */

static void set(struct train_job *job, const char *name, const char *value)
{
    job->settings[job->setting_count++] = (struct save_setting){name, value};
}

void train_job_settings(struct train_job *job)
{
    static const char *const numbers[] = {"batch", "accumulate", "seed", "warmup"};
    static const char *const precisions[PRECISION_COUNT] = {"f64", "f32", "bf16"};
    const struct train_options *o = &job->options;
    struct arena *a = job->arena;
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        for (size_t k = 0; k < ARRAY_LEN(numbers); k++) {
            if (strcmp(counts[i].name, numbers[k]) == 0) {
                uint64_t value = *(const uint64_t *)(const void *)((const char *)job +
                                                                   counts[i].at);
                set(job, counts[i].name, arena_fmt(a, "%" PRIu64, value));
            }
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(reals); i++) {
        if (strcmp(reals[i].name, "epochs") != 0 && strcmp(reals[i].name, "eval-share") != 0) {
            double value = *(const double *)(const void *)((const char *)job + reals[i].at);
            set(job, reals[i].name, arena_fmt(a, "%.17g", value));
        }
    }
    set(job, "betas", arena_fmt(a, "%.17g,%.17g", o->optim.beta1, o->optim.beta2));
    set(job, "precision", precisions[job->model.precision]);
    set(job, "pure", o->optim.pure ? "on" : "off");
    set(job, "pack", job->pack ? arena_fmt(a, "%zu tokens", o->limits.tokens) : "off");
    set(job, "no-shuffle", o->limits.shuffle ? "off" : "on");
    set(job, "zclip", o->clip.kind == CLIP_ZCLIP ? "on" : "off");
    set(job, "schedule", schedule_name(o->schedule.kind));
    if (o->schedule.kind == SCHEDULE_LINEAR || o->schedule.kind == SCHEDULE_COSINE) {
        set(job, "steps", arena_fmt(a, "%" PRIu64, o->steps));
    }
    set(job, "lora",
        job->model.lora.rank == 0
            ? "off"
            : arena_fmt(a, "r=%zu,alpha=%.17g,targets=%s%s", job->model.lora.rank,
                        job->model.lora.alpha, job->model.lora.targets,
                        job->model.lora.rank_stabilised ? ",rslora" : ""));
}

/* ---- data ---- */

static enum status read_files(struct train_job *job, const char *option, struct dataset *d,
                              struct err *err)
{
    const char *path;
    for (size_t i = 0; (path = cli_repeat(job->cli, option, i)) != NULL; i++) {
        TRY(data_read(job->arena, path, &job->data, d, err));
    }
    return ST_OK;
}

static void note_losses(const struct train_job *job, const struct dataset *d, const char *what)
{
    if (d->truncated != 0) {
        cli_note(job->cli, "%s: %" PRIu64 " samples were cut to %" PRIu64 " tokens (--length)",
                 what, d->truncated, job->length);
    }
    if (d->dropped != 0) {
        cli_note(job->cli,
                 "%s: %" PRIu64 " samples without a label were left out, the first at line %zu",
                 what, d->dropped, d->dropped_line);
    }
    if (d->template_name != NULL) {
        cli_note(job->cli, "%s: conversations are written with the template '%s'", what,
                 d->template_name);
    }
}

enum status train_job_data(struct train_job *job, struct dataset *ret_train,
                           struct dataset *ret_eval, struct err *err)
{
    *ret_train = *ret_eval = (struct dataset){0};
    if (cli_repeat(job->cli, "data", 0) == NULL) {
        return err_set(err, ST_USAGE, "give training data with --data FILE");
    }
    TRY(read_files(job, "data", ret_train, err));
    note_losses(job, ret_train, "training data");
    TRY(read_files(job, "eval", ret_eval, err));
    note_losses(job, ret_eval, "evaluation data");
    if (ret_train->samples.count > DATA_ORDER_MAX) {
        return err_set(err, ST_LIMIT, "more than %d samples", DATA_ORDER_MAX);
    }
    if (job->eval_share > 0) {
        if (ret_eval->samples.count != 0) {
            return err_set(err, ST_USAGE, "--eval and --eval-share exclude each other");
        }
        TRY(data_split(job->arena, ret_train, job->eval_share, job->options.limits.seed, ret_eval,
                       err));
    }
    return ST_OK;
}
