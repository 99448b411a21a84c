// SPDX-License-Identifier: Apache-2.0
/* Walks a knowledge folder and puts the rows together. */
#include "knowledge/load.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    MAX_FILE = 4 << 20,
    MAX_FILES = 500,
    MAX_NODES = 500000,
    MAX_DEPTH = 16
};

void load_problem(struct loader *l, const char *where, const char *fmt, ...)
{
    if (l->problems->count >= KNOWLEDGE_MAX_PROBLEMS) {
        return;
    }
    char message[700];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    *VEC_PUSH(l->arena, l->problems) = arena_fmt(l->arena, "%s: %s", where, message);
}

bool load_unique(struct loader *l, struct map *names, const char *what, const char *name,
                 const char *where)
{
    const char *first = map_get(names, str_of(name));
    if (first != NULL) {
        load_problem(l, where, "the %s '%.80s' is already defined at %s", what, name, first);
        return false;
    }
    map_put(names, str_of(name), (void *)where);
    return true;
}

/* Reads a file under the folder; ST_ABSENT is the caller's to judge. */
static enum status read_text(struct loader *l, const char *file, struct str *ret_text,
                             struct err *err)
{
    const struct fs live = {.prefix = ""};
    return fs_read(&live, l->arena, arena_fmt(l->arena, "%s/%s", l->dir, file), MAX_FILE, ret_text,
                   err);
}

static void read_document(struct loader *l, const char *file,
                          void (*take)(struct loader *l, const char *file, const struct tree *root))
{
    struct str text;
    struct err err = {0};
    const struct tree *root;
    struct tree_limits limits = {.bytes = MAX_FILE, .nodes = MAX_NODES, .depth = MAX_DEPTH};
    enum status status = read_text(l, file, &text, &err);
    if (status == ST_OK) {
        status = tree_from_yaml(l->arena, text, file, limits, &root, &err);
    }
    if (status != ST_OK) {
        *VEC_PUSH(l->arena, l->problems) = arena_strdup(l->arena, err.text);
        return;
    }
    take(l, file, root);
}

static void read_table(struct loader *l, const char *file,
                       void (*take)(struct loader *l, const char *file, struct str text))
{
    struct str text;
    struct err err = {0};
    if (read_text(l, file, &text, &err) != ST_OK) {
        *VEC_PUSH(l->arena, l->problems) = arena_strdup(l->arena, err.text);
        return;
    }
    take(l, file, text);
}

/* Every .yaml file of a subfolder, by name. A folder that is not there holds none. */
static void read_folder(struct loader *l, const char *folder,
                        void (*take)(struct loader *l, const char *file, const struct tree *root))
{
    const struct fs live = {.prefix = ""};
    const char *const *names;
    size_t count;
    struct err err = {0};
    enum status status = fs_list(&live, l->arena, arena_fmt(l->arena, "%s/%s", l->dir, folder),
                                 &names, &count, &err);
    if (status == ST_ABSENT) {
        return;
    }
    if (status != ST_OK) {
        *VEC_PUSH(l->arena, l->problems) = arena_strdup(l->arena, err.text);
        return;
    }
    if (count > MAX_FILES) {
        load_problem(l, folder, "the folder holds more than %d files", MAX_FILES);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (str_ends(str_of(names[i]), ".yaml") && names[i][0] != '.') {
            read_document(l, arena_fmt(l->arena, "%s/%s", folder, names[i]), take);
        }
    }
}

/* A file that may be missing: then nothing is known about its subject. */
static void read_optional(struct loader *l, const char *file,
                          void (*take)(struct loader *l, const char *file, const struct tree *root))
{
    const struct fs live = {.prefix = ""};
    if (fs_exists(&live, l->arena, arena_fmt(l->arena, "%s/%s", l->dir, file))) {
        read_document(l, file, take);
    }
}

static struct knowledge *put_together(struct loader *l)
{
    struct knowledge *k = arena_alloc(l->arena, sizeof *k);
    k->arena = l->arena;
    k->patterns = l->patterns.items;
    k->patterns_count = l->patterns.count;
    k->causes = l->causes.items;
    k->causes_count = l->causes.count;
    k->rules = l->rules.items;
    k->rules_count = l->rules.count;
    k->switches = l->switches.items;
    k->switches_count = l->switches.count;
    k->fact_keys = l->fact_keys.items;
    k->fact_keys_count = l->fact_keys.count;
    k->taxons = l->taxons.items;
    k->taxons_count = l->taxons.count;
    k->translations = l->translations.items;
    k->translations_count = l->translations.count;
    k->lint_keys = l->lint_keys.items;
    k->lint_keys_count = l->lint_keys.count;
    k->graph_nodes = l->graph_nodes.items;
    k->graph_nodes_count = l->graph_nodes.count;
    return k;
}

static enum status load_dir(struct arena *a, const char *dir, struct text_list *problems,
                            struct knowledge **ret_knowledge, struct err *err)
{
    const struct fs live = {.prefix = ""};
    if (!fs_is_dir(&live, a, dir)) {
        return err_set(err, ST_ABSENT, "'%s' is not a folder of knowledge", dir);
    }
    struct loader *l = arena_alloc(a, sizeof *l);
    l->arena = a;
    l->dir = dir;
    l->problems = problems;
    l->pattern_ids = map_new(a);
    l->cause_slugs = map_new(a);
    l->rule_ids = map_new(a);
    l->switch_names = map_new(a);
    l->lint_names = map_new(a);
    l->graph_ids = map_new(a);
    read_table(l, "taxonomy.tsv", load_taxonomy);
    read_table(l, "fact_keys.tsv", load_fact_keys);
    read_folder(l, "patterns", load_patterns);
    read_folder(l, "causes", load_causes);
    read_folder(l, "rules", load_rules);
    read_optional(l, "switches.yaml", load_switches);
    read_folder(l, "lint", load_lint);
    read_optional(l, "graph.yaml", load_graph);
    read_folder(l, "texts", load_texts);
    struct knowledge *k = put_together(l);
    load_check_references(l, k);
    *ret_knowledge = k;
    return ST_OK;
}

enum status knowledge_check_dir(struct arena *a, const char *dir,
                                const struct knowledge **ret_knowledge, struct text_list *problems,
                                struct err *err)
{
    struct knowledge *k;
    TRY(load_dir(a, dir, problems, &k, err));
    *ret_knowledge = k;
    return ST_OK;
}

enum status knowledge_from_dir(struct arena *a, const char *dir, const char *language,
                               const struct knowledge **ret_knowledge, struct err *err)
{
    struct text_list problems = {0};
    struct knowledge *k;
    TRY(load_dir(a, dir, &problems, &k, err));
    if (problems.count > 1) {
        return err_set(err, ST_FORMAT, "%s/%s (and %zu more problems)", dir, problems.items[0],
                       problems.count - 1);
    }
    if (problems.count != 0) {
        return err_set(err, ST_FORMAT, "%s/%s", dir, problems.items[0]);
    }
    knowledge_translate(k, a, language);
    *ret_knowledge = k;
    return ST_OK;
}
