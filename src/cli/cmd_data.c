// SPDX-License-Identifier: Apache-2.0
/* assay data: what is in files of training data, and what is wrong with them. */
#include <inttypes.h>
#include <string.h>

#include "base/str.h"

#include "cli/action_options.h"
#include "cli/command.h"
#include "cli/command_list.h"
#include "cli/session.h"
#include "model/data_check.h"
#include "model/data_seen.h"

enum {
    TURN_ROWS = 500
};

struct job {
    struct cli *cli;
    struct issues issues;
    struct report report;
    const struct tokenizer *tokenizer;
    uint64_t max_length; /* of --max-length; 0 without */
};

static void progress(void *ctx, uint64_t done, uint64_t total)
{
    struct job *j = ctx;
    cli_progress(j->cli, "reading samples: %.2f of %.2f GB", (double)done / 1e9,
                 (double)total / 1e9);
}

static int finish(struct job *j, const char *what)
{
    cli_progress(j->cli, NULL);
    if (j->issues.dropped != 0) {
        *VEC_PUSH(j->cli->arena, &j->report.notes) = arena_fmt(
            j->cli->arena, "%zu more findings of the same kinds are not listed", j->issues.dropped);
    }
    findings_sort(&j->issues.list);
    j->report.lists[j->report.list_count++] = (struct report_list){.key = "findings",
                                                                   .findings = &j->issues.list};
    j->report.verdict = arena_fmt(j->cli->arena, "%s: %s", what,
                                  session_counts(j->cli, &j->issues.list));
    tok_close(j->tokenizer);
    return session_report(j->cli, &j->report, session_exit(&j->issues.list));
}

/* ---- check ---- */

static const struct report_column file_columns[] = {
    {"file", "file", 0},         {"layout", "layout", 0},
    {"samples", "samples", 0},   {"turns", "turns", 0},
    {"unread", "unread", 0},     {"duplicates", "twice", 0},
    {"in_train", "in train", 0}, {"trained_share", "trained", 3},
    {"tokens", "tokens", 0},     {"p50", "p50", 0},
    {"p90", "p90", 0},           {"p99", "p99", 0},
    {"longest", "longest", 0},   {"longest_line", NULL, 0},
    {"too_long", "too long", 0},
};

/* "ShareGPT", or all that a file mixes. */
static const char *layouts_of(const struct job *j, const struct data_file *f)
{
    struct strbuf b;
    strbuf_init(&b, j->cli->arena, 200);
    for (int l = 0; l < DATA_LAYOUT_COUNT; l++) {
        if (f->layouts[l] != 0) {
            strbuf_fmt(&b, "%s%s", b.n != 0 ? ", " : "", data_layout_name((enum data_layout)l));
        }
    }
    return b.p;
}

static void fill_row(const struct job *j, const struct data_file *f, struct value *row)
{
    row[0] = value_string(issue_text(j->cli->arena, str_of(f->path)));
    if (!f->opened) {
        return;
    }
    row[1] = value_string(layouts_of(j, f));
    row[2] = value_int((int64_t)f->samples);
    row[3] = value_int((int64_t)f->turns);
    row[4] = value_int((int64_t)f->unread);
    row[5] = value_int((int64_t)f->duplicates);
    if (f->is_eval) {
        row[6] = value_int((int64_t)f->shared);
    }
    uint64_t all = f->lengths != NULL ? f->tokens : f->text_bytes;
    uint64_t trained = f->lengths != NULL ? f->trained_tokens : f->trained_bytes;
    if (all != 0) {
        row[7] = value_real((double)trained / (double)all);
    }
    if (f->lengths != NULL) {
        row[8] = value_int((int64_t)f->tokens);
        row[9] = value_int((int64_t)data_quantile(f, .5));
        row[10] = value_int((int64_t)data_quantile(f, .9));
        row[11] = value_int((int64_t)data_quantile(f, .99));
        row[12] = value_int((int64_t)f->longest);
        row[13] = value_int((int64_t)f->longest_line);
        row[14] = value_int((int64_t)f->too_long);
    }
}

static void file_table(struct job *j, const struct data_check *c)
{
    /* Without tokens the columns of lengths are left out. */
    size_t columns = j->tokenizer != NULL ? ARRAY_LEN(file_columns) : 8;
    struct value *cells = arena_array(j->cli->arena, c->count * columns, sizeof *cells);
    for (size_t i = 0; i < c->count; i++) {
        struct value row[ARRAY_LEN(file_columns)] = {0};
        fill_row(j, &c->files[i], row);
        memcpy(cells + i * columns, row, columns * sizeof *row);
    }
    j->report.tables[j->report.table_count++] = (struct report_table){.key = "files",
                                                                      .columns = file_columns,
                                                                      .column_count = columns,
                                                                      .cells = cells,
                                                                      .row_count = c->count};
}

