// SPDX-License-Identifier: Apache-2.0
/*
 * assay doctor: facts of a machine, judged by rules. With --facts only the facts; with --config also
 * a training configuration is checked; with --graph the decision path is drawn.
 */
#include <fnmatch.h>
#include <string.h>

#include "base/json_out.h"
#include "base/str.h"

#include "cli/command.h"
#include "cli/command_list.h"
#include "cli/session.h"
#include "diagnosis/graph.h"
#include "diagnosis/judge.h"
#include "diagnosis/lint.h"
#include "facts/facts_json.h"
#include "facts/job_config.h"

/* Facts that are printed: all, or those whose key matches one of the operands. */
static bool wanted(const struct cli *cli, const char *key)
{
    for (size_t i = 0; i < cli->operands.count; i++) {
        if (fnmatch(cli->operands.items[i], key, 0) == 0) {
            return true;
        }
    }
    return cli->operands.count == 0;
}

/* Control bytes of out[from, end) as '?': facts of another machine do not steer this terminal. */
static void disarm(struct strbuf *out, size_t from)
{
    for (size_t i = from; i < out->n; i++) {
        unsigned char b = (unsigned char)out->p[i];
        bool c1 = b >= 0x80 && b < 0xa0 && i > from && (unsigned char)out->p[i - 1] == 0xc2;
        if (c1) {
            out->p[i - 1] = '?';
        }
        out->p[i] = b < ' ' || b == 0x7f || c1 ? '?' : out->p[i];
    }
}

static void fact_line(struct strbuf *out, const struct cli *cli, const struct fact *f)
{
    const char *dim = cli->stdout_color ? "\033[2m" : "";
    const char *plain = cli->stdout_color ? "\033[0m" : "";
    size_t from = out->n;
    strbuf_fmt(out, "%-34s ", f->key);
    if (f->state == FACT_KNOWN) {
        value_print(out, &f->value);
        disarm(out, from);
    } else {
        disarm(out, from);
        strbuf_fmt(out, "%s(%s)%s", dim, fact_state_name(f->state), plain);
    }
    strbuf_fmt(out, "  %s[", dim);
    from = out->n;
    strbuf_addz(out, f->source);
    disarm(out, from);
    strbuf_fmt(out, "]%s\n", plain);
}

static int print_facts(const struct cli *cli, const struct knowledge *k, const struct facts *facts)
{
    size_t count;
    const struct fact *const *all = facts_sorted(facts, cli->arena, &count);
    struct facts *chosen = facts_new(cli->arena);
    struct strbuf out;
    strbuf_init(&out, cli->arena, (size_t)64 << 20);
    size_t shown = 0;
    for (size_t i = 0; i < count; i++) {
        if (!wanted(cli, all[i]->key)) {
            continue;
        }
        shown++;
        if (all[i]->state == FACT_KNOWN) {
            facts_set(chosen, all[i]->key, all[i]->value, all[i]->source);
        } else {
            facts_set_state(chosen, all[i]->key, all[i]->state, all[i]->source, all[i]->reason);
        }
        fact_line(&out, cli, all[i]);
    }
    if (shown == 0) {
        return cli_fail(cli, EXIT_UNKNOWN, "no fact matches '%s'; 'assay doctor --facts' lists all",
                        cli->operands.items[0]);
    }
    if (cli_flag(cli, "json") || strcmp(cli_value(cli, "format", "text"), "json") == 0) {
        strbuf_clear(&out);
        facts_write_json(chosen, cli->arena, session_unit_of_key, (void *)k, &out);
    }
    return cli_emit(cli, strbuf_str(&out), EXIT_FINE);
}

/* Facts of the machine, the frozen root or the file; and the configuration's on top. */
static enum status gather(const struct cli *cli, const struct knowledge *k,
                          struct facts **ret_facts, struct job_config *ret_config, struct err *err)
{
    const char *from = cli_value(cli, "from", NULL);
    struct facts *facts;
    if (from != NULL) {
        TRY(session_facts_file(cli, k, from, &facts, err));
    } else {
        TRY(session_collect_with(cli, k, cli_value(cli, "root", ""), cli_value(cli, "python", NULL),
                                 cli_value(cli, "binary", NULL), &facts, err));
    }
    TRY(session_config(cli, facts, ret_config, err));
    lint_facts(cli->arena, k, ret_config, facts);
    *ret_facts = facts;
    return ST_OK;
}

/* The picture is the answer: its exit status tells only whether the path could be drawn. */
static int print_graph(const struct cli *cli, const struct knowledge *k, const struct facts *facts)
{
    struct graph graph;
    struct strbuf out;
    strbuf_init(&out, cli->arena, 1 << 20);
    graph_walk(cli->arena, k, facts, &graph);
    if (strcmp(cli_value(cli, "graph", "mermaid"), "dot") == 0) {
        graph_dot(&graph, &out);
    } else {
        graph_mermaid(&graph, &out);
    }
    return cli_emit(cli, strbuf_str(&out), EXIT_FINE);
}

