// SPDX-License-Identifier: Apache-2.0
/*
 * Many ranks of one job under mpirun, srun or torchrun: collectives between them, and who is not like the others. Each
 * rank sends its facts and how it came out to rank 0, which alone tells a verdict; all end with its exit status.
 */
#include "snapshot/fleet.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#include "base/vec.h"

#include "cli/fleet/inputs.h"
#include "cli/qualify/qualify.h"
#include "cli/session.h"
#include "facts/facts_json.h"

enum {
    COLLECTIVES_WEIGHT = 60,
    FLEET_WEIGHT = 40,
    FACTS_MAX = RENDEZVOUS_LINE_MAX - 4096,
    TITLE_MAX = 300
};

static const double default_wait_s = 3600;
static const double collectives_limit_s =
    7200; /* beside the wait for the ranks; its steps have their own */

/* What one rank sent. */
struct member {
    const char *host;
    struct str facts;
    bool reported;
    int status;
    const char *title; /* its first finding that counts; NULL */
};

struct qualify_meeting {
    struct rendezvous meeting;
    struct member *members;
    int fd; /* ranks other than 0 */
};

enum status qualify_fleet_start(struct qualify *q, struct err *err)
{
    const char *wait = cli_value(q->cli, "fleet-wait", NULL);
    double seconds;
    if (!q->fleet && (wait != NULL || cli_value(q->cli, "collective-bytes", NULL) != NULL)) {
        return err_set(err, ST_USAGE, "--fleet-wait and --collective-bytes go with --fleet");
    }
    if (wait != NULL && (str_to_double(str_of(wait), &seconds) != ST_OK || !(seconds > 0))) {
        return err_set(err, ST_USAGE, "--fleet-wait takes seconds above 0, not '%s'", wait);
    }
    if (q->fleet && q->other_machine) {
        return err_set(err, ST_USAGE, "--fleet tries this machine, and --root names another");
    }
    return q->fleet ? launcher_read(q->cli->arena, &q->launcher, err) : ST_OK;
}

bool qualify_fleet_follows(const struct qualify *q)
{
    return q->fleet && q->launcher.local_rank != 0;
}

static double wait_s(const struct qualify *q)
{
    double seconds = default_wait_s;
    const char *text = cli_value(q->cli, "fleet-wait", NULL);
    if (text != NULL && str_to_double(str_of(text), &seconds) != ST_OK) {
        seconds = default_wait_s;
    }
    return seconds;
}

/* ---- collectives ---- */

static void add_words(struct qualify *q, struct text_list *words)
{
    struct arena *a = q->cli->arena;
    const char *bytes = cli_value(q->cli, "collective-bytes", NULL);
    *VEC_PUSH(a, words) = "collectives";
    *VEC_PUSH(a, words) = "--wait";
    *VEC_PUSH(a, words) = arena_fmt(a, "%.0f", wait_s(q) < 1 ? 1 : wait_s(q));
    if (bytes != NULL) {
        *VEC_PUSH(a, words) = "--bytes";
        *VEC_PUSH(a, words) = bytes;
    }
    if (q->device_named && strcmp(q->device, "cpu") == 0) {
        *VEC_PUSH(a, words) = "--device";
        *VEC_PUSH(a, words) = "cpu";
    }
}

/* Bus bandwidth of the largest all-reduce: comparable with earlier qualifications. */
static void add_figure(struct qualify *q, const struct report *r)
{
    const struct report_table *t = qualify_table(r, "bandwidth");
    struct value best = {.kind = VALUE_NULL};
    for (size_t i = 0; t != NULL && i < t->row_count; i++) {
        if (strcmp(qualify_text(t, i, "operation"), "all-reduce") == 0) {
            best = qualify_cell(t, i, "busbw_gb_per_s");
        }
    }
    if (best.kind == VALUE_REAL && q->launcher.ranks > 1) {
        *VEC_PUSH(q->cli->arena, &q->figures) = (struct qualify_figure){"all-reduce bus bandwidth",
                                                                        "GB/s", best.real};
    }
}

