// SPDX-License-Identifier: Apache-2.0
/* See plan.h. The base is its keys laid over those of the plan, every other route its keys laid over the
 * base: it differs from the base in what it says and in nothing else. Environment, libraries and arguments
 * add up, everything else replaces. */
#include "study/plan.h"

#include <string.h>

#include "base/tree.h"
#include "base/vec.h"

static const char *const plan_keys[] = {
    "name",         "about",     "command", "directory", "environment", "unset",   "preload",
    "library_path", "container", "expect",  "guard",     "serialize",   "repeats", "time_limit",
    "hang",         "base",      "routes",  "factors",   "bisect",      NULL};
static const char *const route_keys[] = {"about",        "command",   "arguments", "directory",
                                         "environment",  "unset",     "preload",   "expect",
                                         "library_path", "container", "guard",     "serialize",
                                         "passes",       "fails",     NULL};
static const char *const list_keys[] = {
    "about", "values", "switches", "arguments",    "command",   "directory", "environment",
    "unset", "expect", "preload",  "library_path", "container", NULL};

struct parsing {
    struct arena *arena;
    const char *path;
    struct plan *plan;
    struct err *err;
};

/* What a route is being made of. */
struct layers {
    struct text_list command, arguments, preload, library_path, container;
    struct plan_route route;
};

static enum status bad(struct parsing *p, const struct tree *at, const char *what)
{
    return err_set(p->err, ST_FORMAT, "%s:%d: %s", p->path, at->line, what);
}

static const char *key_names(struct arena *a, const char *const *keys)
{
    const char *all = keys[0];
    for (size_t i = 1; keys[i] != NULL; i++) {
        all = arena_fmt(a, "%s, %s", all, keys[i]);
    }
    return all;
}

static enum status check_keys(struct parsing *p, const struct tree *t, const char *const *keys,
                              const char *where)
{
    if (t->kind != TREE_MAP) {
        return bad(p, t, arena_fmt(p->arena, "%s should be a map of keys and values", where));
    }
    for (const struct tree *c = t->child; c != NULL; c = c->next) {
        const char *nearest = NULL;
        size_t distance = 3;
        bool known = false;
        for (size_t i = 0; keys[i] != NULL && !known; i++) {
            known = strcmp(keys[i], c->key) == 0;
            size_t d = str_distance(str_of(keys[i]), str_of(c->key), distance);
            if (d < distance) {
                distance = d;
                nearest = keys[i];
            }
        }
        if (!known) {
            const char *hint = nearest != NULL ? arena_fmt(p->arena, "did you mean '%s'?", nearest)
                                               : arena_fmt(p->arena, "its keys are %s",
                                                           key_names(p->arena, keys));
            return bad(p, c, arena_fmt(p->arena, "%s has no key '%s'; %s", where, c->key, hint));
        }
    }
    return ST_OK;
}

/* "{value}" replaced. */
static const char *filled(struct arena *a, const char *text, const char *value)
{
    struct str rest = str_of(text);
    struct strbuf out;
    if (value == NULL || !str_has(rest, "{value}")) {
        return text;
    }
    strbuf_init(&out, a, 65536);
    size_t at;
    while ((at = str_find(rest, "{value}", 0)) != SIZE_MAX) {
        strbuf_add(&out, str_slice(rest, 0, at));
        strbuf_addz(&out, value);
        rest = str_slice(rest, at + 7, rest.n);
    }
    strbuf_add(&out, rest);
    return out.p;
}

static enum status text_of(struct parsing *p, const struct tree *t, const char **ret_text)
{
    if (t->kind != TREE_SCALAR || t->text == NULL) {
        return bad(p, t,
                   arena_fmt(p->arena, "'%s' should be a text or number",
                             t->key != NULL ? t->key : "the item"));
    }
    *ret_text = t->text;
    return ST_OK;
}

/* Appends the items of a list, or the one scalar. */
static enum status take_list(struct parsing *p, const struct tree *map, const char *key,
                             const char *value, struct text_list *to)
{
    const struct tree *t = tree_get(map, key);
    const char *text = NULL;
    if (t == NULL) {
        return ST_OK;
    }
    if (t->kind == TREE_MAP) {
        return bad(p, t, arena_fmt(p->arena, "'%s' should be a list", key));
    }
    if (t->kind == TREE_SCALAR) {
        TRY(text_of(p, t, &text));
        *VEC_PUSH(p->arena, to) = filled(p->arena, text, value);
        return ST_OK;
    }
    for (const struct tree *c = t->child; c != NULL; c = c->next) {
        TRY(text_of(p, c, &text));
        *VEC_PUSH(p->arena, to) = filled(p->arena, text, value);
    }
    return ST_OK;
}

