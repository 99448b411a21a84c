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

/* Where the number of " 2.40s/it" or "1.31it/s" inside the brackets stands, which are at `bracket`. False when there
 * is no such unit. */
static bool find_rate(struct str in, size_t bracket, struct bar_places *places)
{
    size_t per_second;
    size_t per_step;
    find_units(in, &per_second, &per_step);
    if (per_second == SIZE_MAX && per_step == SIZE_MAX) {
        return false;
    }
    size_t unit = per_step != SIZE_MAX ? per_step : per_second;
    size_t from = unit;
    while (from != 0 && (isdigit((unsigned char)in.p[from - 1]) || in.p[from - 1] == '.')) {
        from--;
    }
    places->rate_at = bracket + from;
    places->rate_n = unit - from;
    places->per_step = per_step != SIZE_MAX;
    return true;
}

bool bar_places_find(struct str line, struct bar_places *ret_places)
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
    struct bar_places out = {.done_at = done_from,
                             .done_n = slash - 1 - done_from,
                             .total_at = total_from,
                             .total_n = d - total_from};
    if (out.done_n == 0 || out.total_n == 0) {
        return false;
    }
    size_t close = str_find_char(line, ']', bracket);
    struct str in = str_slice(line, bracket, close == SIZE_MAX ? line.n : close);
    struct str label = str_slice(line, done_from > 160 ? done_from - 160 : 0, done_from);
    bool steps = find_rate(in, bracket, &out);
    bool other = has_letters(label) && counts_other(label, &out.loading);
    out.training = steps && !other &&
                   !(str_find_char(in, 'x', 0) != SIZE_MAX && str_has(in, "examples"));
    *ret_places = out;
    return true;
}

/* A number of digits alone; false when it is greater than any count. */
static bool read_count(struct str digits, int64_t *ret_count)
{
    enum {
        SURE_DIGITS = 18
    };

    uint64_t v = 0;
    if (digits.n > SURE_DIGITS) {
        if (str_to_u64(digits, 10, &v) != ST_OK || v > INT64_MAX) {
            return false;
        }
    } else {
        for (size_t i = 0; i < digits.n; i++) {
            v = v * 10 + (uint64_t)(digits.p[i] - '0');
        }
    }
    *ret_count = (int64_t)v;
    return true;
}

bool bar_places_read(const struct bar_places *places, struct str line, struct progress_bar *ret_bar)
{
    const struct bar_places *p = places;
    int64_t done;
    int64_t total;
    if (!read_count(str_slice(line, p->done_at, p->done_at + p->done_n), &done) ||
        !read_count(str_slice(line, p->total_at, p->total_at + p->total_n), &total) ||
        done > total) {
        return false;
    }
    size_t length = 0;
    double v = NAN;
    if (p->rate_n != 0) {
        v = metric_number(str_slice(line, p->rate_at, p->rate_at + p->rate_n), &length);
    }
    *ret_bar = (struct progress_bar){
        .done = done,
        .total = total,
        .seconds_per_step = length == 0 || !(v > 0) ? NAN
                            : p->per_step           ? v
                                                    : 1 / v,
        .loading = p->loading,
        .training = p->training,
    };
    return true;
}

bool progress_bar_parse(struct str line, struct progress_bar *ret_bar)
{
    struct bar_places places;
    return bar_places_find(line, &places) && bar_places_read(&places, line, ret_bar);
}
