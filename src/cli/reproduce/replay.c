// SPDX-License-Identifier: Apache-2.0
/* See reproduce_replay.h. */
#include "cli/reproduce/replay.h"

#include <time.h>

enum {
    DEADLINE_MS = 10000,
    DEADLINE_MOST_MS = 3600000,
    DEVICE_DEADLINE_MS = 60000
};

/* The comparison without holes may end so much later. */
#define PLAIN_MORE_S 10.0

/* What a reference in float64 and a plain library do at least; only decides what is not begun. */
#define SLOW_OPERATIONS_PER_S 3e8

const char *replay_verdict_name(enum replay_verdict verdict)
{
    static const char *const names[REPLAY_VERDICT_COUNT] = {"not tried", "fails", "passes",
                                                            "could not tell"};
    return verdict < REPLAY_VERDICT_COUNT ? names[verdict] : "unknown";
}

double replay_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct ticking {
    struct cli *cli;
    const char *progress;
    size_t count;
    double until_s;
    bool first_only; /* on a device, whose faults cost seconds */
};

static bool tick(void *context, const struct gemm_result *so_far, size_t done)
{
    const struct ticking *t = context;
    cli_progress(t->cli, "%s: run %zu of %zu, %llu at fault", t->progress, done, t->count,
                 (unsigned long long)so_far->faulty);
    return replay_now_s() < t->until_s && !(t->first_only && so_far->faulty != 0);
}

static unsigned deadline_for(const struct replay *r)
{
    double each = r->what.operations / ((double)r->what.probes.count + 1);
    double ms = DEADLINE_MS + 1000 * each * 8 / SLOW_OPERATIONS_PER_S;
    ms += r->what.device_kind == DEVICE_CPU ? 0 : DEVICE_DEADLINE_MS;
    return ms < DEADLINE_MOST_MS ? (unsigned)ms : DEADLINE_MOST_MS;
}

static enum status run_one(struct cli *cli, struct replay *r, bool unguarded, double until_s,
                           const char *progress, struct gemm_result *result, struct err *err)
{
    struct ticking ticking = {cli, progress, r->what.probes.count, until_s,
                              r->what.device_kind != DEVICE_CPU};
    const struct gemm_source source = gemm_source_of_list(&r->what.probes);
    struct gemm_target target = r->run.target;
    const struct gemm_trial_options options = {
        .deadline_ms = deadline_for(r),
        .tick_context = &ticking,
        .tick = tick,
    };
    target.unguarded = unguarded;
    return gemm_trial(&target, &source, &options, result, err);
}

static bool is_edge_of(const struct gemm_fault *f, const struct suspect *s)
{
    bool edge = f->kind == GEMM_READS_OUTSIDE || f->kind == GEMM_WRITES_OUTSIDE ||
                f->kind == GEMM_TOUCHES_OUTSIDE;
    bool direction = f->kind == GEMM_TOUCHES_OUTSIDE ||
                     (f->kind == GEMM_WRITES_OUTSIDE) == s->write;
    return edge && direction && s->operand != 0 && f->operand < GEMM_OPERAND_NONE &&
           "ABC"[f->operand] == s->operand;
}

/* The fault that resembles the recorded one most. */
static void choose_fault(struct replay *r)
{
    const struct gemm_result *result = r->run.result;
    int best = -1;
    for (size_t i = 0; i < result->fault_count; i++) {
        const struct gemm_fault *f = &result->faults[i];
        bool recorded = is_edge_of(f, r->suspect);
        bool function = reproduce_case_same_function(r->suspect, &f->choice);
        int score = (recorded ? 2 : 0) + (function ? 1 : 0);
        if (score > best) {
            best = score;
            r->kind = f->kind;
            r->operand = f->operand;
            r->as_recorded = recorded;
            r->same_function = function;
        }
    }
    for (size_t i = 0; i < result->fault_count; i++) {
        r->count += result->faults[i].kind == r->kind && result->faults[i].operand == r->operand;
    }
}

