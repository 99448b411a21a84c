// SPDX-License-Identifier: Apache-2.0
/* knowledge/rules (doctor) and knowledge/switches.yaml. */
#include <string.h>

#include "knowledge/load.h"

static const char *const severities[] = {"note", "warning", "error"};

/* Points off the health score when a rule says none. */
static const int default_weight[] = {0, 5, 20};

static void load_rule(struct loader *l, const char *file, const struct tree *node,
                      const char *stage)
{
    static const char *const keys[] = {"id",    "severity", "for",    "when",  "needs",  "title",
                                       "claim", "evidence", "remedy", "links", "weight", "notes"};
    if (!load_keys(l, file, node, keys, ARRAY_LEN(keys))) {
        return;
    }
    struct rule r = {.where = load_where(l, file, node), .stage = stage};
    r.id = load_text(l, file, node, "id", true);
    int severity = load_choice(l, file, node, "severity", severities, ARRAY_LEN(severities), -1);
    r.each = load_text(l, file, node, "for", false);
    r.when = load_expr(l, file, node, "when", true);
    r.needs = load_text_list(l, file, node, "needs");
    r.title = load_text(l, file, node, "title", true);
    r.claim = load_text(l, file, node, "claim", false);
    r.evidence = load_text_list(l, file, node, "evidence");
    r.remedy = load_text_list(l, file, node, "remedy");
    r.links = load_text_list(l, file, node, "links");
    r.weight = (int)load_int(l, file, node, "weight", 0, 100,
                             severity >= 0 ? default_weight[severity] : 0);
    if (r.id == NULL || severity < 0 || r.when == NULL || r.title == NULL) {
        return;
    }
    if (!load_is_kebab(r.id)) {
        load_problem(l, r.where, "the id '%.80s' should be small letters, digits and dashes", r.id);
    }
    if (r.each != NULL && strchr(r.each, '*') == NULL) {
        load_problem(l, r.where, "'for' should be a key with a '*', as gpu[*] or lib.*");
        return;
    }
    r.severity = severity == 0 ? SEVERITY_NOTE : severity == 1 ? SEVERITY_WARNING : SEVERITY_ERROR;
    if (load_unique(l, l->rule_ids, "rule", r.id, r.where)) {
        *VEC_PUSH(l->arena, &l->rules) = r;
    }
}

void load_rules(struct loader *l, const char *file, const struct tree *root)
{
    static const char *const stages[] = {"host", "stack", "config"};
    const struct tree *list = load_list(l, file, root, "rules", "stage");
    if (list == NULL) {
        return;
    }
    int stage = load_choice(l, file, root, "stage", stages, ARRAY_LEN(stages), 1);
    for (const struct tree *c = list->child; c != NULL; c = c->next) {
        load_rule(l, file, c, stages[stage >= 0 ? stage : 1]);
    }
}

static void load_switch(struct loader *l, const char *file, const struct tree *node)
{
    static const char *const keys[] = {"name",  "read_by", "effect", "says", "instead",
                                       "since", "until",   "source", "notes"};
    static const char *const effects[] = {"real", "none", "debug-only", "obsolete", "build-time"};
    if (!load_keys(l, file, node, keys, ARRAY_LEN(keys))) {
        return;
    }
    struct known_switch s = {0};
    s.name = load_text(l, file, node, "name", true);
    s.read_by = load_text_list(l, file, node, "read_by");
    int effect = load_choice(l, file, node, "effect", effects, ARRAY_LEN(effects), -1);
    s.says = load_text(l, file, node, "says", true);
    s.instead = load_text(l, file, node, "instead", false);
    s.since = load_text(l, file, node, "since", false);
    s.until = load_text(l, file, node, "until", false);
    s.source = load_text(l, file, node, "source", false);
    if (s.name == NULL || s.says == NULL || effect < 0) {
        return;
    }
    s.effect = (enum switch_effect)effect;
    if (load_unique(l, l->switch_names, "switch", s.name, load_where(l, file, node))) {
        *VEC_PUSH(l->arena, &l->switches) = s;
    }
}

void load_switches(struct loader *l, const char *file, const struct tree *root)
{
    const struct tree *list = load_list(l, file, root, "switches", NULL);
    for (const struct tree *c = list != NULL ? list->child : NULL; c != NULL; c = c->next) {
        load_switch(l, file, c);
    }
}
