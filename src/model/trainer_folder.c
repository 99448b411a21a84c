// SPDX-License-Identifier: Apache-2.0
/*
 * A checkpoint-N folder of the Hugging Face Trainer: weights, optimizer, scheduler, random number
 * generators and trainer_state.json must be of one step and of one model.
 * Source: transformers/trainer.py (_save_checkpoint, _save_optimizer_and_scheduler, _save_rng_state).
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_scan.h"

#include "model/folder.h"
#include "model/optimizer_order.h"

enum {
    MAX_PARAMETERS = 1000000
};

struct state {
    const struct folder *f;
    bool has_step;
    uint64_t step; /* global_step */
};

static bool matches(const struct folder *f)
{
    return folder_has(f, "trainer_state.json");
}

/* The first record whose loss is NaN or infinite, or 0 beside a gradient of NaN: what a run that diverged
 * goes on logging. An infinite norm alone is what a gradient scaler skips. */
static void check_losses(const struct state *s, struct str history)
{
    struct json_scan list;
    struct str key;
    struct str record;
    size_t bad = 0;
    size_t all = 0;
    struct str first = {.p = "", .n = 0};
    if (!json_scan_open(&list, history)) {
        return;
    }
    while (json_scan_next(&list, &key, &record)) {
        struct json_scan one;
        struct str value;
        struct str step = STR("?");
        struct str loss = {.p = "", .n = 0};
        bool norm_is_nan = false;
        for (bool any = json_scan_open(&one, record); any && json_scan_next(&one, &key, &value);) {
            step = str_is(key, "step") ? value : step;
            loss = str_is(key, "loss") ? value : loss;
            norm_is_nan = norm_is_nan || (str_is(key, "grad_norm") && str_is(value, "NaN"));
        }
        bool zero = (str_is(loss, "0.0") || str_is(loss, "0")) && norm_is_nan;
        all += loss.n > 0;
        if (zero || str_is(loss, "NaN") || str_ends(loss, "Infinity")) {
            first = bad++ == 0 ? step : first;
        }
    }
    if (bad > 0) {
        folder_issue(s->f, SEVERITY_WARNING, "trainer-loss-not-finite",
                     "The run had diverged when this was saved", "trainer_state.json",
                     "%zu of %zu logged losses are no finite number, or 0 with a gradient of NaN, "
                     "the first at step %s.",
                     bad, all, issue_text(s->f->arena, first));
    }
}

/* global_step of trainer_state.json, which may hold bare NaN and so be no strict JSON. */
static void read_step(struct state *s)
{
    struct str text;
    struct json_scan scan;
    struct str key;
    struct str value;
    if (!folder_text(s->f, "trainer_state.json", &text) || !json_scan_open(&scan, text)) {
        folder_issue(s->f, SEVERITY_ERROR, "trainer-state-broken", "trainer_state.json is broken",
                     "trainer_state.json",
                     "It cannot be read as JSON: training cannot be resumed from here.");
        return;
    }
    while (json_scan_next(&scan, &key, &value)) {
        if (str_is(key, "global_step") && str_to_u64(value, 10, &s->step) == ST_OK) {
            s->has_step = true;
        } else if (str_is(key, "log_history")) {
            check_losses(s, value);
        }
    }
    if (!s->has_step || scan.broken) {
        folder_issue(s->f, SEVERITY_ERROR, "trainer-state-broken", "trainer_state.json is broken",
                     "trainer_state.json",
                     "It is cut off or has no global_step: training cannot be resumed from here.");
    }
}

static void check_name(const struct state *s)
{
    const char *slash = strrchr(s->f->path, '/');
    const char *name = slash != NULL ? slash + 1 : s->f->path;
    uint64_t n;
    if (s->has_step && folder_number(name, "checkpoint-", "", &n) && n != s->step) {
        folder_issue(s->f, SEVERITY_ERROR, "trainer-step-mismatch", "Files of different steps",
                     "trainer_state.json",
                     "The folder is named after step %" PRIu64 ", its global_step is %" PRIu64 ".",
                     n, s->step);
    }
}

