// SPDX-License-Identifier: Apache-2.0
/*
 * assay probe --check FILE.safetensors: tensors that any framework saved, an operator's inputs with
 * what came out of it, judged against the reference. How to write such a file: docs/probe.md.
 */
#include "cli/probe/check.h"

#include <stdio.h>
#include <string.h>

#include "base/vec.h"

#include "cli/session.h"
#include "model/tensor_file.h"
#include "ops/judge_op.h"
#include "ops/op_given.h"

/* Doubles for all tensors and their bounds: about 3 GB. */
#define CHECK_ELEMENTS_MAX ((uint64_t)1 << 27)

/* One file on trial. */
struct check {
    struct arena *arena;
    const char *path;
    struct tensor_file *file;
    struct op_case c;
    bool set[OP_PARAMS_MAX];
    const char *where; /* what made the tensors, for evidence */
    struct op_given_list given;
    struct op_problem problem;
};

static const char *meta_of(const struct tensor_file *f, const char *key)
{
    for (size_t i = 0; i < f->meta_count; i++) {
        if (strcmp(f->meta[i].key, key) == 0) {
            return f->meta[i].value;
        }
    }
    return NULL;
}

static const char *operator_names(struct arena *a)
{
    struct strbuf b;
    strbuf_init(&b, a, 1000);
    for (size_t i = 0; op_table[i]; i++) {
        strbuf_fmt(&b, "%s%s", i ? ", " : "", op_table[i]->name);
    }
    return b.p;
}

/* op and attributes from the metadata; `format` is what torch writes, `source` names the maker. */
static enum status read_metadata(struct check *k, struct err *err)
{
    const char *name = meta_of(k->file, "op");
    const struct op *op = name ? op_find(str_of(name)) : NULL;
    if (!op) {
        const char *shown = name ? issue_text(k->arena, str_of(name)) : "";
        return err_set(err, ST_FORMAT,
                       name ? "its metadata names the operator '%s'; known are %s"
                            : "its metadata has no key 'op'%s; it must name one of %s",
                       shown, operator_names(k->arena));
    }
    op_case_init(&k->c, op, DTYPE_F32);
    k->where = k->path;
    for (size_t i = 0; i < k->file->meta_count; i++) {
        struct str key = str_of(k->file->meta[i].key), value = str_of(k->file->meta[i].value);
        if (str_is(key, "op") || str_is(key, "format")) {
            continue;
        }
        if (str_is(key, "source")) {
            k->where = issue_text(k->arena, value);
            continue;
        }
        if (str_is(key, "math") && str_is(value, "tf32")) {
            k->c.math = OP_MATH_TF32;
            continue;
        }
        TRY(op_case_set(&k->c, key, value, err));
        for (size_t p = 0; p < op->param_count; p++) {
            k->set[p] |= str_is(key, op->params[p].name);
        }
    }
    return ST_OK;
}

static enum status take_tensor(struct check *k, const struct tensor *t, struct err *err)
{
    const char *shown = issue_text(k->arena, str_of(t->name));
    struct op_given g = {0};
    enum status st = op_given_name(k->c.op, str_of(t->name), &g.role, &g.position, err);
    if (st != ST_OK) {
        return err_context(err, "tensor '%s'", shown);
    }
    if (!t->present || t->type->values != VALUES_PLAIN || t->stride) {
        return err_set(err, ST_UNSUPPORTED,
                       "tensor '%s' (%s) is not a dense tensor of plain numbers", shown,
                       t->type->name);
    }
    if (t->rank > OP_RANK_MAX || t->elements > CHECK_ELEMENTS_MAX) {
        return err_set(err, ST_LIMIT,
                       "tensor '%s' has %u dimensions and %llu elements; at most %d "
                       "and 2^27 are compared",
                       shown, t->rank, (unsigned long long)t->elements, OP_RANK_MAX);
    }
    g.dtype = t->type->dtype;
    g.rank = t->rank;
    for (uint32_t d = 0; d < t->rank; d++) {
        g.dim[d] = (int64_t)t->shape[d];
    }
    g.bytes = k->file->map.p + t->offset;
    if (op_given_find(&k->given, g.role, g.position) || k->given.count == OP_GIVEN_MAX) {
        return err_set(err, ST_FORMAT, "tensor '%s' is there twice", shown);
    }
    k->given.items[k->given.count++] = g;
    return ST_OK;
}

static enum status read_tensors(struct check *k, struct err *err)
{
    uint64_t total = 0;
    for (size_t i = 0; i < k->file->count; i++) {
        TRY(take_tensor(k, &k->file->tensors[i], err));
        total += k->file->tensors[i].elements;
    }
    if (total > CHECK_ELEMENTS_MAX) {
        return err_set(err, ST_LIMIT,
                       "its tensors have %llu elements together; at most 2^27 are "
                       "compared at a time: save a smaller case",
                       (unsigned long long)total);
    }
    return ST_OK;
}

