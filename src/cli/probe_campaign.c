// SPDX-License-Identifier: Apache-2.0
/* One library through the whole plan: progress with rate and time left, and the state file. */
#include <string.h>
#include <time.h>

#include "cli/probe.h"
#include "cli/probe_state.h"

/* Between two writes of the state file. */
#define SAVE_EVERY_S 0.5

struct campaign {
    struct cli *cli;
    const char *what;
    size_t first, count;
    double since, saved;
    struct probe_state *state;
    const struct probe_run *run;
    const char *key; /* of the library in the state */
    struct err err;  /* of writing the state */
    bool failed;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool tick(void *context, const struct gemm_result *so_far, size_t done)
{
    struct campaign *c = context;
    double now = now_s();
    double rate = (double)(done - c->first) / (now - c->since + 1e-9);
    double left = rate > 0 ? (double)(c->count - done) / rate : 0;
    cli_progress(c->cli, "%s: %zu of %zu products, %llu faulty, %.0f a second, %.0f s left",
                 c->what, done, c->count, (unsigned long long)so_far->faulty, rate, left);
    return true;
}

static bool keep(void *context, const struct gemm_result *result)
{
    struct campaign *c = context;
    double now = now_s();
    if (now - c->saved > SAVE_EVERY_S) {
        c->saved = now;
        c->failed = probe_state_save(c->state, c->key, result, result->next, &c->err) != ST_OK;
    }
    return !c->failed;
}

enum status probe_campaign(struct cli *cli, const struct probe_plan *plan, struct probe_run *run,
                           struct probe_state *state, const char *what, struct err *err)
{
    struct campaign c = {.cli = cli, .what = what, .state = state, .run = run};
    c.key = run->library.path != NULL ? run->library.path : run->library.name;
    struct gemm_result *before = NULL;
    struct gemm_source source = gemm_source_of_plan(plan->plan);
    if (state != NULL) {
        before = probe_state_find(state, c.key);
        c.first = before != NULL ? before->next : 0;
    }
    c.count = source.count;
    c.since = c.saved = now_s();
    uint64_t deadline_ms = 0;
    TRY(str_to_u64(str_of(cli_value(cli, "deadline", "10")), 10, &deadline_ms));
    const struct gemm_trial_options options = {
        .first = c.first,
        .deadline_ms = (unsigned)deadline_ms * 1000,
        .tick_context = &c,
        .tick = tick,
        .keep = state != NULL ? keep : NULL,
        .before = before,
    };
    run->result = arena_alloc(cli->arena, sizeof *run->result);
    TRY(gemm_trial(&run->target, &source, &options, run->result, err));
    if (!c.failed && state != NULL) {
        c.failed = probe_state_save(state, c.key, run->result, run->result->next, &c.err) != ST_OK;
    }
    if (c.failed) {
        return err_set(err, c.err.status, "%s", c.err.text);
    }
    return ST_OK;
}
