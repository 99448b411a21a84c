// SPDX-License-Identifier: Apache-2.0
/* See rank_calls.h. */
#include "cli/run/rank_calls.h"

#include <inttypes.h>
#include <string.h>

#include "base/vec.h"

enum {
    RANKS_MAX = 4096,
    RANKS_SHOWN = 8
};

static bool is_of_all(const char *function)
{
    return strcmp(function, "ncclSend") != 0 && strcmp(function, "ncclRecv") != 0;
}

const struct rank_calls *rank_calls_read(struct arena *a, const struct record *r)
{
    struct rank_calls *calls = arena_alloc(a, sizeof *calls);
    *calls = (struct rank_calls){0};
    for (uint32_t hook = 0; hook < r->head.hook_count; hook++) {
        bool counts = strcmp(r->hooks[hook].library, "nccl") == 0 && is_of_all(r->hooks[hook].name);
        for (size_t t = 0; counts && t < r->thread_count; t++) {
            calls->total += r->threads[t].counts[hook];
        }
    }
    for (size_t i = 0; calls->total != 0 && i < r->event_count; i++) {
        const struct record_entry *e = &r->events[i].entry;
        if (e->kind == RECORD_COLLECTIVE && is_of_all(r->hooks[e->hook].name)) {
            *VEC_PUSH(a, calls) = (struct rank_call){
                .function = arena_strdup(a, r->hooks[e->hook].name),
                .count = e->u.collective.count,
                .communicator = e->u.collective.communicator};
        }
    }
    if (calls->total == 0 || calls->total < calls->count) {
        return NULL;
    }
    calls->first = calls->total - calls->count;
    return calls;
}

static bool has_one_communicator(const struct rank_calls *c)
{
    for (size_t i = 1; i < c->count; i++) {
        if (c->items[i].communicator != c->items[0].communicator) {
            return false;
        }
    }
    return true;
}

/* Call number n (from 0), or NULL when it was not made or is not on record any more. */
static const struct rank_call *call(const struct rank_calls *c, uint64_t n)
{
    return n >= c->first && n - c->first < c->count ? &c->items[n - c->first] : NULL;
}

static const char *text_of(struct arena *a, const struct rank_call *c)
{
    return c != NULL ? arena_fmt(a, "%s of %" PRIu64 " elements", c->function, c->count)
                     : "a call that is not on record any more";
}

/* Processes with a rank that made collectives, in the order of their ranks; 0 when they cannot be compared. */
static size_t ranks_of(struct arena *a, const struct run_process_list *all,
                       const struct run_process ***ret_ranks)
{
    const struct run_process **ranks = arena_array(a, all->count + 1, sizeof *ranks);
    size_t n = 0;
    for (size_t i = 0; i < all->count; i++) {
        const struct run_process *p = &all->items[i];
        if (p->rank < 0 || p->collectives == NULL) {
            continue;
        }
        if (n == RANKS_MAX || !has_one_communicator(p->collectives)) {
            return 0;
        }
        size_t k = n++;
        for (; k > 0 && ranks[k - 1]->rank > p->rank; k--) {
            ranks[k] = ranks[k - 1];
        }
        ranks[k] = p;
        if (k > 0 && ranks[k - 1]->rank == p->rank) {
            return 0; /* a rank that was started again */
        }
    }
    *ret_ranks = ranks;
    return n;
}

static void add_rank(struct arena *a, struct finding *f, const struct run_process *p, uint64_t n)
{
    const struct rank_calls *c = p->collectives;
    *VEC_PUSH(a, &f->evidence) = (struct evidence){
        .source = arena_fmt(a, "record.%d.bin", p->pid),
        .text = n < c->total
                    ? arena_fmt(a, "rank %d made %" PRIu64 " collectives; number %" PRIu64 ": %s",
                                p->rank, c->total, n + 1, text_of(a, call(c, n)))
                    : arena_fmt(a, "rank %d made %" PRIu64 " collectives; the last: %s", p->rank,
                                c->total, text_of(a, call(c, c->total - 1)))};
}

