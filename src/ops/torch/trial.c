// SPDX-License-Identifier: Apache-2.0
/* From a problem to a request, and from an answer to a verdict. */
#include "ops/torch/trial.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json_out.h"

#include "ops/torch/operand.h"

#define REQUEST_CEILING (1u << 20)

const char *torch_verdict_name(enum torch_verdict verdict)
{
    static const char *const names[TORCH_VERDICT_COUNT] = {
        [TORCH_OK] = "ok",
        [TORCH_NOT_RUN] = "not run",
        [TORCH_MISSING] = "missing",
        [TORCH_UNTOLD] = "could not tell",
        [TORCH_INACCURATE] = "inaccurate",
        [TORCH_WRONG_SHAPE] = "wrong shape",
        [TORCH_MISALIGNED] = "misaligned",
        [TORCH_TIMEOUT] = "hang",
        [TORCH_CRASHED] = "crash",
        [TORCH_OVERWRITTEN] = "over-write",
        [TORCH_FAULTED] = "fault",
    };
    return names[verdict];
}

/* ---- request ---- */

static void write_attributes(struct json_out *j, const struct op_case *c)
{
    json_key(j, "attrs");
    json_object(j);
    for (size_t i = 0; i < c->op->param_count; i++) {
        const struct op_param *param = &c->op->params[i];
        json_key(j, param->name);
        switch (param->kind) {
        case OP_PARAM_CHOICE: json_string(j, param->choices[(size_t)c->value[i]]); break;
        case OP_PARAM_FLAG: json_bool(j, c->value[i] != 0); break;
        case OP_PARAM_REAL: json_real(j, c->value[i]); break;
        default: json_int(j, (int64_t)c->value[i]); break;
        }
    }
    json_object_end(j);
}

static void write_operand(struct json_out *j, const struct torch_operand *o, bool gradient)
{
    json_object(j);
    json_field(j, "name", o->name);
    json_field(j, "dtype", dtype_info(o->dtype)->name);
    json_key(j, "shape");
    json_list(j);
    for (size_t i = 0; i < o->rank; i++) {
        json_int(j, o->dim[i]);
    }
    json_list_end(j);
    json_key(j, "stride");
    json_list(j);
    for (size_t i = 0; i < o->rank; i++) {
        json_int(j, o->stride[i]);
    }
    json_list_end(j);
    json_key(j, "offset");
    json_int(j, (int64_t)o->offset);
    json_key(j, "bytes");
    json_int(j, (int64_t)o->bytes);
    json_key(j, "grad");
    json_bool(j, gradient);
    json_object_end(j);
}

struct request {
    struct torch_agent *agent;
    const struct torch_probe *probe;
    struct json_out json;
    uint64_t at; /* next free offset of the shared file */
};

/* Lays out one tensor and describes it. */
static enum status add_operand(struct request *r, const struct op_array *array,
                               enum torch_layout layout, bool gradient, struct err *err)
{
    size_t shared_bytes;
    unsigned char *shared = torch_agent_shared(r->agent, &shared_bytes);
    struct torch_operand o;
    torch_operand_plan(array, layout, r->at, &o);
    if (o.bytes > shared_bytes || o.offset > shared_bytes - o.bytes) {
        return err_set(err, ST_LIMIT,
                       "the operands need more than the %zu MiB that are shared with Python",
                       shared_bytes >> 20);
    }
    torch_operand_write(&o, array, shared);
    write_operand(&r->json, &o, gradient);
    r->at = (o.offset + o.bytes + 63) / 64 * 64;
    return ST_OK;
}

/* Where the input at `position` lies: the layout of the probe, or dense where it means another one. */
static enum torch_layout layout_of(const struct op_problem *p, enum torch_layout layout,
                                   size_t position)
{
    if (layout != TORCH_LAST_TOKEN_MAJOR) {
        return layout;
    }
    for (size_t i = position + 1; i < p->c.op->input_count; i++) {
        if (p->input[i].spec != NULL && p->input[i].rank == 4) {
            return TORCH_DENSE;
        }
    }
    return TORCH_TOKEN_MAJOR;
}

