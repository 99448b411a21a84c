// SPDX-License-Identifier: Apache-2.0
/*
 * assay checkpoint: show, verify, hash and diff model files. The first operand is the action, the rest
 * are paths.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/str.h"

#include "cli/action_options.h"
#include "cli/command.h"
#include "cli/command_list.h"
#include "cli/session.h"
#include "model/checkpoint.h"
#include "model/compare.h"
#include "model/folder.h"
#include "model/manifest.h"
#include "model/merge.h"

enum {
    SHOW_ROWS = 2000
};

struct job {
    struct cli *cli;
    struct issues issues;
    struct report report;
    const char *verb; /* of the progress line */
    unsigned threads;
    unsigned sample;
};

static void progress(void *ctx, uint64_t done, uint64_t total)
{
    struct job *j = ctx;
    cli_progress(j->cli, "%s %.1f of %.1f GB", j->verb, (double)done / 1e9, (double)total / 1e9);
}

static enum status number_option(struct cli *cli, const char *name, unsigned most, unsigned *ret,
                                 struct err *err)
{
    const char *text = cli_value(cli, name, NULL);
    uint64_t value = 0;
    if (text == NULL) {
        return ST_OK;
    }
    if (str_to_u64(str_of(text), 10, &value) != ST_OK || value == 0 || value > most) {
        return err_set(err, ST_USAGE, "--%s takes a number from 1 to %u, not '%s'", name, most,
                       text);
    }
    *ret = (unsigned)value;
    return ST_OK;
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
    return session_report(j->cli, &j->report, session_exit(&j->issues.list));
}

/* ---- tables ---- */

/* Room for `rows` rows of a table. */
static struct value *cells_for(struct job *j, size_t columns, size_t rows)
{
    return arena_array(j->cli->arena, rows * columns, sizeof(struct value));
}

static void add_table(struct job *j, const char *key, const struct report_column *columns,
                      size_t column_count, const struct value *cells, size_t rows)
{
    j->report.tables[j->report.table_count++] = (struct report_table){.key = key,
                                                                      .columns = columns,
                                                                      .column_count = column_count,
                                                                      .cells = cells,
                                                                      .row_count = rows};
}

static const struct report_column file_columns[] = {
    {"file", "file", 0},       {"format", "format", 0},     {"bytes", "bytes", 0},
    {"tensors", "tensors", 0}, {"elements", "elements", 0},
};

static void file_table(struct job *j, const struct checkpoint *c)
{
    enum {
        COLUMNS = ARRAY_LEN(file_columns)
    };

    if (c->files.count == 0) {
        return;
    }
    struct value *cells = cells_for(j, COLUMNS, c->files.count);
    for (size_t i = 0; i < c->files.count; i++) {
        const struct checkpoint_file *f = &c->files.items[i];
        struct value *row = cells + i * COLUMNS;
        uint64_t elements = 0;
        for (size_t t = 0; f->tensors != NULL && t < f->tensors->count; t++) {
            elements += f->tensors->tensors[t].elements;
        }
        row[0] = value_string(issue_text(j->cli->arena, str_of(f->name)));
        row[1] = value_string(f->format);
        row[2] = value_int((int64_t)f->size);
        if (f->tensors != NULL) {
            row[3] = value_int((int64_t)f->tensors->count);
            row[4] = value_int((int64_t)elements);
        }
    }
    add_table(j, "files", file_columns, COLUMNS, cells, c->files.count);
}

static const struct report_column tensor_columns[] = {
    {"tensor", "tensor", 0}, {"type", "type", 0}, {"shape", "shape", 0},     {"bytes", "bytes", 0},
    {"offset", NULL, 0},     {"rms", "rms", 4},   {"abs_max", "largest", 4},
};

