// SPDX-License-Identifier: Apache-2.0
/* assay fleet: many nodes that should be alike, and who is not. */
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

#include "cli/command.h"
#include "cli/command_list.h"
#include "cli/fleet/inputs.h"
#include "cli/session.h"

enum {
    MATRIX_FACTS = 6,
    MATRIX_NODES = 60,
    CELL_MAX = 36
};

static struct value text_or_null(const char *text)
{
    return text != NULL ? value_string(text) : (struct value){.kind = VALUE_NULL};
}

/* Every difference; for programs, and on a page. */
static struct report_table differences_table(struct arena *a, const struct fleet *f,
                                             const struct fleet_result *r)
{
    static const struct report_column columns[] = {
        {"class", NULL, 0, "class"}, {"fact", NULL, 0, "fact"},
        {"node", NULL, 0, "node"},   {"value", NULL, 0, "value"},
        {"usual", NULL, 0, "usual"}, {"nodes_with_usual", NULL, 0, "nodes with it"},
        {"matters", NULL, 0, NULL},
    };

    enum {
        COLUMNS = sizeof columns / sizeof *columns
    };

    struct value *cells = arena_array(a, r->differences.count * COLUMNS + 1, sizeof *cells);
    for (size_t i = 0; i < r->differences.count; i++) {
        const struct fleet_difference *d = &r->differences.items[i];
        struct value *row = &cells[i * COLUMNS];
        row[0] = value_string(d->item->rule->class_name);
        row[1] = value_string(d->item->key);
        row[2] = value_string(f->nodes.items[d->node].name);
        row[3] = value_string(d->value);
        row[4] = text_or_null(d->usual);
        row[5] = value_int(d->with_usual);
        row[6] = value_bool(d->item->rule->severity != SEVERITY_NOTE);
    }
    return (struct report_table){.key = "differences",
                                 .heading = "differences",
                                 .columns = columns,
                                 .column_count = COLUMNS,
                                 .cells = cells,
                                 .row_count = r->differences.count};
}

/* Counts of one node. */
struct tally {
    size_t differs;
    size_t matters;
};

static struct tally *tallies(struct arena *a, const struct fleet *f, const struct fleet_result *r)
{
    struct tally *t = arena_array(a, f->nodes.count + 1, sizeof *t);
    for (size_t i = 0; i < r->differences.count; i++) {
        const struct fleet_difference *d = &r->differences.items[i];
        t[d->node].differs++;
        t[d->node].matters += d->item->rule->severity != SEVERITY_NOTE;
    }
    return t;
}

static const char *shortened(struct arena *a, const char *text)
{
    size_t n = CELL_MAX;
    if (strlen(text) <= CELL_MAX) {
        return text;
    }
    while (n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80) {
        n--; /* not inside a character */
    }
    return arena_fmt(a, "%.*s...", (int)n, text);
}

/* The first facts that differ, one a column; d[i] begins column i's differences. */
static size_t first_facts(const struct fleet_result *r, size_t starts[MATRIX_FACTS + 1])
{
    size_t columns = 0;
    size_t i = 0;
    while (i < r->differences.count) {
        if (i == 0 || r->differences.items[i].item != r->differences.items[i - 1].item) {
            if (columns == MATRIX_FACTS) {
                break;
            }
            starts[columns++] = i;
        }
        i++;
    }
    starts[columns] = i;
    return columns;
}

static void fill_row(struct value *row, const struct fleet *f, const struct tally *t, size_t node)
{
    row[0] = value_string(f->nodes.items[node].name);
    row[1] = value_int((int64_t)t[node].differs);
    row[2] = value_int((int64_t)t[node].matters);
}

/* Nodes by differing facts: the nodes that differ, above them what is usual. A cell is empty where the node is as
 * usual. */
