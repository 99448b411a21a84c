// SPDX-License-Identifier: Apache-2.0
/* What one node wrote, taken apart into cells. The files are foreign: only what a rule names is kept. */
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/tree.h"
#include "base/vec.h"

#include "facts/facts.h"
#include "snapshot/fleet.h"
#include "snapshot/stack.h"

enum {
    KEY_MAX = 512,
    TEXT_MAX = 2000,
    VALUE_MAX = FLEET_FILE_MAX /* a value is no longer than its file */
};

/* One file on its way into the fleet. */
struct reading {
    struct fleet *fleet;
    struct arena *scratch;
    uint32_t node;
    enum fleet_kind kind;
    struct err *err;
};

void fleet_init(struct arena *a, const struct fleet_rules *rules, struct fleet *ret_fleet)
{
    *ret_fleet = (struct fleet){
        .arena = a, .rules = rules, .items = map_new(a), .texts = map_new(a), .passed = map_new(a)};
}

const char *fleet_node_name(struct arena *a, const char *path)
{
    static const char *const ends[] = {".json",    ".lock",   ".facts",  ".snapshot",
                                       ".qualify", ".doctor", ".figures"};
    const char *slash = strrchr(path, '/');
    struct str name = str_of(slash != NULL ? slash + 1 : path);
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        if (name.n > strlen(ends[i]) && str_ends(name, ends[i])) {
            name = str_slice(name, 0, name.n - strlen(ends[i]));
        }
    }
    char *copy = str_dup(a, name);
    for (char *p = copy; *p != '\0'; p++) {
        *p = (unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p;
    }
    return copy;
}

/* One pointer a text. A long one is kept as its beginning, length and hash: still equal only to itself. */
static const char *intern(struct reading *r, const char *text)
{
    struct fleet *f = r->fleet;
    struct str s = str_of(text);
    if (s.n > TEXT_MAX) {
        s = str_of(arena_fmt(r->scratch, "%.*s... (%zu bytes, hash %016llx)", TEXT_MAX, text, s.n,
                             (unsigned long long)digest_quick(text, s.n, 0)));
    }
    const char *known = map_get(f->texts, s);
    if (known == NULL) {
        known = str_dup(f->arena, s);
        map_put(f->texts, s, (void *)known);
    }
    return known;
}

/* The item of a key that a rule names, or NULL. */
static struct fleet_item *item_of(struct reading *r, const char *key)
{
    struct fleet *f = r->fleet;
    if (strlen(key) > KEY_MAX) {
        return NULL;
    }
    const char *full = arena_fmt(r->scratch, "%d/%s", (int)r->kind, key);
    struct fleet_item *item = map_get(f->items, str_of(full));
    if (item != NULL || map_get(f->passed, str_of(full)) != NULL) {
        return item;
    }
    const struct fleet_rule *rule = fleet_rule_find(f->rules, r->kind, key);
    if (rule == NULL && map_count(f->passed) < FLEET_MAX_ITEMS) {
        map_put(f->passed, str_of(full), f);
    }
    if (rule != NULL && map_count(f->items) < FLEET_MAX_ITEMS) {
        item = arena_alloc(f->arena, sizeof *item);
        item->key = arena_strdup(f->arena, key);
        item->rule = rule;
        map_put(f->items, str_of(full), item);
    }
    return item;
}

/* Without the words that differ on every node. */
static const char *without_words(struct reading *r, const char *text, const char *leave_out)
{
    struct strbuf out;
    struct str rest = str_of(text);
    struct str word;
    strbuf_init(&out, r->scratch, VALUE_MAX);
    while (str_cut(&rest, ' ', &word)) {
        struct str list = str_of(leave_out);
        struct str start;
        bool kept = word.n != 0;
        while (kept && str_cut(&list, ' ', &start)) {
            kept = start.n == 0 || word.n < start.n || memcmp(word.p, start.p, start.n) != 0;
        }
        if (kept) {
            strbuf_addz(&out, out.n != 0 ? " " : "");
            strbuf_add(&out, word);
        }
    }
    return out.p;
}

static void add_cell(struct reading *r, const char *key, enum fleet_cell_state state,
                     const char *text)
{
    struct fleet *f = r->fleet;
    struct fleet_item *item = item_of(r, key);
    if (item == NULL || f->cell_count >= FLEET_MAX_CELLS) {
        return;
    }
    if (item->cells.count != 0 && item->cells.items[item->cells.count - 1].node == r->node) {
        return; /* said twice in one file: the first counts */
    }
    struct fleet_cell cell = {.node = r->node, .state = state};
    if (state == FLEET_KNOWN && item->rule->compare == FLEET_WORDS) {
        text = without_words(r, text, item->rule->with);
    }
    if (state == FLEET_KNOWN && item->rule->compare >= FLEET_NUMBER &&
        str_to_double(str_of(text), &cell.number) != ST_OK) {
        cell.state = FLEET_UNREAD;
        text = "no number";
    }
    cell.text = intern(r, text);
    *VEC_PUSH(f->arena, &item->cells) = cell;
    f->cell_count++;
}

