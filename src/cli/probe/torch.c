// SPDX-License-Identifier: Apache-2.0
/*
 * assay probe --torch: the operators of the user's own PyTorch, run in the user's own Python, guarded
 * where that can be done, and judged against float64 references.
 */
#include "cli/probe/torch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/vec.h"

#include "cli/interrupt.h"
#include "cli/probe/probe.h"
#include "cli/session.h"

enum {
    START_MS = 600000,
    DEADLINE_CPU_MS = 60000,
    DEADLINE_GPU_MS = 180000, /* the first call of a kernel may compile it */
    TIMED_PATCHES_CPU = 64,
    TIMED_PATCHES_GPU = 4096,
    SHARED_BYTES = 1 << 30 /* sparse: only what is written takes memory */
};

/* An environment's folder stands for the python in it. */
static const char *python_of(struct cli *cli)
{
    const char *named = cli_value(cli, "torch", NULL);
    const char *venv = getenv("VIRTUAL_ENV");
    if (named == NULL) {
        named = venv != NULL && *venv != '\0' ? venv : "python3";
    }
    struct stat s;
    if (stat(named, &s) == 0 && S_ISDIR(s.st_mode)) {
        return arena_fmt(cli->arena, "%s/bin/python", named);
    }
    return named;
}

static enum status read_number(const struct cli *cli, const char *option, uint64_t fallback,
                               uint64_t largest, uint64_t *ret_number, struct err *err)
{
    const char *text = cli_value(cli, option, NULL);
    uint64_t n = fallback;
    if (text != NULL && (str_to_u64(str_of(text), 10, &n) != ST_OK || n > largest)) {
        return err_set(err, ST_USAGE, "--%s takes a whole number up to %llu, not '%s'", option,
                       (unsigned long long)largest, text);
    }
    *ret_number = n;
    return ST_OK;
}

static enum status read_dtypes(struct cli *cli, enum dtype *dtypes, size_t capacity,
                               size_t *ret_count, struct err *err)
{
    static const enum dtype all[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16, DTYPE_F16};

    size_t n = 0;
    for (const char *text; (text = cli_repeat(cli, "dtype", n)) != NULL; n++) {
        bool known = n < capacity && dtype_find(str_of(text), &dtypes[n]);
        bool tried = false;
        for (size_t i = 0; known && i < ARRAY_LEN(all); i++) {
            tried = tried || dtypes[n] == all[i];
        }
        if (!tried) {
            return err_set(err, ST_USAGE,
                           "--dtype %s: with --torch it is float64, float32, bfloat16 or float16",
                           text);
        }
    }
    if (n == 0) {
        memcpy(dtypes, all, sizeof all);
        n = ARRAY_LEN(all);
    }
    *ret_count = n;
    return ST_OK;
}

static enum status read_ops(struct cli *cli, struct err *err)
{
    for (size_t i = 0; i < cli->operands.count; i++) {
        if (op_find(str_of(cli->operands.items[i])) == NULL) {
            struct strbuf names;
            strbuf_init(&names, cli->arena, 2000);
            for (size_t k = 0; op_table[k] != NULL; k++) {
                strbuf_fmt(&names, "%s%s", k != 0 ? ", " : "", op_table[k]->name);
            }
            return err_set(err, ST_USAGE, "there is no operator '%s'; there are %s",
                           cli->operands.items[i], names.p);
        }
    }
    return ST_OK;
}

/* A campaign's way out before its end. */
struct limit {
    struct cli *cli;
    double since_s, until_s; /* until_s 0: none */
    uint64_t seconds;
    bool late;
};

/* A module brings its own inputs and is run twice: what chooses or bounds a plan has no meaning there. */
static enum status check_module(const struct cli *cli, struct err *err)
{
    static const char *const others[] = {"level", "seed", "dtype", "time-limit", "timing"};
    for (size_t i = 0; cli_flag(cli, "torch-module") && i < ARRAY_LEN(others); i++) {
        if (cli_flag(cli, others[i])) {
            return err_set(err, ST_USAGE, "--%s has no meaning with --torch-module", others[i]);
        }
    }
    return ST_OK;
}

static void show_progress(void *context, size_t done, size_t total, const char *what)
{
    const struct limit *l = context;
    double spent = probe_now_s() - l->since_s;
    double left = done > 1 ? spent / (double)(done - 1) * (double)(total - done + 1) : 0;
    cli_progress(l->cli, "%zu of %zu: %s, about %.0f s left", done, total, what, left);
}