/* Tensors of a file with what was counted in them, when it was. */
static void tensor_table(struct job *j, const struct checkpoint *c)
{
    enum {
        COLUMNS = ARRAY_LEN(tensor_columns)
    };
    struct value *cells = cells_for(j, COLUMNS, SHOW_ROWS);
    size_t rows = 0;
    size_t left_out = 0;
    for (size_t i = 0; i < c->files.count; i++) {
        const struct checkpoint_file *f = &c->files.items[i];
        for (size_t t = 0; f->tensors != NULL && t < f->tensors->count; t++) {
            const struct tensor *one = &f->tensors->tensors[t];
            if (rows == SHOW_ROWS) {
                left_out++;
                continue;
            }
            struct value *row = cells + rows++ * COLUMNS;
            row[0] = value_string(issue_text(j->cli->arena, str_of(one->name)));
            row[1] = value_string(one->type->name);
            row[2] = value_string(tensor_shape_text(j->cli->arena, one->shape, one->rank));
            row[3] = value_int((int64_t)one->bytes);
            row[4] = value_int((int64_t)one->offset);
            if (f->stats != NULL && f->stats[t].elements != 0) {
                row[5] = value_real(tensor_stats_rms(&f->stats[t]));
                row[6] = value_real(f->stats[t].abs_max);
            }
        }
    }
    if (left_out != 0) {
        *VEC_PUSH(j->cli->arena, &j->report.notes) = arena_fmt(
            j->cli->arena, "%zu more tensors are not listed", left_out);
    }
    add_table(j, "tensors", tensor_columns, COLUMNS, cells, rows);
}

static const struct report_column meta_columns[] = {
    {"key", "key", 0},
    {"value", "value", 0},
};

/* What a file says of itself beside its tensors. */
static void meta_table(struct job *j, const struct tensor_file *f)
{
    enum {
        COLUMNS = ARRAY_LEN(meta_columns)
    };

    size_t rows = f->meta_count < SHOW_ROWS ? f->meta_count : SHOW_ROWS;
    struct value *cells = cells_for(j, COLUMNS, rows);
    for (size_t i = 0; i < rows; i++) {
        cells[i * COLUMNS] = value_string(issue_text(j->cli->arena, str_of(f->meta[i].key)));
        cells[i * COLUMNS + 1] = value_string(issue_text(j->cli->arena, str_of(f->meta[i].value)));
    }
    add_table(j, "metadata", meta_columns, COLUMNS, cells, rows);
}

/* ---- actions ---- */

static void note_if_empty(const struct checkpoint *c)
{
    if (c->files.count == 0 && !issues_wrong(c->issues)) {
        issue_add(c->issues, SEVERITY_UNKNOWN, "no-model-files", "there is no model file here",
                  "No safetensors, GGUF or torch files were found under this path.");
    }
}

static void scan_one(struct job *j, struct checkpoint *c)
{
    struct scan_options options = {
        .threads = j->threads, .sample = j->sample, .progress = progress, .ctx = j};
    if (j->sample <= 1) {
        j->verb = "comparing checksums:";
        checkpoint_check_sums(c, &options);
    }
    j->verb = "reading values:";
    checkpoint_scan(c, &options);
    checkpoint_judge(c, j->sample > 1);
    checkpoint_check_types(c);
}

/* Trainer, adapter, ZeRO, DCP and Megatron folders as wholes. A folder whose tensors no reader of files
 * takes (DCP) is still a checkpoint; that its values were not looked at is said. */
static void check_folders(struct job *j, const struct checkpoint *c, bool verify)
{
    struct text_list kinds = {0};
    struct err ignored;
    for (size_t i = 0; i < c->folders.count; i++) {
        const char *folder = c->folders.items[i];
        size_t before = kinds.count;
        j->issues.file = folder;
        (void)!folder_check(j->cli->arena, folder, &j->issues, &kinds, &ignored);
        for (size_t k = before; k < kinds.count; k++) {
            *VEC_PUSH(j->cli->arena, &j->report.notes) = arena_fmt(
                j->cli->arena, "read as: %s: %s", kinds.items[k],
                issue_text(j->cli->arena, str_of(folder)));
        }
    }
    j->issues.file = c->path;
    if (kinds.count == 0) {
        note_if_empty(c);
    } else if (c->files.count == 0 && verify) {
        *VEC_PUSH(j->cli->arena, &j->report.notes) =
            "structure and ranges were checked; values inside these files were not looked at";
    }
}

