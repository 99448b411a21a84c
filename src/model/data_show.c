// SPDX-License-Identifier: Apache-2.0
/* One sample of a file, by its number. */
#include <inttypes.h>

#include "model/data_check.h"

enum status data_sample_at(struct arena *a, const char *path, uint64_t number,
                           struct data_sample *ret_sample, uint64_t *ret_line, struct err *err)
{
    struct dataset d;
    struct dataset_record r = {0};
    const struct tree *tree = NULL;
    bool any = true;
    TRY(dataset_open(path, &d, err));
    struct arena *scratch = arena_new(0);
    enum status status = ST_OK;
    while (status == ST_OK && any && r.number < number) {
        struct arena_mark mark = arena_mark(scratch);
        status = dataset_next(&d, scratch, &r, &any, err);
        arena_rewind(scratch, mark);
    }
    if (status == ST_OK && !any) {
        status = err_set(err, ST_ABSENT, "'%s' has %" PRIu64 " records, none of number %" PRIu64,
                         path, d.number, number);
    } else if (status == ST_OK && r.oversized) {
        status = err_set(err, ST_LIMIT, "'%s': record %" PRIu64 " is too large", path, number);
    }
    struct str text = {.p = status == ST_OK ? arena_copy(a, r.text.p, r.text.n) : "",
                       .n = r.text.n};
    if (status == ST_OK && !r.is_text) {
        status = tree_from_json(a, text, path, TREE_LIMITS_DEFAULT, &tree, err);
    }
    if (status == ST_OK) {
        *ret_line = r.line;
        if (r.is_text || (tree->kind == TREE_SCALAR && tree->value.kind == VALUE_STRING)) {
            data_sample_of_text(a, r.is_text ? text : str_of(tree->text), ret_sample);
        } else {
            data_sample_read(a, tree, ret_sample);
        }
    }
    dataset_close(&d);
    arena_free(scratch);
    return status;
}