static const struct report_column kind_columns[] = {
    {"finding", "finding", 0}, {"count", "count", 0}, {"file", "first in", 0}, {"line", "line", 0}};

static void kind_table(struct job *j, const struct data_check *c)
{
    enum {
        COLUMNS = ARRAY_LEN(kind_columns)
    };

    struct value *cells = arena_array(j->cli->arena, c->kind_count * COLUMNS, sizeof *cells);
    for (size_t i = 0; i < c->kind_count; i++) {
        struct value *row = cells + i * COLUMNS;
        row[0] = value_string(c->kinds[i].id);
        row[1] = value_int((int64_t)c->kinds[i].count);
        row[2] = value_string(issue_text(j->cli->arena, str_of(c->kinds[i].file)));
        row[3] = value_int((int64_t)c->kinds[i].line);
    }
    j->report.tables[j->report.table_count++] = (struct report_table){.key = "kinds",
                                                                      .columns = kind_columns,
                                                                      .column_count = COLUMNS,
                                                                      .cells = cells,
                                                                      .row_count = c->kind_count};
}

static int run_check(struct job *j, const struct text_list *train)
{
    struct data_check c;
    struct text_list eval = {0};
    const char *path;
    struct data_options options = {.tokenizer = j->tokenizer,
                                   .max_length = j->max_length,
                                   .media_folder = cli_value(j->cli, "media", NULL),
                                   .progress = progress,
                                   .ctx = j};
    for (size_t i = 0; (path = cli_repeat(j->cli, "eval", i)) != NULL; i++) {
        *VEC_PUSH(j->cli->arena, &eval) = path;
    }
    data_check(j->cli->arena, train, &eval, &options, &j->issues, &c);
    if (c.forgot) {
        *VEC_PUSH(j->cli->arena, &j->report.notes) = arena_fmt(
            j->cli->arena, "duplicates were looked for among the first %d samples only",
            DATA_SEEN_MAX);
    }
    file_table(j, &c);
    if (c.kind_count != 0) {
        kind_table(j, &c);
    }
    return finish(j, "data check");
}

/* ---- show ---- */

static const struct report_column turn_columns[] = {
    {"turn", "turn", 0},     {"role", "role", 0},       {"bytes", "bytes", 0},
    {"tokens", "tokens", 0}, {"trained", "trained", 0}, {"text", "text", 0},
};

static void turn_table(struct job *j, const struct data_sample *s)
{
    enum {
        COLUMNS = ARRAY_LEN(turn_columns)
    };

    struct err err;
    size_t rows = s->turns.count < TURN_ROWS ? s->turns.count : TURN_ROWS;
    struct value *cells = arena_array(j->cli->arena, rows * COLUMNS, sizeof *cells);
    struct tok_encoder *e = j->tokenizer != NULL ? tok_encoder_new(j->tokenizer) : NULL;
    for (size_t i = 0; i < rows; i++) {
        const struct data_turn *t = &s->turns.items[i];
        struct value *row = cells + i * COLUMNS;
        struct tok_ids ids = {0};
        row[0] = value_int((int64_t)i + 1);
        row[1] = value_string(data_role_name(t->role));
        row[2] = value_int((int64_t)t->text.n);
        if (e != NULL && tok_encode(e, j->cli->arena, t->text, 0, &ids, &err) == ST_OK) {
            row[3] = value_int((int64_t)ids.count);
        }
        row[4] = value_string(t->trained ? "yes" : "no");
        row[5] = value_string(issue_text(j->cli->arena, t->text));
    }
    if (e != NULL) {
        tok_encoder_free(e);
    }
    j->report.tables[j->report.table_count++] = (struct report_table){.key = "turns",
                                                                      .columns = turn_columns,
                                                                      .column_count = COLUMNS,
                                                                      .cells = cells,
                                                                      .row_count = rows};
}

static int run_show(struct job *j, const struct text_list *files)
{
    struct err err = {0};
    uint64_t number = 1;
    uint64_t line = 0;
    struct data_sample s;
    const char *text = cli_value(j->cli, "sample", NULL);
    if (files->count != 1) {
        return cli_fail(j->cli, EXIT_USAGE, "'data show' takes one file");
    }
    if (text != NULL && (str_to_u64(str_of(text), 10, &number) != ST_OK || number == 0)) {
        return cli_fail(j->cli, EXIT_USAGE, "--sample takes a number from 1 on, not '%s'", text);
    }
    enum status status = data_sample_at(j->cli->arena, files->items[0], number, &s, &line, &err);
    if (status != ST_OK) {
        return cli_fail(j->cli, status == ST_FORMAT ? EXIT_FAULT : EXIT_UNKNOWN, "%s", err.text);
    }
    *VEC_PUSH(j->cli->arena, &j->report.notes) = arena_fmt(
        j->cli->arena, "sample %" PRIu64 ", line %" PRIu64 ", layout: %s", number, line,
        data_layout_name(s.layout));
    if (s.missing != NULL || s.layout == DATA_LAYOUT_UNKNOWN) {
        j->issues.file = files->items[0];
        issue_add(&j->issues, SEVERITY_ERROR,
                  s.missing != NULL ? "data-missing-field" : "data-layout",
                  s.missing != NULL ? "a field is missing, or of another kind"
                                    : "a sample is in no layout that is known here",
                  "The sample (%s) has no usable %s.", data_layout_name(s.layout),
                  s.missing != NULL ? s.missing : "turns");
    }
    turn_table(j, &s);
    return finish(j, "data show");
}