/* Libraries of a route before those of the base: the loader takes the first that it finds. */
static enum status take_first(struct parsing *p, const struct tree *map, const char *key,
                              const char *value, struct text_list *to)
{
    struct text_list list = {0};
    TRY(take_list(p, map, key, value, &list));
    for (size_t i = 0; i < to->count; i++) {
        *VEC_PUSH(p->arena, &list) = to->items[i];
    }
    *to = list;
    return ST_OK;
}

static enum status take_command(struct parsing *p, const struct tree *map, const char *value,
                                struct text_list *to)
{
    const struct tree *t = tree_get(map, "command");
    if (t == NULL) {
        return ST_OK;
    }
    if (t->kind != TREE_LIST || t->count == 0) {
        return bad(p, t,
                   "'command' should be a list of words, as in [python, train.py]; for a "
                   "shell's line write [sh, -c, \"...\"]");
    }
    *to = (struct text_list){0};
    return take_list(p, map, "command", value, to);
}

static void set_variable(struct arena *a, struct text_list *env, const char *name,
                         const char *entry)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < env->count; i++) {
        if (strncmp(env->items[i], name, n) == 0 &&
            (env->items[i][n] == '=' || env->items[i][n] == '\0')) {
            env->items[i] = entry;
            return;
        }
    }
    *VEC_PUSH(a, env) = entry;
}

static enum status take_environment(struct parsing *p, const struct tree *map, const char *value,
                                    struct text_list *env)
{
    const struct tree *t = tree_get(map, "environment");
    const char *text = NULL;
    if (t != NULL && t->kind != TREE_MAP) {
        return bad(p, t, "'environment' should be a map, as in {HIP_VISIBLE_DEVICES: \"0\"}");
    }
    for (const struct tree *c = t != NULL ? t->child : NULL; c != NULL; c = c->next) {
        TRY(text_of(p, c, &text));
        if (c->key[0] == '\0' || strchr(c->key, '=') != NULL) {
            return bad(p, c, arena_fmt(p->arena, "'%s' is no name of a variable", c->key));
        }
        set_variable(p->arena, env, c->key,
                     arena_fmt(p->arena, "%s=%s", c->key, filled(p->arena, text, value)));
    }
    struct text_list names = {0};
    TRY(take_list(p, map, "unset", value, &names));
    for (size_t i = 0; i < names.count; i++) {
        set_variable(p->arena, env, names.items[i], names.items[i]);
    }
    return ST_OK;
}

static enum status take_flag(struct parsing *p, const struct tree *map, const char *key,
                             bool *ret_flag)
{
    const struct tree *t = tree_get(map, key);
    if (t != NULL && (t->kind != TREE_SCALAR || t->value.kind != VALUE_BOOL)) {
        return bad(p, t, arena_fmt(p->arena, "'%s' should be true or false", key));
    }
    *ret_flag = t != NULL ? t->value.boolean : *ret_flag;
    return ST_OK;
}

static enum status take_text(struct parsing *p, const struct tree *map, const char *key,
                             const char *value, const char **ret_text)
{
    const struct tree *t = tree_get(map, key);
    if (t == NULL) {
        return ST_OK;
    }
    TRY(text_of(p, t, ret_text));
    *ret_text = filled(p->arena, *ret_text, value);
    return ST_OK;
}

static enum status take_number(struct parsing *p, const struct tree *map, const char *key,
                               double least, double most, double *ret_number)
{
    const struct tree *t = tree_get(map, key);
    double v;
    if (t == NULL) {
        return ST_OK;
    }
    if (t->kind != TREE_SCALAR || t->text == NULL || str_to_double(str_of(t->text), &v) != ST_OK ||
        !(v >= least) || !(v <= most)) {
        return bad(p, t,
                   arena_fmt(p->arena, "'%s' should be a number from %g to %g", key, least, most));
    }
    *ret_number = v;
    return ST_OK;
}

