// SPDX-License-Identifier: Apache-2.0
/*
 * One probe after another in a child: place the operands, fill them, call, judge. On the CPU the
 * operands are filled in place; a GPU gets copies (gemm_device.c).
 */
#include "ops/gemm_child.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
# include <xmmintrin.h>
#endif

/* How far from an operand a fault still counts as the operand's. */
#define REACH_BYTES ((size_t)1 << 16)

enum {
    REGION_LEAST_BYTES = 1 << 16
};

/* --- floating-point mode ----------------------------------------------------------------------- */

#if defined(__x86_64__)
/* Rounding, flush-to-zero, denormals-are-zero and masks: everything but the sticky flags. */
static unsigned float_mode(void)
{
    return _mm_getcsr() & ~0x3fu;
}

static void set_float_mode(unsigned mode)
{
    _mm_setcsr(mode);
}
#else
static unsigned float_mode(void)
{
    return 0;
}

static void set_float_mode(unsigned mode)
{
    (void)mode;
}
#endif

/* --- start ------------------------------------------------------------------------------------- */

static enum status start(struct gemm_child *t, struct err *err)
{
    const struct gemm_target *target = t->target;
    t->arena = arena_new(0);
    t->numbers = gemm_case_new(t->arena);
    t->choices = arena_array(t->arena, GEMM_CHOICES_MAX, sizeof *t->choices);
    t->memory_bytes = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    blas_single_thread();
    if (target->variable != NULL) {
        setenv(target->variable, target->value, 1);
    }
    TRY(device_open(t->arena, target->device_kind, target->device_index, target->device_options,
                    &t->device, err));
    if (target->unguarded) {
        t->device->map_strength_set = true;
        t->device->map_strength = GUARD_NONE;
    }
    t->device->map_path = target->unguarded ? 0 : target->map_path;
    TRY(guard_open(t->arena, t->device, &t->guard, err));
    unsigned mode = float_mode();
    TRY(target->vendor->open(t->arena, t->device, target->path, &t->library, err));
    struct gemm_result *r = &t->shared->result;
    if (target->vendor == &gemm_vendor_blas) {
        blas_identity(t->library, &r->identity);
    } else {
        snprintf(r->identity.family, sizeof r->identity.family, "%s", target->vendor->name);
        snprintf(r->identity.version, sizeof r->identity.version, "%s",
                 target->vendor->version(t->library));
    }
    if (float_mode() != mode) {
        struct gemm_fault fault = {.kind = GEMM_FLOAT_MODE, .operand = GEMM_OPERAND_NONE};
        snprintf(fault.text, sizeof fault.text, "loading it changed the mode from %#x to %#x", mode,
                 float_mode());
        set_float_mode(mode);
        if (!r->opened) {
            gemm_note_fault(r, &fault);
        }
    }
    return ST_OK;
}

void gemm_child_start(void *context)
{
    struct gemm_child *t = context;
    struct err err = {0};
    struct gemm_result *r = &t->shared->result;
    if (start(t, &err) != ST_OK) {
        snprintf(r->refusal, sizeof r->refusal, "%.*s", (int)sizeof r->refusal - 1, err.text);
        t->library = NULL;
        return;
    }
    r->opened = true;
}

/* --- one item ---------------------------------------------------------------------------------- */

static void extents(const struct gemm_shape *s, uint64_t *ret_bytes)
{
    ret_bytes[GEMM_OPERAND_A] = gemm_extent_a(s) * dtype_info(s->dtype_ab)->size;
    ret_bytes[GEMM_OPERAND_B] = gemm_extent_b(s) * dtype_info(s->dtype_ab)->size;
    ret_bytes[GEMM_OPERAND_C] = gemm_extent_c(s) * dtype_info(s->dtype_c)->size;
}

/* Bytes really touched: the cells, and the reference's copies of them as doubles. */
static uint64_t touched(const struct gemm_shape *s)
{
    uint64_t cells = (uint64_t)s->batch *
                     ((uint64_t)s->m * (uint64_t)s->k + (uint64_t)s->k * (uint64_t)s->n +
                      (uint64_t)s->m * (uint64_t)s->n);
    uint64_t each = 2 * dtype_info(s->dtype_ab)->size + 4 * sizeof(double);
    return cells > UINT64_MAX / each ? UINT64_MAX : cells * each;
}

/* A region for each power of two, kept: where an operand lies does not depend on those before it, so
 * that a campaign that goes on sees what one that was not interrupted sees. */
static enum status place_host(struct gemm_child *t, const struct gemm_probe *probe,
                              struct gemm_placement *placement, struct err *err)
{
    for (size_t i = 0; i < GEMM_OPERAND_COUNT; i++) {
        size_t need = (size_t)placement->bytes[i] + probe->extra_bytes;
        size_t power = 0;
        while (power + 1 < GEMM_REGION_POWERS && (size_t)REGION_LEAST_BYTES << power < need) {
            power++;
        }
        struct guard_region **slot = &t->regions[i][power];
        if (*slot == NULL) {
            TRY(guard_region_take(t->guard, (size_t)REGION_LEAST_BYTES << power, slot, err));
        }
        const struct guard_region *region = *slot;
        if (region->mapping.bytes < need) {
            return err_set(err, ST_LIMIT, "an operand of %zu bytes is too large", need);
        }
        char *at = guard_place(region, need, probe->side, 1);
        at += probe->side == GUARD_BEGIN ? probe->extra_bytes : 0;
        placement->address[i] = (uintptr_t)at;
    }
    return ST_OK;
}

