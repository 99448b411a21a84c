// SPDX-License-Identifier: Apache-2.0
/* knowledge/fleet.tsv: which facts are compared between nodes, how, and why it matters. */
#include <string.h>

#include "base/vec.h"

#include "snapshot/fleet.h"

enum {
    COLUMNS = 7,
    RULES_MAX = 10000
};

static const char *const kinds[FLEET_KIND_COUNT] = {"facts", "stack", "record", "figure"};
static const char *const compares[FLEET_COMPARE_COUNT] = {"exact",  "words", "is",
                                                          "number", "low",   "high"};

static size_t index_of(const char *const *names, size_t count, const char *name)
{
    size_t i = 0;
    while (i < count && strcmp(names[i], name) != 0) {
        i++;
    }
    return i;
}

/* "10%" or "10% 4096". */
static bool read_tolerance(struct str with, double *ret_relative, double *ret_absolute)
{
    struct str share;
    if (!str_cut(&with, ' ', &share) || !str_ends(share, "%") ||
        str_to_double(str_slice(share, 0, share.n - 1), ret_relative) != ST_OK) {
        return false;
    }
    *ret_relative /= 100;
    *ret_absolute = 0;
    return str_trim(with).n == 0 || str_to_double(with, ret_absolute) == ST_OK;
}

static size_t rank_of(struct fleet_rules *rules, const char *class_name)
{
    for (size_t i = 0; i < rules->count; i++) {
        if (strcmp(rules->items[i].class_name, class_name) == 0) {
            return rules->items[i].rank;
        }
    }
    return rules->class_count++;
}

static enum status take_row(struct arena *a, struct fleet_rules *rules, struct str line,
                            const char *where, struct err *err)
{
    const char *c[COLUMNS];
    struct str part;
    size_t n = 0;
    while (str_cut(&line, '\t', &part)) {
        if (n < COLUMNS) {
            c[n] = str_dup(a, str_trim(part));
        }
        n++;
    }
    if (n != COLUMNS) {
        return err_set(err, ST_FORMAT,
                       "%s: the row has %zu columns between tabs; it should have %d", where, n,
                       COLUMNS);
    }
    struct fleet_rule r = {.key = c[1], .with = c[3], .class_name = c[4], .why = c[6]};
    size_t kind = index_of(kinds, FLEET_KIND_COUNT, c[0]);
    size_t compare = index_of(compares, FLEET_COMPARE_COUNT, c[2]);
    if (kind == FLEET_KIND_COUNT || compare == FLEET_COMPARE_COUNT) {
        return err_set(err, ST_FORMAT,
                       "%s: '%.40s' and '%.40s' should be a kind (facts, stack, record, figure) "
                       "and a way to compare (exact, words, is, number, low, high)",
                       where, c[0], c[2]);
    }
    r.kind = (enum fleet_kind)kind;
    r.compare = (enum fleet_compare)compare;
    if (r.compare >= FLEET_NUMBER && !read_tolerance(str_of(r.with), &r.relative, &r.absolute)) {
        return err_set(err, ST_FORMAT, "%s: '%.40s' should be a share of the median such as '10%%'",
                       where, r.with);
    }
    if (strcmp(c[5], severity_name(SEVERITY_WARNING)) == 0) {
        r.severity = SEVERITY_WARNING;
    } else if (strcmp(c[5], severity_name(SEVERITY_NOTE)) == 0) {
        r.severity = SEVERITY_NOTE;
    } else {
        return err_set(err, ST_FORMAT, "%s: '%.40s' should be 'warning' or 'note'", where, c[5]);
    }
    r.rank = rank_of(rules, r.class_name);
    *VEC_PUSH(a, rules) = r;
    return ST_OK;
}

enum status fleet_rules_read(struct arena *a, struct str text, const char *name,
                             struct fleet_rules *ret_rules, struct err *err)
{
    struct fleet_rules rules = {0};
    struct str line;
    int number = 0;
    while (str_cut_line(&text, &line)) {
        number++;
        if (number == 1 || str_trim(line).n == 0 || line.p[0] == '#') {
            continue;
        }
        if (rules.count == RULES_MAX) {
            return err_set(err, ST_LIMIT, "%s: more than %d rows", name, RULES_MAX);
        }
        TRY(take_row(a, &rules, line, arena_fmt(a, "%s:%d", name, number), err));
    }
    if (rules.count == 0) {
        return err_set(err, ST_FORMAT, "%s: no row says what to compare", name);
    }
    *ret_rules = rules;
    return ST_OK;
}

/* "[12]" in a key for "[]" in a pattern. */
static size_t index_length(const char *key)
{
    size_t n = 1;
    while (key[0] == '[' && key[n] >= '0' && key[n] <= '9') {
        n++;
    }
    return key[0] == '[' && n > 1 && key[n] == ']' ? n + 1 : 0;
}

/* Wildcards as in file names, with '*' only: on a mismatch the last star takes one more byte. */
static bool fits(const char *pattern, const char *key)
{
    const char *star = NULL;
    const char *after = NULL;
    while (*key != '\0' || *pattern != '\0') {
        size_t n;
        if (*pattern == '*') {
            star = ++pattern;
            after = key;
        } else if (pattern[0] == '[' && pattern[1] == ']' && (n = index_length(key)) != 0) {
            pattern += 2;
            key += n;
        } else if (*key != '\0' && *pattern == *key) {
            pattern++;
            key++;
        } else if (star != NULL && *after != '\0') {
            pattern = star;
            key = ++after;
        } else {
            return false;
        }
    }
    return true;
}

const struct fleet_rule *fleet_rule_find(const struct fleet_rules *rules, enum fleet_kind kind,
                                         const char *key)
{
    for (size_t i = 0; i < rules->count; i++) {
        if (rules->items[i].kind == kind && fits(rules->items[i].key, key)) {
            return &rules->items[i];
        }
    }
    return NULL;
}