static void check_scheduler(const struct state *s, const struct pickle_value *groups)
{
    struct folder_torch t;
    int64_t epoch;
    if (!folder_torch_open(s->f, "scheduler.pt", &t)) {
        return;
    }
    const struct pickle_value *root = t.file.pickle.root;
    if (s->has_step && pickle_int(pickle_get(root, "last_epoch"), &epoch) &&
        (uint64_t)epoch != s->step) {
        folder_issue(s->f, SEVERITY_ERROR, "trainer-step-mismatch", "Files of different steps",
                     "scheduler.pt",
                     "The scheduler stands at %" PRId64 " (last_epoch), the trainer at %" PRIu64
                     " (global_step): resuming takes up the wrong learning rate.",
                     epoch, s->step);
    }
    const struct pickle_value *rates = pickle_get(root, "_last_lr");
    for (size_t i = 0; groups != NULL && rates != NULL && pickle_arg(rates, i) != NULL; i++) {
        double scheduled;
        double set;
        const struct pickle_value *group = pickle_arg(groups, i);
        if (torch_number(&t.file, pickle_arg(rates, i), &scheduled) &&
            torch_number(&t.file, pickle_get(group, "lr"), &set) &&
            !(fabs(scheduled - set) <= 1e-9 + 1e-6 * fabs(set))) {
            folder_issue(s->f, SEVERITY_WARNING, "trainer-learning-rate",
                         "Optimizer and scheduler disagree", "scheduler.pt",
                         "Group %zu: the optimizer has learning rate %g, the scheduler last set "
                         "%g.",
                         i, set, scheduled);
        }
    }
    folder_torch_close(&t);
}

/* Shapes as texts, so that two sets of them can be compared. */
struct shapes {
    const char **items;
    size_t count;
    uint64_t elements;
    const char **fused; /* of weights: the same without those of single experts */
    size_t fused_count;
};

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* "model.layers.0.mlp.experts.3.w1.weight" */
static bool of_one_expert(const char *name)
{
    static const char part[] = ".experts.";
    struct str s = str_of(name);
    size_t at = str_find(s, part, 0);
    return at != SIZE_MAX && at + sizeof part - 1 < s.n && name[at + sizeof part - 1] >= '0' &&
           name[at + sizeof part - 1] <= '9';
}

/* Shapes of all floating-point weights of the folder's safetensors files. */
static bool weight_shapes(const struct folder *f, struct shapes *ret)
{
    bool adapter = folder_has(f, "adapter_config.json");
    struct shapes s = {.items = arena_array(f->arena, MAX_PARAMETERS / 8, sizeof *s.items),
                       .fused = arena_array(f->arena, MAX_PARAMETERS / 8, sizeof *s.fused)};
    for (size_t i = 0; i < f->count; i++) {
        struct str name = str_of(f->names[i]);
        struct tensor_file *file;
        if (!str_ends(name, ".safetensors") || str_starts(name, "adapter") != adapter ||
            tensor_file_open(f->arena, folder_join(f, f->names[i]), NULL, &file, NULL) != ST_OK) {
            continue;
        }
        for (size_t k = 0; k < file->count && s.count < MAX_PARAMETERS / 8; k++) {
            const struct tensor *t = &file->tensors[k];
            if (t->type->values == VALUES_PLAIN && dtype_info(t->type->dtype)->is_float) {
                s.items[s.count] = tensor_shape_text(f->arena, t->shape, t->rank);
                if (!of_one_expert(t->name)) {
                    s.fused[s.fused_count++] = s.items[s.count];
                }
                s.count++;
                s.elements += t->elements;
            }
        }
        tensor_file_close(file);
    }
    qsort(s.items, s.count, sizeof *s.items, by_text);
    qsort(s.fused, s.fused_count, sizeof *s.fused, by_text);
    *ret = s;
    return s.count > 0;
}

/* The first moment for which no (or no further) weight of its shape is there; NULL when each has one.
 * Both are sorted. With `fused`, moments of three dimensions and more are passed over. */