/* The choices of a CPU library depend on formats and sizes; a GPU's on everything. */
static bool same_choices(const struct gemm_child *t, const struct gemm_shape *s)
{
    const struct gemm_shape *o = &t->choices_for;
    const int64_t sizes[] = {s->m, s->n, s->k, s->lda, s->ldb, s->ldc, s->batch};
    bool small = t->target->vendor == &gemm_vendor_blas;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        small = small && sizes[i] <= INT32_MAX;
    }
    if (!small) {
        return t->choices_known && gemm_shape_equal(o, s);
    }
    return t->choices_known && o->lda <= INT32_MAX && o->ldb <= INT32_MAX && o->ldc <= INT32_MAX &&
           o->dtype_ab == s->dtype_ab && o->dtype_c == s->dtype_c &&
           (o->batch > 1) == (s->batch > 1) && (o->k == 0) == (s->k == 0);
}

/* Asking a GPU's library for more than are tried and to be varied is a waste of its time. */
static size_t choices_wanted(const struct gemm_child *t, const struct gemm_probe *probe)
{
    size_t most = (size_t)(probe->choices > 1 ? probe->choices : 16) * 4;
    return t->target->device_kind == DEVICE_CPU || most > GEMM_CHOICES_MAX ? GEMM_CHOICES_MAX
                                                                           : most;
}

/* False when the library declines the shape. */
static bool choose(struct gemm_child *t, const struct gemm_probe *probe,
                   struct gemm_choice *ret_choice)
{
    if (probe->exact == NULL && !same_choices(t, &probe->shape)) {
        t->choices_for = probe->shape;
        t->choices_known = true;
        t->choice_count = 0;
        if (t->target->vendor->choices(t->library, &probe->shape, t->choices,
                                       choices_wanted(t, probe), &t->choice_count, NULL) != ST_OK) {
            t->choice_count = 0;
        }
    }
    if (probe->exact != NULL) {
        *ret_choice = *probe->exact;
        if (ret_choice->workspace_bytes != 0) {
            ret_choice->workspace_bytes = GEMM_BATCH_WORKSPACE_BYTES; /* sizes may be others now */
        }
        return true;
    }
    if (t->choice_count == 0) {
        return false;
    }
    *ret_choice = t->choices[probe->choice % t->choice_count];
    for (size_t i = 0; i < t->choice_count && probe->algorithm_set; i++) {
        if (memcmp(t->choices[i].opaque, &probe->algorithm, sizeof probe->algorithm) == 0) {
            *ret_choice = t->choices[i];
            break;
        }
    }
    return true;
}

void gemm_child_finish(struct gemm_child *t, size_t index, struct gemm_fault *fault)
{
    t->shared->result.probes++;
    if (fault->kind != GEMM_OK) {
        gemm_child_note(t, index, fault);
    }
}

void gemm_child_note(struct gemm_child *t, size_t index, struct gemm_fault *fault)
{
    fault->index = index;
    fault->choice = t->shared->placement.choice;
    gemm_note_fault(&t->shared->result, fault);
}

static void run_host(struct gemm_child *t, const struct gemm_probe *probe, size_t index)
{
    struct gemm_placement *placement = &t->shared->placement;
    struct gemm_result *r = &t->shared->result;
    struct err err = {0};
    if (place_host(t, probe, placement, &err) != ST_OK) {
        r->skipped++;
        return;
    }
    gemm_case_make(t->numbers, probe);
    const struct gemm_layout layout = {
        .a = (char *)(uintptr_t)placement->address[GEMM_OPERAND_A],
        .b = (char *)(uintptr_t)placement->address[GEMM_OPERAND_B],
        .c = (char *)(uintptr_t)placement->address[GEMM_OPERAND_C],
    };
    gemm_layout_fill(probe, t->numbers, &layout);
    const struct gemm_operands operands = {.a = layout.a, .b = layout.b, .c = layout.c};
    unsigned mode = float_mode();
    enum status st = t->target->vendor->run(t->library, &probe->shape, &operands,
                                            &placement->choice, &err);
    if (st == ST_UNSUPPORTED) {
        r->declined++;
        return;
    }
    struct gemm_fault fault = {.operand = GEMM_OPERAND_NONE, .row = -1, .column = -1};
    fault.side = probe->side;
    if (float_mode() != mode) {
        fault.kind = GEMM_FLOAT_MODE;
        snprintf(fault.text, sizeof fault.text, "from %#x to %#x", mode, float_mode());
        set_float_mode(mode);
    } else {
        double worst = r->worst;
        gemm_judge(probe, t->numbers, &layout, &fault, &worst);
        r->worst = fault.kind == GEMM_OK ? worst : r->worst;
    }
    gemm_child_finish(t, index, &fault);
}