static int run_show_or_verify(struct job *j, bool verify)
{
    struct err err = {0};
    struct checkpoint c = {0};
    for (size_t i = 1; i < j->cli->operands.count; i++) {
        const char *path = j->cli->operands.items[i];
        j->issues.file = path;
        if (checkpoint_open(j->cli->arena, path, &j->issues, &c, &err) != ST_OK) {
            return cli_fail(j->cli, EXIT_UNKNOWN, "%s", err.text);
        }
        checkpoint_check_shards(&c);
        check_folders(j, &c, verify);
        if (verify) {
            scan_one(j, &c);
            struct manifest_options options = {.threads = j->threads,
                                               .fast = cli_flag(j->cli, "fast"),
                                               .progress = progress,
                                               .ctx = j};
            j->verb = "comparing hashes:";
            manifest_check(&c, &options);
        }
        if (j->cli->operands.count == 2) {
            file_table(j, &c);
            if (!verify) {
                tensor_table(j, &c);
            }
            if (!verify && c.files.count == 1 && c.files.items[0].tensors != NULL &&
                c.files.items[0].tensors->meta_count != 0) {
                meta_table(j, c.files.items[0].tensors);
            }
        }
        checkpoint_close(&c);
    }
    return finish(j, verify ? "checkpoint verify" : "checkpoint show");
}

static int run_hash(struct job *j)
{
    struct err err = {0};
    struct checkpoint c;
    struct manifest_options options = {.threads = j->threads, .progress = progress, .ctx = j};
    if (j->cli->operands.count != 2) {
        return cli_fail(j->cli, EXIT_USAGE, "'checkpoint hash' takes one path");
    }
    if (checkpoint_open(j->cli->arena, j->cli->operands.items[1], &j->issues, &c, &err) != ST_OK) {
        return cli_fail(j->cli, EXIT_UNKNOWN, "%s", err.text);
    }
    note_if_empty(&c);
    struct strbuf text;
    strbuf_init(&text, j->cli->arena, (size_t)1 << 30);
    struct scan_options sums = {.threads = j->threads, .progress = progress, .ctx = j};
    j->verb = "comparing checksums:";
    checkpoint_check_sums(&c, &sums);
    j->verb = "hashing:";
    if (issues_wrong(&j->issues) || c.files.count == 0) {
        return finish(j, "checkpoint hash: nothing was written");
    }
    enum status status = manifest_write(&c, &options, &text, &err);
    checkpoint_close(&c);
    cli_progress(j->cli, NULL);
    if (status != ST_OK) {
        return cli_fail(j->cli, EXIT_UNKNOWN, "%s", err.text);
    }
    return cli_emit(j->cli, strbuf_str(&text), EXIT_FINE);
}

static const struct report_column diff_columns[] = {
    {"tensor", "tensor", 0},
    {"state", "state", 0},
    {"changed_share", "changed", 4},
    {"max_difference", "max", 4},
    {"rms_difference", "rms", 4},
    {"cosine", "cosine", 8},
    {"update_ratio", "update/weight", 4},
};

