// SPDX-License-Identifier: Apache-2.0
/* Training configurations through the lint, the rules and the decision path. */
#include <stdint.h>

#include "diagnosis/graph.h"
#include "diagnosis/judge.h"
#include "diagnosis/lint.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct arena *a = arena_new(512u << 20);
    static const struct fs fs = {.prefix = "/nonexistent"};
    struct str text = {.p = (const char *)bytes, .n = n};
    struct job_config config;
    const struct knowledge *k;
    struct err err = {0};
    if (knowledge_builtin(a, NULL, &k, &err) == ST_OK &&
        job_config_parse(a, &fs, text, "/w/train.yaml", &config, &err) == ST_OK) {
        struct facts *facts = facts_new(a);
        struct finding_list findings = {0};
        struct health health;
        struct graph graph;
        struct strbuf out;
        job_config_facts(&config, &fs, facts, a);
        lint_facts(a, k, &config, facts);
        doctor_judge(a, k, facts, "config", &findings, &health);
        lint_keys(a, k, &config, &findings);
        graph_walk(a, k, facts, &graph);
        strbuf_init(&out, a, 1u << 20);
        graph_mermaid(&graph, &out);
    }
    arena_free(a);
    return 0;
}
