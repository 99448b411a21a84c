// SPDX-License-Identifier: Apache-2.0
/* Rank 0's other half: step after step, each with a limit. See collectives.h. */
#include <math.h>
#include <string.h>

#include "base/vec.h"

#include "cli/fleet/collectives.h"
#include "study/stats.h"

enum {
    PONG_SECONDS = 3,
    SAMPLES_TIME = 9,
    SAMPLES_ARRIVE = 30,
    ARRIVE_BYTES = 8
};

struct collectives_lead {
    const struct collectives_job *job;
    struct arena *arena;
    struct rendezvous meeting;
    struct collectives_result result;
    struct finding_list *findings;
    bool stopped;
    char id[2 * COLLECTIVE_ID_BYTES + 1];
    struct collectives_trial *now; /* the trial that runs; NULL before */
};

/* ---- what is tried ---- */

static void add_trial(struct collectives_lead *l, struct collective_trial t)
{
    struct collectives_result *r = &l->result;
    if (r->trial_count < COLLECTIVES_TRIALS_MAX) {
        t.number = (unsigned)r->trial_count + 1;
        r->trials[r->trial_count++] = (struct collectives_trial){.trial = t, .seconds = NAN};
    }
}

static void add_sized(struct collectives_lead *l, enum collective_aim aim, enum collective_op op,
                      enum dtype type, size_t bytes, unsigned samples)
{
    int ranks = l->result.ranks;
    unsigned size = dtype_info(type)->size;
    size_t count = collective_count(op, bytes, size, ranks);
    /* One element a rank may be more than the size that was asked for: the buffers must hold it. */
    if (collective_bytes(op, count, size, ranks) > l->job->bytes) {
        return;
    }
    add_trial(l, (struct collective_trial){.aim = aim,
                                           .op = op,
                                           .type = type,
                                           .count = count,
                                           .root = (int)(l->result.trial_count % (size_t)ranks),
                                           .samples = samples});
}

static bool has_type(const struct collectives_job *job, enum dtype type)
{
    return job->mpi ? collective_backend_mpi.has_type(type) : true;
}

static void plan(struct collectives_lead *l)
{
    static const size_t checked[] = {8, 1000, 65000, 1 << 20, 16 << 20, 256 << 20};
    static const size_t timed[] = {8, 64 << 10, 1 << 20, 16 << 20, 256 << 20};

    static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_I32};

    l->result.trials = arena_array(l->arena, COLLECTIVES_TRIALS_MAX, sizeof *l->result.trials);
    for (size_t s = 0; s < ARRAY_LEN(checked) && checked[s] <= l->job->bytes; s++) {
        for (size_t t = 0; t < ARRAY_LEN(types); t++) {
            for (int op = 0; has_type(l->job, types[t]) && op < COLLECTIVE_OP_COUNT; op++) {
                add_sized(l, COLLECTIVE_CHECK, (enum collective_op)op, types[t], checked[s], 0);
            }
        }
    }
    for (size_t s = 0; s < ARRAY_LEN(timed) && timed[s] <= l->job->bytes; s++) {
        for (int op = 0; op < COLLECTIVE_OP_COUNT; op++) {
            add_sized(l, COLLECTIVE_TIME, (enum collective_op)op, DTYPE_F32, timed[s],
                      SAMPLES_TIME);
        }
    }
    add_sized(l, COLLECTIVE_ARRIVE, COLLECTIVE_ALL_REDUCE, DTYPE_F32, ARRIVE_BYTES, SAMPLES_ARRIVE);
}

/* ---- findings of an early end ---- */

static struct finding *stop(struct collectives_lead *l, enum severity severity, const char *id,
                            const char *title, const char *claim)
{
    struct finding *f = VEC_PUSH(l->arena, l->findings);
    *f = (struct finding){
        .id = id, .severity = severity, .title = title, .claim = claim, .confidence = 1};
    l->stopped = true;
    return f;
}

static const char *trial_text(struct collectives_lead *l)
{
    if (l->now == NULL) {
        return "joining the communicator";
    }
    const struct collective_trial *t = &l->now->trial;
    const struct dtype_info *type = dtype_info(t->type);
    return arena_fmt(l->arena, "%s of %zu bytes in %s", collective_op_name(t->op),
                     collective_bytes(t->op, t->count, type->size, l->result.ranks), type->name);
}

/* Who of the ranks is not where the others are; NULL: none. */
static const char *behind(struct collectives_lead *l, int step, int *ret_count)
{
    bool *marked = arena_array(l->arena, (size_t)l->result.ranks, sizeof *marked);
    unsigned number = l->now != NULL ? l->now->trial.number : 0;
    int count = 0;
    for (int i = 0; i < l->result.ranks; i++) {
        const struct collectives_rank *k = &l->result.rank[i];
        marked[i] = step == 0   ? k->entered < number
                    : step == 1 ? k->queued < number && k->entered >= number
                                : !k->answered;
    }
    const char *names = collectives_names(&l->result, marked, &count);
    *ret_count = count;
    return count != 0 ? names : NULL;
}

