// SPDX-License-Identifier: Apache-2.0
/*
 * Shrinking by trial: candidates are run by the hundred in one child, and the smallest that still
 * shows the same kind of fault in the same operand is taken.
 */
#include "ops/gemm_localise.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

#include "ops/gemm_shrink.h"

enum {
    EXAMPLES_MAX = 64,
    DEVICE_EXAMPLES_MAX = 2,
    DEVICE_PAD_STEPS = 9, /* powers of four from 16 bytes: up to a megabyte */
    PAD_STEPS = 64,       /* of one element */
    PAD_MOST = 4096,      /* bytes: a page */
    CHOICES_TRIED = 24
};

const char *gemm_kernel_verdict_name(enum gemm_kernel_verdict verdict)
{
    static const char *const names[GEMM_KERNEL_VERDICT_COUNT] = {
        "clean", "faulty", "illegal instruction", "not available"};
    return verdict < GEMM_KERNEL_VERDICT_COUNT ? names[verdict] : "unknown";
}

static bool on_device(const struct gemm_shrink *z)
{
    return z->target->device_kind != DEVICE_CPU;
}

static double volume(const struct gemm_shape *s)
{
    return (double)(s->m + 1) * (double)(s->n + 1) * (double)(s->k + 1) * (double)s->batch;
}

/* Failing products of the campaign, at most `most`: the smallest first, or those that reach farthest. */
static void collect_examples(struct gemm_shrink *z, const struct gemm_source *source,
                             const struct gemm_result *result, bool farthest, size_t most,
                             struct gemm_probe_list *ret)
{
    struct gemm_probe_list list = {0};
    double ranks[EXAMPLES_MAX];
    for (size_t i = 0; i < result->fault_count; i++) {
        const struct gemm_fault *f = &result->faults[i];
        if (f->kind != z->kind || f->operand != z->operand) {
            continue;
        }
        struct gemm_probe p;
        source->get(source->context, f->index, &p);
        if (on_device(z)) {
            struct gemm_choice *exact = arena_alloc(z->keep, sizeof *exact);
            *exact = f->choice;
            p.choices = 1;
            p.exact = exact;
        }
        double rank = farthest ? -(double)llabs(f->distance) : volume(&p.shape);
        size_t at = list.count;
        if (list.count < most) {
            VEC_PUSH(z->arena, &list);
        } else if (ranks[--at] <= rank) {
            continue;
        }
        for (; at > 0 && ranks[at - 1] > rank; at--) {
            list.items[at] = list.items[at - 1];
            ranks[at] = ranks[at - 1];
        }
        list.items[at] = p;
        ranks[at] = rank;
    }
    *ret = list;
}

/* Half of the list, and as many of those that reach farthest: what hides the one may not hide the
 * other. */
static void add_farthest(struct gemm_shrink *z, const struct gemm_source *source,
                         const struct gemm_result *result, struct gemm_probe_list *list)
{
    struct gemm_probe_list all = {0};
    struct gemm_probe_list far;
    collect_examples(z, source, result, true, EXAMPLES_MAX / 2, &far);
    for (size_t i = 0; i < list->count && i < EXAMPLES_MAX / 2; i++) {
        *VEC_PUSH(z->arena, &all) = list->items[i];
    }
    for (size_t i = 0; i < far.count; i++) {
        *VEC_PUSH(z->arena, &all) = far.items[i];
    }
    *list = all;
}

/* Entry points that other libraries have too make a better report. */
static int preference(const char *choice)
{
    return strstr(choice, "row-major") != NULL                                         ? 1
           : strstr(choice, "column-major") != NULL && strstr(choice, "batch") == NULL ? 0
           : strstr(choice, "Fortran") != NULL                                         ? 2
                                                                                       : 3;
}

static enum status prefer_choice(struct gemm_shrink *z, struct err *err)
{
    struct gemm_probe_list list = {0};
    for (uint32_t c = 0; c < CHOICES_TRIED; c++) {
        struct gemm_probe p = z->best;
        p.choice = c;
        *VEC_PUSH(z->arena, &list) = p;
    }
    TRY(gemm_shrink_run(z, &list, err));
    int best = preference(z->fault.choice.name);
    for (size_t i = 0; i < list.count; i++) {
        const struct gemm_fault *f = gemm_shrink_outcome(z, i);
        if (f != NULL && preference(f->choice.name) < best) {
            best = preference(f->choice.name);
            z->best = list.items[i];
            z->fault = *f;
        }
    }
    return ST_OK;
}

/* With other bytes next to it, a device's fault is told at another address: any counts there. */
static bool is_faulty(const struct gemm_shrink *z, size_t index)
{
    for (size_t i = 0; on_device(z) && i < z->result->fault_count; i++) {
        if (z->result->faults[i].index == index) {
            return true;
        }
    }
    return gemm_shrink_outcome(z, index) != NULL;
}