/* Facts that somebody wrote or cut by hand judge what they tell; the rest is not "nothing wrong". */
static void judge_completeness(const struct cli *cli, const struct facts *facts,
                               struct finding_list *findings, struct health *health)
{
    if (cli_value(cli, "from", NULL) == NULL || facts_get(facts, "gpu.count") != NULL) {
        return;
    }
    struct finding f = {
        .id = "facts-incomplete",
        .severity = SEVERITY_UNKNOWN,
        .title = "These facts do not describe a whole machine",
        .claim =
            "Not even the number of GPUs (gpu.count) is among them, which is always read. What "
            "they tell was judged; that nothing else is wrong cannot be told.",
        .confidence = 1,
    };
    *VEC_PUSH(cli->arena, &f.evidence) = (struct evidence){.source = cli_value(cli, "from", NULL)};
    *VEC_PUSH(cli->arena,
              &f.remedy) = "assay doctor --facts --json > facts.json      # on that machine";
    *VEC_PUSH(cli->arena, findings) = f;
    health->confidence = 0;
}

static int run_doctor(struct cli *cli)
{
    struct err err = {0};
    const struct knowledge *k;
    struct facts *facts;
    struct job_config config = {0};
    if (cli_value(cli, "from", NULL) != NULL && cli_value(cli, "root", NULL) != NULL) {
        return cli_fail(cli, EXIT_USAGE,
                        "--from and --root exclude each other: facts come from one");
    }
    if (cli_value(cli, "from", NULL) != NULL && cli_value(cli, "binary", NULL) != NULL) {
        return cli_fail(cli, EXIT_USAGE,
                        "--from and --binary exclude each other: the file is on that machine");
    }
    if (cli->operands.count != 0 && !cli_flag(cli, "facts")) {
        return cli_fail(cli, EXIT_USAGE, "'%s': fact names are taken only with --facts",
                        cli->operands.items[0]);
    }
    if (session_knowledge(cli, &k, &err) != ST_OK ||
        gather(cli, k, &facts, &config, &err) != ST_OK) {
        return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
    }
    if (cli_flag(cli, "facts")) {
        return print_facts(cli, k, facts);
    }
    if (cli_value(cli, "graph", NULL) != NULL) {
        return print_graph(cli, k, facts);
    }
    struct finding_list findings = {0};
    struct report report = {.command = "doctor", .schema_version = 1};
    struct health health = {0};
    doctor_judge(cli->arena, k, facts, NULL, &findings, &health);
    judge_completeness(cli, facts, &findings, &health);
    lint_keys(cli->arena, k, &config, &findings);
    findings_sort(&findings);
    session_score(cli, &health, &report.score);
    report.lists[report.list_count++] = (struct report_list){.key = "findings",
                                                             .findings = &findings};
    report.verdict = arena_fmt(cli->arena, "doctor: %s", session_counts(cli, &findings));
    return session_report(cli, &report, session_exit(&findings));
}

static const char *const description[] = {
    "Reads what this machine says of itself (kernel, devices, permissions, limits, every ROCm and CUDA, "
    "every Python environment, the libraries a job would really load and the GPU targets they carry) and "
    "judges whether it is fit to train. Nothing is executed: no Python, no vendor tool, no GPU library.",
    "Each finding says what is wrong, on which evidence, what to do, and where it was discussed. The last "
    "line is a health score with the weights that went into it; what could not be read lowers its "
    "confidence, not the score.",
    NULL,
};

static const struct example examples[] = {
    {"assay doctor", "is this machine fit to train?"},
    {"assay doctor --python ~/venv --config llama.yaml",
     "this environment, with this configuration"},
    {"assay doctor --binary ./train_ext.so", "has my extension code for these GPUs?"},
    {"assay doctor --graph dot > path.dot", "the decisions that led to the answer"},
    {"assay doctor --facts 'gpu*' 'lib.rocblas.*'", "what was read, with state and source"},
    {"assay doctor --facts --json > facts.json",
     "facts for assay diagnose --facts, or for a bug report"},
    {0},
};

static const struct option_spec options[] = {
    {"facts", 'F', OPTION_FLAG, NULL,
     "Print the facts instead of judging them; operands choose keys"},
    {"config", 'c', OPTION_REPEAT, "FILE", "Check this training configuration too"},
    {"graph", 'g', OPTION_VALUE, "mermaid|dot", "Draw the decision path instead of judging"},
    {"python", 0, OPTION_VALUE, "PATH", "Environment to judge: its folder or its python"},
    {"binary", 'b', OPTION_VALUE, "FILE",
     "Judge also this program or library: has it code for the GPUs?"},
    {"root", 0, OPTION_VALUE, "DIR", "Judge the machine whose files are under DIR"},
    {"from", 0, OPTION_VALUE, "FILE", "Judge the facts in FILE instead of reading a machine"},
    REPORT_OPTIONS,
    {0},
};

const struct command command_doctor = {
    .name = "doctor",
    .summary = "Judge whether this machine and its software are fit to train",
    .operands = "[FACT-GLOB...]",
    .operand_kind = "none",
    .description = description,
    .examples = examples,
    .options = options,
    .run = run_doctor,
};
