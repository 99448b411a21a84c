// SPDX-License-Identifier: Apache-2.0
/* See library_log_pairs.h. */
#include "recorder/library_log_pairs.h"

#include <math.h>

static void add(struct pairs *p, struct str group, struct str name, struct str value)
{
    if (p->count < PAIRS_MAX && name.n != 0) {
        p->items[p->count++] = (struct pair){.group = group, .name = name, .value = value};
    }
}

static bool is_flag(struct str word)
{
    return word.n > 1 && word.p[0] == '-' && !(word.p[1] >= '0' && word.p[1] <= '9') &&
           word.p[1] != '.';
}

static struct str without_dashes(struct str word)
{
    size_t from = 0;
    while (from < word.n && word.p[from] == '-') {
        from++;
    }
    return str_slice(word, from, word.n);
}

void pairs_of_flags(struct str line, struct pairs *ret)
{
    struct str word;
    struct str name = {0};
    ret->count = 0;
    while (str_cut(&line, ' ', &word)) {
        word = str_trim(word);
        if (word.n == 0) {
            continue;
        }
        if (!is_flag(word)) {
            add(ret, (struct str){0}, name, word);
            name = (struct str){0};
            continue;
        }
        add(ret, (struct str){0}, name, (struct str){0});
        name = without_dashes(word);
    }
    add(ret, (struct str){0}, name, (struct str){0});
}

static struct str unquoted(struct str s)
{
    s = str_trim(s);
    bool quoted = s.n >= 2 && (s.p[0] == '"' || s.p[0] == '\'') && s.p[s.n - 1] == s.p[0];
    return quoted ? str_slice(s, 1, s.n - 1) : s;
}

void pairs_of_flow(struct str line, struct pairs *ret)
{
    size_t open = str_find_char(line, '{', 0);
    size_t close = str_find_char(line, '}', 0);
    struct str part;
    ret->count = 0;
    if (open == SIZE_MAX) {
        return;
    }
    line = str_slice(line, open + 1, close != SIZE_MAX && close > open ? close : line.n);
    while (str_cut(&line, ',', &part)) {
        struct str name;
        if (str_cut(&part, ':', &name)) {
            add(ret, (struct str){0}, unquoted(name), unquoted(part));
        }
    }
}

void pairs_of_trace(struct str line, struct pairs *ret)
{
    struct str group = {0};
    struct str word;
    ret->count = 0;
    while (str_cut(&line, ' ', &word)) {
        struct str name;
        bool closes = word.n > 0 && word.p[word.n - 1] == ']';
        word = str_slice(word, 0, word.n - (closes ? 1 : 0));
        bool named = str_find_char(word, '=', 0) != SIZE_MAX && str_cut(&word, '=', &name);
        if (named && word.n > 0 && word.p[0] == '[') {
            group = name;
            word = str_slice(word, 1, word.n);
            named = str_find_char(word, '=', 0) != SIZE_MAX && str_cut(&word, '=', &name);
        }
        if (named) {
            add(ret, group, name, word);
        }
        if (closes) {
            group = (struct str){0};
        }
    }
}

struct str pairs_get(const struct pairs *p, const char *group, const char *const *names)
{
    for (; *names != NULL; names++) {
        for (size_t i = 0; i < p->count; i++) {
            if (str_is(p->items[i].group, group) && str_is(p->items[i].name, *names)) {
                return p->items[i].value;
            }
        }
    }
    return (struct str){0};
}

int64_t pairs_int(const struct pairs *p, const char *group, const char *const *names,
                  int64_t fallback)
{
    struct str text = pairs_get(p, group, names);
    int64_t value;
    return text.n != 0 && str_to_i64(text, 10, &value) == ST_OK ? value : fallback;
}

double pairs_real(const struct pairs *p, const char *const *names)
{
    struct str text = pairs_get(p, "", names);
    double value;
    return text.n != 0 && str_to_double(text, &value) == ST_OK ? value : (double)NAN;
}
