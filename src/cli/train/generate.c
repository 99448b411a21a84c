// SPDX-License-Identifier: Apache-2.0
/*
 * assay train MODEL --generate PROMPT: a look at what a model says. Every token runs the whole sequence forward
 * again; it is meant for some dozens of tokens, not for service.
 */
#include <inttypes.h>
#include <math.h>

#include "cli/train/train.h"

enum {
    TOKENS_MAX = 4096
};

struct speech {
    struct train_job *job;
    struct train_model *model;
    struct tok_ids ids;
    size_t prompt; /* ids of it */
    uint64_t tokens;
    double temperature; /* 0: the likeliest */
    uint64_t random;    /* state of splitmix64 */
};

static double draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static size_t likeliest(const double *logits, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return best;
}

static size_t sample(const double *logits, size_t n, double temperature, uint64_t *random)
{
    double top = logits[likeliest(logits, n)];
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += exp((logits[i] - top) / temperature);
    }
    double left = draw(random) * sum;
    for (size_t i = 0; i < n; i++) {
        left -= exp((logits[i] - top) / temperature);
        if (left < 0) {
            return i;
        }
    }
    return likeliest(logits, n);
}

/* One more token; ST_ABSENT when the model ended its text. */
static enum status next_token(struct speech *s, struct err *err)
{
    struct arena *a = s->job->arena;
    struct arena_mark mark = arena_mark(a);
    size_t n = s->ids.count;
    size_t vocab = model_vocab(s->model);
    int32_t *ids = arena_array(a, n, sizeof *ids);
    int32_t *labels = arena_array(a, n, sizeof *labels);
    double *logits = arena_array(a, vocab, sizeof *logits);
    const size_t start[2] = {0, n};
    double loss;
    size_t counted;
    for (size_t i = 0; i < n; i++) {
        ids[i] = (int32_t)s->ids.items[i];
        labels[i] = LABEL_IGNORED;
    }
    struct train_batch batch = {
        .tokens = n, .sequences = 1, .ids = ids, .labels = labels, .start = start};
    TRY(model_forward(s->model, &batch, &loss, &counted, err));
    model_logits(s->model, n - 1, 1, logits);
    size_t id = s->temperature > 0 ? sample(logits, vocab, s->temperature, &s->random)
                                   : likeliest(logits, vocab);
    double value = logits[id];
    arena_rewind(a, mark);
    if (!isfinite(value)) {
        return err_set(err, ST_FORMAT, "the logit of the next token is not finite (%g)", value);
    }
    s->ids.items[s->ids.count++] = (uint32_t)id;
    return (int32_t)id == s->job->data.eos ? ST_ABSENT : ST_OK;
}

static enum status encode_prompt(struct speech *s, const char *prompt, struct err *err)
{
    struct tok_encoder *e = tok_encoder_new(s->job->tokenizer);
    enum status status = tok_encode(e, s->job->arena, str_of(prompt), TOK_SPECIALS, &s->ids, err);
    tok_encoder_free(e);
    TRY(status);
    if (s->ids.count == 0 && s->job->data.eos != DATA_NO_ID) {
        *VEC_PUSH(s->job->arena, &s->ids) = (uint32_t)s->job->data.eos;
    }
    if (s->ids.count == 0) {
        return err_set(err, ST_USAGE,
                       "the prompt is empty, and the model has no token to begin with");
    }
    s->prompt = s->ids.count;
    uint32_t *room = arena_array(s->job->arena, s->prompt + (size_t)s->tokens, sizeof *room);
    for (size_t i = 0; i < s->prompt; i++) {
        room[i] = s->ids.items[i];
    }
    s->ids.items = room;
    return ST_OK;
}

static enum status speak(struct speech *s, struct strbuf *out, struct err *err)
{
    const struct train_job *job = s->job;
    enum status status = ST_OK;
    for (uint64_t i = 0; i < s->tokens && status == ST_OK; i++) {
        cli_progress(job->cli, "token %" PRIu64 " of %" PRIu64, i + 1, s->tokens);
        status = next_token(s, err);
    }
    cli_progress(job->cli, NULL);
    if (status != ST_OK && status != ST_ABSENT) {
        return status;
    }
    status = tok_decode(job->tokenizer, job->arena, s->ids.items, s->ids.count, true, out, err);
    if (status == ST_USAGE) { /* the model's vocabulary is larger: not what the user typed */
        return err_set(err, ST_FORMAT, "the model said an id that its tokenizer does not have");
    }
    return status;
}

static enum status read_speech(struct train_job *job, struct speech *s, struct err *err)
{
    const char *tokens = cli_value(job->cli, "tokens", "64");
    const char *temperature = cli_value(job->cli, "temperature", "0");
    if (job->tokenizer == NULL) {
        return err_set(err, ST_ABSENT, "there is no tokenizer in '%s'", job->model_dir);
    }
    if (str_to_u64(str_of(tokens), 10, &s->tokens) != ST_OK || s->tokens == 0 ||
        s->tokens > TOKENS_MAX) {
        return err_set(err, ST_USAGE, "--tokens takes a number from 1 to %d, not '%s'", TOKENS_MAX,
                       tokens);
    }
    if (str_to_double(str_of(temperature), &s->temperature) != ST_OK ||
        !(s->temperature >= 0 && s->temperature <= 100)) {
        return err_set(err, ST_USAGE, "--temperature takes a number from 0 to 100, not '%s'",
                       temperature);
    }
    s->random = job->options.limits.seed;
    return ST_OK;
}

int train_generate(struct train_job *job)
{
    struct err err = {0};
    struct speech s = {.job = job};
    struct strbuf out;
    strbuf_init(&out, job->arena, 1 << 24);
    enum status status = read_speech(job, &s, &err);
    if (status == ST_OK) {
        status = model_open(job->arena, job->model_dir, &job->model, &s.model, &err);
    }
    if (status == ST_OK) {
        status = encode_prompt(&s, cli_value(job->cli, "generate", ""), &err);
    }
    if (status == ST_OK) {
        status = speak(&s, &out, &err);
    }
    if (s.model != NULL) {
        model_close(s.model);
    }
    if (status != ST_OK) {
        return cli_fail(job->cli, train_exit(status), "%s", err.text);
    }
    strbuf_addc(&out, '\n');
    return cli_emit(job->cli, strbuf_str(&out), EXIT_FINE);
}