/* The ranks of one side first, as they decide. */
static void add_ranks(struct arena *a, struct finding *f, const struct run_process **ranks,
                      size_t count, uint64_t n, const struct run_process *first)
{
    add_rank(a, f, first, n);
    size_t shown = 1;
    for (size_t i = 0; i < count && shown < RANKS_SHOWN; i++) {
        if (ranks[i] != first) {
            add_rank(a, f, ranks[i], n);
            shown++;
        }
    }
    if (count > shown) {
        *VEC_PUSH(a, &f->evidence) = (struct evidence){
            .source = "records", .text = arena_fmt(a, "and %zu further ranks", count - shown)};
    }
}

/* The first call that two ranks do not share; false when none is on record of both. */
static bool differ(const struct run_process **ranks, size_t count, uint64_t *ret_number,
                   const struct run_process **ret_rank)
{
    bool found = false;
    for (size_t i = 1; i < count; i++) {
        const struct rank_calls *x = ranks[0]->collectives;
        const struct rank_calls *y = ranks[i]->collectives;
        uint64_t from = x->first > y->first ? x->first : y->first;
        uint64_t to = x->total < y->total ? x->total : y->total;
        for (uint64_t n = from; n < to; n++) {
            const struct rank_call *p = call(x, n);
            const struct rank_call *q = call(y, n);
            if (strcmp(p->function, q->function) != 0 || p->count != q->count) {
                if (!found || n < *ret_number) {
                    *ret_number = n;
                    *ret_rank = ranks[i];
                    found = true;
                }
                break;
            }
        }
    }
    return found;
}

bool rank_calls_judge(struct arena *a, const struct run_process_list *processes,
                      struct finding *ret_finding)
{
    const struct run_process **ranks = NULL;
    size_t count = ranks_of(a, processes, &ranks);
    if (count < 2) {
        return false;
    }
    struct finding f = {
        .severity = SEVERITY_ERROR, .layer = "application-config", .confidence = 0.85};
    uint64_t n = 0;
    const struct run_process *one = NULL;
    if (differ(ranks, count, &n, &one)) {
        f.id = "collective-desync";
        f.title = arena_fmt(a, "rank %d and rank %d called different collectives: %s, and %s",
                            ranks[0]->rank, one->rank, text_of(a, call(ranks[0]->collectives, n)),
                            text_of(a, call(one->collectives, n)));
        f.claim =
            "All ranks of a communicator must make the same calls in the same order: each waits in "
            "its own for the others. Usual reasons: a branch or a batch that not every rank takes, "
            "parameters without a gradient on one of them.";
        add_ranks(a, &f, ranks, count, n, one);
        *ret_finding = f;
        return true;
    }
    const struct run_process *behind = ranks[0];
    const struct run_process *ahead = ranks[0];
    size_t as_far = 0;
    for (size_t i = 1; i < count; i++) {
        behind = ranks[i]->collectives->total < behind->collectives->total ? ranks[i] : behind;
        ahead = ranks[i]->collectives->total > ahead->collectives->total ? ranks[i] : ahead;
    }
    if (behind->collectives->total == ahead->collectives->total) {
        return false;
    }
    n = behind->collectives->total;
    for (size_t i = 0; i < count; i++) {
        as_far += ranks[i]->collectives->total == n;
    }
    f.id = "collective-timeout";
    f.title = arena_fmt(
        a, "rank %d%s did not come to collective %" PRIu64 " (%s), where rank %d waits",
        behind->rank, as_far > 1 ? arena_fmt(a, " and %zu more", as_far - 1) : "", n + 1,
        text_of(a, call(ahead->collectives, n)), ahead->rank);
    f.claim =
        "The ranks that wait are not at fault: the question is what the one that is missing did "
        "instead. It may have left the loop, wait for data, write a checkpoint, or be gone.";
    add_ranks(a, &f, ranks, count, n, behind);
    *VEC_PUSH(a, &f.remedy) = arena_fmt(
        a,
        "read the stacks and the last lines of output of rank %d (process %d), not those of the others",
        behind->rank, behind->pid);
    *ret_finding = f;
    return true;
}