static void diff_table(struct job *j, const struct compare *d)
{
    enum {
        COLUMNS = ARRAY_LEN(diff_columns)
    };

    size_t rows = d->count < SHOW_ROWS ? d->count : SHOW_ROWS;
    struct value *cells = cells_for(j, COLUMNS, rows);
    for (size_t i = 0; i < rows; i++) {
        const struct compare_tensor *t = &d->tensors[i];
        struct value *row = cells + i * COLUMNS;
        row[0] = value_string(issue_text(j->cli->arena, str_of(t->name)));
        row[1] = value_string(compare_state_name(t->state));
        if (t->state == COMPARE_DIFFERENT) {
            row[2] = value_real((double)t->changed / (double)t->elements);
            row[3] = value_real(t->max_difference);
            row[4] = value_real(sqrt(t->sum_difference_sq / (double)t->elements));
            row[5] = value_real(compare_cosine(t));
            row[6] = value_real(compare_update_ratio(t));
        }
    }
    add_table(j, "tensors", diff_columns, COLUMNS, cells, rows);
}

static const struct report_column merge_columns[] = {
    {"tensor", "tensor", 0}, {"state", "state", 0},         {"rank", "rank", 0},
    {"scale", "scale", 4},   {"fitted", "found", 4},        {"residual", "off by", 3},
    {"elements", NULL, 0},   {"outside", "too far off", 0},
};

static void merge_table(struct job *j, const struct merge *m)
{
    enum {
        COLUMNS = ARRAY_LEN(merge_columns)
    };

    size_t rows = m->count < SHOW_ROWS ? m->count : SHOW_ROWS;
    struct value *cells = cells_for(j, COLUMNS, rows);
    for (size_t i = 0; i < rows; i++) {
        const struct merge_module *r = &m->modules[i];
        struct value *row = cells + i * COLUMNS;
        row[0] = value_string(issue_text(j->cli->arena, str_of(r->name)));
        row[1] = value_string(merge_state_name(r->state));
        if (r->state != MERGE_UNREAD) {
            row[2] = value_int((int64_t)r->rank);
            row[3] = value_real(r->scale);
            row[4] = isfinite(r->fitted) ? value_real(r->fitted) : row[4];
            row[5] = value_real(r->residual);
            row[6] = value_int((int64_t)r->elements);
            row[7] = value_int((int64_t)r->outside);
        }
    }
    add_table(j, "modules", merge_columns, COLUMNS, cells, rows);
}

/* Two checkpoints tensor by tensor, or base and merged model with the adapter between them. */
static enum status diff_two(struct job *j, struct checkpoint *c,
                            const struct compare_options *options, struct err *err)
{
    const char *adapter = cli_value(j->cli, "adapter", NULL);
    if (adapter != NULL) {
        struct merge m;
        TRY(merge_check(&c[0], &c[1], adapter, options, &m, err));
        merge_table(j, &m);
        return ST_OK;
    }
    struct compare d;
    compare_two(&c[0], &c[1], options, &d);
    diff_table(j, &d);
    return ST_OK;
}

static int run_diff(struct job *j)
{
    struct err err = {0};
    size_t count = j->cli->operands.count - 1;
    struct checkpoint *c = arena_array(j->cli->arena, count, sizeof *c);
    if (count < 2) {
        return cli_fail(j->cli, EXIT_USAGE, "'checkpoint diff' takes two paths, or all replicas");
    }
    if (count > 2 && cli_value(j->cli, "adapter", NULL) != NULL) {
        return cli_fail(j->cli, EXIT_USAGE, "--adapter takes two paths: the base and the merged");
    }
    for (size_t i = 0; i < count; i++) {
        const char *path = j->cli->operands.items[i + 1];
        j->issues.file = path;
        if (checkpoint_open(j->cli->arena, path, &j->issues, &c[i], &err) != ST_OK) {
            return cli_fail(j->cli, EXIT_UNKNOWN, "%s", err.text);
        }
        note_if_empty(&c[i]);
    }
    j->verb = "comparing:";
    struct compare_options options = {.threads = j->threads, .progress = progress, .ctx = j};
    enum status status = ST_OK;
    if (count == 2) {
        status = diff_two(j, c, &options, &err);
    } else {
        compare_replicas(c, count, &options);
    }
    for (size_t i = 0; i < count; i++) {
        checkpoint_close(&c[i]);
    }
    if (status != ST_OK) {
        return cli_fail(j->cli, EXIT_UNKNOWN, "%s", err.text);
    }
    return finish(j, "checkpoint diff");
}