/* The keys of one map over what is there. */
static enum status lay(struct parsing *p, const struct tree *map, const char *value,
                       struct layers *l)
{
    struct plan_route *r = &l->route;
    TRY(take_command(p, map, value, &l->command));
    TRY(take_list(p, map, "arguments", value, &l->arguments));
    TRY(take_first(p, map, "preload", value, &l->preload));
    TRY(take_first(p, map, "library_path", value, &l->library_path));
    TRY(take_list(p, map, "expect", value, &r->expect));
    if (tree_get(map, "container") != NULL) {
        l->container = (struct text_list){0};
        TRY(take_list(p, map, "container", value, &l->container));
    }
    TRY(take_environment(p, map, value, &r->environment));
    TRY(take_text(p, map, "directory", value, &r->directory));
    TRY(take_text(p, map, "passes", value, &r->passes));
    TRY(take_text(p, map, "fails", value, &r->fails));
    TRY(take_flag(p, map, "guard", &r->guard));
    return take_flag(p, map, "serialize", &r->serialize);
}

/* Lists grow in place: a route must not grow those of the plan. */
static struct text_list copied(struct arena *a, const struct text_list *l)
{
    struct text_list out = {0};
    for (size_t i = 0; i < l->count; i++) {
        *VEC_PUSH(a, &out) = l->items[i];
    }
    return out;
}

static struct layers copy_layers(struct arena *a, const struct layers *l)
{
    struct layers out = *l;
    out.command = copied(a, &l->command);
    out.arguments = copied(a, &l->arguments);
    out.preload = copied(a, &l->preload);
    out.library_path = copied(a, &l->library_path);
    out.container = copied(a, &l->container);
    out.route.environment = copied(a, &l->route.environment);
    out.route.expect = copied(a, &l->route.expect);
    return out;
}

static const char *joined(struct arena *a, const struct text_list *l)
{
    struct strbuf out;
    strbuf_init(&out, a, 65536);
    for (size_t i = 0; i < l->count; i++) {
        strbuf_fmt(&out, "%s%s", i > 0 ? ":" : "", l->items[i]);
    }
    return out.p;
}

/* "-e NAME=VALUE" for each variable, where the prefix of a container says {environment}. */
static void add_container(struct arena *a, const struct layers *l, struct text_list *to)
{
    const struct text_list *env = &l->route.environment;
    for (size_t i = 0; i < l->container.count; i++) {
        if (strcmp(l->container.items[i], "{environment}") != 0) {
            *VEC_PUSH(a, to) = l->container.items[i];
            continue;
        }
        for (size_t e = 0; e < env->count; e++) {
            if (strchr(env->items[e], '=') != NULL) {
                *VEC_PUSH(a, to) = "-e";
                *VEC_PUSH(a, to) = env->items[e];
            }
        }
    }
}

static void finish_route(struct parsing *p, struct layers *l)
{
    struct arena *a = p->arena;
    struct plan_route *r = &l->route;
    if (l->preload.count > 0) {
        set_variable(a, &r->environment, "LD_PRELOAD",
                     arena_fmt(a, "LD_PRELOAD=%s", joined(a, &l->preload)));
    }
    if (l->library_path.count > 0) {
        set_variable(a, &r->environment, "LD_LIBRARY_PATH",
                     arena_fmt(a, "LD_LIBRARY_PATH=%s", joined(a, &l->library_path)));
    }
    r->command = (struct text_list){0};
    add_container(a, l, &r->command);
    for (size_t i = 0; i < l->command.count; i++) {
        *VEC_PUSH(a, &r->command) = l->command.items[i];
    }
    for (size_t i = 0; i < l->arguments.count; i++) {
        *VEC_PUSH(a, &r->command) = l->arguments.items[i];
    }
    if (r->directory == NULL) {
        r->directory = ".";
    }
}

static enum status add_route(struct parsing *p, const struct tree *at, struct layers *l,
                             const char *name)
{
    struct strbuf clean;
    strbuf_init(&clean, p->arena, PLAN_NAME_MAX + 1);
    for (const char *c = name; *c != '\0'; c++) {
        bool fits = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                    (*c >= '0' && *c <= '9') || strchr("_-+=", *c) != NULL ||
                    (*c == '.' && c != name);
        strbuf_addc(&clean, fits ? *c : '_');
    }
    if (clean.n == 0 || clean.truncated) {
        return bad(p, at,
                   arena_fmt(p->arena, "the name of a route has 1 to %d characters, not '%s'",
                             PLAN_NAME_MAX, name));
    }
    for (size_t i = 0; i < p->plan->routes.count; i++) {
        if (strcmp(p->plan->routes.items[i].name, clean.p) == 0) {
            return bad(p, at, arena_fmt(p->arena, "a second route with the name '%s'", clean.p));
        }
    }
    if (p->plan->routes.count == PLAN_ROUTES_MAX) {
        return bad(p, at, arena_fmt(p->arena, "more than %d routes", PLAN_ROUTES_MAX));
    }
    finish_route(p, l);
    l->route.name = clean.p;
    *VEC_PUSH(p->arena, &p->plan->routes) = l->route;
    return ST_OK;
}

