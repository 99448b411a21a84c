// SPDX-License-Identifier: Apache-2.0
/*
 * Copies are few and large, because a device's calls cost microseconds whatever they move: an operand
 * goes over together with the canaries on both sides, and comes back so.
 */
#include "device/gemm_batch.h"

#include <string.h>

#include "base/str.h"

enum {
    STAGING_ALIGN = 256,
    WORKSPACE_ALIGN = 256,
    SCALE_STEP = 256,     /* between the two scales */
    POISON_MOST = 1 << 20 /* of a workspace: what products of this size use */
};

/* Outputs of one batch on the host, together. */
#define OUTPUTS_MOST ((size_t)64 << 20)

/* A block and its span in the staging memory. */
struct placed {
    struct guard_block block;
    size_t at;             /* of the span, in the staging memory */
    size_t before, behind; /* canaries in front of and behind the part */
    void *span;            /* address of the span on the device */
    void *address;         /* of the part itself */
};

struct gemm_batch {
    struct arena *arena;
    struct device *device;
    struct guard *guard;
    const struct gemm_vendor *vendor;
    struct gemm_library *library;
    struct gemm_shape shape;
    char *staging;
    size_t staging_bytes, staging_used;
    struct placed inputs[GEMM_BATCH_PART_COUNT]; /* but for C */
    struct placed outputs[GEMM_BATCH_MAX];
    size_t output_count;
    struct guard_block workspace;
    void *scales; /* two numbers on the device, where a shape has them; NULL before */
    size_t scales_at;
    bool copied;   /* the inputs are on the device */
    unsigned runs; /* which poison the next workspace gets */
};

struct gemm_batch *gemm_batch_new(struct arena *a, struct device *device, struct guard *guard,
                                  const struct gemm_vendor *vendor, struct gemm_library *library)
{
    struct gemm_batch *batch = arena_alloc(a, sizeof *batch);
    batch->arena = a;
    batch->device = device;
    batch->guard = guard;
    batch->vendor = vendor;
    batch->library = library;
    return batch;
}

static void release(struct gemm_batch *batch)
{
    for (size_t i = 0; i < GEMM_BATCH_PART_COUNT; i++) {
        guard_free(batch->guard, &batch->inputs[i].block);
    }
    for (size_t i = 0; i < batch->output_count; i++) {
        guard_free(batch->guard, &batch->outputs[i].block);
    }
    memset(batch->inputs, 0, sizeof batch->inputs);
    batch->output_count = 0;
    batch->staging_used = 0;
    batch->copied = false;
}

static size_t take_staging(struct gemm_batch *batch, size_t bytes)
{
    size_t at = batch->staging_used;
    batch->staging_used += (bytes + STAGING_ALIGN - 1) & ~(size_t)(STAGING_ALIGN - 1);
    return at;
}

static enum status place_one(struct gemm_batch *batch, const struct gemm_batch_place *place,
                             enum gemm_batch_part part, struct placed *p, struct err *err)
{
    const struct gemm_shape *s = place->shape;
    enum dtype type = part == GEMM_BATCH_A || part == GEMM_BATCH_B ? s->dtype_ab : s->dtype_c;
    size_t alignment = s->alignment_bytes != 0 ? s->alignment_bytes : dtype_info(type)->size;
    size_t extra = place->extra[part];
    bool roomy = place->roomy[part];
    TRY(guard_take(batch->guard, place->bytes[part] + (roomy ? 2 : 1) * extra, place->side,
                   alignment, &p->block, err));
    guard_span(&p->block, &p->span, &p->before, &p->behind);
    p->at = take_staging(batch, p->before + p->block.bytes + p->behind);
    p->address = (char *)p->block.address + (place->side == GUARD_BEGIN || roomy ? extra : 0);
    return ST_OK;
}

/* The part's own bytes in the staging memory. */
static char *content(const struct gemm_batch *batch, const struct placed *p)
{
    return batch->staging + p->at + p->before + ((char *)p->address - (char *)p->block.address);
}

