// SPDX-License-Identifier: Apache-2.0
/* See qualify_tables.h. */
#include "cli/qualify/tables.h"

#include <stdlib.h>
#include <string.h>

static struct value text(const char *s)
{
    return s != NULL && s[0] != '\0' ? value_string(s) : (struct value){.kind = VALUE_NULL};
}

static void add(struct report *r, const char *key, const char *heading,
                const struct report_column *columns, size_t column_count, const struct value *cells,
                size_t row_count)
{
    if (row_count != 0) {
        r->tables[r->table_count++] = (struct report_table){.key = key,
                                                            .heading = heading,
                                                            .columns = columns,
                                                            .column_count = column_count,
                                                            .cells = cells,
                                                            .row_count = row_count};
    }
}

static void figures(struct qualify *q, struct report *r)
{
    static const struct report_column columns[] = {
        {"figure", "figure", 0}, {"value", "value", 0}, {"unit", "unit", 0}};

    enum {
        COLUMNS = ARRAY_LEN(columns)
    };

    struct value *cells = arena_array(q->cli->arena, q->figures.count * COLUMNS + 1, sizeof *cells);
    for (size_t i = 0; i < q->figures.count; i++) {
        cells[i * COLUMNS] = value_string(q->figures.items[i].name);
        cells[i * COLUMNS + 1] = value_real(q->figures.items[i].value);
        cells[i * COLUMNS + 2] = value_string(q->figures.items[i].unit);
    }
    add(r, "figures", "figures:", columns, COLUMNS, cells, q->figures.count);
}

static void switches(struct qualify *q, struct report *r)
{
    static const struct report_column columns[] = {{"switch", "switch", 0},
                                                   {"value", "value", 0},
                                                   {"result", "result", 0},
                                                   {"evidence", "evidence", 0}};

    enum {
        COLUMNS = ARRAY_LEN(columns)
    };

    struct value *cells = arena_array(q->cli->arena, q->switches.count * COLUMNS + 1,
                                      sizeof *cells);
    for (size_t i = 0; i < q->switches.count; i++) {
        const struct qualify_switch *s = &q->switches.items[i];
        cells[i * COLUMNS] = text(s->name);
        cells[i * COLUMNS + 1] = text(s->value);
        cells[i * COLUMNS + 2] = text(s->result);
        cells[i * COLUMNS + 3] = text(s->evidence);
    }
    add(r, "switches", "switches, and what became of them:", columns, COLUMNS, cells,
        q->switches.count);
}

static int by_calls(const void *pa, const void *pb)
{
    const struct qualify_path *a = pa;
    const struct qualify_path *b = pb;
    int order = strcmp(b->run, a->run); /* product before command */
    if (order != 0) {
        return order;
    }
    if (a->calls != b->calls) {
        return a->calls < b->calls ? 1 : -1;
    }
    order = strcmp(a->library, b->library);
    return order != 0 ? order : strcmp(a->function, b->function);
}

static void libraries(struct qualify *q, struct report *r)
{
    static const struct report_column columns[] = {
        {"run", "run", 0},     {"library", "library", 0},   {"function", "function", 0},
        {"calls", "calls", 0}, {"build_id", "build id", 0}, {"path", "file", 0},
    };

    enum {
        COLUMNS = ARRAY_LEN(columns)
    };

    struct value *cells = arena_array(q->cli->arena, q->paths.count * COLUMNS + 1, sizeof *cells);
    if (q->paths.count > 1) {
        qsort(q->paths.items, q->paths.count, sizeof *q->paths.items, by_calls);
    }
    for (size_t i = 0; i < q->paths.count; i++) {
        const struct qualify_path *p = &q->paths.items[i];
        struct value *row = &cells[i * COLUMNS];
        row[0] = text(p->run);
        row[1] = text(p->library);
        row[2] = text(p->function);
        row[3] = value_int(p->calls);
        row[4] = text(p->build_id);
        row[5] = text(p->path);
    }
    add(r, "libraries", "what really computed:", columns, COLUMNS, cells, q->paths.count);
}

void qualify_tables(struct qualify *q, struct report *report)
{
    figures(q, report);
    switches(q, report);
    libraries(q, report);
}