/* The first of `pads` with which, and with all that come after it, every example is clean. */
static enum status first_clean(struct gemm_shrink *z, const struct gemm_probe_list *examples,
                               const uint32_t *pads, size_t count, int64_t *ret_bytes,
                               struct err *err)
{
    struct gemm_probe_list list = {0};
    *ret_bytes = -1;
    if (examples->count == 0) {
        return ST_OK;
    }
    for (size_t p = 0; p < count; p++) {
        for (size_t i = 0; i < examples->count; i++) {
            struct gemm_probe probe = examples->items[i];
            probe.extra_bytes = pads[p];
            *VEC_PUSH(z->arena, &list) = probe;
        }
    }
    TRY(gemm_shrink_run(z, &list, err));
    if (z->late) {
        return ST_OK;
    }
    size_t bad = 0; /* number of items up to the last that fails */
    for (size_t i = 0; i < list.count; i++) {
        bad = is_faulty(z, i) ? i + 1 : bad;
    }
    size_t next = (bad + examples->count - 1) / examples->count;
    if (next < count) {
        *ret_bytes = (int64_t)pads[next];
    }
    return ST_OK;
}

/* Readable bytes at the edge with which all examples are clean: element by element, then in powers of
 * two to a page. On a device only powers. */
static enum status find_clean_bytes(struct gemm_shrink *z, const struct gemm_probe_list *examples,
                                    struct gemm_diagnosis *d, struct err *err)
{
    uint32_t size = dtype_info(z->best.shape.dtype_ab)->size;
    uint32_t pads[PAD_STEPS];
    size_t count = on_device(z) ? DEVICE_PAD_STEPS : PAD_STEPS;
    for (uint32_t i = 0; i < count; i++) {
        pads[i] = on_device(z) ? (uint32_t)16 << (2 * i) : (i + 1) * size;
    }
    d->padded = examples->count;
    TRY(first_clean(z, examples, pads, count, &d->clean_bytes, err));
    d->dirty_bytes = d->clean_bytes < 0 && !z->late ? pads[count - 1] : 0;
    if (d->clean_bytes >= 0 || on_device(z) || z->late) {
        return ST_OK;
    }
    uint32_t most = pads[count - 1];
    for (count = 0; most < PAD_MOST; count++) {
        most *= 2;
        pads[count] = most;
    }
    TRY(first_clean(z, examples, pads, count, &d->clean_bytes, err));
    d->dirty_bytes = d->clean_bytes < 0 && !z->late ? most : 0;
    return ST_OK;
}

/* A device that tells no address: with only one of the operands at a hole, the one that matters is the
 * one that still fails. */
static enum status find_operand(struct gemm_shrink *z, struct err *err)
{
    struct gemm_probe_list list = {0};
    for (unsigned i = 0; i < GEMM_OPERAND_COUNT; i++) {
        struct gemm_probe p = z->best;
        p.only = i + 1;
        *VEC_PUSH(z->arena, &list) = p;
    }
    TRY(gemm_shrink_run(z, &list, err));
    for (size_t i = 0; i < list.count; i++) {
        const struct gemm_fault *f = gemm_shrink_outcome(z, i);
        if (f != NULL) {
            z->best = list.items[i];
            z->fault = *f;
            z->fault.kind = GEMM_TOUCHES_OUTSIDE;
            z->fault.operand = (enum gemm_operand)i;
            z->fault.distance = 0;
            z->fault.distance_unknown = true;
            return ST_OK;
        }
    }
    return ST_OK;
}

static bool is_edge(enum gemm_fault_kind kind)
{
    return kind == GEMM_READS_OUTSIDE || kind == GEMM_WRITES_OUTSIDE ||
           kind == GEMM_TOUCHES_OUTSIDE;
}

/* --- kernel families --------------------------------------------------------------------------- */

