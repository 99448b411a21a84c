// SPDX-License-Identifier: Apache-2.0
/* Weights and moments to files and back. */
#include <string.h>

#include "model/safetensors_write.h"
#include "model/tensor_file.h"
#include "train/save_inside.h"

enum {
    CHUNK = 1 << 16,
    PER_PARAM = 3 /* m, v, master */
};

static bool is_adapter(const struct save_target *target)
{
    return target->lora != NULL && target->lora->rank != 0;
}

static enum dtype real_dtype(const struct param_list *params)
{
    return params->precision == PRECISION_F64 ? DTYPE_F64 : DTYPE_F32;
}

/* What training holds of a weight: the master where there is one. */
static const void *exact_values(const struct save_target *target, size_t i)
{
    if (target->optim != NULL && target->optim->states[i].master != NULL) {
        return target->optim->states[i].master;
    }
    return target->params->items[i].value;
}

/* The narrowest type that holds every value training can have there. */
static enum dtype exact_dtype(const struct save_target *target, size_t i)
{
    bool master = target->optim != NULL && target->optim->states[i].master != NULL;
    return target->params->precision == PRECISION_BF16 && !master ? DTYPE_BF16
                                                                  : real_dtype(target->params);
}

static bool holds(enum dtype file, enum dtype exact)
{
    return file == exact || file == DTYPE_F64 || (file == DTYPE_F32 && exact == DTYPE_BF16);
}

static struct safetensors_item item_of(const struct param *p, const char *name, enum dtype dtype,
                                       enum dtype source, const void *values)
{
    return (struct safetensors_item){.name = name,
                                     .dtype = dtype,
                                     .source = source,
                                     .rank = p->rank,
                                     .shape = p->dim,
                                     .values = values};
}

enum status save_model_tensors(struct arena *scratch, const char *folder,
                               const struct save_target *target, struct err *err)
{
    const struct param_list *params = target->params;
    struct safetensors_item *items = arena_array(scratch, params->count, sizeof *items);
    static const struct safetensors_pair format = {"format", "pt"};
    size_t n = 0;
    for (size_t i = 0; i < params->count; i++) {
        const struct param *p = &params->items[i];
        if (!is_adapter(target) || p->trainable) {
            items[n++] = item_of(p, p->name, p->file_dtype, real_dtype(params),
                                 exact_values(target, i));
        }
    }
    const char *path = arena_fmt(scratch, "%s/%s", folder,
                                 is_adapter(target) ? SAVE_ADAPTER_NAME : SAVE_MODEL_NAME);
    return safetensors_write(scratch, path, items, n, &format, 1, err);
}

enum status save_optim_tensors(struct arena *scratch, const char *folder,
                               const struct save_target *target, struct err *err)
{
    const struct param_list *params = target->params;
    const struct optim *o = target->optim;
    struct safetensors_item *items = arena_array(scratch, params->count * PER_PARAM, sizeof *items);
    enum dtype source = real_dtype(params);
    enum dtype moments = params->precision == PRECISION_BF16 && o->options.pure ? DTYPE_BF16
                                                                                : source;
    size_t n = 0;
    for (size_t i = 0; i < params->count; i++) {
        const struct param *p = &params->items[i];
        if (!p->trainable) {
            continue;
        }
        items[n++] = item_of(p, arena_fmt(scratch, "%s.exp_avg", p->name), moments, source,
                             o->states[i].m);
        items[n++] = item_of(p, arena_fmt(scratch, "%s.exp_avg_sq", p->name), moments, source,
                             o->states[i].v);
        if (!holds(p->file_dtype, exact_dtype(target, i))) {
            items[n++] = item_of(p, arena_fmt(scratch, "%s.master", p->name), source, source,
                                 exact_values(target, i));
        }
    }
    return safetensors_write(scratch, arena_fmt(scratch, "%s/" SAVE_OPTIMIZER_NAME, folder), items,
                             n, NULL, 0, err);
}

/* ---- reading ---- */

static enum status read_reals(struct arena *scratch, const struct tensor_file *f, const char *name,
                              const struct param *p, bool wide, void *to, struct err *err)
{
    const struct tensor *t = tensor_find(f, name);
    double *numbers = arena_array(scratch, CHUNK, sizeof *numbers);
    if (t == NULL || !t->present || t->elements != p->count) {
        return err_set(err, ST_FORMAT, "'%s' has no tensor '%s' of %zu elements", f->map.path, name,
                       p->count);
    }
    for (size_t first = 0; first < p->count; first += CHUNK) {
        size_t n = p->count - first < CHUNK ? p->count - first : CHUNK;
        TRY(tensor_values(f, t, first, n, numbers, err));
        for (size_t i = 0; i < n; i++) {
            if (wide) {
                ((double *)to)[first + i] = numbers[i];
            } else {
                ((float *)to)[first + i] = (float)numbers[i];
            }
        }
    }
    return ST_OK;
}

static enum status open_file(struct arena *scratch, const char *folder, const char *name,
                             struct tensor_file **ret_file, struct err *err)
{
    struct issues issues;
    const char *path = arena_fmt(scratch, "%s/%s", folder, name);
    issues_init(&issues, scratch, path);
    return tensor_file_open(scratch, path, &issues, ret_file, err);
}

/* The weight under bfloat16 arithmetic: its master's rounding. */
static void round_from_master(const struct param *p, const float *master)
{
    float *value = p->value;
    for (size_t i = 0; i < p->count; i++) {
        value[i] = (float)dtype_round(DTYPE_BF16, (double)master[i]);
    }
}

static enum status load_param(struct arena *scratch, const struct tensor_file *model,
                              const struct tensor_file *moments, const struct param *p,
                              const struct optim_state *state, bool wide, struct err *err)
{
    const char *master = arena_fmt(scratch, "%s.master", p->name);
    void *to = state->master != NULL ? state->master : p->value;
    if (tensor_find(moments, master) != NULL) {
        TRY(read_reals(scratch, moments, master, p, wide, to, err));
    } else {
        TRY(read_reals(scratch, model, p->name, p, wide, to, err));
    }
    if (state->master != NULL) {
        round_from_master(p, state->master);
    }
    TRY(read_reals(scratch, moments, arena_fmt(scratch, "%s.exp_avg", p->name), p, wide, state->m,
                   err));
    return read_reals(scratch, moments, arena_fmt(scratch, "%s.exp_avg_sq", p->name), p, wide,
                      state->v, err);
}

static enum status load_all(struct arena *scratch, const struct tensor_file *model,
                            const struct tensor_file *moments, const struct param_list *params,
                            const struct optim *optim, struct err *err)
{
    for (size_t i = 0; i < params->count; i++) {
        if (params->items[i].trainable) {
            struct arena_mark mark = arena_mark(scratch);
            TRY(load_param(scratch, model, moments, &params->items[i], &optim->states[i],
                           params->precision == PRECISION_F64, err));
            arena_rewind(scratch, mark);
        }
    }
    return ST_OK;
}

enum status save_load_tensors(struct arena *scratch, const char *folder,
                              const struct save_target *target, struct optim *optim,
                              struct err *err)
{
    struct tensor_file *model;
    struct tensor_file *moments;
    TRY(open_file(scratch, folder, is_adapter(target) ? SAVE_ADAPTER_NAME : SAVE_MODEL_NAME, &model,
                  err));
    enum status status = open_file(scratch, folder, SAVE_OPTIMIZER_NAME, &moments, err);
    if (status == ST_OK) {
        status = load_all(scratch, model, moments, target->params, optim, err);
        tensor_file_close(moments);
    }
    tensor_file_close(model);
    return status;
}
