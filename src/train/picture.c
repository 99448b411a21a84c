// SPDX-License-Identifier: Apache-2.0
#include "train/picture.h"

enum {
    GRID_SIDE_MAX = 1 << 16
};

struct picture_place picture_place(const struct picture_grid *g, size_t merge, size_t index)
{
    size_t in_frame = index % (g->h * g->w), block = in_frame / (merge * merge);
    size_t in_block = in_frame % (merge * merge), blocks_across = g->w / merge;
    return (struct picture_place){
        .frame = index / (g->h * g->w),
        .row = block / blocks_across * merge + in_block / merge,
        .column = block % blocks_across * merge + in_block % merge,
    };
}

static enum status check_grid(const int32_t *g, size_t picture, size_t merge, struct err *err)
{
    for (int i = 0; i < 3; i++) {
        if (g[i] < 1 || g[i] > GRID_SIDE_MAX) {
            return err_set(
                err, ST_FORMAT,
                "picture %zu has a grid of %d x %d x %d patches: each must be from 1 to %d",
                picture, g[0], g[1], g[2], GRID_SIDE_MAX);
        }
    }
    if ((size_t)g[1] % merge || (size_t)g[2] % merge) {
        return err_set(err, ST_FORMAT,
                       "picture %zu has %d x %d patches, but height and width must be multiples of "
                       "the merge size %zu",
                       picture, g[1], g[2], merge);
    }
    return ST_OK;
}

enum status picture_grids(struct arena *a, const int32_t *grid, size_t pictures, size_t merge,
                          size_t patches, struct picture_grid **ret_grids, size_t **ret_start,
                          size_t *ret_frames, struct err *err)
{
    struct picture_grid *grids = arena_array(a, pictures, sizeof *grids);
    size_t frames = 0, total = 0;
    for (size_t i = 0; i < pictures; i++) {
        const int32_t *g = grid + 3 * i;
        TRY(check_grid(g, i, merge, err));
        grids[i] = (struct picture_grid){(size_t)g[0], (size_t)g[1], (size_t)g[2]};
        frames += grids[i].t;
        total += grids[i].t * grids[i].h * grids[i].w;
        if (total > patches) {
            break;
        }
    }
    if (total != patches) {
        return err_set(err, ST_FORMAT,
                       "the grids of %zu pictures do not describe the %zu patches given", pictures,
                       patches);
    }
    size_t *start = arena_array(a, frames + 1, sizeof *start), frame = 0;
    for (size_t i = 0; i < pictures; i++) {
        for (size_t t = 0; t < grids[i].t; t++, frame++) {
            start[frame + 1] = start[frame] + grids[i].h * grids[i].w;
        }
    }
    *ret_grids = grids;
    *ret_start = start;
    *ret_frames = frames;
    return ST_OK;
}

void picture_cut(const double *image, size_t channels, size_t height, size_t width, size_t temporal,
                 size_t patch, size_t merge, double *ret_patches)
{
    struct picture_grid g = {1, height / patch, width / patch};
    size_t size = channels * temporal * patch * patch;
    for (size_t i = 0; i < g.h * g.w * size; i++) {
        struct picture_place at = picture_place(&g, merge, i / size);
        size_t x = i % patch, y = i / patch % patch, c = i % size / (temporal * patch * patch);
        ret_patches[i] = image[(c * height + at.row * patch + y) * width + at.column * patch + x];
    }
}
