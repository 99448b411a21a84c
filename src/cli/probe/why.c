// SPDX-License-Identifier: Apache-2.0
/*
 * assay probe --why: which devices and libraries there are, whether the guard is proven on each
 * device, and for everything that is off the reason: a library or a symbol that is missing.
 */
#include "cli/probe/why.h"

#include "base/vec.h"

#include "cli/session.h"
#include "device/guard.h"
#include "report/report.h"

static const struct report_column device_columns[] = {
    {"device", "DEVICE", 0}, {"name", "NAME", 0}, {"arch", "ARCH", 0},
    {"driver", "DRIVER", 0}, {"gib", "GIB", 4},   {"guard", "GUARD", 0},
};

static const struct report_column feature_columns[] = {
    {"backend", "BACK END", 0}, {"feature", "FEATURE", 0}, {"state", "STATE", 0},
    {"version", "VERSION", 0},  {"reason", "REASON", 0},   {"library", NULL, 0},
};

static struct value text(struct cli *cli, const char *s)
{
    return s[0] == '\0' ? (struct value){0} : value_string(arena_strdup(cli->arena, s));
}

static const char *device_name(struct cli *cli, const struct device_info *d)
{
    return arena_fmt(cli->arena, "%s:%d", device_kind_name(d->kind), d->index);
}

/* One finding for each device: proven, or why not. */
static void prove(struct cli *cli, const struct device_info *d, struct guard_proof *ret_proof,
                  struct finding *ret_finding)
{
    struct err err = {0};
    struct guard_proof proof = {.sentence = ""};
    struct finding f = {.severity = SEVERITY_UNKNOWN, .confidence = 1};
    const char *name = device_name(cli, d);
    cli_progress(cli, "planting faults on %s", name);
    if (guard_prove(d->kind, d->index, NULL, &proof, &err) != ST_OK) {
        f.claim = arena_strdup(cli->arena, err.text);
    } else {
        f.claim = arena_strdup(cli->arena, proof.sentence);
    }
    bool proven = proof.reads_proven && proof.writes_proven;
    f.id = proven ? "guard-proven" : "guard-not-proven";
    f.severity = proven ? SEVERITY_OK : SEVERITY_UNKNOWN;
    f.title = arena_fmt(cli->arena,
                        proven ? "the guard sees one element too far on %s"
                               : "no guarded result on %s means anything",
                        name);
    for (size_t i = 0; i < GUARD_PROOF_CASE_COUNT; i++) {
        if (proof.cases[i].how[0] != '\0') {
            *VEC_PUSH(cli->arena, &f.evidence) = (struct evidence){
                .source = guard_proof_case_name((enum guard_proof_case)i),
                .text = arena_strdup(cli->arena, proof.cases[i].how),
            };
        }
    }
    *ret_proof = proof;
    *ret_finding = f;
}

static struct report_table device_table(struct cli *cli, const struct device_info_list *devices,
                                        struct finding_list *findings)
{
    enum {
        COLUMNS = ARRAY_LEN(device_columns)
    };

    const double gib = 1024.0 * 1024 * 1024;
    struct value *cells = arena_array(cli->arena, devices->count * COLUMNS, sizeof *cells);
    for (size_t i = 0; i < devices->count; i++) {
        const struct device_info *d = &devices->items[i];
        struct value *row = &cells[i * COLUMNS];
        struct guard_proof proof;
        prove(cli, d, &proof, VEC_PUSH(cli->arena, findings));
        row[0] = text(cli, device_name(cli, d));
        row[1] = text(cli, d->name);
        row[2] = text(cli, d->arch);
        row[3] = text(cli, d->driver);
        row[4] = d->memory_bytes > 0 ? value_real((double)d->memory_bytes / gib)
                                     : (struct value){0};
        row[5] = text(cli, proof.reads_proven    ? proof.path_name
                           : proof.writes_proven ? "writes only"
                                                 : "not proven");
    }
    return (struct report_table){.key = "devices",
                                 .heading = "Devices",
                                 .columns = device_columns,
                                 .column_count = COLUMNS,
                                 .cells = cells,
                                 .row_count = devices->count};
}

/* The table of the text form is narrow; whole reasons of what is off are notes. */
static void add_notes(struct cli *cli, const struct device_feature_list *why,
                      struct text_list *notes)
{
    for (size_t i = 0; i < why->count; i++) {
        const struct device_feature *f = &why->items[i];
        if (f->state != FEATURE_READY) {
            *VEC_PUSH(cli->arena, notes) = arena_fmt(cli->arena, "%s, %s: %s", f->backend,
                                                     f->feature, f->reason);
        }
    }
}

static struct report_table feature_table(struct cli *cli, const struct device_feature_list *why)
{
    enum {
        COLUMNS = ARRAY_LEN(feature_columns)
    };
    struct value *cells = arena_array(cli->arena, why->count * COLUMNS, sizeof *cells);
    for (size_t i = 0; i < why->count; i++) {
        const struct device_feature *f = &why->items[i];
        struct value *row = &cells[i * COLUMNS];
        row[0] = text(cli, f->backend);
        row[1] = text(cli, f->feature);
        row[2] = text(cli, feature_state_name(f->state));
        row[3] = text(cli, f->version);
        row[4] = text(cli, f->reason);
        row[5] = text(cli, f->library);
    }
    return (struct report_table){.key = "features",
                                 .heading = "Features",
                                 .columns = feature_columns,
                                 .column_count = COLUMNS,
                                 .cells = cells,
                                 .row_count = why->count};
}

int probe_why(struct cli *cli)
{
    struct device_info_list devices;
    struct device_feature_list why;
    struct finding_list findings = {0};
    struct err err = {0};
    cli_progress(cli, "asking for devices");
    enum status st = device_list(cli->arena, NULL, &devices, &why, &err);
    if (st != ST_OK) {
        cli_progress(cli, NULL);
        return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
    }
    struct report report = {.command = "probe", .schema_version = 1};
    report.tables[report.table_count++] = device_table(cli, &devices, &findings);
    report.tables[report.table_count++] = feature_table(cli, &why);
    add_notes(cli, &why, &report.notes);
    cli_progress(cli, NULL);
    report.lists[report.list_count++] = (struct report_list){
        .key = "findings", .findings = &findings, .brief = true};
    report.verdict = arena_fmt(cli->arena, "probe: %s", session_counts(cli, &findings));
    return session_report(cli, &report, session_exit(&findings));
}
