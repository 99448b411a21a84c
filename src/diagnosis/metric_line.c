// SPDX-License-Identifier: Apache-2.0
/* See metric_line.h. Written for speed: a busy log has millions of these lines. */
#include "diagnosis/metric_line.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "diagnosis/line_text.h"

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
    ALIAS("iter_time", "step_time", 1),
    ALIAS("step_time", "step_time", 1),
    ALIAS("time per step", "step_time", 1),
    ALIAS("data_time", "data_time", 1),
    ALIAS("tps", "tokens_per_s", 1),
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

static bool is_sep(char c)
{
    return c == ':' || c == '=';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static double scaled(double v, int exponent)
{
    while (exponent > 22) {
        v *= 1e22;
        exponent -= 22;
    }
    while (exponent < -22) {
        v /= 1e22;
        exponent += 22;
    }
    return exponent >= 0 ? v * powers[exponent] : v / powers[-exponent];
}

double metric_scale(double digits, int exponent)
{
    exponent = exponent > 400 ? 400 : exponent < -400 ? -400 : exponent;
    return digits != 0 ? scaled(digits, exponent) : 0;
}

static bool word_at(struct str s, size_t at, const char *word)
{
    size_t n = strlen(word);
    if (s.n - at < n || at > s.n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (lower(s.p[at + i]) != word[i]) {
            return false;
        }
    }
    return at + n == s.n || !word_char(s.p[at + n]);
}

enum {
    EXACT_DIGITS = 15, /* all numbers of so many are doubles */
    FRACTION_MAX = 18  /* digits behind the point that count */
};

/* Digits from *at on, into *value; moves *at behind them and gives their number. */
static size_t read_digits(struct str s, size_t *at, uint64_t *value)
{
    size_t i = *at;
    uint64_t v = *value;
    for (; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++) {
        v = v * 10 + (uint64_t)(s.p[i] - '0');
    }
    size_t count = i - *at;
    *at = i;
    *value = v;
    return count;
}

/* The digits of `text`, of which those behind FRACTION_MAX of a fraction do not count. */
static double many_digits(struct str text)
{
    double v = 0;
    bool fraction = false;
    int behind = 0;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == '.') {
            fraction = true;
        } else if (behind < FRACTION_MAX) {
            v = v * 10 + (text.p[i] - '0');
            behind += fraction;
        }
    }
    return v;
}

double metric_number(struct str s, size_t *ret_length)
{
    size_t at = 0;
    *ret_length = 0;
    bool minus = s.n != 0 && s.p[0] == '-';
    at += s.n != 0 && (s.p[0] == '-' || s.p[0] == '+');
    if (at < s.n && lower(s.p[at]) == 'n' && word_at(s, at, "nan")) {
        *ret_length = at + 3;
        return NAN;
    }
    if (at < s.n && lower(s.p[at]) == 'i') {
        bool infinity = word_at(s, at, "infinity");
        if (infinity || word_at(s, at, "inf")) {
            *ret_length = at + (infinity ? 8 : 3);
            return minus ? -INFINITY : INFINITY;
        }
    }
    size_t from = at;
    uint64_t exact = 0;
    size_t digits = read_digits(s, &at, &exact);
    size_t behind = 0;
    if (at < s.n && s.p[at] == '.') {
        at++;
        behind = read_digits(s, &at, &exact);
        digits += behind;
    }
    if (digits == 0) {
        return NAN;
    }
    double v = digits <= EXACT_DIGITS ? (double)exact : many_digits(str_slice(s, from, at));
    int exponent = behind < FRACTION_MAX ? -(int)behind : -FRACTION_MAX;
    if (at + 1 < s.n && (s.p[at] == 'e' || s.p[at] == 'E')) {
        size_t e = at + 1 + (s.p[at + 1] == '-' || s.p[at + 1] == '+');
        int power = 0;
        size_t begin = e;
        for (; e < s.n && s.p[e] >= '0' && s.p[e] <= '9' && e - begin < 4; e++) {
            power = power * 10 + (s.p[e] - '0');
        }
        if (e > begin) {
            exponent += s.p[at + 1] == '-' ? -power : power;
            at = e;
        }
    }
    v = metric_scale(v, exponent);
    *ret_length = at;
    return minus ? -v : v;
}

