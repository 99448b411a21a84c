// SPDX-License-Identifier: Apache-2.0
/* Keys with '*': matching them, and running a condition once per index. */
#include <string.h>

#include "base/map.h"
#include "base/vec.h"

#include "knowledge/expr_eval.h"

/* Combinations of indexes looked at in one any(), all() or count(). */
enum {
    MAX_ROUNDS = 10000
};

static bool all_digits(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9') {
            return false;
        }
    }
    return s.n != 0;
}

/* Classic wildcard matching that backtracks to the last '*' only; "[*]" is left to the caller. */
static bool wildcard(const char *glob, const char *text)
{
    const char *star = NULL;
    const char *resume = NULL;
    while (*text != '\0') {
        if (*glob == '*') {
            star = glob++;
            resume = text;
        } else if (*glob == *text) {
            glob++;
            text++;
        } else if (star != NULL) {
            glob = star + 1;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*glob == '*') {
        glob++;
    }
    return *glob == '\0';
}

bool key_glob_match(const char *glob, const char *key, struct str *ret_star)
{
    const char *star = strchr(glob, '*');
    if (star == NULL) {
        return strcmp(glob, key) == 0;
    }
    size_t before = (size_t)(star - glob);
    size_t n = strlen(key);
    if (strncmp(glob, key, before) != 0) {
        return false;
    }
    bool index = before != 0 && glob[before - 1] == '[' && star[1] == ']';
    struct str value;
    if (strchr(star + 1, '*') == NULL) {
        size_t after = strlen(star + 1);
        if (before + after > n || strcmp(star + 1, key + n - after) != 0) {
            return false;
        }
        value = (struct str){.p = key + before, .n = n - before - after};
        if (index && !all_digits(value)) {
            return false;
        }
    } else {
        size_t end = index ? strspn(key + before, "0123456789") : 0;
        value = (struct str){.p = key + before, .n = end};
        if (index ? end == 0 || !key_glob_match(star + 1, key + before + end, NULL)
                  : !wildcard(star, key + before)) {
            return false;
        }
    }
    if (ret_star != NULL) {
        *ret_star = value;
    }
    return true;
}

/* The part of a key that is bound: up to the '*' when it has one, else the whole key. */
static const char *binding_glob(struct arena *a, const char *key)
{
    const char *star = strchr(key, '*');
    if (strchr(star + 1, '*') != NULL) {
        return key;
    }
    size_t n = (size_t)(star - key) + 1 + (star[1] == ']');
    return arena_copy(a, key, n);
}

static const struct binding *find_binding(const struct eval *ev, const char *key)
{
    const struct binding *best = NULL;
    for (size_t i = 0; i < ev->binding_count; i++) {
        const struct binding *b = &ev->bindings[i];
        size_t n = strlen(b->glob);
        if (strncmp(key, b->glob, n) == 0 && (best == NULL || n > strlen(best->glob))) {
            best = b;
        }
    }
    return best;
}

static const char *fill_dollar(struct eval *ev, const char *key)
{
    if (strchr(key, '$') == NULL) {
        return key;
    }
    if (ev->scope->dollar == NULL) {
        return NULL;
    }
    struct strbuf out;
    strbuf_init(&out, ev->scratch, 4096);
    for (const char *p = key; *p != '\0'; p++) {
        if (*p == '$') {
            strbuf_addz(&out, ev->scope->dollar);
        } else {
            strbuf_addc(&out, *p);
        }
    }
    return out.truncated ? NULL : out.p;
}

const char *eval_key(struct eval *ev, const char *key)
{
    key = fill_dollar(ev, key);
    if (key == NULL || strchr(key, '*') == NULL) {
        return key;
    }
    const struct binding *b = find_binding(ev, key);
    return b != NULL ? arena_fmt(ev->scratch, "%s%s", b->concrete, key + strlen(b->glob)) : NULL;
}

/* A glob that waits for its values, with the keys that use it. */
struct unbound {
    const char *glob;
    VEC_OF(const char *) keys;
};

struct unbound_list {
    struct unbound *items;
    size_t count;
    size_t capacity;
};

static void collect(struct eval *ev, uint32_t node, struct unbound_list *list)
{
    const struct expr_node *n = &ev->expr->nodes[node];
    if (n->op == OP_FACT && strchr(n->text, '*') != NULL) {
        const char *key = fill_dollar(ev, n->text);
        if (key == NULL || find_binding(ev, key) != NULL) {
            return;
        }
        const char *glob = binding_glob(ev->scratch, key);
        struct unbound *u = NULL;
        for (size_t i = 0; i < list->count && u == NULL; i++) {
            u = strcmp(list->items[i].glob, glob) == 0 ? &list->items[i] : NULL;
        }
        if (u == NULL) {
            u = VEC_PUSH(ev->scratch, list);
            u->glob = glob;
        }
        *VEC_PUSH(ev->scratch, &u->keys) = key;
    }
    for (uint32_t c = n->first; c != 0; c = ev->expr->nodes[c].next) {
        collect(ev, c, list);
    }
}

struct gather {
    struct arena *arena;
    const char *glob;
    const char *key;
    struct map *seen; /* concrete prefixes, in the order found */
};

static void on_key(void *ctx, const char *concrete_key)
{
    struct gather *g = ctx;
    struct str star;
    if (!key_glob_match(g->key, concrete_key, &star)) {
        return;
    }
    const char *prefix = concrete_key;
    if (strcmp(g->glob, g->key) != 0 || strchr(strchr(g->glob, '*') + 1, '*') == NULL) {
        size_t before = (size_t)(strchr(g->glob, '*') - g->glob);
        prefix = arena_fmt(g->arena, "%.*s%.*s%s", (int)before, g->glob, STR_ARG(star),
                           g->glob + before + 1);
    }
    if (map_count(g->seen) < MAX_ROUNDS) {
        map_put(g->seen, str_of(prefix), g);
    }
}

struct rounds {
    const struct unbound_list *list;
    void (*body)(struct eval *ev, void *ctx);
    void *ctx;
    size_t count;
};

static void bind_next(struct eval *ev, size_t index, struct rounds *r)
{
    if (index == r->list->count) {
        if (r->count < MAX_ROUNDS) {
            r->count++;
            r->body(ev, r->ctx);
        }
        return;
    }
    if (ev->binding_count == EXPR_MAX_BINDINGS || ev->scope->each_key == NULL) {
        return;
    }
    const struct unbound *u = &r->list->items[index];
    struct gather g = {.arena = ev->scratch, .glob = u->glob, .seen = map_new(ev->scratch)};
    for (size_t i = 0; i < u->keys.count; i++) {
        g.key = u->keys.items[i];
        ev->scope->each_key(ev->scope->ctx, g.key, on_key, &g);
    }
    size_t slot = ev->binding_count++;
    for (size_t i = 0; i < map_count(g.seen); i++) {
        ev->bindings[slot] = (struct binding){.glob = u->glob, .concrete = map_key(g.seen, i)};
        bind_next(ev, index + 1, r);
    }
    ev->binding_count--;
}

size_t eval_each_index(struct eval *ev, uint32_t child, void (*body)(struct eval *ev, void *ctx),
                       void *ctx)
{
    struct unbound_list list = {0};
    collect(ev, child, &list);
    struct rounds r = {.list = &list, .body = body, .ctx = ctx};
    bind_next(ev, 0, &r);
    return r.count;
}