/* A rank that waits in a collective answers all the same; one that is stopped, or whose machine is gone, does not.
 * Returns their names; NULL: all answer. */
static const char *silent(struct collectives_lead *l)
{
    double until = rendezvous_now_s() + PONG_SECONDS;
    bool *marked = arena_array(l->arena, (size_t)l->result.ranks, sizeof *marked);
    int answers = 0;
    int count = 0;
    rendezvous_send_all(&l->meeting, "ping");
    while (answers < l->result.ranks) {
        int rank = 0;
        struct str line = {0};
        enum rendezvous_event event = rendezvous_next(&l->meeting, until, &rank, &line);
        if (event == RENDEZVOUS_LATE) {
            break;
        }
        if (event == RENDEZVOUS_LINE && str_is(line, "pong") && !l->result.rank[rank].alive) {
            l->result.rank[rank].alive = true;
            answers++;
        }
    }
    for (int i = 0; i < l->result.ranks; i++) {
        marked[i] = !l->result.rank[i].alive;
    }
    const char *names = collectives_names(&l->result, marked, &count);
    return count != 0 ? names : NULL;
}

static void tell_hang(struct collectives_lead *l, double limit_s)
{
    static const char *const what[] = {"did not come to it", "entered it and did not start it",
                                       "did not end it"};
    const char *dumb = silent(l);
    struct finding *f = stop(l, SEVERITY_ERROR, "collectives-hang", "", "");
    bool titled = dumb != NULL;
    if (dumb != NULL) {
        f->title = arena_fmt(l->arena, "Hung in %s: %s does not answer any more", trial_text(l),
                             dumb);
        *VEC_PUSH(l->arena, &f->evidence) = (struct evidence){
            .source = "does not answer: stopped, or its machine is gone", .text = dumb};
    }
    f->claim = arena_fmt(
        l->arena,
        "%s had not ended on all ranks after %.0f s. In a training this is the job that stands "
        "still and says nothing.",
        trial_text(l), limit_s);
    for (int step = l->now == NULL ? 2 : 0; step < 3; step++) {
        int count = 0;
        const char *names = behind(l, step, &count);
        if (names == NULL) {
            continue;
        }
        if (!titled && count < l->result.ranks) {
            f->title = arena_fmt(l->arena, "Hung in %s: %s %s", trial_text(l), names, what[step]);
            titled = true;
        }
        *VEC_PUSH(l->arena, &f->evidence) = (struct evidence){.source = what[step], .text = names};
    }
    if (!titled) {
        f->title = arena_fmt(l->arena, "Hung in %s: all ranks arrived, and none ended it",
                             trial_text(l));
    }
    *VEC_PUSH(l->arena, &f->remedy) =
        "run it once more with NCCL_DEBUG=INFO in the environment: its last lines "
        "name the transport (P2P, SHM, NET) that was chosen";
    *VEC_PUSH(l->arena, &f->remedy) =
        "one switch at a time: NCCL_P2P_DISABLE=1, NCCL_SHM_DISABLE=1, NCCL_IB_DISABLE=1; "
        "what makes it pass names the path that is broken";
}

static void tell_missing(struct collectives_lead *l)
{
    bool *marked = arena_array(l->arena, (size_t)l->result.ranks, sizeof *marked);
    int count = 0;
    for (int i = 0; i < l->result.ranks; i++) {
        marked[i] = !l->meeting.peers[i].came;
    }
    const char *names = collectives_names(&l->result, marked, &count);
    struct finding *f = stop(
        l, SEVERITY_ERROR, "collectives-rank-missing",
        arena_fmt(l->arena, "%d of %d ranks did not come: %s", count, l->result.ranks, names),
        arena_fmt(l->arena,
                  "The launcher counts %d ranks; after %.0f s these had not reported to rank 0.",
                  l->result.ranks, l->job->wait_s));
    *VEC_PUSH(l->arena, &f->remedy) =
        "look at the standard error of these ranks; --wait SECONDS gives them longer";
}

static void tell_gone(struct collectives_lead *l, int rank)
{
    struct finding *f = stop(
        l, SEVERITY_ERROR, "collectives-rank-ended",
        arena_fmt(l->arena, "The process of %s ended in %s",
                  collectives_rank_name(&l->result, rank), trial_text(l)),
        "It crashed or was killed; the others would have waited for it for ever.");
    *VEC_PUSH(l->arena, &f->remedy) =
        "its standard error and the kernel log of its machine say why (assay diagnose)";
}

