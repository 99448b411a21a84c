// SPDX-License-Identifier: Apache-2.0
/*
 * qualify --plan FILE: what is asked for, as a file that is kept beside the code it speaks of. A key stands for the
 * option of the same name; what the command line says goes before it. Beside options there are the training command
 * and limits of figures.
 */
#include <math.h>
#include <string.h>

#include "base/fs.h"
#include "base/tree.h"
#include "base/vec.h"

#include "cli/qualify/qualify.h"
#include "cli/run/report.h"

enum {
    PLAN_MAX = 1 << 20,
    COMMAND_MAX = 1000,
    FIGURE_WEIGHT = 20 /* points of a figure beyond its limit */
};

enum plan_form {
    FORM_TEXT = 0, /* one word or number */
    FORM_TRUE,     /* true or false */
    FORM_LIST      /* one or a list of them */
};

static const struct plan_key {
    const char *key, *option;
    enum plan_form form;
} keys[] = {
    {"level", "level", FORM_TEXT},
    {"device", "device", FORM_TEXT},
    {"python", "python", FORM_TEXT},
    {"stages", "only", FORM_LIST},
    {"skip", "skip", FORM_LIST},
    {"expect", "expect", FORM_LIST},
    {"timeout", "timeout", FORM_TEXT},
    {"save", "save", FORM_TEXT},
    {"baselines", "baseline", FORM_LIST},
    {"history", "history", FORM_TEXT},
    {"fleet", "fleet", FORM_TRUE},
    {"fleet-wait", "fleet-wait", FORM_TEXT},
    {"collective-bytes", "collective-bytes", FORM_TEXT},
};

static const char *const other_keys[] = {"name", "command", "figures"};

/* Those that stages measure; see qualify_figure. */
static const char *const figure_names[] = {"blas products", "training", "command",
                                           "all-reduce bus bandwidth"};

struct reader {
    struct qualify *q;
    const char *path;
    struct err *err;
};

static enum status wrong(const struct reader *r, const struct tree *t, const char *what)
{
    return err_set(r->err, ST_FORMAT, "%s:%d: %s", r->path, t->line, what);
}

/* ---- options ---- */

static const struct option_spec *option_of(const struct cli *cli, const char *name)
{
    const struct option_spec *o = cli->command->options;
    while (o->name != NULL && strcmp(o->name, name) != 0) {
        o++;
    }
    return o->name != NULL ? o : NULL;
}

static bool is_choice(const char *choices, const char *value)
{
    struct str rest = str_of(choices);
    struct str one;
    while (str_cut(&rest, '|', &one)) {
        if (str_is(one, value)) {
            return true;
        }
    }
    return false;
}

static enum status add_option(struct reader *r, const struct plan_key *k, const struct tree *t,
                              const char *value)
{
    struct cli *cli = r->q->cli;
    const struct option_spec *o = option_of(cli, k->option);
    if (o == NULL) {
        return wrong(r, t, arena_fmt(cli->arena, "'%s' is no option of qualify", k->option));
    }
    if (value != NULL && o->arg != NULL && strchr(o->arg, '|') != NULL &&
        !is_choice(o->arg, value)) {
        return wrong(
            r, t,
            arena_fmt(cli->arena, "%s is '%s': one of %s was expected", k->key, value, o->arg));
    }
    if (value != NULL && (strcmp(k->option, "only") == 0 || strcmp(k->option, "skip") == 0)) {
        struct err why = {0};
        if (qualify_check_stages(k->key, value, &why) != ST_OK) {
            return wrong(r, t, arena_strdup(cli->arena, why.text + strlen("--")));
        }
    } else if (value != NULL && strcmp(k->option, "expect") == 0) {
        struct err why = {0};
        if (run_report_check_expect(value, &why) != ST_OK) {
            return wrong(r, t, arena_strdup(cli->arena, why.text));
        }
    }
    *VEC_PUSH(cli->arena, &cli->uses) = (struct option_use){
        .spec = o, .value = value, .operands_before = cli->operands.count};
    return ST_OK;
}

static bool is_word(const struct tree *t)
{
    return t->kind == TREE_SCALAR && t->value.kind != VALUE_NULL && t->text[0] != '\0';
}

