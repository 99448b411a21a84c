// SPDX-License-Identifier: Apache-2.0
/*
 * Products on a device: the algorithms of one shape run one behind another into outputs of their own,
 * with one wait, and are judged on the host. A device tells of a bad access when it is waited for, and
 * is lost by it: the child reports and ends, and a new one runs the algorithms of that shape one at a
 * time.
 *
 * An epilogue other than a bias of zeros gives other numbers than gemm_judge.h computes: then only
 * accesses are judged.
 */
#include <string.h>
#include <unistd.h>

#include "base/str.h"

#include "device/isolate.h"
#include "ops/gemm_child.h"

enum {
    ROOM_BYTES = 1 << 20 /* around operands that are not to fault */
};

static bool has_bias(enum gemm_epilogue epilogue)
{
    return epilogue == GEMM_EPILOGUE_BIAS || epilogue == GEMM_EPILOGUE_BIAS_RELU ||
           epilogue == GEMM_EPILOGUE_BIAS_GELU;
}

static enum status place(struct gemm_child *t, const struct gemm_probe *probe, size_t wanted,
                         size_t *ret_count, struct err *err)
{
    struct gemm_placement *placement = &t->shared->placement;
    const struct gemm_shape *s = &probe->shape;
    struct gemm_batch_place where = {.shape = s, .side = probe->side};
    for (size_t i = 0; i < GEMM_BATCH_PART_COUNT; i++) {
        bool at_hole = probe->only == 0 || probe->only == i + 1;
        where.roomy[i] = !at_hole;
        where.extra[i] = at_hole ? probe->extra_bytes : ROOM_BYTES;
        where.bytes[i] = i < GEMM_OPERAND_COUNT  ? (size_t)placement->bytes[i]
                         : has_bias(s->epilogue) ? (size_t)s->m * dtype_info(s->dtype_c)->size
                                                 : 0;
    }
    if (t->batch == NULL) {
        t->batch_results = arena_array(t->arena, GEMM_BATCH_MAX, sizeof *t->batch_results);
        t->batch = gemm_batch_new(t->arena, t->device, t->guard, t->target->vendor, t->library);
    }
    TRY(gemm_batch_place(t->batch, &where, wanted, ret_count, err));
    for (size_t i = 0; i < GEMM_OPERAND_COUNT; i++) {
        placement->address[i] = (uintptr_t)gemm_batch_address(t->batch, (enum gemm_batch_part)i);
    }
    return ST_OK;
}

/* Outputs take turns in what they hold before: an element that is a NaN of its own is told from one
 * that was forgotten. */
static struct gemm_probe with_poison(const struct gemm_probe *probe, size_t which)
{
    struct gemm_probe p = *probe;
    if (which % 2 != 0 && p.poison != GEMM_POISON_FINITE) {
        p.poison = p.poison == GEMM_POISON_ONES ? GEMM_POISON_HIGH : GEMM_POISON_ONES;
    }
    return p;
}

static void fill(struct gemm_child *t, const struct gemm_probe *probe, size_t count)
{
    size_t bytes = (size_t)t->shared->placement.bytes[GEMM_OPERAND_C];
    gemm_case_make(t->numbers, probe);
    const struct gemm_layout layout = {.a = gemm_batch_input(t->batch, GEMM_BATCH_A),
                                       .b = gemm_batch_input(t->batch, GEMM_BATCH_B),
                                       .c = gemm_batch_output(t->batch, 0)};
    gemm_layout_fill(probe, t->numbers, &layout);
    if (has_bias(probe->shape.epilogue)) {
        memset(gemm_batch_input(t->batch, GEMM_BATCH_BIAS), 0,
               (size_t)probe->shape.m * dtype_info(probe->shape.dtype_c)->size);
    }
    for (size_t i = 1; i < count; i++) {
        if (i == 1) {
            const struct gemm_probe other = with_poison(probe, i);
            gemm_layout_fill_output(&other, t->numbers, gemm_batch_output(t->batch, i));
        } else {
            memcpy(gemm_batch_output(t->batch, i), gemm_batch_output(t->batch, i - 2), bytes);
        }
    }
}

static _Noreturn void end_child(const struct device *device, const char *words)
{
    enum ending ending = device->event == DEVICE_EVENT_MEMORY_FAULT ? ENDING_DEVICE_FAULT
                         : device->event == DEVICE_EVENT_ILLEGAL    ? ENDING_ILLEGAL
                                                                    : ENDING_DEVICE_LOST;
    isolate_report(ending, 0, false, words);
    _exit(1);
}