static enum status write_tensors(struct request *r, const struct op_problem *p, struct err *err)
{
    const struct op *op = p->c.op;
    json_key(&r->json, "inputs");
    json_list(&r->json);
    for (size_t i = 0; i < op->input_count; i++) {
        if (p->input[i].spec != NULL) {
            TRY(add_operand(r, &p->input[i], layout_of(p, r->probe->layout, i),
                            r->probe->backward && p->grad[i].spec != NULL, err));
        }
    }
    json_list_end(&r->json);
    json_key(&r->json, "upstream");
    json_list(&r->json);
    for (size_t i = 0; r->probe->backward && i < op->output_count; i++) {
        if (p->grad_output[i].spec != NULL) {
            enum torch_layout layout = r->probe->layout == TORCH_LAST_TOKEN_MAJOR
                                           ? TORCH_DENSE
                                           : r->probe->layout;
            TRY(add_operand(r, &p->grad_output[i], layout, false, err));
        }
    }
    json_list_end(&r->json);
    return ST_OK;
}

static enum status write_request(struct request *r, const struct op_problem *p, int64_t id,
                                 struct err *err)
{
    struct json_out *j = &r->json;
    json_object(j);
    json_key(j, "id");
    json_int(j, id);
    json_field(j, "op", p->c.op->name);
    json_field(j, "variant", r->probe->way);
    bool alone = r->probe->outputs_alone;
    json_field(j, "guard", torch_side_name(alone ? TORCH_SIDE_NONE : r->probe->side));
    if (alone || r->probe->only[0] != '\0') {
        json_field(j, "outputs", torch_side_name(alone ? r->probe->side : TORCH_SIDE_NONE));
    }
    json_field(j, "only", r->probe->only);
    json_key(j, "pad");
    json_int(j, r->probe->pad_bytes);
    json_key(j, "backward");
    json_bool(j, r->probe->backward);
    write_attributes(j, &p->c);
    TRY(write_tensors(r, p, err));
    json_key(j, "results_at");
    json_int(j, (int64_t)r->at);
    json_object_end(j);
    return ST_OK;
}

/* ---- answer ---- */

static const char *index_text(struct arena *a, const struct op_array *array, size_t flat)
{
    const char *text = "";
    for (size_t d = array->rank; d-- > 0;) {
        size_t n = (size_t)array->dim[d];
        text = arena_fmt(a, *text != '\0' ? "%zu,%s" : "%zu%s", flat % n, text);
        flat /= n;
    }
    return text;
}

enum torch_verdict torch_judge(struct arena *a, const char *name, const struct op_array *array,
                               const double *got, struct torch_worst *worst)
{
    bool wrong = false;
    double squares = 0, reference = 0, largest = 0;
    for (size_t i = 0; i < array->count; i++) {
        double want = array->value[i];
        bool same = got[i] == want || (isnan(want) && isnan(got[i]));
        double error = same ? 0 : fabs(got[i] - want);
        double ratio = same ? 0 : error / array->bound[i];
        if (!(error <= array->bound[i]) && !same) {
            wrong = true;
        }
        squares += error * error;
        reference += want * want;
        largest = fmax(largest, fabs(want));
        if (!(ratio <= worst->ratio) || worst->tensor == NULL) {
            *worst = (struct torch_worst){.tensor = name,
                                          .got = got[i],
                                          .wanted = want,
                                          .error = error,
                                          .bound = array->bound[i],
                                          .ratio = isnan(ratio) ? INFINITY : ratio};
            worst->index = index_text(a, array, i);
        }
    }
    if (array->rms_limit > 0 && !(squares <= array->rms_limit * array->rms_limit * reference)) {
        wrong = wrong || squares > 0;
        double rms = sqrt(squares / reference);
        double ratio = rms / array->rms_limit;
        if (!isnan(rms) &&
            !(ratio <= worst->ratio)) { /* each element may be within its own bound */
            *worst = (struct torch_worst){.tensor = name,
                                          .index = "",
                                          .error = rms,
                                          .bound = array->rms_limit,
                                          .ratio = ratio,
                                          .whole = true};
        }
    }
    if (worst->tensor == name) {
        worst->largest = largest;
    }
    return wrong ? TORCH_INACCURATE : TORCH_OK;
}

