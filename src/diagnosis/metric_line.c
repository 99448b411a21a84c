// SPDX-License-Identifier: Apache-2.0
/* See metric_line.h. Written for speed: a busy log has millions of these lines. */
#include "diagnosis/metric_line.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "diagnosis/line_text.h"
#include "diagnosis/metric_name.h"

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_sep(char c)
{
    return c == ':' || c == '=';
}

double metric_scale_far(double digits, int exponent)
{
    exponent = exponent > 400 ? 400 : exponent < -400 ? -400 : exponent;
    while (exponent > METRIC_EXACT) {
        digits *= 1e22;
        exponent -= METRIC_EXACT;
    }
    while (exponent < -METRIC_EXACT) {
        digits /= 1e22;
        exponent += METRIC_EXACT;
    }
    return metric_scale(digits, exponent);
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

/* "512.1ms", "512 ms", "0.5s": what the number at the front of `rest` is in seconds. */
static double seconds_of_unit(struct str rest, size_t length)
{
    length += length < rest.n && rest.p[length] == ' ';
    return word_at(rest, length, "ms") ? 1e-3 : word_at(rest, length, "us") ? 1e-6 : 1;
}

/* "1,234,567" and "40.5K": the rest of a number of tokens. */
static void long_number(struct metric_line *out, struct str rest, size_t length,
                        struct number *number)
{
    while (length + 4 <= rest.n && rest.p[length] == ',' &&
           line_digits(str_slice(rest, length + 1, length + 4)).n == 3) {
        number->value = number->value * 1000 +
                        (double)line_number(str_slice(rest, length + 1, length + 4), "", 0);
        length += 4;
        out->special = true;
    }
    number->scale *= word_at(rest, length, "k") ? 1e3 : word_at(rest, length, "m") ? 1e6 : 1;
}

/* A key "time" alone: of this step when it is in milliseconds, or stands beside the time of its data. What
 * has passed since the start is told in seconds, and alone. */
static bool is_step_time(const char *line, struct str key, struct str rest, double unit)
{
    struct str all = {.p = line, .n = (size_t)(rest.p + rest.n - line)};
    if (metric_key_ends(key, "seconds")) { /* "completed step: 3, seconds: 0.512" of MaxText */
        return str_has(all, "completed step");
    }
    return metric_key_is_time(key) &&
           (unit == 1e-3 || str_has(all, "data_time") || str_has(all, "data time") ||
            str_has(all, "data: ") || str_has(all, "Data: ") || str_has(all, "Data "));
}

static void count_steps(struct metric_line *out, const char *name, double v)
{
    out->special |= !(v < 1e14 && v > -1e14) && strstr(name, "step") != NULL;
    if (!(v >= 0 && v < 1e15)) {
        return;
    }
    if (strcmp(name, "step") == 0) {
        out->special |= out->step >= 0;
        out->step = (int64_t)v > out->step ? (int64_t)v : out->step;
    } else if (strcmp(name, "total_steps") == 0) {
        out->special = true;
        out->total = (int64_t)v;
    }
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
    if (lower(key.p[key.n - 1]) == 'e' && metric_key_ends(key, "train_runtime")) {
        out->final = true;
        return;
    }
    struct metric_name name;
    struct number number = {.p = rest.p, .value = v, .scale = 1};
    if (!metric_name_of(key, &name)) {
        char last = lower(key.p[key.n - 1]);
        double unit = last == 'e' ? seconds_of_unit(rest, length) : 1;
        if ((last == 'e' || last == 's') && is_step_time(line, key, rest, unit)) {
            number.scale = unit;
            add(out, line, "step_time", number);
        }
        return;
    }
    if (name.known == NULL) {
        add_named(out, line, name.own, number);
        return;
    }
    number.scale = name.scale;
    if (strcmp(name.known, "tokens_per_s") == 0) {
        long_number(out, rest, length, &number);
    } else if (str_ends(str_of(name.known), "_time") && name.scale == 1) {
        number.scale = seconds_of_unit(rest, length);
    }
    count_steps(out, name.known, number.value);
    if (strcmp(name.known, "total_steps") != 0 || !(v >= 0 && v < 1e15)) {
        add(out, line, name.known, number);
    }
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

/* "12/90 ━━━ 0s 5ms/step - loss: 1.25" of Keras, which is no bar of tqdm. */
static void keras_step(struct metric_line *out, struct str line)
{
    struct str s = str_trim(line);
    size_t unit = str_find(s, "/step", 0);
    size_t done = line_digits(s).n;
    if (unit == SIZE_MAX || done == 0 || done > 12 || done + 1 >= s.n || s.p[done] != '/') {
        return;
    }
    struct str rest = str_slice(s, done + 1, s.n);
    size_t total = line_digits(rest).n;
    if (total == 0 || total > 12 || total >= rest.n || rest.p[total] != ' ') {
        return;
    }
    out->special = true; /* the total is at no place that is kept */
    out->step = line_number(s, "", -1);
    out->total = line_number(rest, "", -1);
    add(out, line.p, "step", (struct number){.p = s.p, .value = (double)out->step, .scale = 1});
    size_t from = unit;
    while (from != 0 && isalpha((unsigned char)s.p[from - 1])) {
        from--;
    }
    size_t behind = from;
    while (from != 0 && (isdigit((unsigned char)s.p[from - 1]) || s.p[from - 1] == '.')) {
        from--;
    }
    size_t length;
    double v = metric_number(str_slice(s, from, behind), &length);
    if (length != 0) {
        double scale = str_starts(str_slice(s, behind, s.n), "ms")   ? 1e-3
                       : str_starts(str_slice(s, behind, s.n), "us") ? 1e-6
                                                                     : 1;
        add(out, line.p, "step_time", (struct number){.p = s.p + from, .value = v, .scale = scale});
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
    return metric_key_ends(key, "step") || metric_key_ends(key, "iter") ||
           metric_key_ends(key, "iteration") || metric_key_ends(key, "epoch") ||
           metric_key_ends(key, "iter_dt");
}

/* The number behind the space at `at`, when nothing but a separator follows it, or the unit of a time. A
 * slash may follow: "step 10/400". */
static bool bare_number(struct str line, size_t at, bool *ret_slash)
{
    struct str rest = str_slice(line, at + 1, line.n);
    if (rest.n == 0 || rest.p[0] == ' ') {
        return false;
    }
    size_t length;
    (void)metric_number(rest, &length);
    if (length != 0 && (word_at(rest, length, "ms") || word_at(rest, length, "s"))) {
        length += lower(rest.p[length]) == 'm' ? 2 : 1;
    }
    *ret_slash = length != 0 && length < rest.n && rest.p[length] == '/';
    return length != 0 && (length == rest.n || strchr(" \t,|;:])/", rest.p[length]) != NULL);
}

/* "[  10/5005]": how far an epoch is. */
static bool has_progress(struct str line)
{
    for (size_t at = 0; (at = str_find_char(line, '[', at)) != SIZE_MAX; at++) {
        struct str in = str_trim(str_slice(line, at + 1, line.n));
        size_t done = line_digits(in).n;
        if (done == 0 || done >= in.n || in.p[done] != '/') {
            continue;
        }
        struct str total = str_slice(in, done + 1, in.n);
        size_t n = line_digits(total).n;
        if (n != 0 && n < total.n && total.p[n] == ']') {
            return true;
        }
    }
    return false;
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
    if (str_find(line, "oss ", 0) == SIZE_MAX && str_find(line, "oss\t", 0) == SIZE_MAX) {
        return;
    }
    bool step_named = has_progress(line);
    for (size_t i = 1; i < line.n; i++) {
        bool slash;
        if (line.p[i] == ' ' && names_a_step(key_before(line, i)) &&
            count_sign(str_slice(line, i + 1, line.n)) != SIZE_MAX) {
            step_named = true; /* counted_step takes it */
        }
        if ((line.p[i] != ' ' && line.p[i] != '\t') || !bare_number(line, i, &slash)) {
            continue;
        }
        struct str key = key_before(line, i);
        if (key.n == 0 || str_find(key, "best", 0) != SIZE_MAX ||
            str_find(key, "final", 0) != SIZE_MAX) {
            continue;
        }
        bool step = names_a_step(key);
        step_named |= step;
        if (step_named && (step || !slash)) {
            take_pair(out, line.p, key, str_slice(line, i + 1, line.n));
        }
    }
}

/* "Loss at step 12: 2.5": the word stands before the step, and the colon at `at` behind it. */
static void loss_at_step(struct metric_line *out, struct str line, size_t at)
{
    struct str key = key_before(line, at);
    size_t loss = str_find(key, "oss at ", 0);
    size_t digits = key.n;
    while (digits != 0 && isdigit((unsigned char)key.p[digits - 1])) {
        digits--;
    }
    struct str word = str_trim(str_slice(key, 0, digits));
    if (loss == SIZE_MAX || digits == key.n || !names_a_step(word)) {
        return;
    }
    if (metric_key_ends(word, "step")) {
        take_pair(out, line.p, word, str_slice(line, (size_t)(key.p + digits - line.p), line.n));
    }
    take_pair(out, line.p, str_slice(key, 0, loss + 3), str_slice(line, at + 1, line.n));
}

/* "|    loss   | 0.512   |": a row of a box that holds one name and one number. */
static void boxed_pair(struct metric_line *out, struct str line)
{
    size_t middle = str_find_char(line, '|', 1);
    size_t end = middle == SIZE_MAX ? SIZE_MAX : str_find_char(line, '|', middle + 1);
    if (end == SIZE_MAX || str_trim(str_slice(line, end + 1, line.n)).n != 0) {
        return;
    }
    struct str value = str_trim(str_slice(line, middle + 1, end));
    size_t length;
    (void)metric_number(value, &length);
    if (length != 0 && length == value.n) {
        take_pair(out, line.p, str_trim(str_slice(line, 1, middle)), value);
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
    bool at_step = str_find(line, "oss at ", 0) != SIZE_MAX;
    for (size_t i = 1; i < line.n; i++) {
        if (!is_sep(line.p[i]) || (i + 1 < line.n && is_sep(line.p[i + 1]))) {
            continue;
        }
        char before = line.p[i - 1];
        /* clock times and file:line are no pairs */
        if (before >= '0' && before <= '9') {
            if (at_step) {
                loss_at_step(out, line, i);
            }
            continue;
        }
        take_pair(out, line.p, key_before(line, i), str_slice(line, i + 1, line.n));
    }
    bare_pairs(out, line);
    if (memchr(line.p, '|', line.n) != NULL) {
        megatron_step(out, line);
        if (out->count == 0 && line.p[0] == '|') {
            boxed_pair(out, line);
        }
    }
    if (out->count > 0 && out->step < 0) {
        keras_step(out, line);
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