static bool is_lost(const struct device *device)
{
    return device->event >= DEVICE_EVENT_MEMORY_FAULT;
}

static void set_damage(struct gemm_fault *fault, enum gemm_operand operand,
                       const struct guard_damage *damage)
{
    fault->kind = GEMM_WRITES_OUTSIDE;
    fault->operand = operand;
    fault->side = damage->side;
    fault->distance = damage->side == GUARD_END ? (int64_t)damage->distance
                                                : -(int64_t)damage->distance - 1;
}

struct judging {
    const struct gemm_probe *probe;
    size_t index;
    const void *clean; /* an output that was found right; NULL before there is one */
};

/* Bytes that equal those of an output which was found right are right. */
static void judge_output(struct gemm_child *t, struct judging *j, size_t which,
                         const struct gemm_batch_result *run, struct gemm_fault *fault)
{
    enum gemm_epilogue epilogue = j->probe->shape.epilogue;
    size_t bytes = (size_t)t->shared->placement.bytes[GEMM_OPERAND_C];
    const void *clean = j->clean;
    if (run->damage.damaged) {
        set_damage(fault, GEMM_OPERAND_C, &run->damage);
        return;
    }
    if ((epilogue != GEMM_EPILOGUE_NONE && epilogue != GEMM_EPILOGUE_BIAS) ||
        (clean != NULL && memcmp(clean, run->c, bytes) == 0)) {
        return;
    }
    struct gemm_result *r = &t->shared->result;
    struct gemm_probe probe = with_poison(j->probe, which);
    probe.narrow_sums = t->shared->placement.choice.narrow_sums;
    const struct gemm_layout layout = {.c = gemm_batch_output(t->batch, which)};
    double worst = r->worst;
    gemm_judge(&probe, t->numbers, &layout, fault, &worst);
    if (fault->kind == GEMM_OK) {
        r->worst = worst;
        j->clean = probe.narrow_sums == 0 ? run->c : j->clean;
    }
}

/* Counts algorithm `which` of the batch. */
static void count_one(struct gemm_child *t, struct judging *j, size_t which,
                      const struct gemm_batch_result *run)
{
    struct gemm_flight *flight = &t->shared->flight;
    struct gemm_fault fault = {.operand = GEMM_OPERAND_NONE, .row = -1, .column = -1};
    fault.side = j->probe->side;
    t->shared->placement.choice = flight->choices[flight->done + which];
    if (run->status == ST_UNSUPPORTED) {
        t->shared->result.declined++;
        return;
    }
    if (run->status != ST_OK) {
        fault.kind = GEMM_ABORTS;
        str_print(fault.text, sizeof fault.text, "%.110s", run->words);
    } else {
        judge_output(t, j, which, run, &fault);
    }
    flight->found += fault.kind != GEMM_OK;
    gemm_child_finish(t, j->index, &fault);
}

/* For the words about a process that ends in a call. */
static void launching(void *context, size_t which)
{
    struct gemm_child *t = context;
    struct gemm_flight *flight = &t->shared->flight;
    t->shared->placement.choice = flight->choices[flight->done + which];
}

/* Canaries of the inputs belong to nobody's output: with several algorithms, each runs again alone. */
static bool inputs_whole(struct gemm_child *t, struct judging *j, size_t count)
{
    struct gemm_flight *flight = &t->shared->flight;
    enum gemm_batch_part part = GEMM_BATCH_A;
    struct guard_damage damage;
    gemm_batch_damage(t->batch, &part, &damage);
    if (!damage.damaged) {
        return true;
    }
    if (count > 1) {
        flight->alone_until = flight->done + (uint32_t)count;
        flight->found = 0;
        flight->end = (struct isolate_end){.ending = ENDING_DEVICE_FAULT};
        str_print(flight->end.text, sizeof flight->end.text,
                  "canaries beside an input were overwritten");
        return false;
    }
    struct gemm_fault fault = {.row = -1, .column = -1};
    t->shared->placement.choice = flight->choices[flight->done];
    set_damage(&fault, part == GEMM_BATCH_BIAS ? GEMM_OPERAND_NONE : (enum gemm_operand)part,
               &damage);
    flight->found++;
    gemm_child_finish(t, j->index, &fault);
    flight->done++;
    return false;
}