static bool must_stop(void *context)
{
    struct limit *l = context;
    l->late = l->until_s != 0 && probe_now_s() >= l->until_s;
    return l->late || interrupt_came();
}

static void stopped_finding(struct cli *cli, const struct torch_campaign_result *result,
                            const struct limit *limit, struct finding_list *findings)
{
    if (!result->stopped) {
        return;
    }
    struct finding *f = VEC_PUSH(cli->arena, findings);
    *f = (struct finding){.id = "torch-not-tried",
                          .severity = SEVERITY_UNKNOWN,
                          .title = "The campaign ended before its plan",
                          .confidence = 1};
    f->claim = arena_fmt(cli->arena, "%s after %zu of %zu cases (%.0f %%); the rest was not tried.",
                         limit->late ? arena_fmt(cli->arena, "Stopped by the time limit of %llu s",
                                                 (unsigned long long)limit->seconds)
                                     : "Interrupted",
                         result->cases_done, result->cases,
                         100.0 * (double)result->cases_done /
                             (double)(result->cases + (result->cases == 0)));
}

static void add_note(struct cli *cli, struct report *report, const char *text)
{
    *VEC_PUSH(cli->arena, &report->notes) = text;
}

void probe_torch_notes(struct cli *cli, const struct torch_hello *h, struct report *report)
{
    const char *stack = h->hip[0] != '\0'    ? arena_fmt(cli->arena, ", HIP %s", h->hip)
                        : h->cuda[0] != '\0' ? arena_fmt(cli->arena, ", CUDA %s", h->cuda)
                                             : "";
    add_note(cli, report,
             arena_fmt(cli->arena, "torch %s%s, Python %s (%s), on %s", h->torch, stack, h->python,
                       h->executable, h->device));
    add_note(cli, report, arena_fmt(cli->arena, "guard: %s", h->proof));
    add_note(cli, report,
             h->guards_outputs
                 ? "guarded: inputs, given gradients, and all that torch allocates on the device"
                 : "guarded: inputs and given gradients; not what torch allocates itself (results, "
                   "gradients, workspaces)");
}

void probe_torch_unproven(struct cli *cli, const struct torch_hello *h,
                          struct finding_list *findings)
{
    if (h->proven) {
        return;
    }
    struct finding *f = VEC_PUSH(cli->arena, findings);
    *f = (struct finding){
        .id = "torch-guard-unproven",
        .severity = SEVERITY_UNKNOWN,
        .title = h->broken ? "The guard does not work in this Python; nothing was tried"
                           : "The guard did not prove itself in this Python; nothing passes",
        .claim =
            "Before operators are tried, accesses of one element beyond an operand are planted. "
            "Not all were caught here, so a probe without a fault says nothing about faults; "
            "wrong numbers are found all the same.",
        .confidence = 1,
    };
    *VEC_PUSH(cli->arena, &f->evidence) = (struct evidence){.source = "proof", .text = h->proof};
}

static int report_campaign(struct cli *cli, struct torch_agent *agent, const char *python,
                           const char *device, const struct torch_campaign_result *result,
                           const struct torch_times *times, const struct limit *limit,
                           const struct err *lost)
{
    const struct torch_hello *h = torch_agent_hello(agent);
    struct finding_list findings = {0};
    probe_torch_unproven(cli, h, &findings);
    stopped_finding(cli, result, limit, &findings);
    probe_torch_findings(cli, h, python, device, result, &findings);
    if (lost != NULL) {
        *VEC_PUSH(cli->arena, &findings) = (struct finding){
            .id = "torch-process-lost",
            .severity = SEVERITY_UNKNOWN,
            .title = "The Python process was lost before the end of the plan",
            .claim = arena_strdup(cli->arena, lost->text),
            .confidence = 1};
    }
    struct report report = {.command = "probe", .schema_version = 1};
    report.lists[report.list_count++] = (struct report_list){.key = "findings",
                                                             .findings = &findings};
    probe_torch_table(cli, result, h->proven, &report.tables[report.table_count++]);
    if (times->count != 0) {
        probe_torch_times(cli, times, &report.tables[report.table_count++]);
    }
    report.numbers[report.number_count++] = (struct report_number){"probes",
                                                                   (int64_t)result->probes};
    report.numbers[report.number_count++] = (struct report_number){"skipped",
                                                                   (int64_t)result->skipped};
    probe_torch_notes(cli, h, &report);
    int status = session_exit(&findings);
    if (result->probes == 0) {
        status = EXIT_UNKNOWN;
    }
    report.verdict = arena_fmt(cli->arena, "%zu probes of %zu operators by way and format: %s",
                               result->probes, result->rows.count, session_counts(cli, &findings));
    return session_report(cli, &report, status);
}

