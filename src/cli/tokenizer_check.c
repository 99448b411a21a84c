// SPDX-License-Identifier: Apache-2.0
/* The findings, and a table of what was found in each. */
#include "cli/tokenizer_check.h"

#include "cli/session.h"
#include "model/tok_check.h"

static const struct report_column of_one[] = {{"what", "what", 0}, {"value", "value", 0}};
static const struct report_column of_two[] = {
    {"what", "what", 0}, {"first", "first", 0}, {"second", "second", 0}};

enum {
    COLUMNS = ARRAY_LEN(of_two), /* at most */
    ROWS = 16
};

struct table {
    struct cli *cli;
    const struct tok_check *checks;
    size_t count; /* 1 or 2 */
    struct value *cells;
    size_t rows;
};

static struct value *add_row(struct table *t, const char *what)
{
    struct value *row = t->cells + t->rows++ * (1 + t->count);
    row[0] = value_string(what);
    return row + 1;
}

static void add_special(struct table *t, enum tok_special_kind kind)
{
    struct value *row = add_row(t, tok_special_name(kind));
    for (size_t i = 0; i < t->count; i++) {
        const struct tok_special *s = &t->checks[i].special[kind];
        if (s->text != NULL) {
            const char *text = issue_text(t->cli->arena, str_of(s->text));
            row[i] = value_string(
                s->id != TOK_NO_ID ? arena_fmt(t->cli->arena, "%s (%u)", text, s->id) : text);
        }
    }
}

static void fill(struct table *t)
{
    static const char *const names[] = {"file",       "format", "way",     "ids",
                                        "vocab_size", "rows",   "template"};
    for (size_t n = 0; n < ARRAY_LEN(names); n++) {
        struct value *row = add_row(t, names[n]);
        for (size_t i = 0; i < t->count; i++) {
            const struct tok_check *c = &t->checks[i];
            const struct value values[] = {
                value_string(tok_path(c->tokenizer)),
                value_string(tok_format_name(tok_format_of(c->tokenizer))),
                value_string(tok_pipeline(c->tokenizer, t->cli->arena)),
                value_int(c->id_end),
                c->vocab_size != 0 ? value_int((int64_t)c->vocab_size) : (struct value){0},
                c->rows != 0 ? value_int((int64_t)c->rows) : (struct value){0},
                c->template_file != NULL
                    ? value_string(
                          arena_fmt(t->cli->arena, "%s, %s", c->template_name, c->template_file))
                    : (struct value){0},
            };
            row[i] = values[n];
        }
    }
    for (int k = 0; k < TOK_SPECIAL_COUNT; k++) {
        add_special(t, (enum tok_special_kind)k);
    }
}

int tokenizer_check(struct cli *cli)
{
    struct err err = {0};
    struct issues issues;
    struct tok_check checks[2];
    struct tok_options options = {.pattern = cli_value(cli, "pattern", NULL)};
    const char *against = cli_value(cli, "against", NULL);
    const char *paths[2] = {cli->operands.items[1], against};
    size_t count = against != NULL ? 2 : 1;
    issues_init(&issues, cli->arena, NULL);
    if (cli->operands.count > 2) {
        return cli_fail(cli, EXIT_USAGE,
                        "'tokenizer check' takes one folder; give the other with --against");
    }
    for (size_t i = 0; i < count; i++) {
        issues.file = paths[i];
        if (tok_check(cli->arena, paths[i], &options, &issues, &checks[i], &err) != ST_OK) {
            return cli_fail(cli,
                            err.status == ST_USAGE    ? EXIT_USAGE
                            : err.status == ST_FORMAT ? EXIT_FAULT
                                                      : EXIT_UNKNOWN,
                            "%s", err.text);
        }
    }
    if (count == 2) {
        tok_check_against(&checks[0], &checks[1], &issues);
    }
    struct table t = {.cli = cli, .checks = checks, .count = count};
    t.cells = arena_array(cli->arena, (size_t)ROWS * COLUMNS, sizeof *t.cells);
    fill(&t);
    for (size_t i = 0; i < count; i++) {
        tok_close(checks[i].tokenizer);
    }
    struct report r = {.command = "tokenizer check", .schema_version = 1};
    findings_sort(&issues.list);
    r.lists[r.list_count++] = (struct report_list){.key = "findings", .findings = &issues.list};
    r.tables[r.table_count++] = (struct report_table){.key = "tokenizer",
                                                      .columns = count == 2 ? of_two : of_one,
                                                      .column_count = 1 + count,
                                                      .cells = t.cells,
                                                      .row_count = t.rows};
    r.verdict = arena_fmt(cli->arena, "tokenizer check: %s", session_counts(cli, &issues.list));
    return session_report(cli, &r, session_exit(&issues.list));
}
