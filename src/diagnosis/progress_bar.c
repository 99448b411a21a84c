// SPDX-License-Identifier: Apache-2.0
/* Progress bars of tqdm; see metric_line.h. */
#include <ctype.h>
#include <math.h>

#include "diagnosis/metric_line.h"

/* Bars of trainers have no label, or a short one: most need no search for words. */
static bool has_letters(struct str text)
{
    for (size_t i = 0; i < text.n; i++) {
        if (((unsigned char)text.p[i] | 0x20) >= 'a' && ((unsigned char)text.p[i] | 0x20) <= 'z') {
            return true;
        }
    }
    return false;
}

/* Labels of bars that count something else than training steps, the one of loading first. */
static const char *const other_labels[] = {
    "oading",  "Map",     "okeniz",  "Convert", "Dropping", "ownload",  "Fetch",      "Generat",
    "Filter",  "Resolv",  "Saving",  "Process", "Captur",   "Evaluat",  "Valid",      "Sanity",
    "Pack",    "Group",   "Prepar",  "Upload",  "Extract",  "Quantiz",  "Prediction", "Predicting",
    "Testing", "Casting", "caching", "Caching", "Merging",  "Sampling", "examples"};

/* What they begin with. */
static const bool label_initials[256] = {
    ['C'] = true, ['D'] = true, ['E'] = true, ['F'] = true, ['G'] = true, ['M'] = true,
    ['P'] = true, ['Q'] = true, ['R'] = true, ['S'] = true, ['T'] = true, ['U'] = true,
    ['V'] = true, ['c'] = true, ['e'] = true, ['o'] = true};

/* True when the text has a label of something else; *ret_loading when it is of loading. In one pass:
 * bars with a label are asked each time. */
static bool counts_other(struct str text, bool *ret_loading)
{
    bool found = false;
    *ret_loading = false;
    for (size_t at = 0; at < text.n; at++) {
        if (!label_initials[(unsigned char)text.p[at]]) {
            continue;
        }
        struct str rest = str_slice(text, at, text.n);
        for (size_t i = 0; i < ARRAY_LEN(other_labels); i++) {
            if (rest.p[0] == other_labels[i][0] && str_starts(rest, other_labels[i])) {
                found = true;
                *ret_loading |= i == 0;
            }
        }
    }
    return found;
}

/* Where the last "12/600 [" of the line is; the position of its '['. */
static size_t bar_bracket(struct str line)
{
    for (size_t i = line.n; i-- > 3;) {
        if (line.p[i] == '[' && line.p[i - 1] == ' ' && isdigit((unsigned char)line.p[i - 2]) &&
            i + 1 < line.n && isdigit((unsigned char)line.p[i + 1])) {
            return i;
        }
    }
    return SIZE_MAX;
}

/* Where the first "it/s" and the first "s/it" are. */
static void find_units(struct str in, size_t *ret_per_second, size_t *ret_per_step)
{
    *ret_per_second = SIZE_MAX;
    *ret_per_step = SIZE_MAX;
    for (size_t at = 0; (at = str_find_char(in, '/', at)) != SIZE_MAX; at++) {
        if (*ret_per_second == SIZE_MAX && at >= 2 && at + 1 < in.n && in.p[at - 2] == 'i' &&
            in.p[at - 1] == 't' && in.p[at + 1] == 's') {
            *ret_per_second = at - 2;
        }
        if (*ret_per_step == SIZE_MAX && at >= 1 && at + 2 < in.n && in.p[at - 1] == 's' &&
            in.p[at + 1] == 'i' && in.p[at + 2] == 't') {
            *ret_per_step = at - 1;
        }
    }
}

/* Seconds per step from " 2.40s/it" or "1.31it/s" inside the brackets. */
static double bar_rate(struct str in, bool *ret_steps)
{
    size_t per_second;
    size_t per_step;
    find_units(in, &per_second, &per_step);
    *ret_steps = per_second != SIZE_MAX || per_step != SIZE_MAX;
    size_t unit = per_step != SIZE_MAX ? per_step : per_second;
    if (!*ret_steps || unit == 0) {
        return NAN;
    }
    size_t from = unit;
    while (from != 0 && (isdigit((unsigned char)in.p[from - 1]) || in.p[from - 1] == '.')) {
        from--;
    }
    size_t length;
    double v = metric_number(str_slice(in, from, unit), &length);
    return length == 0 || !(v > 0) ? NAN : per_step != SIZE_MAX ? v : 1 / v;
}

bool progress_bar_parse(struct str line, struct progress_bar *ret_bar)
{
    size_t bracket = bar_bracket(line);
    if (bracket == SIZE_MAX) {
        return false;
    }
    size_t d = bracket - 1; /* behind the total */
    size_t total_from = d;
    while (total_from != 0 && isdigit((unsigned char)line.p[total_from - 1])) {
        total_from--;
    }
    size_t slash = total_from;
    if (slash == 0 || line.p[slash - 1] != '/') {
        return false;
    }
    size_t done_from = slash - 1;
    while (done_from != 0 && isdigit((unsigned char)line.p[done_from - 1])) {
        done_from--;
    }
    uint64_t done;
    uint64_t total;
    if (str_to_u64(str_slice(line, done_from, slash - 1), 10, &done) != ST_OK ||
        str_to_u64(str_slice(line, total_from, d), 10, &total) != ST_OK || done > INT64_MAX ||
        total > INT64_MAX || done > total) {
        return false;
    }
    size_t close = str_find_char(line, ']', bracket);
    struct str in = str_slice(line, bracket, close == SIZE_MAX ? line.n : close);
    struct str label = str_slice(line, done_from > 160 ? done_from - 160 : 0, done_from);
    bool steps;
    double rate = bar_rate(in, &steps);
    bool loading = false;
    bool other = has_letters(label) && counts_other(label, &loading);
    *ret_bar = (struct progress_bar){
        .done = (int64_t)done,
        .total = (int64_t)total,
        .seconds_per_step = rate,
        .loading = loading,
        .training = steps && !other &&
                    !(str_find_char(in, 'x', 0) != SIZE_MAX && str_has(in, "examples")),
    };
    return true;
}
