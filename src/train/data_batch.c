// SPDX-License-Identifier: Apache-2.0
/* Batches from samples. */
#include "train/data_batch.h"

#include <string.h>

#include "train/data_order.h"

void batch_source_init(struct arena *a, const struct dataset *data,
                       const struct batch_limits *limits, struct batch_source *ret_source)
{
    *ret_source = (struct batch_source){
        .data = data,
        .limits = *limits,
        .order = arena_array(a, data->samples.count, sizeof(uint32_t)),
        .order_epoch = UINT64_MAX};
}

static void arrange(struct batch_source *s)
{
    size_t n = s->data->samples.count;
    if (s->order_epoch == s->place.epoch) {
        return;
    }
    s->order_epoch = s->place.epoch;
    if (s->limits.shuffle) {
        data_order(s->limits.seed + s->place.epoch, s->order, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        s->order[i] = (uint32_t)i;
    }
}

/* How many samples from `at` on make the next micro-batch. */
static size_t take(const struct batch_source *s, uint64_t at)
{
    size_t left = s->data->samples.count - (size_t)at;
    if (s->limits.tokens == 0) {
        return left < s->limits.sequences ? left : s->limits.sequences;
    }
    size_t tokens = 0;
    size_t n = 0;
    while (n < left) {
        tokens += s->data->samples.items[s->order[at + n]].count;
        if (n != 0 && tokens > s->limits.tokens) {
            break;
        }
        n++;
    }
    return n;
}

static void add_pictures(struct arena *scratch, const struct sample *const *samples, size_t count,
                         struct train_batch *b)
{
    size_t width = 0;
    for (size_t i = 0; i < count; i++) {
        b->patches += samples[i]->patches;
        b->pictures += samples[i]->pictures;
        width = samples[i]->pictures != 0 ? samples[i]->patch_values : width;
    }
    if (b->pictures == 0) {
        return;
    }
    double *pixels = arena_array(scratch, b->patches * width, sizeof *pixels);
    int32_t *grid = arena_array(scratch, b->pictures * 3, sizeof *grid);
    b->pixels = pixels;
    b->grid = grid;
    for (size_t i = 0; i < count; i++) {
        const struct sample *s = samples[i];
        if (s->pictures != 0) {
            memcpy(pixels, s->pixels, s->patches * width * sizeof *pixels);
            memcpy(grid, s->grid, s->pictures * 3 * sizeof *grid);
            pixels += s->patches * width;
            grid += s->pictures * 3;
        }
    }
}

void batch_of_samples(struct arena *scratch, const struct sample *const *samples, size_t count,
                      struct train_batch *ret_batch)
{
    size_t *start = arena_array(scratch, count + 1, sizeof *start);
    for (size_t i = 0; i < count; i++) {
        start[i + 1] = start[i] + samples[i]->count;
    }
    int32_t *ids = arena_array(scratch, start[count], sizeof *ids);
    int32_t *labels = arena_array(scratch, start[count], sizeof *labels);
    for (size_t i = 0; i < count; i++) {
        const struct sample *one = samples[i];
        memcpy(ids + start[i], one->ids, one->count * sizeof *ids);
        if (one->count != 0) {
            memcpy(labels + start[i], one->labels + 1, (one->count - 1) * sizeof *labels);
            labels[start[i + 1] - 1] = LABEL_IGNORED;
        }
    }
    *ret_batch = (struct train_batch){
        .tokens = start[count], .sequences = count, .ids = ids, .labels = labels, .start = start};
    add_pictures(scratch, samples, count, ret_batch);
}

bool batch_next(struct batch_source *s, struct arena *scratch, struct train_batch *ret_batch)
{
    if (s->place.next >= s->data->samples.count) {
        s->place = (struct data_place){.epoch = s->place.epoch + 1};
        return false;
    }
    arrange(s);
    size_t n = take(s, s->place.next);
    const struct sample **samples = arena_array(scratch, n, sizeof(void *));
    for (size_t i = 0; i < n; i++) {
        samples[i] = &s->data->samples.items[s->order[s->place.next + i]];
    }
    s->place.next += n;
    batch_of_samples(scratch, samples, n, ret_batch);
    return true;
}

uint64_t batch_count(struct batch_source *s)
{
    uint64_t batches = 0;
    arrange(s);
    for (uint64_t at = 0; at < s->data->samples.count; batches++) {
        at += take(s, at);
    }
    return batches;
}

size_t batch_labels(const struct train_batch *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->tokens; i++) {
        n += b->labels[i] != LABEL_IGNORED;
    }
    return n;
}