/* Numbers into the problem; results get the format they came in, which their rounding goes by. */
static void load(struct check *k)
{
    struct op_problem *p = &k->problem;
    for (size_t i = 0; i < k->given.count; i++) {
        const struct op_given *g = &k->given.items[i];
        struct op_array *lists[] = {p->input, p->output, p->grad, p->grad_output};
        struct op_array *array = &lists[g->role][g->position];
        array->dtype = g->dtype;
        if (g->role == OP_GIVEN_INPUT || g->role == OP_GIVEN_GRAD_OUTPUT) {
            dtype_to_double(g->dtype, g->bytes, array->count, array->value);
        }
    }
}

/* A scalar loss is differentiated by itself; other outputs without a gradient had none. */
static bool complete_grad_outputs(struct check *k)
{
    bool any = false;
    for (size_t i = 0; k->c.op->backward && i < k->c.op->output_count; i++) {
        struct op_array *dy = &k->problem.grad_output[i];
        bool given = op_given_find(&k->given, OP_GIVEN_GRAD_OUTPUT, i) != NULL;
        if (dy->spec && !given && dy->rank == 0) {
            dy->value[0] = 1;
            given = true;
        }
        any |= given;
    }
    return any;
}

static void judge_one(struct check *k, enum op_given_role role, size_t i, bool known,
                      struct op_judged *ret_judged)
{
    bool gradient = role == OP_GIVEN_GRAD;
    const struct op_array *want = gradient ? &k->problem.grad[i] : &k->problem.output[i];
    const struct op_given *g = op_given_find(&k->given, role, i);
    if (g && known) {
        op_judge(want, gradient, g->dtype, g->bytes, NULL, ret_judged);
        return;
    }
    const char *why = g ? arena_fmt(k->arena, "the file has no grad_output tensor to compare it by")
                        : arena_fmt(k->arena, "the file has no tensor '%s%s'",
                                    gradient ? "grad." : "output.", want->spec->name);
    op_judge_untold(want, gradient, why, ret_judged);
}

static size_t judge_all(struct check *k, struct op_judged *ret_items)
{
    bool backward = complete_grad_outputs(k);
    size_t n = 0;
    op_problem_solve(&k->problem, backward);
    for (size_t i = 0; i < k->c.op->output_count; i++) {
        judge_one(k, OP_GIVEN_OUTPUT, i, true, &ret_items[n++]);
    }
    for (size_t i = 0; i < k->c.op->input_count; i++) {
        if (k->problem.grad[i].spec) {
            judge_one(k, OP_GIVEN_GRAD, i, backward, &ret_items[n++]);
        }
    }
    return n;
}

static enum status check_file(struct check *k, struct finding *ret_finding, struct err *err)
{
    struct issues issues;
    issues_init(&issues, k->arena, k->path);
    TRY(tensor_file_open(k->arena, k->path, &issues, &k->file, err));
    struct op_judged items[OP_INPUTS_MAX + OP_OUTPUTS_MAX];
    for (size_t i = 0; i < issues.list.count; i++) {
        if (issues.list.items[i].severity == SEVERITY_ERROR) {
            return err_set(err, ST_FORMAT, "%s", issues.list.items[i].claim);
        }
    }
    TRY(read_metadata(k, err));
    TRY(read_tensors(k, err));
    TRY(op_given_case(&k->c, k->set, &k->given, err));
    TRY(op_problem_make(k->arena, &k->c, &k->problem, err));
    load(k);
    size_t count = judge_all(k, items);
    op_judge_finding(k->arena, &k->c, k->where, items, count, ret_finding);
    return ST_OK;
}

int probe_check(struct cli *cli)
{
    struct finding_list findings = {0};
    for (size_t i = 0; cli_repeat(cli, "check", i); i++) {
        struct check k = {.arena = cli->arena, .path = cli_repeat(cli, "check", i)};
        struct err err = {0};
        struct finding f;
        cli_progress(cli, "checking %s", k.path);
        enum status st = check_file(&k, &f, &err);
        cli_progress(cli, NULL);
        tensor_file_close(k.file);
        if (st != ST_OK) {
            return cli_fail(cli, EXIT_UNKNOWN, "%s: %s", k.path, err.text);
        }
        *VEC_PUSH(cli->arena, &findings) = f;
    }
    struct report report = {.command = "probe", .schema_version = 1};
    report.lists[report.list_count++] = (struct report_list){.key = "findings",
                                                             .findings = &findings};
    report.numbers[report.number_count++] = (struct report_number){
        .key = "probes", .value = (int64_t)findings.count};
    report.verdict = arena_fmt(cli->arena, "probe: %s", session_counts(cli, &findings));
    return session_report(cli, &report, session_exit(&findings));
}