static enum status grow_staging(struct gemm_batch *batch, struct err *err)
{
    if (batch->staging_used <= batch->staging_bytes) {
        return ST_OK;
    }
    device_host_free(batch->device, batch->staging);
    batch->staging = NULL;
    batch->staging_bytes = 0;
    size_t want = batch->staging_used + batch->staging_used / 2;
    void *host;
    TRY(device_host_alloc(batch->device, want, &host, err));
    batch->staging = host;
    batch->staging_bytes = want;
    return ST_OK;
}

static enum status take_all(struct gemm_batch *batch, const struct gemm_batch_place *place,
                            size_t wanted, struct err *err)
{
    TRY(place_one(batch, place, GEMM_BATCH_A, &batch->inputs[GEMM_BATCH_A], err));
    TRY(place_one(batch, place, GEMM_BATCH_B, &batch->inputs[GEMM_BATCH_B], err));
    if (place->bytes[GEMM_BATCH_BIAS] != 0) {
        TRY(place_one(batch, place, GEMM_BATCH_BIAS, &batch->inputs[GEMM_BATCH_BIAS], err));
    }
    size_t most = wanted < GEMM_BATCH_MAX ? wanted : GEMM_BATCH_MAX;
    size_t before = batch->staging_used;
    while (batch->output_count < most) {
        TRY(place_one(batch, place, GEMM_BATCH_C, &batch->outputs[batch->output_count], err));
        batch->output_count++;
        if (batch->staging_used - before > OUTPUTS_MOST) {
            break;
        }
    }
    batch->scales_at = take_staging(batch, 2 * SCALE_STEP);
    if (batch->workspace.region == NULL) {
        TRY(guard_alloc(batch->guard, GEMM_BATCH_WORKSPACE_BYTES, GUARD_END, WORKSPACE_ALIGN,
                        &batch->workspace, err));
    }
    if (batch->scales == NULL && gemm_is_scaled(place->shape)) {
        TRY(device_alloc(batch->device, 2 * SCALE_STEP, &batch->scales, err));
    }
    return grow_staging(batch, err);
}

enum status gemm_batch_place(struct gemm_batch *batch, const struct gemm_batch_place *place,
                             size_t wanted, size_t *ret_count, struct err *err)
{
    release(batch);
    batch->shape = *place->shape;
    enum status st = take_all(batch, place, wanted, err);
    if (st != ST_OK) {
        release(batch);
        return st;
    }
    *ret_count = batch->output_count;
    return ST_OK;
}

void *gemm_batch_input(struct gemm_batch *batch, enum gemm_batch_part part)
{
    return content(batch, &batch->inputs[part]);
}

void *gemm_batch_output(struct gemm_batch *batch, size_t which)
{
    return content(batch, &batch->outputs[which]);
}

void *gemm_batch_address(const struct gemm_batch *batch, enum gemm_batch_part part)
{
    return part == GEMM_BATCH_C ? batch->outputs[0].address : batch->inputs[part].address;
}

/* --- the run ----------------------------------------------------------------------------------- */

static size_t span_bytes(const struct placed *p)
{
    return p->before + p->block.bytes + p->behind;
}

static enum status send(struct gemm_batch *batch, const struct placed *p, struct err *err)
{
    guard_span_plant(&p->block, batch->staging + p->at);
    return device_queue_write(batch->device, p->span, batch->staging + p->at, span_bytes(p), err);
}

static enum status send_inputs(struct gemm_batch *batch, struct err *err)
{
    for (size_t i = 0; i < GEMM_BATCH_PART_COUNT; i++) {
        if (batch->inputs[i].block.region != NULL) {
            TRY(send(batch, &batch->inputs[i], err));
        }
    }
    if (gemm_is_scaled(&batch->shape)) {
        float a = (float)batch->shape.scale_a;
        float b = (float)batch->shape.scale_b;
        memcpy(batch->staging + batch->scales_at, &a, sizeof a);
        memcpy(batch->staging + batch->scales_at + SCALE_STEP, &b, sizeof b);
        TRY(device_queue_write(batch->device, batch->scales, batch->staging + batch->scales_at,
                               2 * SCALE_STEP, err));
    }
    batch->copied = true;
    return ST_OK;
}

