// SPDX-License-Identifier: Apache-2.0
/* Requests without tensors: the file makes its own. */
#include "ops/torch/module.h"

#include <math.h>
#include <string.h>

#include "base/json_out.h"

#define REQUEST_CEILING 65536
#define OUTPUTS         "/" /* stands for what torch allocates itself; no input has that name */

struct trial {
    struct torch_agent *agent;
    struct arena *arena;
    const char *path;
    int deadline_ms;
};

static double number_of(const struct tree *t, const char *key)
{
    double n = NAN;
    return str_to_double(str_of(tree_text(t, key, "")), &n) == ST_OK ? n : NAN;
}

static void read_comparison(struct arena *a, const struct tree *t, struct torch_step *step)
{
    if (t == NULL) {
        return;
    }
    struct torch_worst *w = &step->worst;
    *w = (struct torch_worst){
        .tensor = arena_strdup(a, tree_text(t, "tensor", "?")),
        .index = arena_strdup(a, tree_text(t, "index", "")),
        .got = number_of(t, "got"),
        .wanted = number_of(t, "wanted"),
        .error = number_of(t, "error"),
        .bound = number_of(t, "bound"),
    };
    w->ratio = w->error / w->bound;
    if (strcmp(tree_text(t, "bad", "true"), "false") != 0 && step->verdict < TORCH_INACCURATE) {
        step->verdict = tree_get(t, "shape") != NULL ? TORCH_WRONG_SHAPE : TORCH_INACCURATE;
    }
}

static enum status run(struct trial *x, enum torch_side side, const char *only,
                       struct torch_reply *ret_reply, struct torch_result *ret_result,
                       struct err *err)
{
    struct strbuf text;
    strbuf_init(&text, x->arena, REQUEST_CEILING);
    struct json_out j;
    json_init(&j, &text);
    int64_t id = torch_agent_next_id(x->agent);
    json_object(&j);
    json_key(&j, "id");
    json_int(&j, id);
    json_field(&j, "module", x->path);
    bool alone = strcmp(only, OUTPUTS) == 0;
    json_field(&j, "guard", torch_side_name(alone ? TORCH_SIDE_NONE : side));
    json_field(&j, "only", alone ? "" : only);
    if (only[0] != '\0') {
        json_field(&j, "outputs", torch_side_name(alone ? side : TORCH_SIDE_NONE));
    }
    json_object_end(&j);
    TRY(torch_agent_ask(x->agent, x->arena, &text, id, x->deadline_ms, ret_reply, err));
    *ret_result = (struct torch_result){.message = ""};
    if (ret_reply->end == TORCH_ANSWERED) {
        torch_answer_read(x->arena, ret_reply->answer, ret_result);
        read_comparison(x->arena, tree_get(ret_reply->answer, "module"), &ret_result->forward);
    } else {
        torch_answer_ended(x->arena, ret_reply, ret_result);
    }
    return ST_OK;
}

/* Which input, where the device does not say. `first` is the reply of the run that faulted. */
static enum status find_operand(struct trial *x, struct torch_module_side *side,
                                const struct torch_reply *first, struct err *err)
{
    struct torch_reply reply;
    struct torch_result r;
    TRY(run(x, side->side, OUTPUTS, &reply, &r, err));
    side->elsewhere = r.forward.verdict == TORCH_FAULTED;
    for (size_t i = 0; !side->elsewhere && i < first->operand_count; i++) {
        TRY(run(x, side->side, first->operands[i], &reply, &r, err));
        if (r.forward.verdict == TORCH_FAULTED) {
            side->result.fault.operand = first->operands[i];
            break;
        }
    }
    return ST_OK;
}

enum status torch_module_try(struct torch_agent *agent, struct arena *a, const char *path,
                             int deadline_ms, struct torch_module_side ret_sides[2],
                             struct err *err)
{
    struct trial x = {agent, a, path, deadline_ms};
    for (int i = 0; i < 2; i++) {
        struct torch_module_side *side = &ret_sides[i];
        struct torch_reply reply = {0};
        *side = (struct torch_module_side){.side = i == 0 ? TORCH_SIDE_END : TORCH_SIDE_BEGIN};
        TRY(run(&x, side->side, "", &reply, &side->result, err));
        if (side->result.forward.verdict == TORCH_FAULTED && side->result.fault.operand == NULL) {
            TRY(find_operand(&x, side, &reply, err));
        }
    }
    return ST_OK;
}
