// SPDX-License-Identifier: Apache-2.0
#include "train/mrope.h"

#include <stdbool.h>

struct walk {
    const struct train_batch *batch;
    const struct mrope_tokens *tokens;
    int32_t *positions;
    size_t picture; /* the next one */
    int32_t frame;  /* of it */
    int32_t next;   /* position of the next token of text */
};

static bool is_picture(const struct walk *w, size_t t)
{
    int32_t id = w->batch->ids[t];
    return id == w->tokens->image || (w->tokens->video >= 0 && id == w->tokens->video);
}

static void set(struct walk *w, size_t t, int32_t time, int32_t height, int32_t width)
{
    size_t n = w->batch->tokens;
    w->positions[t] = time;
    w->positions[n + t] = height;
    w->positions[2 * n + t] = width;
}

/* One frame whose tokens begin at t; `left` of the run of picture tokens are still to come. */
static enum status walk_frame(struct walk *w, size_t t, size_t left, size_t *ret_used,
                              struct err *err)
{
    if (w->picture == w->batch->pictures) {
        return err_set(err, ST_FORMAT, "token %zu belongs to a picture, but only %zu were given", t,
                       w->batch->pictures);
    }
    const int32_t *grid = w->batch->grid + 3 * w->picture;
    size_t rows = (size_t)grid[1] / w->tokens->merge, columns = (size_t)grid[2] / w->tokens->merge;
    if (!rows || !columns || rows * columns > left) {
        return err_set(
            err, ST_FORMAT,
            "picture %zu needs %zu x %zu tokens, but only %zu stand together at token %zu",
            w->picture, rows, columns, left, t);
    }
    for (size_t i = 0; i < rows * columns; i++) {
        set(w, t + i, w->next, w->next + (int32_t)(i / columns), w->next + (int32_t)(i % columns));
    }
    w->next += (int32_t)(rows > columns ? rows : columns);
    w->frame++;
    if (w->frame == grid[0]) {
        w->frame = 0;
        w->picture++;
    }
    *ret_used = rows * columns;
    return ST_OK;
}

static enum status walk_sequence(struct walk *w, size_t from, size_t to, struct err *err)
{
    w->next = 0;
    for (size_t t = from; t < to;) {
        size_t used = 0, run = 0;
        if (!is_picture(w, t)) {
            set(w, t, w->next, w->next, w->next);
            w->next++;
            t++;
            continue;
        }
        while (t + run < to && is_picture(w, t + run)) {
            run++;
        }
        TRY(walk_frame(w, t, run, &used, err));
        t += used;
    }
    return ST_OK;
}

enum status mrope_positions(const struct train_batch *batch, const struct mrope_tokens *tokens,
                            int32_t *ret_positions, struct err *err)
{
    struct walk w = {.batch = batch, .tokens = tokens, .positions = ret_positions};
    for (size_t s = 0; s < batch->sequences; s++) {
        TRY(walk_sequence(&w, batch->start[s], batch->start[s + 1], err));
    }
    if (w.picture != batch->pictures || w.frame) {
        return err_set(err, ST_FORMAT,
                       "%zu pictures were given, but the text has tokens for %zu only",
                       batch->pictures, w.picture);
    }
    return ST_OK;
}
