// SPDX-License-Identifier: Apache-2.0
/*
 * The instrument proves itself: a planted access of one element past each side of a guarded block
 * must be caught on this device, through the same calls that real operands take. Each case has a
 * child of its own, because the fault ends the context.
 */
#include <string.h>

#include <sys/mman.h>

#include "base/str.h"

#include "device/guard.h"
#include "device/isolate.h"
#include "device/kernels.h"

/* An odd number of 4-byte elements, so that nothing is a multiple of a granule. */
enum {
    ELEMENTS = 1027,
    ELEMENT_BYTES = 4,
    SENTINEL = 0x3f9d70a4
};

static const struct proof_case {
    const char *name;
    enum guard_side side;
    int64_t read_index;
    int64_t write_index;
} cases[GUARD_PROOF_CASE_COUNT] = {
    [GUARD_PROOF_CLEAN] = {"no fault planted", GUARD_END, ELEMENTS - 1, ELEMENTS - 1},
    [GUARD_PROOF_READ_END] = {"read behind the end", GUARD_END, ELEMENTS, 0},
    [GUARD_PROOF_READ_BEGIN] = {"read before the begin", GUARD_BEGIN, -1, 0},
    [GUARD_PROOF_WRITE_END] = {"write behind the end", GUARD_END, 0, ELEMENTS},
    [GUARD_PROOF_WRITE_BEGIN] = {"write before the begin", GUARD_BEGIN, 0, -1},
};

const char *guard_proof_case_name(enum guard_proof_case which)
{
    return which < GUARD_PROOF_CASE_COUNT ? cases[which].name : "unknown";
}

/* Shared by parent and child. */
struct proof_run {
    enum device_kind kind;
    int index;
    const struct guard_proof_options *options;
    const struct proof_case *which;
    unsigned path;
    bool opened;
    enum guard_strength strength;
    uint64_t edge; /* first byte past the side on trial */
    bool finished; /* came to the end without a fault */
    bool value_right;
    struct guard_damage damage;
    struct err err;
};

static enum status touch(struct proof_run *run, struct device *device, struct guard *guard,
                         struct arena *a)
{
    struct err *err = &run->err;
    struct guard_block in;
    struct guard_block out;
    size_t bytes = (size_t)ELEMENTS * ELEMENT_BYTES;
    TRY(guard_alloc(guard, bytes, run->which->side, ELEMENT_BYTES, &in, err));
    TRY(guard_alloc(guard, bytes, run->which->side, ELEMENT_BYTES, &out, err));
    run->strength = in.strength;
    const struct guard_block *target = run->which->write_index == 0 ? &in : &out;
    run->edge = (uintptr_t)target->address;
    run->edge += run->which->side == GUARD_END ? bytes : (uint64_t)-ELEMENT_BYTES;
    TRY(device_fill(device, in.address, SENTINEL, bytes, err));
    TRY(guard_poison(guard, &out, 0, err));
    TRY(device_sync(device, err));
    const union kernel_argument arguments[] = {
        {.pointer = in.address},
        {.i64 = run->which->read_index},
        {.pointer = out.address},
        {.i64 = run->which->write_index},
    };

    static const enum kernel_type types[] = {KERNEL_POINTER, KERNEL_I64, KERNEL_POINTER,
                                             KERNEL_I64};
    const struct kernel_launch launch = {
        .groups = 1,
        .group_size = 1,
        .argument_count = ARRAY_LEN(arguments),
        .arguments = arguments,
        .types = types,
    };
    TRY(device_launch(device, &kernel_copy_one, &launch, err));
    TRY(device_sync(device, err));
    TRY(guard_check(guard, &out, &run->damage, err));
    uint32_t *seen = arena_alloc(a, bytes);
    TRY(device_read(device, seen, out.address, bytes, err));
    size_t at = run->which->write_index < 0 ? 0 : (size_t)run->which->write_index % ELEMENTS;
    run->value_right = seen[at] == SENTINEL;
    return ST_OK;
}

/* In the child. */
static void run_case(void *context)
{
    struct proof_run *run = context;
    struct arena *a = arena_new(0);
    struct device *device = NULL;
    struct guard *guard = NULL;
    enum status st = device_open(a, run->kind, run->index, run->options->device_options, &device,
                                 &run->err);
    if (st == ST_OK) {
        run->opened = true;
        device->map_path = run->path;
        device->map_strength_set = run->options->force_strength;
        device->map_strength = run->options->strength;
        st = guard_open(a, device, &guard, &run->err);
    }
    if (st == ST_OK) {
        st = touch(run, device, guard, a);
    }
    if (st == ST_OK) {
        run->finished = true;
    } else if (device != NULL && device->event >= DEVICE_EVENT_MEMORY_FAULT) {
        enum ending ending = device->event == DEVICE_EVENT_MEMORY_FAULT ? ENDING_DEVICE_FAULT
                             : device->event == DEVICE_EVENT_ILLEGAL    ? ENDING_ILLEGAL
                                                                        : ENDING_DEVICE_LOST;
        isolate_report(ending, 0, false, run->err.text);
    }
    /* No tidy end: after a fault the run-time library may hang in it. */
}

