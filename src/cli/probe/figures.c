// SPDX-License-Identifier: Apache-2.0
/*
 * assay probe --figures: latencies, bandwidths, matrix rates and a leak test of one device, each
 * beside the limit of the part where one is known.
 */
#include "cli/probe/figures.h"

#include <string.h>

#include "base/vec.h"

#include "cli/probe/probe.h"
#include "cli/session.h"
#include "ops/figures.h"
#include "report/report.h"

static const struct report_column columns[] = {
    {"what", "WHAT", 0},   {"value", "VALUE", 3},     {"unit", "UNIT", 0},
    {"limit", "LIMIT", 4}, {"verdict", "VERDICT", 0}, {"note", "NOTE", 0},
};

bool probe_read_device(const char *name, enum device_kind *ret_kind, int *ret_index)
{
    struct str rest = str_of(name);
    struct str kind;
    char word[16];
    int64_t index = 0;
    if (!str_cut(&rest, ':', &kind) || kind.n >= sizeof word) {
        return false;
    }
    memcpy(word, kind.p, kind.n);
    word[kind.n] = '\0';
    bool has_index = kind.n < strlen(name);
    if (has_index && (str_to_i64(rest, 10, &index) != ST_OK || index < 0 || index > 1023)) {
        return false;
    }
    *ret_index = (int)index;
    return device_kind_find(word, ret_kind);
}

static void judge(struct cli *cli, const struct figure *f, struct finding_list *findings)
{
    struct finding finding = {
        .id = "figure-not-measured",
        .severity = SEVERITY_UNKNOWN,
        .title = arena_fmt(cli->arena, "%s could not be measured", f->what),
        .claim = arena_strdup(cli->arena, f->note),
        .confidence = 1,
    };
    if (f->verdict == FIGURE_SLOW) {
        finding.id = "device-slow";
        finding.severity = SEVERITY_WARNING;
        finding.title = arena_fmt(cli->arena, "%s: %.3g %s, and %.4g is the limit", f->what,
                                  f->value, f->unit, f->limit);
    }
    if (f->verdict == FIGURE_SLOW || f->verdict == FIGURE_UNKNOWN) {
        *VEC_PUSH(cli->arena, findings) = finding;
    }
}

static struct report_table table(struct cli *cli, const struct figures *figures)
{
    enum {
        COLUMNS = ARRAY_LEN(columns)
    };
    struct value *cells = arena_array(cli->arena, figures->count * COLUMNS, sizeof *cells);
    for (size_t i = 0; i < figures->count; i++) {
        const struct figure *f = &figures->items[i];
        struct value *row = &cells[i * COLUMNS];
        bool known = f->verdict != FIGURE_UNKNOWN;
        row[0] = value_string(arena_strdup(cli->arena, f->what));
        row[1] = known ? value_real(f->value) : (struct value){0};
        row[2] = value_string(arena_strdup(cli->arena, f->unit));
        row[3] = f->limit > 0 ? value_real(f->limit) : (struct value){0};
        row[4] = value_string(figure_verdict_name(f->verdict));
        row[5] = f->note[0] != '\0' ? value_string(arena_strdup(cli->arena, f->note))
                                    : (struct value){0};
    }
    return (struct report_table){.key = "figures",
                                 .columns = columns,
                                 .column_count = COLUMNS,
                                 .cells = cells,
                                 .row_count = figures->count};
}

int probe_figures(struct cli *cli)
{
    const char *name = cli_value(cli, "figures", "cpu");
    enum device_kind kind;
    int index;
    if (!probe_read_device(name, &kind, &index)) {
        return cli_fail(cli, EXIT_USAGE, "'%s' is no device: cpu, cuda, hip or opencl, or cuda:1",
                        name);
    }
    struct figures figures;
    struct err err = {0};
    cli_progress(cli, "measuring %s", name);
    enum status st = figures_measure(kind, index, &figures, &err);
    cli_progress(cli, NULL);
    if (st != ST_OK) {
        return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
    }
    struct finding_list findings = {0};
    for (size_t i = 0; i < figures.count; i++) {
        judge(cli, &figures.items[i], &findings);
    }
    struct report report = {.command = "probe", .schema_version = 1};
    report.tables[report.table_count++] = table(cli, &figures);
    report.tables[0].heading = arena_strdup(cli->arena, figures.device);
    report.lists[report.list_count++] = (struct report_list){.key = "findings",
                                                             .findings = &findings};
    report.verdict = arena_fmt(cli->arena, "probe: %s", session_counts(cli, &findings));
    return session_report(cli, &report, session_exit(&findings));
}
