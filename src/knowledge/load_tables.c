// SPDX-License-Identifier: Apache-2.0
/* The two tables with tabs: fact_keys.tsv and taxonomy.tsv. */
#include <string.h>

#include "knowledge/load.h"

enum {
    COLUMNS = 5
};

/* Cuts one line into exactly five columns; false with a problem otherwise. */
static bool cut_row(struct loader *l, const char *where, struct str line,
                    const char *ret_columns[COLUMNS])
{
    struct str part;
    size_t n = 0;
    while (str_cut(&line, '\t', &part)) {
        if (n < COLUMNS) {
            ret_columns[n] = str_dup(l->arena, str_trim(part));
        }
        n++;
    }
    if (n != COLUMNS) {
        load_problem(l, where, "the row has %zu columns between tabs; it should have %d", n,
                     COLUMNS);
        return false;
    }
    if (ret_columns[0][0] == '\0') {
        load_problem(l, where, "the first column is empty");
        return false;
    }
    return true;
}

/* Calls take() for each row below the head line. */
static void each_row(struct loader *l, const char *file, struct str text,
                     void (*take)(struct loader *l, const char *where, const char *const *columns))
{
    struct str line;
    int number = 0;
    while (str_cut_line(&text, &line)) {
        number++;
        if (number == 1 || str_trim(line).n == 0 || line.p[0] == '#') {
            continue;
        }
        const char *where = arena_fmt(l->arena, "%s:%d", file, number);
        const char *columns[COLUMNS];
        if (cut_row(l, where, line, columns)) {
            take(l, where, columns);
        }
    }
}

static void take_fact_key(struct loader *l, const char *where, const char *const *columns)
{
    static const char *const types[] = {"string", "version", "int", "real", "bool", "list"};
    size_t i = 0;
    while (i < ARRAY_LEN(types) && strcmp(columns[1], types[i]) != 0) {
        i++;
    }
    if (i == ARRAY_LEN(types)) {
        load_problem(l, where,
                     "'%.40s' is no type; there are string, version, int, real, bool, list",
                     columns[1]);
    }
    for (size_t j = 0; j < l->fact_keys.count; j++) {
        if (strcmp(l->fact_keys.items[j].pattern, columns[0]) == 0) {
            load_problem(l, where, "the key '%.100s' stands twice", columns[0]);
            return;
        }
    }
    *VEC_PUSH(l->arena, &l->fact_keys) = (struct fact_key){.pattern = columns[0],
                                                           .type = columns[1],
                                                           .unit = columns[2],
                                                           .where = columns[3],
                                                           .meaning = columns[4]};
}

void load_fact_keys(struct loader *l, const char *file, struct str text)
{
    each_row(l, file, text, take_fact_key);
}

static void take_taxon(struct loader *l, const char *where, const char *const *columns)
{
    static const char *const layers[] = {
        "hardware",     "firmware",  "kernel-driver", "environment",        "runtime",
        "math-library", "framework", "extension",     "application-config", "data"};
    size_t i = 0;
    while (i < ARRAY_LEN(layers) && strcmp(columns[1], layers[i]) != 0) {
        i++;
    }
    if (i == ARRAY_LEN(layers)) {
        load_problem(l, where, "'%.40s' is no layer", columns[1]);
    }
    *VEC_PUSH(l->arena, &l->taxons) = (struct taxon){.slug = columns[0],
                                                     .layer = columns[1],
                                                     .definition = columns[2],
                                                     .mistaken_for = columns[3],
                                                     .standard_fix = columns[4]};
}

void load_taxonomy(struct loader *l, const char *file, struct str text)
{
    each_row(l, file, text, take_taxon);
}