static void give_snapshot(struct gemm_shared *shared, size_t index)
{
    if (__atomic_load_n(&shared->snapshot_wanted, __ATOMIC_ACQUIRE)) {
        memcpy(&shared->snapshot, &shared->result, sizeof shared->snapshot);
        shared->snapshot.next = index;
        __atomic_store_n(&shared->snapshot_wanted, false, __ATOMIC_RELEASE);
    }
}

/* Between two items, so that exactly those before the next one are counted. The parent ends this process
 * then. */
static void stop_when_asked(struct gemm_shared *shared)
{
    while (__atomic_load_n(&shared->stop_wanted, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(&shared->stopped, true, __ATOMIC_RELEASE);
        pause();
    }
}

void gemm_child_item(void *context, size_t index)
{
    struct gemm_child *t = context;
    struct gemm_result *r = &t->shared->result;
    bool half_done = t->shared->flight.count != 0 && t->shared->flight.index == index;
    if (!half_done) {
        give_snapshot(t->shared, index);
        stop_when_asked(t->shared);
    }
    if (t->library == NULL) {
        return;
    }
    struct gemm_probe probe;
    t->source->get(t->source->context, index, &probe);
    struct gemm_placement *placement = &t->shared->placement;
    placement->side = probe.side;
    extents(&probe.shape, placement->bytes);
    if (!choose(t, &probe, &placement->choice)) {
        r->declined++;
    } else if (touched(&probe.shape) > t->memory_bytes / 2) {
        r->skipped++;
    } else if (t->target->device_kind == DEVICE_CPU) {
        run_host(t, &probe, index);
    } else {
        gemm_device_run(t, &probe, index);
    }
}

/* --- faults ------------------------------------------------------------------------------------ */

void gemm_attribute(const struct gemm_placement *placement, const struct isolate_end *end,
                    struct gemm_fault *ret_fault)
{
    static const enum gemm_fault_kind kinds[ENDING_COUNT] = {
        [ENDING_OK] = GEMM_CRASHES,          [ENDING_MEMORY_FAULT] = GEMM_STRAYS,
        [ENDING_DEVICE_FAULT] = GEMM_STRAYS, [ENDING_DEVICE_LOST] = GEMM_DEVICE_LOST,
        [ENDING_ILLEGAL] = GEMM_ILLEGAL,     [ENDING_ABORT] = GEMM_ABORTS,
        [ENDING_SIGNAL] = GEMM_CRASHES,      [ENDING_EXIT] = GEMM_CRASHES,
        [ENDING_HANG] = GEMM_HANGS,
    };
    struct gemm_fault *f = ret_fault;
    *f = (struct gemm_fault){.kind = kinds[end->ending],
                             .operand = GEMM_OPERAND_NONE,
                             .row = -1,
                             .column = -1,
                             .signal = end->signal,
                             .side = placement->side,
                             .choice = placement->choice};
    snprintf(f->text, sizeof f->text, "%.*s", (int)sizeof f->text - 1, end->text);
    uint64_t nearest = UINT64_MAX;
    bool memory = f->kind == GEMM_STRAYS && end->address_known;
    for (size_t i = 0; i < GEMM_OPERAND_COUNT && memory; i++) {
        const struct guard_block block = {
            .address = (void *)(uintptr_t)placement->address[i],
            .bytes = (size_t)placement->bytes[i],
        };
        int64_t distance;
        if (!guard_distance(&block, end->address, REACH_BYTES, &distance)) {
            continue;
        }
        uint64_t away = (uint64_t)llabs(distance);
        if (away < nearest) {
            nearest = away;
            f->operand = (enum gemm_operand)i;
            f->distance = distance;
            f->side = distance < 0 ? GUARD_BEGIN : GUARD_END;
            f->kind = !end->direction_known ? GEMM_TOUCHES_OUTSIDE
                      : end->is_write       ? GEMM_WRITES_OUTSIDE
                                            : GEMM_READS_OUTSIDE;
        }
    }
}

/* A rare fault takes the place of a late one of a common way. */
static void replace_common(struct gemm_result *result, const struct gemm_fault *fault)
{
    for (size_t i = result->fault_count; i > 0; i--) {
        struct gemm_fault *old = &result->faults[i - 1];
        if (result->by_way[old->kind][old->operand] > 2 * GEMM_EXAMPLES_KEPT) {
            *old = *fault;
            return;
        }
    }
}

void gemm_note_fault(struct gemm_result *result, const struct gemm_fault *fault)
{
    result->faulty++;
    result->by_kind[fault->kind]++;
    result->by_way[fault->kind][fault->operand]++;
    if (result->fault_count < GEMM_FAULTS_KEPT) {
        result->faults[result->fault_count++] = *fault;
    } else if (result->by_way[fault->kind][fault->operand] <= GEMM_EXAMPLES_KEPT) {
        replace_common(result, fault);
    }
}

void gemm_child_faulted(void *context, size_t index, const struct isolate_end *end)
{
    struct gemm_child *t = context;
    struct gemm_fault fault;
    gemm_attribute(&t->shared->placement, end, &fault);
    gemm_child_finish(t, index, &fault);
}
