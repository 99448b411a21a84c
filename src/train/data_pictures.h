// SPDX-License-Identifier: Apache-2.0
/*
 * Pictures of tokenised data, as the processors of Qwen3-VL and Qwen3.5 give them: pixel_values
 * [patches, values of a patch] with image_grid_thw [pictures, 3], and pixel_values_videos with
 * video_grid_thw. They belong to the rows of input_ids in the order of their image and video tokens.
 */
#ifndef ASSAY_TRAIN_DATA_PICTURES_H
#define ASSAY_TRAIN_DATA_PICTURES_H

#include "model/tensor_file.h"
#include "train/data.h"

/* Images, or videos. */
struct picture_list {
    const char *pixels_name, *grid_name;
    int32_t token;               /* of their features in the text */
    const struct tensor *pixels; /* NULL: the file has none */
    double *grid;                /* [count, 3] */
    size_t count;
    size_t next;       /* the first that no row had yet */
    size_t next_patch; /* of it */
    size_t frames;     /* of the last one taken: those that the text has still to show */
};

struct data_pictures {
    const struct tensor_file *file;
    const char *path;
    const struct vision_config *vision; /* NULL: the file has no pictures */
    struct picture_list list[2];
};

/* The lists of an open file; grids live in `scratch`. A file with pictures for a model without a
 * vision tower is ST_FORMAT, as are grids and patches that do not go together. */
enum status data_pictures_open(struct arena *scratch, const struct tensor_file *f, const char *path,
                               const struct data_options *options, struct data_pictures *ret,
                               struct err *err) MUST_USE;

/* Takes the pictures that the tokens of one row show, and gives them to `sample` (NULL: the row was
 * dropped). `line` for messages. */
enum status data_pictures_take(struct arena *a, struct data_pictures *p, size_t line,
                               const int32_t *ids, size_t count, struct sample *sample,
                               struct err *err) MUST_USE;

/* Every picture must have found its row. */
enum status data_pictures_end(const struct data_pictures *p, struct err *err) MUST_USE;

#endif