/* Whether the end of the child is the planted fault, and the words for it. */
static bool caught(const struct proof_run *run, const struct isolate_end *end, char *how,
                   size_t how_size)
{
    if (end->ending == ENDING_MEMORY_FAULT || end->ending == ENDING_DEVICE_FAULT) {
        bool elsewhere = end->ending == ENDING_MEMORY_FAULT && end->address_known &&
                         end->address != run->edge;
        str_print(how, how_size, "%s%s%s", ending_name(end->ending),
                  end->text[0] != '\0' ? ": " : "", end->text);
        if (elsewhere) {
            str_print(how, how_size, "a fault, but not where it was planted: at 0x%llx, not 0x%llx",
                      (unsigned long long)end->address, (unsigned long long)run->edge);
        }
        return !elsewhere;
    }
    if (end->ending == ENDING_DEVICE_LOST) {
        str_print(how, how_size, "device lost: %s", end->text);
        return true;
    }
    if (end->ending != ENDING_OK) {
        str_print(how, how_size, "ended by %s%s%s", ending_name(end->ending),
                  end->text[0] != '\0' ? ": " : "", end->text);
        return false;
    }
    if (!run->finished) {
        str_print(how, how_size, "not run: %s", run->err.text);
        return false;
    }
    if (run->damage.damaged) {
        str_print(how, how_size, "canary overwritten %zu bytes from the operand, no fault",
                  run->damage.distance);
        return run->damage.side == run->which->side && run->damage.distance == 0;
    }
    str_print(how, how_size, "not noticed");
    return false;
}

static bool clean(const struct proof_run *run, const struct isolate_end *end, char *how,
                  size_t how_size)
{
    if (end->ending != ENDING_OK || !run->finished || run->damage.damaged) {
        caught(run, end, how, how_size);
        return false;
    }
    str_print(how, how_size,
              run->value_right ? "passed"
                               : "the kernel's store did not arrive: memory that was "
                                 "just mapped loses data");
    return run->value_right;
}

static void conclude(struct guard_proof *proof)
{
    bool ok = proof->cases[GUARD_PROOF_CLEAN].caught;
    proof->reads_proven = ok && proof->cases[GUARD_PROOF_READ_END].caught &&
                          proof->cases[GUARD_PROOF_READ_BEGIN].caught;
    proof->writes_proven = ok && proof->cases[GUARD_PROOF_WRITE_END].caught &&
                           proof->cases[GUARD_PROOF_WRITE_BEGIN].caught;
    if (proof->reads_proven && proof->writes_proven) {
        str_print(proof->sentence, sizeof proof->sentence,
                  "a planted read and a planted write of one element past both sides were caught "
                  "(%s)",
                  proof->path_name);
        return;
    }
    for (size_t i = 0; i < GUARD_PROOF_CASE_COUNT; i++) {
        if (!proof->cases[i].caught) {
            str_print(proof->sentence, sizeof proof->sentence,
                      "the guard is not proven on this device (%s): %s: %s%s", proof->path_name,
                      cases[i].name, proof->cases[i].how,
                      proof->writes_proven ? " (over-writes are noticed, over-reads are not)" : "");
            return;
        }
    }
}

/* All cases over one way of the back end. *ret_opened: whether there was a device at all. */
static enum status prove_path(struct proof_run *shared, const struct proof_run *plan,
                              struct guard_proof *ret_proof, bool *ret_opened, struct err *err)
{
    const char *const *paths = device_backend_of(plan->kind)->map_paths;
    struct guard_proof proof = {
        .path = plan->path,
        .path_name = plan->path > 0 ? paths[plan->path - 1] : "forced",
    };
    const struct isolate_options how = {.deadline_ms = plan->options->deadline_ms};
    *ret_opened = false;
    for (size_t i = 0; i < GUARD_PROOF_CASE_COUNT; i++) {
        *shared = *plan;
        shared->which = &cases[i];
        struct isolate_end end;
        TRY(isolate_run(&how, run_case, shared, &end, err));
        char *words = proof.cases[i].how;
        size_t size = sizeof proof.cases[i].how;
        proof.cases[i].caught = i == GUARD_PROOF_CLEAN ? clean(shared, &end, words, size)
                                                       : caught(shared, &end, words, size);
        *ret_opened = *ret_opened || shared->opened;
        proof.strength = shared->strength > proof.strength ? shared->strength : proof.strength;
        if (i == GUARD_PROOF_CLEAN && !proof.cases[i].caught) {
            break; /* faults that come without being planted prove nothing */
        }
    }
    conclude(&proof);
    *ret_proof = proof;
    return ST_OK;
}

enum status guard_prove(enum device_kind kind, int index, const struct guard_proof_options *options,
                        struct guard_proof *ret_proof, struct err *err)
{
    static const struct guard_proof_options defaults;
    struct proof_run plan = {
        .kind = kind,
        .index = index,
        .options = options != NULL ? options : &defaults,
    };
    const struct device_backend *backend = device_backend_of(kind);
    if (backend == NULL) {
        return err_set(err, ST_UNSUPPORTED, "this build has no back end '%s'",
                       device_kind_name(kind));
    }
    struct proof_run *shared = isolate_shared(sizeof *shared);
    if (shared == NULL) {
        return err_set(err, ST_IO, "cannot share %zu bytes with a child process", sizeof *shared);
    }
    struct guard_proof best = {0};
    bool opened = false;
    enum status st = ST_OK;
    if (plan.options->force_strength) {
        st = prove_path(shared, &plan, &best, &opened, err);
    }
    for (size_t i = 0;
         !plan.options->force_strength && st == ST_OK && backend->map_paths[i] != NULL; i++) {
        struct guard_proof proof = {0};
        plan.path = (unsigned)i + 1;
        st = prove_path(shared, &plan, &proof, &opened, err);
        if (i == 0 || (st == ST_OK && proof.writes_proven && !best.writes_proven) ||
            (st == ST_OK && proof.reads_proven)) {
            best = proof;
        }
        if (best.reads_proven || !opened) {
            break;
        }
    }
    isolate_shared_free(shared, sizeof *shared);
    TRY(st);
    *ret_proof = best;
    return ST_OK;
}