static enum status run_batch(struct gemm_child *t, struct judging *j, size_t count, struct err *err)
{
    struct gemm_flight *flight = &t->shared->flight;
    struct gemm_batch_result *results = t->batch_results;
    fill(t, j->probe, count);
    isolate_alive();
    flight->batch = (uint32_t)count;
    enum status st = gemm_batch_run(t->batch, flight->choices + flight->done, count, launching, t,
                                    results, err);
    if (is_lost(t->device)) {
        end_child(t->device, err->text);
    }
    flight->batch = 0;
    TRY(st);
    if (inputs_whole(t, j, count)) {
        for (size_t i = 0; i < count; i++) {
            count_one(t, j, i, &results[i]);
        }
        flight->done += (uint32_t)count;
    }
    return ST_OK;
}

/* What ended a batch and none of its algorithms alone is told all the same, but for the deadline: it is
 * for one product, and several may take longer. */
static void end_alone(struct gemm_child *t, size_t index)
{
    struct gemm_flight *flight = &t->shared->flight;
    if (flight->alone_until == 0 || flight->done < flight->alone_until) {
        return;
    }
    if (flight->found == 0 && flight->end.ending != ENDING_HANG) {
        struct gemm_fault fault;
        gemm_attribute(&t->shared->placement, &flight->end, &fault);
        fault.operand = GEMM_OPERAND_NONE;
        fault.kind = fault.kind == GEMM_TOUCHES_OUTSIDE ? GEMM_STRAYS : fault.kind;
        t->shared->placement.choice = (struct gemm_choice){.id = -1};
        str_print(t->shared->placement.choice.name, sizeof t->shared->placement.choice.name,
                  "one of %u algorithms that ran one behind another; none of them did it alone",
                  flight->count);
        gemm_child_note(t, index, &fault);
    }
    flight->alone_until = 0;
}

/* --- which algorithms ---------------------------------------------------------------------------- */

/* Half of them are those the library would take itself, the others go round the rest of its list from
 * shape to shape. */
static void select_choices(struct gemm_child *t, const struct gemm_probe *probe, size_t index)
{
    struct gemm_flight *flight = &t->shared->flight;
    size_t most = probe->choices < GEMM_BATCH_MAX ? probe->choices : GEMM_BATCH_MAX;
    *flight = (struct gemm_flight){.index = index};
    if (most <= 1 || probe->exact != NULL || probe->algorithm_set) {
        flight->choices[0] = t->shared->placement.choice;
        flight->count = 1;
        return;
    }
    size_t count = t->choice_count < most ? t->choice_count : most;
    size_t first = count < t->choice_count ? count / 2 : count;
    size_t rest = t->choice_count - first;
    for (size_t i = 0; i < count; i++) {
        size_t at = i < first ? i : first + (probe->choice * (count - first) + i - first) % rest;
        flight->choices[i] = t->choices[at];
    }
    flight->count = (uint32_t)count;
}

bool gemm_device_ended(struct gemm_flight *flight)
{
    bool several = flight->count != 0 && flight->batch > 1;
    if (several) {
        flight->alone_until = flight->done + flight->batch;
        flight->found = 0;
    } else if (flight->count != 0) {
        flight->found++;
        flight->done++;
    }
    flight->batch = 0;
    return !several;
}

bool gemm_device_again(struct gemm_flight *flight)
{
    if (flight->count != 0 && flight->done < flight->count) {
        return true;
    }
    flight->count = 0;
    return false;
}

void gemm_device_run(struct gemm_child *t, const struct gemm_probe *probe, size_t index)
{
    struct gemm_flight *flight = &t->shared->flight;
    struct gemm_result *r = &t->shared->result;
    struct judging j = {.probe = probe, .index = index};
    if (flight->count == 0 || flight->index != index) {
        select_choices(t, probe, index);
    }
    end_alone(t, index);
    while (flight->done < flight->count) {
        struct err err = {0};
        size_t left = flight->count - flight->done;
        size_t count = 0;
        enum status st = place(t, probe, flight->alone_until != 0 ? 1 : left, &count, &err);
        bool placed = st == ST_OK;
        j.clean = NULL; /* outputs lie in the memory of the batch */
        st = placed ? run_batch(t, &j, count, &err) : st;
        if (is_lost(t->device)) {
            end_child(t->device, err.text);
        }
        if (st != ST_OK && !placed) {
            r->skipped += left;
            break;
        }
        if (st != ST_OK) {
            struct gemm_fault fault = {.kind = GEMM_ABORTS, .operand = GEMM_OPERAND_NONE};
            fault.row = fault.column = -1;
            fault.side = probe->side;
            str_print(fault.text, sizeof fault.text, "%.110s", err.text);
            gemm_child_finish(t, index, &fault);
            break;
        }
        end_alone(t, index);
    }
    flight->count = 0;
}