static void tell_failed(struct collectives_lead *l, int rank, struct str words, bool lacks)
{
    struct finding *f = stop(l, lacks ? SEVERITY_UNKNOWN : SEVERITY_ERROR,
                             lacks ? "collectives-not-tried" : "collectives-failed",
                             lacks ? arena_fmt(l->arena, "Collectives cannot be tried on %s",
                                               collectives_rank_name(&l->result, rank))
                                   : arena_fmt(l->arena, "Failed on %s: %s",
                                               collectives_rank_name(&l->result, rank),
                                               trial_text(l)),
                             str_dup(l->arena, words));
    if (!lacks) {
        *VEC_PUSH(l->arena, &f->remedy) =
            "run it once more with NCCL_DEBUG=WARN in the environment: the library "
            "then says where it failed";
    } else {
        *VEC_PUSH(l->arena, &f->remedy) =
            "--library PATH names the library; --transport mpi takes MPI and host memory";
    }
}

/* ---- steps ---- */

static void take_opened(struct collectives_lead *l, int rank, struct str rest)
{
    struct collectives_rank *k = &l->result.rank[rank];
    struct str backend;
    struct str device;
    struct str name;
    str_cut(&rest, '|', &backend);
    str_cut(&rest, '|', &device);
    str_cut(&rest, '|', &name);
    k->device = arena_fmt(l->arena, "%.*s %.*s", STR_ARG(device), STR_ARG(name));
    k->library = arena_fmt(l->arena, "%.*s %.*s", STR_ARG(backend), STR_ARG(rest));
}

static bool take_number(struct str *rest, double *ret_number)
{
    struct str word;
    return str_cut(rest, ' ', &word) && str_to_double(word, ret_number) == ST_OK;
}

static void take_samples(struct collectives_lead *l, int rank, struct str rest)
{
    double v[COLLECTIVE_SAMPLES_MAX];
    size_t n = 0;
    while (n < COLLECTIVE_SAMPLES_MAX && take_number(&rest, &v[n])) {
        n++;
    }
    double median = stats_median(l->arena, v, n);
    if (l->now->trial.aim == COLLECTIVE_ARRIVE) {
        l->result.rank[rank].arrival_s = median;
        l->result.rank[rank].arrivals = (double)n;
        l->result.rank[rank].arrival_spread_s = stats_robust_sd(l->arena, v, n);
    } else if (!(l->now->seconds >= median)) {
        l->now->seconds = median; /* of the slowest rank */
    }
}

/* "done NUMBER ELEMENTS FIRST GOT WANTED BEYOND", or samples. */
static void take_done(struct collectives_lead *l, int rank, struct str rest)
{
    double v[6] = {0};
    if (!take_number(&rest, &v[0]) || l->now == NULL || v[0] != l->now->trial.number) {
        return;
    }
    l->result.rank[rank].done = l->now->trial.number;
    if (l->now->trial.aim != COLLECTIVE_CHECK) {
        take_samples(l, rank, rest);
        return;
    }
    for (size_t i = 1; i < ARRAY_LEN(v); i++) {
        if (!take_number(&rest, &v[i])) {
            return;
        }
    }
    if (v[1] > 0 || v[5] != 0) {
        *VEC_PUSH(l->arena,
                  &l->now->wrong) = (struct collectives_wrong){.rank = rank,
                                                               .wrong = {.elements = (size_t)v[1],
                                                                         .first = (size_t)v[2],
                                                                         .got = v[3],
                                                                         .wanted = v[4],
                                                                         .beyond = v[5] != 0}};
    }
}

static void take_line(struct collectives_lead *l, int rank, struct str line, const char *want)
{
    struct collectives_rank *k = &l->result.rank[rank];
    struct str rest = line;
    struct str word;
    double number = 0;
    str_cut(&rest, ' ', &word);
    if (str_is(word, "failed") || str_is(word, "lacks")) {
        tell_failed(l, rank, rest, str_is(word, "lacks"));
        return;
    }
    if (str_is(word, "entered") && take_number(&rest, &number)) {
        k->entered = (unsigned)number;
    } else if (str_is(word, "queued") && take_number(&rest, &number)) {
        k->queued = (unsigned)number;
    } else if (str_is(word, "opened")) {
        take_opened(l, rank, rest);
    } else if (str_is(word, "id")) {
        str_print(l->id, sizeof l->id, "%.*s", STR_ARG(rest));
    } else if (str_is(word, "joined") && rank == 0 && rest.n != 0) {
        k->library = arena_fmt(l->arena, "%s, version %.*s", k->library, STR_ARG(rest));
    } else if (str_is(word, "done")) {
        take_done(l, rank, rest);
    }
    k->answered = k->answered || str_is(word, want);
}

