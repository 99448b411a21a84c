// SPDX-License-Identifier: Apache-2.0
/* torch files as a row of the table of tensor formats. */
#include <string.h>

#include "model/torch_file.h"

static bool matches(struct str bytes, const char *path)
{
    (void)path;
    return torch_looks_like(bytes);
}

static void add_meta(struct tensor_file *f, size_t i, const char *key, const char *value)
{
    f->meta[i] = (struct tensor_meta){.key = key, .value = value};
}

static enum status read_tensors(struct tensor_file *f, struct issues *issues, struct err *err)
{
    static const char *const forms[TORCH_FORM_COUNT] = {
        "archive (torch 1.6 and later)", "legacy stream (before torch 1.6)", "bare pickle"};
    struct torch_file *t = arena_alloc(f->arena, sizeof *t);
    enum status st = torch_read(f->arena, file_map_str(&f->map), issues, t, err);
    if (st != ST_OK) {
        if (err != NULL) {
            issue_add(issues, st == ST_FORMAT ? SEVERITY_ERROR : SEVERITY_UNKNOWN,
                      "torch-unreadable", "The file cannot be read to its end", "%s.", err->text);
        }
        return st;
    }
    f->own = t;
    /* The record of torch keeps its order, which its names point into. */
    f->tensors = arena_array(f->arena, t->count, sizeof *f->tensors);
    if (t->count > 0) {
        memcpy(f->tensors, t->tensors, t->count * sizeof *f->tensors);
    }
    f->count = t->count;
    f->meta = arena_array(f->arena, 3, sizeof *f->meta);
    f->meta_count = 3;
    add_meta(f, 0, "form", forms[t->form]);
    add_meta(f, 1, "storages", arena_fmt(f->arena, "%zu", map_count(t->storages)));
    add_meta(f, 2, "globals outside the list", arena_fmt(f->arena, "%zu", t->pickle.outside));
    tensor_file_index(f, issues);
    return ST_OK;
}

static size_t sum_count(const struct tensor_file *f)
{
    return torch_sum_count(f->own);
}

static enum status check_sum(const struct tensor_file *f, size_t index, struct err *err)
{
    return torch_check_sum(f->own, &f->map, 0, index, err);
}

const struct tensor_format tensor_format_torch = {.name = "torch",
                                                  .matches = matches,
                                                  .read = read_tensors,
                                                  .sum_count = sum_count,
                                                  .check_sum = check_sum};
