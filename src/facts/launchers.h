// SPDX-License-Identifier: Apache-2.0
/* Training launchers and zombies among the processes. Part of process.c's facts. */
#ifndef ASSAY_FACTS_LAUNCHERS_H
#define ASSAY_FACTS_LAUNCHERS_H

struct collect;

/* Sets proc.launchers and proc.zombies_present. */
void launchers_facts(struct collect *c);

#endif
