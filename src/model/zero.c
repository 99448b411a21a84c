// SPDX-License-Identifier: Apache-2.0
/*
 * A DeepSpeed checkpoint: the tag that `latest` names, and in its folder one model file a model rank
 * (ZeRO 1 and 2) or a data rank (ZeRO 3), and one optimizer file a data rank. All must be of one
 * world size, one step, and together hold every parameter.
 * Source: deepspeed/runtime/engine.py (save_checkpoint), utils/zero_to_fp32.py (how it is read back).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"

#include "model/folder.h"

enum {
    MAX_RANKS = 65536,
    MAX_GROUPS = 4096
};

static const char OPTIM[] = "_optim_states.pt";
static const char MODEL[] = "_model_states.pt";

/* What a file's name says; data rank 0 when the name has none. */
struct rank_name {
    uint64_t data;
    uint64_t model;
    bool optimizer;
    bool has_data;
};

struct zero {
    struct folder f; /* of the tag */
    uint64_t data_ranks;
    uint64_t model_ranks;
    uint64_t optimizers;
    uint64_t partitions; /* partition_count of the first file */
    uint64_t groups;
    uint64_t flat[64]; /* elements a group over all ranks of model rank 0 */
    uint64_t wanted[64];
    bool shapes_known;
    int stage; /* 3, or 2 for less */
    double step;
    const char *step_file;
    int64_t global_steps;
};

/* Digits behind `key` in a name. */
static bool number_behind(struct str name, const char *key, uint64_t *ret)
{
    size_t at = str_find(name, key, 0);
    if (at == SIZE_MAX) {
        return false;
    }
    at += strlen(key);
    size_t end = at;
    while (end < name.n && name.p[end] >= '0' && name.p[end] <= '9') {
        end++;
    }
    return end > at && str_to_u64(str_slice(name, at, end), 10, ret) == ST_OK;
}

static bool parse_name(const char *text, struct rank_name *ret)
{
    struct str name = str_of(text);
    struct rank_name r = {.optimizer = str_ends(name, OPTIM)};
    if ((!r.optimizer && !str_ends(name, MODEL)) || !number_behind(name, "mp_rank_", &r.model)) {
        return false;
    }
    r.has_data = number_behind(name, "zero_pp_rank_", &r.data);
    *ret = r;
    return r.data < MAX_RANKS && r.model < MAX_RANKS;
}

static bool is_tag_folder(const struct folder *f)
{
    struct rank_name r;
    for (size_t i = 0; i < f->count; i++) {
        if (parse_name(f->names[i], &r)) {
            return true;
        }
    }
    return false;
}

static bool matches(const struct folder *f)
{
    return folder_has(f, "zero_to_fp32.py") || is_tag_folder(f) ||
           (folder_has(f, "latest") && !folder_has(f, "latest_checkpointed_iteration.txt"));
}

/* Elements of all tensors in a list, or of one tensor. */
static uint64_t elements_of(const struct folder_torch *t, const char *path)
{
    const struct tensor *one = torch_find(&t->file, path);
    uint64_t sum = one != NULL ? one->elements : 0;
    char name[200];
    for (unsigned i = 0; one == NULL && i < MAX_GROUPS; i++) {
        snprintf(name, sizeof name, "%s.%u", path, i);
        const struct tensor *part = torch_find(&t->file, name);
        if (part == NULL) {
            break;
        }
        sum += part->elements;
    }
    return sum;
}

/* An int, or the largest of a list of ints. */
static bool largest_int(const struct pickle_value *v, uint64_t *ret)
{
    int64_t n;
    int64_t most = -1;
    if (pickle_int(v, &n)) {
        most = n;
    }
    for (size_t i = 0; pickle_arg(v, i) != NULL; i++) {
        most = pickle_int(pickle_arg(v, i), &n) && n > most ? n : most;
    }
    *ret = (uint64_t)most;
    return most > 0;
}

static void check_step(struct zero *z, const struct folder_torch *t, const char *name)
{
    static const char *const places[] = {"optimizer_state_dict.base_optimizer_state.state.0.step",
                                         "optimizer_state_dict.optimizer_state_dict.state.0.step",
                                         "optimizer_state_dict.base_optimizer_state.0.step"};
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        const struct tensor *step = torch_find(&t->file, places[i]);
        if (step == NULL || !step->present || step->elements != 1 ||
            step->type->values != VALUES_PLAIN) {
            continue;
        }
        double n = dtype_get(step->type->dtype, t->file.bytes.p + step->offset);
        if (z->step_file == NULL) {
            z->step = n;
            z->step_file = arena_strdup(z->f.arena, name);
        } else if (!(n == z->step)) {
            folder_issue(&z->f, SEVERITY_ERROR, "zero-step-mismatch", "Files of different steps",
                         name, "Its optimizer made %.0f steps, that of %s %.0f.", n, z->step_file,
                         z->step);
        }
        return;
    }
}