static const char *unmatched(const struct shapes *moments, const char *const *weights, size_t count,
                             bool fused)
{
    size_t w = 0;
    for (size_t i = 0; i < moments->count; i++) {
        const char *comma = strchr(moments->items[i], ',');
        if (fused && comma != NULL && strchr(comma + 1, ',') != NULL) {
            continue;
        }
        while (w < count && strcmp(weights[w], moments->items[i]) < 0) {
            w++;
        }
        if (w == count || strcmp(weights[w], moments->items[i]) != 0) {
            return moments->items[i];
        }
        w++;
    }
    return NULL;
}

/* Every moment must be of a shape that a weight has, and no shape more often than weights have it.
 * transformers 5 trains the experts of a layer as one tensor and saves them one by one. */
static void compare_shapes(const struct state *s, struct shapes *moments)
{
    struct shapes weights;
    if (!weight_shapes(s->f, &weights)) {
        return;
    }
    qsort(moments->items, moments->count, sizeof *moments->items, by_text);
    const char *wrong = unmatched(moments, weights.items, weights.count, false);
    if (wrong != NULL && weights.fused_count < weights.count &&
        moments->elements <= weights.elements) {
        wrong = unmatched(moments, weights.fused, weights.fused_count, true);
    }
    if (wrong != NULL) {
        folder_issue(s->f, SEVERITY_ERROR, "trainer-optimizer-other-model",
                     "The optimizer belongs to another model", "optimizer.pt",
                     "It has a moment of shape %s for which the weights beside it have no (or "
                     "no further) tensor.",
                     wrong);
        return;
    }
    if (moments->elements < weights.elements) {
        folder_issue(s->f, SEVERITY_NOTE, "trainer-frozen-weights",
                     "The optimizer trains a part of the weights", "optimizer.pt",
                     "%" PRIu64 " of %" PRIu64 " elements have moments; the others were frozen, or "
                     "never had a gradient.",
                     moments->elements, weights.elements);
    }
}

static void check_steps(const struct state *s, double least, double most)
{
    if (!(least == most)) {
        folder_issue(s->f, SEVERITY_WARNING, "trainer-optimizer-steps",
                     "Parameters were updated unequally often", "optimizer.pt",
                     "The optimizer's step counters go from %.0f to %.0f.", least, most);
    } else if (s->has_step && !(most <= (double)s->step)) {
        folder_issue(s->f, SEVERITY_ERROR, "trainer-step-mismatch", "Files of different steps",
                     "optimizer.pt", "The optimizer made %.0f steps, global_step is %" PRIu64 ".",
                     most, s->step);
    } else if (s->has_step && most < (double)s->step) {
        bool scaler = folder_has(s->f, "scaler.pt");
        folder_issue(s->f, scaler ? SEVERITY_NOTE : SEVERITY_ERROR, "trainer-step-mismatch",
                     "Files of different steps", "optimizer.pt",
                     "The optimizer made %.0f steps, global_step is %" PRIu64 "%s.", most, s->step,
                     scaler ? "; the gradient scaler skips steps that overflow" : "");
    }
}