static const struct action_option uses[] = {
    {"adapter", "diff"},
    {"fast", "verify|hash|diff"},
    {"sample", "verify|diff"},
};

static int run_checkpoint(struct cli *cli)
{
    struct err err = {0};
    struct job j = {
        .cli = cli, .report = {.command = "checkpoint", .schema_version = 1}, .sample = 1};
    issues_init(&j.issues, cli->arena, NULL);
    if (cli->operands.count < 2) {
        return cli_fail(cli, EXIT_USAGE,
                        "say what to do and with what: 'assay checkpoint verify PATH'");
    }
    if (number_option(cli, "threads", 256, &j.threads, &err) != ST_OK ||
        number_option(cli, "sample", 1000000, &j.sample, &err) != ST_OK) {
        return cli_fail(cli, EXIT_USAGE, "%s", err.text);
    }
    const char *action = cli->operands.items[0];
    if (action_options_check(cli, uses, ARRAY_LEN(uses), action, &err) != ST_OK) {
        return cli_fail(cli, EXIT_USAGE, "%s", err.text);
    }
    if (strcmp(action, "show") == 0 || strcmp(action, "verify") == 0) {
        return run_show_or_verify(&j, action[0] == 'v');
    }
    if (strcmp(action, "hash") == 0) {
        return run_hash(&j);
    }
    if (strcmp(action, "diff") == 0) {
        return run_diff(&j);
    }
    return cli_fail(cli, EXIT_USAGE, "'%s' is no action; there are show, verify, hash and diff",
                    action);
}

static const char *const description[] = {
    "Reads model files (safetensors with their index, torch archives, GGUF) without running anything "
    "from them. 'show' lists files and tensors. 'verify' checks structure, offsets and sizes by the "
    "reference readers' rules, reads every value for NaN, infinities, zeros, denormals and absurd "
    "norms, and compares hashes with assay-manifest.json, sha256sum.txt or md5sum.txt beside the files.",
    "'hash' writes such a manifest: SHA-256 of each file, XXH3 of each tensor. 'diff' compares two "
    "checkpoints tensor by tensor, names matched across wrappers' prefixes; with three or more paths "
    "it compares replicas, which must be identical, and names the odd one. With --adapter it checks "
    "that the second is the first with a LoRA adapter merged into it, module by module.",
    NULL,
};

static const struct example examples[] = {
    {"assay checkpoint verify out/checkpoint-500", "is this checkpoint whole and sane?"},
    {"assay checkpoint hash model -o model/assay-manifest.json", "remember what it holds"},
    {"assay checkpoint diff checkpoint-100 checkpoint-200", "what did training change?"},
    {"assay checkpoint diff base merged --adapter out/checkpoint-500", "is the merge right?"},
    {"assay checkpoint diff rank0 rank1 rank2 rank3", "are the replicas identical?"},
    {"assay checkpoint show model.safetensors --json", "names, types and shapes"},
    {0},
};

static const struct option_spec options[] = {
    {"threads", 't', OPTION_VALUE, "N", "Threads to work with (all cores)"},
    {"sample", 0, OPTION_VALUE, "N", "Read one window of 8 MiB in N"},
    {"adapter", 0, OPTION_VALUE, "DIR", "diff: is the second the first merged with this adapter?"},
    {"fast", 0, OPTION_FLAG, NULL, "Compare only XXH3 of tensors, no SHA-256 or MD5 of files"},
    REPORT_OPTIONS,
    {0},
};

const struct command command_checkpoint = {
    .name = "checkpoint",
    .summary = "Check, compare and hash model files and checkpoints",
    .operands = "show|verify|diff|hash PATH...",
    .operand_kind = "file",
    .description = description,
    .examples = examples,
    .options = options,
    .run = run_checkpoint,
};
