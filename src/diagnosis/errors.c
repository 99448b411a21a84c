// SPDX-License-Identifier: Apache-2.0
/* Error and Xid tables from tab-separated text. */
#include "diagnosis/errors.h"

#include <ctype.h>
#include <string.h>

#include "base/vec.h"

#include "diagnosis/errors_text.h"

enum {
    MAX_ROWS = 5000,
    COLUMNS = 5
};

/* One row of at most COLUMNS cells; false for comments, the head and empty lines. */
static bool cells_of(struct str line, struct str cells[COLUMNS], size_t *ret_count)
{
    if (line.n == 0 || line.p[0] == '#') {
        return false;
    }
    size_t n = 0;
    while (n < COLUMNS && str_cut(&line, '\t', &cells[n])) {
        n++;
    }
    *ret_count = n;
    return true;
}

static enum status bad_row(struct err *err, const char *table, size_t line)
{
    return err_set(err, ST_FORMAT, "%s:%zu: a row of this table has the wrong form", table, line);
}

static enum status parse_errors(struct arena *a, struct str text, struct error_table *t,
                                struct err *err)
{
    VEC_OF(struct error_row) rows = {0};
    struct str line;
    for (size_t number = 1; str_cut_line(&text, &line); number++) {
        struct str c[COLUMNS];
        size_t n;
        int64_t value;
        if (!cells_of(line, c, &n)) {
            continue;
        }
        if (n != 5 || str_to_i64(c[1], 0, &value) != ST_OK || rows.count == MAX_ROWS) {
            return bad_row(err, "errors.tsv", number);
        }
        *VEC_PUSH(a, &rows) = (struct error_row){.api = str_dup(a, c[0]),
                                                 .number = (long)value,
                                                 .name = str_dup(a, c[2]),
                                                 .text = str_dup(a, c[3]),
                                                 .meaning = str_dup(a, c[4])};
    }
    t->rows = rows.items;
    t->row_count = rows.count;
    for (size_t i = 0; i < rows.count; i++) {
        if (map_get(t->by_name, str_of(rows.items[i].name)) == NULL) {
            map_put(t->by_name, str_of(rows.items[i].name), &rows.items[i]);
        }
    }
    return ST_OK;
}

static enum status parse_xids(struct arena *a, struct str text, struct error_table *t,
                              struct err *err)
{
    VEC_OF(struct xid_row) rows = {0};
    struct str line;
    for (size_t number = 1; str_cut_line(&text, &line); number++) {
        struct str c[COLUMNS];
        size_t n;
        int64_t value;
        if (!cells_of(line, c, &n)) {
            continue;
        }
        if (n != 4 || str_to_i64(c[0], 10, &value) != ST_OK || rows.count == MAX_ROWS) {
            return bad_row(err, "xid.tsv", number);
        }
        *VEC_PUSH(a, &rows) = (struct xid_row){.number = (long)value,
                                               .name = str_dup(a, c[1]),
                                               .class_name = str_dup(a, c[2]),
                                               .meaning = str_dup(a, c[3])};
    }
    t->xids = rows.items;
    t->xid_count = rows.count;
    return ST_OK;
}

enum status error_table_parse(struct arena *a, struct str errors_tsv, struct str xid_tsv,
                              const struct error_table **ret_table, struct err *err)
{
    struct error_table *t = arena_alloc(a, sizeof *t);
    t->by_name = map_new(a);
    TRY(parse_errors(a, errors_tsv, t, err));
    TRY(parse_xids(a, xid_tsv, t, err));
    *ret_table = t;
    return ST_OK;
}

enum status error_table_builtin(struct arena *a, const struct error_table **ret_table,
                                struct err *err)
{
    return error_table_parse(a, STR(ERRORS_TSV), STR(XID_TSV), ret_table, err);
}

const struct error_row *error_by_number(const struct error_table *t, const char *api, long number)
{
    for (size_t i = 0; i < t->row_count; i++) {
        if (t->rows[i].number == number && strcmp(t->rows[i].api, api) == 0) {
            return &t->rows[i];
        }
    }
    return NULL;
}

const struct error_row *error_by_name(const struct error_table *t, struct str name)
{
    return map_get(t->by_name, name);
}

const struct xid_row *xid_by_number(const struct error_table *t, long number)
{
    for (size_t i = 0; i < t->xid_count; i++) {
        if (t->xids[i].number == number) {
            return &t->xids[i];
        }
    }
    return NULL;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* An identifier of a table in the line. */
static const struct error_row *named_row(const struct error_table *t, struct str line)
{
    size_t at = 0;
    while (at < line.n) {
        size_t end = at;
        while (end < line.n && is_word(line.p[end])) {
            end++;
        }
        const struct error_row *row = end - at >= 8 ? error_by_name(t, str_slice(line, at, end))
                                                    : NULL;
        if (row != NULL) {
            return row;
        }
        at = end + 1;
    }
    return NULL;
}

/* The number behind `key`, decimal or 0x hexadecimal; false when there is none. */
static bool number_behind(struct str line, const char *key, long *ret_number)
{
    size_t at = str_find(line, key, 0);
    if (at == SIZE_MAX) {
        return false;
    }
    at += strlen(key);
    while (at < line.n && (line.p[at] == ' ' || line.p[at] == ':' || line.p[at] == '=')) {
        at++;
    }
    size_t end = at;
    while (end < line.n && isalnum((unsigned char)line.p[end])) {
        end++;
    }
    int64_t v;
    struct str digits = str_slice(line, at, end);
    /* no octal: "0700" is 700 */
    int base = str_starts(digits, "0x") ? 16 : 10;
    if (str_to_i64(digits, base, &v) != ST_OK || v <= 0) {
        return false;
    }
    *ret_number = (long)v;
    return true;
}

/* A number of a table, where the line says whose number it is. */
static const struct error_row *numbered_row(const struct error_table *t, struct str line)
{
    long n;
    bool hsa = str_has(line, "HSA") || str_has(line, "Device::callbackQueue") ||
               str_has(line, "aborting with");
    if (hsa && (number_behind(line, "code:", &n) || number_behind(line, "status:", &n))) {
        return error_by_number(t, "hsa", n);
    }
    if (str_has(line, "hip") &&
        (number_behind(line, "Error ", &n) || number_behind(line, "HIP API error = ", &n) ||
         number_behind(line, "hipError_t(", &n))) {
        return error_by_number(t, "hip", n);
    }
    if (number_behind(line, "cuda runtime error (", &n) ||
        (str_has(line, "cuda") && number_behind(line, "Error ", &n))) {
        return error_by_number(t, "cuda", n);
    }
    return NULL;
}

const char *error_explain(const struct error_table *t, struct arena *a, struct str line)
{
    if (t == NULL) {
        return NULL;
    }
    const struct error_row *row = named_row(t, line);
    row = row != NULL ? row : numbered_row(t, line);
    if (row == NULL || row->meaning[0] == '\0') {
        return NULL;
    }
    return arena_fmt(a, "%s (%ld): %s", row->name, row->number, row->meaning);
}