/* Adds one rank's part to the sums; groups of ZeRO 1 and 2 stay apart. */
static void add_partitions(struct zero *z, const struct folder_torch *t, const char *name)
{
    const struct pickle_value *state = pickle_get(t->file.pickle.root, "optimizer_state_dict");
    const struct pickle_value *groups = pickle_get(state, "single_partition_of_fp32_groups");
    uint64_t partitions;
    if (groups != NULL) {
        z->stage = 2;
        for (uint32_t g = 0; g < ARRAY_LEN(z->flat) && pickle_arg(groups, g) != NULL; g++) {
            char path[120];
            snprintf(path, sizeof path, "optimizer_state_dict.single_partition_of_fp32_groups.%u",
                     g);
            z->flat[g] += elements_of(t, path);
            z->groups = g + 1 > z->groups ? g + 1 : z->groups;
        }
    } else if (pickle_get(state, "fp32_flat_groups") != NULL) {
        z->stage = 3;
        z->groups = 1;
        z->flat[0] += elements_of(t, "optimizer_state_dict.fp32_flat_groups");
    }
    if (largest_int(pickle_get(state, "partition_count"), &partitions)) {
        if (z->partitions != 0 && z->partitions != partitions) {
            folder_issue(&z->f, SEVERITY_ERROR, "zero-world-size", "Files of another world size",
                         name, "It was written by %" PRIu64 " ranks, the others by %" PRIu64 ".",
                         partitions, z->partitions);
        }
        z->partitions = partitions;
    }
}

/* Elements that param_shapes asks for. In ZeRO 3 every rank rounds its part of a parameter up. */
static void add_shapes(struct zero *z, const struct pickle_value *root)
{
    const struct pickle_value *list = pickle_get(root, "param_shapes");
    for (uint32_t g = 0; g < ARRAY_LEN(z->wanted) && pickle_arg(list, g) != NULL; g++) {
        size_t count;
        struct pickle_value *const *pairs = pickle_pairs(pickle_arg(list, g), &count);
        for (size_t i = 0; i < count; i++) {
            const struct pickle_value *shape = pairs[2 * i + 1];
            shape = shape->kind == PICKLE_CALL ? pickle_arg(shape, 0) : shape;
            uint64_t n = 1;
            int64_t dim;
            for (size_t d = 0; pickle_int(pickle_arg(shape, d), &dim); d++) {
                n = dim < 0 || __builtin_mul_overflow(n, (uint64_t)dim, &n) ? 0 : n;
            }
            uint64_t ranks = z->data_ranks > 0 ? z->data_ranks : 1;
            z->wanted[z->stage == 3 ? 0 : g] += z->stage == 3 ? (n + ranks - 1) / ranks * ranks : n;
        }
        z->shapes_known = true;
    }
}

static void check_model_file(struct zero *z, const struct folder_torch *t, const char *name,
                             bool first)
{
    const struct pickle_value *root = t->file.pickle.root;
    int64_t n;
    if (pickle_int(pickle_get(root, "dp_world_size"), &n) && (uint64_t)n != z->data_ranks &&
        z->optimizers > 0) {
        folder_issue(&z->f, SEVERITY_ERROR, "zero-world-size", "Files of another world size", name,
                     "It was written by %" PRId64 " data ranks; there are optimizer files of "
                     "%" PRIu64 ".",
                     n, z->data_ranks);
    }
    if (pickle_int(pickle_get(root, "global_steps"), &n)) {
        uint64_t tag;
        const char *slash = strrchr(z->f.path, '/');
        if (folder_number(slash != NULL ? slash + 1 : z->f.path, "global_step", "", &tag) &&
            tag != (uint64_t)n) {
            folder_issue(
                &z->f, SEVERITY_ERROR, "zero-step-mismatch", "Files of different steps", name,
                "Its global_steps is %" PRId64 ", the folder is of step %" PRIu64 ".", n, tag);
        }
        if (!first && n != z->global_steps) {
            folder_issue(&z->f, SEVERITY_ERROR, "zero-step-mismatch", "Files of different steps",
                         name, "Its global_steps is %" PRId64 ", another file's %" PRId64 ".", n,
                         z->global_steps);
        }
        z->global_steps = n;
    }
    if (first && pickle_get(root, "module") == NULL) {
        folder_issue(&z->f, SEVERITY_ERROR, "zero-incomplete", "A file without its content", name,
                     "It has no \"module\": these are no model states.");
    }
    if (first) {
        add_shapes(z, root);
    }
}

static void read_optimizers(struct zero *z)
{
    for (size_t i = 0; i < z->f.count; i++) {
        struct rank_name r;
        struct folder_torch t;
        if (!parse_name(z->f.names[i], &r) || !r.optimizer) {
            continue;
        }
        if (!folder_torch_open(&z->f, z->f.names[i], &t)) {
            folder_issue(&z->f, SEVERITY_ERROR, "zero-incomplete", "A rank's file is unreadable",
                         z->f.names[i],
                         "The optimizer states of data rank %" PRIu64
                         " cannot be read: without them none can be resumed.",
                         r.data);
            continue;
        }
        check_step(z, &t, z->f.names[i]);
        if (r.model == 0) {
            add_partitions(z, &t, z->f.names[i]);
        }
        folder_torch_close(&t);
    }
}

