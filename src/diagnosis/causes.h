// SPDX-License-Identifier: Apache-2.0
/*
 * From events and facts to root causes, by the model that docs/knowledge.md states in full: evidence
 * for and against adds up, a cause that stands takes the events it explains with it.
 */
#ifndef ASSAY_DIAGNOSIS_CAUSES_H
#define ASSAY_DIAGNOSIS_CAUSES_H

#include "base/finding.h"

#include "diagnosis/events.h"
#include "facts/facts.h"

struct diagnosis {
    struct finding_list causes;    /* best first; empty when nothing is wrong */
    struct finding_list secondary; /* what follows from them: weaker causes, consequence lines */
    struct finding_list unknown;   /* fault lines that no cause explains */
    struct text_list notes;        /* what would settle an open question */
};

/* facts may be NULL; what the log says of the machine is added (log_machine.h). Results live on
 * `arena`. */
void diagnose(struct arena *arena, const struct knowledge *k, const struct facts *facts,
              const struct log_facts *log, struct diagnosis *ret_diagnosis);

#endif