static enum status lay_route(struct parsing *p, const struct tree *t, struct layers *l)
{
    if (t->kind == TREE_SCALAR && t->value.kind == VALUE_NULL) { /* "base:" alone */
        return ST_OK;
    }
    TRY(check_keys(p, t, route_keys, arena_fmt(p->arena, "route '%s'", t->key)));
    TRY(take_text(p, t, "about", NULL, &l->route.about));
    return lay(p, t, NULL, l);
}

static enum status find_base(struct parsing *p, const struct tree *plan, const struct tree *routes,
                             const struct tree **ret_base)
{
    const struct tree *named = tree_get(plan, "base");
    const char *name = NULL;
    if (named == NULL) {
        *ret_base = routes->child;
        return ST_OK;
    }
    TRY(text_of(p, named, &name));
    *ret_base = tree_get(routes, name);
    return *ret_base != NULL
               ? ST_OK
               : bad(p, named, arena_fmt(p->arena, "'base' names no route: '%s'", name));
}

/* `over` are the keys of the plan; those of the base are laid over them in place. */
static enum status add_routes(struct parsing *p, const struct tree *plan, struct layers *over)
{
    const struct tree *t = tree_get(plan, "routes");
    const struct tree *base;
    if (t->kind != TREE_MAP || t->count == 0) {
        return bad(p, t, "'routes' should be a map of names and routes");
    }
    TRY(find_base(p, plan, t, &base));
    TRY(lay_route(p, base, over));
    for (const struct tree *c = t->child; c != NULL; c = c->next) {
        struct layers l = copy_layers(p->arena, over);
        if (c == base) {
            p->plan->base = p->plan->routes.count;
        } else {
            l.route.about = l.route.passes = l.route.fails = NULL;
            l.route.expect = (struct text_list){0}; /* the base's speak of what the route changes */
            TRY(lay_route(p, c, &l));
        }
        TRY(add_route(p, c, &l, c->key));
    }
    return ST_OK;
}

/* Does anything but the list itself and its words for the reader change with the value? */
static bool uses_value(const struct tree *t)
{
    if (t->kind == TREE_SCALAR) {
        return t->text != NULL && strstr(t->text, "{value}") != NULL;
    }
    for (const struct tree *c = t->child; c != NULL; c = c->next) {
        bool list = c->key != NULL &&
                    (strcmp(c->key, "values") == 0 || strcmp(c->key, "about") == 0);
        if (!list && uses_value(c)) {
            return true;
        }
    }
    return false;
}

/* One route for each value of a list: levels of a factor, or positions of a search. */
static enum status add_values(struct parsing *p, const struct tree *t, const struct layers *plan,
                              const char *factor)
{
    struct arena *a = p->arena;
    struct text_list values = {0};
    TRY(take_list(p, t, "values", NULL, &values));
    if (values.count < (factor == NULL ? 2 : 1)) {
        return bad(p, t,
                   factor == NULL ? "'bisect' needs 'values' or 'switches', two at least"
                                  : "a factor needs 'values'");
    }
    if (!uses_value(t)) { /* all routes would be the same run */
        return bad(
            p, t,
            "no text beside 'values' holds {value}, so nothing changes with it: write it where "
            "the value belongs, as in arguments: [\"--batch={value}\"]");
    }
    for (size_t i = 0; i < values.count; i++) {
        struct layers l = copy_layers(a, plan);
        l.route.about = l.route.passes = l.route.fails = NULL;
        TRY(take_text(p, t, "about", values.items[i], &l.route.about));
        TRY(lay(p, t, values.items[i], &l));
        l.route.factor = factor;
        l.route.level = values.items[i];
        TRY(add_route(p, t, &l,
                      factor != NULL ? arena_fmt(a, "%s=%s", factor, values.items[i])
                                     : values.items[i]));
    }
    return ST_OK;
}