void qualify_collectives(struct qualify *q, struct stage_result *s)
{
    struct arena *a = q->cli->arena;
    struct err err = {0};
    struct report r;
    struct text_list words = {0};
    int exit;
    add_words(q, &words);
    enum status st = qualify_child(q, "collectives", &words, wait_s(q) + collectives_limit_s, &r,
                                   &exit, &err);
    if (q->launcher.rank != 0) { /* rank 0 has the record */
        s->state = STAGE_NOT_ASKED;
        s->reason = "rank 0 tells";
        return;
    }
    if (st != ST_OK) {
        qualify_not_run(s, arena_strdup(a, err.text), "assay collectives by itself");
        return;
    }
    qualify_take(q, &r, &s->findings);
    s->measured = r.verdict != NULL ? arena_strdup(a, r.verdict) : NULL;
    add_figure(q, &r);
    qualify_judge(q, "collectives", COLLECTIVES_WEIGHT, s);
}

/* ---- what a rank sends ---- */

/* One line: a JSON text has no ends of lines but between its words. */
static struct str facts_line(struct qualify *q)
{
    struct strbuf out;
    strbuf_init(&out, q->cli->arena, FACTS_MAX);
    strbuf_addz(&out, "facts ");
    facts_write_json(q->facts, q->cli->arena, session_unit_of_key, (void *)(uintptr_t)q->k, &out);
    for (size_t i = 0; i < out.n; i++) {
        out.p[i] = out.p[i] == '\n' ? ' ' : out.p[i];
    }
    return strbuf_str(&out);
}

/* Its own stages: exit status and the worst finding. */
static int own_status(const struct qualify *q, const char **ret_title)
{
    static const enum severity worst[] = {SEVERITY_ERROR, SEVERITY_WARNING, SEVERITY_UNKNOWN};

    int status = EXIT_FINE;
    *ret_title = "";
    for (size_t k = 0; k < ARRAY_LEN(worst); k++) {
        for (size_t i = 0; i < q->stages_done; i++) {
            const struct stage_result *s = &q->stages[i];
            for (size_t f = 0; f < s->findings.count; f++) {
                if (s->findings.items[f].severity == worst[k]) {
                    *ret_title = s->findings.items[f].title;
                    return worst[k] == SEVERITY_UNKNOWN ? EXIT_UNKNOWN : EXIT_FAULT;
                }
            }
            if (worst[k] == SEVERITY_UNKNOWN && s->state == STAGE_NOT_RUN) {
                *ret_title = s->reason;
                status = EXIT_UNKNOWN;
            }
        }
    }
    return status;
}

static const char *status_line(struct qualify *q)
{
    const char *title;
    int status = own_status(q, &title);
    char *line = arena_fmt(q->cli->arena, "status %d %.*s", status, TITLE_MAX, title);
    for (char *c = line; *c != '\0'; c++) {
        *c = *c == '\n' ? ' ' : *c;
    }
    return line;
}

static void send_own(struct qualify *q, const struct rendezvous_place *place,
                     struct stage_result *s)
{
    struct err err = {0};
    struct qualify_meeting *m = q->meeting;
    enum status st = rendezvous_connect(q->cli->arena, place, rendezvous_now_s() + wait_s(q),
                                        &m->fd, &err);
    if (st == ST_OK) {
        st = rendezvous_write(m->fd, facts_line(q), &err);
    }
    if (st == ST_OK) {
        st = rendezvous_write(m->fd, str_of(status_line(q)), &err);
    }
    if (st != ST_OK) {
        qualify_not_run(s, arena_strdup(q->cli->arena, err.text), "look at rank 0");
        return;
    }
    s->state = STAGE_NOT_ASKED;
    s->reason = "rank 0 tells";
}

