// SPDX-License-Identifier: Apache-2.0
/*
 * One product on a device: operands in guarded blocks, filled by copies from the host, the result read
 * back and judged as on the CPU. A device tells of a bad access when it is waited for, and is lost by
 * it: the child reports and ends, and the batch goes on in a new one.
 *
 * An epilogue other than a bias of zeros gives other numbers than gemm_judge.h computes: then only
 * accesses are judged.
 */
#include <string.h>
#include <unistd.h>

#include "device/isolate.h"
#include "device/lt.h"
#include "ops/gemm_child.h"

enum {
    PARTS = GEMM_OPERAND_COUNT + 1, /* and the bias */
    BIAS = GEMM_OPERAND_COUNT,
    ROOM_BYTES = 1 << 20 /* around operands that are not to fault */
};

#define STAGING_MAX ((size_t)64 << 30)

struct placed {
    struct guard_block blocks[PARTS];
    void *address[PARTS];
    size_t count;
};

static bool has_bias(enum gemm_epilogue epilogue)
{
    return epilogue == GEMM_EPILOGUE_BIAS || epilogue == GEMM_EPILOGUE_BIAS_RELU ||
           epilogue == GEMM_EPILOGUE_BIAS_GELU;
}

static void release(struct gemm_child *t, struct placed *p)
{
    for (size_t i = 0; i < p->count; i++) {
        guard_free(t->guard, &p->blocks[i]);
    }
    p->count = 0;
}

static enum status place_one(struct gemm_child *t, const struct gemm_probe *probe, size_t which,
                             size_t bytes, struct placed *p, struct err *err)
{
    const struct gemm_shape *s = &probe->shape;
    enum dtype dtype = which < GEMM_OPERAND_C ? s->dtype_ab : s->dtype_c;
    size_t alignment = s->alignment_bytes != 0 ? s->alignment_bytes : dtype_info(dtype)->size;
    bool at_hole = probe->only == 0 || probe->only == which + 1;
    size_t extra = at_hole ? probe->extra_bytes : ROOM_BYTES;
    TRY(guard_alloc(t->guard, bytes + extra, probe->side, alignment, &p->blocks[which], err));
    p->count = which + 1;
    char *at = p->blocks[which].address;
    p->address[which] = probe->side == GUARD_BEGIN ? at + extra : at;
    return ST_OK;
}

static enum status place(struct gemm_child *t, const struct gemm_probe *probe, struct placed *p,
                         struct err *err)
{
    struct gemm_placement *placement = &t->shared->placement;
    const struct gemm_shape *s = &probe->shape;
    for (size_t i = 0; i < GEMM_OPERAND_COUNT; i++) {
        TRY(place_one(t, probe, i, (size_t)placement->bytes[i], p, err));
        placement->address[i] = (uintptr_t)p->address[i];
    }
    if (has_bias(s->epilogue)) {
        size_t bytes = (size_t)s->m * dtype_info(s->dtype_c)->size;
        TRY(place_one(t, probe, BIAS, bytes, p, err));
        TRY(device_fill(t->device, p->address[BIAS], 0, bytes, err));
    }
    if (t->workspace == NULL) {
        TRY(device_alloc(t->device, LT_WORKSPACE_BYTES, &t->workspace, err));
    }
    return ST_OK;
}

/* Host copies in an arena of their own, which the caller rewinds: the guard keeps its records in the
 * child's. */
