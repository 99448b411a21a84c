// SPDX-License-Identifier: Apache-2.0
/* See metric_table.h. */
#include "diagnosis/metric_table.h"

#include <ctype.h>
#include <string.h>

enum {
    ROW_MAX = 2000,
    COLUMNS_MAX = 200,
    WORDS_MAX = 4 /* of a column's name; prose has more between its commas */
};

/* The next field of `rest`. A table of spaces has two between names, which may be of several words, and one or
 * more between values. */
static bool next_field(struct str *rest, char separator, size_t spaces, struct str *ret_field)
{
    if (separator != ' ') {
        bool more = str_cut(rest, separator, ret_field);
        *ret_field = str_trim(*ret_field);
        if (ret_field->n >= 2 && ret_field->p[0] == '"' && ret_field->p[ret_field->n - 1] == '"') {
            *ret_field = str_slice(*ret_field, 1, ret_field->n - 1);
        }
        return more;
    }
    *rest = str_trim(*rest);
    if (rest->n == 0) {
        return false;
    }
    size_t end = str_find(*rest, spaces == 2 ? "  " : " ", 0);
    end = end == SIZE_MAX ? rest->n : end;
    *ret_field = str_slice(*rest, 0, end);
    *rest = str_slice(*rest, end, rest->n);
    return true;
}

static bool is_column_name(struct str field)
{
    size_t words = 1;
    if (field.n == 0 || field.n >= METRIC_NAME_MAX ||
        !(isalpha((unsigned char)field.p[0]) || field.p[0] == '_' || field.p[0] == '%')) {
        return false;
    }
    for (size_t i = 0; i < field.n; i++) {
        words += field.p[i] == ' ';
        if (strchr(":=;{}<>", field.p[i]) != NULL) {
            return false;
        }
    }
    return words <= WORDS_MAX;
}

static bool is_loss(const struct metric_name *name)
{
    return name->known != NULL ? str_ends(str_of(name->known), "loss") : true;
}

/* The columns of a header, when it is one: all of them are names, and one of a loss is among them. */
static bool read_header(struct str line, struct metric_table *ret_table)
{
    struct metric_table *t = ret_table;
    struct str rest = line;
    struct str field;
    bool loss = false;
    t->separator = memchr(line.p, '\t', line.n) != NULL  ? '\t'
                   : memchr(line.p, ',', line.n) != NULL ? ','
                                                         : ' ';
    t->columns = 0;
    t->count = 0;
    bool sentence = t->separator == ',' && str_has(line, ", "); /* then names are of one word */
    while (next_field(&rest, t->separator, 2, &field)) {
        if (!is_column_name(field) || t->columns == COLUMNS_MAX ||
            (sentence && str_find_char(field, ' ', 0) != SIZE_MAX)) {
            return false;
        }
        struct metric_name name;
        bool step = str_is(field, "_step");
        if (t->count < METRICS_MAX && (step || metric_name_of(field, &name))) {
            if (step) {
                name = (struct metric_name){.known = "step", .scale = 1};
            }
            t->items[t->count].name = name;
            t->items[t->count].loss = is_loss(&name);
            t->items[t->count++].column = t->columns;
            loss = loss || is_loss(&name);
        }
        t->columns++;
    }
    return loss && t->columns >= 2;
}

static void take(const struct metric_table *t, size_t item, double value, struct metric_line *out)
{
    const struct metric_name *name = &t->items[item].name;
    const char *text = name->known != NULL ? name->known : name->own;
    for (size_t i = 0; i < out->count; i++) {
        if (strcmp(out->items[i].name, text) == 0) {
            return; /* the first column of that name counts */
        }
    }
    if (strcmp(text, "step") == 0 && value >= 0 && value < 1e15) {
        out->step = (int64_t)value;
    }
    out->items[out->count++] = (struct metric){
        .name = text, .value = value * name->scale, .scale = name->scale};
}

/* Empty fields are values that were not taken at this step; anything else in a column of a loss is no row. */
static bool read_row(const struct metric_table *t, struct str line, struct metric_line *out)
{
    struct str rest = line;
    struct str field;
    size_t column = 0;
    size_t item = 0;
    bool loss = false;
    while (next_field(&rest, t->separator, 1, &field)) {
        if (item < t->count && t->items[item].column == column) {
            size_t length;
            double v = metric_number(field, &length);
            bool number = length != 0 && length == field.n;
            if (number) {
                take(t, item, v, out);
            } else if (t->items[item].loss && field.n != 0) {
                return false;
            }
            loss |= number && t->items[item].loss;
            item++;
        }
        column++;
    }
    bool whole = t->separator == ' ' ? column >= t->columns : column == t->columns;
    return whole && loss;
}

bool metric_table_read(struct metric_table *t, struct str line, struct metric_line *ret_line)
{
    struct metric_table header;
    if (line.n == 0 || line.n > ROW_MAX) {
        return false;
    }
    if (t->separator != '\0') {
        struct metric_line row = {.step = -1, .total = -1, .special = true};
        if (read_row(t, line, &row)) {
            *ret_line = row; /* names are the table's */
            return true;
        }
    }
    bool may_be_header = str_find(line, "oss", 0) != SIZE_MAX ||
                         str_find(line, "ntropy", 0) != SIZE_MAX;
    if (may_be_header && read_header(line, &header)) {
        *t = header;
    }
    return false;
}