static struct report_table matrix_table(struct arena *a, const struct fleet *f,
                                        const struct fleet_result *r, const struct tally *t)
{
    size_t starts[MATRIX_FACTS + 1];
    size_t facts = first_facts(r, starts);
    size_t width = facts + 3;
    struct report_column *columns = arena_array(a, width, sizeof *columns);
    columns[0] = (struct report_column){"node", "node", 0, NULL};
    columns[1] = (struct report_column){"differs", "differs", 0, NULL};
    columns[2] = (struct report_column){"matters", "matters", 0, NULL};
    size_t *row_of = arena_array(a, f->nodes.count + 1, sizeof *row_of);
    size_t rows = 1;
    for (size_t i = 0; i < f->nodes.count && rows <= MATRIX_NODES; i++) {
        if (t[i].differs != 0) {
            row_of[i] = rows++;
        }
    }
    struct value *cells = arena_array(a, rows * width, sizeof *cells);
    cells[0] = value_string("(usual)");
    for (size_t i = 0; i < f->nodes.count; i++) {
        if (row_of[i] != 0) {
            fill_row(&cells[row_of[i] * width], f, t, i);
        }
    }
    for (size_t c = 0; c < facts; c++) {
        const struct fleet_difference *d = &r->differences.items[starts[c]];
        columns[c + 3] = (struct report_column){d->item->key, d->item->key, 0, NULL};
        cells[c + 3] = value_string(d->usual != NULL ? shortened(a, d->usual) : "(no majority)");
        for (size_t i = starts[c]; i < starts[c + 1]; i++) {
            size_t row = row_of[r->differences.items[i].node];
            if (row != 0) {
                cells[row * width + c + 3] = value_string(
                    shortened(a, r->differences.items[i].value));
            }
        }
    }
    return (struct report_table){.key = "nodes",
                                 .heading = "nodes that differ, and the facts that matter first",
                                 .columns = columns,
                                 .column_count = width,
                                 .cells = cells,
                                 .row_count = rows};
}

static size_t usable_nodes(const struct fleet *f)
{
    size_t n = 0;
    for (size_t i = 0; i < f->nodes.count; i++) {
        n += fleet_node_usable(&f->nodes.items[i]);
    }
    return n;
}

static const char *verdict_of(struct arena *a, const struct fleet *f, const struct tally *t,
                              const struct finding_list *findings)
{
    struct text_list odd = {0};
    size_t slight = 0;
    bool unknown = false;
    size_t nodes = usable_nodes(f);
    for (size_t i = 0; i < f->nodes.count; i++) {
        if (t[i].matters != 0) {
            *VEC_PUSH(a, &odd) = f->nodes.items[i].name;
        }
        slight += t[i].differs != 0 && t[i].matters == 0;
    }
    for (size_t i = 0; i < findings->count; i++) {
        unknown = unknown || findings->items[i].severity == SEVERITY_UNKNOWN;
    }
    const char *gaps = unknown ? "; not everything could be compared" : "";
    if (odd.count != 0) {
        return arena_fmt(a, "%zu of %zu nodes %s in what matters: %s%s", odd.count, nodes,
                         odd.count == 1 ? "differs" : "differ", fleet_names(a, &odd, 6), gaps);
    }
    if (unknown) {
        return arena_fmt(
            a,
            "no difference that matters was seen between %zu %s, but not everything could be compared",
            nodes, nodes == 1 ? "node" : "nodes");
    }
    if (slight != 0) {
        return arena_fmt(a, "the %zu nodes are alike in what matters; %zu %s in what seldom does",
                         nodes, slight, slight == 1 ? "differs" : "differ");
    }
    return arena_fmt(a, "the %zu nodes are alike", nodes);
}

/* One node is not different from itself: nothing was compared. */
static void tell_alone(struct arena *a, size_t nodes, struct finding_list *to)
{
    *VEC_PUSH(a, to) = (struct finding){
        .id = "fleet-too-few",
        .severity = SEVERITY_UNKNOWN,
        .title = arena_fmt(a, "%zu %s sent a usable file: nothing to compare", nodes,
                           nodes == 1 ? "node" : "nodes"),
        .claim =
            "Expected are the files of at least two nodes; the name of a file is the name of its node.",
        .confidence = 1,
    };
}

static void tell_notes(const struct cli *cli, const struct fleet *f, const struct fleet_result *r,
                       const struct text_list *strangers, struct report *report)
{
    struct arena *a = cli->arena;
    if (strangers->count != 0) {
        *VEC_PUSH(a, &report->notes) = arena_fmt(
            a, "not in the list of --hosts, compared all the same: %s",
            fleet_names(a, strangers, 8));
    }
    size_t wanted = (size_t)strtoul(cli_value(cli, "nodes", "0"), NULL, 10);
    if (wanted != 0 && f->nodes.count > wanted) {
        *VEC_PUSH(a, &report->notes) = arena_fmt(
            a, "%zu nodes sent files, and --nodes says %zu: is one of them of an earlier job?",
            f->nodes.count, wanted);
    }
    if (r->unread_by_all != 0) {
        *VEC_PUSH(a, &report->notes) = arena_fmt(
            a, "%zu %s that no node could read, and so nothing is said of %s", r->unread_by_all,
            r->unread_by_all == 1 ? "fact" : "facts", r->unread_by_all == 1 ? "it" : "them");
    }
    if (r->cut) {
        *VEC_PUSH(a, &report->notes) = arena_fmt(a, "only the first %d differences are kept",
                                                 FLEET_MAX_DIFFERENCES);
    }
    if (usable_nodes(f) == 2 && r->differences.count != 0) {
        *VEC_PUSH(a, &report->notes) = "two nodes have no majority: both are named";
    }
    *VEC_PUSH(a, &report->notes) =
        "what the nodes said of themselves was compared; nothing was sent between them: assay "
        "collectives does that";
}

