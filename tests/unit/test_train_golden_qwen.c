// SPDX-License-Identifier: Apache-2.0
/*
 * One training step of tiny Qwen3.5 and Qwen3-VL models as transformers computed it
 * (tests/full/train_oracle_qwen35.py), repeated here: loss and every gradient, in each precision that a
 * case holds. The folder of cases is the only argument.
 *
 * float64 and float32 are compared by value. Two bfloat16 stacks differ by chance, so there the errors
 * against float64 are compared: transformers' must not be much larger than ours, nor ours than its.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"

#include "model/issue.h"
#include "model/tensor_file.h"
#include "train/model.h"
#include "unit.h"

enum {
    CASES_MAX = 64,
    SEQUENCES_MAX = 16
};

static const char *top;

/* A dump of a step. */
struct step {
    struct arena *a;
    struct issues issues;
    struct tensor_file *file;
    struct train_batch batch;
    size_t start[SEQUENCES_MAX + 1];
    double loss;
    bool shortened; /* gradients of a float64 step stored as float32 */
};

static double *values(struct step *s, const char *name, const struct tensor **ret)
{
    struct err err;
    const struct tensor *t = tensor_find(s->file, name);
    *ret = t;
    if (!t) {
        return NULL;
    }
    double *v = arena_array(s->a, t->elements, sizeof *v);
    if (tensor_values(s->file, t, 0, t->elements, v, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    return v;
}

/* The rows of a padded batch without their padding, and the label of each token moved to the token
 * before it. */
static void unpad(struct step *s)
{
    const struct tensor *t, *unused;
    const double *ids = values(s, "input_ids", &t), *mask = values(s, "attention_mask", &unused);
    const double *labels = values(s, "labels", &unused);
    size_t rows = t->shape[0], length = t->shape[1], n = 0;
    int32_t *to_ids = arena_array(s->a, rows * length, sizeof *to_ids);
    int32_t *to_labels = arena_array(s->a, rows * length, sizeof *to_labels);
    assert_true(rows <= SEQUENCES_MAX);
    for (size_t r = 0; r < rows; r++) {
        for (size_t i = 0; i < length && mask[r * length + i] != 0; i++, n++) {
            bool more = i + 1 < length && mask[r * length + i + 1] != 0;
            to_ids[n] = (int32_t)ids[r * length + i];
            to_labels[n] = more ? (int32_t)labels[r * length + i + 1] : LABEL_IGNORED;
        }
        s->start[r + 1] = n;
    }
    s->batch = (struct train_batch){
        .tokens = n, .sequences = rows, .ids = to_ids, .labels = to_labels, .start = s->start};
}

static void add_pictures(struct step *s, const char *pixels, const char *grids)
{
    const struct tensor *t, *g;
    const double *v = values(s, pixels, &t);
    if (!v) {
        return;
    }
    const double *grid = values(s, grids, &g);
    int32_t *to = arena_array(s->a, g->elements, sizeof *to);
    for (size_t i = 0; i < g->elements; i++) {
        to[i] = (int32_t)grid[i];
    }
    s->batch.pixels = v;
    s->batch.patches = t->shape[0];
    s->batch.grid = to;
    s->batch.pictures = g->shape[0];
}

/* False when the case has no step of this type. */
static bool step_open(struct step *s, const char *folder, const char *dtype)
{
    char path[500];
    struct err err;
    const struct tensor *t;
    snprintf(path, sizeof path, "%s/step.%s.safetensors", folder, dtype);
    if (access(path, R_OK) != 0) {
        return false;
    }
    *s = (struct step){.a = arena_new(0)};
    issues_init(&s->issues, s->a, path);
    if (tensor_file_open(s->a, path, &s->issues, &s->file, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    unpad(s);
    add_pictures(s, "pixel_values", "image_grid_thw");
    add_pictures(s, "pixel_values_videos", "video_grid_thw");
    s->loss = *values(s, "loss", &t);
    return true;
}

static void step_close(struct step *s)
{
    tensor_file_close(s->file);
    arena_free(s->a);
}

/* Our own step. */
struct own {
    struct arena *a;
    struct train_model *m;
    double loss;
};

static struct own own_step(const char *folder, const struct train_batch *batch,
                           enum precision precision, bool reference)
{
    struct own o = {.a = arena_new(0)};
    struct model_options options = {
        .precision = precision, .threads = 2, .reference = reference, .blas = ""};
    const char *adapter = arena_fmt(o.a, "%s/adapter", folder);
    if (access(adapter, R_OK) == 0) {
        options.lora.adapter = adapter;
    }
    struct err err;
    size_t labels = 0;
    double sum = 0;
    if (model_open(o.a, folder, &options, &o.m, &err) != ST_OK ||
        model_forward(o.m, batch, &sum, &labels, &err) != ST_OK) {
        fail_msg("%s", err.text);
    }
    model_backward(o.m, 1 / (double)labels);
    o.loss = sum / (double)labels;
    return o;
}

static void own_close(struct own *o)
{
    model_close(o->m);
    arena_free(o->a);
}

static double grad_at(const struct own *o, const struct param *p, size_t i)
{
    return model_params(o->m)->precision == PRECISION_F64 ? ((const double *)p->grad)[i]
                                                          : (double)((const float *)p->grad)[i];
}

/* |y - exact| / |exact| of one gradient: of numbers y, or of another step of ours. */
static double apart(const struct own *exact, const struct param *p, const double *y,
                    const struct own *other)
{
    const struct param *e = param_find(model_params(exact->m), p->name);
    const struct param *q = other ? param_find(model_params(other->m), p->name) : NULL;
    double difference = 0, size = 0;
    for (size_t i = 0; i < p->count; i++) {
        double right = grad_at(exact, e, i), d = (q ? grad_at(other, q, i) : y[i]) - right;
        difference += d * d;
        size += right * right;
    }
    return sqrt(difference) / sqrt(size);
}

/* The dump's gradient of a parameter; every one of ours must be there, and no other. */
static const double *dump_grad(struct step *s, const struct param *p)
{
    const struct tensor *t;
    const double *v = values(s, arena_fmt(s->a, "grad.%s", p->name), &t);
    if (!v || t->elements != p->count) {
        fail_msg("the step has no gradient of %s with %zu values", p->name, p->count);
    }
    s->shortened = t->type->dtype == DTYPE_F32;
    return v;
}

static void assert_all_known(struct step *s, const struct own *o)
{
    for (size_t i = 0; i < s->file->count; i++) {
        const char *name = s->file->tensors[i].name;
        if (!strncmp(name, "grad.", 5) && !param_find(model_params(o->m), name + 5)) {
            fail_msg("%s of the step is no parameter here", name);
        }
    }
}

/* The float32 of a dump has an error of its own, known from our float64: that much is allowed too. */
static void check_by_value(const char *folder, const char *dtype, enum precision precision,
                           bool reference, double tolerance)
{
    struct step s;
    if (!step_open(&s, folder, dtype)) {
        return;
    }
    struct own o = own_step(folder, &s.batch, precision, reference);
    struct own exact = own_step(folder, &s.batch, PRECISION_F64, true);
    struct param_list *l = model_params(o.m);
    double worst = 0, loss = fabs(o.loss - s.loss) / s.loss;
    const char *which = "";
    assert_all_known(&s, &o);
    for (size_t i = 0; i < l->count; i++) {
        struct param *p = &l->items[i];
        double error = p->trainable ? apart(&o, p, dump_grad(&s, p), NULL) : 0;
        if (p->trainable && precision != PRECISION_F64) {
            error -= apart(&exact, p, dump_grad(&s, p), NULL);
        }
        if (!(error <= worst)) {
            worst = error;
            which = p->name;
        }
    }
    print_message("%s %s%s: loss off by %.2g, worst gradient by %.2g (%s)\n", folder, dtype,
                  reference ? " (reference)" : "", loss, worst, which);
    assert_true(loss <= tolerance);
    assert_true(worst <= (s.shortened ? fmax(tolerance, 1e-7) : tolerance));
    own_close(&exact);
    own_close(&o);
    step_close(&s);
}

static void check_by_error(const char *folder)
{
    struct step s;
    if (!step_open(&s, folder, "bfloat16")) {
        return;
    }
    struct own exact = own_step(folder, &s.batch, PRECISION_F64, true);
    struct own own = own_step(folder, &s.batch, PRECISION_BF16, false);
    struct param_list *l = model_params(exact.m);
    double ours = 0, theirs = 0, count = 0;
    for (size_t i = 0; i < l->count; i++) {
        struct param *p = &l->items[i];
        if (p->trainable) {
            double a = apart(&exact, p, dump_grad(&s, p), NULL);
            double b = apart(&exact, p, NULL, &own);
            ours += b * b;
            theirs += a * a;
            count++;
        }
    }
    ours = sqrt(ours / count);
    theirs = sqrt(theirs / count);
    print_message("%s bfloat16: error of gradients %.2g, transformers' %.2g\n", folder, ours,
                  theirs);
    assert_true(ours < 2 * theirs && theirs < 2 * ours);
    assert_true(fabs(own.loss - exact.loss) < 0.01 * exact.loss);
    own_close(&own);
    own_close(&exact);
    step_close(&s);
}

static void check_case(const char *folder)
{
    check_by_value(folder, "float64", PRECISION_F64, false, 1e-9);
    check_by_value(folder, "float64", PRECISION_F64, true, 1e-9);
    check_by_value(folder, "float32", PRECISION_F32, false, 1e-4);
    check_by_error(folder);
}

static void steps_are_those_of_transformers(void **state)
{
    struct dirent **names;
    size_t cases = 0;
    int n = scandir(top, &names, NULL, alphasort);
    (void)state;
    for (int i = 0; i < n; i++) {
        char folder[400];
        snprintf(folder, sizeof folder, "%s/%.100s/config.json", top, names[i]->d_name);
        if (!strncmp(names[i]->d_name, "qwen3_", 6) && access(folder, R_OK) == 0) {
            folder[strlen(folder) - strlen("/config.json")] = '\0';
            check_case(folder);
            cases++;
        }
        free(names[i]);
    }
    free(names);
    assert_true(cases >= 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_are_those_of_transformers)};
    if (argc != 2) {
        return 64;
    }
    top = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