/* States of the parameters that the groups list, in their order. */
static void check_states(const struct state *s, const struct folder_torch *t,
                         const struct pickle_value *groups)
{
    struct shapes moments = {.items = arena_array(s->f->arena, t->file.count + 1, sizeof(char *))};
    double least = INFINITY;
    double most = -INFINITY;
    uint64_t expected = 0;
    uint64_t missing = 0;
    uint64_t first_group = 0;
    for (size_t g = 0; pickle_arg(groups, g) != NULL; g++) {
        const struct pickle_value *params = pickle_get(pickle_arg(groups, g), "params");
        for (size_t i = 0; pickle_arg(params, i) != NULL; i++) {
            int64_t index;
            if (!pickle_int(pickle_arg(params, i), &index) || index != (int64_t)expected) {
                folder_issue(s->f, SEVERITY_ERROR, "trainer-group-order",
                             "Parameter groups are not in order", "optimizer.pt",
                             "Group %zu lists parameter %" PRId64 " where %" PRIu64
                             " is due: torch numbers them group by group.",
                             g, index, expected);
                return;
            }
            const char *at = arena_fmt(s->f->arena, "state.%" PRId64, index);
            const struct tensor *m = torch_find(&t->file, arena_fmt(s->f->arena, "%s.exp_avg", at));
            const struct tensor *step = torch_find(&t->file, arena_fmt(s->f->arena, "%s.step", at));
            missing += m == NULL;
            if (m != NULL && moments.count < t->file.count) {
                moments.items[moments.count++] = tensor_shape_text(s->f->arena, m->shape, m->rank);
                moments.elements += m->elements;
            }
            if (step != NULL && step->present && step->elements == 1 &&
                step->type->values == VALUES_PLAIN) {
                double n = dtype_get(step->type->dtype, t->file.bytes.p + step->offset);
                least = fmin(least, n);
                most = fmax(most, n);
            }
            expected++;
        }
        first_group = g == 0 ? expected : first_group;
    }
    if (moments.count == 0) {
        return; /* not an Adam */
    }
    if (missing > 0) {
        folder_issue(s->f, SEVERITY_NOTE, "trainer-moments-missing", "Parameters without moments",
                     "optimizer.pt", "%" PRIu64 " of %" PRIu64 " parameters never had a gradient.",
                     missing, expected);
    }
    if (most >= 0) {
        check_steps(s, least, most);
    }
    if (missing == 0) {
        optimizer_order_check(s->f, moments.items, moments.count, (size_t)first_group);
    }
    compare_shapes(s, &moments);
}

static void check_optimizer(const struct state *s)
{
    struct folder_torch t;
    if (!folder_torch_open(s->f, "optimizer.pt", &t)) {
        check_scheduler(s, NULL);
        return;
    }
    const struct pickle_value *root = t.file.pickle.root;
    const struct pickle_value *groups = pickle_get(root, "param_groups");
    if (groups == NULL || pickle_get(root, "state") == NULL) {
        folder_issue(s->f, SEVERITY_ERROR, "trainer-optimizer-broken",
                     "optimizer.pt holds no optimizer", "optimizer.pt",
                     "It has no \"state\" or no \"param_groups\".");
    } else {
        check_states(s, &t, groups);
    }
    check_scheduler(s, groups);
    folder_torch_close(&t);
}

/* rng_state.pth of one process, or rng_state_<rank>.pth of each rank from 0 on. */
static void check_random(const struct folder *f)
{
    uint64_t ranks = 0;
    uint64_t highest = 0;
    for (size_t i = 0; i < f->count; i++) {
        uint64_t rank;
        if (folder_number(f->names[i], "rng_state_", ".pth", &rank)) {
            ranks++;
            highest = rank > highest ? rank : highest;
        }
    }
    if (ranks > 0 && highest + 1 != ranks) {
        folder_issue(f, SEVERITY_ERROR, "trainer-rank-missing", "Files of some ranks are missing",
                     "rng_state_0.pth",
                     "There are random states of %" PRIu64 " ranks, the highest is %" PRIu64
                     ": a rank did not finish saving.",
                     ranks, highest);
    }
    if (ranks == 0 && !folder_has(f, "rng_state.pth") && folder_has(f, "optimizer.pt")) {
        folder_issue(f, SEVERITY_WARNING, "trainer-random-missing", "No random state was saved",
                     "rng_state.pth",
                     "Resuming gives another order of dropout and data than going on would have.");
    }
}

static void check(const struct folder *f)
{
    struct state s = {.f = f};
    read_step(&s);
    check_name(&s);
    bool optimizer = folder_has(f, "optimizer.pt") || folder_has(f, "optimizer.bin");
    if (optimizer != folder_has(f, "scheduler.pt") && !folder_has(f, "latest")) {
        folder_issue(f, SEVERITY_ERROR, "trainer-incomplete", "The checkpoint is incomplete",
                     optimizer ? "scheduler.pt" : "optimizer.pt",
                     "%s is missing beside its twin: the save stopped, or a file was lost.",
                     optimizer ? "scheduler.pt" : "optimizer.pt");
    }
    check_optimizer(&s);
    check_random(f);
}

const struct folder_kind folder_kind_trainer = {
    .name = "Hugging Face Trainer checkpoint", .matches = matches, .check = check};
