// SPDX-License-Identifier: Apache-2.0
/* Tokenised data in a safetensors file: input_ids, labels and attention_mask of one shape, and
 * pictures. */
#include <string.h>

#include "model/tensor_file.h"
#include "train/data.h"
#include "train/data_pictures.h"
#include "train/model.h"

struct table {
    const struct tensor *ids;
    const struct tensor *labels; /* NULL: the ids themselves */
    const struct tensor *mask;   /* NULL: every token counts */
    size_t rows;
    size_t width;
};

static bool is_integer(const struct tensor *t)
{
    return t->present && t->type->values == VALUES_PLAIN && !dtype_info(t->type->dtype)->is_float;
}

static enum status find(const struct tensor_file *f, const char *path, const char *name,
                        const struct tensor *like, const struct tensor **ret_tensor,
                        struct err *err)
{
    const struct tensor *t = tensor_find(f, name);
    *ret_tensor = t;
    if (t == NULL) {
        return ST_OK;
    }
    if (!is_integer(t) || t->rank == 0 || t->rank > 2) {
        return err_set(err, ST_FORMAT, "%s: tensor '%s' is no table of integers", path, name);
    }
    if (like != NULL &&
        (t->rank != like->rank || memcmp(t->shape, like->shape, t->rank * sizeof *t->shape) != 0)) {
        return err_set(err, ST_FORMAT, "%s: tensor '%s' has another shape than input_ids", path,
                       name);
    }
    return ST_OK;
}

static enum status open_table(const struct tensor_file *f, const char *path, struct table *ret,
                              struct err *err)
{
    struct table t = {0};
    TRY(find(f, path, "input_ids", NULL, &t.ids, err));
    if (t.ids == NULL) {
        return err_set(err, ST_FORMAT, "%s: there is no tensor 'input_ids' in it", path);
    }
    TRY(find(f, path, "labels", t.ids, &t.labels, err));
    TRY(find(f, path, "attention_mask", t.ids, &t.mask, err));
    t.rows = t.ids->rank == 2 ? (size_t)t.ids->shape[0] : 1;
    t.width = (size_t)t.ids->shape[t.ids->rank - 1];
    *ret = t;
    return ST_OK;
}

/* Row of a tensor as 32-bit integers; what does not fit becomes -1, which data_add() refuses. */
static enum status row_of(const struct tensor_file *f, const struct tensor *t, size_t row,
                          size_t width, double *numbers, int32_t *to, struct err *err)
{
    TRY(tensor_values(f, t, (uint64_t)row * width, width, numbers, err));
    for (size_t i = 0; i < width; i++) {
        to[i] = numbers[i] >= INT32_MIN && numbers[i] <= INT32_MAX ? (int32_t)numbers[i] : -1;
    }
    return ST_OK;
}

static enum status add_rows(struct arena *a, struct arena *scratch, const struct tensor_file *f,
                            const char *path, const struct table *t,
                            const struct data_options *options, struct dataset *d, struct err *err)
{
    double *numbers = arena_array(scratch, t->width, sizeof *numbers);
    int32_t *ids = arena_array(scratch, t->width, sizeof *ids);
    int32_t *labels = arena_array(scratch, t->width, sizeof *labels);
    int32_t *mask = arena_array(scratch, t->width, sizeof *mask);
    struct data_pictures pictures;
    struct data_options text = *options;
    text.vision = NULL; /* the tokens of pictures are data_pictures_take()'s */
    TRY(data_pictures_open(scratch, f, path, options, &pictures, err));
    for (size_t row = 0; row < t->rows; row++) {
        size_t n = 0;
        TRY(row_of(f, t->ids, row, t->width, numbers, ids, err));
        TRY(row_of(f, t->labels != NULL ? t->labels : t->ids, row, t->width, numbers, labels, err));
        if (t->mask != NULL) {
            TRY(row_of(f, t->mask, row, t->width, numbers, mask, err));
        }
        for (size_t i = 0; i < t->width; i++) {
            if (t->mask == NULL || mask[i] != 0) {
                ids[n] = ids[i];
                labels[n++] = labels[i];
            }
        }
        size_t before = d->samples.count;
        TRY(data_add(a, d, &text, path, row + 1, ids, labels, n, err));
        struct sample *added = d->samples.count > before ? &d->samples.items[before] : NULL;
        TRY(data_pictures_take(a, &pictures, row + 1, ids, n, added, err));
    }
    return data_pictures_end(&pictures, err);
}

enum status data_read_tensors(struct arena *a, const char *path, const struct data_options *options,
                              struct dataset *d, struct err *err)
{
    struct arena *scratch = arena_new(0);
    struct issues issues;
    struct tensor_file *f;
    struct table t = {0};
    issues_init(&issues, scratch, path);
    enum status status = tensor_file_open(scratch, path, &issues, &f, err);
    if (status == ST_OK) {
        status = open_table(f, path, &t, err);
        if (status == ST_OK) {
            status = add_rows(a, scratch, f, path, &t, options, d, err);
        }
        tensor_file_close(f);
    }
    arena_free(scratch);
    return status;
}
