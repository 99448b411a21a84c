// SPDX-License-Identifier: Apache-2.0
/* One library through the whole plan: progress with rate and time left, and the state file. */
#include <string.h>
#include <time.h>

#include "cli/interrupt.h"
#include "cli/probe/probe.h"
#include "cli/probe/state.h"

/* Between two writes of the state file. */
#define SAVE_EVERY_S 0.5

struct campaign {
    struct cli *cli;
    const char *what;
    size_t first, count;
    double since, saved;
    uint64_t probes_before; /* of an earlier process */
    struct probe_state *state;
    const struct probe_run *run;
    const struct probe_plan *plan;
    bool late;       /* the time was over */
    const char *key; /* of the library in the state */
    struct err err;  /* of writing the state */
    bool failed;
};

double probe_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

enum status probe_time_limit(const struct cli *cli, uint64_t fallback, uint64_t *ret_seconds,
                             struct err *err)
{
    enum {
        MOST_S = 30 * 86400
    };

    uint64_t seconds = fallback;
    const char *text = cli_value(cli, "time-limit", NULL);
    if (text != NULL &&
        (str_to_u64(str_of(text), 10, &seconds) != ST_OK || seconds == 0 || seconds > MOST_S)) {
        return err_set(err, ST_USAGE, "--time-limit '%s': seconds from 1 to %d", text, MOST_S);
    }
    *ret_seconds = seconds;
    return ST_OK;
}

static bool tick(void *context, const struct gemm_result *so_far, size_t done)
{
    struct campaign *c = context;
    double now = probe_now_s();
    double rate = (double)(done - c->first) / (now - c->since + 1e-9);
    double left = rate > 0 ? (double)(c->count - done) / rate : 0;
    double runs = (double)(so_far->probes - c->probes_before) / (now - c->since + 1e-9);
    bool device = c->run->target.device_kind != DEVICE_CPU;
    double limit = c->plan->until_s != 0 ? c->plan->until_s - now : 0;
    cli_progress(c->cli, "%s: %zu of %zu products, %llu faulty, %.0f %sa second, %.0f s left%s",
                 c->what, done, c->count, (unsigned long long)so_far->faulty, device ? runs : rate,
                 device ? "runs of their algorithms " : "",
                 limit > 0 && limit < left ? limit : left,
                 limit > 0 && limit < left ? " of the time limit, which comes before the end" : "");
    c->late = c->plan->until_s != 0 && limit <= 0;
    return !c->late && !interrupt_came();
}

static bool keep(void *context, const struct gemm_result *result)
{
    struct campaign *c = context;
    double now = probe_now_s();
    if (now - c->saved > SAVE_EVERY_S) {
        c->saved = now;
        c->failed = probe_state_save(c->state, c->key, result, result->next, &c->err) != ST_OK;
    }
    return !c->failed;
}

static const char *stop_words(const struct campaign *c)
{
    size_t next = c->run->result->next;
    return arena_fmt(c->cli->arena,
                     "%s after %zu of %zu products (%.0f %%) of its plan; the rest was not tried%s",
                     c->late ? arena_fmt(c->cli->arena, "stopped by the time limit of %llu s",
                                         (unsigned long long)c->plan->limit_s)
                             : "interrupted",
                     next, c->count, 100.0 * (double)next / (double)(c->count + (c->count == 0)),
                     c->state != NULL ? "; the same command goes on from there" : "");
}

enum status probe_campaign(struct cli *cli, const struct probe_plan *plan, struct probe_run *run,
                           struct probe_state *state, const char *what, struct err *err)
{
    struct campaign c = {.cli = cli, .what = what, .state = state, .run = run, .plan = plan};
    c.key = run->library.path != NULL ? run->library.path : run->library.name;
    struct gemm_result *before = NULL;
    struct gemm_source source = gemm_source_of_plan(plan->plan);
    if (state != NULL) {
        before = probe_state_find(state, c.key);
        c.first = before != NULL ? before->next : 0;
        c.probes_before = before != NULL ? before->probes : 0;
    }
    c.count = source.count;
    c.since = c.saved = probe_now_s();
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
    if (run->result->stopped && (c.late || interrupt_came())) {
        run->stop = stop_words(&c);
    }
    if (c.failed) {
        return err_set(err, c.err.status, "%s", c.err.text);
    }
    return ST_OK;
}
