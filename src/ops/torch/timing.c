// SPDX-License-Identifier: Apache-2.0
/* Runs in ordinary memory, one after another; the first two warm up. */
#include "ops/torch/timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

enum {
    WARM_UP = 2,
    RUNS = 7
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum status time_way(struct torch_agent *agent, struct arena *scratch,
                            const struct op_problem *p, const char *way, int deadline_ms,
                            struct torch_time *ret_time, struct err *err)
{
    const struct torch_probe probe = {.way = way,
                                      .side = TORCH_SIDE_NONE,
                                      .only = "",
                                      .backward = true,
                                      .deadline_ms = deadline_ms};
    double seconds[2][RUNS];
    ret_time->forward_s = ret_time->backward_s = NAN;
    for (int i = 0; i < WARM_UP + RUNS; i++) {
        struct arena_mark mark = arena_mark(scratch);
        struct torch_result r = {0};
        TRY(torch_trial_run(agent, scratch, p, &probe, &r, err));
        arena_rewind(scratch, mark);
        if (!(r.seconds[0] > 0 && r.seconds[1] > 0)) {
            return ST_OK;
        }
        if (i >= WARM_UP) {
            seconds[0][i - WARM_UP] = r.seconds[0];
            seconds[1][i - WARM_UP] = r.seconds[1];
        }
    }
    qsort(seconds[0], RUNS, sizeof(double), by_value);
    qsort(seconds[1], RUNS, sizeof(double), by_value);
    ret_time->forward_s = seconds[0][RUNS / 2];
    ret_time->backward_s = seconds[1][RUNS / 2];
    return ST_OK;
}

enum status torch_time_patches(struct torch_agent *agent, struct arena *a, enum dtype dtype,
                               int patches, int deadline_ms, struct torch_times *times,
                               struct err *err)
{
    const char *text = arena_fmt(a, "patch_embed %s patches=%d hidden=1152 patch=16",
                                 dtype_info(dtype)->name, patches);
    struct op_case c;
    struct op_problem p;
    TRY(op_case_parse(str_of(text), &c, err));
    struct arena *scratch = arena_new(0);
    enum status st = op_problem_make(scratch, &c, &p, err);
    if (st == ST_OK) {
        op_problem_fill(&p); /* nobody judges here, so it is not solved */
    }
    const struct tree *ways = tree_get(torch_agent_hello(agent)->variants, "patch_embed");
    for (const struct tree *w = ways ? ways->child : NULL; w != NULL && st == ST_OK; w = w->next) {
        struct torch_time t = {.way = arena_strdup(a, w->text ? w->text : "?"), .dtype = dtype};
        st = time_way(agent, scratch, &p, t.way, deadline_ms, &t, err);
        *VEC_PUSH(a, times) = t;
    }
    arena_free(scratch);
    return st;
}

double torch_time_of(const struct torch_times *times, const char *way, enum dtype dtype)
{
    for (size_t i = 0; i < times->count; i++) {
        const struct torch_time *t = &times->items[i];
        if (t->dtype == dtype && strcmp(t->way, way) == 0) {
            return t->forward_s + t->backward_s;
        }
    }
    return NAN;
}