static enum status add_list(struct reader *r, const struct plan_key *k, const struct tree *t)
{
    struct arena *a = r->q->cli->arena;
    if (is_word(t)) {
        return add_option(r, k, t, t->text);
    }
    if (t->kind != TREE_LIST || t->count == 0) {
        return wrong(r, t, arena_fmt(a, "%s takes a word or a list of words", k->key));
    }
    for (const struct tree *c = t->child; c != NULL; c = c->next) {
        if (!is_word(c)) {
            return wrong(r, c, arena_fmt(a, "%s: each entry is a word", k->key));
        }
        TRY(add_option(r, k, c, c->text));
    }
    return ST_OK;
}

static enum status take_option(struct reader *r, const struct plan_key *k, const struct tree *t)
{
    struct arena *a = r->q->cli->arena;
    if (cli_flag(r->q->cli, k->option)) {
        return ST_OK; /* the command line goes before the plan */
    }
    if (k->form == FORM_LIST) {
        return add_list(r, k, t);
    }
    if (k->form == FORM_TRUE) {
        if (t->kind != TREE_SCALAR || t->value.kind != VALUE_BOOL) {
            return wrong(r, t, arena_fmt(a, "%s is true or false", k->key));
        }
        return t->value.boolean ? add_option(r, k, t, NULL) : ST_OK;
    }
    if (!is_word(t)) {
        return wrong(r, t, arena_fmt(a, "%s takes one word or number", k->key));
    }
    return add_option(r, k, t, t->text);
}

/* ---- the rest ---- */

static enum status take_command(struct reader *r, const struct tree *t)
{
    struct cli *cli = r->q->cli;
    if (t->kind != TREE_LIST || t->count == 0 || t->count > COMMAND_MAX) {
        return wrong(r, t, "command is a list of words: [python, train.py, --max_steps, \"120\"]");
    }
    bool given = cli->operands.count != 0;
    for (const struct tree *c = t->child; c != NULL; c = c->next) {
        if (c->kind != TREE_SCALAR || c->value.kind == VALUE_NULL) {
            return wrong(r, c, "command: each entry is a word");
        }
        if (!given) {
            *VEC_PUSH(cli->arena, &cli->operands) = c->text;
        }
    }
    return ST_OK;
}

static enum status take_limit(struct reader *r, const struct tree *t)
{
    struct arena *a = r->q->cli->arena;
    struct qualify_limit limit = {.name = t->key, .least = NAN, .most = NAN};
    bool known = false;
    for (size_t i = 0; i < ARRAY_LEN(figure_names); i++) {
        known = known || strcmp(t->key, figure_names[i]) == 0;
    }
    if (!known) {
        return wrong(
            r, t,
            arena_fmt(
                a,
                "no stage measures a figure '%s': there are blas products, training, command, "
                "all-reduce bus bandwidth",
                t->key));
    }
    for (const struct tree *c = t->child; c != NULL; c = c->next) {
        double x = NAN;
        bool least = c->key != NULL && strcmp(c->key, "at-least") == 0;
        if (c->key == NULL || (!least && strcmp(c->key, "at-most") != 0)) {
            return wrong(r, c, "a figure has at-least, at-most, or both");
        }
        if (c->kind != TREE_SCALAR || str_to_double(str_of(c->text), &x) != ST_OK || !isfinite(x)) {
            return wrong(r, c, arena_fmt(a, "%s takes a number", c->key));
        }
        *(least ? &limit.least : &limit.most) = x;
    }
    if (t->kind != TREE_MAP || t->count == 0) {
        return wrong(r, t, "a figure has at-least, at-most, or both");
    }
    if (limit.least > limit.most) { /* false where one of them is not given */
        return wrong(
            r, t, arena_fmt(a, "no figure is at least %g and at most %g", limit.least, limit.most));
    }
    *VEC_PUSH(a, &r->q->limits) = limit;
    return ST_OK;
}

static enum status take_figures(struct reader *r, const struct tree *t)
{
    if (t->kind != TREE_MAP || t->count == 0) {
        return wrong(r, t, "figures names figures: training: {at-least: 2000}");
    }
    for (const struct tree *c = t->child; c != NULL; c = c->next) {
        TRY(take_limit(r, c));
    }
    return ST_OK;
}

