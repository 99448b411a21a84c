// SPDX-License-Identifier: Apache-2.0
/* YAML of knowledge files: rules, causes, switches and texts, told apart by their first key; then the
 * references between them. Patterns are left out: their expressions go to vectorscan as they are. */
#include <stdint.h>

#include "knowledge/blob.h"
#include "knowledge/load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take(struct loader *l, const struct tree *root)
{
    if (tree_get(root, "rules") != NULL) {
        load_rules(l, "rules/x.yaml", root);
    } else if (tree_get(root, "causes") != NULL) {
        load_causes(l, "causes/x.yaml", root);
    } else if (tree_get(root, "switches") != NULL) {
        load_switches(l, "switches.yaml", root);
    } else {
        load_texts(l, "texts/x.yaml", root);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new((size_t)512 << 20);
    struct text_list problems = {0};
    struct loader *l = arena_alloc(a, sizeof *l);
    l->arena = a;
    l->dir = ".";
    l->problems = &problems;
    l->pattern_ids = map_new(a);
    l->cause_slugs = map_new(a);
    l->rule_ids = map_new(a);
    l->switch_names = map_new(a);
    struct tree_limits limits = {.bytes = 1 << 20, .nodes = 20000, .depth = 16};
    const struct tree *root;
    struct err err;
    struct str text = {.p = (const char *)data, .n = size};
    if (tree_from_yaml(a, text, "input", limits, &root, &err) == ST_OK) {
        load_fact_keys(l, "fact_keys.tsv",
                       STR("key\ttype\tunit\twhere\tmeaning\ngpu[].gfx\tstring\t\t\t\n"));
        load_taxonomy(l, "taxonomy.tsv", STR("slug\tlayer\td\tm\ts\noom-true\tdata\t\t\t\n"));
        take(l, root);
        struct knowledge k = {.arena = a,
                              .causes = l->causes.items,
                              .causes_count = l->causes.count,
                              .rules = l->rules.items,
                              .rules_count = l->rules.count,
                              .switches = l->switches.items,
                              .switches_count = l->switches.count,
                              .fact_keys = l->fact_keys.items,
                              .fact_keys_count = l->fact_keys.count,
                              .taxons = l->taxons.items,
                              .taxons_count = l->taxons.count,
                              .translations = l->translations.items,
                              .translations_count = l->translations.count};
        load_check_references(l, &k);
        const struct knowledge *back;
        struct str blob = knowledge_blob_write(a, &k);
        if (knowledge_blob_read(a, blob, "x", &back, &err) != ST_OK) {
            __builtin_trap(); /* what was written must be readable */
        }
    }
    arena_free(a);
    return 0;
}
