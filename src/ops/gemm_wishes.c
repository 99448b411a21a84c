// SPDX-License-Identifier: Apache-2.0
/* The file of --shapes: hostile like every file, so sizes are checked before anything is computed. */
#include <string.h>

#include "base/fs.h"
#include "base/vec.h"

#include "ops/gemm_plan.h"

enum {
    WISHES_FILE_MAX = 1 << 20,
    WISHES_MAX = 10000,
    BATCH_MAX = 65536
};

#define SIZE_MOST ((int64_t)1 << 40)

struct wish_list {
    struct gemm_wish *items;
    size_t count;
    size_t capacity;
};

static bool size_in(struct str text, int64_t least, int64_t most, int64_t *ret_value)
{
    int64_t v;
    if (str_to_i64(text, 10, &v) != ST_OK || v < least || v > most) {
        return false;
    }
    *ret_value = v;
    return true;
}

static bool transposes(struct str text, struct gemm_wish *w)
{
    if (text.n != 2 || strspn(text.p, "nNtT") < 2) {
        return false;
    }
    w->transpose_a = text.p[0] == 't' || text.p[0] == 'T';
    w->transpose_b = text.p[1] == 't' || text.p[1] == 'T';
    return true;
}

static bool scalar(struct str text, double *ret_value)
{
    double v;
    if (str_to_double(text, &v) != ST_OK || !(v >= -1e6 && v <= 1e6)) {
        return false;
    }
    *ret_value = v;
    return true;
}

static bool setting(struct str name, struct str value, struct gemm_wish *w)
{
    enum dtype dtype;
    if (str_is(name, "transpose")) {
        return transposes(value, w);
    }
    if (str_is(name, "lda")) {
        return size_in(value, 1, SIZE_MOST, &w->lda);
    }
    if (str_is(name, "ldb")) {
        return size_in(value, 1, SIZE_MOST, &w->ldb);
    }
    if (str_is(name, "ldc")) {
        return size_in(value, 1, SIZE_MOST, &w->ldc);
    }
    if (str_is(name, "batch")) {
        return size_in(value, 1, BATCH_MAX, &w->batch);
    }
    if (str_is(name, "alpha") || str_is(name, "beta")) {
        w->scalars_set = true;
        return scalar(value, str_is(name, "alpha") ? &w->alpha : &w->beta);
    }
    if (str_is(name, "dtype") && dtype_find(value, &dtype) && dtype_info(dtype)->is_float) {
        w->dtype = (int)dtype;
        return true;
    }
    return false;
}

/* Bytes of the cells as float64 and of all leading dimensions, without wrapping. */
static double bytes_of(const struct gemm_wish *w)
{
    double lda = (double)(w->lda > 0 ? w->lda : 1);
    double ldb = (double)(w->ldb > 0 ? w->ldb : 1);
    double ldc = (double)(w->ldc > 0 ? w->ldc : 1);
    double m = (double)w->m + 1;
    double n = (double)w->n + 1;
    double k = (double)w->k + 1;
    double cells = m * k + k * n + m * n + lda + ldb + ldc;
    return cells * (double)w->batch * (double)sizeof(double);
}

static enum status read_line(struct str line, const char *path, size_t number,
                             uint64_t memory_bytes, struct gemm_wish *w, struct err *err)
{
    int64_t *const sizes[] = {&w->m, &w->n, &w->k};
    struct str word;
    size_t seen = 0;
    *w = (struct gemm_wish){.lda = -1, .ldb = -1, .ldc = -1, .batch = 1, .alpha = 1};
    w->transpose_a = w->transpose_b = w->dtype = -1;
    while (str_cut(&line, ' ', &word)) {
        if (word.n == 0) {
            continue;
        }
        struct str value = word;
        struct str name;
        bool fine;
        if (seen < ARRAY_LEN(sizes)) {
            fine = size_in(word, 0, SIZE_MOST, sizes[seen++]);
        } else {
            fine = str_cut(&value, '=', &name) && setting(name, value, w);
        }
        if (!fine) {
            return err_set(err, ST_USAGE,
                           "%s:%zu: '%.*s' is not understood: a line is M N K, then transpose=nt, "
                           "lda=, ldb=, ldc=, batch=, alpha=, beta=, dtype=",
                           path, number, (int)(word.n < 60 ? word.n : 60), word.p);
        }
    }
    if (seen != ARRAY_LEN(sizes)) {
        return err_set(err, ST_USAGE, "%s:%zu: a line needs three sizes, M N K", path, number);
    }
    if (!(bytes_of(w) <= (double)memory_bytes / 2)) {
        return err_set(err, ST_LIMIT,
                       "%s:%zu: this product needs %.3g GiB with its reference, and half of the "
                       "memory here is %.3g GiB",
                       path, number, bytes_of(w) / 0x1p30, (double)memory_bytes / 0x1p31);
    }
    return ST_OK;
}

enum status gemm_wishes_read(struct arena *a, const char *path, uint64_t memory_bytes,
                             const struct gemm_wish **ret_wishes, size_t *ret_count,
                             struct err *err)
{
    static const struct fs live = {.prefix = ""};
    struct str text;
    struct str line;
    struct wish_list list = {0};
    TRY(fs_read(&live, a, path, WISHES_FILE_MAX, &text, err));
    for (size_t number = 1; str_cut_line(&text, &line); number++) {
        size_t comment = str_find_char(line, '#', 0);
        line = str_trim(str_slice(line, 0, comment < line.n ? comment : line.n));
        if (line.n == 0) {
            continue;
        }
        if (list.count == WISHES_MAX) {
            return err_set(err, ST_LIMIT, "%s:%zu: more than %d products", path, number,
                           WISHES_MAX);
        }
        char *spaced = str_dup(a, line);
        for (char *p = spaced; *p != '\0'; p++) {
            *p = *p == '\t' || *p == ',' ? ' ' : *p;
        }
        TRY(read_line((struct str){spaced, line.n}, path, number, memory_bytes, VEC_PUSH(a, &list),
                      err));
    }
    if (list.count == 0) {
        return err_set(err, ST_USAGE, "'%s' names no product: one a line, M N K", path);
    }
    *ret_wishes = list.items;
    *ret_count = list.count;
    return ST_OK;
}