int qualify_fleet_wait(struct qualify *q)
{
    char line[32];
    size_t n = 0;
    uint64_t status = EXIT_UNKNOWN;
    if (q->meeting == NULL || q->meeting->fd < 0) {
        return cli_fail(q->cli, EXIT_UNKNOWN, "rank %d found no rank 0 to report to",
                        q->launcher.rank);
    }
    for (;;) {
        ssize_t got = recv(q->meeting->fd, line + n, sizeof line - 1 - n, 0);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        n += (size_t)got;
    }
    line[n] = '\0';
    if (str_to_u64(str_trim(str_of(line)), 10, &status) != ST_OK || status > 255) {
        return cli_fail(q->cli, EXIT_UNKNOWN, "rank 0 ended without a verdict for rank %d",
                        q->launcher.rank);
    }
    return (int)status;
}

/* ---- rank 0 ---- */

static void take_line(struct qualify *q, struct member *m, struct str line)
{
    struct str word;
    struct str number;
    uint64_t status = EXIT_UNKNOWN;
    str_cut(&line, ' ', &word);
    if (str_is(word, "facts")) {
        m->facts = (struct str){.p = str_dup(q->cli->arena, line), .n = line.n};
    } else if (str_is(word, "status")) {
        m->reported = str_cut(&line, ' ', &number) && str_to_u64(number, 10, &status) == ST_OK &&
                      status <= EXIT_UNKNOWN;
        m->status = (int)status;
        m->title = line.n != 0 ? str_dup(q->cli->arena, line) : NULL;
    }
}

static void gather(struct qualify *q)
{
    struct qualify_meeting *m = q->meeting;
    double until = rendezvous_now_s() + wait_s(q);
    int reported = 1; /* rank 0 itself */
    while (reported < q->launcher.ranks) {
        int rank = 0;
        struct str line;
        cli_progress(q->cli, "%d of %d ranks have reported", reported, q->launcher.ranks);
        switch (rendezvous_next(&m->meeting, until, &rank, &line)) {
        case RENDEZVOUS_LINE: {
            bool before = m->members[rank].reported;
            take_line(q, &m->members[rank], line);
            reported += !before && m->members[rank].reported;
            break;
        }
        case RENDEZVOUS_CAME: m->members[rank].host = m->meeting.peers[rank].host; break;
        case RENDEZVOUS_GONE: break; /* told at the end; the others may still come */
        case RENDEZVOUS_LATE: return;
        }
    }
}

/* The host, and the rank where a host has several. */
static const char *member_name(struct qualify *q, int rank)
{
    const struct member *all = q->meeting->members;
    int same = 0;
    for (int i = 0; i < q->launcher.ranks; i++) {
        same += all[i].host != NULL && strcmp(all[i].host, all[rank].host) == 0;
    }
    return same > 1 ? arena_fmt(q->cli->arena, "%s-rank%d", all[rank].host, rank) : all[rank].host;
}

static void compare(struct qualify *q, struct finding_list *to, struct err *err)
{
    struct arena *a = q->cli->arena;
    struct fleet_rules rules;
    struct fleet fleet;
    struct fleet_result result;
    struct text_list missing = {0};
    if (fleet_inputs_rules(q->cli, &rules, err) != ST_OK) {
        return;
    }
    fleet_init(a, &rules, &fleet);
    for (int i = 0; i < q->launcher.ranks; i++) {
        const struct member *m = &q->meeting->members[i];
        struct arena *scratch = arena_new(0);
        const char *name = m->host != NULL ? member_name(q, i) : NULL;
        enum status st = ST_OK;
        if (name == NULL || !m->reported) {
            *VEC_PUSH(a, &missing) = arena_fmt(a, "rank %d%s%s", i, name != NULL ? " on " : "",
                                               name != NULL ? name : "");
        } else {
            st = fleet_add(&fleet, scratch, name, arena_fmt(a, "facts of rank %d", i), m->facts,
                           err);
        }
        arena_free(scratch);
        if (st != ST_OK) {
            return;
        }
    }
    fleet_compare(a, &fleet, &result);
    fleet_findings(a, &fleet, &result, &missing, to);
}