/* The array that a result belongs to, or NULL. */
static const struct op_array *array_of(const struct op_problem *p, const char *name,
                                       bool *ret_backward)
{
    for (size_t i = 0; i < p->c.op->output_count; i++) {
        if (p->output[i].spec != NULL && strcmp(p->output[i].spec->name, name) == 0) {
            *ret_backward = false;
            return &p->output[i];
        }
    }
    for (size_t i = 0; i < p->c.op->input_count && name[0] == 'd'; i++) {
        if (p->grad[i].spec != NULL && strcmp(p->grad[i].spec->name, name + 1) == 0) {
            *ret_backward = true;
            return &p->grad[i];
        }
    }
    return NULL;
}

static void worst_of(struct torch_step *step, enum torch_verdict verdict)
{
    if (verdict > step->verdict) {
        step->verdict = verdict;
    }
}

/* How often each expected tensor came back: positions as in array_of, outputs first. */
struct seen {
    bool output[OP_OUTPUTS_MAX], grad[OP_INPUTS_MAX];
};

static void judge_results(struct torch_agent *agent, struct arena *a, const struct op_problem *p,
                          const struct tree *answer, struct torch_result *r)
{
    const struct tree *results = tree_get(answer, "results");
    struct seen seen = {0};
    for (const struct tree *t = results ? results->child : NULL; t != NULL; t = t->next) {
        const char *name = arena_strdup(a, tree_text(t, "name", "?"));
        bool is_grad = false;
        const struct op_array *array = array_of(p, name, &is_grad);
        if (array == NULL) {
            continue; /* more than was asked for, such as the statistics of a norm */
        }
        struct torch_step *step = is_grad ? &r->backward : &r->forward;
        double *got = arena_array(a, array->count, sizeof *got);
        const char *why = torch_result_read(agent, t, array, got);
        if (why != NULL) {
            worst_of(step, TORCH_WRONG_SHAPE);
            r->message = arena_fmt(a, "%s: %s", name, why);
        } else {
            worst_of(step, torch_judge(a, name, array, got, &step->worst));
        }
        if (is_grad) {
            seen.grad[array - p->grad] = true;
        } else {
            seen.output[array - p->output] = true;
        }
    }
    for (size_t i = 0; r->forward.verdict == TORCH_OK && i < p->c.op->output_count; i++) {
        if (p->output[i].spec != NULL && !seen.output[i]) {
            worst_of(&r->forward, TORCH_UNTOLD);
            r->message = arena_fmt(a, "no result '%s' came back", p->output[i].spec->name);
        }
    }
    for (size_t i = 0; r->backward.verdict == TORCH_OK && i < p->c.op->input_count; i++) {
        if (p->grad[i].spec != NULL && !seen.grad[i]) {
            worst_of(&r->backward, TORCH_UNTOLD);
            r->message = arena_fmt(a, "no gradient of '%s' came back", p->grad[i].spec->name);
        }
    }
}

static enum torch_verdict verdict_of_word(const char *word)
{
    static const struct {
        const char *word;
        enum torch_verdict verdict;
    } rows[] = {{"ok", TORCH_OK},
                {"not run", TORCH_NOT_RUN},
                {"missing", TORCH_MISSING},
                {"instrument", TORCH_UNTOLD}, /* our guard failed, not the operator */
                {"misaligned", TORCH_MISALIGNED},
                {"fault", TORCH_FAULTED}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (strcmp(word, rows[i].word) == 0) {
            return rows[i].verdict;
        }
    }
    return TORCH_UNTOLD;
}

