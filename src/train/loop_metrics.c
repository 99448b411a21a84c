// SPDX-License-Identifier: Apache-2.0
/* metrics.jsonl of a run, and the search for the first tensor that is not finite. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/file_map.h"
#include "base/json_cursor.h"

#include "model/safetensors_write.h"
#include "train/loop.h"

/* ---- metrics.jsonl ---- */

/* The step of a line that this program wrote; 0 when it has none. */
static uint64_t step_of(struct str line)
{
    struct json_cursor j;
    struct json_text key;
    int64_t step;
    json_cursor_init(&j, line);
    if (json_cursor_enter(&j, '{') && json_cursor_key(&j, &key) && str_is(key.raw, "step") &&
        json_cursor_int(&j, &step) && step > 0) {
        return (uint64_t)step;
    }
    return 0;
}

/* Bytes of the lines up to step `after`; a killed run may have written more. */
static size_t length_until(struct str text, uint64_t after)
{
    struct str rest = text;
    struct str line;
    size_t kept = 0;
    while (str_find_char(rest, '\n', 0) != SIZE_MAX && str_cut_line(&rest, &line)) {
        uint64_t step = step_of(line);
        if (step == 0 || step > after) {
            break;
        }
        kept = text.n - rest.n;
    }
    return kept;
}

enum status loop_open_metrics(struct trainer *t, uint64_t after, struct err *err)
{
    struct file_map map;
    struct err why = {0};
    size_t kept = 0;
    if (mkdir(t->target.output, 0777) != 0 && errno != EEXIST) {
        return err_sys(err, errno, "cannot make the folder '%s'", t->target.output);
    }
    const char *path = arena_fmt(t->arena, "%s/metrics.jsonl", t->target.output);
    if (file_map_open(path, &map, &why) == ST_OK) {
        kept = length_until(file_map_str(&map), after);
        file_map_close(&map);
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) {
        return err_sys(err, errno, "cannot open '%s'", path);
    }
    if (ftruncate(fd, (off_t)kept) != 0) {
        int failed = errno;
        (void)close(fd);
        return err_sys(err, failed, "cannot shorten '%s'", path);
    }
    t->metrics_fd = fd;
    return ST_OK;
}

enum status loop_write_metrics(struct trainer *t, struct str line, struct err *err)
{
    if (t->metrics_fd < 0) {
        return ST_OK;
    }
    while (line.n != 0) {
        ssize_t done = write(t->metrics_fd, line.p, line.n);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return err_sys(err, done < 0 ? errno : EIO, "cannot write '%s/metrics.jsonl'",
                           t->target.output);
        }
        line = str_slice(line, (size_t)done, line.n);
    }
    return ST_OK;
}

/* ---- the first tensor that is not finite ---- */

struct search {
    enum precision precision;
    bool found;
    char name[200];
    size_t row;
    size_t column;
    double value;
};

/* Index of the first NaN or infinity among n reals; n when all are finite. */
static size_t first_bad(const void *values, size_t n, bool wide, double *ret_value)
{
    for (size_t i = 0; i < n; i++) {
        double x = wide ? ((const double *)values)[i] : (double)((const float *)values)[i];
        if (!isfinite(x)) {
            *ret_value = x;
            return i;
        }
    }
    return n;
}

static void look(void *ctx, const char *name, size_t rows, size_t width, const void *values)
{
    struct search *s = ctx;
    if (s->found || str_ends(str_of(name), ".entropy")) {
        return;
    }
    size_t at = first_bad(values, rows * width, s->precision == PRECISION_F64, &s->value);
    if (at != rows * width) {
        s->found = true;
        s->row = at / width;
        s->column = at % width;
        str_print(s->name, sizeof s->name, "%s", name);
    }
}

/* A weight or gradient that is bad by itself; false when all are fine. */
static bool bad_param(const struct trainer *t, bool gradients, struct search *s)
{
    bool wide = t->params->precision == PRECISION_F64;
    for (size_t i = 0; i < t->params->count; i++) {
        const struct param *p = &t->params->items[i];
        const void *values = gradients ? p->grad : p->value;
        size_t at = values != NULL ? first_bad(values, p->count, wide, &s->value) : p->count;
        if (at != p->count) {
            size_t width = p->rank != 0 ? p->dim[p->rank - 1] : 1;
            s->row = at / width;
            s->column = at % width;
            str_print(s->name, sizeof s->name, "%s%s", gradients ? "gradient of " : "", p->name);
            return true;
        }
    }
    return false;
}

enum status loop_not_finite(struct trainer *t, const struct train_batch *batch, const char *what,
                            struct err *err)
{
    struct search s = {.precision = t->params->precision};
    uint64_t step = t->state.step + 1;
    if (!bad_param(t, false, &s)) {
        double sum;
        size_t labels;
        bool in_gradient = bad_param(t, true, &s);
        struct search first = {.precision = s.precision};
        model_watch(t->model, look, &first);
        enum status status = model_forward(t->model, batch, &sum, &labels, err);
        if (status == ST_OK && !first.found) {
            model_backward(t->model, 1.0 / (double)(labels != 0 ? labels : 1));
        }
        model_watch(t->model, NULL, NULL);
        TRY(status);
        if (first.found) {
            s = first;
        } else if (!in_gradient) {
            return err_set(
                err, ST_FORMAT,
                "update %zu: %s is not finite and no single value is: they are too large for "
                "their sum; lower the learning rate. Nothing of this update was stored",
                (size_t)step, what);
        }
    }
    return err_set(
        err, ST_FORMAT,
        "update %zu: %s is not finite; the first tensor that is not is '%s' (%g at row %zu, "
        "column %zu). The weights are those of the update before",
        (size_t)step, what, s.name, s.value, s.row, s.column);
}