static void read_models(struct zero *z)
{
    bool first = true;
    for (size_t i = 0; i < z->f.count; i++) {
        struct rank_name r;
        struct folder_torch t;
        if (!parse_name(z->f.names[i], &r) || r.optimizer) {
            continue;
        }
        if (!folder_torch_open(&z->f, z->f.names[i], &t)) {
            folder_issue(&z->f, SEVERITY_ERROR, "zero-incomplete", "A rank's file is unreadable",
                         z->f.names[i], "The model states cannot be read.");
            continue;
        }
        check_model_file(z, &t, z->f.names[i], first);
        first = false;
        folder_torch_close(&t);
    }
}

/* Every combination of ranks below the highest must be there. */
static void count_ranks(struct zero *z)
{
    uint64_t models = 0;
    uint64_t sharded = 0;
    for (size_t i = 0; i < z->f.count; i++) {
        struct rank_name r;
        if (!parse_name(z->f.names[i], &r)) {
            continue;
        }
        z->model_ranks = r.model + 1 > z->model_ranks ? r.model + 1 : z->model_ranks;
        z->data_ranks = r.data + 1 > z->data_ranks ? r.data + 1 : z->data_ranks;
        z->optimizers += r.optimizer;
        models += !r.optimizer;
        sharded += !r.optimizer && r.has_data;
    }
    uint64_t all = z->data_ranks * z->model_ranks;
    if (z->optimizers > 0 && z->optimizers != all) {
        folder_issue(&z->f, SEVERITY_ERROR, "zero-rank-missing", "Files of some ranks are missing",
                     ".",
                     "%" PRIu64 " optimizer files, where %" PRIu64 " data ranks and %" PRIu64
                     " model ranks make %" PRIu64 ".",
                     z->optimizers, z->data_ranks, z->model_ranks, all);
    }
    uint64_t expected = sharded > 0 ? all : z->model_ranks;
    if (models != expected) {
        folder_issue(&z->f, SEVERITY_ERROR, "zero-rank-missing", "Files of some ranks are missing",
                     ".", "%" PRIu64 " files of model states, %" PRIu64 " are expected.", models,
                     expected);
    }
}

static void compare_sizes(const struct zero *z)
{
    if (z->partitions != 0 && z->partitions != z->data_ranks) {
        folder_issue(&z->f, SEVERITY_ERROR, "zero-world-size", "Files of another world size", ".",
                     "The optimizer was cut into %" PRIu64 " parts; there are files of %" PRIu64
                     " data ranks. A rank did not save, or files of two runs are mixed.",
                     z->partitions, z->data_ranks);
        return;
    }
    for (uint64_t g = 0; z->shapes_known && g < z->groups && g < ARRAY_LEN(z->flat); g++) {
        /* ZeRO 1 and 2 pad a group to two elements a rank; some versions once more. */
        uint64_t padding = z->stage == 3 ? 0 : 4 * z->data_ranks;
        if (z->flat[g] < z->wanted[g] || z->flat[g] - z->wanted[g] > padding) {
            folder_issue(&z->f, SEVERITY_ERROR, "zero-size", "The partitions do not add up", ".",
                         "Group %" PRIu64 ": all ranks together hold %" PRIu64
                         " elements, the parameters have %" PRIu64 ".",
                         g, z->flat[g], z->wanted[g]);
        }
    }
}

static void check_tag(const struct folder *parent, const char *path)
{
    struct zero z = {0};
    if (!folder_open(parent->arena, path, parent->issues, &z.f, NULL)) {
        folder_issue(parent, SEVERITY_ERROR, "zero-tag-missing", "The newest save is not there",
                     "latest", "Its folder \"%s\" cannot be listed.",
                     issue_text(parent->arena, str_of(path)));
        return;
    }
    if (!is_tag_folder(&z.f)) {
        folder_issue(&z.f, SEVERITY_ERROR, "zero-incomplete", "A save without its files", ".",
                     "There are no model or optimizer states in it.");
        return;
    }
    count_ranks(&z);
    read_optimizers(&z);
    read_models(&z);
    compare_sizes(&z);
}

static void check(const struct folder *f)
{
    struct str tag;
    if (is_tag_folder(f)) {
        check_tag(f, f->path);
    }
    if (!folder_has(f, "latest")) {
        if (!is_tag_folder(f)) {
            folder_issue(f, SEVERITY_ERROR, "zero-tag-missing", "The newest save is not named",
                         "latest",
                         "The file \"latest\", written when a save is complete, is "
                         "missing.");
        }
        return;
    }
    if (!folder_text(f, "latest", &tag) || tag.n == 0 || str_has(tag, "/") || str_is(tag, "..")) {
        folder_issue(f, SEVERITY_ERROR, "zero-tag-missing", "The newest save is not named",
                     "latest", "\"latest\" names no folder.");
        return;
    }
    check_tag(f, folder_join(f, str_dup(f->arena, tag)));
}

const struct folder_kind folder_kind_zero = {
    .name = "DeepSpeed checkpoint", .matches = matches, .check = check};
