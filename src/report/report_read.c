// SPDX-License-Identifier: Apache-2.0
/* See report_read.h. */
#include "report/report_read.h"

#include <string.h>

#include "base/tree.h"

enum {
    COLUMNS_MAX = 24
};

static double real_of(const struct tree *t, const char *key)
{
    double v;
    return str_to_double(str_of(tree_text(t, key, "")), &v) == ST_OK ? v : 0;
}

static int64_t int_of(const struct tree *t, const char *key)
{
    int64_t v;
    return str_to_i64(str_of(tree_text(t, key, "")), 10, &v) == ST_OK ? v : 0;
}

static enum severity severity_of(const char *name)
{
    for (int s = 0; s < SEVERITY_COUNT; s++) {
        if (strcmp(severity_name((enum severity)s), name) == 0) {
            return (enum severity)s;
        }
    }
    return SEVERITY_UNKNOWN; /* of a version to come: surely not a pass */
}

static void read_texts(struct arena *a, const struct tree *t, struct text_list *to)
{
    for (const struct tree *c = t != NULL ? t->child : NULL; c != NULL; c = c->next) {
        if (c->text != NULL) {
            *VEC_PUSH(a, to) = c->text;
        }
    }
}

/* ---- findings ---- */

static bool is_finding(const struct tree *t)
{
    return t != NULL && t->kind == TREE_MAP && tree_get(t, "severity") != NULL &&
           tree_get(t, "title") != NULL;
}

static void read_finding(struct arena *a, const struct tree *t, struct finding *f)
{
    *f = (struct finding){.id = tree_text(t, "id", tree_text(t, "class", "")),
                          .layer = tree_text(t, "layer", NULL),
                          .severity = severity_of(tree_text(t, "severity", "")),
                          .title = tree_text(t, "title", ""),
                          .claim = tree_text(t, "claim", NULL),
                          .confidence = real_of(t, "confidence")};
    const struct tree *evidence = tree_get(t, "evidence");
    for (const struct tree *e = evidence != NULL ? evidence->child : NULL; e != NULL; e = e->next) {
        *VEC_PUSH(a, &f->evidence) = (struct evidence){.source = tree_text(e, "source", ""),
                                                       .line = (long)int_of(e, "line"),
                                                       .text = tree_text(e, "text", NULL)};
    }
    read_texts(a, tree_get(t, "remedy"), &f->remedy);
    read_texts(a, tree_get(t, "links"), &f->links);
}

static bool add_list(struct arena *a, const struct tree *t, struct report *r)
{
    if (r->list_count == ARRAY_LEN(r->lists)) {
        return false;
    }
    struct finding_list *list = arena_alloc(a, sizeof *list);
    bool causes = false;
    for (const struct tree *c = t->child; c != NULL; c = c->next) {
        if (is_finding(c)) {
            causes |= tree_get(c, "class") != NULL;
            read_finding(a, c, VEC_PUSH(a, list));
        }
    }
    r->lists[r->list_count++] = (struct report_list){
        .key = t->key, .heading = t->key, .findings = list, .causes = causes};
    return true;
}

/* ---- tables ---- */

static bool is_row(const struct tree *t)
{
    if (t->kind != TREE_MAP || t->count == 0 || t->count > COLUMNS_MAX) {
        return false;
    }
    for (const struct tree *c = t->child; c != NULL; c = c->next) {
        if (c->kind != TREE_SCALAR) {
            return false;
        }
    }
    return true;
}

static bool is_table(const struct tree *t)
{
    if (t->kind != TREE_LIST || t->count == 0) {
        return false;
    }
    for (const struct tree *c = t->child; c != NULL; c = c->next) {
        if (!is_row(c)) {
            return false;
        }
    }
    return true;
}

static bool add_table(struct arena *a, const struct tree *t, struct report *r)
{
    if (r->table_count == ARRAY_LEN(r->tables)) {
        return false;
    }
    size_t width = t->child->count;
    struct report_column *columns = arena_array(a, width, sizeof *columns);
    struct value *cells = arena_array(a, width * t->count, sizeof *cells);
    size_t n = 0;
    for (const struct tree *c = t->child->child; c != NULL; c = c->next) {
        columns[n++] = (struct report_column){.key = c->key, .heading = c->key};
    }
    size_t row = 0;
    for (const struct tree *item = t->child; item != NULL; item = item->next, row++) {
        for (size_t i = 0; i < width; i++) {
            const struct tree *cell = tree_get(item, columns[i].key);
            if (cell != NULL) {
                cells[row * width + i] = cell->value;
            }
        }
    }
    r->tables[r->table_count++] = (struct report_table){.key = t->key,
                                                        .heading = t->key,
                                                        .columns = columns,
                                                        .column_count = width,
                                                        .cells = cells,
                                                        .row_count = t->count};
    return true;
}

/* ---- the whole ---- */

static void read_stages(struct arena *a, const struct tree *t, struct report *r)
{
    r->stages = arena_array(a, t->count + 1, sizeof *r->stages);
    for (const struct tree *c = t->child; c != NULL; c = c->next) {
        r->stages[r->stage_count++] = (struct report_stage){
            .name = tree_text(c, "name", ""),
            .verdict = tree_text(c, "verdict", "could not tell"),
            .summary = tree_text(c, "summary", "")};
    }
}