/* The end of the workspace: what is used behind it meets the hole. */
static char *workspace_for(const struct gemm_batch *batch, const struct gemm_choice *choice,
                           size_t *ret_bytes)
{
    size_t bytes = choice->workspace_bytes;
    if (choice->id < 0 || bytes > GEMM_BATCH_WORKSPACE_BYTES) {
        bytes = GEMM_BATCH_WORKSPACE_BYTES;
    }
    size_t whole = (bytes + WORKSPACE_ALIGN - 1) & ~(size_t)(WORKSPACE_ALIGN - 1);
    *ret_bytes = bytes;
    return (char *)batch->workspace.address + (GEMM_BATCH_WORKSPACE_BYTES - whole);
}

static enum status call(struct gemm_batch *batch, const struct placed *output,
                        const struct gemm_choice *choice, struct err *err)
{
    size_t bytes;
    char *workspace = workspace_for(batch, choice, &bytes);
    const struct gemm_operands operands = {
        .a = batch->inputs[GEMM_BATCH_A].address,
        .b = batch->inputs[GEMM_BATCH_B].address,
        .bias = batch->inputs[GEMM_BATCH_BIAS].address,
        .c = output->address,
        .workspace = workspace,
        .workspace_bytes = bytes,
        .scale_a = batch->scales,
        .scale_b = batch->scales != NULL ? (char *)batch->scales + SCALE_STEP : NULL,
    };
    if (choice->workspace_bytes != 0) {
        TRY(device_fill(batch->device, workspace, guard_poison_pattern(batch->runs),
                        bytes < POISON_MOST ? bytes : POISON_MOST, err));
    }
    batch->runs++;
    return batch->vendor->run(batch->library, &batch->shape, &operands, choice, err);
}

/* Canaries of an input; its content is not copied back. */
static enum status fetch_canaries(struct gemm_batch *batch, const struct placed *p, struct err *err)
{
    char *copy = batch->staging + p->at;
    size_t behind = p->before + p->block.bytes;
    TRY(device_queue_read(batch->device, copy, p->span, p->before, err));
    return device_queue_read(batch->device, copy + behind, (char *)p->span + behind, p->behind,
                             err);
}

static enum status fetch_inputs(struct gemm_batch *batch, struct err *err)
{
    for (size_t i = 0; i < GEMM_BATCH_PART_COUNT; i++) {
        if (batch->inputs[i].block.region != NULL) {
            TRY(fetch_canaries(batch, &batch->inputs[i], err));
        }
    }
    return device_sync(batch->device, err);
}

enum status gemm_batch_run(struct gemm_batch *batch, const struct gemm_choice *choices,
                           size_t count, void (*launching)(void *context, size_t which),
                           void *context, struct gemm_batch_result *ret_results, struct err *err)
{
    if (!batch->copied) {
        TRY(send_inputs(batch, err));
    }
    for (size_t i = 0; i < count; i++) {
        const struct placed *output = &batch->outputs[i];
        struct gemm_batch_result *r = &ret_results[i];
        struct err why = {0};
        if (launching != NULL) {
            launching(context, i);
        }
        TRY(send(batch, output, err));
        r->status = call(batch, output, &choices[i], &why);
        r->words[0] = '\0';
        if (r->status != ST_OK) {
            str_print(r->words, sizeof r->words, "%s", why.text);
            continue;
        }
        TRY(device_queue_read(batch->device, batch->staging + output->at, output->span,
                              span_bytes(output), err));
    }
    TRY(fetch_inputs(batch, err));
    for (size_t i = 0; i < count; i++) {
        const struct placed *output = &batch->outputs[i];
        ret_results[i].c = content(batch, output);
        guard_span_check(&output->block, batch->staging + output->at, &ret_results[i].damage);
    }
    return ST_OK;
}

void gemm_batch_damage(const struct gemm_batch *batch, enum gemm_batch_part *ret_part,
                       struct guard_damage *ret_damage)
{
    struct guard_damage damage = {0};
    for (size_t i = 0; i < GEMM_BATCH_PART_COUNT && !damage.damaged; i++) {
        const struct placed *p = &batch->inputs[i];
        if (p->block.region != NULL) {
            guard_span_check(&p->block, batch->staging + p->at, &damage);
            *ret_part = (enum gemm_batch_part)i;
        }
    }
    *ret_damage = damage;
}