static void judge(struct cli *cli, struct replay *r)
{
    const struct gemm_result *result = r->run.result;
    if (result->faulty != 0) {
        r->verdict = REPLAY_FAILED;
        choose_fault(r);
        return;
    }
    r->verdict = REPLAY_UNTOLD;
    if (!result->opened) {
        r->why = arena_strdup(cli->arena, result->refusal);
    } else if (result->stopped) {
        r->why = result->refusal[0] != '\0' ? arena_strdup(cli->arena, result->refusal)
                                            : "the time was up before all of them were run";
    } else if (result->probes == 0) {
        r->why = result->skipped != 0 ? "there is not enough memory for its operands"
                                      : "the library offers no such product";
    } else {
        r->verdict = REPLAY_PASSED;
    }
}

/* Proves the guard of the device once. */
static enum status prove(struct cli *cli, struct replay_guards *guards, enum device_kind kind,
                         const struct device_options *options, const struct guard_proof **ret_proof,
                         struct err *err)
{
    if (guards->proofs[kind] == NULL) {
        const struct guard_proof_options how = {.device_options = options};
        guards->proofs[kind] = arena_alloc(cli->arena, sizeof **guards->proofs);
        cli_progress(cli, "proving the guard on %s: planted reads and writes past an operand",
                     device_kind_name(kind));
        TRY(guard_prove(kind, 0, &how, guards->proofs[kind], err));
    }
    *ret_proof = guards->proofs[kind];
    return ST_OK;
}

/* The run-time library of the run, or where the device looks itself. */
static const struct device_options *options_for(struct cli *cli, const struct suspect *suspect)
{
    if (suspect->runtime == NULL) {
        return NULL;
    }
    struct device_options *options = arena_alloc(cli->arena, sizeof *options);
    *options = (struct device_options){.library = suspect->runtime};
    return options;
}

enum status replay_run(struct cli *cli, const struct suspect *suspect, const char *library,
                       struct replay_guards *guards, double until_s, const char *progress,
                       struct replay *ret_replay, struct err *err)
{
    struct replay r = {.suspect = suspect};
    struct err why = {0};
    double since = replay_now_s();
    if (reproduce_case_make(cli->arena, suspect, &r.what, &why) != ST_OK) {
        r.why = arena_strdup(cli->arena, why.text);
        *ret_replay = r;
        return ST_OK;
    }
    if (since + r.what.operations / (8 * SLOW_OPERATIONS_PER_S) > until_s) {
        r.why = since > until_s ? "the time was up" : "it would take longer than --time allows";
        *ret_replay = r;
        return ST_OK;
    }
    const struct device_options *options = options_for(cli, suspect);
    const struct guard_proof *proof = NULL;
    TRY(prove(cli, guards, r.what.device_kind, options, &proof, err));
    if (!proof->reads_proven || !proof->writes_proven) {
        r.why = arena_strdup(cli->arena, proof->sentence);
        *ret_replay = r;
        return ST_OK;
    }
    r.run.library = (struct probe_library){
        .vendor = r.what.vendor, .name = library, .path = library};
    r.run.target = (struct gemm_target){.vendor = r.what.vendor,
                                        .device_kind = r.what.device_kind,
                                        .device_options = options,
                                        .path = library,
                                        .map_path = r.what.device_kind == DEVICE_CPU ? 0
                                                                                     : proof->path};
    r.run.guarded = true;
    r.run.result = arena_alloc(cli->arena, sizeof *r.run.result);
    TRY(run_one(cli, &r, false, until_s, progress, r.run.result, err));
    judge(cli, &r);
    if (r.verdict == REPLAY_FAILED) {
        struct arena_mark mark = arena_mark(cli->arena);
        struct gemm_result *plain = arena_alloc(cli->arena, sizeof *plain);
        TRY(run_one(cli, &r, true, until_s + PLAIN_MORE_S, progress, plain, err));
        r.plain_probes = plain->probes;
        r.plain_faulty = plain->faulty;
        arena_rewind(cli->arena, mark);
    }
    r.seconds = replay_now_s() - since;
    *ret_replay = r;
    return ST_OK;
}
