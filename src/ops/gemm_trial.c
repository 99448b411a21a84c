// SPDX-License-Identifier: Apache-2.0
/* The side of a trial that stays alive: children, ends that could not be jumped out of, progress. */
#include "ops/gemm_trial.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "device/isolate.h"
#include "ops/gemm_child.h"

enum {
    DEADLINE_MS = 10000,
    CRASHES_ALLOWED = 50
};

const char *gemm_fault_slug(enum gemm_fault_kind kind)
{
    static const char *const slugs[GEMM_FAULT_KIND_COUNT] = {
        "gemm-clean",
        "gemm-reads-past-operand",
        "gemm-writes-past-operand",
        "gemm-touches-past-operand",
        "gemm-strays",
        "gemm-writes-in-gap",
        "gemm-leaves-output-unwritten",
        "gemm-reads-output",
        "gemm-uses-padding",
        "gemm-not-finite",
        "gemm-inaccurate",
        "gemm-changes-float-mode",
        "gemm-illegal-instruction",
        "gemm-aborts",
        "gemm-crashes",
        "gemm-hangs",
        "gemm-device-lost",
    };
    return kind < GEMM_FAULT_KIND_COUNT ? slugs[kind] : "gemm-unknown";
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

struct trial {
    struct gemm_child child; /* first: isolate_batch's context is this, too */
    const struct gemm_trial_options *options;
    unsigned crashes; /* ends that cost a child */
    unsigned crashes_allowed;
    bool asked; /* the child, for a snapshot */
    bool device;
};

/* Whether the child has told of this item already: faults that were jumped out of. */
static bool is_known(const struct gemm_result *r, size_t index)
{
    for (size_t i = r->fault_count; i > 0; i--) {
        if (r->faults[i - 1].index == index) {
            return true;
        }
    }
    return r->fault_count == GEMM_FAULTS_KEPT;
}

static void ended(void *context, size_t index, const struct isolate_end *end)
{
    struct trial *t = context;
    struct gemm_result *r = &t->child.shared->result;
    if (t->device && !gemm_device_ended(&t->child.shared->flight)) {
        t->child.shared->flight.end = *end;
        t->crashes++;
        return;
    }
    bool jumped = !t->device && (end->ending == ENDING_MEMORY_FAULT ||
                                 end->ending == ENDING_ILLEGAL || end->ending == ENDING_SIGNAL);
    if (jumped && is_known(r, index)) {
        t->crashes += end->ending != ENDING_MEMORY_FAULT;
        return;
    }
    struct gemm_fault fault;
    gemm_attribute(&t->child.shared->placement, end, &fault);
    fault.index = index;
    gemm_note_fault(r, &fault);
    r->probes++;
    t->crashes++;
}

static bool again(void *context, size_t index)
{
    struct trial *t = context;
    (void)index;
    return t->device && gemm_device_again(&t->child.shared->flight);
}

/* Hands on the snapshot that has come, and asks for the next. */
static bool keep(struct trial *t)
{
    struct gemm_shared *shared = t->child.shared;
    if (t->options->keep == NULL || __atomic_load_n(&shared->snapshot_wanted, __ATOMIC_ACQUIRE)) {
        return true;
    }
    if (t->asked && !t->options->keep(t->options->tick_context, &shared->snapshot)) {
        return false;
    }
    t->asked = true;
    __atomic_store_n(&shared->snapshot_wanted, true, __ATOMIC_RELEASE);
    return true;
}

static bool tick(void *context, size_t done)
{
    struct trial *t = context;
    struct gemm_result *r = &t->child.shared->result;
    if (t->crashes > t->crashes_allowed) {
        snprintf(r->refusal, sizeof r->refusal,
                 "stopped after %u calls that ended in an abort, a hang, a signal or an illegal "
                 "instruction",
                 t->crashes);
        r->stopped = true;
        return false;
    }
    struct gemm_shared *shared = t->child.shared;
    if (!shared->stop_wanted && t->options->tick != NULL &&
        !t->options->tick(t->options->tick_context, r, t->options->first + done)) {
        __atomic_store_n(&shared->stop_wanted, true, __ATOMIC_RELEASE);
    }
    if (shared->stop_wanted) {
        return !__atomic_load_n(&shared->stopped, __ATOMIC_ACQUIRE);
    }
    if (!keep(t)) {
        r->stopped = true;
        return false;
    }
    return true;
}

static enum status run(struct trial *t, struct err *err)
{
    const struct gemm_trial_options *o = t->options;
    size_t count = t->child.source->count;
    const struct isolate_batch batch = {
        .first = o->first,
        .count = o->first < count ? count - o->first : 0,
        .context = t,
        .start = gemm_child_start,
        .item = gemm_child_item,
        .faulted = gemm_child_faulted,
        .ended = ended,
        .again = again,
        .no_jumps = t->device,
        .tick = tick,
        .item_deadline_ms = o->deadline_ms != 0 ? o->deadline_ms : DEADLINE_MS,
    };
    struct gemm_result *r = &t->child.shared->result;
    struct isolate_summary summary = {0};
    int64_t since = now_ms();
    struct err why = {0};
    enum status st = isolate_batch(&batch, &summary, &why);
    r->seconds = (double)(now_ms() - since) / 1000;
    r->next = o->first + summary.done;
    r->stopped = r->stopped || t->child.shared->stopped;
    if (st == ST_OK) {
        return ST_OK;
    }
    if (r->opened || st != ST_IO) {
        return err_set(err, st, "%s", why.text);
    }
    /* The library does not survive being loaded: that is an answer. */
    snprintf(r->refusal, sizeof r->refusal, "loading it ends the process: %.300s", why.text);
    return ST_OK;
}

enum status gemm_trial(const struct gemm_target *target, const struct gemm_source *source,
                       const struct gemm_trial_options *options, struct gemm_result *result,
                       struct err *err)
{
    static const struct gemm_trial_options defaults;
    struct gemm_shared *shared = isolate_shared(sizeof *shared);
    if (shared == NULL) {
        return err_sys(err, errno, "cannot share %zu bytes with a child process", sizeof *shared);
    }
    if (options != NULL && options->before != NULL) {
        shared->result = *options->before;
        shared->result.opened = false;
        shared->result.stopped = false;
        shared->result.refusal[0] = '\0';
    }
    struct trial t = {
        .child = {.target = target, .source = source, .shared = shared},
        .options = options != NULL ? options : &defaults,
    };
    t.device = target->device_kind != DEVICE_CPU;
    t.crashes_allowed = t.options->crashes_allowed != 0 ? t.options->crashes_allowed
                                                        : CRASHES_ALLOWED;
    enum status st = run(&t, err);
    memcpy(result, &shared->result, sizeof *result);
    isolate_shared_free(shared, sizeof *shared);
    return st;
}

static void get_of_plan(const void *context, size_t index, struct gemm_probe *ret_probe)
{
    gemm_plan_get(context, index, ret_probe);
}

struct gemm_source gemm_source_of_plan(const struct gemm_plan *plan)
{
    return (struct gemm_source){gemm_plan_count(plan), plan, get_of_plan};
}

static void get_of_list(const void *context, size_t index, struct gemm_probe *ret_probe)
{
    const struct gemm_probe_list *list = context;
    *ret_probe = list->items[index];
}

struct gemm_source gemm_source_of_list(const struct gemm_probe_list *list)
{
    return (struct gemm_source){list->count, list, get_of_list};
}