static bool all_answered(const struct collectives_lead *l, int ranks)
{
    for (int i = 0; i < ranks; i++) {
        if (!l->result.rank[i].answered) {
            return false;
        }
    }
    return true;
}

/* Until the first `ranks` ranks said `want`; false: it came to an end. */
static bool await(struct collectives_lead *l, const char *want, int ranks, double limit_s)
{
    double until = rendezvous_now_s() + limit_s;
    while (!all_answered(l, ranks)) {
        int rank = 0;
        struct str line = {0};
        switch (rendezvous_next(&l->meeting, until, &rank, &line)) {
        case RENDEZVOUS_LINE: take_line(l, rank, line, want); break;
        case RENDEZVOUS_GONE: tell_gone(l, rank); break;
        case RENDEZVOUS_LATE: tell_hang(l, limit_s); break;
        case RENDEZVOUS_CAME: break;
        }
        if (l->stopped) {
            return false;
        }
    }
    return true;
}

static bool ask(struct collectives_lead *l, const char *line, const char *want, int ranks,
                double limit_s)
{
    for (int i = 0; i < l->result.ranks; i++) {
        l->result.rank[i].answered = false;
    }
    for (int i = 0; i < ranks; i++) {
        rendezvous_send(&l->meeting, i, line);
    }
    return await(l, want, ranks, limit_s);
}

static bool muster(struct collectives_lead *l)
{
    double until = rendezvous_now_s() + l->job->wait_s;
    int came = 0;
    while (came < l->result.ranks) {
        int rank = 0;
        struct str line;
        cli_progress(l->job->cli, "%d of %d ranks are here", came, l->result.ranks);
        switch (rendezvous_next(&l->meeting, until, &rank, &line)) {
        case RENDEZVOUS_CAME:
            l->result.rank[rank].host = l->meeting.peers[rank].host;
            came++;
            break;
        case RENDEZVOUS_GONE: tell_gone(l, rank); return false;
        case RENDEZVOUS_LATE: tell_missing(l); return false;
        case RENDEZVOUS_LINE: break;
        }
    }
    return true;
}

static bool run_trials(struct collectives_lead *l)
{
    for (size_t i = 0; i < l->result.trial_count; i++) {
        const struct collective_trial *t = &l->result.trials[i].trial;
        l->now = &l->result.trials[i];
        cli_progress(l->job->cli, "%zu of %zu: %s", i + 1, l->result.trial_count, trial_text(l));
        const char *line = arena_fmt(l->arena, "trial %u %d %d %d %zu %d %u", t->number, t->aim,
                                     t->op, t->type, t->count, t->root, t->samples);
        if (!ask(l, line, "done", l->result.ranks, l->job->limit_s)) {
            return false;
        }
        l->now->ran = true;
    }
    return true;
}

enum status collectives_lead_open(const struct collectives_job *job,
                                  struct collectives_lead **ret_lead, struct err *err)
{
    struct arena *a = job->cli->arena;
    struct collectives_lead *l = arena_alloc(a, sizeof *l);
    l->job = job;
    l->arena = a;
    TRY(rendezvous_listen(a, &job->place, &l->meeting, err));
    l->result = (struct collectives_result){.job = job, .arena = a, .ranks = job->place.ranks};
    l->result.rank = arena_array(a, (size_t)job->place.ranks, sizeof *l->result.rank);
    for (int i = 0; i < job->place.ranks; i++) {
        l->result.rank[i].arrival_s = l->result.rank[i].arrival_spread_s = NAN;
    }
    *ret_lead = l;
    return ST_OK;
}

void collectives_lead_run(struct collectives_lead *l, struct finding_list *findings,
                          struct report *report)
{
    int n = l->result.ranks;
    double start_s = l->job->limit_s > 120 ? l->job->limit_s
                                           : 120; /* libraries and contexts load */
    l->findings = findings;
    plan(l);
    if (muster(l) && ask(l, arena_fmt(l->arena, "open %zu", l->job->bytes), "opened", n, start_s) &&
        ask(l, "id", "id", 1, start_s) &&
        ask(l, arena_fmt(l->arena, "join %s", l->id), "joined", n, l->job->limit_s)) {
        run_trials(l);
    }
    cli_progress(l->job->cli, NULL);
    collectives_judge(&l->result, l->stopped, findings, report);
}

void collectives_lead_close(struct collectives_lead *l, int status)
{
    rendezvous_send_all(&l->meeting,
                        arena_fmt(l->arena, "%s %d", l->stopped ? "abort" : "end", status));
    rendezvous_close(&l->meeting);
}