/* The key that ends at `end` (exclusive): as far left as it could reach. */
static struct str key_before(struct str line, size_t end)
{
    while (end != 0 &&
           (line.p[end - 1] == ' ' || line.p[end - 1] == '\'' || line.p[end - 1] == '"')) {
        end--;
    }
    size_t start = end;
    while (start != 0 && end - start < METRIC_NAME_MAX - 1) {
        char c = line.p[start - 1];
        bool inside = word_char(c) || c == '/' || c == '.' || c == '-' || c == '(' || c == ')' ||
                      c == '#';
        bool space = c == ' ' && start >= 2 && word_char(line.p[start - 2]);
        if (!inside && !space) {
            break;
        }
        start--;
    }
    return str_slice(line, start, end);
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

static bool ends_with_key(struct str text, const char *key)
{
    return ends_with(text, key, strlen(key));
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

/* A number that stands at `p` in the line which begins at `line`. */
struct number {
    const char *p;
    double value;
    double scale;
};

static void add(struct metric_line *out, const char *line, const char *name, struct number v)
{
    for (size_t i = 0; i < out->count; i++) {
        if (strcmp(out->items[i].name, name) == 0) {
            return; /* the first in the line counts */
        }
    }
    if (out->count == METRICS_MAX) {
        return;
    }
    out->items[out->count++] = (struct metric){
        .name = name, .value = v.value * v.scale, .scale = v.scale, .at = (uint16_t)(v.p - line)};
}

/* The same with a name that is kept in `out`. */
static void add_named(struct metric_line *out, const char *line, const char *name, struct number v)
{
    size_t before = out->count;
    add(out, line, name, v);
    if (out->count != before) {
        memcpy(out->names[before], name, strlen(name) + 1);
        out->items[before].name = out->names[before];
        out->special |= strpbrk(name, "0123456789") != NULL; /* the name is not the shape's */
    }
}

/* "[D loss: 0.7, acc.: 50%] [G loss: 0.9]": a one-letter word before makes it a loss of its own. */
static bool lettered_loss(struct str key, char name[METRIC_NAME_MAX])
{
    size_t n = key.n;
    if (n < 6 || !ends_with_key(key, "loss") || key.p[n - 5] != ' ' ||
        !isupper((unsigned char)key.p[n - 6]) || (n > 6 && key.p[n - 7] != ' ')) {
        return false;
    }
    name[0] = lower(key.p[n - 6]);
    memcpy(name + 1, "_loss", 6);
    return true;
}

static void take_pair(struct metric_line *out, const char *line, struct str key, struct str rest)
{
    size_t skip = 0;
    while (skip < rest.n && skip < 12 &&
           (rest.p[skip] == ' ' || rest.p[skip] == '\'' || rest.p[skip] == '"' ||
            rest.p[skip] == '\t')) {
        skip++;
    }
    if (key.n == 0) {
        return;
    }
    rest = str_slice(rest, skip, rest.n);
    rest = str_starts(rest, "tensor(") ? str_slice(rest, 7, rest.n) : rest;
    size_t length;
    double v = metric_number(rest, &length);
    if (length == 0) {
        return;
    }
    if (lower(key.p[key.n - 1]) == 'e' && ends_with_key(key, "train_runtime")) {
        out->final = true;
        return;
    }
    char name[METRIC_NAME_MAX];
    struct number number = {.p = rest.p, .value = v, .scale = 1};
    const struct alias *alias = NULL;
    if (lettered_loss(key, name) || ((alias = alias_of(key)) == NULL && own_loss_name(key, name))) {
        add_named(out, line, name, number);
        return;
    }
    if (alias == NULL) {
        return;
    }
    if (strcmp(alias->name, "tokens_per_s") == 0) { /* "tps: 1,234" */
        while (length + 4 <= rest.n && rest.p[length] == ',' &&
               line_digits(str_slice(rest, length + 1, length + 4)).n == 3) {
            v = v * 1000 + (double)line_number(str_slice(rest, length + 1, length + 4), "", 0);
            length += 4;
            out->special = true;
        }
    }
    out->special |= !(v < 1e14 && v > -1e14) && strstr(alias->name, "step") != NULL;
    if (strcmp(alias->name, "step") == 0 && v >= 0 && v < 1e15) {
        out->special |= out->step >= 0;
        out->step = (int64_t)v > out->step ? (int64_t)v : out->step;
    } else if (strcmp(alias->name, "total_steps") == 0 && v >= 0 && v < 1e15) {
        out->special = true;
        out->total = (int64_t)v;
        return;
    }
    number.value = v;
    number.scale = alias->scale;
    add(out, line, alias->name, number);
}

/* " iteration      100/   10000 |" of Megatron. */
static void megatron_step(struct metric_line *out, struct str line)
{
    size_t at = str_find(line, "iteration ", 0);
    size_t slash = at == SIZE_MAX ? SIZE_MAX : str_find_char(line, '/', at);
    if (slash == SIZE_MAX || slash - at > 24) {
        return;
    }
    int64_t step = line_number(str_slice(line, at, slash), "iteration ", -1);
    int64_t total = line_number(str_slice(line, slash, line.n), "/", -1);
    if (step >= 0 && total > 0) {
        out->step = step;
        out->total = total;
        out->special = true;
        add(out, line.p, "step", (struct number){.p = line.p, .value = (double)step, .scale = 1});
    }
}

/* Where `s` begins as "200/300" or "200 / 300" does, the place of the sign; else SIZE_MAX. It depends on the shape of
 * the line alone. */
static size_t count_sign(struct str s)
{
    size_t slash = str_find_char(s, '/', 0);
    bool digits = slash < 20 && s.n > 0 && isdigit((unsigned char)s.p[0]);
    for (size_t i = 0; digits && i < slash; i++) {
        digits = isdigit((unsigned char)s.p[i]) || s.p[i] == ' ';
    }
    size_t after = digits && slash + 1 < s.n && s.p[slash + 1] == ' ' ? slash + 2 : slash + 1;
    return digits && after < s.n && isdigit((unsigned char)s.p[after]) ? slash : SIZE_MAX;
}

/* "step 200/300 | loss=0.5", "[Iter 20 / 300] loss: 0.5": which of how many. Lines without a metric have such
 * pairs too ("step 1/3: reading"). */
static void counted_step(struct metric_line *out, struct str line)
{
    static const char *const words[] = {"tep ", "teration ", "ter "};
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
        size_t at = str_find(line, words[w], 1);
        if (at == SIZE_MAX || strchr("sSiI", line.p[at - 1]) == NULL ||
            (at >= 2 && (isalpha((unsigned char)line.p[at - 2]) || line.p[at - 2] == '_'))) {
            continue;
        }
        struct str rest = str_slice(line, at + strlen(words[w]), line.n);
        size_t slash = count_sign(rest);
        if (slash == SIZE_MAX) {
            continue;
        }
        int64_t step = line_number(rest, "", -1);
        int64_t total = line_number(str_slice(rest, slash, rest.n), "/", -1);
        out->special = true;
        if (step >= 0 && total > 0 && step <= total) {
            out->step = step;
            out->total = total;
            add(out, line.p, "step",
                (struct number){.p = line.p, .value = (double)step, .scale = 1});
            return;
        }
    }
}

/* Words that say which step a line without signs is about. */
static bool names_a_step(struct str key)
{
    return ends_with_key(key, "step") || ends_with_key(key, "iter") ||
           ends_with_key(key, "iteration") || ends_with_key(key, "epoch");
}

/* The number behind the space at `at`, when nothing but a separator follows it. */
static bool bare_number(struct str line, size_t at)
{
    struct str rest = str_slice(line, at + 1, line.n);
    if (rest.n == 0 || rest.p[0] == ' ') {
        return false;
    }
    size_t length;
    (void)metric_number(rest, &length);
    return length != 0 && (length == rest.n || strchr(" ,|;:])", rest.p[length]) != NULL);
}

/* transformers opens a training with what it is going to do: "Num update steps per epoch = 50", "Gradient
 * Accumulation steps = 2", "Total optimization steps = 40". No step was made yet. */
static bool is_setting(struct str line)
{
    return str_has(line, " = ") && (str_has(line, "  Num ") || str_has(line, "  Total ") ||
                                    str_has(line, "Accumulation steps = "));
}

/*
 * "step 10 lm_loss 2.412 grad_norm 1.31": names and numbers with no sign between. Prose has such
 * pairs too ("the best loss 1.2"), so the line must name its step before the loss.
 */
static void bare_pairs(struct metric_line *out, struct str line)
{
    if (str_find(line, "loss ", 0) == SIZE_MAX) {
        return;
    }
    bool step_named = false;
    for (size_t i = 1; i < line.n; i++) {
        if (line.p[i] == ' ' && names_a_step(key_before(line, i)) &&
            count_sign(str_slice(line, i + 1, line.n)) != SIZE_MAX) {
            step_named = true; /* counted_step takes it */
        }
        if (line.p[i] != ' ' || !bare_number(line, i)) {
            continue;
        }
        struct str key = key_before(line, i);
        if (key.n == 0 || str_find(key, "best", 0) != SIZE_MAX ||
            str_find(key, "final", 0) != SIZE_MAX) {
            continue;
        }
        step_named |= names_a_step(key);
        if (step_named) {
            take_pair(out, line.p, key, str_slice(line, i + 1, line.n));
        }
    }
}

void metric_line_parse(struct str line, struct metric_line *ret_line)
{
    struct metric_line *out = ret_line;
    out->count = 0;
    out->final = false;
    out->special = false;
    out->step = -1;
    out->total = -1;
    for (size_t i = 1; i < line.n; i++) {
        if (!is_sep(line.p[i]) || (i + 1 < line.n && is_sep(line.p[i + 1]))) {
            continue;
        }
        char before = line.p[i - 1];
        /* clock times and file:line are no pairs */
        if (before >= '0' && before <= '9') {
            continue;
        }
        take_pair(out, line.p, key_before(line, i), str_slice(line, i + 1, line.n));
    }
    bare_pairs(out, line);
    if (memchr(line.p, '|', line.n) != NULL) {
        megatron_step(out, line);
    }
    if (out->count > 0 && out->step < 0 && memchr(line.p, '/', line.n) != NULL) {
        counted_step(out, line);
    }
    if (out->count > 0 && is_setting(line)) {
        out->count = 0;
        out->step = -1;
        return;
    }
    /* HF's table of the whole run, "  train_loss               =     5.8954": a mean again. */
    out->final = out->final || str_starts(line, "  train_loss   ");
    if (!out->final) {
        return;
    }
    size_t kept = 0; /* the closing dict repeats averages; its loss is no step of the series */
    for (size_t i = 0; i < out->count; i++) {
        if (strcmp(out->items[i].name, "loss") != 0) {
            out->items[kept++] = out->items[i];
        }
    }
    out->count = kept;
}