static enum status fill(struct gemm_child *t, const struct gemm_probe *probe,
                        const struct placed *p, struct gemm_layout *ret_layout, struct err *err)
{
    const struct gemm_placement *placement = &t->shared->placement;
    char *host[GEMM_OPERAND_COUNT];
    for (size_t i = 0; i < GEMM_OPERAND_COUNT; i++) {
        host[i] = arena_alloc(t->staging, (size_t)placement->bytes[i] + 1);
    }
    const struct gemm_layout layout = {.a = host[0], .b = host[1], .c = host[2]};
    gemm_case_make(t->numbers, probe);
    gemm_layout_fill(probe, t->numbers, &layout);
    for (size_t i = 0; i < GEMM_OPERAND_COUNT; i++) {
        TRY(device_write(t->device, p->address[i], host[i], (size_t)placement->bytes[i], err));
    }
    *ret_layout = layout;
    return device_sync(t->device, err);
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

/* Canaries beside the operands, which see writes where a hole cannot be had to the byte. */
static enum status check_slack(struct gemm_child *t, const struct placed *p,
                               struct gemm_fault *fault, struct err *err)
{
    for (size_t i = 0; i < GEMM_OPERAND_COUNT && fault->kind == GEMM_OK; i++) {
        struct guard_damage damage;
        TRY(guard_check(t->guard, &p->blocks[i], &damage, err));
        if (damage.damaged) {
            fault->kind = GEMM_WRITES_OUTSIDE;
            fault->operand = (enum gemm_operand)i;
            fault->side = damage.side;
            fault->distance = damage.side == GUARD_END ? (int64_t)damage.distance
                                                       : -(int64_t)damage.distance - 1;
        }
    }
    return ST_OK;
}

static enum status call_and_judge(struct gemm_child *t, const struct gemm_probe *probe,
                                  const struct placed *p, struct gemm_fault *fault, struct err *err)
{
    struct gemm_layout layout;
    struct gemm_result *r = &t->shared->result;
    const struct gemm_placement *placement = &t->shared->placement;
    const struct gemm_shape *s = &probe->shape;
    TRY(fill(t, probe, p, &layout, err));
    const struct gemm_operands operands = {.a = p->address[GEMM_OPERAND_A],
                                           .b = p->address[GEMM_OPERAND_B],
                                           .bias = p->address[BIAS],
                                           .c = p->address[GEMM_OPERAND_C],
                                           .workspace = t->workspace,
                                           .workspace_bytes = LT_WORKSPACE_BYTES};
    TRY(t->target->vendor->run(t->library, s, &operands, &placement->choice, err));
    TRY(device_sync(t->device, err));
    TRY(device_read(t->device, layout.c, p->address[GEMM_OPERAND_C],
                    (size_t)placement->bytes[GEMM_OPERAND_C], err));
    if (s->epilogue == GEMM_EPILOGUE_NONE || s->epilogue == GEMM_EPILOGUE_BIAS) {
        double worst = r->worst;
        gemm_judge(probe, t->numbers, &layout, fault, &worst);
        r->worst = fault->kind == GEMM_OK ? worst : r->worst;
    }
    return check_slack(t, p, fault, err);
}

void gemm_device_run(struct gemm_child *t, const struct gemm_probe *probe, size_t index)
{
    struct err err = {0};
    struct placed p = {0};
    struct gemm_result *r = &t->shared->result;
    t->staging = t->staging != NULL ? t->staging : arena_new(STAGING_MAX);
    struct arena_mark mark = arena_mark(t->staging);
    struct gemm_fault fault = {.operand = GEMM_OPERAND_NONE, .row = -1, .column = -1};
    fault.side = probe->side;
    enum status st = place(t, probe, &p, &err);
    bool placed = st == ST_OK;
    st = placed ? call_and_judge(t, probe, &p, &fault, &err) : st;
    if (is_lost(t->device)) {
        end_child(t->device, err.text);
    }
    release(t, &p);
    arena_rewind(t->staging, mark);
    if (st == ST_OK) {
        gemm_child_finish(t, index, &fault);
    } else if (st == ST_UNSUPPORTED) {
        r->declined++;
    } else if (!placed) {
        r->skipped++;
    } else {
        fault.kind = GEMM_ABORTS;
        str_print(fault.text, sizeof fault.text, "%.110s", err.text);
        gemm_child_finish(t, index, &fault);
    }
}