static bool known_kernel(const struct gemm_kernel_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++) {
        if (name[0] != '\0' && strcmp(list->items[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static enum status try_kernels(struct gemm_shrink *z, const struct gemm_probe_list *examples,
                               const char *family, struct gemm_kernel_list *ret, struct err *err)
{
    const struct blas_forcing *forcing = blas_forcing_of(family);
    struct gemm_target target = *z->target;
    const struct gemm_target *normal = z->target;
    if (forcing == NULL || target.variable != NULL) {
        return ST_OK;
    }
    target.variable = forcing->variable;
    z->target = &target;
    enum status st = ST_OK;
    for (size_t i = 0; forcing->values[i] != NULL && st == ST_OK && !z->late; i++) {
        target.value = forcing->values[i];
        st = gemm_shrink_run(z, examples, err);
        const struct gemm_result *r = z->result;
        if (st != ST_OK || z->late || known_kernel(ret, r->identity.kernel)) {
            continue;
        }
        /* Libraries abort over a name that is none of theirs, some only at the first call. */
        bool gives_up = z->kind != GEMM_ABORTS && r->faulty != 0 &&
                        r->by_kind[GEMM_ABORTS] == r->faulty;
        bool started = r->opened && r->probes != 0 && !gives_up;
        bool illegal = r->by_kind[GEMM_ILLEGAL] != 0 ||
                       (!started && strstr(r->refusal, "illegal instruction") != NULL);
        *VEC_PUSH(z->arena, ret) = (struct gemm_kernel){
            .variable = forcing->variable,
            .value = forcing->values[i],
            .name = arena_strdup(z->arena, r->identity.kernel),
            .verdict = illegal          ? GEMM_KERNEL_ILLEGAL
                       : !started       ? GEMM_KERNEL_REFUSED
                       : r->faulty != 0 ? GEMM_KERNEL_FAULTY
                                        : GEMM_KERNEL_CLEAN,
            .faults = r->faulty,
            .tried = r->probes,
        };
    }
    z->target = normal;
    return st;
}

/* --- the whole --------------------------------------------------------------------------------- */

/* Runs the examples again; the smallest that fails again is where shrinking starts. */
static enum status repeat(struct gemm_shrink *z, const struct gemm_probe_list *examples,
                          bool *ret_repeats, struct err *err)
{
    *ret_repeats = false;
    TRY(gemm_shrink_run(z, examples, err));
    for (size_t i = 0; i < examples->count; i++) {
        const struct gemm_fault *f = gemm_shrink_outcome(z, i);
        if (f != NULL) {
            z->best = examples->items[i];
            z->fault = *f;
            *ret_repeats = true;
            return ST_OK;
        }
    }
    return ST_OK;
}

enum status gemm_localise(struct arena *a, const struct gemm_target *target,
                          const struct gemm_source *source, const struct gemm_result *result,
                          enum gemm_fault_kind kind, enum gemm_operand operand,
                          struct gemm_diagnosis *ret_diagnosis, struct err *err)
{
    struct gemm_shrink z = {.arena = arena_new(0), .keep = a, .target = target, .kind = kind};
    z.operand = operand;
    z.until_ms = target->shrink_ms != 0 ? gemm_shrink_now_ms() + target->shrink_ms : 0;
    z.result = arena_alloc(z.arena, sizeof *z.result);
    struct gemm_diagnosis d = {.clean_bytes = -1};
    struct gemm_probe_list examples;
    collect_examples(&z, source, result, false, on_device(&z) ? DEVICE_EXAMPLES_MAX : EXAMPLES_MAX,
                     &examples);
    for (size_t i = 0; i < result->fault_count; i++) {
        const struct gemm_fault *f = &result->faults[i];
        if (f->kind == kind && f->operand == operand) {
            d.count++;
            d.farthest = llabs(f->distance) > llabs(d.farthest) ? f->distance : d.farthest;
            z.fault = d.count == 1 ? *f : z.fault;
        }
    }
    enum status st = repeat(&z, &examples, &d.repeats, err);
    if (st == ST_OK && d.repeats && !on_device(&z)) {
        st = prefer_choice(&z, err);
    }
    if (st == ST_OK && d.repeats) {
        st = gemm_shrink(&z, err);
    }
    if (st == ST_OK && d.repeats && kind != GEMM_HANGS) {
        st = gemm_shrink_neighbours(&z, a, &d.neighbours, err);
    }
    if (st == ST_OK && d.repeats && (is_edge(kind) || (kind == GEMM_STRAYS && on_device(&z)))) {
        struct gemm_probe_list reaching = examples;
        if (!on_device(&z)) {
            add_farthest(&z, source, result, &reaching);
        }
        st = find_clean_bytes(&z, &reaching, &d, err);
    }
    if (st == ST_OK && d.repeats) {
        struct gemm_kernel_list kernels = {0};
        st = try_kernels(&z, &examples, result->identity.family, &kernels, err);
        for (size_t i = 0; i < kernels.count; i++) {
            struct gemm_kernel *to = VEC_PUSH(a, &d.kernels);
            *to = kernels.items[i];
            to->name = arena_strdup(a, to->name);
        }
    }
    if (st == ST_OK && d.repeats && kind == GEMM_STRAYS && on_device(&z)) {
        st = find_operand(&z, err);
    }
    d.probe = z.best;
    d.fault = z.fault;
    d.cut_short = z.late;
    arena_free(z.arena);
    TRY(st);
    *ret_diagnosis = d;
    return ST_OK;
}
