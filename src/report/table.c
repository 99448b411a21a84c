// SPDX-License-Identifier: Apache-2.0
/* The text form of a table: two spaces before, two between, as wide as the widest cell. */
#include "report/table.h"

enum {
    CELL_MAX = 60, /* columns of a terminal; a longer text is cut */
    DEFAULT_DIGITS = 4
};

void report_cell_text(struct strbuf *out, const struct report_column *c, const struct value *v)
{
    strbuf_clear(out);
    if (v->kind == VALUE_NULL) {
        strbuf_addz(out, "-");
    } else if (v->kind == VALUE_REAL) {
        strbuf_fmt(out, "%.*g", c->digits != 0 ? c->digits : DEFAULT_DIGITS, v->real);
    } else {
        value_print(out, v);
    }
    for (size_t i = 0; i < out->n; i++) {
        unsigned char b = (unsigned char)out->p[i];
        out->p[i] = b < ' ' || b == 0x7f ? '?' : (char)b;
    }
}

/* Characters, not bytes: continuation bytes of UTF-8 take no column. */
static int columns_of(const char *text)
{
    int n = 0;
    for (const char *p = text; *p != '\0'; p++) {
        n += ((unsigned char)*p & 0xc0) != 0x80;
    }
    return n;
}

static void pad(struct strbuf *out, int n)
{
    for (int i = 0; i < n; i++) {
        strbuf_addc(out, ' ');
    }
}

static void write_cell(struct strbuf *out, const char *text, int width, bool right, bool last)
{
    int have = columns_of(text);
    strbuf_addz(out, "  ");
    if (right) {
        pad(out, width - have);
    }
    strbuf_addz(out, text);
    if (!right && !last) {
        pad(out, width - have);
    }
}

bool report_column_is_number(const struct report_table *t, size_t column)
{
    for (size_t r = 0; r < t->row_count; r++) {
        enum value_kind kind = t->cells[r * t->column_count + column].kind;
        if (kind != VALUE_NULL) {
            return kind == VALUE_INT || kind == VALUE_REAL;
        }
    }
    return false;
}

bool report_table_has_text(const struct report_table *t)
{
    for (size_t c = 0; c < t->column_count; c++) {
        if (t->columns[c].heading != NULL) {
            return true;
        }
    }
    return false;
}

static int width_of(const struct report_table *t, size_t column, struct strbuf *cell)
{
    int width = columns_of(t->columns[column].heading);
    for (size_t r = 0; r < t->row_count; r++) {
        report_cell_text(cell, &t->columns[column], &t->cells[r * t->column_count + column]);
        int n = columns_of(cell->p);
        width = n > width ? n : width;
    }
    return width;
}

void report_table_text(const struct report_table *t, struct strbuf *out)
{
    struct arena *scratch = arena_new(0);
    struct strbuf cell;
    strbuf_init(&cell, scratch, CELL_MAX);
    int *widths = arena_array(scratch, t->column_count + 1, sizeof *widths);
    for (size_t c = 0; c < t->column_count; c++) {
        widths[c] = t->columns[c].heading != NULL ? width_of(t, c, &cell) : 0;
    }
    for (size_t r = 0; r <= t->row_count; r++) {
        for (size_t c = 0; c < t->column_count; c++) {
            const struct report_column *column = &t->columns[c];
            if (column->heading == NULL) {
                continue;
            }
            const char *text = column->heading;
            if (r != 0) {
                report_cell_text(&cell, column, &t->cells[(r - 1) * t->column_count + c]);
                text = cell.p;
            }
            write_cell(out, text, widths[c], report_column_is_number(t, c),
                       c + 1 == t->column_count);
        }
        strbuf_addc(out, '\n');
    }
    arena_free(scratch);
}