/* Position k has the first k switches. */
static enum status add_switches(struct parsing *p, const struct tree *t, const struct layers *plan)
{
    struct arena *a = p->arena;
    struct text_list switches = {0};
    TRY(take_list(p, t, "switches", NULL, &switches));
    for (size_t k = 0; k <= switches.count; k++) {
        struct layers l = copy_layers(a, plan);
        TRY(lay(p, t, NULL, &l));
        for (size_t i = 0; i < k; i++) {
            struct str rest = str_of(switches.items[i]);
            struct str name;
            if (!str_has(rest, "=") || !str_cut(&rest, '=', &name) || name.n == 0) {
                return bad(p, t,
                           arena_fmt(a, "'%s' is no switch: write NAME=VALUE", switches.items[i]));
            }
            set_variable(a, &l.route.environment, str_dup(a, name), switches.items[i]);
        }
        l.route.level = k > 0 ? switches.items[k - 1] : "none of the switches";
        l.route.about = k > 0 ? arena_fmt(a, "with %s and those before it", l.route.level) : NULL;
        TRY(add_route(p, t, &l, arena_fmt(a, "first-%zu", k)));
    }
    return ST_OK;
}

static enum status add_all(struct parsing *p, const struct tree *t, struct layers *plan)
{
    const struct tree *routes = tree_get(t, "routes");
    const struct tree *factors = tree_get(t, "factors");
    const struct tree *bisect = tree_get(t, "bisect");
    if ((routes != NULL || factors != NULL) == (bisect != NULL)) {
        return bad(p, t, "a plan has either 'routes' and 'factors', or 'bisect'");
    }
    if (bisect != NULL) {
        p->plan->bisect = true;
        TRY(check_keys(p, bisect, list_keys, "'bisect'"));
        return tree_get(bisect, "switches") != NULL ? add_switches(p, bisect, plan)
                                                    : add_values(p, bisect, plan, NULL);
    }
    if (routes != NULL) {
        TRY(add_routes(p, t, plan));
    } else {
        struct layers l = copy_layers(p->arena, plan);
        TRY(add_route(p, t, &l, "base"));
    }
    if (factors != NULL && factors->kind != TREE_MAP) {
        return bad(p, factors, "'factors' should be a map of names and factors");
    }
    for (const struct tree *c = factors != NULL ? factors->child : NULL; c != NULL; c = c->next) {
        TRY(check_keys(p, c, list_keys, arena_fmt(p->arena, "factor '%s'", c->key)));
        TRY(add_values(p, c, plan, c->key));
    }
    return ST_OK;
}

enum status plan_parse(struct arena *a, struct str text, const char *path,
                       const struct text_list *command, const struct plan **ret_plan,
                       struct err *err)
{
    const struct tree *t;
    struct plan *plan = arena_alloc(a, sizeof *plan);
    struct parsing p = {.arena = a, .path = path, .plan = plan, .err = err};
    struct layers l = {0};
    double repeats = 5;
    *plan = (struct plan){.name = path, .path = path, .text = text, .hang_s = 600};
    TRY(tree_from_yaml(a, text, path, TREE_LIMITS_DEFAULT, &t, err));
    if (t == NULL || t->kind != TREE_MAP) {
        return err_set(err, ST_FORMAT, "%s: a plan is a map with the keys 'command' and 'routes'",
                       path);
    }
    TRY(check_keys(&p, t, plan_keys, "a plan"));
    TRY(take_text(&p, t, "name", NULL, &plan->name));
    TRY(take_text(&p, t, "about", NULL, &plan->about));
    TRY(take_number(&p, t, "repeats", 1, PLAN_REPEATS_MAX, &repeats));
    TRY(take_number(&p, t, "time_limit", 0.1, 1e7, &plan->time_limit_s));
    TRY(take_number(&p, t, "hang", 1, 1e7, &plan->hang_s));
    plan->repeats = (int64_t)repeats;
    TRY(lay(&p, t, NULL, &l));
    if (command != NULL && command->count > 0) {
        l.command = copied(a, command);
    }
    TRY(add_all(&p, t, &l));
    for (size_t i = 0; i < plan->routes.count; i++) {
        if (plan->routes.items[i].command.count == 0) {
            return err_set(err, ST_USAGE,
                           "%s names no command for route '%s': give it after the plan, as in "
                           "assay matrix %s -- python train.py",
                           path, plan->routes.items[i].name, path);
        }
    }
    *ret_plan = plan;
    return ST_OK;
}