static void read_seconds(const struct tree *t, double seconds[2])
{
    const struct tree *item = tree_get(t, "seconds");
    item = item != NULL ? item->child : NULL;
    for (int i = 0; i < 2 && item != NULL; i++, item = item->next) {
        if (item->text == NULL || str_to_double(str_of(item->text), &seconds[i]) != ST_OK) {
            seconds[i] = 0;
        }
    }
}

static const char *written_text(struct arena *a, const struct tree *written)
{
    const char *name = tree_text(written, "name", "?");
    if (strcmp(tree_text(written, "where", ""), "inside") == 0) {
        return arena_fmt(a, "operand %s was changed, though it is only read", name);
    }
    return arena_fmt(a, "bytes %s operand %s were written, up to %s from its edge",
                     tree_text(written, "where", "?"), name, tree_text(written, "distance", "?"));
}

void torch_answer_read(struct arena *a, const struct tree *t, struct torch_result *r)
{
    r->forward.verdict = verdict_of_word(tree_text(t, "forward", ""));
    r->backward.verdict = verdict_of_word(tree_text(t, "backward", ""));
    r->message = arena_strdup(a, tree_text(t, "message", ""));
    read_seconds(t, r->seconds);
    const struct tree *written = tree_get(t, "written");
    if (written != NULL) {
        worst_of(r->backward.verdict == TORCH_OK ? &r->backward : &r->forward, TORCH_OVERWRITTEN);
        r->message = written_text(a, written);
    }
}

/* The worker ended within a step: that one carries the verdict, results of the other are lost. */
void torch_answer_ended(struct arena *a, const struct torch_reply *reply, struct torch_result *r)
{
    r->forward.verdict = r->backward.verdict = TORCH_NOT_RUN;
    struct torch_step *step = reply->in_backward ? &r->backward : &r->forward;
    switch (reply->end) {
    case TORCH_FAULT:
        step->verdict = reply->fault.signal == 11 || reply->fault.signal == 7 ? TORCH_FAULTED
                                                                              : TORCH_CRASHED;
        r->fault = reply->fault;
        r->message = reply->fault.signal == 4
                         ? "illegal instruction: a kernel for another processor was chosen"
                         : arena_fmt(a, "signal %d", reply->fault.signal);
        break;
    case TORCH_HUNG:
        step->verdict = TORCH_TIMEOUT;
        r->message = "no answer before the deadline";
        break;
    case TORCH_DIED:
        step->verdict = TORCH_CRASHED;
        r->message = reply->signal != 0
                         ? arena_fmt(a, "killed by signal %d: %s", reply->signal, reply->text)
                         : arena_fmt(a, "ended with exit code %d: %s", reply->code, reply->text);
        break;
    default:
        step->verdict = TORCH_UNTOLD;
        r->message = arena_fmt(a, "no answer but: %s", reply->text);
        break;
    }
}

enum status torch_trial_run(struct torch_agent *agent, struct arena *a, const struct op_problem *p,
                            const struct torch_probe *probe, struct torch_result *ret_result,
                            struct err *err)
{
    struct strbuf text;
    strbuf_init(&text, a, REQUEST_CEILING);
    struct request r = {.agent = agent, .probe = probe, .at = TORCH_SHARED_HEADER};
    json_init(&r.json, &text);
    int64_t id = torch_agent_next_id(agent);
    TRY(write_request(&r, p, id, err));
    struct torch_reply reply = {0};
    TRY(torch_agent_ask(agent, a, &text, id, probe->deadline_ms, &reply, err));
    struct torch_result result = {.message = ""};
    if (reply.end == TORCH_ANSWERED) {
        torch_answer_read(a, reply.answer, &result);
        if (strcmp(tree_text(reply.answer, "forward", ""), "ok") == 0) {
            judge_results(agent, a, p, reply.answer, &result);
        }
    } else {
        torch_answer_ended(a, &reply, &result);
    }
    *ret_result = result;
    return ST_OK;
}