static int run_campaign(struct cli *cli, struct torch_agent *agent, const char *python,
                        const char *device, struct torch_campaign_options *o, struct limit *limit)
{
    struct err err = {0};
    struct torch_campaign_result result;
    limit->cli = cli;
    limit->since_s = probe_now_s();
    o->progress = show_progress;
    o->stop = must_stop;
    o->context = limit;
    result = (struct torch_campaign_result){0};
    bool broken = torch_agent_hello(agent)->broken;
    enum status st = broken ? ST_OK : torch_campaign_run(agent, cli->arena, o, &result, &err);
    struct torch_times times = {0};
    bool timed = cli_flag(cli, "timing") && !broken && !result.stopped;
    for (size_t i = 0; st == ST_OK && timed && i < o->dtype_count; i++) {
        cli_progress(cli, "timing the patch embedding in %s", dtype_info(o->dtypes[i])->name);
        st = torch_time_patches(agent, cli->arena, o->dtypes[i],
                                strcmp(device, "cpu") == 0 ? TIMED_PATCHES_CPU : TIMED_PATCHES_GPU,
                                o->deadline_ms, &times, &err);
    }
    cli_progress(cli, NULL);
    if (st != ST_OK && st != ST_IO) {
        return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
    }
    return report_campaign(cli, agent, python, device, &result, &times, limit,
                           st == ST_OK ? NULL : &err);
}

int probe_torch(struct cli *cli)
{
    struct err err = {0};
    enum dtype dtypes[8];
    uint64_t deadline = 0;
    struct limit limit = {0};
    double began = probe_now_s();
    const char *device = cli_value(cli, "device", "cpu");
    struct torch_campaign_options o = {
        .ops = (const char *const *)cli->operands.items,
        .op_count = cli->operands.count,
        .dtypes = dtypes,
        .quick = strcmp(cli_value(cli, "level", "quick"), "quick") == 0,
    };
    bool gpu = strcmp(device, "cpu") != 0;
    if (check_module(cli, &err) != ST_OK || read_ops(cli, &err) != ST_OK ||
        read_dtypes(cli, dtypes, ARRAY_LEN(dtypes), &o.dtype_count, &err) != ST_OK ||
        read_number(cli, "seed", 1, UINT32_MAX, &o.seed, &err) != ST_OK ||
        probe_time_limit(cli, 0, &limit.seconds, &err) != ST_OK ||
        read_number(cli, "deadline", (gpu ? DEADLINE_GPU_MS : DEADLINE_CPU_MS) / 1000, 86400,
                    &deadline, &err) != ST_OK) {
        return cli_fail(cli, EXIT_USAGE, "%s", err.text);
    }
    o.deadline_ms = (int)deadline * 1000;
    limit.until_s = limit.seconds != 0 ? began + (double)limit.seconds : 0;
    const char *python = python_of(cli);
    struct torch_agent_options agent_options = {.python = python,
                                                .device = gpu ? "cuda" : "cpu",
                                                .shared_bytes = SHARED_BYTES,
                                                .start_ms = START_MS};
    struct torch_agent *agent = NULL;
    interrupt_watch();
    cli_progress(cli, "importing torch in %s and proving the guard", python);
    if (torch_agent_start(cli->arena, &agent_options, &agent, &err) != ST_OK) {
        cli_progress(cli, NULL);
        return cli_fail(cli, EXIT_UNKNOWN, "%s", err.text);
    }
    const char *module = torch_agent_hello(agent)->broken ? NULL
                                                          : cli_value(cli, "torch-module", NULL);
    int status = module != NULL ? probe_torch_module(cli, agent, module, o.deadline_ms)
                                : run_campaign(cli, agent, python, device, &o, &limit);
    torch_agent_stop(agent);
    interrupt_end();
    return status;
}
