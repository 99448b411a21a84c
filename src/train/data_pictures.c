// SPDX-License-Identifier: Apache-2.0
#include "train/data_pictures.h"

#include <math.h>
#include <string.h>

#include "train/picture.h"
#include "train/vision.h"

static size_t patch_values(const struct vision_config *c)
{
    return c->channels * c->temporal * c->patch * c->patch;
}

static enum status open_list(struct arena *scratch, const struct data_pictures *p,
                             struct picture_list *l, struct err *err)
{
    const struct tensor *pixels = tensor_find(p->file, l->pixels_name);
    const struct tensor *grid = tensor_find(p->file, l->grid_name);
    size_t frames = 0;
    if (!pixels && !grid) {
        return ST_OK;
    }
    if (!pixels || !pixels->present || pixels->type->values != VALUES_PLAIN || pixels->rank != 2 ||
        pixels->shape[1] != patch_values(p->vision)) {
        return err_set(err, ST_FORMAT,
                       "%s: '%s' is not a table of patches with %zu values each, which the model's "
                       "vision tower takes",
                       p->path, l->pixels_name, patch_values(p->vision));
    }
    if (!grid || !grid->present || grid->type->values != VALUES_PLAIN ||
        dtype_info(grid->type->dtype)->is_float || grid->rank != 2 || grid->shape[1] != 3 ||
        grid->shape[0] > pixels->shape[0]) {
        return err_set(err, ST_FORMAT, "%s: '%s' is not a table of three whole numbers per picture",
                       p->path, l->grid_name);
    }
    l->pixels = pixels;
    l->count = (size_t)grid->shape[0];
    l->grid = arena_array(scratch, grid->elements, sizeof *l->grid);
    TRY(tensor_values(p->file, grid, 0, grid->elements, l->grid, err));
    int32_t *check = arena_array(scratch, grid->elements, sizeof *check);
    for (size_t i = 0; i < grid->elements; i++) {
        check[i] = l->grid[i] >= 1 && l->grid[i] <= INT32_MAX ? (int32_t)l->grid[i] : -1;
    }
    return picture_check(check, l->count, p->vision->merge, (size_t)pixels->shape[0], &frames, err);
}

enum status data_pictures_open(struct arena *scratch, const struct tensor_file *f, const char *path,
                               const struct data_options *options, struct data_pictures *ret,
                               struct err *err)
{
    struct data_pictures p = {
        .file = f,
        .path = path,
        .vision = options->vision,
        .list = {{.pixels_name = "pixel_values", .grid_name = "image_grid_thw"},
                 {.pixels_name = "pixel_values_videos", .grid_name = "video_grid_thw"}},
    };
    if (!p.vision) {
        for (size_t i = 0; i < 2; i++) {
            if (tensor_find(f, p.list[i].pixels_name)) {
                return err_set(err, ST_FORMAT,
                               "%s: '%s' in it are pictures, and the model has no vision tower",
                               path, p.list[i].pixels_name);
            }
        }
    } else {
        p.list[0].token = p.vision->image_token;
        p.list[1].token = p.vision->video_token;
        TRY(open_list(scratch, &p, &p.list[0], err));
        TRY(open_list(scratch, &p, &p.list[1], err));
    }
    *ret = p;
    return ST_OK;
}

/* Adds the list's next picture to a sample. */
static enum status add_picture(struct arena *a, struct data_pictures *p, struct picture_list *l,
                               struct sample *s, struct err *err)
{
    const double *g = l->grid + 3 * l->next;
    size_t patches = (size_t)g[0] * (size_t)g[1] * (size_t)g[2], width = patch_values(p->vision);
    if (s) {
        int32_t *grid = arena_array(a, 3 * (s->pictures + 1), sizeof *grid);
        double *pixels = arena_array(a, (s->patches + patches) * width, sizeof *pixels);
        if (s->pictures) {
            memcpy(grid, s->grid, 3 * s->pictures * sizeof *grid);
            memcpy(pixels, s->pixels, s->patches * width * sizeof *pixels);
        }
        for (size_t i = 0; i < 3; i++) {
            grid[3 * s->pictures + i] = (int32_t)g[i];
        }
        TRY(tensor_values(p->file, l->pixels, l->next_patch * width, patches * width,
                          pixels + s->patches * width, err));
        for (size_t i = s->patches * width; i < (s->patches + patches) * width; i++) {
            if (!isfinite(pixels[i])) {
                return err_set(err, ST_FORMAT,
                               "%s: picture %zu of '%s' has a value that is not finite", p->path,
                               l->next + 1, l->pixels_name);
            }
        }
        s->grid = grid;
        s->pixels = pixels;
        s->patches += patches;
        s->patch_values = width;
        s->pictures++;
    }
    l->frames = (size_t)g[0];
    l->next_patch += patches;
    l->next++;
    return ST_OK;
}

/* The tokens of one frame, from ids[at] on. */
static enum status take_frame(struct arena *a, struct data_pictures *p, struct picture_list *l,
                              size_t line, const int32_t *ids, size_t left, struct sample *s,
                              size_t *ret_used, struct err *err)
{
    if (!l->frames) {
        if (l->next == l->count) {
            return err_set(err, ST_FORMAT,
                           "%s:%zu: token %d stands for a picture, and '%s' has only "
                           "%zu",
                           p->path, line, (int)l->token, l->grid_name, l->count);
        }
        TRY(add_picture(a, p, l, s, err));
    }
    const double *g = l->grid + 3 * (l->next - 1);
    size_t n = (size_t)g[1] * (size_t)g[2] / (p->vision->merge * p->vision->merge);
    for (size_t i = 0; i < n; i++) {
        if (i == left || ids[i] != l->token) {
            return err_set(
                err, ST_FORMAT,
                "%s:%zu: picture %zu of '%s' needs %zu tokens of id %d in a row, and %zu "
                "are there",
                p->path, line, l->next, l->grid_name, n, (int)l->token, i);
        }
    }
    l->frames--;
    *ret_used = n;
    return ST_OK;
}

enum status data_pictures_take(struct arena *a, struct data_pictures *p, size_t line,
                               const int32_t *ids, size_t count, struct sample *sample,
                               struct err *err)
{
    for (size_t t = 0; p->vision && t < count;) {
        struct picture_list *l = ids[t] == p->list[0].token   ? &p->list[0]
                                 : ids[t] == p->list[1].token ? &p->list[1]
                                                              : NULL;
        size_t used = 1;
        if (l) {
            TRY(take_frame(a, p, l, line, ids + t, count - t, sample, &used, err));
        }
        t += used;
    }
    if (p->list[0].frames || p->list[1].frames) {
        return err_set(err, ST_FORMAT, "%s:%zu: the text ends before the last frame of a video",
                       p->path, line);
    }
    if (sample && sample->pictures && sample->count < count) {
        return err_set(err, ST_FORMAT,
                       "%s:%zu: a sample of %zu tokens with pictures does not fit into %zu: a cut "
                       "could part a picture from its tokens; raise the length",
                       p->path, line, count, sample->count);
    }
    return ST_OK;
}

enum status data_pictures_end(const struct data_pictures *p, struct err *err)
{
    for (size_t i = 0; i < 2; i++) {
        const struct picture_list *l = &p->list[i];
        if (l->next != l->count) {
            return err_set(err, ST_FORMAT, "%s: '%s' has %zu pictures, and the text shows %zu",
                           p->path, l->grid_name, l->count, l->next);
        }
    }
    return ST_OK;
}