static void read_score(struct arena *a, const struct tree *t, struct report *r)
{
    const struct tree *weights = tree_get(t, "weights");
    struct report_points *rows = arena_array(a, weights != NULL ? weights->count + 1 : 1,
                                             sizeof *rows);
    size_t n = 0;
    for (const struct tree *c = weights != NULL ? weights->child : NULL; c != NULL; c = c->next) {
        rows[n++] = (struct report_points){.name = tree_text(c, "id", ""),
                                           .severity = severity_of(tree_text(c, "severity", "")),
                                           .weight = (int)int_of(c, "weight"),
                                           .lost = (int)int_of(c, "lost")};
    }
    r->score = (struct report_score){.present = true,
                                     .points = (int)int_of(t, "score"),
                                     .maximum = (int)int_of(t, "maximum"),
                                     .confidence = real_of(t, "confidence"),
                                     .rows = rows,
                                     .row_count = n};
}

static void read_about(const struct tree *t, struct report *r)
{
    for (const struct tree *c = t->child; c != NULL; c = c->next) {
        report_tell(r, tree_text(c, "name", ""), tree_text(c, "text", ""));
    }
}

static void read_member(struct arena *a, const struct tree *t, struct report *r)
{
    bool fits = true;
    if (strcmp(t->key, "stages") == 0 && r->stages == NULL) {
        read_stages(a, t, r);
    } else if (strcmp(t->key, "health") == 0) {
        read_score(a, t, r);
    } else if (strcmp(t->key, "about") == 0) {
        read_about(t, r);
    } else if (strcmp(t->key, "notes") == 0) {
        read_texts(a, t, &r->notes);
    } else if (t->kind == TREE_LIST && is_finding(t->child)) {
        fits = add_list(a, t, r);
    } else if (is_table(t)) {
        fits = add_table(a, t, r);
    } else if (t->kind == TREE_SCALAR && t->value.kind == VALUE_INT &&
               strcmp(t->key, "schema_version") != 0) {
        fits = r->number_count < ARRAY_LEN(r->numbers);
        if (fits) {
            r->numbers[r->number_count++] = (struct report_number){.key = t->key,
                                                                   .value = t->value.integer};
        }
    }
    if (!fits) {
        *VEC_PUSH(a, &r->notes) = arena_fmt(a, "'%s' of the record is not shown here", t->key);
    }
}

static bool all_passed(const struct report *r)
{
    for (size_t i = 0; i < r->stage_count; i++) {
        if (strcmp(r->stages[i].verdict, "passed") != 0) {
            return false;
        }
    }
    return r->stage_count != 0;
}

/* What an older record does not say by itself. */
static enum severity outcome_of(const struct report *r)
{
    bool told = all_passed(r);
    bool unknown = r->stage_count != 0 && !told;
    for (size_t i = 0; i < r->stage_count; i++) {
        if (strcmp(r->stages[i].verdict, "failed") == 0) {
            return SEVERITY_ERROR;
        }
    }
    for (size_t l = 0; l < r->list_count; l++) {
        const struct finding_list *f = r->lists[l].findings;
        told |= f->count != 0;
        for (size_t i = 0; i < f->count; i++) {
            if (r->lists[l].causes || f->items[i].severity == SEVERITY_ERROR ||
                f->items[i].severity == SEVERITY_WARNING) {
                return SEVERITY_ERROR;
            }
            unknown |= f->items[i].severity == SEVERITY_UNKNOWN;
        }
    }
    return told && !unknown ? SEVERITY_OK : SEVERITY_UNKNOWN;
}

enum status report_read(struct arena *a, struct str text, const char *name,
                        struct report *ret_report, struct err *err)
{
    const struct tree *t;
    TRY(tree_from_json(a, text, name, TREE_LIMITS_DEFAULT, &t, err));
    const char *command = tree_text(t, "command", NULL);
    int64_t version = int_of(t, "schema_version");
    if (command == NULL || version == 0) {
        return err_set(err, ST_FORMAT,
                       "%s is no record of assay: expected the JSON that a command writes with "
                       "--json, with schema_version and command",
                       name);
    }
    if (version != 1) {
        return err_set(
            err, ST_FORMAT,
            "%s has schema_version %s, and this program knows version 1: use the program "
            "that wrote it",
            name, tree_text(t, "schema_version", "?"));
    }
    struct report r = {
        .command = command, .schema_version = 1, .verdict = tree_text(t, "verdict", NULL)};
    for (const struct tree *c = t->child; c != NULL; c = c->next) {
        read_member(a, c, &r);
    }
    const char *outcome = tree_text(t, "outcome", NULL);
    r.outcome = outcome == NULL                 ? outcome_of(&r)
                : strcmp(outcome, "fine") == 0  ? SEVERITY_OK
                : strcmp(outcome, "fault") == 0 ? SEVERITY_ERROR
                                                : SEVERITY_UNKNOWN;
    *ret_report = r;
    return ST_OK;
}
