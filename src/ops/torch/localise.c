// SPDX-License-Identifier: Apache-2.0
/* One operand guarded at a time, then more and more room behind it. */
#include "ops/torch/localise.h"

#define PAD_FIRST 16
#define PAD_LAST  (1 << 20)

static enum status faults(struct torch_agent *agent, struct arena *scratch,
                          const struct op_problem *p, const struct torch_probe *probe,
                          bool *ret_faults, struct err *err)
{
    struct arena_mark mark = arena_mark(scratch);
    struct torch_result r = {0};
    enum status st = torch_trial_run(agent, scratch, p, probe, &r, err);
    arena_rewind(scratch, mark);
    if (st == ST_OK) {
        *ret_faults = r.forward.verdict == TORCH_FAULTED || r.backward.verdict == TORCH_FAULTED;
    }
    return st;
}

/* Tries each tensor alone; they may share a name (an input and a given gradient), which is fine. */
static enum status find_operand(struct torch_agent *agent, struct arena *scratch,
                                const struct op_problem *p, struct torch_probe probe,
                                struct torch_place_of_fault *found, struct err *err)
{
    probe.outputs_alone = true;
    TRY(faults(agent, scratch, p, &probe, &found->elsewhere, err));
    probe.outputs_alone = false;
    if (found->elsewhere) {
        return ST_OK;
    }
    const struct op *op = p->c.op;
    for (size_t i = 0; i < op->input_count + op->output_count; i++) {
        const struct op_array *array = i < op->input_count ? &p->input[i]
                                                           : &p->grad_output[i - op->input_count];
        bool it = false;
        if (array->spec == NULL) {
            continue;
        }
        probe.only = array->spec->name;
        TRY(faults(agent, scratch, p, &probe, &it, err));
        if (it) {
            found->operand = array->spec->name;
            return ST_OK;
        }
    }
    return ST_OK;
}

enum status torch_localise(struct torch_agent *agent, struct arena *scratch,
                           const struct op_problem *p, const struct torch_probe *probe,
                           const struct torch_fault *fault, struct torch_place_of_fault *ret_found,
                           struct err *err)
{
    *ret_found = (struct torch_place_of_fault){.operand = fault->operand};
    if (fault->operand == NULL) {
        TRY(find_operand(agent, scratch, p, *probe, ret_found, err));
    }
    if (ret_found->operand == NULL) {
        return ST_OK;
    }
    struct torch_probe wider = *probe;
    for (int64_t pad = PAD_FIRST; pad <= PAD_LAST; pad *= 4) {
        bool still = true;
        wider.pad_bytes = pad;
        TRY(faults(agent, scratch, p, &wider, &still, err));
        if (!still) {
            ret_found->clean_pad = pad;
            return ST_OK;
        }
    }
    return ST_OK;
}
