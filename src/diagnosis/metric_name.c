// SPDX-License-Identifier: Apache-2.0
/* See metric_name.h. */
#include "diagnosis/metric_name.h"

#include <ctype.h>
#include <string.h>

/* Key endings and the names they stand for. The longest fitting row of a last letter comes first. */
struct alias {
    const char *key;
    size_t n;  /* its length */
    char last; /* its last letter, to pass over most rows quickly */
    const char *name;
    double scale;
};

#define ALIAS(text, meaning, factor)                                                         \
 {                                                                                           \
  .key = (text), .n = sizeof(text) - 1, .last = (text)[sizeof(text) - 2], .name = (meaning), \
  .scale = (factor)                                                                          \
 }
static const struct alias aliases[] = {
    ALIAS("eval_loss", "eval_loss", 1),
    ALIAS("eval/loss", "eval_loss", 1),
    ALIAS("val_loss", "eval_loss", 1),
    ALIAS("valid_loss", "eval_loss", 1),
    ALIAS("val/loss", "eval_loss", 1),
    ALIAS("validation loss", "eval_loss", 1),
    ALIAS("validation_loss", "eval_loss", 1),
    ALIAS("val loss", "eval_loss", 1),
    ALIAS("test_loss", "eval_loss", 1),
    ALIAS("loss/eval/total", "eval_loss", 1), /* Composer */
    ALIAS("loss/train/total", "loss", 1),
    ALIAS("reduced_train_loss", "loss", 1), /* NeMo */
    ALIAS("loss train", "loss", 1),         /* LitGPT */
    ALIAS("crossentropyloss", "loss", 1),   /* OLMo */
    ALIAS("cross-entropy", "loss", 1),
    ALIAS("cross_entropy", "loss", 1),
    ALIAS("step_loss", "loss", 1),
    ALIAS("train_loss", "loss", 1),
    ALIAS("train/loss", "loss", 1),
    ALIAS("training_loss", "loss", 1),
    ALIAS("train loss", "loss", 1),
    ALIAS("training loss", "loss", 1),
    ALIAS("avr_loss", "loss", 1),
    ALIAS("avg_loss", "loss", 1),
    ALIAS("lm loss", "loss", 1),
    ALIAS("lm_loss", "loss", 1),
    ALIAS("total_loss", "loss", 1),
    ALIAS("loss", "loss", 1),
    ALIAS("gradient_norm", "grad_norm", 1),
    ALIAS("l2_norm/grad/global", "grad_norm", 1),
    ALIAS("total_grad_norm", "grad_norm", 1),
    ALIAS("grad_norm", "grad_norm", 1),
    ALIAS("grad norm", "grad_norm", 1),
    ALIAS("gradnorm", "grad_norm", 1),
    ALIAS("gnorm", "grad_norm", 1),
    ALIAS("learning_rate", "lr", 1),
    ALIAS("learning rate", "lr", 1),
    ALIAS("lr", "lr", 1),
    ALIAS("loss_scale", "loss_scale", 1),
    ALIAS("loss scale", "loss_scale", 1),
    ALIAS("elapsed time per iteration (ms)", "step_time", 1e-3),
    ALIAS("elapsed_time_per_iteration_ms", "step_time", 1e-3),
    ALIAS("train_step_timing in s", "step_time", 1),
    ALIAS("iter time (s)", "step_time", 1),
    ALIAS("iter time", "step_time", 1),
    ALIAS("iter_dt", "step_time", 1),
    ALIAS("step_avg", "step_time", 1),
    ALIAS("step time", "step_time", 1),
    ALIAS("time_per_step", "step_time", 1),
    ALIAS("avg_batch_cost", "step_time", 1),
    ALIAS("batch_time", "step_time", 1),
    ALIAS("updt_s", "step_time", 1),
    ALIAS("dt", "step_time", 1),
    ALIAS("iter_time", "step_time", 1),
    ALIAS("step_time", "step_time", 1),
    ALIAS("time per step", "step_time", 1),
    ALIAS("data_time", "data_time", 1),
    ALIAS("data time", "data_time", 1),
    ALIAS("tps", "tokens_per_s", 1),
    ALIAS("tok/sec", "tokens_per_s", 1),
    ALIAS("tokens/sec", "tokens_per_s", 1),
    ALIAS("tokens_per_sec", "tokens_per_s", 1),
    ALIAS("wps", "tokens_per_s", 1), /* fairseq */
    ALIAS("tokens/s", "tokens_per_s", 1),
    ALIAS("tokens_per_second", "tokens_per_s", 1),
    ALIAS("tokens_per_second_per_gpu", "tokens_per_s", 1),
    ALIAS("tflops", "tflops", 1),
    ALIAS("throughput per gpu (tflop/s/gpu)", "tflops", 1),
    ALIAS("mfu", "mfu", 1),
    ALIAS("epoch", "epoch", 1),
    ALIAS("ppl", "ppl", 1),
    ALIAS("perplexity", "ppl", 1),
    ALIAS("reward", "reward", 1),
    ALIAS("kl", "kl", 1),
    ALIAS("entropy", "entropy", 1),
    ALIAS("mean_token_accuracy", "accuracy", 1),
    ALIAS("accuracy", "accuracy", 1),
    ALIAS("number of nan iterations", "nan_iterations", 1),
    ALIAS("number of skipped iterations", "skipped_iterations", 1),
    ALIAS("global_step", "step", 1),
    ALIAS("current_steps", "step", 1),
    ALIAS("total_steps", "total_steps", 1),
    ALIAS("steps", "step", 1),
    ALIAS("step", "step", 1),
};

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool ends_with(struct str text, const char *key, size_t n)
{
    if (text.n < n || lower(text.p[text.n - 1]) != key[n - 1]) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (lower(text.p[text.n - n + i]) != key[i]) {
            return false;
        }
    }
    char before = text.n > n ? text.p[text.n - n - 1] : ' ';
    return !word_char(before) && before != '-';
}

