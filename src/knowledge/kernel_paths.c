// SPDX-License-Identifier: Apache-2.0
/* See kernel_paths.h. */
#include "knowledge/kernel_paths.h"

#include <string.h>

#include "base/vec.h"

#include "knowledge/kernels_text.h"

enum {
    ROWS_MAX = 4096,
    NEEDLE_LEAST = 4 /* bytes: shorter ones are in every other name */
};

struct str kernel_paths_builtin(void)
{
    static const char text[] = KERNELS_TSV;
    return (struct str){.p = text, .n = sizeof text - 1};
}

static enum status read_needles(struct arena *a, struct str list, const char *name, size_t line,
                                struct kernel_path *row, struct err *err)
{
    VEC_OF(const char *) needles = {0};
    struct str one;
    while (str_cut(&list, '|', &one)) {
        if (one.n < NEEDLE_LEAST) {
            return err_set(err, ST_FORMAT, "%s:%zu: the needle '%.*s' has fewer than %d characters",
                           name, line, STR_ARG(one), NEEDLE_LEAST);
        }
        *VEC_PUSH(a, &needles) = str_dup(a, one);
    }
    *VEC_PUSH(a, &needles) = NULL;
    row->needles = needles.items;
    return ST_OK;
}

enum status kernel_paths_read(struct arena *a, struct str text, const char *name,
                              struct kernel_paths *ret_paths, struct err *err)
{
    VEC_OF(struct kernel_path) rows = {0};
    struct str line;
    for (size_t number = 1; str_cut_line(&text, &line); number++) {
        struct str fields[4] = {{0}};
        size_t count = 0;
        if (number == 1 || line.n == 0 || line.p[0] == '#') {
            continue;
        }
        while (count < ARRAY_LEN(fields) && str_cut(&line, '\t', &fields[count])) {
            count++;
        }
        if (count < 3 || line.n != 0 || fields[0].n == 0 || fields[1].n == 0 ||
            rows.count == ROWS_MAX) {
            return err_set(
                err, ST_FORMAT,
                "%s:%zu: a row has three or four columns (feature, path, needles, note), "
                "and there are %d rows at most",
                name, number, ROWS_MAX);
        }
        struct kernel_path *row = VEC_PUSH(a, &rows);
        *row = (struct kernel_path){.feature = str_dup(a, fields[0]),
                                    .path = str_dup(a, fields[1]),
                                    .note = str_dup(a, fields[3])};
        TRY(read_needles(a, fields[2], name, number, row, err));
    }
    *ret_paths = (struct kernel_paths){.rows = rows.items, .count = rows.count};
    return ST_OK;
}

const struct kernel_path *kernel_paths_find(const struct kernel_paths *paths, const char *kernel)
{
    for (size_t i = 0; i < paths->count; i++) {
        for (const char *const *n = paths->rows[i].needles; *n != NULL; n++) {
            if (strstr(kernel, *n) != NULL) {
                return &paths->rows[i];
            }
        }
    }
    return NULL;
}