static const struct action_option uses[] = {
    {"max-length", "check"},
    {"eval", "check"},
    {"media", "check"},
    {"sample", "show"},
};

static int run_data(struct cli *cli)
{
    struct err err = {0};
    struct text_list files = {0};
    struct job j = {.cli = cli, .report = {.command = "data", .schema_version = 1}};
    const char *tokenizer = cli_value(cli, "tokenizer", NULL);
    const char *most = cli_value(cli, "max-length", NULL);
    const char *action = cli->operands.count != 0 ? cli->operands.items[0] : "";
    bool check = strcmp(action, "check") == 0;
    if (!check && strcmp(action, "show") != 0) {
        return cli_fail(cli, EXIT_USAGE, "'data' does one of check, show; '%s' is none", action);
    }
    if (action_options_check(cli, uses, ARRAY_LEN(uses), action, &err) != ST_OK) {
        return cli_fail(cli, EXIT_USAGE, "%s", err.text);
    }
    if (cli->operands.count < 2) {
        return cli_fail(cli, EXIT_USAGE, "'data %s' needs a file: 'assay data %s FILE'", action,
                        action);
    }
    if (most != NULL &&
        (str_to_u64(str_of(most), 10, &j.max_length) != ST_OK || j.max_length == 0)) {
        return cli_fail(cli, EXIT_USAGE, "--max-length takes a number of tokens, not '%s'", most);
    }
    if (most != NULL && tokenizer == NULL) {
        return cli_fail(cli, EXIT_USAGE, "--max-length needs --tokenizer to count tokens with");
    }
    if (tokenizer != NULL && tok_open(cli->arena, tokenizer, NULL, &j.tokenizer, &err) != ST_OK) {
        return cli_fail(cli, err.status == ST_FORMAT ? EXIT_FAULT : EXIT_UNKNOWN, "%s", err.text);
    }
    issues_init(&j.issues, cli->arena, NULL);
    for (size_t i = 1; i < cli->operands.count; i++) {
        *VEC_PUSH(cli->arena, &files) = cli->operands.items[i];
    }
    return check ? run_check(&j, &files) : run_show(&j, &files);
}

static const char *const description[] = {
    "Reads training data (JSON Lines, a JSON array, or text) and says what is wrong with single "
    "samples, with their lines: broken or unknown structure, missing fields, roles out of order, empty "
    "turns, control tokens in contents, media that are not there, placeholders that do not match, "
    "samples that are there twice or in the evaluation too. With --tokenizer it counts tokens.",
    "Layouts: messages (OpenAI), ShareGPT, Alpaca, prompt and completion, text, each with chosen and "
    "rejected where it is for preferences. Parquet, Arrow and compressed files are not read.",
    NULL,
};

static const struct example examples[] = {
    {"assay data check train.jsonl", "is every sample what a template expects?"},
    {"assay data check train.jsonl --eval eval.jsonl", "and is the evaluation not among them?"},
    {"assay data check train.json --tokenizer ./model --max-length 2048", "how long are they?"},
    {"assay data show train.jsonl --sample 42", "one sample, turn by turn"},
    {0},
};

static const struct option_spec options[] = {
    {"tokenizer", 't', OPTION_VALUE, "DIR", "Count tokens with the tokenizer in DIR, or a file"},
    {"max-length", 'm', OPTION_VALUE, "N", "check: name samples of more than N tokens"},
    {"eval", 'e', OPTION_REPEAT, "FILE", "check: evaluation data, held against the training data"},
    {"media", 0, OPTION_VALUE, "DIR", "check: look for media below DIR, not beside the file"},
    {"sample", 's', OPTION_VALUE, "N", "show: sample number N instead of the first"},
    REPORT_OPTIONS,
    {0},
};

const struct command command_data = {
    .name = "data",
    .summary = "Check training data sample by sample",
    .operands = "check|show FILE...",
    .operand_kind = "file",
    .description = description,
    .examples = examples,
    .options = options,
    .run = run_data,
};