bool metric_key_ends(struct str key, const char *word)
{
    return ends_with(key, word, strlen(word));
}

/* A name of our own for losses that no row knows ("aux_loss", "D loss"), else NULL. */
static bool own_loss_name(struct str key, char name[METRIC_NAME_MAX])
{
    if (key.n < 4 || memcmp(key.p + key.n - 4, "loss", 4) != 0) {
        return false;
    }
    size_t from = key.n - 4;
    while (from != 0 && (word_char(key.p[from - 1]) || key.p[from - 1] == '/')) {
        from--;
    }
    for (size_t i = from; i < key.n; i++) {
        name[i - from] = (char)(key.p[i] == '/' ? '_' : lower(key.p[i]));
    }
    name[key.n - from] = '\0';
    return true;
}

static const struct alias *alias_of(struct str key)
{
    char last = key.n != 0 ? lower(key.p[key.n - 1]) : '\0';
    for (size_t i = 0; i < ARRAY_LEN(aliases); i++) {
        if (aliases[i].last == last && ends_with(key, aliases[i].key, aliases[i].n)) {
            return &aliases[i];
        }
    }
    return NULL;
}

/* "[D loss: 0.7, acc.: 50%] [G loss: 0.9]": a one-letter word before makes it a loss of its own. */
static bool lettered_loss(struct str key, char name[METRIC_NAME_MAX])
{
    size_t n = key.n;
    if (n < 6 || !metric_key_ends(key, "loss") || key.p[n - 5] != ' ' ||
        !isupper((unsigned char)key.p[n - 6]) || (n > 6 && key.p[n - 7] != ' ')) {
        return false;
    }
    name[0] = lower(key.p[n - 6]);
    memcpy(name + 1, "_loss", 6);
    return true;
}

/* Losses that are parts of one, or of another model: "Mean value_function loss". */
static const char *const parts[] = {
    "value",       "value_function", "surrogate",     "policy",
    "actor",       "critic",         "entropy",       "kl",
    "generator",   "adversarial",    "discriminator", "reconstruction",
    "reconstruct", "commitment",     "perceptual",    "aux",
    "auxiliary",   "regularization",
};

/* "policy loss": such a word before makes it a loss of its own, too. */
static bool part_loss(struct str key, char name[METRIC_NAME_MAX])
{
    if (key.n < 7 || key.p[key.n - 5] != ' ' || !metric_key_ends(key, "loss")) {
        return false;
    }
    struct str before = str_slice(key, 0, key.n - 5);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (metric_key_ends(before, parts[i])) {
            str_print(name, METRIC_NAME_MAX, "%s_loss", parts[i]);
            return true;
        }
    }
    return false;
}

/* "eval/books/CrossEntropyLoss": of data that is held out, whatever the loss is called. */
static bool is_held_out(struct str key)
{
    return str_has(key, "eval/") || str_has(key, "val/") || str_has(key, "valid/");
}

bool metric_name_of(struct str key, struct metric_name *ret_name)
{
    struct metric_name *out = ret_name;
    out->known = NULL;
    out->scale = 1;
    if (lettered_loss(key, out->own) || part_loss(key, out->own)) {
        return true;
    }
    const struct alias *alias = alias_of(key);
    if (alias == NULL) {
        return own_loss_name(key, out->own);
    }
    out->known = strcmp(alias->name, "loss") == 0 && is_held_out(key) ? "eval_loss" : alias->name;
    out->scale = alias->scale;
    return true;
}

bool metric_key_is_time(struct str key)
{
    if (!metric_key_ends(key, "time")) {
        return false;
    }
    size_t before = key.n - 4;
    while (before != 0 && key.p[before - 1] == ' ') {
        before--;
    }
    return before == 0 || isdigit((unsigned char)key.p[before - 1]) || key.p[before - 1] == ')';
}