static void add_unread(struct reading *r, const char *prefix)
{
    struct fleet *f = r->fleet;
    *VEC_PUSH(f->arena, &f->nodes.items[r->node].unread) = arena_fmt(f->arena, "%d/%s",
                                                                     (int)r->kind, prefix);
}

/* {"state": ..., "value": ..., "reason": ...}; see facts_json.h. */
static enum status check_facts(struct reading *r, const struct tree *facts, const char *name)
{
    for (const struct tree *n = facts->child; n != NULL; n = n->next) {
        const struct tree *value = tree_get(n, "value");
        const char *state = tree_text(n, "state", NULL);
        if (n->kind != TREE_MAP || state == NULL) {
            return err_set(r->err, ST_FORMAT, "%s: the fact '%.200s' has no state", name, n->key);
        }
        if (strcmp(state, fact_state_name(FACT_KNOWN)) == 0 &&
            (value == NULL || value->kind == TREE_MAP)) {
            return err_set(r->err, ST_FORMAT, "%s: the fact '%.200s' is known and has no value",
                           name, n->key);
        }
        size_t s = 0;
        while (s < FACT_STATE_COUNT && strcmp(state, fact_state_name((enum fact_state)s)) != 0) {
            s++;
        }
        if (s == FACT_STATE_COUNT) {
            return err_set(r->err, ST_FORMAT, "%s: the fact '%.200s' has no state that exists",
                           name, n->key);
        }
    }
    return ST_OK;
}

static void add_fact(struct reading *r, const struct tree *n)
{
    const char *state = tree_text(n, "state", "");
    if (strcmp(state, fact_state_name(FACT_KNOWN)) == 0) {
        struct value v = tree_value(r->scratch, tree_get(n, "value"));
        struct strbuf text;
        strbuf_init(&text, r->scratch, VALUE_MAX);
        value_print(&text, &v);
        add_cell(r, n->key, FLEET_KNOWN, text.n != 0 ? text.p : "(empty)");
    } else if (strcmp(state, fact_state_name(FACT_DENIED)) == 0 ||
               strcmp(state, fact_state_name(FACT_UNREADABLE)) == 0) {
        add_cell(r, n->key, FLEET_UNREAD, tree_text(n, "reason", state));
    }
}

/* Straight from the document, not through a fact store: a fleet has thousands of such files, and most facts of a
 * file are not compared. */
static enum status read_facts(struct reading *r, const struct tree *facts, const char *name)
{
    TRY(check_facts(r, facts, name));
    for (const struct tree *n = facts->child; n != NULL; n = n->next) {
        if (item_of(r, n->key) != NULL) {
            add_fact(r, n);
        }
    }
    const char *read = tree_text(tree_get(facts, "env.read"), "value", "false");
    if (strcmp(read, "true") != 0) {
        add_unread(r, "env.");
    }
    return ST_OK;
}

static enum status read_stack(struct reading *r, struct str text, const char *name)
{
    struct stack s;
    TRY(stack_read(r->scratch, text, name, &s, r->err));
    for (size_t i = 0; i < s.items.count; i++) {
        const struct stack_item *it = &s.items.items[i];
        const char *value = it->version != NULL ? it->version : "(no version)";
        if (it->build_id != NULL) {
            value = arena_fmt(r->scratch, "%s (build %.12s)", value, it->build_id);
        }
        if (it->digest != NULL) {
            value = arena_fmt(r->scratch, "%s (record %.12s)", value, it->digest);
        }
        add_cell(r, arena_fmt(r->scratch, "%s/%s", stack_section_name(it->section), it->name),
                 FLEET_KNOWN, value);
    }
    for (size_t i = 0; i < s.gaps.count; i++) {
        const struct stack_gap *g = &s.gaps.items[i];
        const char *section = stack_section_name(g->section);
        if (g->name == NULL) {
            add_unread(r, arena_fmt(r->scratch, "%s/", section));
        } else {
            add_cell(r, arena_fmt(r->scratch, "%s/%s", section, g->name), FLEET_UNREAD, g->reason);
        }
    }
    return ST_OK;
}

static enum status read_record(struct reading *r, const struct tree *t, const char *name)
{
    const char *outcome = tree_text(t, "outcome", NULL);
    if (outcome == NULL) {
        return err_set(r->err, ST_FORMAT, "%s: the record has no 'outcome'", name);
    }
    bool told = strcmp(outcome, "unknown") != 0;
    add_cell(r, "outcome", told ? FLEET_KNOWN : FLEET_UNREAD,
             told ? outcome : "the node could not tell: see its own record");
    const struct tree *stages = tree_get(t, "stages");
    for (const struct tree *s = stages != NULL ? stages->child : NULL; s != NULL; s = s->next) {
        add_cell(r, arena_fmt(r->scratch, "stage/%s", tree_text(s, "name", "?")), FLEET_KNOWN,
                 tree_text(s, "verdict", "?"));
    }
    const struct tree *findings = tree_get(t, "findings");
    for (const struct tree *s = findings != NULL ? findings->child : NULL; s != NULL; s = s->next) {
        const char *severity = tree_text(s, "severity", "?");
        if (strcmp(severity, "ok") != 0 && strcmp(severity, "note") != 0) {
            add_cell(r, arena_fmt(r->scratch, "finding/%s", tree_text(s, "id", "?")), FLEET_KNOWN,
                     severity);
        }
    }
    return ST_OK;
}