/* What ranks other than this one found wrong in themselves. */
static void tell_ranks(struct qualify *q, struct finding_list *to)
{
    struct arena *a = q->cli->arena;
    for (int i = 1; i < q->launcher.ranks; i++) {
        const struct member *m = &q->meeting->members[i];
        if (!m->reported || m->status == EXIT_FINE) {
            continue;
        }
        struct finding *f = VEC_PUSH(a, to);
        *f = (struct finding){
            .id = "fleet-rank-not-qualified",
            .severity = m->status == EXIT_FAULT ? SEVERITY_ERROR : SEVERITY_UNKNOWN,
            .title = arena_fmt(a, "Rank %d on %s: %s", i, m->host,
                               m->title != NULL ? m->title : "something was found wrong there"),
            .claim = "Found in the stages that this rank ran on its own machine.",
            .confidence = 1};
        *VEC_PUSH(a, &f->remedy) = arena_fmt(a, "assay qualify on %s tells all of it", m->host);
    }
}

/* A rank that never reported could not be told about, and that is a fault of the job: it would hang. Remedies of the
 * comparison speak of files, and here there are none. */
static void adapt(struct arena *a, struct finding_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        struct finding *f = &list->items[i];
        if (strcmp(f->id, "fleet-missing") == 0) {
            f->severity = SEVERITY_ERROR;
        }
        if (f->remedy.count != 0 && strncmp(f->remedy.items[0], "assay diff ", 11) == 0) {
            f->remedy = (struct text_list){0};
            *VEC_PUSH(a, &f->remedy) =
                "assay doctor --facts --json there and on another rank, and assay diff of the two";
        }
    }
}

static void lead(struct qualify *q, const struct rendezvous_place *place, struct stage_result *s)
{
    struct arena *a = q->cli->arena;
    struct err err = {0};
    struct qualify_meeting *m = q->meeting;
    char host[65] = "?";
    if (rendezvous_listen(a, place, &m->meeting, &err) != ST_OK) {
        q->meeting = NULL;
        qualify_not_run(s, arena_strdup(a, err.text), "a free port or socket");
        return;
    }
    gethostname(host, sizeof host - 1);
    struct str own = facts_line(q);
    m->members[0] = (struct member){
        .host = arena_strdup(a, host), .facts = str_slice(own, 6, own.n), .reported = true};
    gather(q);
    cli_progress(q->cli, NULL);
    compare(q, &s->findings, &err);
    if (err.text[0] != '\0') {
        *VEC_PUSH(a, &s->findings) = (struct finding){.id = "fleet-not-compared",
                                                      .severity = SEVERITY_UNKNOWN,
                                                      .title = "The ranks could not be compared",
                                                      .claim = arena_strdup(a, err.text),
                                                      .confidence = 1};
    }
    adapt(a, &s->findings);
    tell_ranks(q, &s->findings);
    s->measured = arena_fmt(a, "%d ranks started by %s", q->launcher.ranks, q->launcher.name);
    qualify_judge(q, "fleet", FLEET_WEIGHT, s);
}

void qualify_fleet(struct qualify *q, struct stage_result *s)
{
    struct arena *a = q->cli->arena;
    struct err err = {0};
    struct rendezvous_place place;
    if (q->launcher.ranks < 2) {
        qualify_not_run(s, "this process was started alone: there is no other rank",
                        "mpirun, srun or torchrun; without them, assay fleet compares files");
        return;
    }
    if (launcher_place(a, &q->launcher, "fleet", NULL, &place, &err) != ST_OK) {
        qualify_not_run(s, arena_strdup(a, err.text),
                        "MASTER_ADDR in the environment of all ranks");
        return;
    }
    q->meeting = arena_alloc(a, sizeof *q->meeting);
    q->meeting->fd = -1;
    q->meeting->members = arena_array(a, (size_t)q->launcher.ranks, sizeof *q->meeting->members);
    if (q->launcher.rank == 0) {
        lead(q, &place, s);
    } else {
        send_own(q, &place, s);
    }
}

void qualify_fleet_release(struct qualify *q, int status)
{
    if (q->meeting == NULL || q->launcher.rank != 0) {
        return;
    }
    rendezvous_send_all(&q->meeting->meeting, arena_fmt(q->cli->arena, "%d", status));
    rendezvous_close(&q->meeting->meeting);
}