static enum status unknown_key(struct reader *r, const struct tree *t)
{
    const char *best = NULL;
    size_t nearest = 4;
    for (size_t i = 0; i < ARRAY_LEN(keys) + ARRAY_LEN(other_keys); i++) {
        const char *name = i < ARRAY_LEN(keys) ? keys[i].key : other_keys[i - ARRAY_LEN(keys)];
        size_t d = str_distance(str_of(t->key), str_of(name), nearest);
        if (d < nearest) {
            nearest = d;
            best = name;
        }
    }
    return wrong(
        r, t,
        best != NULL
            ? arena_fmt(r->q->cli->arena, "there is no key '%s'; did you mean '%s'?", t->key, best)
            : arena_fmt(r->q->cli->arena, "there is no key '%s'; docs/qualify.md lists them",
                        t->key));
}

static enum status take(struct reader *r, const struct tree *t)
{
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (strcmp(t->key, keys[i].key) == 0) {
            return take_option(r, &keys[i], t);
        }
    }
    if (strcmp(t->key, "command") == 0) {
        return take_command(r, t);
    }
    if (strcmp(t->key, "figures") == 0) {
        return take_figures(r, t);
    }
    if (strcmp(t->key, "name") == 0) {
        return is_word(t) ? ST_OK : wrong(r, t, "name is one line of text");
    }
    return unknown_key(r, t);
}

enum status qualify_plan(struct qualify *q, struct err *err)
{
    static const struct fs live = {.prefix = ""};
    struct arena *a = q->cli->arena;
    struct reader r = {.q = q, .path = cli_value(q->cli, "plan", NULL), .err = err};
    struct str text;
    const struct tree *t;
    if (r.path == NULL) {
        return ST_OK;
    }
    TRY(fs_read(&live, a, r.path, PLAN_MAX, &text, err));
    TRY(tree_from_yaml(a, text, r.path, TREE_LIMITS_DEFAULT, &t, err));
    if (t == NULL || t->kind != TREE_MAP || t->count == 0) {
        return err_set(err, ST_FORMAT,
                       "%s: a plan is a map of keys, such as 'stages: [host, device]'", r.path);
    }
    for (const struct tree *c = t->child; c != NULL; c = c->next) {
        TRY(take(&r, c));
    }
    return ST_OK;
}

/* ---- limits of figures ---- */

static void tell(struct qualify *q, struct finding_list *to, enum severity severity, const char *id,
                 const char *title, const char *claim, struct health *health)
{
    *VEC_PUSH(q->cli->arena,
              health) = (struct health_row){.id = id,
                                            .severity = severity,
                                            .weight = FIGURE_WEIGHT,
                                            .lost = health_lost(severity, FIGURE_WEIGHT)};
    health->score = health_score(health);
    struct finding *f = VEC_PUSH(q->cli->arena, to);
    *f = (struct finding){
        .id = id, .severity = severity, .title = title, .claim = claim, .confidence = 1};
    *VEC_PUSH(q->cli->arena, &f->evidence) = (struct evidence){
        .source = cli_value(q->cli, "plan", ""), .text = title};
}

void qualify_judge_limits(struct qualify *q, struct finding_list *findings, struct health *health)
{
    struct arena *a = q->cli->arena;
    for (size_t i = 0; i < q->limits.count; i++) {
        const struct qualify_limit *l = &q->limits.items[i];
        const struct qualify_figure *f = NULL;
        for (size_t k = 0; k < q->figures.count; k++) {
            f = strcmp(q->figures.items[k].name, l->name) == 0 ? &q->figures.items[k] : f;
        }
        if (f == NULL) {
            tell(q, findings, SEVERITY_UNKNOWN, "plan-figure-not-measured",
                 arena_fmt(a, "The plan limits '%s', and no stage measured it", l->name),
                 "The stage that measures it did not run, or came to no figure.", health);
            continue;
        }
        /* So that a figure that is no number does not pass. */
        if (!isnan(l->least) && !(f->value >= l->least)) {
            tell(q, findings, SEVERITY_ERROR, "plan-figure-too-low",
                 arena_fmt(a, "%s: %.4g %s, the plan asks for at least %.4g", f->name, f->value,
                           f->unit, l->least),
                 "Below what the plan asks for.", health);
        }
        if (!isnan(l->most) && !(f->value <= l->most)) {
            tell(
                q, findings, SEVERITY_ERROR, "plan-figure-too-high",
                arena_fmt(a, "%s: %.4g %s, the plan allows at most %.4g", f->name, f->value,
                          f->unit, l->most),
                "Above what the plan allows: a figure that is too good is often one that measures something else.",
                health);
        }
    }
}