static enum status read_figures(struct reading *r, const struct tree *list)
{
    for (const struct tree *s = list->child; s != NULL; s = s->next) {
        const struct tree *value = tree_get(s, "value");
        bool known = value != NULL && value->kind == TREE_SCALAR && value->value.kind != VALUE_NULL;
        const char *key = arena_fmt(r->scratch, "%s %s", tree_text(s, "what", "?"),
                                    tree_text(s, "unit", ""));
        add_cell(r, key, known ? FLEET_KNOWN : FLEET_UNREAD,
                 known ? value->text : tree_text(s, "note", "not measured"));
    }
    return ST_OK;
}

/* Which of the four forms it is, by what it holds. */
static enum status kind_of(const struct tree *t, const char *name, enum fleet_kind *ret_kind,
                           struct err *err)
{
    const struct tree *facts = tree_get(t, "facts");
    const struct tree *figures = tree_get(t, "figures");
    const char *command = tree_text(t, "command", "");
    if (facts != NULL && facts->kind == TREE_MAP && facts->count != 0) {
        *ret_kind = FLEET_FACTS;
    } else if (tree_get(t, "stack") != NULL) {
        *ret_kind = FLEET_STACK;
    } else if (figures != NULL && figures->kind == TREE_LIST && strcmp(command, "probe") == 0) {
        *ret_kind = FLEET_FIGURE;
    } else if (strcmp(command, "qualify") == 0 || strcmp(command, "doctor") == 0) {
        *ret_kind = FLEET_RECORD;
    } else {
        return err_set(err, ST_FORMAT,
                       "%s is none of: doctor --facts --json, snapshot, qualify --json, doctor "
                       "--json, probe --figures DEVICE --json",
                       name);
    }
    return ST_OK;
}

static enum status read_file(struct reading *r, struct str text, const char *file)
{
    const struct tree_limits limits = {.bytes = FLEET_FILE_MAX, .nodes = 1000000, .depth = 64};
    const struct tree *t;
    if (str_trim(text).n == 0) {
        return err_set(r->err, ST_FORMAT,
                       "%s is empty: the command on that node wrote nothing; look at its exit "
                       "status and standard error",
                       file);
    }
    TRY(tree_from_json(r->scratch, text, file, limits, &t, r->err));
    TRY(kind_of(t, file, &r->kind, r->err));
    struct fleet_node *node = &r->fleet->nodes.items[r->node];
    if (node->files[r->kind] != NULL) {
        return err_set(r->err, ST_FORMAT, "%s: %s says the same of the node '%s' already", file,
                       node->files[r->kind], node->name);
    }
    switch (r->kind) {
    case FLEET_FACTS: TRY(read_facts(r, tree_get(t, "facts"), file)); break;
    case FLEET_STACK: TRY(read_stack(r, text, file)); break;
    case FLEET_RECORD: TRY(read_record(r, t, file)); break;
    default: TRY(read_figures(r, tree_get(t, "figures"))); break;
    }
    node->files[r->kind] = arena_strdup(r->fleet->arena, file);
    return ST_OK;
}

void fleet_add_broken(struct fleet *f, const char *node, const char *file, const char *reason)
{
    *VEC_PUSH(f->arena, &f->broken) = (struct fleet_broken){
        .file = arena_strdup(f->arena, file),
        .node = arena_strdup(f->arena, node),
        .reason = arena_strdup(f->arena, reason),
    };
}

enum status fleet_add(struct fleet *f, struct arena *scratch, const char *node, const char *file,
                      struct str text, struct err *err)
{
    size_t n = f->nodes.count;
    if (n == 0 || strcmp(f->nodes.items[n - 1].name, node) != 0) {
        if (n == FLEET_MAX_NODES) {
            return err_set(err, ST_LIMIT, "there are more than %d nodes", FLEET_MAX_NODES);
        }
        VEC_PUSH(f->arena, &f->nodes)->name = arena_strdup(f->arena, node);
        n++;
    }
    struct err broken = {0};
    struct arena_mark mark = arena_mark(scratch);
    struct reading r = {.fleet = f, .scratch = scratch, .node = (uint32_t)(n - 1), .err = &broken};
    if (read_file(&r, text, file) != ST_OK) {
        fleet_add_broken(f, node, file, broken.text);
    }
    arena_rewind(scratch, mark);
    if (f->cell_count >= FLEET_MAX_CELLS || map_count(f->items) >= FLEET_MAX_ITEMS) {
        return err_set(err, ST_LIMIT,
                       "the nodes say more than is compared at once (%d facts, %d values): compare "
                       "fewer files",
                       FLEET_MAX_ITEMS, FLEET_MAX_CELLS);
    }
    return ST_OK;
}
