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

enum status picture_check(const int32_t *grid, size_t pictures, size_t merge, size_t patches,
                          size_t *ret_frames, struct err *err)
{
    size_t frames = 0, total = 0;
    for (size_t i = 0; i < pictures && total <= patches; i++) {
        const int32_t *g = grid + 3 * i;
        TRY(check_grid(g, i, merge, err));
        frames += (size_t)g[0];
        total += (size_t)g[0] * (size_t)g[1] * (size_t)g[2];
    }
    if (total != patches) {
        return err_set(err, ST_FORMAT,
                       "the grids of %zu pictures do not describe the %zu patches given", pictures,
                       patches);
    }
    *ret_frames = frames;
    return ST_OK;
}

void picture_frames(const int32_t *grid, size_t pictures, struct picture_grid *ret_grids,
                    size_t *ret_start)
{
    size_t frame = 0;
    ret_start[0] = 0;
    for (size_t i = 0; i < pictures; i++) {
        struct picture_grid g = {(size_t)grid[3 * i], (size_t)grid[3 * i + 1],
                                 (size_t)grid[3 * i + 2]};
        ret_grids[i] = g;
        for (size_t t = 0; t < g.t; t++, frame++) {
            ret_start[frame + 1] = ret_start[frame] + g.h * g.w;
        }
    }
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
