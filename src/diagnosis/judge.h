// SPDX-License-Identifier: Apache-2.0
/*
 * Doctor's judge: rules of knowledge/rules over the facts of a machine. A rule that is true becomes a
 * finding; a rule that needs a fact which was denied or unreadable becomes "could not tell"; the rest
 * is silent. Switches that are set and do nothing are found from knowledge/switches.yaml.
 */
#ifndef ASSAY_DIAGNOSIS_JUDGE_H
#define ASSAY_DIAGNOSIS_JUDGE_H

#include "base/finding.h"

#include "facts/facts.h"
#include "knowledge/knowledge.h"

struct health_row {
    const char *id;
    enum severity severity; /* SEVERITY_OK when the rule did not fire */
    int weight;
    int lost;
};

struct health {
    int score;         /* health_score() */
    double confidence; /* weight of the rules that could be told, over the weight of all; 0..1 */
    struct health_row *items;
    size_t count;
    size_t capacity;
};

enum {
    HEALTH_WITH_ERROR = 59 /* most that is left beside an error; warnings alone leave more */
};

/* What a row costs: its weight for an error, a quarter (rounded up) for a warning or a note, else nothing. */
int health_lost(enum severity severity, int weight);

/* 100 minus what the rows lost; 0 to HEALTH_WITH_ERROR with an error among them, above it without. */
int health_score(const struct health *health);

/* `stage` NULL takes all rules, else those of that stage ("host", "stack", "config"). Findings are appended,
 * worst first. */
void doctor_judge(struct arena *arena, const struct knowledge *k, const struct facts *facts,
                  const char *stage, struct finding_list *findings, struct health *ret_health);

/* Sorts by severity (errors, warnings, could not tell, notes), then by id. */
void findings_sort(struct finding_list *findings);

#endif