static int run_fleet(struct cli *cli)
{
    struct err err = {0};
    struct fleet_rules rules;
    struct fleet f;
    struct fleet_result result;
    struct text_list missing;
    struct text_list strangers;
    if (cli->operands.count == 0) {
        return cli_fail(
            cli, EXIT_USAGE,
            "fleet takes the files that the nodes wrote, or their folder: assay fleet DIR");
    }
    if (fleet_inputs_rules(cli, &rules, &err) != ST_OK) {
        return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
    }
    fleet_init(cli->arena, &rules, &f);
    if (fleet_inputs_read(cli, &f, &err) != ST_OK ||
        fleet_inputs_missing(cli, &f, &missing, &strangers, &err) != ST_OK) {
        return cli_fail(cli, err.status == ST_USAGE ? EXIT_USAGE : EXIT_UNKNOWN, "%s", err.text);
    }
    cli_progress(cli, "comparing %zu nodes", f.nodes.count);
    fleet_compare(cli->arena, &f, &result);
    cli_progress(cli, NULL);
    struct finding_list findings = {0};
    fleet_findings(cli->arena, &f, &result, &missing, &findings);
    if (usable_nodes(&f) < 2) {
        tell_alone(cli->arena, usable_nodes(&f), &findings);
    }
    struct tally *t = tallies(cli->arena, &f, &result);
    struct report r = {.command = "fleet", .schema_version = 1};
    r.numbers[r.number_count++] = (struct report_number){"nodes_compared",
                                                         (int64_t)usable_nodes(&f)};
    r.numbers[r.number_count++] = (struct report_number){"facts_compared",
                                                         (int64_t)result.compared_items};
    r.lists[r.list_count++] = (struct report_list){.key = "findings", .findings = &findings};
    if (result.differences.count != 0) {
        r.tables[r.table_count++] = matrix_table(cli->arena, &f, &result, t);
        r.tables[r.table_count++] = differences_table(cli->arena, &f, &result);
    }
    tell_notes(cli, &f, &result, &strangers, &r);
    r.verdict = verdict_of(cli->arena, &f, t, &findings);
    return session_report(cli, &r, session_exit(&findings));
}

static const char *const description[] = {
    "Reads what the nodes of a job or a cluster wrote of themselves and says who differs from the majority, in "
    "what, and what matters first: GPUs, driver, firmware, kernel, runtime, maths libraries, framework, environment "
    "switches, clocks and limits, memory in use. MPI is not needed: any launcher that runs a command on each node "
    "does.",
    "FILE is the output of 'assay doctor --facts --json', 'assay snapshot', 'assay qualify --json', 'assay doctor "
    "--json' or 'assay probe --figures DEVICE --json'. Its name is the name of the node: node07.json, "
    "node07.qualify.json. Of a DIR all *.json and *.lock are read.",
    "Versions must be equal; clocks, limits, memory and figures are far off when they leave both the tolerance of the "
    "table and three deviations (from the median absolute deviation). Sampled and private facts are left out. The "
    "table is knowledge/fleet.tsv.",
    "Nothing is measured between nodes here: assay collectives tries what lies between them.",
    "Exit 0: alike in what matters. 1: someone differs, or found a fault in itself. 2: a node is missing, sent a "
    "broken file, or could not read what others could.",
    NULL,
};

static const struct example examples[] = {
    {"srun sh -c 'assay doctor --facts --json >DIR/$SLURMD_NODENAME.json'; assay fleet DIR",
     "in a batch job"},
    {"assay fleet DIR --hosts \"$SLURM_JOB_NODELIST\"", "also name the nodes that sent nothing"},
    {"assay fleet node1.lock node2.lock node3.lock", "snapshots of three machines"},
    {0},
};

static const struct option_spec options[] = {
    {"nodes", 0, OPTION_VALUE, "N", "How many nodes there should be"},
    {"hosts", 0, OPTION_VALUE, "LIST",
     "Which ones: names as in gpu[01-16],login1, or a file of names"},
    {"format", 'f', OPTION_VALUE, "text|json|junit|html|markdown", "Form of the result"},
    {"json", 'j', OPTION_FLAG, NULL, "Same as --format json"},
    {"knowledge", 0, OPTION_VALUE, "DIR", "Compare by DIR/fleet.tsv instead of the built-in table"},
    {0},
};

const struct command command_fleet = {
    .name = "fleet",
    .summary = "Name the nodes that differ from the others, and in what",
    .operands = "FILE...|DIR",
    .operand_kind = "file",
    .description = description,
    .examples = examples,
    .options = options,
    .run = run_fleet,
};
